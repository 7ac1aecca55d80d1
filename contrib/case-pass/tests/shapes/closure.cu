// The launch that joins two others comes last: compared with the first only, the second would stay apart.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void set(int *v, int value) { v[threadIdx.x] = value; }
__global__ void join(const int *a, int *b) { b[threadIdx.x] += a[threadIdx.x]; }

int main() {
  int *a, *b, *c, host[32];
  cudaMalloc(&a, sizeof(host));
  cudaMalloc(&b, sizeof(host));
  cudaMalloc(&c, sizeof(host));
  set<<<1, 32>>>(a, 1);
  set<<<1, 32>>>(c, 3);
  set<<<1, 32>>>(b, 2);
  join<<<1, 32>>>(b, c);
  join<<<1, 32>>>(a, b);
  cudaMemcpy(host, c, sizeof(host), cudaMemcpyDeviceToHost);
  cudaFree(a);
  cudaFree(b);
  cudaFree(c);
  printf("%d\n", host[0]);
}
