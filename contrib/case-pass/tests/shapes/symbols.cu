// A variable on the device: it is on one device only, so all tasks of the process go there.
#include <cstdio>
#include <cuda_runtime.h>

__constant__ int offset;

__global__ void shift(int *v) { v[threadIdx.x] = threadIdx.x + offset; }

int main() {
  int value = 100, *v, host[32];
  cudaMemcpyToSymbol(offset, &value, sizeof(int));
  cudaMalloc(&v, sizeof(host));
  shift<<<1, 32>>>(v);
  cudaMemcpy(host, v, sizeof(host), cudaMemcpyDeviceToHost);
  cudaFree(v);
  printf("%d\n", host[31]);
}
