// A function that other files may call too sets the heap limit. Behind its call in main, the limit is known. It may be read
// before the first allocation and in the task.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(int *v) { v[threadIdx.x] = 4; }

void heap(size_t bytes) { cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes); }

static size_t limit() {
  size_t bytes = 0;
  cudaDeviceGetLimit(&bytes, cudaLimitMallocHeapSize);
  return bytes;
}

int main() {
  heap(32 << 20);
  size_t before = limit();
  int *v, host[32];
  cudaMalloc(&v, sizeof(host));
  size_t within = limit();
  fill<<<1, 32>>>(v);
  cudaMemcpy(host, v, sizeof(host), cudaMemcpyDeviceToHost);
  cudaFree(v);
  printf("%d %zu %zu\n", host[0], before, within);
}
