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

/* Keeps the later of the old and the new expiry; TIME_NONE as the new one changes nothing. */
void cell_extend(struct cell *cell, int64_t expires_ms);

bool cell_equal(const struct cell *a, const struct cell *b);

#endif
