/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * tessera_task.h: GPU tasks, as a program and the code that tessera-clang++ adds to it speak of them.
 *
 * A GPU task is what one lease covers: the memory of some device objects and the launches that use them (CASE,
 * PPoPP'22, section 3.1). Link with -ltessera_task.
 *
 * A program that is compiled with tessera-clang++ contains these calls already. A program may also make them itself:
 * then it needs tessera_task_begin() and tessera_task_free() only.
 *
 * Every function may be called from every thread. None throws.
 */
#ifndef TESSERA_TASK_H
#define TESSERA_TASK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Asks for a device for one task, waits until there is one, and makes it the calling thread's current device.
 *
 * `mem`: bytes, all that the task allocates on the device, with the heap of its kernels (8 MiB by default).
 * `threads`: threads per block, the most of its launches. `blocks`: blocks per grid, the most of its launches.
 *
 * Returns the task, a number above 0. Returns a negative number if no device will ever hold the task or if its answer
 * could not be had. The program may go on: what it then allocates is charged as any other allocation is. */
int64_t tessera_task_begin(uint64_t mem, uint32_t threads, uint64_t blocks);

/* Ends a task. What it allocated has been freed and its launches are over. A number that is not above 0 is ignored. */
void tessera_task_free(int64_t task);

/* Makes the device of a task that has begun the calling thread's current device again. 0 stands for the one device of a
 * process with tessera_task_sticky(), if it has one already: the call after cudaSetDevice. Negative numbers are ignored. Cheap when nothing changes: tessera-clang++ calls it before an operation of a task when another task, or code
 * that it cannot see, may have selected another device in the meantime. */
void tessera_task_select(int64_t task);

/* All tasks of this process must from now on go to one device: the one that it uses already, or the one of its next
 * task. tessera-clang++ calls it before main() when something lives on a device outside any task: a __device__ variable,
 * a stream, an event, a library's handle. */
void tessera_task_sticky(void);

/* CASE's kernelLaunchPrepare (section 3.1.2), called just before a launch whose objects are not all known to the compiler.
 *
 * Binds every object that tessera_lazy_malloc() answered and that has no memory yet: asks for their sizes, the heap limit
 * and the launch's threads and blocks, waits, selects the device, gives them memory and replays what was queued for them,
 * in order. If nothing is unbound, it only selects the device of what is bound.
 *
 * `threads` and `blocks` are 0 before an operation that needs a device but launches nothing that the compiler can see. */
void tessera_launch_prepare(uint32_t threads, uint64_t blocks);

/* The four lazy operations answer 1 if they have done, or will do, the whole operation: the program's own CUDA call is
 * then skipped and counts as cudaSuccess. They answer 0 if the program must make the call itself: they have then bound
 * what the call needs. */

enum {
    TESSERA_LAZY_DEVICE = 0,  /* cudaMalloc, cudaMallocPitch, cudaMalloc3D, cudaMallocAsync */
    TESSERA_LAZY_MANAGED = 1, /* cudaMallocManaged: the host may touch it at once, so it is bound at once */
};

/* Instead of an allocation of `height` rows of `width` bytes. `pitch` is null unless the call was for pitched memory; else
 * it receives the bytes from one row to the next. `*ptr` receives an address that the object keeps for its life. */
int tessera_lazy_malloc(void **ptr, size_t *pitch, size_t width, size_t height, int kind);

/* Instead of a copy of `height` rows of `width` bytes; the pitches are `width` for one row. `kind` is a cudaMemcpyKind.
 * The source on the host is copied before this returns. */
int tessera_lazy_copy(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,
                      int kind);

/* Instead of a cudaMemset of `height` rows of `width` bytes. */
int tessera_lazy_set(void *dst, size_t pitch, int value, size_t width, size_t height);

/* Instead of cudaFree (`ordered` is 0) or cudaFreeAsync (`ordered` is 1, and `stream` a cudaStream_t: the memory goes
 * after what that stream holds by now). */
int tessera_lazy_free(void *ptr, void *stream, int ordered);

/* Before cudaDeviceSetLimit(cudaLimitMallocHeapSize, bytes): the limit that every device of this process must have, and
 * that tessera_launch_prepare() adds to what it asks for. Answers 1 if no device is in use yet: it is then set when one
 * is. Answers 0 if the program must make the call itself. */
int tessera_lazy_heap_limit(size_t bytes);

/* Where an argument of a launch points. That is `ptr` itself, unless `ptr` is the address of a lazy object and the driver
 * cannot map memory there: then it is where the object's memory is. Pointers that a kernel finds in structures or in memory
 * are not replaced. */
void *tessera_lazy_address(void *ptr);

#ifdef __cplusplus
}
#endif

#endif /* TESSERA_TASK_H */
