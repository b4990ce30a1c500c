/* expire.h -- the sweep: proposes the removal of cells whose time is over. */
#ifndef TALLY_TEND_EXPIRE_H
#define TALLY_TEND_EXPIRE_H

#include "tend/tend.h"

struct sweep;

struct sweep *sweep_new(const struct tend_config *config);
void sweep_free(struct sweep *sweep); /* its last proposal must have been answered */

/* Looks for cells due at `now_ms` and proposes them as one job, unless the last one is still under
 * way. True: there may be more, come again soon. */
bool sweep_step(struct sweep *sweep, int64_t now_ms);

/* Whether a proposal is still under way. */
bool sweep_busy(const struct sweep *sweep);

#endif
