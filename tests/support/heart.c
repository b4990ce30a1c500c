/* heart.c -- see heart.h. */
#include "support/heart.h"

#include "core/counter.h"
#include "store/embedded/internal.h"
#include "store/memory.h"

#define CHECKPOINT_MS 1000

static int64_t heart_wall(void *context)
{
    return ((struct heart *)context)->wall_ms;
}

static int64_t heart_mono(void *context)
{
    return ((struct heart *)context)->mono_ns;
}

static void heart_answered(void *context)
{
    ((struct heart *)context)->wakes++;
}

static bool is_embedded(const struct heart *heart)
{
    return strstr(heart->config.store, "embedded") != NULL;
}

static void config_fill(struct heart_config *config)
{
    if (!config->cache_bytes) config->cache_bytes = 8u << 20;
    if (!config->segment_bytes) config->segment_bytes = 1u << 20;
    if (!config->checkpoint_bytes) config->checkpoint_bytes = 1u << 30;
    if (!config->batch_ops) config->batch_ops = 1000;
    if (!config->batches) config->batches = 8;
    struct queue_limits *queue = &config->queue;
    if (!queue->ops_max) queue->ops_max = 100000;
    if (!queue->tenant_ops_max) queue->tenant_ops_max = queue->ops_max;
    if (!queue->sync_ops_max) queue->sync_ops_max = queue->ops_max;
    if (!queue->bytes_max) queue->bytes_max = 1u << 30;
    struct apply_limits *limits = &config->limits;
    if (!limits->tenant_cells) limits->tenant_cells = 1000000;
    if (!limits->granularities) limits->granularities = 64;
    if (!limits->key_keep_ms) limits->key_keep_ms = 3600 * 1000;
}

static void break_sync(void *context, struct store *inner)
{
    struct heart *heart = context;
    if (is_embedded(heart))
        io_sim_fail_sync(heart->sim, 1, heart->config.break_keeps ? IO_SIM_KEPT : IO_SIM_LOST);
    else
        memory_break_sync(inner, heart->config.break_keeps);
}

static enum err open_embedded(struct heart *heart)
{
    const struct embedded_config config = {
        .dir = heart->dir.path,
        .io = heart->sim ? &heart->disk.io : NULL,
        .clock = &heart->clock,
        .cache_bytes = heart->config.cache_bytes,
        .segment_bytes = heart->config.segment_bytes,
        .checkpoint_ms = CHECKPOINT_MS,
        .checkpoint_bytes = heart->config.checkpoint_bytes,
        .key_keep_ms = heart->config.limits.key_keep_ms,
    };
    return embedded_open(&heart->inner, &config, heart->error, sizeof heart->error);
}

static void start(struct heart *heart)
{
    bool wrapped = strncmp(heart->config.store, "fault", 5) == 0;
    heart->store = wrapped ? fault_new(heart->inner, break_sync, heart) : heart->inner;
    heart->asks.secret = &heart->store->secret;
    heart->queue = queue_new(&heart->config.queue);
    const struct commit_config commit = {.queue = heart->queue,
                                         .store = heart->store,
                                         .clock = &heart->clock,
                                         .limits = heart->config.limits,
                                         .batch_ops_max = heart->config.batch_ops,
                                         .batches_max = heart->config.batches,
                                         .inline_ops = heart->config.inline_ops,
                                         .answered = heart_answered,
                                         .context = heart};
    heart->commit = commit_new(&commit);
}

enum err heart_open(struct heart *heart)
{
    must(!heart->store);
    enum err e = is_embedded(heart) ? open_embedded(heart) : memory_open(&heart->inner);
    if (e == ERR_OK) start(heart);
    return e;
}

static void stop(struct heart *heart)
{
    commit_free(heart->commit);
    queue_free(heart->queue);
    heart->store->ops->close(heart->store);
    heart->store = heart->inner = NULL;
}

void heart_close(struct heart *heart)
{
    heart_run(heart);
    stop(heart);
}

