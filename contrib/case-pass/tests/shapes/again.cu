// A variable that names two objects in turn: two tasks, one after the other.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(int *v, int value) { v[threadIdx.x] = value; }

int main() {
  int *v, host[32], sum = 0;
  cudaMalloc(&v, 32 * sizeof(int));
  fill<<<1, 32>>>(v, 1);
  cudaMemcpy(host, v, sizeof(host), cudaMemcpyDeviceToHost);
  cudaFree(v);
  sum += host[0];
  cudaMalloc(&v, 64 * sizeof(int));
  fill<<<1, 64>>>(v, 2);
  cudaMemcpy(host, v, sizeof(host), cudaMemcpyDeviceToHost);
  cudaFree(v);
  printf("%d\n", sum + host[0]);
}
