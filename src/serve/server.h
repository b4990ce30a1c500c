/* server.h -- the parts of a running server, for the files of serve/ alone.
 *
 * daemon.c makes and frees them in order, lanes_open.c opens the lanes and wiring.c gives each part
 * what it stands on. No part sees this struct: each gets just what it uses. */
#ifndef TALLY_SERVE_SERVER_H
#define TALLY_SERVE_SERVER_H

#include <signal.h>

#include "api/api.h"
#include "base/listen.h"
#include "commit/lanes.h"
#include "jobs/errand.h"
#include "jobs/rebuild.h"
#include "reconcile/reconciler.h"
#include "replica/node.h"
#include "serve/daemon.h"
#include "serve/reload.h"
#include "store/embedded/embedded.h"
#include "store/embedded/lanes_dir.h"
#include "store/postgres/postgres.h"
#include "tend/tend.h"
#include "wire/loop.h"

#define SERVER_NODE_SIZE (3 * 4096)

/* Ends this life of the server, and begins another one in the same process. */
#define SERVER_AGAIN_SIGNAL SIGUSR2

struct server {
    const struct config *config;
    const struct daemon_options *options;
    bool again; /* at first: an earlier life of the process served; at the end: another one shall */
    unsigned port; /* where it served */
    unsigned resp_port;
    struct listen listen;
    struct listen resp; /* address "": Redis's protocol is not spoken */
    struct lanes lanes;
    struct queue_room room; /* what all lanes' queues may hold together */
    struct tend *tend;
    struct runner *runner;
    struct rebuilds *rebuilds;
    struct adopter *adopter; /* where others may change the rules in the store; else NULL */
    struct reloader *reloader;
    struct auth *auth;
    struct api *api;
    struct wire *wire;
    struct reconciler *reconciler;
    struct lanes_dir dirs;           /* the directories of embedded stores, */
    struct embedded_config embedded; /* and what they have in common */
    struct database **databases;     /* the databases that stores are in; NULL: in none */
    unsigned databases_count;
    struct errands *errands;
    char exports[4096];          /* directory */
    char node[SERVER_NODE_SIZE]; /* who this process is among those that share a database */
    struct membership member;    /* what the data directory says that it is */
    char name[128];              /* as its primary knows it */
    struct ship *ship;           /* a primary's, and */
    struct lend *lend;
    struct follow *follow; /* a follower's */
    struct forward *forward;
};

/* lanes_open.c: opens and recovers the store, and makes its lanes. `why_out` has one sentence if it
 * fails; server_close_lanes is due in any case. */
MUST_USE enum err server_open_lanes(struct server *server, struct reason *why_out);
void server_close_lanes(struct server *server);

/* group.c: settles what the server is, and copies its primary where there is nothing yet; before
 * the lanes are opened. The others once they are. server_stop_group comes before the loops end, so
 * that nobody waits for it. */
MUST_USE enum err server_settle_group(struct server *server, struct reason *why);
void server_make_group(struct server *server);
void server_start_group(struct server *server);
void server_stop_group(struct server *server);
void server_free_group(struct server *server);

/* database.c */
MUST_USE enum err server_open_databases(struct server *server, struct reason *why_out);
void server_close_databases(struct server *server);
struct database *server_database(const struct server *server, unsigned lane); /* that it lies in */
/* Adds the processes that share the database, as the items of a JSON array. */
MUST_USE enum err server_nodes(void *context, struct arena *arena, struct buf *json_out);

/* wiring.c: makes what works on the lanes, in this order. */
unsigned server_tenders(const struct server *server); /* threads that tend */
void server_make_tend(struct server *server);
void server_make_rebuilds(struct server *server);
void server_make_reconciler(struct server *server);
void server_make_reloader(struct server *server);
void server_make_errands(struct server *server);
MUST_USE enum err server_open_wire(struct server *server, char *error, size_t error_size);

#endif
