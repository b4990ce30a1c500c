/* activity.c -- a table of watched tenants under one lock, which is not taken while it is empty. */
#include "api/views/activity.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "api/views/busy.h"
#include "api/call.h"
#include "api/events/events.h"
#include "api/counters/present.h"
#include "core/name.h"
#include "base/hash.h"
#include "base/table.h"

#define ASKED_MAX 32u                 /* tenants whose busiest counters are kept at once */
#define ASKED_NS INT64_C(90000000000) /* for so long after they were asked for */

struct watched {
    struct table_node node;
    unsigned watchers;
    struct busy *busy; /* NULL: no client asks for it */
    int64_t busy_until_ns;
    struct activity_figures figures;
    size_t size;
    char tenant[];
};

struct activity {
    atomic_uint watched_count; /* changed under the lock, read without */
    pthread_mutex_t lock;
    struct table table;
    struct watched *asked[ASKED_MAX]; /* those with `busy`, which counts among their watchers */
    unsigned asked_count;
};

struct activity *activity_new(void)
{
    struct activity *activity = must_calloc(1, sizeof *activity);
    pthread_mutex_init(&activity->lock, NULL);
    table_init(&activity->table);
    return activity;
}

static void end_asked(struct activity *activity, int64_t now_ns);

void activity_free(struct activity *activity)
{
    end_asked(activity, INT64_MAX);
    must(activity->table.count == 0);
    table_release(&activity->table);
    pthread_mutex_destroy(&activity->lock);
    free(activity);
}

static struct watched *find(struct activity *activity, uint64_t hash, struct bytes tenant)
{
    TABLE_EACH_MATCH(&activity->table, hash, node)
    {
        struct watched *watched = CONTAINER_OF(node, struct watched, node);
        if (bytes_equal(bytes_of(watched->tenant, watched->size), tenant)) return watched;
    }
    return NULL;
}

static struct watched *watched_new(uint64_t hash, struct bytes tenant, int64_t now_ms)
{
    struct watched *watched = must_calloc(1, sizeof *watched + tenant.size);
    watched->node.hash = hash;
    watched->figures.since_ms = now_ms;
    watched->size = tenant.size;
    memcpy(watched->tenant, tenant.data, tenant.size);
    return watched;
}

static struct watched *watch(struct activity *activity, struct bytes tenant, int64_t now_ms)
{
    uint64_t hash = hash_keyed(&hash_own, tenant);
    struct watched *watched = find(activity, hash, tenant);
    if (!watched) {
        watched = watched_new(hash, tenant, now_ms);
        table_insert(&activity->table, &watched->node);
        atomic_fetch_add(&activity->watched_count, 1);
    }
    watched->watchers++;
    return watched;
}

static void unwatch(struct activity *activity, struct watched *watched)
{
    must(watched->watchers > 0);
    if (--watched->watchers > 0) return;
    must(watched->busy == NULL);
    table_remove(&activity->table, &watched->node);
    atomic_fetch_sub(&activity->watched_count, 1);
    free(watched);
}

struct watched *activity_watch(struct activity *activity, struct bytes tenant, int64_t now_ms)
{
    pthread_mutex_lock(&activity->lock);
    struct watched *watched = watch(activity, tenant, now_ms);
    pthread_mutex_unlock(&activity->lock);
    return watched;
}

void activity_unwatch(struct activity *activity, struct watched *watched)
{
    pthread_mutex_lock(&activity->lock);
    unwatch(activity, watched);
    pthread_mutex_unlock(&activity->lock);
}

/* -- The busiest counters ---------------------------------------------------------------------- */

/* Ends the sketches that no client has asked for lately. */
static void end_asked(struct activity *activity, int64_t now_ns)
{
    for (unsigned i = 0; i < activity->asked_count;) {
        struct watched *watched = activity->asked[i];
        if (watched->busy_until_ns >= now_ns) {
            i++;
            continue;
        }
        activity->asked[i] = activity->asked[--activity->asked_count];
        busy_free(watched->busy);
        watched->busy = NULL;
        unwatch(activity, watched);
    }
}

/* NULL: there are as many as may be. */
static struct watched *ask(struct activity *activity, struct bytes tenant, int64_t now_ms,
                           int64_t now_ns)
{
    end_asked(activity, now_ns);
    struct watched *watched = find(activity, hash_keyed(&hash_own, tenant), tenant);
    if (!watched || !watched->busy) {
        if (activity->asked_count == ASKED_MAX) return NULL;
        watched = watch(activity, tenant, now_ms);
        watched->busy = busy_new(now_ns);
        activity->asked[activity->asked_count++] = watched;
    }
    watched->busy_until_ns = now_ns + ASKED_NS;
    return watched;
}

bool activity_busiest(struct activity *activity, struct bytes tenant, int64_t now_ms,
                      int64_t now_ns, size_t limit, struct buf *json)
{
    pthread_mutex_lock(&activity->lock);
    struct watched *watched = ask(activity, tenant, now_ms, now_ns);
    if (watched) busy_write(watched->busy, now_ns, limit, json);
    pthread_mutex_unlock(&activity->lock);
    return watched != NULL;
}

