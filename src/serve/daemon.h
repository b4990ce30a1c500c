/* daemon.h -- the server as one call: start everything in order, serve, stop in reverse. */
#ifndef TALLY_SERVE_DAEMON_H
#define TALLY_SERVE_DAEMON_H

#include "config/config.h"
#include "store/postgres/postgres.h"

struct daemon_options {
    const struct config_source *source; /* loaded again at SIGHUP */
    /* Called once, right after the ready line, with "http://ADDR:PORT" and the port that speaks
     * Redis's protocol, 0 if none does; may be NULL. */
    void (*ready)(void *context, const char *url, unsigned resp_port);
    bool resp_if_free; /* nobody asked for resp.listen: go on without, if its port is taken */
    void *context;
    const char *token_command; /* shown on the dashboard to a person without a token; may be NULL */
};

/* Serves until SIGTERM or SIGINT. Returns the process's exit code; why it failed is on stderr.
 * `config` has been loaded and has something to check tokens against. */
int daemon_run(const struct config *config, const struct daemon_options *options);

/* Makes the schema of a store in PostgreSQL, or brings it up to date, and says on stdout what it is
 * then. Returns the process's exit code; why it failed is on stderr. */
int daemon_migrate(const struct config *config, bool citus);

/* Compares what a store in PostgreSQL says twice; each finding is said. ERR_OK: nothing is damaged;
 * ERR_CORRUPT: a finding says what. Otherwise `why_out` says why it could not be looked at. */
MUST_USE enum err daemon_verify(const struct config *config, postgres_finding_fn *say,
                                void *context, struct reason *why_out);

/* Makes that schema, empty, so that it can take the export `name` in ops.dir with its ids and
 * events, and says so on stdout. Returns the process's exit code; why it failed is on stderr. */
int daemon_prepare(const struct config *config, const char *name);

#endif
