// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Preloaded into two runs of a program that are to be compared: time stands still, and every copy from the device to the host
// leaves a line with its bytes and their hash in COPIES_LOG. Before the first small object there is memory that belongs to none:
// some kernels read a row before their array, which a GPU lets them do.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <sys/time.h>

extern "C" {

time_t time(time_t *out) {
  if (out)
    *out = 1000000000;
  return 1000000000;
}

int gettimeofday(struct timeval *__restrict out, void *__restrict) {
  out->tv_sec = 1000000000;
  out->tv_usec = 0;
  return 0;
}

cudaError_t cudaMalloc(void **out, size_t bytes) {
  // The runtime's own, past the library that keeps book of tasks.
  static cudaError_t before = [] {
    void *room = nullptr;
    void *runtime = dlopen("libcudart.so.12", RTLD_NOW | RTLD_NOLOAD);
    auto allocate = (cudaError_t(*)(void **, size_t))dlsym(runtime, "cudaMalloc");
    return allocate(&room, 256 << 10);
  }();
  (void)before;
  static auto next = (cudaError_t(*)(void **, size_t))dlsym(RTLD_NEXT, "cudaMalloc");
  return next(out, bytes);
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind) {
  static auto next = (decltype(&cudaMemcpy))dlsym(RTLD_NEXT, "cudaMemcpy");
  cudaError_t result = next(dst, src, bytes, kind);
  const char *path = getenv("COPIES_LOG");
  if (kind != cudaMemcpyDeviceToHost || result != cudaSuccess || !path)
    return result;
  uint64_t hash = 14695981039346656037u;
  for (size_t at = 0; at != bytes; ++at)
    hash = (hash ^ ((const unsigned char *)dst)[at]) * 1099511628211u;
  if (FILE *log = fopen(path, "a")) {
    fprintf(log, "%zu %016llx\n", bytes, (unsigned long long)hash);
    fclose(log);
  }
  return result;
}

} // extern "C"
