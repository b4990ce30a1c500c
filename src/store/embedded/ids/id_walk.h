/* id_walk.h -- shows every record that is in the runs or in the state, each id once. */
#ifndef TALLY_STORE_EMBEDDED_IDS_ID_WALK_H
#define TALLY_STORE_EMBEDDED_IDS_ID_WALK_H

#include "store/embedded/ids/registry.h"
#include "store/embedded/ids/runs.h"

/* Does what registry_walk does, for the thread that may change the runs. */
MUST_USE enum err id_walk(struct state *state, struct id_runs *runs, registry_visit_fn *visit,
                          void *context);

#endif
