/* retain.c -- one proposal at a time. */
#include "tend/retain.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/crash.h"
#include "commit/propose.h"
#include "core/object.h"

struct retain {
    struct tend_config config;
    struct arena arena;
    struct job job;
    struct op op;
    int64_t before_ms;  /* proposed last; 0: never */
    int64_t decided_ms; /* the same of the proposal before it */
    bool resumed;       /* what was decided before the start is carried out */
    atomic_bool busy;
    atomic_bool decided; /* and not yet carried out */
};

struct retain *retain_new(const struct tend_config *config)
{
    struct retain *retain = must_calloc(1, sizeof *retain);
    retain->config = *config;
    arena_init(&retain->arena, 1024);
    return retain;
}

void retain_free(struct retain *retain)
{
    must(!retain->busy);
    arena_release(&retain->arena);
    free(retain);
}

bool retain_busy(const struct retain *retain)
{
    return retain->busy;
}

static void retain_done(struct job *job)
{
    struct retain *retain = job->owner;
    if (job->err == ERR_OK && job->ops[0].err == ERR_OK) retain->decided = true;
    if (job->ops[0].err == ERR_CONFLICT) retain->before_ms = retain->decided_ms;
    retain->busy = false;
}

static void carry_out(struct retain *retain)
{
    if (!retain->decided) return;
    crash_point("retain.before_drop");
    store_forget(retain->config.store, retain->before_ms);
    retain->decided = false;
}

/* A crash may have come between a decision and the drop. */
static bool resume(struct retain *retain)
{
    struct store *store = retain->config.store;
    uint64_t before_ms;
    if (store_number(store, META_RETAINED, &before_ms) != ERR_OK) return false;
    retain->before_ms = (int64_t)before_ms;
    if (before_ms > 0) store_forget(store, retain->before_ms);
    return true;
}

void retain_step(struct retain *retain, int64_t before_ms)
{
    struct store *store = retain->config.store;
    struct store_stats stats;
    if (retain->busy) return;
    if (!retain->resumed && !(retain->resumed = resume(retain))) return;
    carry_out(retain);
    store_stats(store, &stats);
    if (stats.oldest_event_ms == 0 || stats.oldest_event_ms >= before_ms) return;
    if (before_ms <= retain->before_ms) return; /* time was set back; what is gone stays gone */
    arena_reset(&retain->arena);
    retain->decided_ms = retain->before_ms;
    retain->before_ms = before_ms;
    retain->op = propose_object(&retain->arena, &store->secret,
                                object_key(&retain->arena, OBJECT_META, META_RETAINED),
                                object_number(&retain->arena, (uint64_t)before_ms));
    retain->job = (struct job){.ops = &retain->op,
                               .count = 1,
                               .urgency = URGENCY_SYNC,
                               .weighty = true,
                               .done = retain_done,
                               .owner = retain};
    retain->busy = true;
    if (queue_push(retain->config.queue, &retain->job) != ERR_OK) retain->busy = false;
}
