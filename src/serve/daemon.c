/* daemon.c -- starts everything in order, waits for signals, stops in reverse.
 *
 *   start   store (recovers) -> queue, commit -> auth, api -> wire -> rules -> threads -> "ready"
 *   stop    wire (no new requests; what was accepted is answered) -> tend -> commit -> sync ->
 *           store (last checkpoint)
 *
 * It alone sees every module and owns every thread but the readers'. */
#include "serve/daemon.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "api/api.h"
#include "base/listen.h"
#include "commit/commit.h"
#include "serve/descriptors.h"
#include "commit/timekeeper.h"
#include "reconcile/ask.h"
#include "reconcile/truth_events.h"
#include "reconcile/truth_postgres.h"
#include "store/embedded/embedded.h"
#include "serve/gauges.h"
#include "serve/reload.h"
#include "store/memory.h"
#include "jobs/errand.h"
#include "jobs/rebuild.h"
#include "tend/tend.h"
#include "wire/loop.h"

#define BATCHES_IN_FLIGHT 16u /* being decided, written or answered at the same time */
/* A batch is walked several times: one of 5000 events (6 MB) is fetched from memory each time, one
 * of 1000 lies in a core's cache. Many small ones are in flight instead of few large ones. */
#define BATCH_OPS 1024u
#define INLINE_OPS 512u /* smaller batches are synced by the thread that decided them */
#define SWEEP_OPS 1000u
#define RECONCILE_WORKERS 4u /* entities counted at the same time, over all entries */
#define ARCHIVE_MS_MIN 500
#define ARCHIVE_MS_MAX (24 * 3600 * 1000)
#define OUTPUT_BYTES_MAX (8u << 20)

struct daemon {
    const struct config *config;
    const struct daemon_options *options;
    struct listen listen;
    struct store *store;
    struct queue *queue;
    struct rulebook *rulebook;
    struct timekeeper *keeper;
    const struct clock *clock; /* the keeper's: batch time */
    struct commit *commit;
    pthread_mutex_t enacting;
    struct reloader *reloader;
    struct auth *auth;
    struct api *api;
    struct wire *wire;
    struct tend *tend;
    struct rebuilds *rebuilds;
    struct reconciler *reconciler;
    struct embedded_config embedded; /* of an embedded store */
    struct caretaker caretaker;      /* what rebuilds and errands stand on */
    struct errands *errands;
    char exports[4096]; /* directory */
};

struct loop_thread {
    struct daemon *daemon;
    unsigned index;
    pthread_t thread;
};

/* Events are moved out of the journal early enough for retention to let go of them in time. */
static int64_t archive_age(int64_t retention_ms)
{
    int64_t age = retention_ms / 8;
    return age < ARCHIVE_MS_MIN ? ARCHIVE_MS_MIN : age > ARCHIVE_MS_MAX ? ARCHIVE_MS_MAX : age;
}

static enum err open_store(struct daemon *daemon, char *error, size_t error_size)
{
    const struct config *config = daemon->config;
    if (config->store_kind == CONFIG_STORE_MEMORY) return memory_open(&daemon->store);
    daemon->embedded = (struct embedded_config){
        .dir = config->data,
        .clock = &clock_system,
        .cache_bytes = (size_t)config->store_cache_bytes,
        .segment_bytes = (uint64_t)config->journal_segment_bytes,
        .keep_bytes = (uint64_t)config->journal_keep_bytes,
        .keep_ms = config->journal_keep,
        .spare_segments = (unsigned)config->journal_spare_segments,
        .checkpoint_ms = config->checkpoint_every,
        .checkpoint_bytes = (uint64_t)config->checkpoint_journal_bytes,
        .ids_shared = config->events_id_scope == CONFIG_IDS_INSTALLATION,
        .archive_ms = archive_age(config->events_retention),
        .key_keep_ms = config->idempotency_keep,
    };
    return embedded_open(&daemon->store, &daemon->embedded, error, error_size);
}

