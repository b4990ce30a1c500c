/* reload.c -- one change of rules at a time, through the queues like everything else. */
#include "serve/reload.h"

#include <stdlib.h>

#include "base/log.h"
#include "rules/enact.h"

#define TEXT_MAX (16u << 20)

struct reloader {
    struct reload_config config;
};

struct reloader *reloader_new(const struct reload_config *config)
{
    struct reloader *reloader = must_calloc(1, sizeof *reloader);
    reloader->config = *config;
    return reloader;
}

void reloader_free(struct reloader *reloader)
{
    free(reloader);
}

/* Without a batch only rules that are stored can come into force. */
static enum err adopt_stored(const struct lane *lane, const struct enactment *enactment,
                             struct buf *why_out)
{
    if (!enact_is_stored(enactment)) {
        buf_add(why_out, BYTES("The store cannot be written now, and the rules of the config are "
                               "not those that it holds. Make room, or start with the old ones."));
        return ERR_STORAGE;
    }
    rulebook_adopt(lane->rulebook, enactment->rules);
    return ERR_OK;
}

/* A change of rules in all lanes. */
struct rules_change {
    const struct lanes *lanes;
    struct enactment *enactments; /* one for each lane, */
    unsigned planned;             /* how many of them were planned */
    bool starting;
    struct buf *why_out;
};

/* With one lane the config's own rules are filled in, with several a copy for each. */
static enum err plan_lane(struct rules_change *change, struct rules *rules, struct bytes text)
{
    const struct lane *lane = &change->lanes->items[change->planned];
    struct enactment *enactment = &change->enactments[change->planned++];
    struct rules *own = change->lanes->count > 1 ? rules_for_lane(rules) : rules_hold(rules);
    return enact_plan(enactment, lane->store, own, text, change->why_out);
}

static enum err enact_lane(const struct rules_change *change, unsigned index)
{
    const struct lane *lane = &change->lanes->items[index];
    struct enactment *enactment = &change->enactments[index];
    enum err e = propose_and_wait(lane->queue, &enactment->bundle);
    if (e == ERR_STORAGE && change->starting) return adopt_stored(lane, enactment, change->why_out);
    if (e != ERR_OK) buf_add(change->why_out, bytes_str(err_sentence(e)));
    return e;
}

/* Every lane's plan is made before the first is carried out: what the stored counters do not allow
 * is refused while nothing has changed yet. */
static enum err enact_locked(struct rules_change *change, struct rules *rules, struct bytes text)
{
    enum err e = ERR_OK;
    while (change->planned < change->lanes->count && e == ERR_OK)
        e = plan_lane(change, rules, text);
    for (unsigned i = 0; i < change->lanes->count && e == ERR_OK; i++)
        e = enact_lane(change, i);
    for (unsigned i = 0; i < change->planned; i++) {
        rules_release(change->enactments[i].rules);
        enact_release(&change->enactments[i]);
    }
    return e;
}

static enum err reload_enact(struct reloader *reloader, const struct config *config, bool starting,
                             struct buf *why_out)
{
    const struct lanes *lanes = reloader->config.lanes;
    struct rules_change change = {.lanes = lanes, .starting = starting, .why_out = why_out};
    struct buf text;
    buf_init(&text, TEXT_MAX);
    config_write_rules(config, &text);
    change.enactments = must_calloc(lanes->count, sizeof *change.enactments);
    for (unsigned i = 0; i < lanes->count; i++)
        pthread_mutex_lock(lanes->items[i].caretaker.enacting);
    enum err e = enact_locked(&change, config->rules, buf_bytes(&text));
    for (unsigned i = lanes->count; i-- > 0;)
        pthread_mutex_unlock(lanes->items[i].caretaker.enacting);
    free(change.enactments);
    buf_release(&text);
    return e;
}

enum err reload_start(struct reloader *reloader, const struct config *config, struct buf *why_out)
{
    return reload_enact(reloader, config, true, why_out);
}

/* The keys are judged first: they can only be refused while nothing has changed yet. */
static enum err reload_config(struct reloader *reloader, const struct config *config,
                              struct buf *why_out)
{
    struct auth_change *keys;
    char error[256] = "";
    if (!config_has_auth(config)) {
        buf_add(why_out, BYTES("there would be nothing left to check tokens against"));
        return ERR_INVALID;
    }
    if (auth_prepare(&keys, config, error, sizeof error) != ERR_OK) {
        buf_add(why_out, bytes_str(error));
        return ERR_INVALID;
    }
    enum err e = reload_enact(reloader, config, false, why_out);
    if (e == ERR_OK)
        auth_enact(reloader->config.auth, keys);
    else
        auth_change_free(keys);
    return e;
}

enum err reload_now(void *context, struct buf *why_out)
{
    struct reloader *reloader = context;
    struct config config = {0};
    struct config_report report;
    config_report_init(&report);
    enum err e = config_load(&config, reloader->config.source, &report);
    if (e == ERR_OK)
        e = reload_config(reloader, &config, why_out);
    else
        buf_add(why_out, buf_bytes(&report.text));
    config_report_release(&report);
    config_release(&config);
    return e;
}

enum err reload_logged(void *context, struct buf *why_out)
{
    enum err e = reload_now(context, why_out);
    if (e == ERR_OK)
        log_line(LOG_INFO, "reloaded the config's keys and rules");
    else
        log_line(LOG_ERROR, "the config was not reloaded", LOG_KV("why", buf_bytes(why_out)));
    return e;
}

void reload_on_signal(struct reloader *reloader)
{
    struct buf why;
    buf_init(&why, TEXT_MAX);
    (void)!reload_logged(reloader, &why); /* the log has the reason */
    buf_release(&why);
}
