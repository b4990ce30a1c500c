/* steps.c -- what happens next. A step is one call of one of the threads the server has, or
 * something the outside world does to it. */
#include "sim.h"

#include "base/table.h"
#include "commit/pace.h"
#include "store/memory.h"

#define HOUR_MS (3600 * 1000)
#define TURNS_WEIGHT 15 /* how often the other node has the turn */

/* A turn waits for a free batch, and with little queued for the batches before it: with one thread
 * it would wait for ever. */
static bool turn_would_wait(struct sim *sim)
{
    unsigned flying = sim->probe.batches_count;
    if (flying >= sim->plan.batches_max) return true;
    return pace_turn_waits(sim->plan.small_ops, queue_waiting(sim->queue), flying);
}

bool step_turn_now(struct sim *sim)
{
    sim->waiting = queue_waiting(sim->queue);
    sim_say(sim, "turn, %u waiting", sim->waiting);
    bool any = commit_turn(sim->commit);
    if (any != (sim->waiting > 0))
        sim_fail(sim, "a turn with %u waiting took nothing", sim->waiting);
    traffic_check_depth(sim);
    return any;
}

bool step_turn(struct sim *sim)
{
    return !turn_would_wait(sim) && step_turn_now(sim);
}

bool step_sync(struct sim *sim)
{
    unsigned flying = sim->probe.batches_count;
    sim_say(sim, "sync, %u under way", flying);
    bool any = commit_sync_now(sim->commit);
    if (any != (flying > 0)) sim_fail(sim, "a sync of %u batches reported nothing", flying);
    traffic_check_depth(sim);
    return any;
}

/* Each caretaker may have queued a bundle: the sweep a full one, retention and the timekeeper one
 * op; the cleaner's are batched. */
void step_tend(struct sim *sim)
{
    uint64_t ops = room_used(&sim->fleet->room, ROOM_OPS);
    uint64_t urgent_ops = room_used(&sim->fleet->room, ROOM_URGENT_OPS);
    tend_round(sim->tend);
    sim->tended_ops += (uint32_t)(room_used(&sim->fleet->room, ROOM_OPS) - ops);
    sim->tended_urgent_ops +=
        (uint32_t)(room_used(&sim->fleet->room, ROOM_URGENT_OPS) - urgent_ops);
    sim_say(sim, "tend, %u and %u proposed", sim->tended_ops, sim->tended_urgent_ops);
    if (sim->tended_ops > sim->plan.step_ops || sim->tended_urgent_ops > sim->plan.step_ops + 2)
        sim_fail(sim, "%u and %u operations are proposed at once, at most %u", sim->tended_ops,
                 sim->tended_urgent_ops, sim->plan.step_ops);
    if (life_writable(sim)) chain_lay_ghosts(&sim->chain);
    sim->state_faulty = false; /* if RocksDB was closed this has opened it again */
}

/* ---- the outside world ---- */

void step_wait(struct sim *sim, int64_t by_ms)
{
    clocks_wait(sim->fleet, by_ms);
    int64_t now_ms = clock_now_ms(&sim->clock);
    if (now_ms > sim->wall_most_ms) sim->wall_most_ms = now_ms;
}

/* To the very moment at which some window ends or some cell is due, or just before. */
static void wait_for_a_moment(struct sim *sim)
{
    const struct model *shown = &sim->chain.shown;
    const struct model_cell *cell = &shown->cells[dice_below(sim->dice, shown->cells_count + 1)];
    bool ends = cell < shown->cells + shown->cells_count && cell->expires_ms != MODEL_NEVER;
    int64_t now_ms = clock_now_ms(&sim->clock);
    int64_t at_ms = ends ? cell->expires_ms : now_ms;
    if (ends && cell->start_ms != MODEL_NEVER) at_ms -= MODEL_WINDOW_IDLE_MS;
    int64_t by_ms = at_ms - dice_below(sim->dice, 2) - now_ms;
    step_wait(sim, by_ms > 0 && by_ms < 40 * HOUR_MS ? by_ms : 0);
}

static void step_clock(struct sim *sim)
{
    static const int64_t steps_ms[] = {1, 10, 1000, 30000, 600000};
    struct dice *dice = sim->dice;
    clocks_step(sim->fleet);
    if (dice_chance(dice, 20))
        wait_for_a_moment(sim);
    else
        step_wait(sim, dice_between(dice, 0, DICE_PICK(dice, steps_ms)));
    sim_say(sim, "the clock goes to %lld, time to %lld", (long long)sim->fleet->wall_ms,
            (long long)clock_now_ms(&sim->clock));
}

