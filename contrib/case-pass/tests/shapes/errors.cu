// Every call is checked by a macro that ends the program.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

#define CHECK(call)                                                                                                    \
  do {                                                                                                                 \
    cudaError_t error = (call);                                                                                        \
    if (error != cudaSuccess) {                                                                                        \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(error));                                   \
      exit(EXIT_FAILURE);                                                                                              \
    }                                                                                                                  \
  } while (0)

__global__ void fill(int *v) { v[threadIdx.x] = threadIdx.x; }

int main() {
  int *v, *w, host[64];
  CHECK(cudaMalloc(&v, sizeof(host)));
  CHECK(cudaMalloc(&w, sizeof(host)));
  fill<<<1, 64>>>(v);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(w, v, sizeof(host), cudaMemcpyDeviceToDevice));
  CHECK(cudaMemcpy(host, w, sizeof(host), cudaMemcpyDeviceToHost));
  CHECK(cudaFree(v));
  CHECK(cudaFree(w));
  printf("%d\n", host[63]);
}
