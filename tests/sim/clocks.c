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
    return ((struct fleet *)context)->wall_ms;
}

static int64_t mono(void *context)
{
    return ((struct fleet *)context)->mono_ns;
}

static int64_t boot(void *context)
{
    struct fleet *fleet = context;
    return fleet->mono_ns / 1000000 + fleet->asleep_ms;
}

static bool is_right(const struct fleet *fleet)
{
    int64_t error_ms = fleet->wall_ms - fleet->true_ms;
    return error_ms <= fleet->settings.tolerance_ms / 2 &&
           error_ms >= -fleet->settings.tolerance_ms / 2;
}

static bool synchronised(void *context)
{
    struct fleet *fleet = context;
    return fleet->vouched_for && (is_right(fleet) || !fleet->honest);
}

void clocks_plan(struct fleet *fleet)
{
    static const int64_t settle_ms[] = {0, 5000, 10 * MINUTE_MS, 10 * MINUTE_MS};
    fleet->honest = dice_chance(&fleet->dice, 70);
    fleet->settings.tolerance_ms = 5 * MINUTE_MS;
    fleet->true_ms = fleet->wall_ms;
    fleet->settings.settle_ms = DICE_PICK(&fleet->dice, settle_ms);
    if (fleet->honest) fleet->settings.settle_ms = 10 * MINUTE_MS;
    fleet->base = (struct clock){.wall_ms = wall,
                                 .mono_ns = mono,
                                 .boot_ms = boot,
                                 .synchronised = synchronised,
                                 .context = fleet};
}

/* ---- lives ---- */

