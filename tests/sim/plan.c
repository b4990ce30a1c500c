/* plan.c -- what a seed is like. Limits are low and names few, so that things meet; in every seed
 * some of it is left out, so that the rest is tried without it. */
#include "sim.h"

#include <string.h>

#include "core/name.h"

#define PAGE 4096u

/* A few of these make a journal block of more than one sector of the disk, which can be torn. */
#define FIFTY "-0123456789-abcdefghijklmnopqrstuvwxyz-ABCDEFGHIJ-"
#define LONG FIFTY FIFTY FIFTY FIFTY

/* One is the beginning of the other: keys must not run into each other. */
static const char *const tenants[MODEL_TENANTS] = {"a" LONG, "a", "a-b"};
static const char *const names[MODEL_NAMES + 1] = {"xy" LONG, "x", "x.y", "Z", "never"};

const char *plan_tenant(const struct sim *sim, unsigned tenant)
{
    return sim->tenants[tenant];
}

/* With several lanes a number makes a name one of this lane's. */
static void plan_tenants(struct sim *sim)
{
    for (unsigned i = 0; i < MODEL_TENANTS; i++) {
        char *name = sim->tenants[i];
        size_t room = sizeof sim->tenants[i];
        snprintf(name, room, "%s", tenants[i]);
        for (unsigned n = 0; lanes_index(sim->fleet->count, bytes_str(name)) != sim->index; n++)
            snprintf(name, room, "%s%u", tenants[i], n);
    }
}

static bool find_tenant(const struct sim *sim, struct bytes text, unsigned *tenant_out)
{
    for (unsigned i = 0; i < MODEL_TENANTS; i++) {
        *tenant_out = i;
        if (bytes_equal(bytes_str(sim->tenants[i]), text)) return true;
    }
    return false;
}

const char *plan_name(unsigned name)
{
    return names[name];
}

static bool find(const char *const *all, unsigned count, struct bytes text, unsigned *index_out)
{
    for (unsigned i = 0; i < count; i++) {
        *index_out = i;
        if (bytes_equal(bytes_str(all[i]), text)) return true;
    }
    return false;
}

bool plan_find(const struct sim *sim, struct bytes counter, unsigned *tenant_out,
               unsigned *name_out)
{
    struct bytes tenant, name;
    char kind;
    return counter_key_split(counter, &tenant, &kind, &name) && kind == COUNTER_KIND_DIRECT &&
           find_tenant(sim, tenant, tenant_out) && find(names, MODEL_NAMES, name, name_out);
}

bool plan_find_rule(const struct sim *sim, struct bytes key, unsigned *tenant_out,
                    unsigned *name_out, uint32_t *generation_out)
{
    struct bytes tenant, name, dimensions;
    if (!rule_key_split(key, &tenant, &name, generation_out, &dimensions)) return false;
    unsigned code;
    if (!find_tenant(sim, tenant, tenant_out) || !ruleset_code(dimensions, &code)) return false;
    for (unsigned counter = 0; counter < RULESET_COUNTERS; counter++) {
        *name_out = MODEL_RULE_NAME(counter, code);
        if (bytes_equal(bytes_str(ruleset_counter_name(counter)), name)) return true;
    }
    return false;
}

static void plan_counters(struct plan *plan, struct dice *dice, int64_t now_ms)
{
    static const int32_t durations[] = {0, 1, 7, 60, 3600, 86400, 2592000, INT32_MAX};
    const int64_t times_ms[] = {0,      -1,           -86400000, 59999,          60000,
                                now_ms, now_ms - 999, 1,         -62135596800000};
    plan->tenants = 1 + dice_below(dice, MODEL_TENANTS);
    plan->names = 1 + dice_below(dice, MODEL_NAMES);
    plan->durations_count = 1 + dice_below(dice, SIM_DURATIONS);
    for (unsigned i = 0; i < plan->durations_count; i++)
        plan->durations[i] = DICE_PICK(dice, durations);
    plan->times_count = 1 + dice_below(dice, SIM_TIMES);
    for (unsigned i = 0; i < plan->times_count; i++)
        plan->times_ms[i] = DICE_PICK(dice, times_ms);
    plan->keys = 2 + dice_below(dice, MODEL_KEYS - 1);
    plan->extremes = dice_chance(dice, 30);
    plan->expiring = dice_chance(dice, 50);
}

