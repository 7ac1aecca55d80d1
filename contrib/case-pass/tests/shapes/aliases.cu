// Other names for an object: copies of the pointer, a pointer into it, and one of two objects.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void fill(int *v, int value) { v[threadIdx.x] = value; }

int main(int argc, char **) {
  int *a, *b;
  cudaMalloc(&a, 64 * sizeof(int));
  cudaMalloc(&b, 64 * sizeof(int));
  int *alias = a, *middle = alias + 32, *one = argc > 1 ? a : b;
  fill<<<1, 32>>>(alias, 1);
  fill<<<1, 32>>>(middle, 2);
  fill<<<1, 64>>>(one, 3);
  int host[128];
  cudaMemcpy(host, a, 64 * sizeof(int), cudaMemcpyDeviceToHost);
  cudaMemcpy(host + 64, b, 64 * sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(alias);
  cudaFree(b);
  printf("%d %d %d\n", host[0], host[63], host[127]);
}
