/* clock.h -- the one source of time, so that a test can be another.
 *
 * The wall clock says what people call the time, and may be wrong. What is decided, dated or shown
 * goes by batch time (commit/timekeeper.h), which clock_moment says; only tokens, the log and
 * HTTP's Date go by the wall. */
#ifndef TALLY_BASE_CLOCK_H
#define TALLY_BASE_CLOCK_H

#include "base/moment.h"

struct clock {
    int64_t (*wall_ms)(void *context); /* since the Unix epoch; may step */
    int64_t (*mono_ns)(void *context); /* never steps back */
    void *context;
    struct moment (*moment)(void *context); /* batch time; NULL: the wall clock is all there is */
    int64_t (*boot_ms)(void *context);      /* never steps, and goes on while the machine sleeps */
    bool (*synchronised)(void *context);    /* whether the kernel vouches for the wall clock */
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

static inline int64_t clock_boot_ms(const struct clock *clock)
{
    return clock->boot_ms(clock->context);
}

static inline bool clock_synchronised(const struct clock *clock)
{
    return clock->synchronised(clock->context);
}

static inline struct moment clock_moment(const struct clock *clock)
{
    if (clock->moment) return clock->moment(clock->context);
    return (struct moment){.now_ms = clock_wall_ms(clock)};
}

static inline int64_t clock_now_ms(const struct clock *clock)
{
    return clock_moment(clock).now_ms;
}

#endif
