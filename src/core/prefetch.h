/* prefetch.h -- asks for the memory of the events that come next.
 *
 * A batch of 5000 events is some megabytes, written by another core, and is walked several times:
 * once for each step of apply.h. An event is a chain of three pointers, so a walk without
 * prefetching waits three times for each event. */
#ifndef TALLY_CORE_PREFETCH_H
#define TALLY_CORE_PREFETCH_H

#include "core/event.h"
#include "core/op.h"
#include "core/project.h"

#define PREFETCH_LINE 64u

static inline void prefetch(const void *at, size_t size)
{
    for (size_t i = 0; i < size; i += PREFETCH_LINE)
        __builtin_prefetch((const char *)at + i, 1);
}

/* `ops` points at the op in hand, `left` counts the ops from it on. The projections of decided
 * events are left alone: they lay in their batch's memory, which may be gone. */
static inline void prefetch_events(const struct op *ops, uint32_t left)
{
    enum { EVENT = 9 };
    if (left > EVENT && ops[EVENT].event) prefetch(ops[EVENT].event, sizeof(struct event));
}

/* The same for events that are being decided. */
static inline void prefetch_ops(const struct op *ops, uint32_t left)
{
    enum { CHANGES = 2, PROJECTION = 5 };
    prefetch_events(ops, left);
    if (left > PROJECTION && ops[PROJECTION].event)
        prefetch(ops[PROJECTION].event->projection, sizeof(struct projection));
    if (left > CHANGES && ops[CHANGES].event && ops[CHANGES].event->projection) {
        const struct projection *projection = ops[CHANGES].event->projection;
        uint32_t few = projection->changes_count < 2 ? projection->changes_count : 2;
        prefetch(projection->changes, few * sizeof *projection->changes);
    }
}

#endif
