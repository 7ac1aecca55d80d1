/* A kernel that ends its process: with `fault` by a memory fault, otherwise it runs until the process is killed. */
#include <cuda_runtime.h>
#include <cstdio>
#include <cstring>

__global__ void dies(int *address, bool faults, volatile int *begun) {
    *begun = 1;
    if (faults)
        *address = 1;
    for (volatile int forever = 1; forever;)
        __nanosleep(1000000);
}

int main(int count, char **arguments) {
    int *begun;
    if (cudaMalloc(&begun, 4) != cudaSuccess)
        return 1;
    printf("begins\n");
    fflush(stdout);
    if (count > 1 && !strcmp(arguments[1], "waits"))
        getchar();
    dies<<<1, 1>>>(nullptr, count > 1 && !strcmp(arguments[1], "fault"), begun);
    return cudaDeviceSynchronize();
}