static void plan_limits(struct plan *plan, struct dice *dice)
{
    static const int64_t keep_ms[] = {1, 500, 20000, 600000, 86400000};
    plan->limits.tenant_cells = dice_chance(dice, 50) ? dice_between(dice, 1, 12) : 100000;
    plan->limits.granularities = 1 + dice_below(dice, SIM_DURATIONS);
    plan->limits.key_keep_ms = DICE_PICK(dice, keep_ms);
    plan->batch_ops_max = 1 + dice_below(dice, 16);
    plan->batches_max = 1 + dice_below(dice, 8);
    if (dice_chance(dice, 25)) plan->small_ops = 1 + dice_below(dice, 8);
    plan->queue = (struct queue_limits){
        .ops_max = (uint32_t)dice_between(dice, 3, 100),
        .tenant_ops_max = (uint32_t)dice_between(dice, 2, 80),
        .urgent_ops_max = (uint32_t)dice_between(dice, 1, 20),
        .bytes_max = dice_chance(dice, 30) ? (size_t)dice_between(dice, 500, 5000) : 1u << 30,
        .tenant_bytes_max = dice_chance(dice, 30) ? (size_t)dice_between(dice, 500, 3000) : 0,
        .enough_ops = dice_chance(dice, 50) ? 1 + (uint32_t)dice_below(dice, 8) : 0,
    };
    plan->sweep_ms = dice_between(dice, 1, 5000);
    plan->step_ops = 1 + dice_below(dice, 6);
}

static void plan_store(struct plan *plan, struct dice *dice)
{
    static const size_t cache_bytes[] = {4096, 64 << 10, 1 << 20, 16 << 20};
    static const int64_t checkpoint_ms[] = {1, 200, 5000, 1000000};
    plan->cache_bytes = DICE_PICK(dice, cache_bytes);
    plan->segment_bytes = (uint64_t)dice_between(dice, 6, 20) * PAGE;
    plan->keep_bytes = dice_chance(dice, 50) ? 0 : (uint64_t)dice_between(dice, 1, 40) * PAGE;
    plan->keep_ms = dice_chance(dice, 50) ? 0 : dice_between(dice, 1, 100000);
    plan->spare_segments = dice_below(dice, 3);
    plan->checkpoint_ms = DICE_PICK(dice, checkpoint_ms);
    plan->checkpoint_bytes = (uint64_t)dice_between(dice, 4, 100) * PAGE;
}

/* Segments have room for what the events of a batch add. */
static void plan_events(struct plan *plan, struct dice *dice)
{
    static const int64_t archive_ms[] = {1, 200, 5000, 1000000};
    static const int64_t retention_ms[] = {1000, 60000, 3600000, SIM_FOR_EVER, SIM_FOR_EVER};
    plan->retention_ms = SIM_FOR_EVER;
    plan->events = dice_chance(dice, 60);
    if (!plan->events) return;
    plan->ids = 4 + dice_below(dice, MODEL_IDS - 3);
    plan->limits.ids_shared = dice_chance(dice, 30);
    plan->limits.tenant_cells =
        dice_chance(dice, 30) ? dice_between(dice, 1, 40) : MODEL_TENANT_CELLS_MAX;
    plan->limits.granularities += 2;
    plan->archive_ms = DICE_PICK(dice, archive_ms);
    plan->retention_ms = DICE_PICK(dice, retention_ms);
    plan->rebuild_weight = dice_chance(dice, 60) ? 2 + dice_below(dice, 10) : 0;
    plan->reconcile_weight = dice_chance(dice, 60) ? 5 + dice_below(dice, 40) : 0;
    plan->limits.tenant_marks = dice_chance(dice, 20) ? 1 + dice_below(dice, 4) : 0;
    plan->segment_bytes = (uint64_t)dice_between(dice, 40, 60) * PAGE;
    plan->queue.batch_weight_max = 10 * PAGE;
    plan->rulesets_count = 1 + dice_below(dice, SIM_RULESETS);
    for (unsigned i = 0; i < plan->rulesets_count; i++)
        ruleset_make(&plan->rulesets[i], dice);
}

void plan_make(struct sim *sim)
{
    static const int64_t steps_most[] = {
        [SIM_MEMORY] = 800, [SIM_EMBEDDED] = 400, [SIM_POSTGRES] = 250};
    struct plan *plan = &sim->plan;
    struct dice *dice = sim->dice;
    memset(plan, 0, sizeof *plan);
    plan_tenants(sim);
    plan->steps = (unsigned)dice_between(dice, 100, steps_most[sim->fleet->world]);
    plan_counters(plan, dice, sim->fleet->wall_ms);
    plan_limits(plan, dice);
    plan_store(plan, dice);
    plan_events(plan, dice);
    plan->crash_weight = dice_below(dice, 6);
    plan->fault_weight = dice_chance(dice, 70) ? 1 + dice_below(dice, 8) : 0;
    plan->state_faults = dice_chance(dice, 10) ? 1 + dice_below(dice, 2) : 0;
    /* RocksDB forgets for good, at any time, what is surely over. If time is set back then, or a
     * life ends before it could record that time is sure, that is not over again, and the model
     * cannot know what RocksDB did. So it forgets nothing that was used within years. */
    plan->forget_ms = plan->limits.key_keep_ms + 40000 * INT64_C(3600000);
}

void plan_copy(struct sim *sim, const struct sim *from)
{
    sim->plan = from->plan;
    plan_tenants(sim);
}