void clocks_begin(struct sim *sim)
{
    struct clocks *clocks = &sim->clocks;
    struct fleet *fleet = sim->fleet;
    enum err e = timekeeper_new(&clocks->keeper, &fleet->base, &fleet->settings, &sim->probe.store);
    if (e != ERR_OK) sim_fail(sim, "the clock's record cannot be read: %s", err_code(e));
    clocks->suspect = clocks->settling = false;
    clocks->settles_from_ms = boot(fleet);
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
    while (!timekeeper_note(sim->clocks.keeper, &note,
                            operator_says)) /* a caretaker's is on its way */
        if (!step_turn(sim) && !step_sync(sim)) sim_fail(sim, "a note is never answered");
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
static void look_in(struct sim *sim)
{
    struct clocks *clocks = &sim->clocks;
    struct timekeeper_state state;
    if (!clocks->keeper) return;
    timekeeper_state(clocks->keeper, &state);
    if (clocks->suspect && !state.suspect) clocks->settles_from_ms = boot(sim->fleet);
    clocks->suspect = state.suspect;
    clocks->settling = state.settling;
}

static void look(struct fleet *fleet)
{
    for (unsigned i = 0; i < fleet->count; i++)
        look_in(fleet->lanes[i]);
}

static void step_wall_to(struct fleet *fleet, int64_t wall_ms)
{
    look(fleet);
    fleet->wall_ms = wall_ms;
    look(fleet);
}

static void put_right(struct fleet *fleet)
{
    int64_t most_ms = fleet->settings.tolerance_ms / 2;
    step_wall_to(fleet, fleet->true_ms + dice_between(&fleet->dice, -most_ms, most_ms));
}

/* What is wrong is so by more than may be followed from what is right. */
static void step_wall(struct fleet *fleet, int64_t most_ms)
{
    int64_t wall_ms = fleet->wall_ms + dice_between(&fleet->dice, -most_ms, most_ms);
    int64_t error_ms = wall_ms - fleet->true_ms;
    int64_t least_ms = 2 * fleet->settings.tolerance_ms;
    if (fleet->honest && error_ms < least_ms && error_ms > -least_ms)
        put_right(fleet);
    else
        step_wall_to(fleet, wall_ms);
}

/* In an honest seed nobody waits until a wrong clock has settled, in any lane: it is put right
 * before. */
static void before_waiting(struct fleet *fleet, int64_t by_ms)
{
    look(fleet);
    if (!fleet->honest) return;
    for (unsigned i = 0; i < fleet->count && !is_right(fleet); i++) {
        const struct clocks *clocks = &fleet->lanes[i]->clocks;
        if (clocks->suspect || !clocks->settling) continue;
        if (boot(fleet) + by_ms >= clocks->settles_from_ms + fleet->settings.settle_ms)
            put_right(fleet);
    }
}

void clocks_wait(struct fleet *fleet, int64_t by_ms)
{
    before_waiting(fleet, by_ms);
    fleet->mono_ns += by_ms * 1000000;
    fleet->true_ms += by_ms;
    fleet->wall_ms += by_ms;
    look(fleet);
}

static void sleep_through(struct fleet *fleet, int64_t by_ms)
{
    before_waiting(fleet, by_ms);
    fleet->asleep_ms += by_ms;
    fleet->true_ms += by_ms;
    fleet->wall_ms += by_ms;
    look(fleet);
}

/* While the process is not there, it or the whole machine. */
void clocks_between(struct fleet *fleet)
{
    struct dice *dice = &fleet->dice;
    if (dice_chance(dice, 50)) {
        int64_t by_ms = dice_between(dice, 0, 3 * HOUR_MS);
        fleet->true_ms += by_ms;
        fleet->wall_ms += by_ms;
    }
    if (dice_chance(dice, 10)) step_wall(fleet, 40 * HOUR_MS);
}

/* An operator's word goes to all lanes, as it does over HTTP. */
static void accept_clock(struct fleet *fleet)
{
    for (unsigned i = 0; i < fleet->count; i++)
        timekeeper_accept(fleet->lanes[i]->clocks.keeper);
}

static void reset_clock(struct fleet *fleet)
{
    for (unsigned i = 0; i < fleet->count; i++)
        note(fleet->lanes[i], true);
}

static bool nobody_waits(const struct fleet *fleet)
{
    for (unsigned i = 0; i < fleet->count; i++)
        if (fleet->lanes[i]->errands_depth > 0) return false;
    return true;
}

void clocks_step(struct fleet *fleet)
{
    struct dice *dice = &fleet->dice;
    if (dice_chance(dice, 10)) step_wall(fleet, HOUR_MS);
    if (dice_chance(dice, 5)) step_wall(fleet, 40 * HOUR_MS);
    if (dice_chance(dice, 20)) put_right(fleet);
    fleet->vouched_for = dice_chance(dice, 40);
    if (dice_chance(dice, 5)) sleep_through(fleet, dice_between(dice, 0, 12 * HOUR_MS));
    if (fleet->honest && !is_right(fleet)) return;
    if (dice_chance(dice, 10)) accept_clock(fleet);
    if (dice_chance(dice, 5) && nobody_waits(fleet)) reset_clock(fleet);
    look(fleet);
}

/* How far time may be ahead of the clock anywhere, by whatever mistakes. */
static int64_t most_ahead_ms(const struct fleet *fleet)
{
    int64_t most_ms = 0;
    for (unsigned i = 0; i < fleet->count; i++) {
        const struct sim *sim = fleet->lanes[i];
        int64_t lead_ms = clock_now_ms(&sim->clock) - fleet->wall_ms;
        int64_t ahead_ms = sim->clocks.back_ms + (lead_ms > 0 ? lead_ms : 0);
        if (ahead_ms > most_ms) most_ms = ahead_ms;
    }
    return most_ms;
}

/* Whatever is ahead of the clock comes to be behind it. */
void clocks_calm(struct fleet *fleet)
{
    put_right(fleet);
    reset_clock(fleet);
    accept_clock(fleet);
    sleep_through(fleet, most_ahead_ms(fleet));
    accept_clock(fleet);
}

/* ---- what must hold ---- */

void clocks_decided(struct sim *sim, const struct model *model, const struct apply *apply)
{
    const struct fleet *fleet = sim->fleet;
    struct clocks *clocks = &sim->clocks;
    const struct moment *moment = &apply->moment;
    sim->plan.limits.moment = *moment;
    sim->plan.limits.true_ms = fleet->true_ms;
    sim->plan.limits.early_ms = fleet->honest ? fleet->settings.tolerance_ms : INT64_MAX;
    if (moment->now_ms > sim->wall_most_ms) sim->wall_most_ms = moment->now_ms;
    if (apply->writes.time_ms != moment->now_ms)
        sim_fail(sim, "a batch is not dated by its own time");
    if (moment->now_ms < model->time_ms && !apply->writes.set_back)
        sim_fail(sim, "time runs back from %lld to %lld", (long long)model->time_ms,
                 (long long)moment->now_ms);
    if (apply->writes.set_back) clocks->back_ms += moment->back_ms;
    if (fleet->honest && moment_sure(moment) > fleet->true_ms + fleet->settings.tolerance_ms)
        sim_fail(sim, "%lld is sure at %lld", (long long)moment_sure(moment),
                 (long long)fleet->true_ms);
}
