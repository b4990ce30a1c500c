/* apply_mark.h -- what a batch does to the dirty queue. Shared by the steps of core/apply.h. */
#ifndef TALLY_CORE_APPLY_MARK_H
#define TALLY_CORE_APPLY_MARK_H

#include "core/apply.h"
#include "core/mark.h"

/* The op being decided changes the row's entity: its version is that op's sequence from now on.
 * ERR_MARK_LIMIT: its tenant has as many rows as it may. */
MUST_USE enum err mark_touch(struct apply *apply, const struct mark_place *place);

/* Decides an OP_MARK. */
void decide_mark(struct apply *apply, struct op *op);

#endif
