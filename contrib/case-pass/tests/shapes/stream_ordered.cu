// Memory that a stream orders: it is given back only after the stream's work.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(int *v, int value) { v[threadIdx.x] = value; }

int main() {
  cudaStream_t s;
  cudaStreamCreate(&s);
  int *v, host[32];
  cudaMallocAsync((void **)&v, sizeof(host), s);
  fill<<<1, 32, 0, s>>>(v, 9);
  cudaMemcpyAsync(host, v, sizeof(host), cudaMemcpyDeviceToHost, s);
  cudaFreeAsync(v, s);
  cudaStreamSynchronize(s);
  printf("%d\n", host[31]);
  cudaStreamDestroy(s);
}
