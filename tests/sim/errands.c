/* errands.c -- bundles that are no client's: each waits for its answer, and meanwhile the world
 * goes on, for the waiting is done by a thread of its own. It may end there, too. */
#include "sim.h"

#define MEANWHILE_MAX 12
#define WAIT_ROUNDS_MAX 1000

static void errand_done(struct bundle *bundle);

struct errand *errand_of(const struct bundle *bundle)
{
    return bundle->done == errand_done ? bundle->owner : NULL;
}

static uint32_t *line_of(struct sim *sim, const struct errand *errand)
{
    return errand->bundle->urgency == URGENCY_URGENT ? &sim->urgent_ops : &sim->queue_ops;
}

void errand_push(struct sim *sim, struct errand *errand, struct bundle *bundle,
                 enum errand_kind kind)
{
    *errand = (struct errand){.sim = sim,
                              .bundle = bundle,
                              .kind = kind,
                              .count = bundle->count,
                              .seen = sim->chain.shown.rebuilds_count,
                              .next = sim->errands};
    bundle->done = errand_done;
    bundle->owner = errand;
    bundle->unbounded = true;
    sim->errands = errand;
    *line_of(sim, errand) += errand->count;
    if (queue_push(sim->queue, bundle) != ERR_OK)
        sim_fail(sim, "an errand was refused by the queue");
}

/* A store that cannot be read stops a bundle that reads on its way. */
static void check_answer(struct sim *sim, const struct errand *errand)
{
    bool faulty = sim->journal_faulty || sim->state_faulty;
    enum err e = errand->bundle->err;
    if (sim->probe.dead || (errand->failed && e == ERR_STORAGE)) return;
    if (errand->failed || (e == ERR_STORAGE && !faulty))
        sim_fail(sim, "errand %d was answered %s", errand->kind, err_code(e));
}

static void errand_done(struct bundle *bundle)
{
    struct errand *errand = bundle->owner;
    struct sim *sim = errand->sim;
    struct errand **place = &sim->errands;
    while (*place && *place != errand)
        place = &(*place)->next;
    if (!*place) sim_fail(sim, "an errand was answered twice");
    *place = errand->next;
    *line_of(sim, errand) -= errand->count;
    errand->done = true;
    check_answer(sim, errand);
    if (errand->kind == ERRAND_RELOAD) reload_answered(sim);
}

void errands_taken(struct sim *sim)
{
    for (struct errand *errand = sim->errands; errand; errand = errand->next)
        errand->taken = errand->bundle->taken;
}

uint32_t errands_waiting(const struct sim *sim)
{
    uint32_t ops = 0;
    for (const struct errand *errand = sim->errands; errand; errand = errand->next)
        if (errand->bundle->urgency == URGENCY_URGENT && errand->taken < errand->count)
            ops += errand->count - errand->taken;
    return ops;
}

void errands_refused(struct sim *sim)
{
    for (struct errand *errand = sim->errands; errand; errand = errand->next)
        if (errand->bundle->taken != errand->taken) errand->failed = true;
    errands_taken(sim);
}

bool errands_change_rules(const struct sim *sim)
{
    for (const struct errand *errand = sim->errands; errand; errand = errand->next)
        if (errand->taken && errand->bundle->rules) return true;
    return false;
}

static void wait_for(struct sim *sim, const struct errand *errand)
{
    unsigned most = sim->calm ? 0 : dice_below(sim->dice, MEANWHILE_MAX);
    for (unsigned i = 0; i < most && !errand->done && !sim->probe.dead; i++)
        step_meanwhile(sim);
    for (unsigned i = 0; i < WAIT_ROUNDS_MAX && !errand->done; i++)
        if (!step_turn(sim) && !step_sync(sim) && !errand->done) /* a turn may sync what was left */
            sim_fail(sim, "an errand waits for ever");
    if (!errand->done) sim_fail(sim, "an errand is never answered");
}

enum err errand_propose(void *context, struct bundle *bundle)
{
    struct sim *sim = context;
    struct errand errand;
    errand_push(sim, &errand, bundle, sim->errand_kind);
    sim_say(sim, "errand %d, %u op(s), the first of kind %d", errand.kind, bundle->count,
            bundle->ops[0].kind);
    sim->errands_depth++;
    wait_for(sim, &errand);
    sim->errands_depth--;
    sim->errand_kind = errand.kind; /* another one may have come in between */
    sim->failed_errand = errand.failed;
    return bundle->err;
}
