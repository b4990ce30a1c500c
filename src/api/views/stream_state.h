/* stream_state.h -- what a stream says.
 *
 *     event: rules   {"counters":[{"name","mode","granularities","sets",...}],
 *                     "reconciles":[]}
 *     event: state   {"at","tenant","admin","expiresAt","storage","activity":{},"windows":[],
 *                     "server":{}}
 *
 * All of it is the tenant's own, but for `server`: figures of the whole process, which go to
 * callers that may read /metrics (all with metrics.public, else admins); for others it is null. */
#ifndef TALLY_API_VIEWS_STREAM_STATE_H
#define TALLY_API_VIEWS_STREAM_STATE_H

#include "api/views/activity.h"
#include "api/counters/dims.h"

struct api;
struct lane;

struct stream_view { /* what a stream is about; fixed for its life */
    struct bytes tenant;
    struct dims dims; /* whose windows are shown */
    bool admin;
    bool server;        /* the process's figures too */
    int64_t expires_ms; /* INT64_MAX: never */
};

/* The state's fields after "at", so that equal states are equal bytes. May read from the disk. */
MUST_USE enum err stream_state_add(struct api *api, struct lane *lane,
                                   const struct stream_view *view,
                                   const struct activity_figures *figures,
                                   const struct rules *rules, struct arena *arena,
                                   struct buf *body);

/* The rules in force: from them the page knows which counters this tenant can ask for. */
void stream_rules_add(const struct rules *rules, struct bytes tenant, struct buf *body);

#endif
