/* garbage.h -- removes the cells and entity states of generations that nobody reads any more. */
#ifndef TALLY_TEND_GARBAGE_H
#define TALLY_TEND_GARBAGE_H

#include "tend/rebuild.h"

struct garbage;

struct garbage *garbage_new(const struct rebuild_config *config);
void garbage_free(struct garbage *garbage);

/* The object that says that a generation is garbage. */
struct bytes garbage_key(struct arena *arena, uint32_t generation);

/* Removes a handful. `*more_out`: come again at once. */
MUST_USE enum err garbage_step(struct garbage *garbage, bool *more_out);

#endif
