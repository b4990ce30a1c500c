/* reload.c -- other rules, brought into force as a reload does it: planned from what the store
 * shows, sent through the queue, in force between two batches or not at all. */
#include "sim.h"

#include "support/rules_text.h"

static void let_go(struct sim *sim)
{
    enact_release(&sim->reload.enactment);
    rules_release(sim->reload.rules);
    sim->reload.busy = false;
    pthread_mutex_unlock(&sim->enacting);
}

const struct ruleset *reload_rules(const struct sim *sim, int number)
{
    return number == SIM_NO_RULES ? NULL : &sim->plan.rulesets[number];
}

void reload_answered(struct sim *sim)
{
    enum err e = sim->reload.enactment.bundle.err;
    if (!sim->probe.dead && !sim->reload.errand.failed && e != ERR_OK)
        sim_fail(sim, "new rules were answered %s", err_code(e));
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
    enum err e =
        enact_plan(&reload->enactment, &sim->probe.store, reload->rules, buf_bytes(&text), &why);
    if (e != ERR_OK && !(e == ERR_STORAGE && sim->state_faulty))
        sim_fail(sim, "rules were refused: %.*s", (int)why.size, why.data);
    buf_release(&text);
    buf_release(&why);
    return e == ERR_OK;
}

void reload_push(struct sim *sim)
{
    struct reload *reload = &sim->reload;
    if (!sim->plan.events || pthread_mutex_trylock(&sim->enacting) != 0) return;
    *reload = (struct reload){.busy = true,
                              .ruleset = (int)dice_below(sim->dice, sim->plan.rulesets_count)};
    bool planned = plan_reload(sim);
    sim_say(sim, "reload rules %d%s", reload->ruleset, planned ? "" : ", in vain");
    if (planned)
        errand_push(sim, &reload->errand, &reload->enactment.bundle, ERRAND_RELOAD);
    else
        let_go(sim);
}

void reload_decided(struct sim *sim, struct model *model, int64_t time_ms)
{
    model_enact(model, &sim->plan.rulesets[sim->reload.ruleset], time_ms);
    sim->rules_next = sim->reload.ruleset;
}

void reload_reported(struct sim *sim, const struct bundle *bundle, enum err e)
{
    if (e != ERR_OK) {
        sim->rules_next = sim->rules_current;
        return;
    }
    sim->rules_current = sim->rules_next;
    sim->reloads += bundle == &sim->reload.enactment.bundle;
}
