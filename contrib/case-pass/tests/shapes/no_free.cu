// main never frees: the task lasts until the process ends. A function that does not free is lazy.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(int *v, int value) { v[threadIdx.x] = value; }

__attribute__((noinline)) int leak(int value) {
  int *v, host[32];
  cudaMalloc(&v, sizeof(host));
  fill<<<1, 32>>>(v, value);
  cudaMemcpy(host, v, sizeof(host), cudaMemcpyDeviceToHost);
  return host[31];
}

int main() {
  int *v, host[32];
  cudaMalloc(&v, sizeof(host));
  fill<<<1, 32>>>(v, 3);
  cudaMemcpy(host, v, sizeof(host), cudaMemcpyDeviceToHost);
  printf("%d %d\n", host[0], leak(4));
}
