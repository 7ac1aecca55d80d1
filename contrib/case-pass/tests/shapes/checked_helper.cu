// A helper that returns an error from each of its checks, called in a loop that ends at the first error.
#include <cstdio>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    cudaError_t error = (call);                                                                                        \
    if (error != cudaSuccess) {                                                                                        \
      fprintf(stderr, "%s\n", cudaGetErrorString(error));                                                              \
      return 1;                                                                                                        \
    }                                                                                                                  \
  } while (0)

__global__ void add(float *v, const float *w) { v[threadIdx.x] += w[threadIdx.x]; }

static int turn(int i) {
  float host[64] = {float(i)};
  float *v, *w;
  CHECK(cudaMalloc(&v, sizeof(host)));
  CHECK(cudaMalloc(&w, sizeof(host)));
  CHECK(cudaMemcpy(v, host, sizeof(host), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(w, host, sizeof(host), cudaMemcpyHostToDevice));
  add<<<1, 64>>>(v, w);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(host, v, sizeof(host), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(v));
  CHECK(cudaFree(w));
  printf("%g\n", host[0]);
  return 0;
}

int main() {
  for (int i = 0; i < 3; ++i)
    if (turn(i))
      return 1;
}
