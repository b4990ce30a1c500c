/* pass.h -- one entity counted and put right, with what is to be said about it. */
#ifndef TALLY_RECONCILE_PASS_H
#define TALLY_RECONCILE_PASS_H

#include "reconcile/entity.h"

/* All steps of reconcile/entity.h. What was wrong is logged in the form of S2-39, counted in the
 * metrics, and from `driftAlert` on a warning; nothing is said where nothing was wrong (S2-40). On
 * ERR_SOURCE_DOWN, ERR_SOURCE_ANSWER and ERR_HISTORY the log has the reason. */
MUST_USE enum err pass_run(struct entity *entity, struct truth *truth);

/* Only asks; the entity was begun and its `counts` become the adjustments' truth. */
MUST_USE enum err pass_count(struct entity *entity, struct truth *truth);

#endif
