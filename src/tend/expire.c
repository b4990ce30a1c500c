/* expire.c -- one bundle of OP_EXPIRE at a time. The commit thread looks at each cell again, so one
 * whose expiry was extended meanwhile stays. */
#include "tend/expire.h"

#include <stdlib.h>

#include "base/metrics.h"
#include "base/table.h"
#include "core/name.h"
#include "store/damage.h"

struct sweep {
    struct care care;
    struct arena arena;
    struct bundle bundle;
};

static struct sweep *sweep_of(struct care *care)
{
    return CONTAINER_OF(care, struct sweep, care);
}

struct care *sweep_make(uint32_t budget)
{
    struct sweep *sweep = must_calloc(1, sizeof *sweep);
    arena_init(&sweep->arena, 64u << 10);
    sweep->bundle.ops = must_calloc(budget, sizeof *sweep->bundle.ops);
    return &sweep->care;
}

void sweep_end(struct care *care)
{
    struct sweep *sweep = sweep_of(care);
    free(sweep->bundle.ops);
    arena_release(&sweep->arena);
    free(sweep);
}

static void sweep_done(struct bundle *bundle)
{
    for (uint32_t i = 0; i < bundle->count; i++)
        if (bundle->err == ERR_OK && bundle->ops[i].err == ERR_OK)
            metric_add(METRIC_EXPIRED_CELLS, 1);
    care_answered(bundle->owner);
}

static bool sweep_add(void *context, struct bytes counter, int32_t duration, int64_t bucket)
{
    struct sweep *sweep = context;
    struct bytes name;
    char kind;
    struct op *op = &sweep->bundle.ops[sweep->bundle.count];
    *op = (struct op){.kind = OP_EXPIRE, .duration = duration, .bucket = bucket};
    op->counter = arena_copy(&sweep->arena, counter);
    if (!counter_key_split(op->counter, &op->tenant, &kind, &name)) {
        damage_say("the key of a counter", counter, 1);
        return true;
    }
    op->counter_print = fingerprint_of(&sweep->care.lane->store->secret, op->counter);
    op->weight = rule_key_weight(op->counter);
    sweep->bundle.count++;
    return sweep->bundle.count < sweep->care.budget;
}

enum care_next sweep_step(struct care *care)
{
    struct sweep *sweep = sweep_of(care);
    struct bundle *bundle = &sweep->bundle;
    const struct moment moment = clock_moment(care->lane->clock);
    *bundle = (struct bundle){
        .ops = bundle->ops, .urgency = URGENCY_URGENT, .weighty = true, .done = sweep_done};
    arena_reset(&sweep->arena);
    enum err e = store_due(care->lane->store, moment_sure(&moment), sweep_add, sweep);
    if (e != ERR_OK || bundle->count == 0) return CARE_RESTS;
    bool full = bundle->count == care->budget;
    (void)!care_propose(care, bundle); /* where there is no room, the next sweep finds them again */
    return full ? CARE_AGAIN : CARE_RESTS;
}
