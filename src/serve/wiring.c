/* wiring.c -- gives each part of the server what it stands on, and no more. */
#include "serve/server.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/resp/resp.h"
#include "commit/pace.h"
#include "reconcile/ask.h"
#include "reconcile/truth_events.h"
#include "reconcile/truth_postgres.h"
#include "serve/gauges.h"

#define OUTPUT_BYTES_MAX (8u << 20)
#ifdef TALLY_SMALL_WORLD
#define RESP_TRAIN_COMMANDS 3u
#else
#define RESP_TRAIN_COMMANDS 1024u /* what one read brings of the shortest fits a few of these */
#endif

#define TENDERS 4u /* lanes looked after at the same time, if there are not more databases */

unsigned server_tenders(const struct server *server)
{
    unsigned most = server->databases_count > TENDERS ? server->databases_count : TENDERS;
    return server->lanes.count < most ? server->lanes.count : most;
}

void server_make_tend(struct server *server)
{
    const struct tend_config tend = {.lanes = &server->lanes,
                                     .sweep_ms = server->config->expiry_sweep_every,
                                     .retention_ms = server->config->events_retention,
                                     .threads = server_tenders(server)};
    server->tend = tend_new(&tend);
}

void server_make_rebuilds(struct server *server)
{
    snprintf(server->exports, sizeof server->exports, "%s/exports", server->config->ops_dir);
    server->rebuilds = rebuilds_new(&server->lanes, server->exports, server->runner);
}

static struct truth *open_truth(void *context, const struct reconcile *reconcile)
{
    const struct lanes *lanes = context;
    return reconcile->truth == TRUTH_EVENTS ? truth_events_open(lanes)
                                            : truth_postgres_open(reconcile);
}

void server_make_reconciler(struct server *server)
{
    const struct reconciler_config config = {
        .lanes = &server->lanes, .open = open_truth, .open_context = &server->lanes};
    server->reconciler = reconciler_new(&config);
}

void server_make_reloader(struct server *server)
{
    if (server->config->store_kind == CONFIG_STORE_POSTGRES || server->follow)
        server->adopter = adopter_new(&server->lanes, server->config);
    const struct reload_config reload = {.source = server->options->source,
                                         .lanes = &server->lanes,
                                         .auth = server->auth,
                                         .adopter = server->adopter};
    server->reloader = reloader_new(&reload);
}

void server_make_errands(struct server *server)
{
    bool on_disk = server->config->store_kind == CONFIG_STORE_EMBEDDED;
    const struct errand_config errand = {.with = server->lanes.items[0].caretaker,
                                         .lanes = &server->lanes,
                                         .embedded = on_disk ? &server->embedded : NULL,
                                         .dirs = on_disk ? &server->dirs : NULL,
                                         .ids_shared = server->config->events_id_scope ==
                                                       CONFIG_IDS_INSTALLATION,
                                         .node = server->databases ? server->node : NULL,
                                         .ops_dir = server->config->ops_dir,
                                         .runner = server->runner,
                                         .refresh = reload_now,
                                         .refresh_context = server->reloader};
    server->errands = errands_new(&errand);
}

static void wake_wire(void *context)
{
    struct server *server = context;
    wire_wake(server->wire);
}

static void update_gauges(void *context)
{
    struct server *server = context;
    const struct gauges gauges = {.lanes = &server->lanes,
                                  .reconciler = server->reconciler,
                                  .wire = server->wire,
                                  .ship = server->ship,
                                  .follow = server->follow};
    gauges_update(&gauges);
}

static enum err ask_rebuild(void *context, const struct api_rebuild *asked, struct buf *id_out,
                            struct reason *why_out)
{
    struct server *server = context;
    const struct rebuild_wish wish = {
        .counter = asked->counter, .force = asked->force, .from = asked->from};
    return rebuild_ask(server->rebuilds, &wish, id_out, why_out);
}

static enum err forget_counter(void *context, struct bytes counter)
{
    struct server *server = context;
    return rebuild_forget(server->rebuilds, counter);
}

static enum err describe_job(void *context, struct bytes id, struct buf *json_out)
{
    struct server *server = context;
    enum err e = errand_describe(server->errands, id, json_out);
    return e == ERR_NOT_FOUND ? rebuild_describe(server->rebuilds, id, json_out) : e;
}

_Static_assert((int)API_EXPORT == JOB_EXPORT && (int)API_IMPORT == JOB_IMPORT,
               "the same errands in the same order");