/* The limit is the process's, so no lane's RocksDB can write. */
static void all_states_faulty(struct fleet *fleet)
{
    for (unsigned i = 0; i < fleet->count; i++)
        fleet->lanes[i]->state_faulty = true;
}

static void state_fault(struct sim *sim)
{
    sim_say(sim, "RocksDB cannot write");
    disk_state_readonly(true);
    unsigned rounds = 1 + dice_below(sim->dice, 3);
    for (unsigned i = 0; i < rounds; i++) {
        step_wait(sim, sim->plan.checkpoint_ms);
        all_states_faulty(sim->fleet);
        step_tend(sim);
    }
    disk_state_readonly(false);
    all_states_faulty(sim->fleet);
}

/* Many batches under way: some of them may be safe when the fault comes, and others not. */
static void fill_pipeline(struct sim *sim)
{
    for (unsigned i = 0; i < 20 && sim->probe.batches_count < sim->plan.batches_max; i++) {
        for (unsigned bundles = 1 + dice_below(sim->dice, 5); bundles > 0; bundles--)
            traffic_push(sim);
        if (!step_turn(sim)) return;
    }
}

static void step_fault(struct sim *sim)
{
    struct dice *dice = sim->dice;
    if (dice_chance(dice, 40)) {
        sim->probe.fail_loads = 1 + dice_below(dice, 2);
        sim_say(sim, "loads will fail");
    } else if (sim->fleet->world == SIM_MEMORY) {
        sim->sync_breaks = true;
        sim->break_keeps = dice_chance(dice, 50);
        memory_break_sync(sim->probe.real, sim->break_keeps);
        sim_say(sim, "the next sync fails, %s", sim->break_keeps ? "kept" : "lost");
    } else if (sim->fleet->world == SIM_POSTGRES) {
        if (dice_chance(dice, 50)) fill_pipeline(sim);
        if (nodes_cut(sim)) sim->sync_breaks = true;
    } else if (sim->plan.state_faults && dice_chance(dice, 50)) {
        sim->plan.state_faults--;
        state_fault(sim);
    } else {
        if (dice_chance(dice, 50)) fill_pipeline(sim);
        sim->journal_faulty = true;
        disk_break(sim->disk, dice);
        sim_say(sim, "the disk will fail");
    }
}

static void busy_step(struct sim *sim)
{
    switch (dice_below(sim->dice, 9)) {
    case 7:
    case 8:
        if (sim->plan.reconcile_weight) reconcile_some(sim);
        break;
    case 5:
    case 6:
        if (sim->plan.rebuild_weight) rebuild_some(sim);
        break;
    case 0:
    case 1:
        traffic_push(sim);
        break;
    case 2:
        step_turn(sim);
        break;
    case 3:
        step_sync(sim);
        break;
    default:
        if (dice_chance(sim->dice, 50)) step_wait(sim, sim->plan.checkpoint_ms);
        step_tend(sim);
    }
}

/* The journal is being synced: its blocks are written, and safe only in part. */
static void be_caught_syncing(struct sim *sim)
{
    if (dice_chance(sim->dice, 70)) traffic_renew(sim);
    fill_pipeline(sim);
    life_arm_picture(sim, 2, true);
    step_sync(sim);
}

/* Anything is being done. */
static void be_caught_anywhere(struct sim *sim)
{
    life_arm_picture(sim, 30, false);
    for (unsigned i = 0; i < 12 && !sim->pictured && !sim->probe.dead; i++)
        busy_step(sim);
}

static void step_crash(struct sim *sim)
{
    if (sim->fleet->world == SIM_EMBEDDED) {
        unsigned throw = dice_below(sim->dice, 100);
        if (throw < 40)
            be_caught_syncing(sim);
        else if (throw < 80)
            be_caught_anywhere(sim);
    }
    fleet_crash(sim->fleet);
}

static void step_restart(struct sim *sim)
{
    if (sim->fleet->world != SIM_MEMORY) fleet_restart(sim->fleet);
}

static void step_turn_any(struct sim *sim)
{
    step_turn(sim);
}

static void step_sync_any(struct sim *sim)
{
    step_sync(sim);
}

static void step_heal(struct sim *sim)
{
    if (sim->journal_faulty || sim->state_faulty || sim->sync_breaks) life_heal(sim);
}

static void step_reload(struct sim *sim)
{
    reload_push(sim);
}

/* Whoever waited was ended while waiting. */
static void bury(struct sim *sim)
{
    if (sim->probe.dead) fleet_crash(sim->fleet);
}

static void step_rebuild(struct sim *sim)
{
    rebuild_some(sim);
    bury(sim);
}

