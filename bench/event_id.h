/* event_id.h -- ids for events that are never sent twice, in the form of a random UUID.
 *
 * They are counted up and spread over all bits, which costs a load generator a few nanoseconds. */
#ifndef TALLY_BENCH_EVENT_ID_H
#define TALLY_BENCH_EVENT_ID_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/random.h>

#define ID_SIZE 36 /* as text */

static uint64_t id_spread(uint64_t value)
{
    value = (value ^ value >> 32) * 0xd6e8feb86659fd93u;
    value = (value ^ value >> 32) * 0xd6e8feb86659fd93u;
    return value ^ value >> 32;
}

/* Never the same in two runs, or the second would count nothing. False: there are no random bytes
 * to be had. */
static inline bool id_write(char at[static ID_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    static uint64_t drawn;
    if (drawn == 0 && getrandom(&drawn, sizeof drawn, 0) < 0) return false;
    uint64_t high = id_spread(++drawn), low = id_spread(high ^ drawn);
    for (unsigned i = 0; i < ID_SIZE; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        uint64_t *half = i < 18 ? &high : &low;
        at[i] = dash ? '-' : digits[*half & 15];
        if (!dash) *half >>= 4;
    }
    return true;
}

#endif
