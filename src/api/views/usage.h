/* usage.h -- when a tenant's usage row last changed, for the list of tenants. */
#ifndef TALLY_API_VIEWS_USAGE_H
#define TALLY_API_VIEWS_USAGE_H

#include "api/call.h"

/* When the row changed last, by its status or by one of its counters: the row's own
 * `last_updated_at`. `lane` is the tenant's. On a reader; `arena` is for the call's work.
 * TIME_NONE: there is no row. */
MUST_USE enum err usage_updated(const struct lane *lane, struct bytes tenant, struct arena *arena,
                                int64_t *updated_ms_out);

#endif
