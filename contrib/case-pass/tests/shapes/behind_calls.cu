// Allocation behind two calls that must stay calls, with the object in a global variable: lazy.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(int *v, int value) { v[threadIdx.x] = value; }

static int *buffer;

__attribute__((noinline)) void allocate(int **v, int n) { cudaMalloc(v, n * sizeof(int)); }
__attribute__((noinline)) void init(int n) { allocate(&buffer, n); }
__attribute__((noinline)) void execute(int n) { fill<<<1, n>>>(buffer, 7); }
__attribute__((noinline)) int finish() {
  int last;
  cudaMemcpy(&last, buffer + 31, sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(buffer);
  return last;
}

int main() {
  init(32);
  int host[32] = {1};
  cudaMemcpy(buffer, host, sizeof(host), cudaMemcpyHostToDevice);
  execute(32);
  printf("%d\n", finish());
}
