/* A program whose GPU tasks begin, grow and end at random: churn SEED ROUNDS MOST_MIB FILE.
 *
 * Appends a line to FILE when it ends: its pid, allocations that ran out of memory, refusals to a process that asked for more
 * while it held, and other refusals. Without a job's socket it asks nobody, and takes the device that it sees. */
#include <cuda.h>
#include <tessera_task.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { PIECES = 3, REFUSED_GROWTH = -3 };
static uint64_t state;
static long oom, growth, other;

/* splitmix64 */
static uint64_t draw(uint64_t below) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % below;
}

/* One task, and at times another inside it. */
static void task(uint64_t most_mib, int depth) {
    uint64_t mem = (1 + draw(most_mib)) << 20;
    int64_t id = tessera_task_begin(mem, 32 * (1 + draw(32)), 1 + draw(1000));
    if (id < 0) {
        *(id == REFUSED_GROWTH ? &growth : &other) += 1;
        return;
    }
    CUdeviceptr pieces[PIECES] = {0};
    for (int i = 0; i < PIECES; i++) {
        uint64_t part = i ? mem / PIECES : mem - (PIECES - 1) * (mem / PIECES);
        int result = cuMemAlloc(&pieces[i], part);
        if (result == CUDA_SUCCESS)
            result = cuMemsetD8(pieces[i], 1, 1);
        oom += result == CUDA_ERROR_OUT_OF_MEMORY;
        other += result != CUDA_SUCCESS && result != CUDA_ERROR_OUT_OF_MEMORY;
    }
    usleep(draw(15000));
    if (depth < 2 && draw(4) == 0)
        task(most_mib, depth + 1);
    for (int i = 0; i < PIECES; i++)
        if (pieces[i])
            cuMemFree(pieces[i]);
    tessera_task_free(id);
}

int main(int count, char **words) {
    if (count != 5)
        return 2;
    state = strtoull(words[1], 0, 10);
    long rounds = atol(words[2]);
    uint64_t most = strtoull(words[3], 0, 10);
    if (!getenv("TESSERA_TASK_SOCKET")) {
        CUcontext context;
        if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
            oom++;
    }
    for (long i = 0; i < rounds; i++)
        task(most, 0);
    char line[128];
    int length = snprintf(line, sizeof line, "%d %ld %ld %ld\n", getpid(), oom, growth, other);
    int file = open(words[4], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    return file < 0 || write(file, line, length) != length;
}
