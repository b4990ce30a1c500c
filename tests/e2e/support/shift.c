/* shift.c -- a preload library that moves a program's wall clock, while it runs, and no other
 * clock.
 *
 *     LD_PRELOAD=shift.so TALLY_SHIFT=<file of 8 bytes> tally serve ...
 *
 * The file holds by how many nanoseconds, as a native 64-bit number; it is mapped, so what a test
 * writes there holds at once. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const _Atomic int64_t *shift;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("TALLY_SHIFT");
    int fd = path ? open(path, O_RDONLY) : -1;
    if (fd < 0) return;
    void *at = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) shift = at;
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result != 0 || clock != CLOCK_REALTIME || !shift) return result;
    int64_t shifted_ns = time->tv_nsec + *shift % 1000000000;
    time->tv_sec += *shift / 1000000000 + (shifted_ns >= 1000000000) - (shifted_ns < 0);
    time->tv_nsec = (shifted_ns + 1000000000) % 1000000000;
    return 0;
}

/* PostgreSQL asks this one. */
int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
    struct timespec precise;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &precise);
    *time = (struct timeval){.tv_sec = precise.tv_sec, .tv_usec = precise.tv_nsec / 1000};
    return result;
}