static void step_operator(struct sim *sim)
{
    switch (dice_below(sim->dice, 6)) {
    case 0:
        rebuild_forget_some(sim);
        break;
    case 1:
        rebuild_delete_some(sim);
        break;
    default:
        rebuild_ask_some(sim);
    }
    bury(sim);
}

static void step_reconcile(struct sim *sim)
{
    dice_chance(sim->dice, 30) ? reconcile_ask_some(sim) : reconcile_some(sim);
    bury(sim);
}

/* With several of them waiting inside one another the first has to wait for the last: a little of
 * that will do. */
void step_meanwhile(struct sim *sim)
{
    static void (*const steps[])(struct sim * sim) = {
        traffic_push,  traffic_push, traffic_push, step_turn_any, step_turn_any,
        step_sync_any, step_tend,    step_clock,   compare_some,  traffic_retry};
    static void (*const others[])(struct sim * sim) = {rebuild_ask_some, reload_push,
                                                       reconcile_ask_some};
    struct dice *dice = sim->dice;
    if (dice_chance(dice, sim->plan.crash_weight)) {
        fleet_die(sim->fleet);
    } else if (dice_chance(dice, sim->plan.fault_weight)) {
        step_fault(sim);
    } else if (sim->errands_depth == 1 && dice_chance(dice, 10)) {
        DICE_PICK(dice, others)(sim);
    } else {
        DICE_PICK(dice, steps)(sim);
    }
    if (!sim->probe.dead) traffic_check_depth(sim);
}

static void step_turns(struct sim *sim)
{
    nodes_take_turns(sim);
}

static void step_drain(struct sim *sim)
{
    life_drain(sim);
    compare_all(sim);
}

static const struct {
    const char *name;
    unsigned weight; /* 0: the plan's */
    void (*run)(struct sim *sim);
} steps[] = {
    {"crash", 0, step_crash},         {"fault", 0, step_fault},     {"push", 90, traffic_push},
    {"turn", 60, step_turn_any},      {"sync", 40, step_sync_any},  {"clock", 15, step_clock},
    {"tend", 15, step_tend},          {"read", 20, compare_some},   {"retry", 10, traffic_retry},
    {"heal", 6, step_heal},           {"drain", 3, step_drain},     {"restart", 1, step_restart},
    {"reload", 5, step_reload},       {"rebuild", 0, step_rebuild}, {"operator", 0, step_operator},
    {"reconcile", 0, step_reconcile}, {"turns", 0, step_turns},
};

static unsigned weight_of(const struct sim *sim, unsigned index)
{
    if (steps[index].run == step_crash) return sim->plan.crash_weight;
    if (steps[index].run == step_fault) return sim->plan.fault_weight;
    if (steps[index].run == step_rebuild) return sim->plan.rebuild_weight;
    if (steps[index].run == step_operator) return sim->plan.rebuild_weight / 2;
    if (steps[index].run == step_reconcile) return sim->plan.reconcile_weight;
    if (steps[index].run == step_turns) return sim->fleet->world == SIM_POSTGRES ? TURNS_WEIGHT : 0;
    return steps[index].weight;
}

void steps_one(struct sim *sim)
{
    unsigned sum = 0;
    for (unsigned i = 0; i < ARRAY_COUNT(steps); i++)
        sum += weight_of(sim, i);
    unsigned throw = dice_below(sim->dice, sum);
    unsigned at = 0;
    for (; throw >= weight_of(sim, at); at++)
        throw -= weight_of(sim, at);
    sim->fleet->doing = steps[at].name;
    steps[at].run(sim);
    traffic_check_depth(sim);
}

/* Everything is well and time passes: what is due must go. */
static void sweep_all(struct sim *sim)
{
    sim->fleet->doing = "the last sweep";
    for (unsigned i = 0; i < 2000; i++) {
        const struct moment moment = clock_moment(&sim->clock);
        if (!model_has_due(&sim->chain.shown, moment_sure(&moment))) return;
        step_wait(sim, sim->plan.sweep_ms + 1);
        step_tend(sim);
        life_drain(sim);
    }
    sim_fail(sim, "cells that are due are never swept");
}

void steps_settle(struct sim *sim)
{
    life_heal(sim);
    life_drain(sim);
    while (sim->unheard_count) {
        traffic_retry(sim);
        life_drain(sim);
    }
    compare_all(sim);
}

void steps_recount(struct sim *sim)
{
    sim->fleet->doing = "the last rebuild";
    rebuild_all(sim);
    compare_all(sim);
    sim->fleet->doing = "the last recount";
    reconcile_all(sim);
    compare_all(sim);
    sweep_all(sim);
    traffic_ask_keys(sim);
    compare_all(sim);
}
