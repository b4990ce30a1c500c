/* expire.c -- one job of OP_EXPIRE at a time. The commit thread looks at each cell again, so one
 * whose expiry was extended meanwhile stays. */
#include "tend/expire.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/metrics.h"
#include "core/name.h"
#include "store/damage.h"

struct sweep {
    struct tend_config config;
    struct arena arena;
    struct job job;
    atomic_bool busy;
};

struct sweep *sweep_new(const struct tend_config *config)
{
    struct sweep *sweep = must_calloc(1, sizeof *sweep);
    sweep->config = *config;
    arena_init(&sweep->arena, 64u << 10);
    sweep->job.ops = must_calloc(config->sweep_ops, sizeof *sweep->job.ops);
    return sweep;
}

void sweep_free(struct sweep *sweep)
{
    must(!sweep->busy);
    free(sweep->job.ops);
    arena_release(&sweep->arena);
    free(sweep);
}

bool sweep_busy(const struct sweep *sweep)
{
    return sweep->busy;
}

static void sweep_done(struct job *job)
{
    struct sweep *sweep = job->owner;
    for (uint32_t i = 0; i < job->count; i++)
        if (job->err == ERR_OK && job->ops[i].err == ERR_OK) metric_add(METRIC_EXPIRED_CELLS, 1);
    sweep->busy = false;
}

static bool sweep_add(void *context, struct bytes counter, int32_t duration, int64_t bucket)
{
    struct sweep *sweep = context;
    struct bytes name;
    char kind;
    struct op *op = &sweep->job.ops[sweep->job.count];
    *op = (struct op){.kind = OP_EXPIRE, .duration = duration, .bucket = bucket};
    op->counter = arena_copy(&sweep->arena, counter);
    if (!counter_key_split(op->counter, &op->tenant, &kind, &name)) {
        damage_say("the key of a counter", counter, 1);
        return true;
    }
    op->counter_print = fingerprint_of(&sweep->config.store->secret, op->counter);
    op->weight = rule_key_weight(op->counter);
    sweep->job.count++;
    return sweep->job.count < sweep->config.sweep_ops;
}

bool sweep_step(struct sweep *sweep, int64_t now_ms)
{
    if (sweep->busy) return true;
    struct job *job = &sweep->job;
    struct store *store = sweep->config.store;
    *job = (struct job){.ops = job->ops,
                        .urgency = URGENCY_SYNC,
                        .weighty = true,
                        .done = sweep_done,
                        .owner = sweep};
    arena_reset(&sweep->arena);
    enum err e = store_due(store, now_ms, sweep_add, sweep);
    if (e != ERR_OK || job->count == 0) return false;
    bool full = job->count == sweep->config.sweep_ops;
    sweep->busy = true;
    if (queue_push(sweep->config.queue, job) != ERR_OK) sweep->busy = false;
    return full;
}
