/* cursors.h -- where SCANs are: a number for the client, and behind it a tenant and a name.
 *
 * Redis's cursors are numbers, and a name does not fit one. So each is kept here for ten minutes,
 * good for its tenant on any connection of this process, as often as it is asked for. They are
 * bounded: past the bound the oldest of the same tenant goes, or the oldest of all. */
#ifndef TALLY_API_RESP_CURSORS_H
#define TALLY_API_RESP_CURSORS_H

#include "base/arena.h"

struct cursors;

struct cursors *cursors_new(void);
void cursors_free(struct cursors *cursors);

/* Any thread. Never 0, and small enough for clients that know only doubles. */
uint64_t cursors_keep(struct cursors *cursors, struct bytes tenant, struct bytes name,
                      int64_t now_ns);
/* False: it is none of this tenant's, or too old. The name is copied into the arena. */
MUST_USE bool cursors_find(struct cursors *cursors, struct bytes tenant, uint64_t number,
                           int64_t now_ns, struct arena *arena, struct bytes *name_out);

#endif
