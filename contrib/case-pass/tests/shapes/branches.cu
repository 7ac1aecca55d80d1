// Launches in branches: the begin comes before the branch, one free after it. The larger grid and block count.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void small(int *v) { v[threadIdx.x] = 1; }
__global__ void large(int *v) { v[blockIdx.x * blockDim.x + threadIdx.x] = 2; }

__attribute__((noinline)) int run(int n) {
  int *v, host[256];
  if (n < 64)
    cudaMalloc(&v, 64 * sizeof(int));
  else
    cudaMalloc(&v, 256 * sizeof(int));
  if (n < 64)
    small<<<1, 64>>>(v);
  else
    large<<<8, 32>>>(v);
  cudaMemcpy(host, v, n * sizeof(int), cudaMemcpyDeviceToHost);
  if (n < 64) {
    printf("small\n");
    cudaFree(v);
  } else {
    printf("large\n");
    cudaFree(v);
  }
  return host[n - 1];
}

int main() { printf("%d %d\n", run(63), run(256)); }