static enum err ask_errand(void *context, const struct api_errand_ask *asked, struct buf *id_out,
                           struct buf *name_out, struct reason *why_out)
{
    const struct errand_ask ask = {.kind = (enum job_kind)asked->kind,
                                   .name = asked->name,
                                   .ids = asked->ids,
                                   .events = asked->events};
    return errand_ask(context, &ask, id_out, name_out, why_out);
}

static enum err list_errands(void *context, const struct api_errand_page *asked,
                             struct buf *json_out, struct buf *next_out)
{
    const struct errand_page page = {
        .kind = (enum job_kind)asked->kind, .after = asked->after, .limit = asked->limit};
    return errand_list(context, &page, json_out, next_out);
}

static enum err remove_errand(void *context, enum api_errand kind, struct bytes name)
{
    return errand_remove(context, (enum job_kind)kind, name);
}

static enum err reconcile_run(void *context, struct bytes name, struct bytes tenant,
                              struct bytes entity_json, struct buf *json_out)
{
    return reconcile_now(context, name, tenant, entity_json, json_out);
}

static enum err list_drift(void *context, struct bytes name, struct bytes tenant,
                           struct bytes after, int64_t limit, struct buf *json_out,
                           struct buf *uncounted_out, struct buf *after_out)
{
    return reconcile_drift(context, name, tenant, after, limit, json_out, uncounted_out, after_out);
}

static enum err describe_reconcile(void *context, struct bytes name, struct bytes tenant,
                                   struct buf *json_out)
{
    return reconcile_status(context, name, tenant, json_out);
}

/* A train goes into the queue whole, so one that is larger than a tenant's share of it would be
 * refused however empty that is. */
static unsigned train_commands(const struct config *config)
{
    int64_t commands = RESP_TRAIN_COMMANDS;
    if (commands > config->limits_request_ops) commands = config->limits_request_ops;
    if (commands > config->limits_tenant_queue_ops) commands = config->limits_tenant_queue_ops;
    return (unsigned)commands;
}

enum err server_open_wire(struct server *server, char *error, size_t error_size)
{
    const struct config *config = server->config;
    const struct api_config api = {.config = config,
                                   .auth = server->auth,
                                   .lanes = &server->lanes,
                                   .reload = reload_logged,
                                   .reload_context = server->reloader,
                                   .rebuild = ask_rebuild,
                                   .forget = forget_counter,
                                   .job = describe_job,
                                   .jobs_context = server,
                                   .nodes = server->databases ? server_nodes : NULL,
                                   .nodes_context = server,
                                   .reconcile = {.run = reconcile_run,
                                                 .drift = list_drift,
                                                 .status = describe_reconcile,
                                                 .context = server->reconciler},
                                   .errands = {.ask = ask_errand,
                                               .list = list_errands,
                                               .remove = remove_errand,
                                               .context = server->errands},
                                   .ship = server->ship,
                                   .lend = server->lend,
                                   .follow = server->follow,
                                   .forward = server->forward,
                                   .primary = server->member.primary,
                                   .machine = &clock_system,
                                   .loops = (unsigned)config->threads,
                                   .token_command = server->options->token_command,
                                   .wake = wake_wire,
                                   .wake_context = server,
                                   .gauges = update_gauges,
                                   .gauges_context = server};
    server->api = api_new(&api);
    const struct wire_handler handler = api_handler(server->api);
    const struct wire_handler resp = resp_handler(server->api);
    const struct wire_config wire = {
        .address = server->listen.address,
        .port = server->listen.port,
        .resp = {.address = server->resp.address[0] ? server->resp.address : NULL,
                 .port = server->resp.port,
                 .if_free = server->options->resp_if_free,
                 .handler = &resp,
                 .commands_max = train_commands(config),
                 .arguments_max = (unsigned)config->limits_request_ops * 2 + 1,
                 .idle_ms = config->resp_idle},
        .loops = (unsigned)config->threads,
        .connections_max = (unsigned)config->limits_connections,
        .body_bytes_max = (size_t)config->limits_body_bytes,
        .buffers_bytes_max = (size_t)config->limits_inflight_bytes,
        .pipeline_max = (unsigned)config->limits_pipeline,
        .output_bytes_max = OUTPUT_BYTES_MAX,
        .idle_ms = config->timeouts_idle,
        .request_ms = config->timeouts_request,
        .write_ms = config->timeouts_write,
        .retry_ms = PACE_RETRY_MS,
        .look = pace_net_look,
    };
    return wire_open(&server->wire, &wire, &handler, error, error_size);
}
