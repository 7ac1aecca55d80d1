/* Does what its arguments say, one after another, and prints a line for each: the call, its result, what it gave. */
#include <cuda.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static CUdeviceptr last;
static CUcontext context;

static void *allocate_and_free(void *result) {
    CUdeviceptr addresses[50];
    cuCtxSetCurrent(context);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 50; i++)
            if (cuMemAlloc(&addresses[i], (size_t)(i + 1) << 14) != CUDA_SUCCESS)
                *(int *)result = 1;
        for (int i = 0; i < 50; i++)
            if (cuMemFree(addresses[i]) != CUDA_SUCCESS)
                *(int *)result = 1;
    }
    return NULL;
}

/* Memory of a handle seen at two addresses, and at the same address again after it was unmapped. */
static int virtual_memory(size_t bytes) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle;
    CUdeviceptr first, again;
    size_t granule;
    int value = 0, r;
#define TRY(call) if ((r = (call)) != 0) { printf("%s: ", #call); return r; }
    TRY(cuMemGetAllocationGranularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    TRY(cuMemAddressReserve(&first, bytes, 0, 0, 0));
    TRY(cuMemCreate(&handle, bytes, &properties, 0));
    if (cuMemSetAccess(first, bytes, &access, 1) != CUDA_ERROR_INVALID_VALUE || first % granule)
        return -1;
    TRY(cuMemMap(first, bytes, 0, handle, 0));
    if (cuMemMap(first, bytes, 0, handle, 0) != CUDA_ERROR_INVALID_VALUE || cuMemAddressFree(first, bytes) == 0)
        return -2;
    TRY(cuMemSetAccess(first, bytes, &access, 1));
    TRY(cuMemsetD32(first, 77, 1));
    TRY(cuMemUnmap(first, bytes));
    if (cuMemcpyDtoH(&value, first, 4) != CUDA_ERROR_INVALID_VALUE)
        return -3;
    TRY(cuMemAddressFree(first, bytes));
    TRY(cuMemAddressReserve(&again, bytes, 0, first, 0));
    TRY(cuMemMap(again, bytes, 0, handle, 0));
    TRY(cuMemSetAccess(again, bytes, &access, 1));
    TRY(cuMemRelease(handle));
    TRY(cuMemcpyDtoH(&value, again, 4));
    if (value != 77 || again != first || *(int *)again != 77)
        return -4;
    TRY(cuMemUnmap(again, bytes));
    return cuMemRelease(handle) == CUDA_ERROR_INVALID_VALUE ? cuMemAddressFree(again, bytes) : -5;
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < count; i++) {
        const char *verb = arguments[i];
        size_t number = i + 1 < count ? strtoull(arguments[i + 1], NULL, 10) : 0;
        char text[256] = "";
        int r = 0;
        if (!strcmp(verb, "init")) {
            r = cuInit(0);
        } else if (!strcmp(verb, "count")) {
            int n = -1;
            r = cuDeviceGetCount(&n);
            sprintf(text, " %d", n);
        } else if (!strcmp(verb, "device")) {
            size_t total = 0;
            char name[200];
            CUuuid uuid;
            r = cuDeviceTotalMem(&total, number) || cuDeviceGetName(name, 200, number) || cuDeviceGetUuid(&uuid, number);
            sprintf(text, " %zu %02hhx%02hhx %s", total >> 20, uuid.bytes[0], uuid.bytes[1], name), i++;
        } else if (!strcmp(verb, "context")) {
            r = cuCtxCreate(&context, 0, number), i++;
        } else if (!strcmp(verb, "destroy")) {
            r = cuCtxDestroy(context);
        } else if (!strcmp(verb, "alloc")) {
            r = cuMemAlloc(&last, number), i++;
        } else if (!strcmp(verb, "managed")) {
            r = cuMemAllocManaged(&last, number, CU_MEM_ATTACH_GLOBAL), i++;
        } else if (!strcmp(verb, "free")) {
            r = cuMemFree(last);
        } else if (!strcmp(verb, "info")) {
            size_t free = 0, total = 0;
            r = cuMemGetInfo(&free, &total);
            sprintf(text, " %zu %zu", free >> 20, total >> 20);
        } else if (!strcmp(verb, "sms")) {
            int sms = -1;
            r = cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0);
            sprintf(text, " %d", sms);
        } else if (!strcmp(verb, "vmm")) {
            r = virtual_memory(number), i++;
        } else if (!strcmp(verb, "threads")) {
            pthread_t threads[8];
            for (int t = 0; t < 8; t++)
                pthread_create(&threads[t], NULL, allocate_and_free, &r);
            for (int t = 0; t < 8; t++)
                pthread_join(threads[t], NULL);
        } else if (!strcmp(verb, "fork")) {
            /* The child may not use CUDA, may not start it, and ends without touching what its parent has. */
            int status = 0, n;
            pid_t child = fork();
            if (child == 0)
                exit(cuDeviceGetCount(&n) * 10 + cuInit(0));
            waitpid(child, &status, 0);
            sprintf(text, " %d", WEXITSTATUS(status));
        } else if (!strcmp(verb, "exec")) {
            arguments[i] = arguments[0];
            execv("/proc/self/exe", arguments + i);
        } else if (!strcmp(verb, "wait")) {
            printf("waiting\n");
            if (getchar() == EOF)
                return 0;
            continue;
        } else {
            fprintf(stderr, "%s: no such verb\n", verb);
            return 1;
        }
        printf("%s: %d%s\n", verb, r, text);
    }
    return 0;
}
