/* retain.h -- lets go of events older than events.retention.
 *
 * First a commit says from when on events are retained, then the store drops them: so a rebuild
 * knows that its history is incomplete before any of it is gone. Counters and ids stay. */
#ifndef TALLY_TEND_RETAIN_H
#define TALLY_TEND_RETAIN_H

#include "tend/tend.h"

struct retain;

struct retain *retain_new(const struct tend_config *config);
void retain_free(struct retain *retain); /* its last proposal must have been answered */

/* Proposes that what arrived before `before_ms` is let go of, or carries out what was decided since
 * the last call. */
void retain_step(struct retain *retain, int64_t before_ms);
bool retain_busy(const struct retain *retain);

#endif
