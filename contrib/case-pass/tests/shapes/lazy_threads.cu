// Lazy objects in several threads: each allocates, launches and frees, with growth after the first launch.
#include <cstdio>
#include <cuda_runtime.h>
#include <thread>

__global__ void add(int *v, const int *w) { v[threadIdx.x] += w[threadIdx.x]; }

static int *first[4], *second[4];
static int sums[4];

__attribute__((noinline)) void allocate(int **v, int value) {
  int host[32];
  for (int &h : host)
    h = value;
  cudaMalloc(v, sizeof(host));
  cudaMemcpy(*v, host, sizeof(host), cudaMemcpyHostToDevice);
}

__attribute__((noinline)) void launch(int at) { add<<<1, 32>>>(first[at], second[at]); }

static void work(int at) {
  for (int turn = 0; turn < 8; ++turn) {
    int host[32];
    allocate(&first[at], at);
    allocate(&second[at], turn);
    launch(at);
    cudaFree(second[at]);
    allocate(&second[at], 100);
    launch(at);
    cudaMemcpy(host, first[at], sizeof(host), cudaMemcpyDeviceToHost);
    sums[at] += host[31];
    cudaFree(first[at]);
    cudaFree(second[at]);
  }
}

int main() {
  std::thread threads[4];
  for (int i = 0; i < 4; ++i)
    threads[i] = std::thread(work, i);
  for (std::thread &thread : threads)
    thread.join();
  printf("%d %d %d %d\n", sums[0], sums[1], sums[2], sums[3]);
}
