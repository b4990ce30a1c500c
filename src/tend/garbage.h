/* garbage.h -- removes the cells and entity states of generations that readers no longer go by.
 *
 * A rebuild that swaps, and a counter that is forgotten, leave an object behind that names the
 * generation (core/object.h); that goes last. */
#ifndef TALLY_TEND_GARBAGE_H
#define TALLY_TEND_GARBAGE_H

#include "tend/care.h"

struct care *garbage_make(uint32_t budget);
void garbage_end(struct care *care);
enum care_next garbage_step(struct care *care);

#endif
