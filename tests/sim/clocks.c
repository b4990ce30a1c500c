/* clocks.c -- clocks that are wrong, and what must hold all the same.
 *
 * There is a true time, which passes and which nobody sees. The wall clock is wrong by some error
 * that jumps forth and back; the machine sleeps; lives begin with a wrong clock. In an honest seed
 * nobody believes a wrong clock for good: operators and the kernel vouch for it only while it is
 * right, and one that is wrong at a start is put right before it has settled. Then
 *
 * (1) what is sure is never ahead of the true time by more than the tolerance, so nothing that
 *     cannot be undone happens early;
 * (2) no key is forgotten before its time, by the same measure. But while time was behind, it was
 *     dated earlier than it was used, and is as much earlier forgotten once a right clock is
 *     believed again: no more is known of its age then.
 *
 * In a dishonest one they do, and only the rest holds: the model agrees with every decision, by
 * ages that it works out for itself, and time runs back in a setting back alone. */
#include "sim.h"

#define MINUTE_MS (60 * INT64_C(1000))
#define HOUR_MS (60 * MINUTE_MS)

static int64_t wall(void *context)
{
    return ((struct sim *)context)->wall_ms;
}

static int64_t mono(void *context)
{
    return ((struct sim *)context)->mono_ns;
}

static int64_t boot(void *context)
{
    struct sim *sim = context;
    return sim->mono_ns / 1000000 + sim->clocks.asleep_ms;
}

static bool is_right(const struct sim *sim)
{
    int64_t error_ms = sim->wall_ms - sim->clocks.true_ms;
    return error_ms <= sim->clocks.settings.tolerance_ms / 2 &&
           error_ms >= -sim->clocks.settings.tolerance_ms / 2;
}

static bool synchronised(void *context)
{
    struct sim *sim = context;
    return sim->clocks.vouched_for && (is_right(sim) || !sim->clocks.honest);
}

void clocks_plan(struct sim *sim)
{
    static const int64_t settle_ms[] = {0, 5000, 10 * MINUTE_MS, 10 * MINUTE_MS};
    sim->clocks = (struct clocks){.honest = dice_chance(&sim->dice, 70),
                                  .settings = {.tolerance_ms = 5 * MINUTE_MS},
                                  .true_ms = sim->wall_ms};
    sim->clocks.settings.settle_ms = DICE_PICK(&sim->dice, settle_ms);
    if (sim->clocks.honest) sim->clocks.settings.settle_ms = 10 * MINUTE_MS;
    sim->clocks.base = (struct clock){.wall_ms = wall,
                                      .mono_ns = mono,
                                      .boot_ms = boot,
                                      .synchronised = synchronised,
                                      .context = sim};
}

/* ---- lives ---- */

void clocks_begin(struct sim *sim)
{
    struct clocks *clocks = &sim->clocks;
    enum err e =
        timekeeper_new(&clocks->keeper, &clocks->base, &clocks->settings, &sim->probe.store);
    if (e != ERR_OK) sim_fail(sim, "the clock's record cannot be read: %s", err_code(e));
    clocks->suspect = clocks->settling = false;
    clocks->settles_from_ms = boot(sim);
    sim->clock = *timekeeper_clock(clocks->keeper);
}

void clocks_end(struct sim *sim)
{
    timekeeper_free(sim->clocks.keeper);
    sim->clocks.keeper = NULL;
}

/* Nothing comes in between: a life that ends while somebody waits here is left to other errands. */
static void note(struct sim *sim, bool operator_says)
{
    struct timekeeper_note note;
    bool calm = sim->calm;
    sim->calm = true;
    timekeeper_note(sim->clocks.keeper, &note, operator_says);
    sim->errand_kind = ERRAND_CLOCK;
    errand_propose(sim, &note.bundle);
    timekeeper_noted(&note);
    sim->calm = calm;
}

/* As the daemon does before anything else, and does not start without. */
void clocks_note(struct sim *sim)
{
    while (timekeeper_wants_note(sim->clocks.keeper)) {
        note(sim, false);
        if (sim->failed_errand) life_heal(sim);
    }
}

/* ---- the outside world ---- */

/* Nobody else sees each step, so whether time follows the wall clock changes only here. */
static void look(struct sim *sim)
{
    struct clocks *clocks = &sim->clocks;
    struct timekeeper_state state;
    if (!clocks->keeper) return;
    timekeeper_state(clocks->keeper, &state);
    if (clocks->suspect && !state.suspect) clocks->settles_from_ms = boot(sim);
    clocks->suspect = state.suspect;
    clocks->settling = state.settling;
}

static void step_wall_to(struct sim *sim, int64_t wall_ms)
{
    look(sim);
    sim->wall_ms = wall_ms;
    look(sim);
}

static void put_right(struct sim *sim)
{
    int64_t most_ms = sim->clocks.settings.tolerance_ms / 2;
    step_wall_to(sim, sim->clocks.true_ms + dice_between(&sim->dice, -most_ms, most_ms));
}

