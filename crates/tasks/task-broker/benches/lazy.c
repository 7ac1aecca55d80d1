/* Times launches as tessera-clang++ compiles them when the objects' task was not known: with tessera_launch_prepare() and three
 * tessera_lazy_address(), and without. Prints a line for each: launch, found or direct, nanoseconds per launch. The arguments:
 * rounds, launches per round, a driver that does nothing. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <tessera_task.h>
#include <time.h>

typedef int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

int main(int count, char **arguments) {
    if (count < 4)
        return 1;
    int rounds = atoi(arguments[1]), launches = atoi(arguments[2]);
    void *objects[3], *there[3], *driver = dlopen(arguments[3], RTLD_NOW | RTLD_LOCAL);
    launch go = driver ? (launch)dlsym(driver, "cuLaunchKernel") : NULL;
    for (int i = 0; i < 3; i++)
        if (!tessera_lazy_malloc(&objects[i], NULL, 4 << 20, 1, TESSERA_LAZY_DEVICE))
            return 2;
    if (!go)
        return 3;
    /* Asks for the task; those that follow find it. */
    tessera_launch_prepare(128, 64);
    for (int round = 0; round < 2 * rounds; round++) {
        int is_found = round % 2;
        double begin = now();
        for (int i = 0; i < launches; i++) {
            if (is_found) {
                tessera_launch_prepare(128, 64);
                for (int k = 0; k < 3; k++)
                    there[k] = tessera_lazy_address(objects[k]);
            }
            if (go(NULL, 64, 1, 1, 128, 1, 1, 0, NULL, there, NULL))
                return 4;
        }
        printf("launch %s %.3f\n", is_found ? "found" : "direct", (now() - begin) / launches);
    }
    return 0;
}
