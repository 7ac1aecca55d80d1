// Pointers in an array with an index that varies: lazy. The kernel gets a table of pointers in device memory.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void sum(int **rows, int n, int *out) {
  int s = 0;
  for (int i = 0; i < n; ++i)
    s += rows[i][threadIdx.x];
  out[threadIdx.x] = s;
}

int main() {
  const int n = 5;
  int *rows[n], **table, *out, host[32];
  for (int i = 0; i < n; ++i) {
    for (int &x : host)
      x = i;
    cudaMalloc(&rows[i], sizeof(host));
    cudaMemcpy(rows[i], host, sizeof(host), cudaMemcpyHostToDevice);
  }
  cudaMalloc(&table, sizeof(rows));
  cudaMalloc(&out, sizeof(host));
  cudaMemcpy(table, rows, sizeof(rows), cudaMemcpyHostToDevice);
  sum<<<1, 32>>>(table, n, out);
  cudaMemcpy(host, out, sizeof(host), cudaMemcpyDeviceToHost);
  for (int *row : rows)
    cudaFree(row);
  cudaFree(table);
  cudaFree(out);
  printf("%d\n", host[0]);
}