static enum err keep_time(struct daemon *daemon, char *error, size_t error_size)
{
    const struct timeline_settings settings = {.tolerance_ms = daemon->config->clock_tolerance,
                                               .settle_ms = daemon->config->clock_settle};
    enum err e = timekeeper_new(&daemon->keeper, &clock_system, &settings, daemon->store);
    if (e == ERR_OK)
        daemon->clock = timekeeper_clock(daemon->keeper);
    else
        snprintf(error, error_size, "cannot read what was recorded of the clock.");
    return e;
}

static void wake_wire(void *context)
{
    struct daemon *daemon = context;
    wire_wake(daemon->wire);
}

static struct truth *open_truth(void *context, const struct reconcile *reconcile)
{
    struct daemon *daemon = context;
    return reconcile->truth == TRUTH_EVENTS ? truth_events_open(daemon->store)
                                            : truth_postgres_open(reconcile);
}

static void make_reconciler(struct daemon *daemon)
{
    const struct reconciler_config config = {
        .entity = {.store = daemon->store,
                   .rulebook = daemon->rulebook,
                   .enacting = &daemon->enacting,
                   .propose = propose_and_wait,
                   .context = daemon->queue},
        .clock = daemon->clock,
        .batch_ops = (uint32_t)daemon->config->limits_batch_ops,
        .open = open_truth,
        .open_context = daemon,
    };
    daemon->reconciler = reconciler_new(&config);
}

static void make_commit(struct daemon *daemon)
{
    const struct config *config = daemon->config;
    const struct queue_limits limits = {
        .ops_max = (uint32_t)config->limits_queue_ops,
        .tenant_ops_max = (uint32_t)config->limits_tenant_queue_ops,
        .sync_ops_max = (uint32_t)config->limits_sync_ops,
        .tenant_sync_ops_max = (uint32_t)(config->limits_sync_ops * 4 / 5),
        .bytes_max = (size_t)config->limits_inflight_bytes,
        .tenant_bytes_max = (size_t)config->limits_inflight_bytes / 5 * 4,
        .batch_weight_max = config_batch_weight(config),
        .batch_ops = BATCH_OPS,
    };
    daemon->queue = queue_new(&limits);
    daemon->rulebook = rulebook_new();
    const struct commit_config commit = {
        .queue = daemon->queue,
        .store = daemon->store,
        .rulebook = daemon->rulebook,
        .clock = daemon->clock,
        .limits = {.tenant_cells = config->limits_tenant_cells,
                   .tenant_marks = config->limits_tenant_marks,
                   .granularities = (uint32_t)config->limits_counter_granularities,
                   .key_keep_ms = config->idempotency_keep,
                   .id_keep_ms = config->events_registry_ttl,
                   .ids_shared = config->events_id_scope == CONFIG_IDS_INSTALLATION,
                   .batch_weight = config_batch_weight(config)},
        .batch_ops_max = (uint32_t)config->limits_batch_ops,
        .batches_max = BATCHES_IN_FLIGHT,
        .inline_ops = INLINE_OPS,
        .answered = wake_wire,
        .context = daemon,
    };
    daemon->commit = commit_new(&commit);
    const struct tend_config tend = {.store = daemon->store,
                                     .queue = daemon->queue,
                                     .clock = daemon->clock,
                                     .keeper = daemon->keeper,
                                     .sweep_ms = config->expiry_sweep_every,
                                     .retention_ms = config->events_retention,
                                     .sweep_ops = SWEEP_OPS};
    daemon->tend = tend_new(&tend);
    snprintf(daemon->exports, sizeof daemon->exports, "%s/exports", config->ops_dir);
    daemon->caretaker = (struct caretaker){.store = daemon->store,
                                           .rulebook = daemon->rulebook,
                                           .clock = daemon->clock,
                                           .enacting = &daemon->enacting,
                                           .batch_ops = (uint32_t)config->limits_batch_ops,
                                           .batch_weight = config_batch_weight(config),
                                           .propose = propose_and_wait,
                                           .context = daemon->queue};
    daemon->rebuilds = rebuilds_new(&daemon->caretaker, daemon->exports);
    make_reconciler(daemon);
}

