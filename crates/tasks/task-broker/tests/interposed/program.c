/* A program of the driver API that knows nothing of GPU tasks. Its first argument says how it reaches the driver: link, dlsym,
 * proc (cuGetProcAddress) or proc_v2. The others are done one after another, each with a line: what, its result, what it
 * gave. */
#define _GNU_SOURCE
#include <cuda.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The functions, by the name that programs write and the name that is exported. */
#define FUNCTIONS(F)                                                                                                   \
    F(cuInit, "cuInit")                                                                                                \
    F(cuDeviceGetCount, "cuDeviceGetCount")                                                                            \
    F(cuDeviceGet, "cuDeviceGet")                                                                                      \
    F(cuDeviceTotalMem, "cuDeviceTotalMem_v2")                                                                         \
    F(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain")                                                            \
    F(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset_v2")                                                           \
    F(cuCtxCreate, "cuCtxCreate_v2")                                                                                   \
    F(cuCtxDestroy, "cuCtxDestroy_v2")                                                                                 \
    F(cuCtxSetCurrent, "cuCtxSetCurrent")                                                                              \
    F(cuMemAlloc, "cuMemAlloc_v2")                                                                                     \
    F(cuMemAllocAsync, "cuMemAllocAsync")                                                                              \
    F(cuMemAllocPitch, "cuMemAllocPitch_v2")                                                                           \
    F(cuMemAllocManaged, "cuMemAllocManaged")                                                                          \
    F(cuMemFree, "cuMemFree_v2")                                                                                       \
    F(cuMemFreeAsync, "cuMemFreeAsync")                                                                                \
    F(cuMemGetInfo, "cuMemGetInfo_v2")                                                                                 \
    F(cuMemAddressReserve, "cuMemAddressReserve")                                                                      \
    F(cuMemCreate, "cuMemCreate")                                                                                      \
    F(cuMemRelease, "cuMemRelease")                                                                                    \
    F(cuMemMap, "cuMemMap")                                                                                            \
    F(cuMemUnmap, "cuMemUnmap")                                                                                        \
    F(cuLaunchKernel, "cuLaunchKernel")

#define DECLARE(name, exported) static __typeof__(&name) p_##name;
FUNCTIONS(DECLARE)

#ifdef LINKED
#define TAKE(name, exported) p_##name = &name;
static void reach(const char *how) {
    (void)how;
    FUNCTIONS(TAKE)
}
#else
typedef CUresult (*first_form)(const char *, void **, int, unsigned long long);
typedef CUresult (*second_form)(const char *, void **, int, unsigned long long, CUdriverProcAddressQueryResult *);

static void *find(void *library, const char *how, const char *base, const char *exported) {
    void *found = NULL;
    if (!strcmp(how, "dlsym"))
        return dlsym(library, exported);
    if (!strcmp(how, "proc"))
        ((first_form)dlsym(library, "cuGetProcAddress"))(base, &found, 11080, 0);
    else
        ((second_form)dlsym(library, "cuGetProcAddress_v2"))(base, &found, 12080, 0, NULL);
    return found;
}

static const char *base_name(const char *text) {
    /* cuda.h makes cuMemAlloc_v2 of cuMemAlloc before the name becomes text. */
    static char base[64];
    strncpy(base, text, sizeof base - 1);
    char *version = strstr(base, "_v");
    if (version)
        *version = 0;
    return base;
}

#define TAKE(name, exported)                                                                                           \
    if (!(p_##name = (__typeof__(&name))find(library, how, base_name(exported), exported)))                            \
        fprintf(stderr, "%s is missing\n", exported), exit(1);
static void reach(const char *how) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library)
        fprintf(stderr, "%s\n", dlerror()), exit(1);
    FUNCTIONS(TAKE)
}
#endif

static CUcontext context;
static CUdeviceptr stack[4096];
static int top;

static void *churn(void *result) {
    p_cuCtxSetCurrent(context);
    for (int round = 0; round < 50; round++) {
        CUdeviceptr large, small[8];
        int n = 0;
        if (p_cuMemAlloc(&large, 300u << 20) != CUDA_SUCCESS) {
            *(int *)result = 1;
            continue;
        }
        for (; n < 8; n++)
            if (p_cuMemAlloc(&small[n], 1000 << n) != CUDA_SUCCESS)
                break;
        while (n-- > 0)
            if (p_cuMemFree(small[n]) != CUDA_SUCCESS)
                *(int *)result = 2;
        if (p_cuMemFree(large) != CUDA_SUCCESS)
            *(int *)result = 2;
    }
    return NULL;
}

static size_t wanted;
static void *allocate_later(void *result) {
    CUdeviceptr at;
    p_cuCtxSetCurrent(context);
    *(int *)result = p_cuMemAlloc(&at, wanted << 20);
    return NULL;
}
static pthread_t later;
static int later_result;

