/* rebuild.c -- operators: rebuilds asked for and done step by step, counters forgotten. */
#include "sim.h"

#include <stdlib.h>

#include "core/name.h"
#include "core/object.h"

#define ROUNDS_MAX 3000
#define DELETES_MAX 64

static bool in_force(const struct sim *sim)
{
    return sim->plan.events && sim->rules_current != SIM_NO_RULES;
}

/* Whether whoever changes rules or generations would have to wait. */
static bool is_locked(struct sim *sim)
{
    if (pthread_mutex_trylock(&sim->enacting) != 0) return true;
    pthread_mutex_unlock(&sim->enacting);
    return false;
}

static bool may_fail(const struct sim *sim)
{
    return sim->probe.dead || sim->journal_faulty || sim->state_faulty || sim->sync_breaks ||
           sim->probe.fail_loads > 0 || sim->failed_errand;
}

/* ---- asking ---- */

static unsigned find_waiting(const struct model *model, unsigned counter, bool force)
{
    for (unsigned i = 0; i < model->rebuilds_count; i++) {
        const struct model_rebuild *rebuild = &model->rebuilds[i];
        if (rebuild->progress == MODEL_WAITING && rebuild->counter == counter &&
            rebuild->force == force)
            return i + 1;
    }
    return 0;
}

static void check_id(struct sim *sim, const struct buf *id, unsigned waiting, unsigned before)
{
    unsigned long number = strtoul(id->data, NULL, 10);
    bool right = waiting ? number == waiting : number > before;
    if (!right || number > sim->chain.shown.rebuilds_count)
        sim_fail(sim, "a rebuild was given id %lu, %u is waiting", number, waiting);
}

void rebuild_ask_some(struct sim *sim)
{
    struct dice *dice = sim->dice;
    const struct model *shown = &sim->chain.shown;
    if (!sim->plan.events || sim->asked == MODEL_REBUILDS_MAX) return;
    unsigned counter = dice_below(dice, RULESET_COUNTERS);
    bool force = dice_chance(dice, 20);
    enum err expected =
        model_may_rebuild(shown, reload_rules(sim, sim->rules_current), counter, force);
    unsigned waiting = find_waiting(shown, counter, force);
    unsigned before = shown->rebuilds_count;
    struct reason why;
    struct buf id;
    buf_init(&id, 100);
    sim->asked++;
    sim->errand_kind = ERRAND_ASK;
    const struct rebuild_wish wish = {.counter = bytes_str(ruleset_counter_name(counter)),
                                      .force = force};
    enum err e = rebuild_ask(sim->rebuilds, &wish, &id, &why);
    sim_say(sim, "a rebuild of %s is asked for: %s", ruleset_counter_name(counter), err_code(e));
    buf_add_char(&id, 0);
    if (e != expected && !(e == ERR_STORAGE && may_fail(sim)))
        sim_fail(sim, "a rebuild of %s was answered %s, expected %s", ruleset_counter_name(counter),
                 err_code(e), err_code(expected));
    if (e == ERR_OK) check_id(sim, &id, waiting, before);
    buf_release(&id);
}

/* ---- steps ---- */

void rebuild_some(struct sim *sim)
{
    unsigned steps = 1 + dice_below(sim->dice, 4);
    for (unsigned i = 0; i < steps && in_force(sim) && !is_locked(sim) && !sim->probe.dead; i++) {
        sim->errand_kind = ERRAND_STEP;
        bool more = rebuild_step(sim->rebuilds) == DESK_AGAIN;
        sim_say(sim, "a step of rebuilding, %s", more ? "and more to do" : "nothing to do");
    }
}

static bool all_done(const struct model *model)
{
    for (unsigned i = 0; i < model->rebuilds_count; i++)
        if (model->rebuilds[i].progress < MODEL_DONE) return false;
    return model->garbage_count == 0;
}

static void check_generations(struct sim *sim)
{
    const struct model *model = &sim->chain.shown;
    for (unsigned i = 0; i < model->cells_count; i++) {
        const struct model_cell *cell = &model->cells[i];
        if (cell->name < MODEL_RULE) continue;
        unsigned counter = (cell->name - MODEL_RULE) / RULESET_CODES;
        if (cell->generation != model->counters[counter].generation)
            sim_fail(sim, "cells of generation %u are left of %s", cell->generation,
                     ruleset_counter_name(counter));
    }
}

