/* retain.c -- one proposal at a time. */
#include "tend/retain.h"

#include <stdlib.h>

#include "base/crash.h"
#include "base/table.h"
#include "commit/propose.h"
#include "core/object.h"

#define PERIOD_MS_MIN 200
#define PERIOD_MS_MAX (600 * 1000)

struct retain {
    struct care care;
    struct arena arena;
    struct bundle bundle;
    struct op op;
    int64_t dropped_ms; /* the store was told to drop what arrived before this; 0: nothing yet */
};

/* The period grows with the retention, up to ten minutes: an event is gone soon after its time. */
int64_t retain_period_ms(const struct tend_config *config)
{
    int64_t period = config->retention_ms / 8;
    return period < PERIOD_MS_MIN ? PERIOD_MS_MIN : period > PERIOD_MS_MAX ? PERIOD_MS_MAX : period;
}

static struct retain *retain_of(struct care *care)
{
    return CONTAINER_OF(care, struct retain, care);
}

struct care *retain_make(uint32_t budget)
{
    struct retain *retain = must_calloc(1, sizeof *retain);
    must(budget >= 1);
    arena_init(&retain->arena, 1024);
    return &retain->care;
}

void retain_end(struct care *care)
{
    struct retain *retain = retain_of(care);
    arena_release(&retain->arena);
    free(retain);
}

static void retain_done(struct bundle *bundle)
{
    care_answered(&retain_of(bundle->owner)->care);
}

/* What was decided, also before a crash that came before the drop. It may be less than what was
 * dropped once: then time was set back. */
static void carry_out(struct retain *retain, int64_t retained_ms)
{
    if (retained_ms == retain->dropped_ms) return;
    crash_point("retain.before_drop");
    store_forget(retain->care.lane->store, retained_ms);
    retain->dropped_ms = retained_ms;
}

enum care_next retain_step(struct care *care)
{
    struct retain *retain = retain_of(care);
    struct store *store = care->lane->store;
    const struct moment moment = clock_moment(care->lane->clock);
    int64_t before_ms = moment_ago(&moment, care->config->retention_ms);
    struct store_stats stats;
    uint64_t retained_ms;
    if (store_number(store, META_RETAINED, &retained_ms) != ERR_OK) return CARE_RESTS;
    carry_out(retain, (int64_t)retained_ms);
    store_stats(store, &stats);
    if (stats.oldest_event_ms == 0 || stats.oldest_event_ms >= before_ms) return CARE_RESTS;
    if (before_ms <= (int64_t)retained_ms) return CARE_RESTS;
    arena_reset(&retain->arena);
    retain->op = propose_object(&retain->arena, &store->secret,
                                object_key(&retain->arena, OBJECT_META, META_RETAINED),
                                object_number(&retain->arena, (uint64_t)before_ms));
    retain->bundle = (struct bundle){.ops = &retain->op,
                                     .count = 1,
                                     .urgency = URGENCY_URGENT,
                                     .weighty = true,
                                     .done = retain_done};
    (void)!care_propose(care, &retain->bundle);
    return CARE_RESTS;
}