/* What is wrong is so by more than may be followed from what is right. */
static void step_wall(struct sim *sim, int64_t most_ms)
{
    int64_t wall_ms = sim->wall_ms + dice_between(&sim->dice, -most_ms, most_ms);
    int64_t error_ms = wall_ms - sim->clocks.true_ms;
    int64_t least_ms = 2 * sim->clocks.settings.tolerance_ms;
    if (sim->clocks.honest && error_ms < least_ms && error_ms > -least_ms)
        put_right(sim);
    else
        step_wall_to(sim, wall_ms);
}

/* In an honest seed nobody waits until a wrong clock has settled: it is put right before. */
static void before_waiting(struct sim *sim, int64_t by_ms)
{
    const struct clocks *clocks = &sim->clocks;
    look(sim);
    if (!clocks->honest || is_right(sim) || clocks->suspect || !clocks->settling) return;
    if (boot(sim) + by_ms >= clocks->settles_from_ms + clocks->settings.settle_ms) put_right(sim);
}

void clocks_wait(struct sim *sim, int64_t by_ms)
{
    before_waiting(sim, by_ms);
    sim->mono_ns += by_ms * 1000000;
    sim->clocks.true_ms += by_ms;
    sim->wall_ms += by_ms;
    look(sim);
}

static void sleep_through(struct sim *sim, int64_t by_ms)
{
    before_waiting(sim, by_ms);
    sim->clocks.asleep_ms += by_ms;
    sim->clocks.true_ms += by_ms;
    sim->wall_ms += by_ms;
    look(sim);
}

/* While the process is not there, it or the whole machine. */
void clocks_between(struct sim *sim)
{
    struct dice *dice = &sim->dice;
    if (dice_chance(dice, 50)) {
        int64_t by_ms = dice_between(dice, 0, 3 * HOUR_MS);
        sim->clocks.true_ms += by_ms;
        sim->wall_ms += by_ms;
    }
    if (dice_chance(dice, 10)) step_wall(sim, 40 * HOUR_MS);
}

/* Not to before what retention let go of while it went by a wrong clock: what arrives then would
 * count as gone. */
static bool may_reset(const struct sim *sim)
{
    return sim->wall_ms >= chain_head(&sim->chain)->retained_ms;
}

void clocks_step(struct sim *sim)
{
    struct dice *dice = &sim->dice;
    struct clocks *clocks = &sim->clocks;
    if (dice_chance(dice, 10)) step_wall(sim, HOUR_MS);
    if (dice_chance(dice, 5)) step_wall(sim, 40 * HOUR_MS);
    if (dice_chance(dice, 20)) put_right(sim);
    clocks->vouched_for = dice_chance(dice, 40);
    if (dice_chance(dice, 5)) sleep_through(sim, dice_between(dice, 0, 12 * HOUR_MS));
    if (clocks->honest && !is_right(sim)) return;
    if (dice_chance(dice, 10)) timekeeper_accept(clocks->keeper);
    if (dice_chance(dice, 5) && sim->errands_depth == 0 && may_reset(sim)) note(sim, true);
    look(sim);
}

/* Whatever is ahead of the clock, by whatever mistakes, comes to be behind it. */
void clocks_calm(struct sim *sim)
{
    put_right(sim);
    if (may_reset(sim)) note(sim, true);
    timekeeper_accept(sim->clocks.keeper);
    int64_t lead_ms = clock_now_ms(&sim->clock) - sim->wall_ms;
    sleep_through(sim, sim->clocks.back_ms + (lead_ms > 0 ? lead_ms : 0));
    timekeeper_accept(sim->clocks.keeper);
}

/* ---- what must hold ---- */

void clocks_decided(struct sim *sim, const struct model *model, const struct apply *apply)
{
    struct clocks *clocks = &sim->clocks;
    const struct moment *moment = &apply->moment;
    sim->plan.limits.moment = *moment;
    sim->plan.limits.true_ms = clocks->true_ms;
    sim->plan.limits.early_ms = clocks->honest ? clocks->settings.tolerance_ms : INT64_MAX;
    if (moment->now_ms > sim->wall_most_ms) sim->wall_most_ms = moment->now_ms;
    if (apply->writes.time_ms != moment->now_ms)
        sim_fail(sim, "a batch is not dated by its own time");
    if (moment->now_ms < model->time_ms && !apply->writes.set_back)
        sim_fail(sim, "time runs back from %lld to %lld", (long long)model->time_ms,
                 (long long)moment->now_ms);
    if (apply->writes.set_back) clocks->back_ms += moment->back_ms;
    if (clocks->honest && moment_sure(moment) > clocks->true_ms + clocks->settings.tolerance_ms)
        sim_fail(sim, "%lld is sure at %lld", (long long)moment_sure(moment),
                 (long long)clocks->true_ms);
}