static void make_reloader(struct daemon *daemon)
{
    const struct reload_config reload = {.source = daemon->options->source,
                                         .store = daemon->store,
                                         .queue = daemon->queue,
                                         .rulebook = daemon->rulebook,
                                         .auth = daemon->auth,
                                         .enacting = &daemon->enacting};
    daemon->reloader = reloader_new(&reload);
}

static void make_errands(struct daemon *daemon)
{
    const struct errand_config errand = {.with = daemon->caretaker,
                                         .embedded =
                                             daemon->embedded.dir ? &daemon->embedded : NULL,
                                         .ops_dir = daemon->config->ops_dir,
                                         .refresh = reload_now,
                                         .refresh_context = daemon->reloader};
    daemon->errands = errands_new(&errand);
}

static void update_gauges(void *context)
{
    struct daemon *daemon = context;
    const struct gauges gauges = {.store = daemon->store,
                                  .queue = daemon->queue,
                                  .commit = daemon->commit,
                                  .keeper = daemon->keeper,
                                  .reconciler = daemon->reconciler,
                                  .wire = daemon->wire};
    gauges_update(&gauges);
}

static void help_commit(void *context)
{
    struct daemon *daemon = context;
    commit_help(daemon->commit);
}

static enum err ask_rebuild(void *context, const struct api_rebuild *asked, struct buf *id_out,
                            struct buf *why_out)
{
    struct daemon *daemon = context;
    const struct rebuild_wish wish = {
        .counter = asked->counter, .force = asked->force, .from = asked->from};
    return rebuild_ask(daemon->rebuilds, &wish, id_out, why_out);
}

static enum err forget_counter(void *context, struct bytes counter)
{
    struct daemon *daemon = context;
    return rebuild_forget(daemon->rebuilds, counter);
}

static enum err describe_job(void *context, struct bytes id, struct buf *json_out)
{
    struct daemon *daemon = context;
    enum err e = errand_describe(daemon->errands, id, json_out);
    return e == ERR_NOT_FOUND ? rebuild_describe(daemon->rebuilds, id, json_out) : e;
}

_Static_assert((int)API_EXPORT == JOB_EXPORT && (int)API_IMPORT == JOB_IMPORT,
               "the same errands in the same order");

