/* fleet.c -- one to four lanes on one machine.
 *
 * Lanes share nothing but the machine: its clocks and their jumps, its end, and the room of their
 * queues. So each has a world and a model of its own, the lanes' steps come in any order, and a
 * crash takes all of them at the same moment. */
#include "sim.h"

#include <stdlib.h>
#include <sys/stat.h>

/* Two seeds of three have one lane, as most servers do. */
static unsigned pick_count(uint64_t seed)
{
    return seed % 3 ? 1 : 2 + (unsigned)(seed / 3 % (SIM_LANES - 1));
}

static struct sim *lane_new(struct fleet *fleet, unsigned index)
{
    struct sim *sim = must_calloc(1, sizeof *sim);
    sim->fleet = fleet;
    sim->index = index;
    sim->dice = &fleet->dice;
    sim->wall_most_ms = fleet->wall_ms;
    return sim;
}

static void make_lanes(struct fleet *fleet)
{
    fleet->count = pick_count(fleet->seed);
    for (unsigned i = 0; i < fleet->count; i++) {
        fleet->lanes[i] = lane_new(fleet, i);
        if (i == 0)
            plan_make(fleet->lanes[0]);
        else
            plan_copy(fleet->lanes[i], fleet->lanes[0]);
    }
}

static void begin(struct fleet *fleet, const char *dir)
{
    bool embedded = fleet->world == SIM_EMBEDDED;
    fleet->room = (struct queue_room){.shared = fleet->count > 1 || fleet->seed % 2};
    if (embedded) disk_seed_random(fleet->seed);
    if (embedded && fleet->count > 1) {
        remove_tree(dir);
        must(mkdir(dir, 0700) == 0);
    }
    for (unsigned i = 0; i < fleet->count; i++) {
        char lane[300];
        snprintf(lane, sizeof lane, "%s/lane-%03u", dir, i);
        life_begin(fleet->lanes[i], fleet->count > 1 ? lane : dir);
    }
}

static void end(struct fleet *fleet, const char *dir)
{
    for (unsigned i = 0; i < fleet->count; i++)
        life_end(fleet->lanes[i]);
    if (fleet->world == SIM_EMBEDDED) remove_tree(dir);
}

typedef void lane_fn(struct sim *sim);

static void in_each_lane(struct fleet *fleet, lane_fn *act)
{
    for (unsigned i = 0; i < fleet->count; i++)
        act(fleet->lanes[i]);
}

/* -- Ends and starts --------------------------------------------------------------------------- */

void fleet_die(struct fleet *fleet)
{
    in_each_lane(fleet, life_die);
}

static void start_again(struct fleet *fleet)
{
    in_each_lane(fleet, life_reopen);
    clocks_between(fleet);
    in_each_lane(fleet, life_go_on);
}

void fleet_crash(struct fleet *fleet)
{
    fleet_die(fleet);
    in_each_lane(fleet, life_bury);
    start_again(fleet);
}

void fleet_restart(struct fleet *fleet)
{
    must(fleet->world != SIM_MEMORY);
    in_each_lane(fleet, life_drain);
    in_each_lane(fleet, life_stop);
    start_again(fleet);
}

/* -- What lanes have together ------------------------------------------------------------------ */

uint32_t fleet_queue_ops(const struct fleet *fleet)
{
    uint32_t ops = 0;
    for (unsigned i = 0; i < fleet->count; i++)
        ops += fleet->lanes[i]->queue_ops + fleet->lanes[i]->tended_ops;
    return ops;
}

uint32_t fleet_urgent_ops(const struct fleet *fleet)
{
    uint32_t ops = 0;
    for (unsigned i = 0; i < fleet->count; i++)
        ops += fleet->lanes[i]->urgent_ops + fleet->lanes[i]->tended_urgent_ops;
    return ops;
}

size_t fleet_queue_bytes(const struct fleet *fleet)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < fleet->count; i++)
        bytes += fleet->lanes[i]->queue_bytes;
    return bytes;
}

bool fleet_move(struct fleet *fleet)
{
    for (unsigned i = 0; i < fleet->count; i++)
        if (step_turn(fleet->lanes[i]) || step_sync(fleet->lanes[i])) return true;
    return false;
}

/* -- A life ------------------------------------------------------------------------------------ */

static void live_on(struct fleet *fleet)
{
    unsigned steps = fleet->lanes[0]->plan.steps;
    for (fleet->step = 1; fleet->step <= steps; fleet->step++)
        steps_one(fleet->lanes[fleet->count > 1 ? dice_below(&fleet->dice, fleet->count) : 0]);
}

static void settle(struct fleet *fleet)
{
    fleet->doing = "the end";
    in_each_lane(fleet, steps_settle);
    clocks_calm(fleet);
    in_each_lane(fleet, steps_recount);
    fleet_crash(fleet);
    if (fleet->world == SIM_EMBEDDED) fleet_restart(fleet);
    in_each_lane(fleet, traffic_ask_keys);
    in_each_lane(fleet, compare_all);
}

void fleet_run(struct fleet *fleet, const char *dir)
{
    fleet->doing = "the start";
    fleet->dice.state = fleet->seed * 2 + fleet->world;
    fleet->wall_ms = 1700000000000 + dice_between(&fleet->dice, 0, 1000000000);
    fleet->mono_ns = dice_between(&fleet->dice, 0, 1000000000);
    clocks_plan(fleet);
    make_lanes(fleet);
    begin(fleet, dir);
    live_on(fleet);
    settle(fleet);
    end(fleet, dir);
}

void fleet_free(struct fleet *fleet)
{
    for (unsigned i = 0; i < fleet->count; i++)
        free(fleet->lanes[i]);
    free(fleet);
}
