// The first kernel says how much memory the second needs: nobody knows it at the first allocation.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void measure(int *n) { *n = 48; }
__global__ void use(const int *n, int *v) { v[threadIdx.x] = *n + threadIdx.x; }

int main() {
  int *n, *v, length, host[64];
  cudaMalloc(&n, sizeof(int));
  measure<<<1, 1>>>(n);
  cudaMemcpy(&length, n, sizeof(int), cudaMemcpyDeviceToHost);
  cudaMalloc(&v, length * sizeof(int));
  use<<<1, length>>>(n, v);
  cudaMemcpy(host, v, length * sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(v);
  cudaFree(n);
  printf("%d %d\n", length, host[length - 1]);
}