static enum err ask_errand(void *context, const struct api_errand_ask *asked, struct buf *id_out,
                           struct buf *name_out, struct buf *why_out)
{
    const struct errand_ask ask = {
        .kind = (enum job_kind)asked->kind, .name = asked->name, .ids = asked->ids};
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

static enum err open_wire(struct daemon *daemon, char *error, size_t error_size)
{
    const struct config *config = daemon->config;
    const struct api_config api = {.config = config,
                                   .auth = daemon->auth,
                                   .queue = daemon->queue,
                                   .store = daemon->store,
                                   .rulebook = daemon->rulebook,
                                   .reload = reload_logged,
                                   .reload_context = daemon->reloader,
                                   .rebuild = ask_rebuild,
                                   .forget = forget_counter,
                                   .job = describe_job,
                                   .jobs_context = daemon,
                                   .reconcile = {.run = reconcile_run,
                                                 .drift = list_drift,
                                                 .status = describe_reconcile,
                                                 .context = daemon->reconciler},
                                   .errands = {.ask = ask_errand,
                                               .list = list_errands,
                                               .remove = remove_errand,
                                               .context = daemon->errands},
                                   .help = help_commit,
                                   .help_context = daemon,
                                   .clock = daemon->clock,
                                   .keeper = daemon->keeper,
                                   .loops = (unsigned)config->threads,
                                   .token_command = daemon->options->token_command,
                                   .wake = wake_wire,
                                   .wake_context = daemon,
                                   .gauges = update_gauges,
                                   .gauges_context = daemon};
    daemon->api = api_new(&api);
    const struct wire_handler handler = api_handler(daemon->api);
    const struct wire_config wire = {
        .address = daemon->listen.address,
        .port = daemon->listen.port,
        .loops = (unsigned)config->threads,
        .connections_max = (unsigned)config->limits_connections,
        .body_bytes_max = (size_t)config->limits_body_bytes,
        .buffers_bytes_max = (size_t)config->limits_inflight_bytes,
        .pipeline_max = (unsigned)config->limits_pipeline,
        .output_bytes_max = OUTPUT_BYTES_MAX,
        .idle_ms = config->timeouts_idle,
        .request_ms = config->timeouts_request,
        .write_ms = config->timeouts_write,
    };
    return wire_open(&daemon->wire, &wire, &handler, error, error_size);
}

static void *loop_main(void *context)
{
    struct loop_thread *loop = context;
    wire_run(loop->daemon->wire, loop->index);
    return NULL;
}

static void *commit_main(void *context)
{
    struct daemon *daemon = context;
    prctl(PR_SET_TIMERSLACK, 1); /* it waits for fractions of a sync */
    while (queue_wait(daemon->queue))
        commit_turn(daemon->commit);
    commit_close(daemon->commit);
    return NULL;
}

static void *sync_main(void *context)
{
    struct daemon *daemon = context;
    while (commit_sync(daemon->commit))
        ;
    return NULL;
}

static void *tend_main(void *context)
{
    struct daemon *daemon = context;
    tend_run(daemon->tend);
    return NULL;
}

static void *rebuild_main(void *context)
{
    struct daemon *daemon = context;
    rebuilds_run(daemon->rebuilds);
    return NULL;
}

static void *scan_main(void *context)
{
    struct daemon *daemon = context;
    reconciler_run(daemon->reconciler);
    return NULL;
}

static void *reconcile_main(void *context)
{
    struct daemon *daemon = context;
    reconciler_work(daemon->reconciler);
    return NULL;
}

static void *errand_main(void *context)
{
    struct daemon *daemon = context;
    errands_run(daemon->errands);
    return NULL;
}

static void start_thread(pthread_t *thread, const char *name, void *(*main)(void *), void *context)
{
    int failed = pthread_create(thread, NULL, main, context);
    must(failed == 0);
    pthread_setname_np(*thread, name);
}

static void wait_for_stop(struct daemon *daemon, const sigset_t *signals)
{
    for (;;) {
        int signal = 0;
        if (sigwait(signals, &signal) != 0) continue;
        if (signal != SIGHUP) return;
        reload_on_signal(daemon->reloader);
    }
}

static void announce(struct daemon *daemon)
{
    char url[LISTEN_URL_SIZE];
    listen_url(&daemon->listen, wire_port(daemon->wire), url);
    printf("tally ready on %s\n", url);
    fflush(stdout);
    if (daemon->options->ready) daemon->options->ready(daemon->options->context, url);
}

/* Commit and sync first: the rules come into force through them, and before any request. */
struct committing {
    pthread_t commit;
    pthread_t sync;
};

static void start_committing(struct daemon *daemon, struct committing *threads)
{
    start_thread(&threads->sync, "sync", sync_main, daemon);
    start_thread(&threads->commit, "commit", commit_main, daemon);
}

static void stop_committing(struct daemon *daemon, struct committing *threads)
{
    queue_stop(daemon->queue);
    pthread_join(threads->commit, NULL);
    pthread_join(threads->sync, NULL);
}

/* Once the rules are in force: what they do not name is forgotten. */
struct reconciling {
    pthread_t scan;
    pthread_t work[RECONCILE_WORKERS];
};

static void start_reconciling(struct daemon *daemon, struct reconciling *threads)
{
    start_thread(&threads->scan, "scan", scan_main, daemon);
    for (unsigned i = 0; i < RECONCILE_WORKERS; i++)
        start_thread(&threads->work[i], "reconcile", reconcile_main, daemon);
}

static void stop_reconciling(struct reconciling *threads)
{
    pthread_join(threads->scan, NULL);
    for (unsigned i = 0; i < RECONCILE_WORKERS; i++)
        pthread_join(threads->work[i], NULL);
}

static void serve(struct daemon *daemon, const sigset_t *signals)
{
    unsigned count = (unsigned)daemon->config->threads;
    struct loop_thread *loops = must_calloc(count, sizeof *loops);
    pthread_t tend;
    pthread_t rebuild;
    pthread_t errand;
    start_thread(&tend, "tend", tend_main, daemon);
    start_thread(&rebuild, "rebuild", rebuild_main, daemon);
    struct reconciling reconciling;
    start_reconciling(daemon, &reconciling);
    start_thread(&errand, "errand", errand_main, daemon);
    for (unsigned i = 0; i < count; i++) {
        loops[i] = (struct loop_thread){.daemon = daemon, .index = i};
        start_thread(&loops[i].thread, "net", loop_main, &loops[i]);
    }
    api_set_ready(daemon->api, true);
    announce(daemon);

    wait_for_stop(daemon, signals);
    log_line(LOG_INFO, "stopping");
    api_set_ready(daemon->api, false);
    api_stop_reads(daemon->api, daemon->config->timeouts_shutdown);
    wire_stop(daemon->wire, daemon->config->timeouts_shutdown);
    reconciler_stop(daemon->reconciler); /* queries that requests wait for come back, too */
    for (unsigned i = 0; i < count; i++)
        pthread_join(loops[i].thread, NULL);
    api_stop(daemon->api);
    stop_reconciling(&reconciling);
    errands_stop(daemon->errands);
    pthread_join(errand, NULL);
    rebuilds_stop(daemon->rebuilds);
    pthread_join(rebuild, NULL);
    tend_stop(daemon->tend);
    pthread_join(tend, NULL);
    free(loops);
}

static enum err run(struct daemon *daemon, const sigset_t *signals, struct buf *why)
{
    struct committing threads;
    start_committing(daemon, &threads);
    enum err e = timekeeper_note_now(daemon->keeper, daemon->queue, false);
    if (e == ERR_OK)
        e = reload_start(daemon->reloader, daemon->config, why);
    else
        buf_add(why, bytes_str(err_sentence(e)));
    if (e == ERR_OK) serve(daemon, signals);
    stop_committing(daemon, &threads);
    return e;
}

static void release(struct daemon *daemon)
{
    if (daemon->wire) wire_free(daemon->wire); /* what was posted late is completed by the API */
    if (daemon->api) api_free(daemon->api);
    if (daemon->reconciler) reconciler_free(daemon->reconciler);
    if (daemon->errands) errands_free(daemon->errands);
    if (daemon->rebuilds) rebuilds_free(daemon->rebuilds);
    if (daemon->tend) tend_free(daemon->tend);
    if (daemon->commit) commit_free(daemon->commit);
    if (daemon->keeper) timekeeper_free(daemon->keeper);
    if (daemon->rulebook) rulebook_free(daemon->rulebook);
    if (daemon->queue) queue_free(daemon->queue);
    if (daemon->reloader) reloader_free(daemon->reloader);
    if (daemon->auth) auth_free(daemon->auth);
    if (daemon->store) store_close(daemon->store);
}

static void block_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGTERM);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, signals, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int daemon_run(const struct config *config, const struct daemon_options *options)
{
    struct config fitting = *config;
    struct daemon daemon = {
        .config = &fitting, .options = options, .enacting = PTHREAD_MUTEX_INITIALIZER};
    char error[512] = "";
    sigset_t signals;
    log_set_level(config->log_level);
    block_signals(&signals); /* before the first thread: they all inherit it */
    descriptors_fit(&fitting);
    must(listen_parse(bytes_str(config->listen), &daemon.listen));

    enum err e = open_store(&daemon, error, sizeof error);
    if (e == ERR_OK) e = keep_time(&daemon, error, sizeof error);
    if (e == ERR_OK) {
        make_commit(&daemon);
        e = auth_new(&daemon.auth, config, error, sizeof error);
    }
    if (e == ERR_OK) make_reloader(&daemon);
    if (e == ERR_OK) make_errands(&daemon);
    if (e == ERR_OK) e = open_wire(&daemon, error, sizeof error);
    struct buf why;
    buf_init(&why, 64u << 10);
    if (e == ERR_OK)
        e = run(&daemon, &signals, &why);
    else
        buf_add(&why, bytes_str(error));
    if (e != ERR_OK) fprintf(stderr, "tally: %.*s\n", (int)why.size, (const char *)why.data);
    buf_release(&why);
    release(&daemon);
    return e == ERR_OK ? 0 : 1;
}
