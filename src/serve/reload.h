/* reload.h -- what can change while tally runs: keys, secrets and rules, read from the config
 * again.
 *
 * A config that does not load, or rules that the stored counters of some lane do not allow, change
 * nothing and say why. Rules come into force lane by lane, in each between two of its batches. A
 * lane that cannot be written then is owed them: it gets them as soon as it can.
 *
 *     reload_start(reloader, config, &why)   at the start, once the lanes have been started
 *     reloader_run(reloader)                 a thread of its own: gives lanes what they are owed
 *     reload_now(reloader, &why)             any thread, any number of times
 *     reloader_stop(reloader)                ends reloader_run, while commits still go on */
#ifndef TALLY_SERVE_RELOAD_H
#define TALLY_SERVE_RELOAD_H

#include "api/auth/auth.h"
#include "commit/lanes.h"
#include "config/config.h"
#include "serve/adopt.h"

struct reloader;

struct reload_config {
    const struct config_source *source;
    const struct lanes *lanes;
    struct auth *auth;
    struct adopter *adopter; /* where others may change the rules in the store; else NULL */
};

struct reloader *reloader_new(const struct reload_config *config);
void reloader_free(struct reloader *reloader);

/* At the start: brings the config's rules into force and waits until that is durable; the lanes
 * have been started. A store that cannot be written can still be read by the rules that it
 * holds, if they are the config's. Where nodes share the store, rules that were in force there
 * before and no longer are stay so, and those in force are taken over: a node that comes back with
 * an old file changes nothing. `why_out` gets a sentence if it fails. */
MUST_USE enum err reload_start(struct reloader *reloader, const struct config *config,
                               struct buf *why_out);

/* Reads the config again: rules, then keys. `context` is the reloader. ERR_OK: every lane has the
 * rules. ERR_STORAGE: some lanes are owed them, or none could be written and nothing has changed;
 * `why_out` says which. Other errors: nothing has changed. */
enum err reload_now(void *context, struct buf *why_out);
/* The same for an operator, over HTTP or by a signal: the outcome is logged. */
enum err reload_logged(void *context, struct buf *why_out);
void reload_on_signal(struct reloader *reloader);

void reloader_run(struct reloader *reloader);
void reloader_stop(struct reloader *reloader);
/* One try of what the thread does. True: some lane is still owed rules. */
bool reload_owed(struct reloader *reloader);

#endif
