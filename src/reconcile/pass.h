/* pass.h -- one entity counted and put right, and the report of it. */
#ifndef TALLY_RECONCILE_PASS_H
#define TALLY_RECONCILE_PASS_H

#include "reconcile/entity.h"

/* Runs all steps of reconcile/entity.h. Differences are logged in the form of S2-39 and counted in
 * the metrics; from `driftAlert` on the line is a warning. Nothing is logged where nothing was
 * wrong (S2-40). On ERR_SOURCE_DOWN, ERR_SOURCE_ANSWER and ERR_HISTORY the log has the reason. */
MUST_USE enum err pass_run(struct entity *entity, struct truth *truth);

/* Counts and changes nothing; the entity was begun, and its counts become the adjustments'
 * truth. */
MUST_USE enum err pass_count(struct entity *entity, struct truth *truth);

#endif