static int32_t shortest(const struct definition *definition)
{
    int32_t least = present_duration(definition);
    for (unsigned i = 0; i < definition->granularities_count; i++) {
        least = definition->granularities[i];
        if (least >= 0) return least; /* they are sorted, calendars first */
    }
    return least;
}

/* An event is counted by the rules it was projected by: for a batch or two others may be in force
 * already. */
static void add_busy_event(struct busy *busy, const struct op *op, int64_t now_ns)
{
    const struct projection *projection = sent_event_of(op)->projection;
    for (uint32_t i = 0; i < projection->changes_count; i++) {
        const struct change *change = &projection->changes[i];
        if (change->targets_count > 0)
            busy_add(busy, change->definition->name, shortest(change->definition), now_ns);
    }
}

static void add_busy_op(struct busy *busy, const struct op *op, int64_t now_ns)
{
    struct bytes tenant;
    struct bytes name;
    char kind;
    if (op->err != ERR_OK || op->replayed) return;
    if (op->kind == OP_EVENT) {
        if (op->event->result != EVENT_DUPLICATE) add_busy_event(busy, op, now_ns);
    } else if (counter_key_split(op->counter, &tenant, &kind, &name)) {
        busy_add(busy, name, op->duration, now_ns);
    }
}

static void add_busy(struct busy *busy, const struct call *call)
{
    const struct bundle *bundle = &call->bundle;
    if (bundle->err != ERR_OK || bundle->replayed || call->exchange->reply.status >= 400) return;
    for (uint32_t i = 0; i < bundle->count; i++)
        add_busy_op(busy, &bundle->ops[i], call->exchange->ended_ns);
}

/* -- Counting ---------------------------------------------------------------------------------- */

void activity_read(struct activity *activity, const struct watched *watched,
                   struct activity_figures *figures_out)
{
    pthread_mutex_lock(&activity->lock);
    *figures_out = watched->figures;
    pthread_mutex_unlock(&activity->lock);
}

bool activity_is_watched(const struct activity *activity)
{
    return atomic_load_explicit(&activity->watched_count, memory_order_relaxed) != 0;
}

static void add_op(struct activity_figures *figures, const struct op *op)
{
    bool duplicate = op->replayed || (op->event && op->event->result == EVENT_DUPLICATE);
    if (op->err != ERR_OK)
        figures->refused++;
    else if (duplicate)
        figures->duplicates++;
    else
        figures->applied++;
}

/* A request that its status refuses is refused whole: operations that were read before have no
 * error of their own. A call without operations was refused before any was read. */
static struct activity_figures figures_of(const struct call *call)
{
    struct activity_figures figures = {0};
    const struct bundle *bundle = &call->bundle;
    int status = call->exchange->reply.status;
    uint32_t weight = bundle->count ? bundle->count : 1;
    if (status == 429)
        figures.throttled = weight;
    else if (bundle->err != ERR_OK || status >= 400)
        figures.refused = weight;
    else if (bundle->replayed)
        figures.duplicates = weight;
    else
        for (uint32_t i = 0; i < bundle->count; i++)
            add_op(&figures, &bundle->ops[i]);
    return figures;
}

static void add_figures(struct watched *watched, const struct activity_figures *more,
                        int64_t took_ns)
{
    struct activity_figures *sum = &watched->figures;
    sum->applied += more->applied;
    sum->duplicates += more->duplicates;
    sum->refused += more->refused;
    sum->throttled += more->throttled;
    sum->seconds[metric_bucket((double)took_ns * 1e-9)]++;
    sum->version++;
}

void activity_count(struct activity *activity, const struct call *call, int64_t took_ns)
{
    if (!(call->route->scope & SCOPE_WRITE) || !call->tenant.size) return;
    uint64_t hash = hash_keyed(&hash_own, call->tenant);
    pthread_mutex_lock(&activity->lock);
    end_asked(activity, call->exchange->ended_ns);
    struct watched *watched = find(activity, hash, call->tenant);
    if (watched && watched->busy) add_busy(watched->busy, call);
    if (watched) {
        const struct activity_figures more = figures_of(call);
        add_figures(watched, &more, took_ns);
    }
    pthread_mutex_unlock(&activity->lock);
}

/* A read that travelled with writes is none. */
static void add_written(struct watched *watched, const struct activity_ops *done)
{
    struct activity_figures more = {0};
    uint32_t written = 0;
    for (uint32_t i = 0; i < done->count; i++) {
        const struct op *op = &done->ops[i];
        if (op->kind == OP_READ) continue;
        written++;
        if (watched->busy) add_busy_op(watched->busy, op, done->ended_ns);
        if (op->err == ERR_QUEUE_FULL)
            more.throttled++;
        else
            add_op(&more, op);
    }
    if (written) add_figures(watched, &more, done->took_ns);
}

void activity_count_ops(struct activity *activity, const struct activity_ops *done)
{
    uint64_t hash = hash_keyed(&hash_own, done->tenant);
    pthread_mutex_lock(&activity->lock);
    end_asked(activity, done->ended_ns);
    struct watched *watched = find(activity, hash, done->tenant);
    if (watched) add_written(watched, done);
    pthread_mutex_unlock(&activity->lock);
}
