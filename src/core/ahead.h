/* ahead.h -- asks for the memory of the events that come next.
 *
 * A batch of 5000 events is some megabytes, written by another core, and is walked several times:
 * once for each step of apply.h. Each event is a chain of three pointers, so without this a walk
 * waits three times for each of them. */
#ifndef TALLY_CORE_AHEAD_H
#define TALLY_CORE_AHEAD_H

#include "core/event.h"
#include "core/op.h"
#include "core/project.h"

#define AHEAD_LINE 64u

static inline void ahead_of(const void *at, size_t size)
{
    for (size_t i = 0; i < size; i += AHEAD_LINE)
        __builtin_prefetch((const char *)at + i, 1);
}

/* `ops` is the one at hand, `left` how many there are from it on. Of decided events only this:
 * their projections were their batch's, which may be gone. */
static inline void events_ahead(const struct op *ops, uint32_t left)
{
    enum { EVENT = 9 };
    if (left > EVENT && ops[EVENT].event) ahead_of(ops[EVENT].event, sizeof(struct event));
}

/* The same for events that are being decided. */
static inline void ops_ahead(const struct op *ops, uint32_t left)
{
    enum { CHANGES = 2, PROJECTION = 5 };
    events_ahead(ops, left);
    if (left > PROJECTION && ops[PROJECTION].event)
        ahead_of(ops[PROJECTION].event->projection, sizeof(struct projection));
    if (left > CHANGES && ops[CHANGES].event && ops[CHANGES].event->projection) {
        const struct projection *projection = ops[CHANGES].event->projection;
        uint32_t few = projection->changes_count < 2 ? projection->changes_count : 2;
        ahead_of(projection->changes, few * sizeof *projection->changes);
    }
}

#endif
