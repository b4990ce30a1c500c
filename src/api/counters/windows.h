/* windows.h -- every windowed counter of one dimension set; the endpoint is in endpoints.h. */
#ifndef TALLY_API_COUNTERS_WINDOWS_H
#define TALLY_API_COUNTERS_WINDOWS_H

#include "api/counters/dims.h"

/* Adds them as a JSON array of what GET /api/windows shows, none if no counter keeps the set. May
 * read from the disk: not for a loop's thread. After an error nothing was added. */
MUST_USE enum err windows_add(struct store *store, const struct rules *rules, struct bytes tenant,
                              const struct dims *dims, const struct moment *moment,
                              struct arena *arena, struct buf *body);

#endif
