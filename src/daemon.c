/* daemon.c -- starts everything in order, waits for signals, stops in reverse.
 *
 *   start   store (recovers) -> queue, commit -> auth, api -> wire -> threads -> "ready"
 *   stop    wire (no new requests; what was accepted is answered) -> tend -> commit -> sync ->
 *           store (last checkpoint)
 *
 * It alone sees every module and owns every thread but the readers'. */
#include "daemon.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "api/api.h"
#include "base/listen.h"
#include "base/metrics.h"
#include "commit/commit.h"
#include "store/embedded/embedded.h"
#include "store/memory.h"
#include "tend/tend.h"
#include "wire/loop.h"

#define BATCHES_IN_FLIGHT 4u /* being decided, written or answered at the same time */
#define INLINE_OPS 512u      /* smaller batches are synced by the thread that decided them */
#define SWEEP_OPS 1000u
#define OUTPUT_BYTES_MAX (8u << 20)

struct daemon {
    const struct config *config;
    const struct daemon_options *options;
    struct listen listen;
    struct store *store;
    struct queue *queue;
    struct commit *commit;
    struct auth *auth;
    struct api *api;
    struct wire *wire;
    struct tend *tend;
};

struct loop_thread {
    struct daemon *daemon;
    unsigned index;
    pthread_t thread;
};

static enum err open_store(struct daemon *daemon, char *error, size_t error_size)
{
    const struct config *config = daemon->config;
    if (config->store_kind == CONFIG_STORE_MEMORY) return memory_open(&daemon->store);
    const struct embedded_config embedded = {
        .dir = config->data,
        .clock = &clock_system,
        .cache_bytes = (size_t)config->store_cache_bytes,
        .segment_bytes = (uint64_t)config->journal_segment_bytes,
        .keep_bytes = (uint64_t)config->journal_keep_bytes,
        .keep_ms = config->journal_keep,
        .spare_segments = (unsigned)config->journal_spare_segments,
        .checkpoint_ms = config->checkpoint_every,
        .checkpoint_bytes = (uint64_t)config->checkpoint_journal_bytes,
        .key_keep_ms = config->idempotency_keep,
    };
    return embedded_open(&daemon->store, &embedded, error, error_size);
}

static void wake_wire(void *context)
{
    struct daemon *daemon = context;
    wire_wake(daemon->wire);
}

static void make_commit(struct daemon *daemon)
{
    const struct config *config = daemon->config;
    const struct queue_limits limits = {
        .ops_max = (uint32_t)config->limits_queue_ops,
        .tenant_ops_max = (uint32_t)config->limits_tenant_queue_ops,
        .sync_ops_max = (uint32_t)config->limits_sync_ops,
        .bytes_max = (size_t)config->limits_inflight_bytes,
        .tenant_bytes_max = (size_t)config->limits_inflight_bytes / 5 * 4,
    };
    daemon->queue = queue_new(&limits);
    const struct commit_config commit = {
        .queue = daemon->queue,
        .store = daemon->store,
        .clock = &clock_system,
        .limits = {.tenant_cells = config->limits_tenant_cells,
                   .granularities = (uint32_t)config->limits_counter_granularities,
                   .key_keep_ms = config->idempotency_keep},
        .batch_ops_max = (uint32_t)config->limits_batch_ops,
        .batches_max = BATCHES_IN_FLIGHT,
        .inline_ops = INLINE_OPS,
        .answered = wake_wire,
        .context = daemon,
    };
    daemon->commit = commit_new(&commit);
    const struct tend_config tend = {.store = daemon->store,
                                     .queue = daemon->queue,
                                     .clock = &clock_system,
                                     .sweep_ms = config->expiry_sweep_every,
                                     .sweep_ops = SWEEP_OPS};
    daemon->tend = tend_new(&tend);
}

static void update_store_gauges(struct daemon *daemon)
{
    struct store_stats stats;
    daemon->store->ops->stats(daemon->store, &stats);
    metric_set(METRIC_STORAGE_ERRORS, (double)stats.storage_errors);
    metric_set(METRIC_JOURNAL_BYTES, (double)stats.journal_bytes);
    metric_set(METRIC_JOURNAL_SEGMENTS, (double)stats.journal_segments);
    metric_set(METRIC_JOURNAL_APPENDED, (double)stats.journal_appended_bytes);
    metric_set(METRIC_SYNCS, (double)stats.syncs);
    metric_set(METRIC_CHECKPOINTS, (double)stats.checkpoints);
    metric_set(METRIC_APPLIED_SEQUENCE, (double)stats.applied_sequence);
    metric_set(METRIC_DURABLE_SEQUENCE, (double)stats.durable_sequence);
    metric_set(METRIC_REGISTRY_IDS, (double)stats.registry_ids);
    metric_set(METRIC_REGISTRY_FILTER_BYTES, (double)stats.registry_filter_bytes);
    metric_set(METRIC_CACHE_BYTES, (double)stats.cache_bytes);
    metric_set(METRIC_CACHE_CELLS, (double)stats.cache_cells);
    metric_set(METRIC_DIRTY_CELLS, (double)stats.dirty_cells);
    metric_set(METRIC_DISK_FREE_BYTES, (double)stats.disk_free_bytes);
}

