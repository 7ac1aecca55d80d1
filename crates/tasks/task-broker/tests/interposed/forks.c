/* Threads ask whether there is a driver, as programs do that can use one; the process forks meanwhile, and each child asks too.
   Prints how many children a signal ended, and how many of them found a driver that is not there. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 200, THREADS = 3, PATIENCE_S = 60 };

static void *look(void *unused) {
    for (;;)
        dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
    return unused;
}

int main(void) {
    int killed = 0, found = 0;
    pthread_t thread;
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, NULL, look, NULL))
            return 1;
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        pid_t child = fork();
        if (child < 0)
            return 1;
        if (child == 0) {
            alarm(PATIENCE_S);
            _exit(dlsym(RTLD_DEFAULT, "cuInit") != NULL);
        }
        if (waitpid(child, &status, 0) != child)
            return 1;
        killed += WIFSIGNALED(status);
        found += WIFEXITED(status) && WEXITSTATUS(status) != 0;
    }
    printf("%d %d\n", killed, found);
    fflush(stdout);
    _exit(0);
}