static int physical(size_t bytes) {
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemGenericAllocationHandle handle;
    size_t free_before, free_mapped, free_after, total;
    CUdeviceptr at;
    int r;
    p_cuMemGetInfo(&free_before, &total);
    if ((r = p_cuMemCreate(&handle, bytes, &properties, 0)))
        return r;
    if ((r = p_cuMemAddressReserve(&at, bytes, 0, 0, 0)) || (r = p_cuMemMap(at, bytes, 0, handle, 0)))
        return r;
    p_cuMemRelease(handle);
    p_cuMemGetInfo(&free_mapped, &total);
    p_cuMemUnmap(at, bytes);
    p_cuMemGetInfo(&free_after, &total);
    return free_mapped == free_before - bytes && free_after == free_before ? 0 : -1;
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    reach(arguments[1]);
    for (int i = 2; i < count; i++) {
        const char *verb = arguments[i];
        size_t number = i + 1 < count ? strtoull(arguments[i + 1], NULL, 10) : 0;
        char text[256] = "";
        int r = 0;
        if (!strcmp(verb, "init")) {
            r = p_cuInit(0);
        } else if (!strcmp(verb, "count")) {
            int n = -1;
            r = p_cuDeviceGetCount(&n);
            sprintf(text, " %d", n);
        } else if (!strcmp(verb, "get")) {
            CUdevice device;
            r = p_cuDeviceGet(&device, number), i++;
        } else if (!strcmp(verb, "total")) {
            size_t total = 0;
            r = p_cuDeviceTotalMem(&total, 0);
            sprintf(text, " %zu", total >> 20);
        } else if (!strcmp(verb, "context")) {
            r = p_cuCtxCreate(&context, 0, 0);
        } else if (!strcmp(verb, "destroy")) {
            r = p_cuCtxDestroy(context);
        } else if (!strcmp(verb, "primary")) {
            if (!(r = p_cuDevicePrimaryCtxRetain(&context, 0)))
                r = p_cuCtxSetCurrent(context);
        } else if (!strcmp(verb, "reset")) {
            r = p_cuDevicePrimaryCtxReset(0);
        } else if (!strcmp(verb, "alloc")) {
            r = p_cuMemAlloc(&stack[top++], number << 20), i++;
        } else if (!strcmp(verb, "async")) {
            r = p_cuMemAllocAsync(&stack[top++], number << 20, NULL), i++;
        } else if (!strcmp(verb, "pitch")) {
            size_t pitch = 0;
            r = p_cuMemAllocPitch(&stack[top++], &pitch, 1000, number, 4), i++;
            sprintf(text, " %zu", pitch);
        } else if (!strcmp(verb, "managed")) {
            r = p_cuMemAllocManaged(&stack[top++], number << 20, CU_MEM_ATTACH_GLOBAL), i++;
        } else if (!strcmp(verb, "free")) {
            r = p_cuMemFree(stack[--top]);
        } else if (!strcmp(verb, "free_async")) {
            r = p_cuMemFreeAsync(stack[--top], NULL);
        } else if (!strcmp(verb, "free_bad")) {
            r = p_cuMemFree(12345);
        } else if (!strcmp(verb, "vmm")) {
            r = physical(number << 20), i++;
        } else if (!strcmp(verb, "launch")) {
            r = p_cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
        } else if (!strcmp(verb, "info")) {
            size_t free = 0, total = 0;
            r = p_cuMemGetInfo(&free, &total);
            sprintf(text, " %zu %zu", free >> 20, total >> 20);
        } else if (!strcmp(verb, "environment")) {
            const char *visible = getenv("CUDA_VISIBLE_DEVICES"), *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY");
            sprintf(text, " %s %s", visible ? visible : "-", pipe ? pipe : "-");
        } else if (!strcmp(verb, "threads")) {
            pthread_t threads[8];
            for (int t = 0; t < 8; t++)
                pthread_create(&threads[t], NULL, churn, &r);
            for (int t = 0; t < 8; t++)
                pthread_join(threads[t], NULL);
        } else if (!strcmp(verb, "later")) {
            /* Another thread allocates. */
            wanted = number, i++;
            r = pthread_create(&later, NULL, allocate_later, &later_result);
        } else if (!strcmp(verb, "join")) {
            pthread_join(later, NULL);
            r = later_result;
        } else if (!strcmp(verb, "starts")) {
            /* Threads that initialise the driver at once. */
            pthread_t threads[8];
            for (int t = 0; t < 8; t++)
                pthread_create(&threads[t], NULL, (void *(*)(void *))(void *)p_cuInit, NULL);
            for (int t = 0; t < 8; t++)
                pthread_join(threads[t], NULL);
        } else if (!strcmp(verb, "fork")) {
            /* The child goes on with the rest; the parent waits for it and ends with its answer. */
            int status = 0;
            pid_t child = fork();
            if (child != 0) {
                waitpid(child, &status, 0);
                printf("child: %d\n", status);
                verb = "parent";
                arguments[count - 1] = "parent";
                i = count - 1;
            }
        } else if (!strcmp(verb, "vfork")) {
            pid_t child = vfork();
            if (child == 0)
                execl("/bin/true", "true", NULL), _exit(1);
            waitpid(child, &r, 0);
        } else if (!strcmp(verb, "exec")) {
            arguments[i] = arguments[1], arguments[i - 1] = arguments[0];
            execv("/proc/self/exe", arguments + i - 1);
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