static void update_gauges(void *context)
{
    struct daemon *daemon = context;
    struct wire_stats wire;
    wire_stats(daemon->wire, &wire);
    update_store_gauges(daemon);
    uint32_t depth = queue_depth(daemon->queue);
    metric_set(METRIC_QUEUE_DEPTH, (double)depth);
    metric_set(METRIC_PROJECTION_LAG, depth ? (double)commit_lag_ns(daemon->commit) * 1e-9 : 0);
    metric_set(METRIC_CLOCK_SUSPECT, tend_clock_suspect(daemon->tend));
    metric_set(METRIC_CONNECTIONS, (double)wire.connections_open);
    metric_set(METRIC_CONNECTIONS_TOTAL, (double)wire.connections_total);
}

static enum err open_wire(struct daemon *daemon, char *error, size_t error_size)
{
    const struct config *config = daemon->config;
    const struct api_config api = {.config = config,
                                   .auth = daemon->auth,
                                   .queue = daemon->queue,
                                   .store = daemon->store,
                                   .clock = &clock_system,
                                   .loops = (unsigned)config->threads,
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

static void start_thread(pthread_t *thread, const char *name, void *(*main)(void *), void *context)
{
    int failed = pthread_create(thread, NULL, main, context);
    must(failed == 0);
    pthread_setname_np(*thread, name);
}

/* SIGHUP: new keys and secrets; and the operator's word that the clock is right. A config that does
 * not load changes nothing. */
static void reload(struct daemon *daemon)
{
    struct config config = {0};
    struct config_report report;
    char error[256] = "";
    config_report_init(&report);
    enum err e = config_load(&config, daemon->options->source, &report);
    if (e == ERR_OK) e = auth_reload(daemon->auth, &config, error, sizeof error);
    if (e == ERR_OK)
        log_line(LOG_INFO, "reloaded the config's keys");
    else
        log_line(LOG_ERROR, "the config was not reloaded",
                 LOG_KV("why", report.count ? (const char *)report.text.data : error));
    tend_confirm_clock(daemon->tend);
    config_report_release(&report);
    config_release(&config);
}

static void wait_for_stop(struct daemon *daemon, const sigset_t *signals)
{
    for (;;) {
        int signal = 0;
        if (sigwait(signals, &signal) != 0) continue;
        if (signal != SIGHUP) return;
        reload(daemon);
    }
}

static void announce(struct daemon *daemon)
{
    char url[96];
    bool v6 = strchr(daemon->listen.address, ':') != NULL;
    snprintf(url, sizeof url, v6 ? "http://[%s]:%u" : "http://%s:%u", daemon->listen.address,
             wire_port(daemon->wire));
    printf("tally ready on %s\n", url);
    fflush(stdout);
    if (daemon->options->ready) daemon->options->ready(daemon->options->context, url);
}

static void serve(struct daemon *daemon, const sigset_t *signals)
{
    unsigned count = (unsigned)daemon->config->threads;
    struct loop_thread *loops = must_calloc(count, sizeof *loops);
    pthread_t commit;
    pthread_t sync;
    pthread_t tend;
    start_thread(&sync, "sync", sync_main, daemon);
    start_thread(&commit, "commit", commit_main, daemon);
    start_thread(&tend, "tend", tend_main, daemon);
    for (unsigned i = 0; i < count; i++) {
        loops[i] = (struct loop_thread){.daemon = daemon, .index = i};
        start_thread(&loops[i].thread, "net", loop_main, &loops[i]);
    }
    api_set_ready(daemon->api, true);
    announce(daemon);

    wait_for_stop(daemon, signals);
    log_line(LOG_INFO, "stopping");
    api_set_ready(daemon->api, false);
    wire_stop(daemon->wire, daemon->config->timeouts_shutdown);
    for (unsigned i = 0; i < count; i++)
        pthread_join(loops[i].thread, NULL);
    tend_stop(daemon->tend);
    pthread_join(tend, NULL);
    queue_stop(daemon->queue);
    pthread_join(commit, NULL);
    pthread_join(sync, NULL);
    free(loops);
}

static void release(struct daemon *daemon)
{
    if (daemon->api) api_free(daemon->api);
    if (daemon->wire) wire_free(daemon->wire);
    if (daemon->tend) tend_free(daemon->tend);
    if (daemon->commit) commit_free(daemon->commit);
    if (daemon->queue) queue_free(daemon->queue);
    if (daemon->auth) auth_free(daemon->auth);
    if (daemon->store) daemon->store->ops->close(daemon->store);
}

/* Every connection is a descriptor; the journal and RocksDB want some hundreds. */
static void raise_descriptor_limit(const struct config *config)
{
    struct rlimit limit;
    rlim_t want = (rlim_t)config->limits_connections + 2048;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= want) return;
    limit.rlim_cur = limit.rlim_max < want ? limit.rlim_max : want;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < want)
        log_line(LOG_WARN, "fewer file descriptors than limits.connections may need",
                 LOG_KV("descriptors", (unsigned long long)limit.rlim_cur));
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
    struct daemon daemon = {.config = config, .options = options};
    char error[512] = "";
    sigset_t signals;
    log_set_level(config->log_level);
    block_signals(&signals); /* before the first thread: they all inherit it */
    raise_descriptor_limit(config);
    must(listen_parse(bytes_str(config->listen), &daemon.listen));

    enum err e = open_store(&daemon, error, sizeof error);
    if (e == ERR_OK) {
        make_commit(&daemon);
        e = auth_new(&daemon.auth, config, error, sizeof error);
    }
    if (e == ERR_OK) e = open_wire(&daemon, error, sizeof error);
    if (e == ERR_OK)
        serve(&daemon, &signals);
    else
        fprintf(stderr, "tally: %s\n", error);
    release(&daemon);
    return e == ERR_OK ? 0 : 1;
}
