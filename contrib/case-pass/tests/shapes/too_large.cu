// A lazy allocation above every device fails as it would without the pass, and the program asks for less.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(int *v, int value) { v[threadIdx.x] = value; }

static int *buffer;

__attribute__((noinline)) cudaError_t allocate(size_t bytes) { return cudaMalloc(&buffer, bytes); }

int main() {
  cudaError_t whole = allocate(size_t(1) << 40), less = allocate(1 << 20);
  if (whole != cudaSuccess && less == cudaSuccess)
    fill<<<1, 32>>>(buffer, 6);
  int host[32] = {};
  cudaMemcpy(host, buffer, sizeof(host), cudaMemcpyDeviceToHost);
  cudaFree(buffer);
  printf("%s, %s: %d\n", cudaGetErrorName(whole), cudaGetErrorName(less), host[31]);
}
