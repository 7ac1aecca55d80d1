// The heap of kernels, set before the launch: it replaces the default of 8 MiB.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(int *v) { v[threadIdx.x] = 4; }

int main() {
  cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 << 20);
  int *v, host[32];
  cudaMalloc(&v, sizeof(host));
  fill<<<1, 32>>>(v);
  cudaMemcpy(host, v, sizeof(host), cudaMemcpyDeviceToHost);
  cudaFree(v);
  printf("%d\n", host[0]);
}
