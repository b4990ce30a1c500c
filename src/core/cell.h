/* cell.h -- the arithmetic of one cell. Pure: used by live writes and by every recount alike. */
#ifndef TALLY_CORE_CELL_H
#define TALLY_CORE_CELL_H

#include "core/op.h"

/* A cell as it is before its first change. */
struct cell cell_absent(void);

/* Each returns ERR_OK and changes the cell, or an error and leaves it untouched. An absent cell
 * counts from zero and exists afterwards, also where nothing is added to it. `max` bounds net, or
 * is MAX_NONE. */
MUST_USE enum err cell_increment(struct cell *cell, int64_t amount, int64_t max);
MUST_USE enum err cell_decrement(struct cell *cell, int64_t amount);
MUST_USE enum err cell_set(struct cell *cell, int64_t target);

/* The same for counters kept by rules: cell_raise adds any positive amount, cell_lower takes one
 * away, clamped at zero or not. `*removed_out` is what was taken away: less than `amount` where it
 * was clamped, and then only that much is added to `subbed`. Lowering an empty cell with a clamp
 * leaves it untouched. */
MUST_USE enum err cell_raise(struct cell *cell, int64_t amount);
MUST_USE enum err cell_lower(struct cell *cell, int64_t amount, bool floor_at_zero,
                             int64_t *removed_out);

/* Adds `amount`, of either sign, within bounds, or with `saturate` leaves the bound that it would
 * be beyond. ERR_LIMIT: it would, and nothing was changed. */
MUST_USE enum err cell_move(struct cell *cell, int64_t amount, const struct op_bounds *bounds);

/* Keeps the later of the old and the new expiry, and its kind; TIME_NONE as the new one changes
 * nothing. The new one is not exact. */
void cell_extend(struct cell *cell, int64_t expires_ms);

/* Whether a cell with an exact expiry is there no more. */
static inline bool cell_is_over(const struct cell *cell, int64_t now_ms)
{
    return cell->exact && cell->expires_ms <= now_ms;
}

/* How long until its expiry, but not below 0; TIME_NONE: it has none. */
static inline int64_t cell_left(const struct cell *cell, int64_t now_ms)
{
    if (cell->expires_ms == TIME_NONE) return TIME_NONE;
    return cell->expires_ms > now_ms ? cell->expires_ms - now_ms : 0;
}

bool cell_equal(const struct cell *a, const struct cell *b);

#endif
