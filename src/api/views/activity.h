/* activity.h -- what becomes of the writes of tenants that are being watched.
 *
 * A tenant's writes are counted here only while a stream is open for it, or while a client asks for
 * its busiest counters. So a server without dashboards pays one load a request, and nothing grows
 * with the number of tenants. A tenant's figures are made of its own requests only: they say
 * nothing about another tenant. Any thread may call any function. */
#ifndef TALLY_API_VIEWS_ACTIVITY_H
#define TALLY_API_VIEWS_ACTIVITY_H

#include "base/bytes.h"
#include "base/metrics.h"

struct activity;
struct watched;
struct call;
struct op;

struct activity_figures { /* since `since_ms`, when the first of the present watchers began */
    int64_t since_ms;
    uint64_t applied;    /* operations and events that took effect */
    uint64_t duplicates; /* events seen before, and operations answered from their key's record */
    uint64_t refused;    /* whatever else was answered with an error */
    uint64_t throttled;  /* requests answered 429, each operation and event */
    uint64_t seconds[METRIC_BUCKETS]; /* how long each write took, from its first byte until its
                                  * reply is out */
    uint64_t version;                 /* changes with every request counted */
};

struct activity *activity_new(void);
void activity_free(struct activity *activity); /* no tenant is watched any more */

/* Begins counting, or joins the watchers there are. */
struct watched *activity_watch(struct activity *activity, struct bytes tenant, int64_t now_ms);
void activity_unwatch(struct activity *activity, struct watched *watched);
void activity_read(struct activity *activity, const struct watched *watched,
                   struct activity_figures *figures_out);

/* Writes which counters of the tenant change most (busy.h), and has them counted from now on until
 * a minute and a half after the last call: the first answer is empty. False: the counters of as
 * many tenants as possible are being counted already. */
MUST_USE bool activity_busiest(struct activity *activity, struct bytes tenant, int64_t now_ms,
                               int64_t now_ns, size_t limit, struct buf *json);

/* Whether any tenant is watched: asked for every request. */
bool activity_is_watched(const struct activity *activity);
/* Counts an answered call, if it was a write of a tenant that is watched. */
void activity_count(struct activity *activity, const struct call *call, int64_t took_ns);

/* The same of ops that came together without a call, each with its outcome. */
struct activity_ops {
    struct bytes tenant;
    const struct op *ops;
    uint32_t count;
    int64_t ended_ns;
    int64_t took_ns;
};
void activity_count_ops(struct activity *activity, const struct activity_ops *done);

#endif
