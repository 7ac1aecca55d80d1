/* A driver that does nothing but write down what it is called with. Linked as libcuda.so.1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static long next = 0x10000;
static void note(const char *name, int count, const long *a) {
    char line[400];
    int n = sprintf(line, "%s", name);
    for (int i = 0; i < count; i++)
        n += sprintf(line + n, " %d", (int)a[i]); /* Of an int on the stack, only 32 bits are defined. */
    puts(line);
}

/* A function of so many arguments. Those that make something answer through the first. */
#define ANY(name, count, makes)                                                                                        \
    int name(long a, long b, long c, long d, long e, long f, long g, long h, long i, long j, long k) {                 \
        long all[] = {a, b, c, d, e, f, g, h, i, j, k};                                                                \
        if (makes) {                                                                                                   \
            *(long *)a = next += 16;                                                                                   \
            all[0] = 0;                                                                                                \
        }                                                                                                              \
        note(#name, count, all);                                                                                       \
        return 0;                                                                                                      \
    }
ANY(cuMemAlloc_v2, 2, 1)
ANY(cuMemAllocAsync, 3, 1)
ANY(cuMemAllocAsync_ptsz, 3, 1)
ANY(cuMemAllocFromPoolAsync, 4, 1)
ANY(cuMemAllocFromPoolAsync_ptsz, 4, 1)
ANY(cuMemAllocManaged, 3, 1)
ANY(cuMemFree_v2, 1, 0)
ANY(cuMemFreeAsync, 2, 0)
ANY(cuMemFreeAsync_ptsz, 2, 0)
ANY(cuArrayDestroy, 1, 0)
ANY(cuMipmappedArrayDestroy, 1, 0)
ANY(cuMemRelease, 1, 0)
ANY(cuMemRetainAllocationHandle, 2, 1)
ANY(cuMemMap, 5, 0)
ANY(cuMemUnmap, 2, 0)
ANY(cuCtxDestroy, 1, 0)
ANY(cuCtxDestroy_v2, 1, 0)
ANY(cuDevicePrimaryCtxRelease, 1, 0)
ANY(cuDevicePrimaryCtxRelease_v2, 1, 0)
ANY(cuDevicePrimaryCtxReset, 1, 0)
ANY(cuDevicePrimaryCtxReset_v2, 1, 0)
ANY(cuLaunchKernel, 11, 0)
ANY(cuLaunchKernel_ptsz, 11, 0)
ANY(cuLaunchCooperativeKernel, 10, 0)
ANY(cuLaunchCooperativeKernel_ptsz, 10, 0)
ANY(cuLaunchKernelEx, 4, 0)
ANY(cuLaunchKernelEx_ptsz, 4, 0)
ANY(cuGraphLaunch, 2, 0)
ANY(cuGraphLaunch_ptsz, 2, 0)
ANY(cuInit, 1, 0)
ANY(cuDeviceGet, 2, 1)

/* Those whose other arguments are read or written. */
#define OUT(name, count, extra)                                                                                        \
    int name(long a, long b, long c, long d, long e) {                                                                 \
        long all[] = {0, b, c, d, e};                                                                                  \
        *(long *)a = next += 16;                                                                                       \
        extra;                                                                                                         \
        note(#name, count, all);                                                                                       \
        return 0;                                                                                                      \
    }
OUT(cuMemAllocPitch_v2, 5, (*(long *)b = 1024, all[1] = 0))
OUT(cuArrayCreate_v2, 1, )
OUT(cuArray3DCreate_v2, 1, )
OUT(cuMipmappedArrayCreate, 1, )
OUT(cuMemCreate, 2, )
int cuMemGetInfo_v2(size_t *free, size_t *total) {
    *free = 23ul << 30, *total = 24ul << 30;
    return 0;
}
int cuDeviceTotalMem_v2(size_t *total, int device) {
    note("cuDeviceTotalMem_v2", 1, (long[]){device});
    *total = 24ul << 30;
    return 0;
}
int cuCtxGetCurrent(long *context) { return *context = 7, 0; }
int cuDevicePrimaryCtxRetain(long *context, int device) { return *context = 7 + device, 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    return *flags = 0, *active = device, 0;
}

/* As some driver might: the addresses are not those of the exported functions. */
static int hidden(void) { return 77; }
static int look(const char *name, const char *symbol, void **out, int version, unsigned long flags) {
    note(name, 2, (long[]){version, (long)flags});
    *out = strcmp(symbol, "cuHidden") ? (void *)hidden : NULL;
    return *out ? 0 : 500;
}
int cuGetProcAddress(const char *symbol, void **out, int version, unsigned long flags) {
    return look("cuGetProcAddress", symbol, out, version, flags);
}
int cuGetProcAddress_v2(const char *symbol, void **out, int version, unsigned long flags, int *status) {
    if (status)
        *status = 0;
    return look("cuGetProcAddress_v2", symbol, out, version, flags);
}
