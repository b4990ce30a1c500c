/* clock.c -- the kernel's clocks. */
#include "base/clock.h"

#include <stddef.h>
#include <sys/timex.h>
#include <time.h>

static int64_t system_wall_ms(void *context)
{
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t system_mono_ns(void *context)
{
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t system_boot_ms(void *context)
{
    (void)context;
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Setting the clock by hand takes the kernel's word back until a time daemon gives it again. */
static bool system_synchronised(void *context)
{
    (void)context;
    struct timex state = {.modes = 0};
    int result = adjtimex(&state);
    return result >= 0 && result != TIME_ERROR && !(state.status & STA_UNSYNC);
}

const struct clock clock_system = {.wall_ms = system_wall_ms,
                                   .mono_ns = system_mono_ns,
                                   .boot_ms = system_boot_ms,
                                   .synchronised = system_synchronised};
