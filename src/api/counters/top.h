/* top.h -- the best few of many rows: a heap that keeps `limit` of them and its worst on top. */
#ifndef TALLY_API_COUNTERS_TOP_H
#define TALLY_API_COUNTERS_TOP_H

#include "base/bytes.h"
#include "core/op.h"

struct top_row {
    int64_t net;
    struct bytes json; /* canonical dimensions; the heap's own copy */
    struct cell cell;
};

struct top {
    struct top_row *rows; /* a heap until top_sort */
    size_t count;
    size_t limit;
    size_t offered;
    bool descending;
};

void top_init(struct top *top, size_t limit, bool descending);
void top_release(struct top *top);

/* Whether `a` is shown before `b`: by net, then by dimensions. */
bool top_before(const struct top *top, const struct top_row *a, const struct top_row *b);

/* Takes the row in if it is among the best so far. What it borrows is copied. */
void top_offer(struct top *top, const struct top_row *row);

/* Puts the rows in the order in which they are shown; nothing can be offered any more. */
void top_sort(struct top *top);

#endif
