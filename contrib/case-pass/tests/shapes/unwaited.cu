// A launch without memory: nothing in the function waits for it, so its task cannot end there.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void nothing(int) {}

__attribute__((noinline)) void start(int n) { nothing<<<n, 32>>>(n); }
__attribute__((noinline)) void startAndWait(int n) {
  nothing<<<n, 64>>>(n);
  cudaDeviceSynchronize();
}

int main() {
  start(2);
  startAndWait(3);
  printf("%d\n", (int)cudaDeviceSynchronize());
}
