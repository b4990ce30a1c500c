/* expire.h -- the sweep: proposes the removal of cells whose time is over.
 *
 * What it lets go of cannot be had back, so it goes by what of the time is sure (base/moment.h). */
#ifndef TALLY_TEND_EXPIRE_H
#define TALLY_TEND_EXPIRE_H

#include "tend/care.h"

struct care *sweep_make(uint32_t budget);
void sweep_end(struct care *care);
enum care_next sweep_step(struct care *care);

#endif