struct heart *heart_new(struct heart_config config)
{
    struct heart *heart = must_calloc(1, sizeof *heart);
    config_fill(&config);
    heart->config = config;
    heart->wall_ms = HEART_START_MS;
    heart->clock = (struct clock){heart_wall, heart_mono, heart};
    asks_init(&heart->asks, NULL);
    scratch_dir_init(&heart->dir);
    if (config.simulated_disk) disk_init(&heart->disk);
    heart->sim = heart->disk.sim;
    enum err e = heart_open(heart);
    must(e == ERR_OK);
    return heart;
}

void heart_free(struct heart *heart)
{
    if (heart->store) heart_close(heart);
    if (heart->sim) disk_release(&heart->disk);
    for (struct sent *sent = heart->sents, *next; sent; sent = next) {
        next = sent->next;
        free(sent->job.ops);
        free(sent);
    }
    asks_release(&heart->asks);
    scratch_dir_release(&heart->dir);
    free(heart);
}

void heart_reopen(struct heart *heart)
{
    heart_close(heart);
    enum err e = heart_open(heart);
    must(e == ERR_OK);
}

/* Nobody will answer these any more. */
static void forget_unanswered(struct heart *heart)
{
    struct slice *slices = must_calloc(heart->config.batch_ops, sizeof *slices);
    while (queue_take(heart->queue, slices, heart->config.batch_ops) > 0)
        ;
    free(slices);
    for (struct sent *sent = heart->sents; sent; sent = sent->next)
        if (sent->pushed == ERR_OK && !sent->answered) {
            queue_done(heart->queue, &sent->job);
            sent->answered = 1;
            sent->job.err = ERR_STORAGE;
        }
}

static bool under_way(const struct heart *heart)
{
    for (struct sent *sent = heart->sents; sent; sent = sent->next)
        if (sent->job.taken && !sent->answered) return true;
    return false;
}

/* What is under way is written and not synced, so the power cut keeps any part of it. */
void heart_crash(struct heart *heart, uint64_t seed)
{
    if (heart->sim) io_sim_fail_sync(heart->sim, 1, IO_SIM_CACHED);
    if (!is_embedded(heart) && under_way(heart)) memory_break_sync(heart->inner, false);
    while (commit_sync_now(heart->commit))
        ;
    forget_unanswered(heart);
    if (!is_embedded(heart)) return;
    embedded_of(heart->inner)->state_failed = true; /* so that closing flushes nothing */
    stop(heart);
    if (heart->sim) io_sim_crash(heart->sim, seed);
    enum err e = heart_open(heart);
    if (e != ERR_OK) fprintf(stderr, "%s\n", heart->error);
    must(e == ERR_OK);
}

static void sent_done(struct job *job)
{
    struct sent *sent = job->owner;
    sent->answered++;
}

struct sent *heart_send(struct heart *heart, struct job shape, const struct op *ops, uint32_t count)
{
    struct sent *sent = must_calloc(1, sizeof *sent);
    sent->job = shape;
    sent->job.ops = must_calloc(count, sizeof *ops);
    memcpy(sent->job.ops, ops, count * sizeof *ops);
    sent->job.count = count;
    sent->job.whole = shape.whole || shape.atomic || shape.keyed;
    sent->job.tenant = ops[0].tenant;
    sent->job.done = sent_done;
    sent->job.owner = sent;
    sent->next = heart->sents;
    heart->sents = sent;
    sent->pushed = queue_push(heart->queue, &sent->job);
    return sent;
}

void heart_run(struct heart *heart)
{
    bool more = true;
    while (more) {
        more = commit_turn(heart->commit);
        more |= commit_sync_now(heart->commit);
    }
}

struct op heart_do(struct heart *heart, struct op op)
{
    struct sent *sent = heart_send(heart, (struct job){0}, &op, 1);
    must(sent->pushed == ERR_OK);
    heart_run(heart);
    must(sent->answered == 1);
    struct op done = sent->job.ops[0];
    if (sent->job.err != ERR_OK) done.err = sent->job.err;
    return done;
}

void heart_wait_ms(struct heart *heart, int64_t ms)
{
    heart->wall_ms += ms;
    heart->mono_ns += ms * 1000000;
}

void heart_tend(struct heart *heart)
{
    unsigned rounds = 0;
    while (heart->store->ops->tend(heart->store))
        must(++rounds < 10000);
}

