/* daemon.c -- starts everything in order, waits for signals, stops in reverse.
 *
 *   start   store (recovers) -> lanes -> auth, api -> wire -> rules -> threads -> "ready"
 *   stop    wire (no new requests; what was accepted is answered) -> tend -> lanes -> store (last
 *           checkpoint)
 *
 * The daemon owns the threads that run loops, caretakers, jobs and reconciliation; lanes and the
 * API start theirs themselves. */
#include "serve/daemon.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"
#include "serve/descriptors.h"
#include "serve/server.h"

#define RECONCILE_WORKERS 4u /* entities counted at the same time, over all entries */

struct loop_thread {
    struct server *server;
    unsigned index;
    pthread_t thread;
};

static void *loop_main(void *context)
{
    struct loop_thread *loop = context;
    wire_run(loop->server->wire, loop->index);
    return NULL;
}

static void *tend_main(void *context)
{
    struct server *server = context;
    tend_run(server->tend);
    return NULL;
}

static void *scan_main(void *context)
{
    struct server *server = context;
    reconciler_run(server->reconciler);
    return NULL;
}

static void *reconcile_main(void *context)
{
    struct server *server = context;
    reconciler_work(server->reconciler);
    return NULL;
}

static void *reload_main(void *context)
{
    struct server *server = context;
    reloader_run(server->reloader);
    return NULL;
}

/* True: it ends in order to begin again, with another store. */
static bool wait_for_stop(struct server *server, const sigset_t *signals)
{
    for (;;) {
        int signal = 0;
        if (sigwait(signals, &signal) != 0) continue;
        if (signal != SIGHUP) return signal == SERVER_AGAIN_SIGNAL;
        reload_on_signal(server->reloader);
    }
}

/* Where port 0 was asked for, the log says which one it is. A port that is taken is no warning: if
 * anybody had asked for it, the server would not have started. */
static void announce_resp(const struct server *server)
{
    unsigned port = wire_port(server->wire, WIRE_RESP);
    if (port)
        log_line(LOG_INFO, "speaking Redis's protocol", LOG_KV("address", server->resp.address),
                 LOG_KV("port", port));
    else if (server->resp.address[0])
        log_line(LOG_INFO, "not speaking Redis's protocol: the port is taken",
                 LOG_KV("address", server->resp.address), LOG_KV("port", server->resp.port));
}

/* In a later life of the process nobody needs to be told: it serves where it did. */
static void announce(struct server *server)
{
    char url[LISTEN_URL_SIZE];
    if (server->again) return;
    listen_url(&server->listen, wire_port(server->wire, WIRE_HTTP), url);
    announce_resp(server);
    for (unsigned i = 0; i < server->databases_count; i++)
        postgres_serves(server->databases[i], url);
    printf("tally ready on %s\n", url);
    fflush(stdout);
    if (server->options->ready)
        server->options->ready(server->options->context, url, wire_port(server->wire, WIRE_RESP));
}

/* These threads start once the rules are in force, for rows of entries that are not in the rules
 * are forgotten. */
struct reconciling {
    pthread_t scan;
    pthread_t work[RECONCILE_WORKERS];
};

static void start_reconciling(struct server *server, struct reconciling *threads)
{
    thread_start(&threads->scan, "scan", scan_main, server);
    for (unsigned i = 0; i < RECONCILE_WORKERS; i++)
        thread_start(&threads->work[i], "reconcile", reconcile_main, server);
}

static void stop_reconciling(struct reconciling *threads)
{
    pthread_join(threads->scan, NULL);
    for (unsigned i = 0; i < RECONCILE_WORKERS; i++)
        pthread_join(threads->work[i], NULL);
}

/* There is one for each lane, but a few are enough: they walk all lanes (tend/tend.h). With more
 * than one, a lane whose disk or database stalls does not keep the others from being looked
 * after. */
struct tenders {
    unsigned count;
    pthread_t *threads;
};

static void start_tending(struct server *server, struct tenders *tenders)
{
    tenders->count = server_tenders(server);
    tenders->threads = must_calloc(tenders->count, sizeof *tenders->threads);
    for (unsigned i = 0; i < tenders->count; i++)
        thread_start(&tenders->threads[i], "tend", tend_main, server);
}

static void stop_tending(struct server *server, struct tenders *tenders)
{
    tend_stop(server->tend);
    for (unsigned i = 0; i < tenders->count; i++)
        pthread_join(tenders->threads[i], NULL);
    free(tenders->threads);
}

static struct loop_thread *start_loops(struct server *server, unsigned count)
{
    struct loop_thread *loops = must_calloc(count, sizeof *loops);
    for (unsigned i = 0; i < count; i++) {
        loops[i] = (struct loop_thread){.server = server, .index = i};
        thread_start(&loops[i].thread, "net", loop_main, &loops[i]);
    }
    return loops;
}

static void stop_loops(struct server *server, struct loop_thread *loops, unsigned count)
{
    api_set_ready(server->api, false);
    api_stop_reads(server->api, server->config->timeouts_shutdown);
    wire_stop(server->wire, server->config->timeouts_shutdown);
    reconciler_stop(server->reconciler); /* queries that requests wait for come back, too */
    for (unsigned i = 0; i < count; i++)
        pthread_join(loops[i].thread, NULL);
    api_stop(server->api);
    free(loops);
}

