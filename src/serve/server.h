/* server.h -- the parts of a running server, for the files of serve/ alone.
 *
 * daemon.c makes and frees them in order, lanes_open.c opens the lanes and wiring.c gives each part
 * what it stands on. No part sees this struct: each gets just what it uses. */
#ifndef TALLY_SERVE_SERVER_H
#define TALLY_SERVE_SERVER_H

#include "api/api.h"
#include "base/listen.h"
#include "commit/lanes.h"
#include "jobs/errand.h"
#include "jobs/rebuild.h"
#include "reconcile/reconciler.h"
#include "serve/daemon.h"
#include "serve/reload.h"
#include "store/embedded/embedded.h"
#include "store/embedded/lanes_dir.h"
#include "store/postgres/postgres.h"
#include "tend/tend.h"
#include "wire/loop.h"

#define SERVER_NODE_SIZE (3 * 4096)

struct server {
    const struct config *config;
    const struct daemon_options *options;
    struct listen listen;
    struct listen resp; /* address "": Redis's protocol is not spoken */
    struct lanes lanes;
    struct queue_room room; /* what all lanes' queues may hold together */
    struct tend *tend;
    struct runner *runner;
    struct rebuilds *rebuilds;
    struct adopter *adopter; /* where nodes share the store; else NULL */
    struct reloader *reloader;
    struct auth *auth;
    struct api *api;
    struct wire *wire;
    struct reconciler *reconciler;
    struct lanes_dir dirs;           /* the directories of embedded stores, */
    struct embedded_config embedded; /* and what they have in common */
    struct database *database;       /* the database that stores are in */
    struct errands *errands;
    char exports[4096];          /* directory */
    char node[SERVER_NODE_SIZE]; /* who this process is among those that share a database */
};

/* lanes_open.c: opens and recovers the store, and makes its lanes. `why_out` has one sentence if it
 * fails; server_close_lanes is due in any case. */
MUST_USE enum err server_open_lanes(struct server *server, struct reason *why_out);
void server_close_lanes(struct server *server);

/* database.c */
MUST_USE enum err server_open_database(struct server *server, struct reason *why_out);
/* Adds the processes that share the database, as the items of a JSON array. */
MUST_USE enum err server_nodes(void *context, struct arena *arena, struct buf *json_out);

/* wiring.c: makes what works on the lanes, in this order. */
void server_make_tend(struct server *server);
void server_make_rebuilds(struct server *server);
void server_make_reconciler(struct server *server);
void server_make_reloader(struct server *server);
void server_make_errands(struct server *server);
MUST_USE enum err server_open_wire(struct server *server, char *error, size_t error_size);

#endif
