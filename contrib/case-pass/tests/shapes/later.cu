// An allocation after a launch whose size is known from the start: one task for both.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void first(int *a) { a[threadIdx.x] = 5; }
__global__ void second(const int *a, int *b) { b[threadIdx.x] = a[threadIdx.x] + 1; }

__attribute__((noinline)) int run(int n) {
  int *a, *b, host[64];
  cudaMalloc(&a, n * sizeof(int));
  first<<<1, n>>>(a);
  cudaMalloc(&b, 2 * n * sizeof(int));
  second<<<1, n>>>(a, b);
  cudaMemcpy(host, b, n * sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(a);
  cudaFree(b);
  return host[n - 1];
}

int main() { printf("%d\n", run(64)); }