static void serve(struct server *server, const sigset_t *signals)
{
    unsigned count = (unsigned)server->config->threads;
    pthread_t reload;
    struct tenders tenders;
    struct reconciling reconciling;
    start_tending(server, &tenders);
    start_reconciling(server, &reconciling);
    runner_start(server->runner);
    thread_start(&reload, "reload", reload_main, server);
    server_start_group(server);
    struct loop_thread *loops = start_loops(server, count);
    api_set_ready(server->api, true);
    announce(server);

    server->again = wait_for_stop(server, signals);
    log_line(LOG_INFO, server->again ? "beginning again with the primary's snapshot" : "stopping");
    server_stop_group(server);
    stop_loops(server, loops, count);
    stop_reconciling(&reconciling);
    runner_stop(server->runner);
    reloader_stop(server->reloader);
    pthread_join(reload, NULL);
    stop_tending(server, &tenders);
}

/* Records what the clock did since the last life, before anything goes by the time. */
static enum err note_clocks(struct server *server, struct buf *why)
{
    enum err e = ERR_OK;
    for (unsigned i = 0; i < server->lanes.count && e == ERR_OK; i++) {
        struct lane *lane = &server->lanes.items[i];
        e = timekeeper_note_now(lane->keeper, lane->queue, false);
    }
    if (e != ERR_OK) buf_add(why, bytes_str(err_sentence(e)));
    return e;
}

/* The lanes start first: the rules come into force through them, and before any request. */
static enum err run(struct server *server, const sigset_t *signals, struct buf *why)
{
    for (unsigned i = 0; i < server->lanes.count; i++)
        lane_start(&server->lanes.items[i]);
    enum err e = note_clocks(server, why);
    if (e == ERR_OK) e = reload_start(server->reloader, server->config, why);
    if (e == ERR_OK) serve(server, signals);
    for (unsigned i = 0; i < server->lanes.count; i++)
        lane_stop(&server->lanes.items[i]);
    return e;
}

static void release(struct server *server)
{
    server->port = server->wire ? wire_port(server->wire, WIRE_HTTP) : 0;
    server->resp_port = server->wire ? wire_port(server->wire, WIRE_RESP) : 0;
    if (server->wire) wire_free(server->wire); /* exchanges posted late are completed by the API */
    if (server->api) api_free(server->api);
    if (server->reconciler) reconciler_free(server->reconciler);
    if (server->errands) errands_free(server->errands);
    if (server->rebuilds) rebuilds_free(server->rebuilds);
    if (server->runner) runner_free(server->runner);
    if (server->tend) tend_free(server->tend);
    if (server->reloader) reloader_free(server->reloader);
    if (server->adopter) adopter_free(server->adopter);
    if (server->auth) auth_free(server->auth);
    server_free_group(server);
    server_close_lanes(server);
}

static void block_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGHUP);
    sigaddset(signals, SERVER_AGAIN_SIGNAL);
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static enum err open_server(struct server *server, struct reason *why)
{
    enum err e = server_settle_group(server, why);
    if (e == ERR_OK) e = server_open_lanes(server, why);
    if (e == ERR_OK) e = auth_new(&server->auth, server->config, why->text, sizeof why->text);
    if (e != ERR_OK) return e;
    server_make_group(server);
    server_make_tend(server);
    server->runner = runner_new();
    server_make_rebuilds(server);
    server_make_reconciler(server);
    server_make_reloader(server);
    server_make_errands(server);
    return server_open_wire(server, why->text, sizeof why->text);
}

/* From the opening of the store to its end. */
static enum err live(struct server *server, const sigset_t *signals)
{
    struct reason why;
    struct buf report;
    buf_init(&report, 64u << 10);
    enum err e = open_server(server, &why);
    if (e == ERR_OK)
        e = run(server, signals, &report);
    else
        buf_add(&report, bytes_str(why.text));
    if (e != ERR_OK) fprintf(stderr, "tally: %.*s\n", (int)report.size, (const char *)report.data);
    buf_release(&report);
    release(server);
    return e;
}

/* A later life is the first one's, but for what it has found out of the world. */
static void begin_next(struct server *server, const struct server *last)
{
    *server = (struct server){.config = last->config,
                              .options = last->options,
                              .listen = last->listen,
                              .resp = last->resp,
                              .again = true};
    memcpy(server->name, last->name, sizeof server->name);
    if (last->port) server->listen.port = last->port;
    if (last->resp_port) server->resp.port = last->resp_port;
}

int daemon_run(const struct config *config, const struct daemon_options *options)
{
    struct config fitting = *config;
    struct server server = {.config = &fitting, .options = options};
    sigset_t signals;
    log_set_level(config->log_level);
    must_report_faults();
    block_signals(&signals); /* before the first thread: they all inherit it */
    descriptors_fit(&fitting);
    must(listen_parse(bytes_str(config->listen), &server.listen));
    if (config->resp_listen[0]) must(listen_parse(bytes_str(config->resp_listen), &server.resp));
    enum err e = live(&server, &signals);
    while (e == ERR_OK && server.again) {
        struct server last = server;
        begin_next(&server, &last);
        e = live(&server, &signals);
    }
    return e == ERR_OK ? 0 : 1;
}
