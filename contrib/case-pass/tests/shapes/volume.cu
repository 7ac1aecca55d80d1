// A 3D allocation, which a kernel gets by value.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void mark(cudaPitchedPtr p, int height) {
  char *slice = (char *)p.ptr + blockIdx.y * p.pitch * height;
  ((int *)(slice + blockIdx.x * p.pitch))[threadIdx.x] = blockIdx.x + 10 * blockIdx.y;
}

int main() {
  cudaExtent extent = make_cudaExtent(16 * sizeof(int), 4, 3);
  cudaPitchedPtr p;
  cudaMalloc3D(&p, extent);
  cudaMemset(p.ptr, 0, p.pitch * 4 * 3);
  mark<<<dim3(4, 3), 16>>>(p, 4);
  int last;
  cudaMemcpy(&last, (char *)p.ptr + p.pitch * 11, sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(p.ptr);
  printf("%d %zu %zu\n", last, p.xsize, p.ysize);
}
