/* A job of CASE-MIG's batch: case-mig HOST_MS MEM THREADS BLOCKS GPU_MS. It works on the host, asks for its GPU task if compiled
 * with TASKS, takes MEM bytes and uses its device for GPU_MS. */
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

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
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
    double end = now() + atoi(words[5]) / 1e3;
    while (!result && now() < end) {
        result = cuMemsetD8(memory, 1, 64 << 10);
        usleep(10000);
    }
    if (!result)
        cuMemFree(memory);
    tessera_task_free(task);
    printf("ended with %d\n", result);
    return result != 0;
}
