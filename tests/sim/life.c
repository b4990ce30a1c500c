/* life.c -- opening, crashing, restarting.
 *
 * A crash forgets the process: the queue, what was under way, and of the disk what was not synced.
 * Whatever the store then says its last sequence is must be the end of a batch: all that was
 * reported durable, then perhaps some that nobody was told about, in the order they were submitted.
 * From there on the model goes on from that batch, and everything is compared with it. */
#include "sim.h"

#include "store/embedded/embedded.h"
#include "store/memory.h"

#define DRAIN_ROUNDS_MAX 10000

static void answered(void *context)
{
    (void)context;
}

static void make_parts(struct sim *sim)
{
    const struct plan *plan = &sim->plan;
    sim->queue = queue_new(&plan->queue, &sim->fleet->room);
    sim->rulebook = rulebook_new();
    sim->rules_next = sim->rules_current = SIM_NO_RULES;
    clocks_begin(sim);
    sim->commit = commit_new(&(struct commit_config){
        .queue = sim->queue,
        .store = &sim->probe.store,
        .rulebook = sim->rulebook,
        .clock = &sim->clock,
        .limits = {.tenant_cells = plan->limits.tenant_cells,
                   .granularities = plan->limits.granularities,
                   .key_keep_ms = plan->limits.key_keep_ms,
                   .tenant_marks = plan->limits.tenant_marks,
                   .ids_shared = plan->limits.ids_shared},
        .batch_ops_max = plan->batch_ops_max,
        .batches_max = plan->batches_max,
        .small_ops = plan->small_ops,
        .answered = answered,
    });
    sim->lane = (struct lane){.store = &sim->probe.store,
                              .queue = sim->queue,
                              .rulebook = sim->rulebook,
                              .clock = &sim->clock,
                              .keeper = sim->clocks.keeper};
    sim->lanes = (struct lanes){1, &sim->lane};
    sim->tend = tend_new(&(struct tend_config){.lanes = &sim->lanes,
                                               .sweep_ms = plan->sweep_ms,
                                               .retention_ms = plan->retention_ms,
                                               .step_ops = plan->step_ops});
    pthread_mutex_init(&sim->enacting, NULL);
    sim->lane.caretaker = (struct caretaker){.store = &sim->probe.store,
                                             .rulebook = sim->rulebook,
                                             .clock = &sim->clock,
                                             .enacting = &sim->enacting,
                                             .batch_ops = plan->batch_ops_max,
                                             .batch_weight = plan->queue.batch_weight_max,
                                             .propose = errand_propose,
                                             .context = sim};
    sim->rebuilds = rebuilds_new(&sim->lanes, NULL, NULL);
    sim->reconciler = reconcile_begin(sim);
}

/* Whatever is left is refused: `dead` or not, nothing may be under way when parts are freed. */
static void free_parts(struct sim *sim)
{
    while (commit_sync_now(sim->commit))
        ;
    while (step_turn_now(sim))
        ;
    commit_close(sim->commit);
    commit_free(sim->commit);
    tend_free(sim->tend);
    clocks_end(sim);
    rebuilds_free(sim->rebuilds);
    reconciler_free(sim->reconciler);
    pthread_mutex_destroy(&sim->enacting);
    if (!traffic_idle(sim)) sim_fail(sim, "a bundle was never answered");
    queue_free(sim->queue);
    rulebook_free(sim->rulebook);
}

/* ---- the embedded store ---- */

static enum err open_once(struct sim *sim, struct store **store_out, struct reason *why_out)
{
    const struct plan *plan = &sim->plan;
    const struct embedded_config config = {
        .dir = disk_dir(sim->disk),
        .io = disk_io(sim->disk),
        .clock = &sim->fleet->base,
        .cache_bytes = plan->cache_bytes,
        .segment_bytes = plan->segment_bytes,
        .keep_bytes = plan->keep_bytes,
        .keep_ms = plan->keep_ms,
        .spare_segments = plan->spare_segments,
        .checkpoint_ms = plan->checkpoint_ms,
        .checkpoint_bytes = plan->checkpoint_bytes,
        .ids_shared = plan->limits.ids_shared,
        .archive_ms = plan->archive_ms,
        .key_keep_ms = plan->forget_ms,
    };
    reason_clear(why_out);
    return embedded_open(store_out, &config, why_out);
}

