/* reload.c -- one change of rules at a time, through the queues like everything else.
 *
 * (1) Every lane's plan is made before the first is carried out: what the stored counters of one
 *     lane do not allow is refused while nothing has changed yet.
 * (2) Then every lane is asked, whatever became of the others. If none could be written, nothing
 *     has changed. If some could, the change is made: the others are owed it, and get it as soon as
 *     they can be written. Until then they go by the rules they had.
 * (3) A later change takes the place of one that is still owed. */
#include "serve/reload.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "rules/enact.h"

#define TEXT_MAX (16u << 20)
#define LATER_SECONDS 1
#define START_TRIES 10u

/* What some lanes did not take yet. */
struct owed_rules {
    struct rules *rules; /* the config's, held; NULL: no lane is owed any */
    struct buf text;     /* the config's text of the rules */
    bool *lanes;         /* for each lane, whether it is owed them */
};

struct reloader {
    struct reload_config config;
    pthread_mutex_t changing; /* held while rules change, and for what follows */
    pthread_cond_t changed;
    struct owed_rules owed;
    bool stopped;
};

struct reloader *reloader_new(const struct reload_config *config)
{
    struct reloader *reloader = must_calloc(1, sizeof *reloader);
    reloader->config = *config;
    reloader->owed.lanes = must_calloc(config->lanes->count, sizeof *reloader->owed.lanes);
    buf_init(&reloader->owed.text, TEXT_MAX);
    pthread_mutex_init(&reloader->changing, NULL);
    pthread_cond_init(&reloader->changed, NULL);
    return reloader;
}

void reloader_free(struct reloader *reloader)
{
    rules_release(reloader->owed.rules);
    buf_release(&reloader->owed.text);
    free(reloader->owed.lanes);
    pthread_cond_destroy(&reloader->changed);
    pthread_mutex_destroy(&reloader->changing);
    free(reloader);
}

/* -- A change of rules in all lanes ------------------------------------------------------------ */

struct lane_rules_change {
    struct enactment enactment;
    enum err err;
};

struct rules_change {
    const struct lanes *lanes;
    struct rules *rules; /* the config's */
    struct bytes text;
    struct lane_rules_change *parts; /* one for each lane, */
    unsigned planned;                /* how many of them were planned */
    unsigned refused;                /* how many lanes could not carry it out */
    bool starting;
    struct buf *why_out;
};

/* Without a batch only rules that are stored can come into force. */
static enum err adopt_stored(const struct rules_change *change, const struct lane *lane,
                             const struct enactment *enactment)
{
    if (!enact_is_stored(enactment)) {
        if (change->lanes->count > 1) buf_addf(change->why_out, "lane %u: ", lane->index);
        buf_add(change->why_out,
                BYTES("The store cannot be written now, and the rules of the config are not those "
                      "that it holds. Make room, or start with the old ones."));
        return ERR_STORAGE;
    }
    rulebook_adopt(lane->rulebook, enactment->rules);
    return ERR_OK;
}

/* With one lane the config's own rules are filled in, with several a copy for each. */
static struct rules *rules_of_lane(const struct lanes *lanes, struct rules *rules)
{
    bool again = lanes->items[0].store->remote; /* a plan that was overtaken is made again */
    return again || lanes->count > 1 ? rules_for_lane(rules) : rules_hold(rules);
}

static enum err plan_lane(struct rules_change *change)
{
    const struct lane *lane = &change->lanes->items[change->planned];
    struct enactment *enactment = &change->parts[change->planned++].enactment;
    struct rules *own = rules_of_lane(change->lanes, change->rules);
    return enact_plan(enactment, lane->store, own, change->text, change->why_out);
}

static void release_plan(struct enactment *enactment)
{
    rules_release(enactment->rules);
    enact_release(enactment);
}

static enum err enact_lane(const struct rules_change *change, unsigned index)
{
    const struct lane *lane = &change->lanes->items[index];
    struct enactment *enactment = &change->parts[index].enactment;
    enum err e = propose_and_wait(lane->queue, &enactment->bundle);
    if (e == ERR_STORAGE && change->starting)
        e = adopt_stored(change, lane, enactment);
    else if (e != ERR_OK && change->refused == 0)
        buf_add(change->why_out, bytes_str(err_sentence(e)));
    return e;
}

/* Returns the first lane's error. */
static enum err enact_lanes(struct rules_change *change)
{
    enum err e = ERR_OK;
    for (unsigned i = 0; i < change->lanes->count; i++) {
        struct lane_rules_change *part = &change->parts[i];
        part->err = enact_lane(change, i);
        if (part->err == ERR_OK) continue;
        if (e == ERR_OK) e = part->err;
        change->refused++;
        if (change->starting) break; /* it will not start */
    }
    return e;
}

