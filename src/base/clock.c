/* clock.c -- the kernel's clocks. */
#include "base/clock.h"

#include <stddef.h>
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

const struct clock clock_system = {system_wall_ms, system_mono_ns, NULL};
