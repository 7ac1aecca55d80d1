// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A test double of libtessera_task: it grants everything, keeps book, and writes what it saw to TASK_DOUBLE_LOG at exit.
//
// Between the program and the CUDA runtime, it also sees every allocation, free and launch, and checks that a lease covers
// each. With TASK_DOUBLE_LAZY=1 it really defers lazy objects: their addresses have no memory before the first launch, so
// that an operation which the pass forgot fails.

#include "../../include/tessera_task.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <vector>

// A function of the driver, which the runtime has loaded.
#define NAME_OF(f) #f
#define DRIVER(f) ((decltype(&f))dlsym(dlopen("libcuda.so.1", RTLD_NOW), NAME_OF(f)))

namespace {

struct Lease {
  uint64_t mem;
  uint32_t threads;
  uint64_t blocks;
};

struct LazyObject {
  size_t size;
  bool bound = false;
  CUmemGenericAllocationHandle memory = 0;
  std::vector<std::function<void()>> queue;
};

struct Book {
  std::recursive_mutex lock;
  int64_t last = 0;
  int begins = 0, frees = 0, prepares = 0, lazyBinds = 0, stickies = 0;
  std::map<int64_t, Lease> open;
  struct Memory {
    uint64_t bytes;
    bool askedLazily;
  };
  std::map<void *, Memory> live;
  std::map<char *, LazyObject> lazy;
  uint64_t heap = 8 << 20, peakLive = 0, lazyBytes = 0;
  // The heap limit was set before there was a device.
  bool heapWaits = false;
  std::string complaints;

  uint64_t liveBytes() {
    uint64_t sum = 0;
    for (auto &[address, memory] : live)
      sum += memory.bytes;
    return sum;
  }
  // Each lease has the heap of one device beside the objects.
  uint64_t covered() {
    uint64_t sum = lazyBytes;
    for (auto &[id, lease] : open)
      sum += lease.mem - std::min(heap, lease.mem);
    return sum;
  }
  void complain(const std::string &text) { complaints += (complaints.empty() ? "\"" : ",\"") + text + "\""; }
  void check(const char *what) {
    peakLive = std::max(peakLive, liveBytes());
    if (liveBytes() > covered())
      complain(std::string(what) + ": " + std::to_string(liveBytes()) + " bytes are allocated, " +
               std::to_string(covered()) + " were asked for");
  }
  // The lazy object that an address points into.
  LazyObject *find(const void *address, char **base = nullptr) {
    auto after = lazy.upper_bound((char *)address);
    if (after == lazy.begin())
      return nullptr;
    --after;
    if ((char *)address >= after->first + after->second.size)
      return nullptr;
    if (base)
      *base = after->first;
    return &after->second;
  }
};

Book &book() {
  static Book *theBook = new Book;
  return *theBook;
}
// Bytes that this thread's next allocation may have, beside any task.
thread_local uint64_t askedNext = 0;
using Guard = std::lock_guard<std::recursive_mutex>;

template <typename F> F next(const char *name) { return (F)dlsym(RTLD_NEXT, name); }
bool isLazy() { return getenv("TASK_DOUBLE_LAZY") && *getenv("TASK_DOUBLE_LAZY") == '1'; }

size_t roundUp(size_t n) { return (n + (2 << 20) - 1) & ~size_t((2 << 20) - 1); }

// Memory of the largest device.
uint64_t largest() {
  int devices = 0;
  size_t most = 0, bytes = 0;
  DRIVER(cuInit)(0);
  DRIVER(cuDeviceGetCount)(&devices);
  for (int device = 0; device != devices; ++device)
    if (!DRIVER(cuDeviceTotalMem)(&bytes, device))
      most = std::max(most, bytes);
  return most;
}

bool hasDevice() {
  CUcontext context = nullptr;
  return !DRIVER(cuCtxGetCurrent)(&context) && context;
}

// The task has its device, or the program is about to use one.
void onDevice() {
  Book &b = book();
  if (b.heapWaits)
    next<decltype(&cudaDeviceSetLimit)>("cudaDeviceSetLimit")(cudaLimitMallocHeapSize, b.heap);
  b.heapWaits = false;
}

void bindAll() {
  Book &b = book();
  onDevice();
  for (auto &[address, object] : b.lazy) {
    if (object.bound)
      continue;
    ++b.lazyBinds;
    object.bound = true;
    b.lazyBytes += object.size;
    b.live[address] = {object.size, true};
    next<cudaError_t (*)(void *)>("cudaFree")(nullptr); // a context
    munmap(address, roundUp(object.size));
    CUdeviceptr at = 0;
    CUmemAllocationProp prop = {};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemAccessDesc access = {};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    size_t size = roundUp(object.size);
    if (DRIVER(cuMemAddressReserve)(&at, size, 0, (CUdeviceptr)address, 0) || at != (CUdeviceptr)address ||
        DRIVER(cuMemCreate)(&object.memory, size, &prop, 0) || DRIVER(cuMemMap)(at, size, 0, object.memory, 0) ||
        DRIVER(cuMemSetAccess)(at, size, &access, 1))
      b.complain("a lazy object could not be bound");
    for (auto &operation : object.queue)
      operation();
    object.queue.clear();
  }
  b.check("bind");
}

struct AtExit {
  ~AtExit() {
    Book &b = book();
    Guard guard(b.lock);
    const char *path = getenv("TASK_DOUBLE_LOG");
    FILE *log = path ? fopen(path, "w") : nullptr;
    if (!log)
      return;
    fprintf(log,
            "{\"begins\":%d,\"frees\":%d,\"open\":%zu,\"live\":%llu,\"peak\":%llu,\"prepares\":%d,\"binds\":%d,"
            "\"sticky\":%s,\"complaints\":[%s]}\n",
            b.begins, b.frees, b.open.size(), (unsigned long long)b.liveBytes(), (unsigned long long)b.peakLive, b.prepares,
            b.lazyBinds, b.stickies ? "true" : "false", b.complaints.c_str());
    fclose(log);
  }
} atExit;

} // namespace

