// One task round a loop of launches on two buffers that change places, and one task in each turn of another loop.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void step(const int *from, int *to) { to[threadIdx.x] = from[threadIdx.x] + 1; }

static int steps(int turns) {
  int host[32] = {};
  int *from, *to;
  cudaMalloc(&from, sizeof(host));
  cudaMalloc(&to, sizeof(host));
  cudaMemcpy(from, host, sizeof(host), cudaMemcpyHostToDevice);
  for (int i = 0; i < turns; ++i) {
    step<<<1, 32>>>(from, to);
    int *swap = from;
    from = to;
    to = swap;
  }
  cudaMemcpy(host, from, sizeof(host), cudaMemcpyDeviceToHost);
  cudaFree(from);
  cudaFree(to);
  return host[7];
}

static int turns(int n) {
  int sum = 0;
  for (int i = 1; i <= n; ++i) {
    int *v, host[32];
    cudaMalloc(&v, i * 32 * sizeof(int));
    cudaMemset(v, 0, i * 32 * sizeof(int));
    step<<<i, 32>>>(v, v);
    cudaMemcpy(host, v, sizeof(host), cudaMemcpyDeviceToHost);
    cudaFree(v);
    sum += host[5] > 0;
  }
  return sum;
}

__attribute__((noinline)) int swapped(int n) { return steps(n); }
__attribute__((noinline)) int each(int n) { return turns(n); }

int main() { printf("%d %d\n", swapped(9), each(4)); }
