/* api.h -- what a request means. Knows nothing of sockets and nothing of disks.
 *
 * The daemon gives it the lanes, whose queues take changes and whose stores are read, and a way to
 * wake the wire; it gives the daemon a `struct wire_handler`. */
#ifndef TALLY_API_API_H
#define TALLY_API_API_H

#include "api/auth/auth.h"
#include "base/clock.h"
#include "base/reason.h"
#include "commit/lanes.h"
#include "wire/exchange.h"

struct api;
struct ship;
struct lend;
struct follow;
struct forward;

/* A rule counter to be recounted. */
struct api_rebuild {
    struct bytes counter;
    bool force;
    struct bytes from; /* name of an export to begin with; size 0: none */
};

/* Long pieces of work that an operator asks for. */
enum api_errand { API_BACKUP, API_EXPORT, API_IMPORT };

struct api_errand_ask {
    enum api_errand kind;
    struct bytes name; /* size 0: none was given */
    bool ids;
    bool events;
};

struct api_errand_page {
    enum api_errand kind;
    struct bytes after; /* from a `next_out`, or whatever a client sent instead; or none */
    uint64_t limit;
};

/* All may wait for a commit or the disk. `why_out` may get a sentence when they fail. */
struct api_errands {
    enum err (*ask)(void *context, const struct api_errand_ask *ask, struct buf *id_out,
                    struct buf *name_out, struct reason *why_out);
    /* JSON objects with commas between; `next_out` stays empty on the last page. */
    enum err (*list)(void *context, const struct api_errand_page *page, struct buf *json_out,
                     struct buf *next_out);
    enum err (*remove)(void *context, enum api_errand kind, struct bytes name);
    void *context;
};

struct api_config {
    const struct config *config;
    struct auth *auth;
    const struct lanes *lanes;
    /* Its clock judges tokens and measures how long things take; batch time is a lane's. */
    const struct clock *machine;
    unsigned loops;
    const char *token_command; /* makes a token for this server; NULL: the command for any server */
    void (*wake)(void *context); /* posted exchanges wait: wake the wire */
    void *wake_context;
    void (*gauges)(
        void *context); /* brings the figures that are only read, never added, up to date */
    void *gauges_context;
    /* Reads the configuration again and puts its rules in force, on a reader thread. ERR_INVALID:
     * they stay as they were, and `why_out` says what is wrong. */
    enum err (*reload)(void *context, struct buf *why_out);
    void *reload_context;
    /* A rebuild of a rule counter, and a job as a JSON object; they may wait for a commit. */
    enum err (*rebuild)(void *context, const struct api_rebuild *wish, struct buf *id_out,
                        struct reason *why_out);
    enum err (*forget)(void *context, struct bytes counter);
    enum err (*job)(void *context, struct bytes id, struct buf *json_out);
    void *jobs_context;
    /* Reconciling (reconcile/ask.h): one entity now, a page of what is wrong, how things stand.
     * They ask the database of a source and may take seconds. */
    struct api_reconcile {
        enum err (*run)(void *context, struct bytes name, struct bytes tenant,
                        struct bytes entity_json, struct buf *json_out);
        enum err (*drift)(void *context, struct bytes name, struct bytes tenant, struct bytes after,
                          int64_t limit, struct buf *json_out, struct buf *uncounted_out,
                          struct buf *after_out);
        enum err (*status)(void *context, struct bytes name, struct bytes tenant,
                           struct buf *json_out);
        void *context;
    } reconcile;
    struct api_errands errands;
    /* Adds the processes that share the store, as the items of a JSON array, and may wait for it.
     * NULL: it is not shared. */
    enum err (*nodes)(void *context, struct arena *arena, struct buf *json_out);
    void *nodes_context;
    /* Where the store can be followed the first two; where it follows the last three. */
    struct ship *ship;
    struct lend *lend;
    struct follow *follow;
    struct forward *forward; /* NULL: writes are not handed on */
    const char *primary;     /* its URL */
};

struct api *api_new(const struct api_config *config);

/* The server is going to stop: reads may take half of `grace_ms` more, later they are answered 503
 * and their connections closed, so that the replies are out before the wire stops. Any thread. */
void api_stop_reads(struct api *api, int64_t grace_ms);

/* Ends the readers after the reads they have, which may wait for a commit: to be called once no
 * loop runs any more and while commits still do. No exchange may be kept by then. */
void api_stop(struct api *api);
void api_free(struct api *api);

struct wire_handler api_handler(struct api *api);

/* "primary" or "follower". */
const char *api_role(const struct api *api);

/* Until then /readyz says 503; set once recovery is done and again cleared on the way down. */
void api_set_ready(struct api *api, bool ready);

#endif
