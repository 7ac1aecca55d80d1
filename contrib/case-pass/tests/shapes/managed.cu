// Managed memory: the host reads and writes it between launches.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void twice(int *v) { v[threadIdx.x] *= 2; }

int main() {
  int *v;
  cudaMallocManaged(&v, 32 * sizeof(int));
  for (int i = 0; i < 32; ++i)
    v[i] = i;
  twice<<<1, 32>>>(v);
  cudaDeviceSynchronize();
  v[31] += 1;
  twice<<<1, 32>>>(v);
  cudaDeviceSynchronize();
  printf("%d %d\n", v[30], v[31]);
  cudaFree(v);
}
