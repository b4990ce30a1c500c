/* garbage.h -- removes the cells and entity states of generations that nobody reads any more. */
#ifndef TALLY_TEND_GARBAGE_H
#define TALLY_TEND_GARBAGE_H

#include "commit/propose.h"

struct garbage;

struct garbage *garbage_new(const struct caretaker *config);
void garbage_free(struct garbage *garbage);

/* The object that says that a counter's generation is garbage; its value is the time, in ms, since
 * when. */
struct bytes garbage_key(struct arena *arena, struct bytes counter, uint32_t generation);

/* Removes a handful. `*more_out`: come again at once. ERR_BUSY: there will be some to remove soon.
 */
MUST_USE enum err garbage_step(struct garbage *garbage, bool *more_out);

#endif