static enum err enact_locked(struct rules_change *change)
{
    enum err e = ERR_OK;
    while (change->planned < change->lanes->count && e == ERR_OK)
        e = plan_lane(change);
    if (e == ERR_OK) e = enact_lanes(change);
    for (unsigned i = 0; i < change->planned; i++)
        release_plan(&change->parts[i].enactment);
    return e;
}

static enum err enact_everywhere(struct rules_change *change)
{
    const struct lanes *lanes = change->lanes;
    for (unsigned i = 0; i < lanes->count; i++)
        pthread_mutex_lock(lanes->items[i].caretaker.enacting);
    enum err e = enact_locked(change);
    for (unsigned i = lanes->count; i-- > 0;)
        pthread_mutex_unlock(lanes->items[i].caretaker.enacting);
    return e;
}

/* -- What lanes are owed ----------------------------------------------------------------------- */

static void say_owed(const struct rules_change *change)
{
    const char *before = change->refused == 1 ? " Lane " : " Lanes ";
    buf_reset(change->why_out);
    buf_addf(change->why_out, "The new rules are in force in %u of %u lanes.",
             change->lanes->count - change->refused, change->lanes->count);
    for (unsigned i = 0; i < change->lanes->count; i++) {
        if (change->parts[i].err == ERR_OK) continue;
        buf_addf(change->why_out, "%s%u", before, i);
        before = ", ";
    }
    buf_addf(change->why_out, " cannot be written now and %s them as soon as that is possible.",
             change->refused == 1 ? "gets" : "get");
}

/* The change was made in some lane: what an earlier one owes is over. */
static void owe(struct reloader *reloader, const struct rules_change *change)
{
    struct owed_rules *owed = &reloader->owed;
    rules_release(owed->rules);
    owed->rules = change->refused ? rules_hold(change->rules) : NULL;
    buf_release(&owed->text);
    if (change->refused) buf_add(&owed->text, change->text);
    for (unsigned i = 0; i < change->lanes->count; i++)
        owed->lanes[i] = change->parts[i].err != ERR_OK;
    pthread_cond_signal(&reloader->changed);
}

/* One lane, again. What is refused now, because the stored counters have changed meanwhile, is not
 * asked for a second time. */
static enum err enact_owed(const struct reloader *reloader, unsigned index)
{
    const struct owed_rules *owed = &reloader->owed;
    const struct lane *lane = &reloader->config.lanes->items[index];
    struct enactment enactment;
    struct buf why;
    buf_init(&why, TEXT_MAX);
    pthread_mutex_lock(lane->caretaker.enacting);
    enum err e =
        enact_plan(&enactment, lane->store, rules_of_lane(reloader->config.lanes, owed->rules),
                   buf_bytes(&owed->text), &why);
    if (e == ERR_OK) e = propose_and_wait(lane->queue, &enactment.bundle);
    release_plan(&enactment);
    pthread_mutex_unlock(lane->caretaker.enacting);
    if (e == ERR_OK)
        log_line(LOG_INFO, "a lane has got the reloaded rules", LOG_KV("lane", index));
    else if (e == ERR_INVALID)
        log_line(LOG_ERROR, "a lane does not get the reloaded rules", LOG_KV("lane", index),
                 LOG_KV("why", buf_bytes(&why)));
    buf_release(&why);
    return e;
}

static bool pay(struct reloader *reloader)
{
    struct owed_rules *owed = &reloader->owed;
    bool more = false;
    for (unsigned i = 0; i < reloader->config.lanes->count && owed->rules; i++) {
        if (!owed->lanes[i]) continue;
        enum err e = enact_owed(reloader, i);
        owed->lanes[i] = e != ERR_OK && e != ERR_INVALID;
        more |= owed->lanes[i];
    }
    if (more) return true;
    rules_release(owed->rules);
    owed->rules = NULL;
    return false;
}

bool reload_owed(struct reloader *reloader)
{
    pthread_mutex_lock(&reloader->changing);
    bool more = pay(reloader);
    pthread_mutex_unlock(&reloader->changing);
    return more;
}

void reloader_run(struct reloader *reloader)
{
    struct timespec until;
    pthread_mutex_lock(&reloader->changing);
    while (!reloader->stopped) {
        if (!reloader->owed.rules) {
            pthread_cond_wait(&reloader->changed, &reloader->changing);
            continue;
        }
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += LATER_SECONDS;
        pthread_cond_clockwait(&reloader->changed, &reloader->changing, CLOCK_MONOTONIC, &until);
        if (!reloader->stopped) pay(reloader);
    }
    pthread_mutex_unlock(&reloader->changing);
}

