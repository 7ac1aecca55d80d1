// An owner frees the memory when an exception passes; a second function has no owner.
#include <cstdio>
#include <cuda_runtime.h>
#include <stdexcept>

__global__ void add(int *v, int n) { v[threadIdx.x] += n; }

struct Owner {
  int *v;
  explicit Owner(int n) { cudaMalloc(&v, n * sizeof(int)); }
  ~Owner() { cudaFree(v); }
};

__attribute__((noinline)) void check(int n) {
  if (n < 0)
    throw std::runtime_error("negative");
}

__attribute__((noinline)) int owned(int n) {
  Owner o(32);
  cudaMemset(o.v, 0, 32 * sizeof(int));
  check(n);
  add<<<1, 32>>>(o.v, n);
  int host[32];
  cudaMemcpy(host, o.v, sizeof(host), cudaMemcpyDeviceToHost);
  return host[3];
}

__attribute__((noinline)) int caught(int n) {
  int *v, host[32] = {};
  cudaMalloc(&v, sizeof(host));
  cudaMemcpy(v, host, sizeof(host), cudaMemcpyHostToDevice);
  try {
    check(n);
    add<<<1, 32>>>(v, n);
  } catch (const std::exception &) {
    add<<<1, 32>>>(v, 100);
  }
  cudaMemcpy(host, v, sizeof(host), cudaMemcpyDeviceToHost);
  cudaFree(v);
  return host[0];
}

int main() {
  int thrown = 0;
  try {
    owned(-1);
  } catch (const std::exception &) {
    thrown = 1;
  }
  printf("%d %d %d %d\n", thrown, owned(4), caught(5), caught(-5));
}
