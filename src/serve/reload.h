/* reload.h -- what can change while tally runs: keys, secrets and rules, read from the config
 * again.
 *
 * A config that does not load, or rules that the stored counters of some lane do not allow, change
 * nothing and say why. Rules come into force lane by lane, in each between two of its batches; a
 * reload that is stopped by a lane that cannot write is to be repeated. */
#ifndef TALLY_SERVE_RELOAD_H
#define TALLY_SERVE_RELOAD_H

#include "api/auth/auth.h"
#include "commit/lanes.h"
#include "config/config.h"

struct reloader;

struct reload_config {
    const struct config_source *source;
    const struct lanes *lanes;
    struct auth *auth;
};

struct reloader *reloader_new(const struct reload_config *config);
void reloader_free(struct reloader *reloader);

/* At the start: brings the config's rules into force and waits until that is durable; the lanes
 * have been started. A store that cannot be written can still be read by the rules that it
 * holds, if they are the config's. `why_out` gets a sentence if it fails. */
MUST_USE enum err reload_start(struct reloader *reloader, const struct config *config,
                               struct buf *why_out);

/* Reads the config again: rules, then keys. `context` is the reloader. Any thread. */
enum err reload_now(void *context, struct buf *why_out);
/* The same for an operator, over HTTP or by a signal: the outcome is logged. */
enum err reload_logged(void *context, struct buf *why_out);
void reload_on_signal(struct reloader *reloader);

#endif
