// Two buffers in an array that change places by their index, as in Rodinia's hotspot.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void step(const int *from, int *to) { to[threadIdx.x] = from[threadIdx.x] + 1; }

int main(int argc, char **) {
  int host[32] = {};
  int *buffers[2];
  cudaMalloc(&buffers[0], sizeof(host));
  cudaMalloc(&buffers[1], sizeof(host));
  cudaMemcpy(buffers[0], host, sizeof(host), cudaMemcpyHostToDevice);
  int from = 1, to = 0;
  for (int i = 0; i < 6 + argc; ++i) {
    int swap = from;
    from = to;
    to = swap;
    step<<<1, 32>>>(buffers[from], buffers[to]);
  }
  cudaMemcpy(host, buffers[to], sizeof(host), cudaMemcpyDeviceToHost);
  cudaFree(buffers[0]);
  cudaFree(buffers[1]);
  printf("%d\n", host[9]);
}
