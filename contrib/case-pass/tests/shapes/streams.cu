// Two independent tasks on two streams, and copies that the streams order.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void set(int *v, int value) { v[threadIdx.x] = value; }

int main() {
  cudaStream_t s, t;
  cudaStreamCreate(&s);
  cudaStreamCreate(&t);
  int *a, *b, x[32], y[64];
  cudaMalloc(&a, sizeof(x));
  cudaMalloc(&b, sizeof(y));
  set<<<1, 32, 0, s>>>(a, 1);
  set<<<1, 64, 0, t>>>(b, 2);
  cudaMemcpyAsync(x, a, sizeof(x), cudaMemcpyDeviceToHost, s);
  cudaMemcpyAsync(y, b, sizeof(y), cudaMemcpyDeviceToHost, t);
  cudaStreamSynchronize(s);
  cudaStreamSynchronize(t);
  cudaFree(a);
  cudaFree(b);
  cudaStreamDestroy(s);
  cudaStreamDestroy(t);
  printf("%d %d\n", x[31], y[63]);
}
