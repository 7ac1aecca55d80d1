/* Shifts the wall clock of every process that loads it (crates/tools/lab/src/clock.rs says why and how).
 *
 * Beside the library lies the file `steps`: how often the clock was set, and for each time when that was on the machine's
 * clock and by how much the host's clock has differed since. Every process maps it, so the clock moves in all of them at once.
 * The monotonic clocks stay as they are. A file's times are those that the host's clock showed when the kernel noted them.
 *
 * A wait or timer that has begun ends when it would have ended without the step. (The kernel would end it by the new time.) */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MOST 255

struct step {
	int64_t since_s;
	int64_t offset_s;
};

struct steps {
	_Atomic int64_t count;
	int64_t unused;
	struct step all[MOST];
};

static const struct steps *steps;
static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_timer)(timer_t, int, const struct itimerspec *, struct itimerspec *);
static int (*real_wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void map_steps(void)
{
	Dl_info own;
	char path[4096];

	real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
	real_timer = dlsym(RTLD_NEXT, "timer_settime");
	real_wait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
	if (!dladdr((void *)map_steps, &own) || !own.dli_fname || strlen(own.dli_fname) + 8 > sizeof(path))
		return;
	strcpy(path, own.dli_fname);
	char *slash = strrchr(path, '/');
	if (!slash)
		return;
	strcpy(slash + 1, "steps");
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	void *at = mmap(NULL, sizeof(struct steps), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (at != MAP_FAILED)
		steps = at;
}

static int64_t last_offset(void)
{
	int64_t count = steps ? steps->count : 0;
	return count > 0 && count <= MOST ? steps->all[count - 1].offset_s : 0;
}

/* The offset in force when the machine's clock showed this time. */
static int64_t offset_at(int64_t time_s)
{
	int64_t count = steps ? steps->count : 0;
	for (int64_t at = count <= MOST ? count : 0; at > 0; at--)
		if (steps->all[at - 1].since_s <= time_s)
			return steps->all[at - 1].offset_s;
	return 0;
}

int clock_gettime(clockid_t id, struct timespec *out)
{
	int rc = real_gettime ? real_gettime(id, out) : (int)syscall(SYS_clock_gettime, id, out);
	if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE || id == CLOCK_TAI))
		out->tv_sec += last_offset();
	return rc;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	struct timespec now;
	(void)zone;
	int rc = clock_gettime(CLOCK_REALTIME, &now);
	out->tv_sec = now.tv_sec;
	out->tv_usec = now.tv_nsec / 1000;
	return rc;
}

time_t time(time_t *out)
{
	struct timespec now = { 0 };
	clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (out)
		*out = now.tv_sec;
	return now.tv_sec;
}

int timespec_get(struct timespec *out, int base)
{
	return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, out) == 0 ? base : 0;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
			   const struct timespec *restrict until)
{
	struct timespec real = *until;
	/* glibc notes here which clock pthread_condattr_setclock chose: 0 is the wall clock. */
	if (!(cond->__data.__wrefs & 2))
		real.tv_sec -= last_offset();
	return real_wait(cond, mutex, &real);
}

int timer_settime(timer_t timer, int flags, const struct itimerspec *restrict value, struct itimerspec *restrict old)
{
	struct itimerspec real = *value;
	/* An absolute time of the wall clock, or of TAI. No monotonic clock shows as much: that is 30 years. */
	if ((flags & TIMER_ABSTIME) && real.it_value.tv_sec > 1000000000)
		real.it_value.tv_sec -= last_offset();
	return real_timer ? real_timer(timer, flags, &real, old) : (errno = ENOSYS, -1);
}

static int shift_stat(int rc, struct stat *out)
{
	if (rc == 0) {
		out->st_atim.tv_sec += offset_at(out->st_atim.tv_sec);
		out->st_mtim.tv_sec += offset_at(out->st_mtim.tv_sec);
		out->st_ctim.tv_sec += offset_at(out->st_ctim.tv_sec);
	}
	return rc;
}

int fstatat(int dir, const char *restrict path, struct stat *restrict out, int flags)
{
	return shift_stat((int)syscall(SYS_newfstatat, dir, path, out, flags), out);
}

int stat(const char *restrict path, struct stat *restrict out)
{
	return fstatat(AT_FDCWD, path, out, 0);
}

int lstat(const char *restrict path, struct stat *restrict out)
{
	return fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

int fstat(int fd, struct stat *out)
{
	return shift_stat((int)syscall(SYS_fstat, fd, out), out);
}

/* On 64-bit machines both structures are the same. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "struct stat64 differs");

int fstatat64(int dir, const char *restrict path, struct stat64 *restrict out, int flags)
{
	return fstatat(dir, path, (struct stat *)out, flags);
}

int stat64(const char *restrict path, struct stat64 *restrict out)
{
	return stat(path, (struct stat *)out);
}

int lstat64(const char *restrict path, struct stat64 *restrict out)
{
	return lstat(path, (struct stat *)out);
}

int fstat64(int fd, struct stat64 *out)
{
	return fstat(fd, (struct stat *)out);
}

int statx(int dir, const char *restrict path, int flags, unsigned mask, struct statx *restrict out)
{
	int rc = (int)syscall(SYS_statx, dir, path, flags, mask, out);
	if (rc == 0) {
		out->stx_atime.tv_sec += offset_at(out->stx_atime.tv_sec);
		out->stx_btime.tv_sec += offset_at(out->stx_btime.tv_sec);
		out->stx_ctime.tv_sec += offset_at(out->stx_ctime.tv_sec);
		out->stx_mtime.tv_sec += offset_at(out->stx_mtime.tv_sec);
	}
	return rc;
}
