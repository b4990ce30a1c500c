/* histogram.c -- the slot is the value's highest bit and the five bits after it. */
#include "cli/histogram.h"

#define FINE_BITS 5u

static unsigned slot_of(uint64_t value)
{
    if (value < HISTOGRAM_FINE) return (unsigned)value;
    unsigned high = 63u - (unsigned)__builtin_clzll(value);
    unsigned fine = (unsigned)(value >> (high - FINE_BITS)) & (HISTOGRAM_FINE - 1);
    return (high - FINE_BITS + 1) * HISTOGRAM_FINE + fine;
}

/* The highest value of a slot. */
static uint64_t slot_top(unsigned slot)
{
    if (slot < HISTOGRAM_FINE) return slot;
    unsigned shift = slot / HISTOGRAM_FINE - 1;
    uint64_t low = (uint64_t)(HISTOGRAM_FINE + slot % HISTOGRAM_FINE) << shift;
    return low + ((uint64_t)1 << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
    histogram->slots[slot_of(value)]++;
    histogram->count++;
    if (value > histogram->max) histogram->max = value;
}

uint64_t histogram_at(const struct histogram *histogram, double share)
{
    uint64_t seen = 0;
    uint64_t wanted = (uint64_t)(share * (double)histogram->count + 0.5);
    if (wanted < 1) wanted = 1;
    for (unsigned i = 0; i < HISTOGRAM_SLOTS; i++) {
        seen += histogram->slots[i];
        if (seen < wanted) continue;
        uint64_t top = slot_top(i);
        return top < histogram->max ? top : histogram->max;
    }
    return 0;
}