extern "C" {

int64_t tessera_task_begin(uint64_t mem, uint32_t threads, uint64_t blocks) {
  Guard guard(book().lock);
  ++book().begins;
  book().open[++book().last] = {mem, threads, blocks};
  onDevice();
  return book().last;
}

void tessera_task_free(int64_t task) {
  Guard guard(book().lock);
  ++book().frees;
  if (!book().open.erase(task))
    book().complain("task " + std::to_string(task) + " is freed, which is not open");
  book().check("free");
}

void tessera_task_select(int64_t task) {
  Guard guard(book().lock);
  if (task > 0 && !book().open.count(task))
    book().complain("task " + std::to_string(task) + " is selected, which is not open");
}

void tessera_task_sticky(void) { ++book().stickies; }

void tessera_launch_prepare(uint32_t, uint64_t) {
  Guard guard(book().lock);
  ++book().prepares;
  bindAll();
}

int tessera_lazy_malloc(void **ptr, size_t *pitch, size_t width, size_t height, int kind) {
  Guard guard(book().lock);
  size_t row = pitch ? (width + 511) & ~size_t(511) : width;
  uint64_t unbound = row * height;
  for (auto &[address, object] : book().lazy)
    unbound += object.bound ? 0 : object.size;
  // What no device holds is for the driver to refuse.
  bool tooLarge = isLazy() && unbound > largest();
  if (tooLarge)
    bindAll();
  if (!isLazy() || tooLarge || kind == TESSERA_LAZY_MANAGED || row * height == 0) {
    // The program's own call follows.
    askedNext = row * height;
    book().lazyBytes += askedNext;
    return 0;
  }
  size_t size = roundUp(row * height), align = 2 << 20;
  char *room = (char *)mmap(nullptr, size + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  char *at = (char *)(((uintptr_t)room + align - 1) & ~(align - 1));
  munmap(room, at - room);
  munmap(at + size, room + align - at);
  book().lazy[at].size = row * height;
  if (pitch)
    *pitch = row;
  *ptr = at;
  return 1;
}

int tessera_lazy_copy(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height, int) {
  Guard guard(book().lock);
  LazyObject *to = book().find(dst), *from = book().find(src);
  if (to && !to->bound && !from) {
    std::string data;
    for (size_t row = 0; row != height; ++row)
      data.append((const char *)src + row * src_pitch, width);
    to->queue.push_back([=] {
      for (size_t row = 0; row != height; ++row)
        DRIVER(cuMemcpyHtoD)((CUdeviceptr)dst + row * dst_pitch, data.data() + row * width, width);
    });
    return 1;
  }
  if ((to && !to->bound) || (from && !from->bound))
    bindAll();
  return 0;
}

int tessera_lazy_set(void *dst, size_t pitch, int value, size_t width, size_t height) {
  Guard guard(book().lock);
  LazyObject *to = book().find(dst);
  if (!to || to->bound)
    return 0;
  to->queue.push_back([=] {
    for (size_t row = 0; row != height; ++row)
      DRIVER(cuMemsetD8)((CUdeviceptr)dst + row * pitch, (unsigned char)value, width);
  });
  return 1;
}

int tessera_lazy_free(void *ptr, void *, int) {
  Guard guard(book().lock);
  char *base = nullptr;
  LazyObject *object = book().find(ptr, &base);
  if (!object || base != ptr)
    return 0;
  size_t size = roundUp(object->size);
  if (object->bound) {
    DRIVER(cuCtxSynchronize)();
    DRIVER(cuMemUnmap)((CUdeviceptr)ptr, size);
    DRIVER(cuMemRelease)(object->memory);
    DRIVER(cuMemAddressFree)((CUdeviceptr)ptr, size);
    book().live.erase(ptr);
    book().lazyBytes -= object->size;
  } else {
    munmap(ptr, size);
  }
  book().lazy.erase(base);
  return 1;
}

int tessera_lazy_heap_limit(size_t bytes) {
  Guard guard(book().lock);
  book().heap = bytes;
  book().heapWaits = !hasDevice();
  return book().heapWaits;
}

void *tessera_lazy_address(void *ptr) { return ptr; }

// What reaches the CUDA runtime.

static cudaError_t allocated(cudaError_t error, void *address, uint64_t bytes) {
  Guard guard(book().lock);
  if (error == cudaSuccess && address) {
    book().live[address] = {bytes, askedNext == bytes && bytes != 0};
    book().check("allocation");
  } else {
    book().lazyBytes -= askedNext;
  }
  askedNext = 0;
  return error;
}

cudaError_t cudaMalloc(void **p, size_t n) {
  return allocated(next<decltype(&cudaMalloc)>("cudaMalloc")(p, n), *p, n);
}
cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t s) {
  return allocated(next<decltype(&cudaMallocAsync)>("cudaMallocAsync")(p, n, s), *p, n);
}
cudaError_t cudaMallocManaged(void **p, size_t n, unsigned flags) {
  return allocated(next<decltype(&cudaMallocManaged)>("cudaMallocManaged")(p, n, flags), *p, n);
}
cudaError_t cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height) {
  return allocated(next<decltype(&cudaMallocPitch)>("cudaMallocPitch")(p, pitch, width, height), *p, *pitch * height);
}
cudaError_t cudaMalloc3D(cudaPitchedPtr *p, cudaExtent e) {
  return allocated(next<decltype(&cudaMalloc3D)>("cudaMalloc3D")(p, e), p->ptr, p->pitch * e.height * e.depth);
}
static void freed(void *p) {
  auto memory = book().live.find(p);
  if (memory == book().live.end())
    return;
  if (memory->second.askedLazily)
    book().lazyBytes -= memory->second.bytes;
  book().live.erase(memory);
}

