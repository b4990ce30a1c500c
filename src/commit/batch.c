/* batch.c -- the states of batch.h, executed. */
#include "commit/batch.h"

#include <stdlib.h>

#define BATCH_ARENA_CHUNK (1u << 20)
#define BIT(state) (1u << (state))

/* Which states each one may be entered from. */
static const struct {
    const char *name;
    unsigned from;
} states[] = {
    [BATCH_FREE] = {"FREE", BIT(BATCH_ANSWERED)},
    [BATCH_DRAINED] = {"DRAINED", BIT(BATCH_FREE)},
    [BATCH_LOADED] = {"LOADED", BIT(BATCH_DRAINED)},
    [BATCH_DECIDED] = {"DECIDED", BIT(BATCH_LOADED)},
    [BATCH_SUBMITTED] = {"SUBMITTED", BIT(BATCH_DECIDED)},
    [BATCH_DURABLE] = {"DURABLE", BIT(BATCH_SUBMITTED)},
    [BATCH_ANSWERED] = {"ANSWERED", BIT(BATCH_DRAINED) | BIT(BATCH_SUBMITTED) | BIT(BATCH_DURABLE)},
};

void batch_init(struct batch *batch, unsigned lane, uint32_t ops_max)
{
    *batch = (struct batch){.slices_max = ops_max, .place = {.state = "FREE", .lane = lane}};
    arena_init(&batch->arena, BATCH_ARENA_CHUNK);
    batch->slices = must_calloc(ops_max, sizeof *batch->slices);
}

void batch_release(struct batch *batch)
{
    batch_check(batch);
    must(batch->state == BATCH_FREE);
    arena_release(&batch->arena);
    free(batch->slices);
}

void batch_count(struct batch *batch)
{
    uint32_t ops = 0;
    for (uint32_t s = 0; s < batch->apply.slices_count; s++)
        ops += batch->slices[s].count;
    batch->place.ops = ops;
}

static void check_loaded(const struct batch *batch)
{
    const struct read_set *reads = &batch->apply.reads;
    must(batch->apply.arena == &batch->arena);
    must(batch->apply.rules == batch->rules);
    must(batch->apply.ops_count == batch->place.ops);
    must(reads->loaded.keys == reads->keys_count);
    must(reads->loaded.objects == reads->objects_count);
    must(reads->loaded.tenants == reads->tenants_count);
    must(reads->loaded.counters == reads->counters_count);
    must(reads->loaded.cells == reads->cells_count);
}

static void check_causes(const struct write_set *writes)
{
    for (uint32_t i = 0; i < writes->count; i++)
        must(writes->causes[i]->sequence == writes->first_sequence + i);
}

static void check_decided(const struct batch *batch)
{
    const struct apply *apply = &batch->apply;
    const struct write_set *writes = &apply->writes;
    must(writes->reads == &apply->reads);
    must(writes->first_sequence == batch->place.first_sequence);
    must(writes->first_sequence + writes->count == apply->sequence + 1);
    must(writes->next_series == apply->next_series);
    must(writes->count <= apply->causes_max);
    must(writes->time_ms == apply->moment.now_ms);
    must(writes->set_back == batch->set_back);
}

static void check_slices(const struct batch *batch)
{
    uint32_t ops = 0;
    for (uint32_t s = 0; s < batch->apply.slices_count; s++) {
        const struct slice *slice = &batch->slices[s];
        must(slice->count > 0);
        must(slice->first + slice->count <= slice->bundle->count);
        must(__atomic_load_n(&slice->bundle->answered, __ATOMIC_RELAXED) < slice->bundle->count);
        ops += slice->count;
    }
    must(ops == batch->place.ops);
}

static void check_drained(const struct batch *batch)
{
    must(batch->apply.slices_count > 0);
    must(batch->apply.slices_count <= batch->slices_max);
    must(batch->apply.slices == batch->slices);
    must(batch->place.batch > 0);
}

static void check_free(const struct batch *batch)
{
    must(batch->apply.slices_count == 0);
    must(!batch->rules);
}

/* What a state promises beyond what the states before it promise. */
static inline void check_state(const struct batch *batch, enum batch_state state)
{
    switch (state) {
    case BATCH_FREE:
        return check_free(batch);
    case BATCH_DRAINED:
        return check_drained(batch);
    case BATCH_LOADED:
        return check_loaded(batch);
    case BATCH_DECIDED:
        return check_decided(batch);
    case BATCH_SUBMITTED:
        return must(batch->apply.writes.batch == batch);
    case BATCH_DURABLE:
    case BATCH_ANSWERED:
        return;
    }
    unreachable_state(state);
}

void batch_check(const struct batch *batch)
{
    bool held = batch->state != BATCH_FREE && batch->state != BATCH_ANSWERED;
    check_state(batch, batch->state);
    for (enum batch_state state = BATCH_DRAINED; held && state < batch->state; state++)
        check_state(batch, state);
    if (held) check_slices(batch);
    if (batch->state >= BATCH_DECIDED && held) check_causes(&batch->apply.writes);
}

static void batch_empty(struct batch *batch)
{
    arena_reset(&batch->arena);
    rules_release(batch->rules);
    batch->rules = NULL;
    batch->apply.slices_count = 0;
}

void batch_enter(struct batch *batch, enum batch_state state)
{
    if (SLOW_CHECKS && batch->state != BATCH_FREE) batch_check(batch);
    must(states[state].from & BIT(batch->state));
    if (state == BATCH_FREE) batch_empty(batch);
    batch->state = state;
    batch->place.state = states[state].name;
    check_state(batch, state);
    if (SLOW_CHECKS) batch_check(batch);
}
