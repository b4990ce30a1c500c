/* clock.h -- the one source of time, so that a test can be another. */
#ifndef TALLY_BASE_CLOCK_H
#define TALLY_BASE_CLOCK_H

#include <stdint.h>

struct clock {
    int64_t (*wall_ms)(void *context); /* since the Unix epoch; may step */
    int64_t (*mono_ns)(void *context); /* never steps back */
    void *context;
};

extern const struct clock clock_system;

static inline int64_t clock_wall_ms(const struct clock *clock)
{
    return clock->wall_ms(clock->context);
}

static inline int64_t clock_mono_ns(const struct clock *clock)
{
    return clock->mono_ns(clock->context);
}

#endif