cudaError_t cudaFree(void *p) {
  Guard guard(book().lock);
  freed(p);
  return next<decltype(&cudaFree)>("cudaFree")(p);
}
cudaError_t cudaFreeAsync(void *p, cudaStream_t s) {
  Guard guard(book().lock);
  freed(p);
  return next<decltype(&cudaFreeAsync)>("cudaFreeAsync")(p, s);
}

cudaError_t cudaLaunchKernel(const void *f, dim3 grid, dim3 block, void **arguments, size_t shared, cudaStream_t s) {
  Book &b = book();
  {
    Guard guard(b.lock);
    uint64_t threads = uint64_t(block.x) * block.y * block.z, blocks = uint64_t(grid.x) * grid.y * grid.z;
    bool fits = b.prepares != 0 && b.lazyBytes != 0;
    for (auto &[id, lease] : b.open)
      fits |= threads <= lease.threads && blocks <= lease.blocks;
    // A launch without a static task around it is prepared just before.
    if (!fits && !b.open.empty())
      b.complain("a launch of " + std::to_string(blocks) + " x " + std::to_string(threads) + " is above every open task");
    if (b.open.empty() && b.prepares == 0)
      b.complain("a launch without a task");
  }
  return next<decltype(&cudaLaunchKernel)>("cudaLaunchKernel")(f, grid, block, arguments, shared, s);
}

} // extern "C"
