/* walk.h -- every cell of a view, counter by counter, in the order of their keys.
 *
 * Exports take a store as a whole this way. Each counter is shown as of some moment of the walk: to
 * see one moment, a caller walks a store that stands still, as a snapshot does. */
#ifndef TALLY_STORE_WALK_H
#define TALLY_STORE_WALK_H

#include "store/view.h"

struct walk_visitor {
    /* False: its cells are not wanted. */
    bool (*counter)(void *context, struct bytes key);
    /* Shows a cell of the counter that was shown last. False ends the walk, which is no error. */
    bool (*cell)(void *context, int32_t duration, int64_t bucket, const struct cell *cell);
    void *context;
};

MUST_USE enum err walk_cells(struct view *view, const struct walk_visitor *visitor);

/* Says how many cells there are, by the counters alone. */
MUST_USE enum err walk_count(struct view *view, uint64_t *cells_out);

#endif
