// Two threads, each with a task of its own.
#include <cstdio>
#include <cuda_runtime.h>
#include <thread>

__global__ void count(int *v) { v[threadIdx.x] = threadIdx.x; }

static void work(int n, int *last) {
  int *v, host[64];
  cudaMalloc(&v, n * sizeof(int));
  count<<<1, n>>>(v);
  cudaMemcpy(host, v, n * sizeof(int), cudaMemcpyDeviceToHost);
  cudaFree(v);
  *last = host[n - 1];
}

int main() {
  int a = 0, b = 0;
  std::thread first(work, 32, &a), second(work, 64, &b);
  first.join();
  second.join();
  printf("%d %d\n", a, b);
}
