// A loop that leaves at a failed allocation and frees in two places: the optimizer joins the frees in a block without lines.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(float *v, float x) { v[threadIdx.x] = x; }

int main() {
  for (int i = 0; i < 3; ++i) {
    float *v;
    if (cudaMalloc(&v, 64 * sizeof(float)) != cudaSuccess)
      break;
    fill<<<1, 64>>>(v, i);
    float first;
    cudaMemcpy(&first, v, sizeof(float), cudaMemcpyDeviceToHost);
    if (first > 1) {
      cudaFree(v);
      continue;
    }
    cudaFree(v);
    printf("%g\n", first);
  }
}
