/* counter.h -- a counter's list of granularities: look up, and build changed copies.
 *
 * Built lists come from an arena and are immutable to everyone but their builder. */
#ifndef TALLY_CORE_COUNTER_H
#define TALLY_CORE_COUNTER_H

#include "base/arena.h"
#include "base/codec.h"
#include "core/op.h"

static inline size_t counter_size(uint32_t series_count)
{
    return sizeof(struct counter) + series_count * sizeof(struct series);
}

/* The series of that duration, or NULL. `counter` may be NULL. */
const struct series *counter_find(const struct counter *counter, int32_t duration);

/* How many cells all its series have. `counter` may be NULL. */
int64_t counter_cells(const struct counter *counter);

/* Copies of a list, changed; `counter` may be NULL, and the removal of the last series returns
 * NULL. */
MUST_USE struct counter *counter_copy(struct arena *arena, const struct counter *counter);
MUST_USE struct counter *counter_with(struct arena *arena, const struct counter *counter,
                                      struct series series);
MUST_USE struct counter *counter_without(struct arena *arena, const struct counter *counter,
                                         int32_t duration);

/* Whether a reader may see one of its cells (core/op.h, until_ms). */
static inline bool series_shows(const struct series *series, int64_t now_ms)
{
    return series->until_ms == 0 || series->until_ms > now_ms;
}

/* As stored: varint count, then id, cells, duration (as 32 bits without a sign) and perhaps
 * `until_ms` of each. Decoding checks everything and returns NULL with `reader->failed` set for
 * bytes that no encoder wrote. */
void counter_encode(struct buf *buf, const struct counter *counter);
MUST_USE struct counter *counter_decode(struct reader *reader, struct arena *arena);

#endif
