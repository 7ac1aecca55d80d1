// Pointers in a structure, which helpers get by reference and a kernel by value.
#include <cstdio>
#include <cuda_runtime.h>

struct Buffers {
  int *in;
  int *out;
  int n;
};

__global__ void square(Buffers b) {
  int i = threadIdx.x;
  if (i < b.n)
    b.out[i] = b.in[i] * b.in[i];
}

static void make(Buffers &b, int n) {
  b.n = n;
  cudaMalloc(&b.in, n * sizeof(int));
  cudaMalloc(&b.out, n * sizeof(int));
}

static void drop(Buffers *b) {
  cudaFree(b->in);
  cudaFree(b->out);
}

int main() {
  int host[32];
  for (int i = 0; i < 32; ++i)
    host[i] = i;
  Buffers b;
  make(b, 32);
  cudaMemcpy(b.in, host, sizeof(host), cudaMemcpyHostToDevice);
  square<<<1, 32>>>(b);
  cudaMemcpy(host, b.out, sizeof(host), cudaMemcpyDeviceToHost);
  drop(&b);
  printf("%d\n", host[31]);
}
