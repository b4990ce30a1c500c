/* activity.c -- a table of watched tenants under one lock, which nobody takes while it is empty. */
#include "api/activity.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "api/call.h"
#include "base/hash.h"
#include "base/table.h"

struct watched {
    struct table_node node;
    unsigned watchers;
    struct activity_figures figures;
    size_t size;
    char tenant[];
};

struct activity {
    atomic_uint watched_count; /* changed under the lock, read without */
    pthread_mutex_t lock;
    struct table table;
};

struct activity *activity_new(void)
{
    struct activity *activity = must_calloc(1, sizeof *activity);
    pthread_mutex_init(&activity->lock, NULL);
    table_init(&activity->table);
    return activity;
}

void activity_free(struct activity *activity)
{
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

struct watched *activity_watch(struct activity *activity, struct bytes tenant, int64_t now_ms)
{
    uint64_t hash = hash_keyed(&hash_own, tenant);
    pthread_mutex_lock(&activity->lock);
    struct watched *watched = find(activity, hash, tenant);
    if (!watched) {
        watched = watched_new(hash, tenant, now_ms);
        table_insert(&activity->table, &watched->node);
        atomic_fetch_add(&activity->watched_count, 1);
    }
    watched->watchers++;
    pthread_mutex_unlock(&activity->lock);
    return watched;
}

void activity_unwatch(struct activity *activity, struct watched *watched)
{
    pthread_mutex_lock(&activity->lock);
    must(watched->watchers > 0);
    if (--watched->watchers == 0) {
        table_remove(&activity->table, &watched->node);
        atomic_fetch_sub(&activity->watched_count, 1);
        free(watched);
    }
    pthread_mutex_unlock(&activity->lock);
}

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

/* What a reply's status refuses, it refuses whole: the operations that were read before that have
 * no error of their own. A call without any was refused before there were some. */
static struct activity_figures figures_of(const struct call *call)
{
    struct activity_figures figures = {0};
    const struct job *job = &call->job;
    int status = call->exchange->reply.status;
    uint32_t weight = job->count ? job->count : 1;
    if (status == 429)
        figures.throttled = weight;
    else if (job->err != ERR_OK || status >= 400)
        figures.refused = weight;
    else if (job->replayed)
        figures.duplicates = weight;
    else
        for (uint32_t i = 0; i < job->count; i++)
            add_op(&figures, &job->ops[i]);
    return figures;
}

void activity_count(struct activity *activity, const struct call *call, int64_t took_ns)
{
    if (!(call->route->scope & SCOPE_WRITE) || !call->tenant.size) return;
    uint64_t hash = hash_keyed(&hash_own, call->tenant);
    pthread_mutex_lock(&activity->lock);
    struct watched *watched = find(activity, hash, call->tenant);
    if (watched) {
        struct activity_figures *sum = &watched->figures;
        const struct activity_figures more = figures_of(call);
        sum->applied += more.applied;
        sum->duplicates += more.duplicates;
        sum->refused += more.refused;
        sum->throttled += more.throttled;
        sum->seconds[metric_bucket((double)took_ns * 1e-9)]++;
        sum->version++;
    }
    pthread_mutex_unlock(&activity->lock);
}
