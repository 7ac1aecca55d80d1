// One task: allocate, copy, launch, copy back, free.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void add(const int *a, const int *b, int *c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  c[i] = a[i] + b[i];
}

int main() {
  const int n = 1024;
  static int a[n], b[n], c[n];
  for (int i = 0; i < n; ++i)
    a[i] = i, b[i] = 2 * i;
  int *da, *db, *dc;
  cudaMalloc(&da, n * sizeof(int));
  cudaMalloc(&db, n * sizeof(int));
  cudaMalloc(&dc, n * sizeof(int));
  cudaMemcpy(da, a, sizeof(a), cudaMemcpyHostToDevice);
  cudaMemcpy(db, b, sizeof(b), cudaMemcpyHostToDevice);
  add<<<n / 128, 128>>>(da, db, dc);
  cudaMemcpy(c, dc, sizeof(c), cudaMemcpyDeviceToHost);
  cudaFree(da);
  cudaFree(db);
  cudaFree(dc);
  printf("%d %d\n", c[1], c[n - 1]);
}
