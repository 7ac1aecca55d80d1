// Four launches, each sharing an object with the next one only: one task by closure. A fifth shares none.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void link(int *a, int *b) { b[threadIdx.x] = a[threadIdx.x] + 1; }
__global__ void alone(int *v) { v[threadIdx.x] = -1; }

int main() {
  int *a, *b, *c, *d, *e, *x, host[32] = {}, other[32];
  cudaMalloc(&a, sizeof(host));
  cudaMalloc(&b, sizeof(host));
  cudaMalloc(&c, sizeof(host));
  cudaMalloc(&d, sizeof(host));
  cudaMalloc(&e, sizeof(host));
  cudaMalloc(&x, sizeof(other));
  cudaMemcpy(a, host, sizeof(host), cudaMemcpyHostToDevice);
  link<<<1, 32>>>(a, b);
  link<<<1, 32>>>(b, c);
  alone<<<1, 32>>>(x);
  link<<<1, 32>>>(c, d);
  link<<<1, 32>>>(d, e);
  cudaMemcpy(host, e, sizeof(host), cudaMemcpyDeviceToHost);
  cudaMemcpy(other, x, sizeof(other), cudaMemcpyDeviceToHost);
  cudaFree(a);
  cudaFree(b);
  cudaFree(c);
  cudaFree(d);
  cudaFree(e);
  cudaFree(x);
  printf("%d %d\n", host[0], other[0]);
}
