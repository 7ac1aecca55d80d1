/* A process whose first thread ends before the others.
 *
 * `threads linger`: the first thread ends, and another one goes on.
 * `threads exec`:   a thread that is not the first one replaces the program by itself, again and again. The kernel ends all
 *                   other threads before; the more there are, the longer the first one is a zombie. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static char **arguments;

static void *go_on(void *nothing)
{
	for (;;)
		pause();
	return nothing;
}

static void *replace(void *nothing)
{
	execv("/proc/self/exe", arguments);
	_exit(1);
	return nothing;
}

int main(int count, char **words)
{
	pthread_t thread;
	arguments = words;
	if (count == 2 && !strcmp(words[1], "linger")) {
		pthread_create(&thread, NULL, go_on, NULL);
		pthread_exit(NULL);
	}
	for (int i = 0; i < 100; i++)
		pthread_create(&thread, NULL, go_on, NULL);
	pthread_create(&thread, NULL, replace, NULL);
	pthread_exit(pause() ? NULL : words);
}