void reloader_stop(struct reloader *reloader)
{
    pthread_mutex_lock(&reloader->changing);
    reloader->stopped = true;
    pthread_cond_signal(&reloader->changed);
    pthread_mutex_unlock(&reloader->changing);
}

/* -- From the config --------------------------------------------------------------------------- */

/* `made_out`: the change was made, though perhaps not everywhere yet. */
static enum err reload_enact(struct reloader *reloader, const struct config *config, bool starting,
                             bool *made_out, struct buf *why_out)
{
    struct buf text;
    buf_init(&text, TEXT_MAX);
    config_write_rules(config, &text);
    struct rules_change change = {.lanes = reloader->config.lanes,
                                  .rules = config->rules,
                                  .text = buf_bytes(&text),
                                  .starting = starting,
                                  .why_out = why_out};
    change.parts = must_calloc(change.lanes->count, sizeof *change.parts);
    enum err e = enact_everywhere(&change);
    bool partly = !starting && change.refused && change.refused < change.lanes->count;
    *made_out = e == ERR_OK || partly;
    if (*made_out) owe(reloader, &change);
    if (partly) {
        say_owed(&change);
        e = ERR_STORAGE;
    }
    free(change.parts);
    buf_release(&text);
    return e;
}

/* A follower goes by its primary's rules, whatever its own file says. */
static bool rules_are_ours(const struct reloader *reloader)
{
    return store_leads(reloader->config.lanes->items[0].store) ||
           reloader->config.lanes->items[0].store->remote;
}

static enum err take_over(const struct reloader *reloader)
{
    enum err e = ERR_OK;
    if (rules_are_ours(reloader))
        log_line(LOG_WARN,
                 "the config's rules were in force here before and were replaced by others, "
                 "which stay in force; reload to bring the config's back");
    for (unsigned i = 0; i < reloader->config.lanes->count && e == ERR_OK; i++)
        e = adopter_adopt(reloader->config.adopter, i);
    return e;
}

/* Another node that starts at the same time may be first: then the plan is made again. */
enum err reload_start(struct reloader *reloader, const struct config *config, struct buf *why_out)
{
    struct adopter *adopter = reloader->config.adopter;
    enum err e = ERR_OK;
    bool old = !rules_are_ours(reloader), made;
    if (adopter && !old) e = adopter_is_old(adopter, &old);
    if (e == ERR_OK && old) e = take_over(reloader);
    if (e != ERR_OK) buf_add(why_out, bytes_str(err_sentence(e)));
    if (e != ERR_OK || old) return e;
    for (unsigned tries = 0; tries < START_TRIES; tries++) {
        buf_reset(why_out);
        e = reload_enact(reloader, config, true, &made, why_out);
        if (!adopter || e != ERR_CONFLICT) break;
    }
    return e;
}

/* The keys are judged first: they can only be refused while nothing has changed yet. */
static enum err reload_config(struct reloader *reloader, const struct config *config,
                              bool *made_out, struct buf *why_out)
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
    pthread_mutex_lock(&reloader->changing);
    enum err e = ERR_OK;
    *made_out = true;
    if (rules_are_ours(reloader)) e = reload_enact(reloader, config, false, made_out, why_out);
    if (*made_out && reloader->config.adopter) adopter_own(reloader->config.adopter, config);
    if (*made_out)
        auth_enact(reloader->config.auth, keys);
    else
        auth_change_free(keys);
    pthread_mutex_unlock(&reloader->changing);
    return e;
}

static enum err reload(struct reloader *reloader, bool *made_out, struct buf *why_out)
{
    struct config config = {0};
    struct config_report report;
    config_report_init(&report);
    enum err e = config_load(&config, reloader->config.source, &report);
    if (e == ERR_OK)
        e = reload_config(reloader, &config, made_out, why_out);
    else
        buf_add(why_out, buf_bytes(&report.text));
    config_report_release(&report);
    config_release(&config);
    return e;
}

enum err reload_now(void *context, struct buf *why_out)
{
    bool made = false;
    return reload(context, &made, why_out);
}

enum err reload_logged(void *context, struct buf *why_out)
{
    bool made = false;
    enum err e = reload(context, &made, why_out);
    if (e == ERR_OK)
        log_line(LOG_INFO, "reloaded the config's keys and rules");
    else if (made)
        log_line(LOG_WARN, "reloaded the config's keys, and its rules in some lanes",
                 LOG_KV("why", buf_bytes(why_out)));
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
