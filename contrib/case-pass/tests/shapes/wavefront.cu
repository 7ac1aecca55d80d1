// Grids and sizes as old programs write them: a dim3 field by field, a grid that grows and shrinks with a loop, one that is
// rounded up by an if, sizes in a global variable and in a structure, and a structure of numbers for the kernel.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

struct Shape {
  long elements, bytes, spare[2];
};

int width;

__global__ void wave(int *v, int shift, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    v[i] += shift;
}

__global__ void scale(Shape shape, int *v, const int *factors) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < shape.elements)
    v[i] *= factors[i % 4];
}

void run(Shape shape, int steps) {
  int *v, *factors, *rest;
  cudaMalloc((void **)&v, shape.bytes);
  cudaMemset(v, 0, shape.bytes);
  int host[] = {1, 2, 3, 4};
  cudaMalloc((void **)&factors, sizeof(host));
  cudaMemcpy(factors, host, sizeof(host), cudaMemcpyHostToDevice);
  int *out = (int *)malloc(sizeof(int) * width);
  for (int i = 0; i < width; ++i)
    out[i] = -1;
  cudaMalloc((void **)&rest, sizeof(int) * width);
  cudaMemcpy(rest, out, sizeof(int) * width, cudaMemcpyHostToDevice);

  dim3 grid, block(32, 1);
  for (int i = 1; i <= steps; i++) {
    grid.x = i;
    grid.y = 1;
    wave<<<grid, block>>>(v, i, shape.elements);
  }
  for (int i = steps - 1; i >= 1; i--) {
    grid.x = i;
    grid.y = 1;
    wave<<<grid, block>>>(v, -1, shape.elements);
  }
  int blocks = shape.elements / block.x;
  if (shape.elements % block.x != 0)
    blocks = blocks + 1;
  for (int turn = 0; turn < 2; turn++) {
    dim3 again;
    again.x = blocks;
    again.y = 1;
    scale<<<again, block>>>(shape, v, factors);
    scale<<<1, width>>>(shape, rest, factors);
  }
  cudaMemcpy(out, v, sizeof(int) * width, cudaMemcpyDeviceToHost);
  printf("%d %d\n", out[0], out[width - 1]);
  cudaMemcpy(out, rest, sizeof(int) * width, cudaMemcpyDeviceToHost);
  printf("%d\n", out[width - 1]);
  cudaFree(v);
  cudaFree(factors);
  cudaFree(rest);
  free(out);
}

int main() {
  width = 20;
  for (int steps = 4; steps >= 0; steps -= 2) {
    Shape shape = {100, 100 * sizeof(int), {}};
    run(shape, steps);
  }
}
