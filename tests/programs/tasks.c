/* A program with GPU tasks of its own: does what its arguments say, one after another, and prints a line for each.
 *
 *   task MEM THREADS BLOCKS   begins a task and allocates MEM bytes on its device, in three pieces
 *   static DEVICE MEM         allocates MEM bytes on a device that the program chose itself
 *   more MEM                  allocates MEM bytes more without asking
 *   end                       frees the oldest task and its memory
 *   until FILE                waits for a file
 *   touch FILE                makes one
 *   fork                      goes on in a child; the parent waits for it and ends as it does
 *   exec                      goes on in a new image of this program
 *   threads N MEM             N threads, each ten tasks of MEM bytes */
#include <cuda.h>
#include <tessera_task.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECES = 3, TASKS = 16 };
static struct { int64_t id; CUdeviceptr pieces[PIECES]; } tasks[TASKS];
static int first, next;

static int allocate(CUdeviceptr *pieces, uint64_t mem) {
    int result = 0;
    for (int i = 0; i < PIECES; i++) {
        uint64_t part = i ? mem / PIECES : mem - (PIECES - 1) * (mem / PIECES);
        int r = cuMemAlloc(&pieces[i], part);
        if (r == CUDA_SUCCESS)
            r = cuMemsetD8(pieces[i], 1, 1);
        result = result ? result : r;
    }
    return result;
}

static void where(char name[37]) {
    CUdevice device;
    CUuuid uuid;
    name[0] = 0;
    if (cuCtxGetDevice(&device) || cuDeviceGetUuid_v2(&uuid, device))
        return;
    for (int i = 0; i < 16; i++)
        sprintf(name + strlen(name), i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                (unsigned char)uuid.bytes[i]);
}

static void task(uint64_t mem, uint32_t threads, uint64_t blocks) {
    char device[37];
    int64_t id = tessera_task_begin(mem, threads, blocks);
    int result = id < 0 ? -1 : allocate(tasks[next % TASKS].pieces, mem);
    where(device);
    tasks[next++ % TASKS].id = id;
    printf("task %llu: %s alloc %d on %s\n", (unsigned long long)mem, id < 0 ? "refused" : "granted", result, device);
}

static void *ten(void *mem) {
    long bad = 0;
    for (int i = 0; i < 10; i++) {
        CUdeviceptr pieces[PIECES];
        int64_t id = tessera_task_begin(*(uint64_t *)mem, 32, 1);
        bad += id <= 0 || allocate(pieces, *(uint64_t *)mem) != CUDA_SUCCESS;
        for (int p = 0; p < PIECES; p++)
            cuMemFree(pieces[p]);
        tessera_task_free(id);
    }
    return (void *)bad;
}

int main(int count, char **words) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int at = 1; at < count; at++) {
        const char *what = words[at];
        if (!strcmp(what, "task")) {
            task(strtoull(words[at + 1], 0, 10), atoi(words[at + 2]), strtoull(words[at + 3], 0, 10));
            at += 3;
        } else if (!strcmp(what, "static")) {
            CUcontext context;
            CUdeviceptr pieces[PIECES];
            int device = atoi(words[++at]), result = cuInit(0);
            result = result ? result : cuDevicePrimaryCtxRetain(&context, device);
            result = result ? result : cuCtxSetCurrent(context);
            result = result ? result : allocate(pieces, strtoull(words[++at], 0, 10));
            printf("static %d: alloc %d\n", device, result);
        } else if (!strcmp(what, "more")) {
            CUdeviceptr piece;
            int result = cuMemAlloc(&piece, strtoull(words[++at], 0, 10));
            printf("more: alloc %d\n", result);
        } else if (!strcmp(what, "end")) {
            for (int i = 0; i < PIECES; i++)
                cuMemFree(tasks[first % TASKS].pieces[i]);
            tessera_task_free(tasks[first++ % TASKS].id);
            printf("end\n");
        } else if (!strcmp(what, "until")) {
            at++;
            while (access(words[at], F_OK))
                usleep(20000);
        } else if (!strcmp(what, "touch")) {
            fclose(fopen(words[++at], "w"));
        } else if (!strcmp(what, "fork")) {
            pid_t child = fork();
            int status = 1;
            if (child) {
                waitpid(child, &status, 0);
                return status ? 1 : 0;
            }
        } else if (!strcmp(what, "exec")) {
            words[at] = words[0];
            execv("/proc/self/exe", &words[at]);
            return 1;
        } else if (!strcmp(what, "threads")) {
            pthread_t threads[64];
            int n = atoi(words[++at]);
            uint64_t mem = strtoull(words[++at], 0, 10);
            long bad = 0;
            for (int i = 0; i < n; i++)
                pthread_create(&threads[i], NULL, ten, &mem);
            for (int i = 0; i < n; i++) {
                void *result;
                pthread_join(threads[i], &result);
                bad += (long)result;
            }
            printf("threads: %ld bad\n", bad);
        } else {
            fprintf(stderr, "%s: unknown word\n", what);
            return 2;
        }
    }
    printf("done\n");
    return 0;
}
