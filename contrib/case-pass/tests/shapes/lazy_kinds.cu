// Every kind of lazy object and operation: pitched, 3D, stream-ordered and managed memory; copies and fills of rows, between
// objects and back; pointers in a table on the device; objects that are freed before any launch.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void sum(int **rows, int n, int *out) {
  int total = 0;
  for (int i = 0; i < n; ++i)
    total += rows[i][threadIdx.x];
  out[threadIdx.x] = total;
}

static int *objects[8];
static size_t pitch;
static cudaPitchedPtr volume;

// An address in an array of the program's, which other code may read.
template <typename T> __attribute__((noinline)) T **at(int i) { return (T **)&objects[i]; }

int main() {
  int host[4][32];
  for (int row = 0; row < 4; ++row)
    for (int i = 0; i < 32; ++i)
      host[row][i] = 100 * row + i;

  cudaFree(nullptr);
  cudaMalloc(at<int>(0), sizeof(host));
  cudaMemcpy(objects[0], host, sizeof(host), cudaMemcpyHostToDevice);
  // What was copied from may change before the launch.
  for (int i = 0; i < 32; ++i)
    host[1][i] = 7;
  cudaMemcpy(objects[0] + 32, host[1], sizeof(host[1]), cudaMemcpyHostToDevice);

  cudaMallocPitch(at<int>(1), &pitch, 32 * sizeof(int), 4);
  cudaMemset2D(objects[1], pitch, 1, 32 * sizeof(int), 4);
  cudaMemcpy2D(objects[1], pitch, host, sizeof(host[0]), 32 * sizeof(int), 2, cudaMemcpyHostToDevice);

  cudaMallocAsync(at<int>(2), sizeof(host[0]), nullptr);
  cudaMemsetAsync(objects[2], 0, sizeof(host[0]), nullptr);

  cudaMalloc(at<int>(3), sizeof(host));
  cudaMemcpy(objects[3], host, sizeof(host), cudaMemcpyHostToDevice);
  cudaFree(objects[3]);

  cudaMalloc3D(&volume, make_cudaExtent(32 * sizeof(int), 2, 2));
  cudaMemset(volume.ptr, 2, volume.pitch * 4);

  cudaMallocManaged(at<int>(4), sizeof(host[0]));
  for (int i = 0; i < 32; ++i)
    objects[4][i] = i;

  cudaMalloc(at<int>(5), 3 << 20);
  cudaMemcpy(objects[5], objects[0], sizeof(host[0]), cudaMemcpyDeviceToDevice);

  int *rows[6] = {objects[0] + 32, (int *)((char *)objects[1] + pitch), objects[2], (int *)volume.ptr, objects[4], objects[5]};
  cudaMalloc(at<int>(6), sizeof(rows));
  cudaMemcpy(objects[6], rows, sizeof(rows), cudaMemcpyHostToDevice);
  cudaMalloc(at<int>(7), sizeof(host[0]));
  sum<<<1, 32>>>((int **)objects[6], 6, objects[7]);

  int out[32];
  cudaMemcpy(out, objects[7], sizeof(out), cudaMemcpyDeviceToHost);
  cudaFreeAsync(objects[2], nullptr);
  const int left[] = {0, 1, 4, 5, 6, 7};
  for (int i : left)
    cudaFree(objects[i]);
  cudaFree(volume.ptr);
  printf("%d %d\n", out[0], out[31]);
}
