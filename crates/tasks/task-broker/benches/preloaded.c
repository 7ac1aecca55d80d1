/* Times calls of the driver: directly, as the C library's own dlsym finds them, and as the program's dlsym does. Prints a line for each: what, direct or found,
 * nanoseconds per call. The arguments: rounds, calls per launch round (0: none), pairs per allocation round, MiB. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
typedef int (*allocate)(unsigned long long *, size_t);
typedef int (*release)(unsigned long long);
typedef int (*start)(unsigned);
typedef void *(*lookup)(void *, const char *);
typedef int (*create)(void **, unsigned, int);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int count, char **arguments) {
    int rounds = atoi(arguments[1]), launches = atoi(arguments[2]), pairs = atoi(arguments[3]);
    size_t bytes = strtoull(arguments[4], NULL, 10) << 20;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
    if (count < 5 || !driver || ((start)dlsym(driver, "cuInit"))(0))
        return 1;
    create make = (create)dlsym(driver, "cuCtxCreate_v2");
    if (make && make(&context, 0, 0))
        return 1;
    /* The library does not stand before dlvsym. */
    lookup own = (lookup)dlvsym(dlopen("libc.so.6", RTLD_NOW), "dlsym", "GLIBC_2.2.5");
    if (!own)
        return 2;
    for (int round = 0; round < 2 * rounds; round++) {
        int is_found = round % 2;
        const char *how = is_found ? "found" : "direct";
#define FIND(name) (is_found ? dlsym(driver, name) : own(driver, name))
        launch go = (launch)FIND("cuLaunchKernel");
        allocate take = (allocate)FIND("cuMemAlloc_v2");
        release give = (release)FIND("cuMemFree_v2");
        if (!go || !take || !give)
            return 2;
        double begin = now();
        for (int i = 0; i < launches; i++)
            if (go(NULL, 1, 2, 3, 4, 5, 6, 7, NULL, NULL, NULL))
                return 3;
        if (launches)
            printf("launch %s %.3f\n", how, (now() - begin) / launches);
        begin = now();
        for (int i = 0; i < pairs; i++) {
            unsigned long long at;
            if (take(&at, bytes) || give(at))
                return 4;
        }
        printf("pair %s %.1f\n", how, (now() - begin) / pairs);
    }
    return 0;
}
