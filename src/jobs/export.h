/* export.h -- everything a store holds, as the lines of an export. */
#ifndef TALLY_JOBS_EXPORT_H
#define TALLY_JOBS_EXPORT_H

#include "base/reason.h"
#include "base/tree.h"
#include "store/embedded/embedded.h"

struct export_request {
    const char *dir; /* of exports */
    const char *name;
    const char *snapshot; /* a snapshot of the store (store.h); it is opened and used up */
    const struct embedded_config *store; /* as the store itself was opened */
    struct store_position position;      /* of the snapshot */
    bool ids;
};

/* ERR_STORAGE, ERR_CORRUPT with a sentence in `why_out`; ERR_BUSY: told to stop. Nothing is left of
 * it then. `*lines_out` is what was written. */
MUST_USE enum err export_write(const struct export_request *request, struct effort *effort,
                               uint64_t *lines_out, struct reason *why_out);

#endif
