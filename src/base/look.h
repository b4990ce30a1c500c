/* look.h -- a thread looks again for a while before it sleeps, where its work is about to come.
 *
 * Waking a sleeping core takes 20 to 100 us on a virtual machine. A thread whose last rounds were
 * small is likely to be needed again within less; one whose rounds are large gives its core to the
 * others, and does not look again until they have been small for a time. */
#ifndef TALLY_BASE_LOOK_H
#define TALLY_BASE_LOOK_H

#include <stdint.h>

struct look_limits {
    uint32_t busy_max;  /* more than this at once, and it is crowded */
    int64_t look_ns;    /* how long to look; 0: never */
    int64_t crowded_ns; /* how long it stays crowded after that */
};

struct look {
    struct look_limits limits;
    int64_t crowded_until_ns;
};

/* Until when to look, given how much there was to do just now; `now_ns`: not at all. */
static inline int64_t look_until_ns(struct look *look, uint32_t busy, int64_t now_ns)
{
    if (busy > look->limits.busy_max) look->crowded_until_ns = now_ns + look->limits.crowded_ns;
    return now_ns < look->crowded_until_ns ? now_ns : now_ns + look->limits.look_ns;
}

#endif
