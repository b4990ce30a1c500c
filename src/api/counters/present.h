/* present.h -- what a rule counter says now: the cell behind its present value, and windows that
 * are over. */
#ifndef TALLY_API_COUNTERS_PRESENT_H
#define TALLY_API_COUNTERS_PRESENT_H

#include "core/rules.h"
#include "store/store.h"

/* The duration of the cells that hold a counter's present value: of all time, or of its window. */
static inline int32_t present_duration(const struct definition *definition)
{
    return definition->mode == MODE_WINDOWED ? WINDOW_DURATION : 0;
}

/* Whether there is such a cell: a series may be kept without granularity 0. */
bool present_kept(const struct definition *definition, int32_t duration);

/* Reads a cell of a rule counter. An absent one is zeros, `exists` false; so is a window that is
 * over at `moment`, which exists and keeps its times (S0-35). ERR_BUSY only with READ_MEMORY. */
MUST_USE enum err present_read(struct view *view, const struct definition *definition,
                               const struct cell_ref *ref, int64_t bucket,
                               const struct moment *moment, enum read_how how,
                               struct cell *cell_out);

#endif
