// Several exits: a failed allocation, a wrong argument before the task, an error after a launch, and the usual one.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void halve(int *v) { v[threadIdx.x] /= 2; }

__attribute__((noinline)) int run(int *host, int n, bool stop) {
  if (n > 64)
    return -1;
  int *v;
  if (cudaMalloc(&v, n * sizeof(int)) != cudaSuccess)
    return -2;
  cudaMemcpy(v, host, n * sizeof(int), cudaMemcpyHostToDevice);
  halve<<<1, n>>>(v);
  if (stop) {
    cudaFree(v);
    return 1;
  }
  halve<<<1, n>>>(v);
  cudaMemcpy(host, v, n * sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(v);
  return 0;
}

int main() {
  int host[64];
  for (int i = 0; i < 64; ++i)
    host[i] = i;
  int answers[] = {run(host, 65, false), run(host, 64, true), run(host, 64, false)};
  printf("%d %d %d %d\n", answers[0], answers[1], answers[2], host[63]);
}