static void crash_disk(struct sim *sim)
{
    bool power_cut = dice_chance(sim->dice, 60);
    if (sim->pictured) chain_copy(&sim->chain, &sim->picture);
    sim_say(sim, "%s%s", power_cut ? "power cut" : "kill", sim->pictured ? ", at the picture" : "");
    sim->pictured = false;
    disk_crash(sim->disk, power_cut, sim->dice);
}

/* An opening that fails or is killed on its way, once or twice, changes nothing for the next. */
static void open_badly(struct sim *sim)
{
    struct reason why;
    struct store *store;
    bool broken = sim->plan.fault_weight && dice_chance(sim->dice, 50);
    sim_say(sim, "an opening that %s", broken ? "meets a fault" : "is killed");
    if (broken)
        disk_break(sim->disk, sim->dice);
    else
        life_arm_picture(sim, 40, false);
    enum err e = open_once(sim, &store, &why);
    if (e == ERR_OK)
        embedded_crash(store);
    else if (e != ERR_STORAGE || !broken)
        sim_fail(sim, "the store does not open: %s", why.text);
    crash_disk(sim);
}

static struct store *open_embedded(struct sim *sim, bool first)
{
    struct reason why;
    struct store *store;
    while (!first && dice_chance(sim->dice, 20))
        open_badly(sim);
    if (open_once(sim, &store, &why) != ERR_OK)
        sim_fail(sim, "the store does not open: %s", why.text);
    return store;
}

/* Nothing of a batch may be seen while it is still being synced. */
static void while_syncing(void *context)
{
    struct sim *sim = context;
    if (sim->probe.real && !sim->probe.dead && sim->commit) compare_some(sim);
}

/* Of all lanes at the same moment: the machine is one. */
static void picture_taken(void *context)
{
    struct sim *sim = context;
    for (unsigned i = 0; i < sim->fleet->count; i++) {
        struct sim *lane = sim->fleet->lanes[i];
        if (lane != sim && (!lane->probe.real || lane->probe.dead)) continue;
        if (lane != sim) disk_shoot(lane->disk);
        chain_copy(&lane->picture, &lane->chain);
        lane->pictured = true;
    }
    sim_say(sim, "the picture is taken");
}

void life_arm_picture(struct sim *sim, unsigned moments_max, bool syncs_only)
{
    disk_arm(sim->disk, 1 + dice_below(sim->dice, moments_max), syncs_only, picture_taken, sim);
}

/* ---- lives ---- */

static void settle(struct sim *sim, struct store *store)
{
    uint64_t acknowledged = sim->chain.shown.sequence;
    uint64_t submitted = chain_head(&sim->chain)->sequence;
    if (!chain_settle(&sim->chain, store->writer.position.last_sequence))
        sim_fail(sim, "restarted at sequence %llu; %llu was acknowledged, %llu submitted",
                 (unsigned long long)store->writer.position.last_sequence,
                 (unsigned long long)acknowledged, (unsigned long long)submitted);
    if (store->writer.position.time_ms != sim->chain.shown.time_ms)
        sim_fail(sim, "restarted at time %lld, expected %lld",
                 (long long)store->writer.position.time_ms, (long long)sim->chain.shown.time_ms);
}

static void start(struct sim *sim, struct store *store)
{
    sim->journal_faulty = sim->state_faulty = false;
    if (sim->fleet->world == SIM_POSTGRES) sim->sync_breaks = false; /* that link is gone */
    probe_init(sim, store);
    settle(sim, store);
    make_parts(sim);
    compare_all(sim);
    clocks_note(sim);
    if (dice_chance(sim->dice, 85)) reload_push(sim);
}

