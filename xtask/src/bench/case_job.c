/* A job of a CASE or CASE-MIG batch: case-job HOST_MS MEM THREADS BLOCKS GPU_MS. It works on the host, asks for its GPU task if
 * compiled with TASKS, takes MEM bytes and uses its device for GPU_MS. Prints its result and when it ended, in seconds since 1970. */
#include <cuda.h>
#include <tessera_task.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#ifndef TASKS
#define tessera_task_begin(mem, threads, blocks) 0
#define tessera_task_free(task) (void)(task)
#endif

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

int main(int count, char **words) {
    if (count != 6)
        return 2;
    usleep(atoi(words[1]) * 1000);
    unsigned long long mem = strtoull(words[2], 0, 10);
    int64_t task = tessera_task_begin(mem, atoi(words[3]), strtoull(words[4], 0, 10));
    CUcontext context = NULL;
    CUdeviceptr memory;
    int result = task < 0 ? -1 : cuInit(0);
    if (!result && (cuCtxGetCurrent(&context) || !context)) {
        result = cuDevicePrimaryCtxRetain(&context, 0);
        result = result ? result : cuCtxSetCurrent(context);
    }
    result = result ? result : cuMemAlloc(&memory, mem);
    double end = now(CLOCK_MONOTONIC) + atoi(words[5]) / 1e3;
    while (!result && now(CLOCK_MONOTONIC) < end) {
        result = cuMemsetD8(memory, 1, 64 << 10);
        usleep(10000);
    }
    if (!result)
        cuMemFree(memory);
    tessera_task_free(task);
    printf("ended with %d at %.3f\n", result, now(CLOCK_REALTIME));
    return result != 0;
}
