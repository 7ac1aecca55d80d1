// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A stand-in for libtessera_task that writes what a program's first task asks for to TASK_ASKED and ends the program there, so
// that programs of any size can be asked on a small machine. Large arrays of the host are one small piece of memory, mapped
// again and again: what they hold does not count here.

#include "../../include/tessera_task.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace {

uint64_t lazyBytes = 0;
std::mutex lock;

[[noreturn]] void asked(const char *how, uint64_t mem, uint64_t threads, uint64_t blocks) {
  const char *path = getenv("TASK_ASKED");
  if (FILE *out = path ? fopen(path, "w") : nullptr) {
    fprintf(out, "%s %llu %llu %llu\n", how, (unsigned long long)mem, (unsigned long long)threads, (unsigned long long)blocks);
    fclose(out);
  }
  _exit(0);
}

constexpr size_t Piece = size_t(16) << 20;

/// Addresses for `bytes` bytes, all of them on the same piece of memory.
void *room(size_t bytes) {
  size_t size = (bytes + Piece - 1) / Piece * Piece;
  int piece = memfd_create("piece", MFD_CLOEXEC);
  void *all = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (piece < 0 || all == MAP_FAILED || ftruncate(piece, Piece))
    return nullptr;
  for (size_t at = 0; at != size; at += Piece)
    if (mmap((char *)all + at, Piece, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, piece, 0) == MAP_FAILED)
      return nullptr;
  close(piece);
  return all;
}

} // namespace

extern "C" {

void *__libc_malloc(size_t);

void *malloc(size_t bytes) { return bytes < 2 * Piece ? __libc_malloc(bytes) : room(bytes); }

int64_t tessera_task_begin(uint64_t mem, uint32_t threads, uint64_t blocks) { asked("static", mem, threads, blocks); }
void tessera_task_free(int64_t) {}
void tessera_task_select(int64_t) {}
void tessera_task_sticky(void) {}

void tessera_launch_prepare(uint32_t threads, uint64_t blocks) {
  if (threads)
    asked("lazy", lazyBytes, threads, blocks);
}

int tessera_lazy_malloc(void **ptr, size_t *pitch, size_t width, size_t height, int) {
  std::lock_guard<std::mutex> guard(lock);
  size_t row = pitch ? (width + 511) & ~size_t(511) : width;
  lazyBytes += row * height;
  if (pitch)
    *pitch = row;
  *ptr = mmap(nullptr, row * height + 1, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return 1;
}

int tessera_lazy_copy(void *, size_t, const void *, size_t, size_t, size_t, int) { return 1; }
int tessera_lazy_set(void *, size_t, int, size_t, size_t) { return 1; }
int tessera_lazy_free(void *, void *, int) { return 1; }
int tessera_lazy_heap_limit(size_t) { return 1; }
void *tessera_lazy_address(void *ptr) { return ptr; }

} // extern "C"