void life_begin(struct sim *sim, const char *dir)
{
    struct store *store;
    chain_init(&sim->chain);
    chain_init(&sim->picture);
    sim->parser = json_parser_new(EVENT_SIZE_MAX);
    if (sim->fleet->world == SIM_MEMORY) {
        must(memory_open(&store) == ERR_OK);
    } else if (sim->fleet->world == SIM_POSTGRES) {
        nodes_begin(sim);
        store = nodes_open(sim);
    } else {
        sim->disk = disk_new(dir);
        disk_watch(sim->disk, while_syncing, sim);
        store = open_embedded(sim, true);
    }
    start(sim, store);
}

void life_go_on(struct sim *sim)
{
    start(sim, sim->reopened);
    if (dice_chance(sim->dice, 30)) traffic_ask_keys(sim);
}

void life_die(struct sim *sim)
{
    if (sim->probe.dead) return;
    sim->crashes++;
    sim->probe.dead = true;
    sim_say(sim, "crash");
    if (sim->fleet->world == SIM_MEMORY) {
        memory_crash(sim->probe.real);
    } else if (sim->fleet->world == SIM_POSTGRES) {
        nodes_crash(sim);
    } else {
        disk_disarm(sim->disk);
        embedded_crash(sim->probe.real);
    }
}

void life_bury(struct sim *sim)
{
    free_parts(sim);
    sim->commit = NULL;
}

void life_reopen(struct sim *sim)
{
    sim->reopened = sim->probe.real;
    if (sim->fleet->world == SIM_MEMORY) return;
    if (sim->fleet->world == SIM_POSTGRES) {
        if (sim->probe.real) nodes_close(sim);
        sim->probe.real = NULL;
        sim->reopened = nodes_open(sim);
        return;
    }
    sim->probe.real = NULL;
    crash_disk(sim);
    sim->reopened = open_embedded(sim, false);
}

/* What then is taken for a crash has nothing to lose. */
void life_stop(struct sim *sim)
{
    life_bury(sim);
    if (sim->fleet->world == SIM_POSTGRES) {
        nodes_close(sim);
        sim->probe.real = NULL;
        return;
    }
    if (dice_chance(sim->dice, 30) && !sim->pictured) life_arm_picture(sim, 40, false);
    store_close(sim->probe.real);
    sim->probe.real = NULL;
    disk_disarm(sim->disk);
}

void life_end(struct sim *sim)
{
    life_drain(sim);
    sim->events = sim->chain.shown.events_count;
    free_parts(sim);
    if (sim->fleet->world == SIM_POSTGRES) {
        nodes_close(sim);
        nodes_end(sim);
    } else {
        store_close(sim->probe.real);
    }
    disk_free(sim->disk);
    json_parser_free(sim->parser);
    chain_release(&sim->chain);
    chain_release(&sim->picture);
    model_limits_release(&sim->plan.limits);
}

bool life_writable(struct sim *sim)
{
    struct store_stats stats;
    store_stats(sim->probe.real, &stats);
    return stats.writable;
}

void life_drain(struct sim *sim)
{
    for (unsigned i = 0; i < DRAIN_ROUNDS_MAX; i++) {
        bool any = step_turn(sim);
        any |= step_sync(sim);
        if (!any && traffic_idle(sim)) return;
        if (!any) sim_fail(sim, "bundles wait and nothing moves");
    }
    sim_fail(sim, "draining does not end");
}

void life_heal(struct sim *sim)
{
    sim->probe.fail_loads = 0;
    if (sim->fleet->world != SIM_EMBEDDED) {
        if (sim->sync_breaks) life_drain(sim);
        return;
    }
    disk_heal(sim->disk);
    for (unsigned i = 0; i < 10 && (!life_writable(sim) || sim->state_faulty); i++)
        step_tend(sim);
    if (!life_writable(sim)) sim_fail(sim, "the store does not recover from a fault");
    life_drain(sim);
    sim->journal_faulty = false;
}
