/* dice.h -- one seed's stream of random numbers. The same seed throws the same dice for ever. */
#ifndef TALLY_TESTS_SIM_DICE_H
#define TALLY_TESTS_SIM_DICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/must.h"

struct dice {
    uint64_t state;
};

static inline uint64_t dice_throw(struct dice *dice)
{
    uint64_t z = dice->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* 0 to below `count`. */
static inline unsigned dice_below(struct dice *dice, unsigned count)
{
    must(count > 0);
    return (unsigned)(dice_throw(dice) % count);
}

/* `least` to `most`, both included. */
static inline int64_t dice_between(struct dice *dice, int64_t least, int64_t most)
{
    must(least <= most);
    return least + (int64_t)(dice_throw(dice) % ((uint64_t)(most - least) + 1));
}

static inline bool dice_chance(struct dice *dice, unsigned percent)
{
    return dice_below(dice, 100) < percent;
}

#define DICE_PICK(dice, array) ((array)[dice_below((dice), (unsigned)ARRAY_COUNT(array))])

#endif
