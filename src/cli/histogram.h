/* histogram.h -- how long things took: every value to within 3 %, in a fixed amount of memory. */
#ifndef TALLY_CLI_HISTOGRAM_H
#define TALLY_CLI_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_FINE 32u /* steps for each doubling */
#define HISTOGRAM_SLOTS (64u * HISTOGRAM_FINE)

/* A histogram that is all zero is empty. */
struct histogram {
    uint64_t slots[HISTOGRAM_SLOTS];
    uint64_t count;
    uint64_t max;
};

void histogram_add(struct histogram *histogram, uint64_t value);

/* The value that `share` (0 to 1) of all are not above; 0 without any. */
uint64_t histogram_at(const struct histogram *histogram, double share);

#endif
