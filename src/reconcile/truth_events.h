/* truth_events.h -- the truth is what the retained events add up to (reconcile/truth.h).
 *
 * Events of the tenant are replayed, by the rules in force and in order of arrival, from when the
 * counter began to count, and only from a whole history: a counter some of whose events retention
 * has let go of, or whose value came from elsewhere too, is ERR_HISTORY (S1-50, X-11). */
#ifndef TALLY_RECONCILE_TRUTH_EVENTS_H
#define TALLY_RECONCILE_TRUTH_EVENTS_H

#include "commit/lanes.h"
#include "reconcile/truth.h"

struct truth *truth_events_open(const struct lanes *lanes);

#endif
