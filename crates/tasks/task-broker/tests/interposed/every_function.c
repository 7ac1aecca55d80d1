/* Calls every function that the library stands before, with arguments that can be told from each other. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*any)(long, long, long, long, long, long, long, long, long, long, long);
static void *driver;
static any find(const char *name) {
    any found = (any)dlsym(driver, name);
    if (!found)
        fprintf(stderr, "%s is missing\n", name), exit(1);
    return found;
}

static void left(const char *after) {
    size_t free = 0, total = 0;
    find("cuMemGetInfo_v2")((long)&free, (long)&total, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    printf("%s: %zu of %zu MiB\n", after, free >> 20, total >> 20);
}

#define CALL(name, ...) call(name, (long[11]){__VA_ARGS__})
static long out, pitch;
static void call(const char *name, long *a) {
    int r = find(name)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
    if (r)
        printf("%s answered %d\n", name, r);
}

int main(void) {
    const long MIB = 1 << 20, o = (long)&out;
    driver = dlopen("libcuda.so.1", RTLD_NOW);
    CALL("cuInit", 0);
    left("at first");
    const char *linear[] = {"cuMemAlloc_v2", "cuMemAllocAsync", "cuMemAllocAsync_ptsz", "cuMemAllocFromPoolAsync",
                            "cuMemAllocFromPoolAsync_ptsz"};
    for (int i = 0; i < 5; i++) {
        CALL(linear[i], o, 10 * MIB, 21, 22);
        left(linear[i]);
        CALL(i == 0 ? "cuMemFree_v2" : i % 2 ? "cuMemFreeAsync" : "cuMemFreeAsync_ptsz", out, 23);
        left("freed");
    }
    CALL("cuMemAllocPitch_v2", o, (long)&pitch, 100, 20480, 4);
    left("pitch");
    CALL("cuMemFree_v2", out);
    CALL("cuMemAllocManaged", o, 10 * MIB, 1);
    left("managed");
    CALL("cuMemFree_v2", out);
    struct { size_t width, height; unsigned format, channels; } flat = {1024, 1024, 0x20, 4};
    CALL("cuArrayCreate_v2", o, (long)&flat);
    left("array");
    CALL("cuArrayDestroy", out);
    struct { size_t width, height, depth; unsigned format, channels, flags; } solid = {1024, 1024, 4, 0x10, 1, 0};
    CALL("cuArray3DCreate_v2", o, (long)&solid);
    left("solid array");
    CALL("cuArrayDestroy", out);
    CALL("cuMipmappedArrayCreate", o, (long)&solid, 2);
    left("mipmapped array");
    CALL("cuMipmappedArrayDestroy", out);
    struct { unsigned type, handles, place; int id; } property = {1, 0, 1, 0}, host = {1, 0, 2, 0};
    CALL("cuMemCreate", o, 10 * MIB, (long)&host, 0);
    left("physical memory of the host");
    CALL("cuMemCreate", o, 10 * MIB, (long)&property, 0);
    long handle = out;
    CALL("cuMemMap", 0x1000000, 10 * MIB, 0, handle, 0);
    CALL("cuMemRelease", handle);
    left("mapped");
    CALL("cuMemRetainAllocationHandle", o, 0x1000000 + 5);
    CALL("cuMemUnmap", 0x1000000, 10 * MIB);
    left("retained");
    CALL("cuMemRelease", out);
    left("released");
    const char *launches[] = {"cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchCooperativeKernel",
                              "cuLaunchCooperativeKernel_ptsz", "cuLaunchKernelEx", "cuLaunchKernelEx_ptsz", "cuGraphLaunch",
                              "cuGraphLaunch_ptsz"};
    for (int i = 0; i < 8; i++)
        CALL(launches[i], 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41);
    const char *ends[] = {"cuCtxDestroy", "cuCtxDestroy_v2"};
    for (int i = 0; i < 2; i++) {
        CALL("cuMemAlloc_v2", o, 10 * MIB);
        CALL(ends[i], 8);
        left("another context ended");
        CALL(ends[i], 7);
        left("its context ended");
    }
    const char *primary[] = {"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset",
                             "cuDevicePrimaryCtxReset_v2"};
    for (int i = 0; i < 4; i++)
        CALL(primary[i], 0);
    CALL("cuDeviceGet", o, 0);
    CALL("cuDeviceTotalMem_v2", o, 0);
    printf("total: %ld MiB\n", out / MIB);
    /* By name, because this driver's addresses are not those that it exports. */
    void *at = NULL, *exported;
    struct { const char *base, *name; int version; long flags; } looked[] = {
        {"cuMemAlloc", "cuMemAlloc_v2", 12080, 0}, {"cuMemAllocAsync", "cuMemAllocAsync_ptsz", 12080, 2},
        {"cuCtxDestroy", "cuCtxDestroy", 2000, 0}, {"cuCtxDestroy", "cuCtxDestroy_v2", 12080, 0},
        {"cuMemAlloc", NULL, 2000, 0}, {"cuMemcpy", NULL, 12080, 0}, {"cuHidden", NULL, 12080, 0},
    };
    for (int i = 0; i < 7; i++) {
        at = NULL;
        CALL(i % 2 ? "cuGetProcAddress_v2" : "cuGetProcAddress", (long)looked[i].base, (long)&at, looked[i].version,
             looked[i].flags, 0);
        exported = looked[i].name ? dlsym(driver, looked[i].name) : NULL;
        printf("%s %d: %s\n", looked[i].base, looked[i].version, at == NULL ? "nothing" : at == exported ? "ours" : "the driver's");
    }
    return 0;
}
