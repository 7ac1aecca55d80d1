/* Begins a task, allocates its memory, gives it back and frees the task, once it is told to. */
#include <cuda.h>
#include <tessera_task.h>

#include <stdio.h>

int main(void) {
    CUdeviceptr memory;
    int64_t task;
    puts("waiting");
    fflush(stdout);
    getchar();
    task = tessera_task_begin(1 << 30, 128, 8);
    if (task <= 0 || cuMemAlloc(&memory, 1 << 30) || cuMemFree(memory))
        return 1;
    tessera_task_free(task);
    return 0;
}
