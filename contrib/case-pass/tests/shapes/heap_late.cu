// The heap limit is set in a function that stays one: the task is lazy. What is read of the limit is what was set.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(int *v) { v[threadIdx.x] = 4; }

__attribute__((noinline)) void heap(size_t bytes) { cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes); }

int main() {
  heap(32 << 20);
  int *v, host[32];
  cudaMalloc(&v, sizeof(host));
  fill<<<1, 32>>>(v);
  size_t bytes = 0;
  cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize);
  cudaMemcpy(host, v, sizeof(host), cudaMemcpyDeviceToHost);
  cudaFree(v);
  printf("%d %zu\n", host[0], bytes);
}
