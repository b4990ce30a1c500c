/* retain.h -- lets go of events older than events.retention.
 *
 * First a commit says from when on events are retained, then the store drops them: so a rebuild
 * knows that its history is incomplete before any of it is gone. Counters and ids stay. It goes by
 * what of the time is sure (base/moment.h). */
#ifndef TALLY_TEND_RETAIN_H
#define TALLY_TEND_RETAIN_H

#include "tend/care.h"

int64_t retain_period_ms(const struct tend_config *config);

struct care *retain_make(uint32_t budget);
void retain_end(struct care *care);
/* Proposes that what is older than the retention is let go of, or carries out what was decided
 * since the last step. */
enum care_next retain_step(struct care *care);

#endif