/* Nothing disturbs it: every rebuild comes to its end, and what nobody reads is removed. */
void rebuild_all(struct sim *sim)
{
    if (!sim->plan.events) return;
    sim->calm = true;
    while (!in_force(sim)) {
        reload_push(sim);
        life_drain(sim);
    }
    for (unsigned i = 0; i < ROUNDS_MAX && !all_done(&sim->chain.shown); i++) {
        sim->errand_kind = ERRAND_STEP;
        if (rebuild_step(sim->rebuilds) == DESK_AGAIN) continue;
        step_tend(sim);
        life_drain(sim);
        step_wait(sim, 60000); /* for a clock that was set back */
    }
    if (!all_done(&sim->chain.shown)) sim_fail(sim, "rebuilds or their garbage have no end");
    check_generations(sim);
    sim->calm = false;
}

/* ---- removing ---- */

void rebuild_forget_some(struct sim *sim)
{
    unsigned counter = dice_below(sim->dice, RULESET_COUNTERS);
    if (!in_force(sim) || is_locked(sim)) return;
    bool there = sim->plan.rulesets[sim->rules_current].counters[counter].there;
    bool known = sim->chain.shown.counters[counter].known;
    enum err expected = there ? ERR_MANAGED : known ? ERR_OK : ERR_NOT_FOUND;
    sim->errand_kind = ERRAND_FORGET;
    enum err e = rebuild_forget(sim->rebuilds, bytes_str(ruleset_counter_name(counter)));
    sim_say(sim, "%s is to be forgotten: %s", ruleset_counter_name(counter), err_code(e));
    if (e != expected && !(e == ERR_STORAGE && may_fail(sim)))
        sim_fail(sim, "forgetting %s was answered %s, expected %s", ruleset_counter_name(counter),
                 err_code(e), err_code(expected));
}

struct deletes {
    struct sim *sim;
    struct arena arena;
    struct op ops[DELETES_MAX];
    uint32_t count;
};

static bool delete_row(void *context, struct bytes key, const struct counter *counter)
{
    struct deletes *deletes = context;
    (void)counter;
    deletes->ops[deletes->count++] =
        propose_delete(&deletes->arena, &deletes->sim->probe.store.secret, key);
    return deletes->count < DELETES_MAX;
}

static bool delete_state(void *context, struct bytes key, struct bytes value)
{
    struct deletes *deletes = context;
    (void)value;
    deletes->ops[deletes->count++] =
        propose_object(&deletes->arena, &deletes->sim->probe.store.secret,
                       arena_copy(&deletes->arena, key), BYTES_NONE);
    return deletes->count < DELETES_MAX;
}

/* As the API does it: found by a reader, then sent; rules may change in between. */
void rebuild_delete_some(struct sim *sim)
{
    struct store *store = &sim->probe.store;
    struct bytes tenant = bytes_str(plan_tenant(sim, dice_below(sim->dice, sim->plan.tenants)));
    unsigned counter = dice_below(sim->dice, RULESET_COUNTERS);
    const struct model_counter *known = &sim->chain.shown.counters[counter];
    struct bytes name = bytes_str(ruleset_counter_name(counter));
    if (!in_force(sim) || !known->known) return;
    if (sim->plan.rulesets[sim->rules_current].counters[counter].there) return;
    struct deletes *deletes = must_calloc(1, sizeof *deletes);
    deletes->sim = sim;
    arena_init(&deletes->arena, 4096);
    enum err e =
        view_list(&store->view, rule_key_prefix(&deletes->arena, tenant, name, known->generation),
                  BYTES_NONE, delete_row, deletes);
    if (e == ERR_OK && deletes->count < DELETES_MAX)
        e = view_objects(
            &store->view,
            object_state_key(&deletes->arena, tenant, name, known->generation, BYTES_NONE),
            BYTES_NONE, delete_state, deletes);
    struct bundle bundle = {.ops = deletes->ops,
                            .count = deletes->count,
                            .urgency = URGENCY_BATCHED,
                            .tenant = BYTES(" deletes"),
                            .weighty = true};
    sim->errand_kind = ERRAND_DELETE;
    if (e == ERR_OK && deletes->count) (void)errand_propose(sim, &bundle);
    arena_release(&deletes->arena);
    free(deletes);
}
