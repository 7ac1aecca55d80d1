// SPDX-License-Identifier: MIT OR Apache-2.0
//
// In the style of Rodinia's programs: host memory in another file, sizes in a global variable, a kernel in a loop.
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

int cells;

__global__ void step(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    out[i] = 0.5f * in[i] + 0.25f * (in[i ? i - 1 : 0] + in[i + 1 < n ? i + 1 : i]);
}

extern "C" float *cells_of(int n);

int main(int argc, char **argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: stencil CELLS\n");
    return 1;
  }
  cells = atoi(argv[1]);
  float *host = cells_of(cells);
  float *from, *to;
  // The other file might have left something on the device that writes `cells`, for all that the pass can see.
  cudaDeviceSynchronize();
  cudaMalloc((void **)&from, cells * sizeof(float));
  cudaMemcpy(from, host, cells * sizeof(float), cudaMemcpyHostToDevice);
  cudaMalloc((void **)&to, cells * sizeof(float));
  dim3 grid, threads;
  threads.x = 64;
  int blocks = cells / threads.x;
  if (cells % threads.x)
    blocks++;
  for (int turn = 0; turn < 4; turn++) {
    grid.x = blocks;
    step<<<grid, threads>>>(turn % 2 ? to : from, turn % 2 ? from : to, cells);
  }
  cudaMemcpy(host, from, cells * sizeof(float), cudaMemcpyDeviceToHost);
  FILE *out = fopen("result.txt", "w");
  for (int i = 0; i < cells; i++)
    fprintf(out, "%f\n", host[i]);
  fclose(out);
  printf("%d cells\n", cells);
  cudaFree(from);
  cudaFree(to);
  free(host);
  return 0;
}
