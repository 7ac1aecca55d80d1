// Allocation, launch and free in helpers; the allocation is behind two calls.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void twice(float *v, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    v[i] *= 2;
}

static void check(cudaError_t error) {
  if (error != cudaSuccess) {
    fprintf(stderr, "%s\n", cudaGetErrorString(error));
    exit(1);
  }
}

static void allocate(float **v, int n) { check(cudaMalloc(v, n * sizeof(float))); }

static float *upload(const float *host, int n) {
  float *v;
  allocate(&v, n);
  check(cudaMemcpy(v, host, n * sizeof(float), cudaMemcpyHostToDevice));
  return v;
}

static void launch(float *v, int n) { twice<<<(n + 63) / 64, 64>>>(v, n); }

int main(int argc, char **) {
  int n = 99 + argc;
  float host[200];
  for (int i = 0; i < n; ++i)
    host[i] = i;
  float *v = upload(host, n);
  launch(v, n);
  check(cudaMemcpy(host, v, n * sizeof(float), cudaMemcpyDeviceToHost));
  check(cudaFree(v));
  printf("%g\n", host[n - 1]);
}
