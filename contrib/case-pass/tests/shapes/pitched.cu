// Pitched memory, copied by rows.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void mark(int *v, size_t pitch) {
  int *row = (int *)((char *)v + blockIdx.x * pitch);
  row[threadIdx.x] += blockIdx.x;
}

int main() {
  int host[4][50], *v;
  for (auto &row : host)
    for (int &x : row)
      x = 10;
  size_t pitch;
  cudaMallocPitch(&v, &pitch, 50 * sizeof(int), 4);
  cudaMemcpy2D(v, pitch, host, sizeof(host[0]), sizeof(host[0]), 4, cudaMemcpyHostToDevice);
  mark<<<4, 50>>>(v, pitch);
  cudaMemcpy2D(host, sizeof(host[0]), v, pitch, sizeof(host[0]), 4, cudaMemcpyDeviceToHost);
  cudaFree(v);
  printf("%d %d\n", host[0][0], host[3][49]);
}
