/* memory.h -- the store that keeps nothing: for tests and for trying things out. */
#ifndef TALLY_STORE_MEMORY_H
#define TALLY_STORE_MEMORY_H

#include "store/store.h"

MUST_USE enum err memory_open(struct store **store_out);

/* For tests. The next sync reports ERR_STORAGE for everything submitted: `kept` it happened all
 * the same (the ambiguous commit), else it did not. */
void memory_break_sync(struct store *store, bool kept);

/* For tests. Does what a crash does: all that is submitted and not synced is gone, and no `durable`
 * is told. */
void memory_crash(struct store *store);

#endif
