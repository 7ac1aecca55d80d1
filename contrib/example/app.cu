// A GPU task: two vectors of 512 MiB each, a kernel, and their end. The argument says how many seconds it keeps them.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <unistd.h>

__global__ void add(const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] += 2 * x[i];
}

int main(int count, char **words) {
  const size_t bytes = 512 << 20;
  const int n = 1024;
  float host[n], *x, *y;
  for (int i = 0; i < n; ++i)
    host[i] = i;
  if (cudaMalloc(&x, bytes) != cudaSuccess || cudaMalloc(&y, bytes) != cudaSuccess) {
    fprintf(stderr, "out of memory\n");
    return 1;
  }
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  cudaMemcpy(y, host, sizeof host, cudaMemcpyHostToDevice);
  add<<<n / 128, 128>>>(x, y);
  cudaDeviceSynchronize();
  sleep(count > 1 ? atoi(words[1]) : 0);
  cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
  cudaFree(x);
  cudaFree(y);
  printf("y[%d] = %.0f\n", n - 1, host[n - 1]);
}