bool heart_checkpoint(struct heart *heart)
{
    struct store_stats before;
    struct store_stats after;
    heart->store->ops->stats(heart->store, &before);
    heart_wait_ms(heart, CHECKPOINT_MS);
    heart_tend(heart);
    heart->store->ops->stats(heart->store, &after);
    return after.applied_sequence == before.durable_sequence;
}

struct cell_ref heart_ref(struct heart *heart, const char *name, int32_t duration)
{
    struct bytes key = ask_counter(&heart->asks, name);
    return (struct cell_ref){key, fingerprint_of(heart->asks.secret, key), duration};
}

enum err heart_get(struct heart *heart, const char *name, int32_t duration, int64_t bucket,
                   struct cell *cell_out)
{
    struct cell_ref ref = heart_ref(heart, name, duration);
    return heart->store->ops->get(heart->store, &ref, bucket, READ_ALL, cell_out);
}

int64_t heart_net(struct heart *heart, const char *name)
{
    struct cell cell;
    if (heart_get(heart, name, 0, 0, &cell) != ERR_OK) return -1;
    return cell_triple(&cell).net;
}

int64_t heart_tenant_cells(struct heart *heart)
{
    struct arena arena;
    arena_init(&arena, 1024);
    struct read_tenant tenant = {.tenant = bytes_str(heart->asks.tenant)};
    struct read_set reads = {.tenants = &tenant, .tenants_count = 1};
    enum err e = heart->store->ops->load(heart->store, &reads, &arena);
    if (e == ERR_OK) heart->store->ops->abandon(heart->store, &reads);
    arena_release(&arena);
    return e == ERR_OK ? tenant.cells : -1;
}

/* -- Whether everything fits together ---------------------------------------------------------- */

struct looking {
    struct heart *heart;
    struct bytes key;
    int32_t duration;
    int64_t cells;       /* of one series */
    int64_t cells_total; /* of the tenant */
    int64_t last_bucket;
    const char *broken;
};

static bool look_at_cell(void *context, int64_t bucket, const struct cell *cell)
{
    struct looking *looking = context;
    struct store *store = looking->heart->store;
    struct cell_ref ref = {looking->key, fingerprint_of(&store->secret, looking->key),
                           looking->duration};
    struct cell got = {0};
    if (store->ops->get(store, &ref, bucket, READ_ALL, &got) != ERR_OK)
        looking->broken = "range has a cell that get has not";
    else if (got.added != cell->added || got.subbed != cell->subbed ||
             got.expires_ms != cell->expires_ms || got.updated_ms != cell->updated_ms)
        looking->broken = "range and get show different values";
    else if (!cell->exists || cell->subbed < 0 || cell->added < cell->subbed)
        looking->broken = "a cell is not a cell";
    else if (looking->cells && bucket <= looking->last_bucket)
        looking->broken = "range is not in order of time";
    looking->last_bucket = bucket;
    looking->cells++;
    return !looking->broken;
}

static bool look_at_counter(void *context, struct bytes key, const struct counter *counter)
{
    struct looking *looking = context;
    struct store *store = looking->heart->store;
    if (counter->count == 0) looking->broken = "a listed counter has no granularity";
    for (uint32_t i = 0; i < counter->count && !looking->broken; i++) {
        const struct series *series = &counter->series[i];
        struct cell_ref ref = {key, fingerprint_of(&store->secret, key), series->duration};
        looking->key = key;
        looking->duration = series->duration;
        looking->cells = 0;
        if (store->ops->range(store, &ref, INT64_MIN, INT64_MAX, look_at_cell, looking) != ERR_OK)
            looking->broken = "range failed";
        else if (looking->cells != series->cells && !looking->broken)
            looking->broken = "a series has another number of cells than it says";
        looking->cells_total += looking->cells;
    }
    return !looking->broken;
}

const char *heart_broken(struct heart *heart)
{
    struct looking looking = {.heart = heart};
    char prefix[64];
    int size = snprintf(prefix, sizeof prefix, "%s%c", heart->asks.tenant, 0);
    if (heart->store->ops->list(heart->store, bytes_of(prefix, (size_t)size), BYTES_NONE,
                                look_at_counter, &looking) != ERR_OK)
        return "list failed";
    if (looking.broken) return looking.broken;
    if (looking.cells_total != heart_tenant_cells(heart))
        return "the tenant has another number of cells than it says";
    return NULL;
}
