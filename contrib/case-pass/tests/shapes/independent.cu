// Two tasks that share nothing, open at the same time: each may go to a device of its own.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void one(int *v) { v[threadIdx.x] = 1; }
__global__ void two(int *v) { v[threadIdx.x] = 2; }

int main() {
  int *a, *b, x[32], y[64];
  cudaMalloc(&a, sizeof(x));
  cudaMalloc(&b, sizeof(y));
  one<<<1, 32>>>(a);
  two<<<2, 32>>>(b);
  cudaDeviceSynchronize();
  cudaMemcpy(x, a, sizeof(x), cudaMemcpyDeviceToHost);
  cudaMemcpy(y, b, sizeof(y), cudaMemcpyDeviceToHost);
  cudaFree(a);
  cudaFree(b);
  printf("%d %d\n", x[31], y[31]);
}
