/* activity.h -- what becomes of the writes of tenants that somebody is watching.
 *
 * Only while a stream is open for a tenant, or somebody asks for its busiest counters, are its
 * writes counted here, so that a server without dashboards pays one load a request, and nothing
 * grows with the number of tenants. A tenant's figures are made of its own requests only: they say
 * nothing about anybody else. Any thread may call anything. */
#ifndef TALLY_API_VIEWS_ACTIVITY_H
#define TALLY_API_VIEWS_ACTIVITY_H

#include "base/bytes.h"
#include "base/metrics.h"

struct activity;
struct watched;
struct call;

struct activity_figures { /* since `since_ms`, when the first of those who watch now began */
    int64_t since_ms;
    uint64_t applied;    /* operations and events that took effect */
    uint64_t duplicates; /* events seen before, and operations answered from their key's record */
    uint64_t refused;    /* whatever else was answered with an error */
    uint64_t throttled;  /* of a request answered 429, each operation and event */
    uint64_t
        seconds[METRIC_BUCKETS]; /* of each write, from its first byte until its reply is out */
    uint64_t version;            /* changes with every request counted */
};

struct activity *activity_new(void);
void activity_free(struct activity *activity); /* nobody watches any more */

/* Begins counting, or joins those who watch already. */
struct watched *activity_watch(struct activity *activity, struct bytes tenant, int64_t now_ms);
void activity_unwatch(struct activity *activity, struct watched *watched);
void activity_read(struct activity *activity, const struct watched *watched,
                   struct activity_figures *figures_out);

/* Writes which counters of the tenant change most (busy.h), and has them counted from now on until
 * nobody has asked for a minute and a half: the first answer is empty. False: so many tenants are
 * being looked at that this one cannot be. */
MUST_USE bool activity_busiest(struct activity *activity, struct bytes tenant, int64_t now_ms,
                               int64_t now_ns, size_t limit, struct buf *json);

/* Whether anybody watches anything: asked for every request. */
bool activity_is_watched(const struct activity *activity);
/* Counts an answered call, if it was a write of a tenant that is watched. */
void activity_count(struct activity *activity, const struct call *call, int64_t took_ns);

#endif
