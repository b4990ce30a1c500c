/* registry_set.h -- a set of published records and its way to disk.
 *
 * Plain event ids (an id and when it came) go into a run of their own (runs.h). Records that carry
 * more, an idempotency key's outcome or the owner of an id that all tenants share, go into the
 * state. */
#ifndef TALLY_STORE_EMBEDDED_IDS_REGISTRY_SET_H
#define TALLY_STORE_EMBEDDED_IDS_REGISTRY_SET_H

#include "store/embedded/ids/runs.h"
#include "store/embedded/ids/registry_recent.h"
#include "store/embedded/state/state.h"

enum set_at {
    SET_SEALED,
    SET_WRITTEN,  /* into a memtable: found in the state, durable with its next flush */
    SET_INGESTED, /* durable */
};

struct set {
    struct recent records;
    struct set *older;
    struct set *newer;
    enum set_at at;         /* these belong to the tend thread */
    struct state_mark mark; /* for SET_WRITTEN */
    uint64_t run;           /* the number under which the runs have the plain ids for good; 0: they
                             * have none yet */
};

/* Writes a sealed set, which is SET_WRITTEN or SET_INGESTED then. ERR_STORAGE: it is still
 * sealed. */
MUST_USE enum err set_write(struct set *set, struct state *state, struct id_runs *runs);

#endif
