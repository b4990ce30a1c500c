/* reload.c -- other rules, brought into force as a reload does it: planned from what the store
 * shows, sent through the queue, in force between two batches or not at all. */
#include "sim.h"

#include "support/rules_text.h"

static void let_go(struct sim *sim)
{
    enact_release(&sim->reload.enactment);
    rules_release(sim->reload.rules);
    sim->reload.busy = false;
}

static void reload_done(struct job *job)
{
    struct sim *sim = job->owner;
    sim->sync_ops -= sim->reload.count;
    if (!sim->probe.dead && job->err != (sim->reload.failed ? ERR_STORAGE : ERR_OK))
        sim_fail(sim, "new rules were answered %s", err_code(job->err));
    let_go(sim);
}

/* False: the store could not be read. */
static bool plan_reload(struct sim *sim)
{
    struct reload *reload = &sim->reload;
    struct buf text, why;
    buf_init(&text, 1u << 20);
    buf_init(&why, 1000);
    ruleset_write(&sim->plan.rulesets[reload->ruleset], &text);
    buf_add_char(&text, 0);
    reload->rules = rules_of_text(text.data, 0);
    enum err e = enact_plan(&reload->enactment, &sim->probe.store, sim->wall_ms, reload->rules,
                            buf_bytes(&text), &why);
    if (e != ERR_OK && !(e == ERR_STORAGE && sim->state_faulty))
        sim_fail(sim, "rules were refused: %.*s", (int)why.size, why.data);
    buf_release(&text);
    buf_release(&why);
    return e == ERR_OK;
}

void reload_push(struct sim *sim)
{
    struct reload *reload = &sim->reload;
    if (!sim->plan.events || reload->busy) return;
    *reload = (struct reload){.ruleset = (int)dice_below(&sim->dice, sim->plan.rulesets_count)};
    bool planned = plan_reload(sim);
    reload->busy = true;
    struct job *job = &reload->enactment.job;
    reload->count = planned ? job->count : 0;
    bool room = !sim->sync_ops || sim->sync_ops + reload->count <= sim->plan.queue.sync_ops_max;
    sim_say(sim, "reload rules %d%s", reload->ruleset, planned && room ? "" : ", in vain");
    if (planned) {
        job->done = reload_done;
        job->owner = sim;
        enum err e = queue_push(sim->queue, job);
        if (e != (room ? ERR_OK : ERR_BUSY))
            sim_fail(sim, "new rules were answered %s", err_code(e));
        if (room) sim->sync_ops += reload->count;
    }
    if (!planned || !room) let_go(sim);
}

void reload_taken(struct sim *sim)
{
    sim->reload.taken = sim->reload.enactment.job.taken;
}

/* How many objects it changes is for the unit tests to know. */
void reload_decided(struct sim *sim, struct model *model, const struct apply *apply)
{
    if (apply->slices[0].job != &sim->reload.enactment.job || apply->slices[0].job->err != ERR_OK)
        sim_fail(sim, "new rules were refused");
    model->sequence += apply->writes.count;
    if (apply->writes.count) model->time_ms = apply->writes.time_ms;
    sim->rules_next = sim->reload.ruleset;
}

void reload_reported(struct sim *sim, enum err e)
{
    if (e == ERR_OK) {
        sim->rules_current = sim->rules_next;
        sim->reloads++;
    } else {
        sim->rules_next = sim->rules_current;
    }
}
