/* heart.c -- see heart.h. */
#include "support/heart.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include "core/counter.h"
#include "core/name.h"
#include "store/embedded/internal.h"
#include "store/memory.h"
#include "store/postgres/internal.h"
#include "support/cluster.h"

#define CHECKPOINT_MS 1000
#define MEMORY_ROOM (512u << 20) /* bytes that have to be free there */

static int64_t heart_wall(void *context)
{
    return ((struct heart_time *)context)->wall_ms;
}

static int64_t heart_mono(void *context)
{
    return ((struct heart_time *)context)->mono_ns;
}

static int64_t heart_boot(void *context)
{
    return heart_mono(context) / 1000000;
}

static bool heart_synchronised(void *context)
{
    (void)context;
    return false;
}

/* Outlives the heart, as RocksDB's threads do; there is one heart at a time. */
static struct heart_time heart_time = {.clock = {.wall_ms = heart_wall,
                                                 .mono_ns = heart_mono,
                                                 .boot_ms = heart_boot,
                                                 .synchronised = heart_synchronised,
                                                 .context = &heart_time}};

static void heart_answered(void *context)
{
    __atomic_add_fetch(&((struct heart *)context)->wakes, 1, __ATOMIC_RELAXED);
}

static bool is_embedded(const struct heart *heart)
{
    return strstr(heart->config.store, "embedded") != NULL;
}

static bool is_postgres(const struct heart *heart)
{
    return strstr(heart->config.store, "postgres") != NULL;
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
    if (!queue->urgent_ops_max) queue->urgent_ops_max = queue->ops_max;
    if (!queue->bytes_max) queue->bytes_max = 1u << 30;
    struct apply_limits *limits = &config->limits;
    if (!limits->tenant_cells) limits->tenant_cells = 1000000;
    if (!limits->granularities) limits->granularities = 64;
    if (!limits->key_keep_ms) limits->key_keep_ms = 3600 * 1000;
}

static void break_postgres(struct store *inner)
{
    const struct lane_store *lane = LANE_STORE_OF(inner);
    if (lane->link) cluster_kill_backend(link_backend(lane->link));
}

static void break_sync(void *context, struct store *inner)
{
    struct heart *heart = context;
    if (is_embedded(heart))
        io_sim_fail_sync(heart->sim, 1, heart->config.break_keeps ? IO_SIM_KEPT : IO_SIM_LOST);
    else if (is_postgres(heart))
        break_postgres(inner);
    else
        memory_break_sync(inner, heart->config.break_keeps);
}

void heart_break_sync(struct heart *heart)
{
    break_sync(heart, heart->inner);
}

static enum err open_postgres(struct heart *heart)
{
    const struct postgres_config config = {
        .dsn = cluster_dsn(),
        .schema = heart->schema,
        .lanes = heart->config.lanes ? heart->config.lanes : 1,
        .connections = 2,
        .read_connections = 2,
        .cache_bytes = heart->config.cache_bytes,
        .ids_shared = heart->config.limits.ids_shared,
        .key_keep_ms = heart->config.limits.key_keep_ms,
        .clock = &heart->time->clock,
    };
    enum err e = postgres_open(&heart->database, &config, &heart->why);
    if (e == ERR_OK) e = postgres_lane(heart->database, 0, &heart->inner, &heart->why);
    return e;
}

static enum err open_embedded(struct heart *heart)
{
    const struct embedded_config config = {
        .dir = heart->dir.path,
        .io = heart->sim ? &heart->disk.io : NULL,
        .clock = &heart->time->clock,
        .cache_bytes = heart->config.cache_bytes,
        .segment_bytes = heart->config.segment_bytes,
        .checkpoint_ms = CHECKPOINT_MS,
        .checkpoint_bytes = heart->config.checkpoint_bytes,
        .ids_shared = heart->config.limits.ids_shared,
        .archive_ms = heart->config.archive_ms,
        .key_keep_ms = heart->config.limits.key_keep_ms,
    };
    return embedded_open(&heart->inner, &config, &heart->why);
}

static void start(struct heart *heart)
{
    bool wrapped = strncmp(heart->config.store, "fault", 5) == 0;
    heart->store = wrapped ? fault_new(heart->inner, break_sync, heart) : heart->inner;
    heart->asks.secret = &heart->store->secret;
    heart->queue = queue_new(&heart->config.queue, NULL);
    heart->clock = &heart->time->clock;
    if (heart->config.keeps_time) {
        enum err e = timekeeper_new(&heart->keeper, &heart->time->clock, &heart->config.timeline,
                                    heart->store);
        must(e == ERR_OK);
        heart->clock = timekeeper_clock(heart->keeper);
    }
    const struct commit_config commit = {.queue = heart->queue,
                                         .store = heart->store,
                                         .rulebook = heart->rulebook,
                                         .clock = heart->clock,
                                         .limits = heart->config.limits,
                                         .batch_ops_max = heart->config.batch_ops,
                                         .batches_max = heart->config.batches,
                                         .small_ops = heart->config.small_ops,
                                         .answered = heart_answered,
                                         .context = heart};
    heart->commit = commit_new(&commit);
    heart->lane = (struct lane){.store = heart->store,
                                .queue = heart->queue,
                                .rulebook = heart->rulebook,
                                .keeper = heart->keeper,
                                .clock = heart->clock,
                                .commit = heart->commit};
    heart->lanes = (struct lanes){1, &heart->lane};
}

enum err heart_open(struct heart *heart)
{
    must(!heart->store);
    enum err e = is_embedded(heart)   ? open_embedded(heart)
                 : is_postgres(heart) ? open_postgres(heart)
                                      : memory_open(&heart->inner);
    if (e == ERR_OK) start(heart);
    return e;
}

static void stop(struct heart *heart)
{
    commit_free(heart->commit);
    if (heart->keeper) timekeeper_free(heart->keeper);
    heart->keeper = NULL;
    queue_free(heart->queue);
    store_close(heart->store);
    heart->store = heart->inner = NULL;
    if (heart->database) postgres_close(heart->database);
    heart->database = NULL;
}

void heart_close(struct heart *heart)
{
    heart_run(heart);
    stop(heart);
}

/* With the journal simulated, nothing that is to survive depends on the real disk, and the memory
 * file system saves RocksDB's many syncs. */
static void dir_init(struct scratch_dir *dir, bool in_memory)
{
    struct statvfs memory;
    in_memory = in_memory && !getenv("TMPDIR") && access("/dev/shm", W_OK) == 0 &&
                statvfs("/dev/shm", &memory) == 0 &&
                (uint64_t)memory.f_bavail * memory.f_frsize > MEMORY_ROOM;
    if (!in_memory) {
        scratch_dir_init(dir);
        return;
    }
    snprintf(dir->path, sizeof dir->path, "/dev/shm/tally-test-XXXXXX");
    must(mkdtemp(dir->path) != NULL);
}

struct heart *heart_new(struct heart_config config)
{
    static unsigned made;
    struct heart *heart = must_calloc(1, sizeof *heart);
    config_fill(&config);
    heart->config = config;
    heart->time = &heart_time;
    if (!config.beside) heart_time.wall_ms = HEART_START_MS;
    if (!config.beside) heart_time.mono_ns = 0;
    asks_init(&heart->asks, NULL);
    dir_init(&heart->dir, config.simulated_disk);
    if (config.beside)
        memcpy(heart->schema, config.beside->schema, sizeof heart->schema);
    else
        snprintf(heart->schema, sizeof heart->schema, "t%u", ++made);
    heart->rulebook = rulebook_new();
    if (config.simulated_disk) disk_init(&heart->disk);
    heart->sim = heart->disk.sim;
    enum err e = heart_open(heart);
    if (e != ERR_OK) fprintf(stderr, "%s\n", heart->why.text);
    must(e == ERR_OK);
    return heart;
}

void heart_free(struct heart *heart)
{
    if (heart->store) heart_close(heart);
    if (heart->sim) disk_release(&heart->disk);
    for (struct sent *sent = heart->sents, *next; sent; sent = next) {
        next = sent->next;
        free(sent->bundle.ops);
        free(sent);
    }
    rulebook_free(heart->rulebook);
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
            queue_done(heart->queue, &sent->bundle);
            sent->answered = 1;
            sent->bundle.err = ERR_STORAGE;
        }
}

static bool under_way(const struct heart *heart)
{
    for (struct sent *sent = heart->sents; sent; sent = sent->next)
        if (sent->bundle.taken && !sent->answered) return true;
    return false;
}

/* What is under way is written and not synced, so the power cut keeps any part of it. */
void heart_crash(struct heart *heart, uint64_t seed)
{
    if (is_embedded(heart)) {
        if (heart->sim) io_sim_fail_sync(heart->sim, 1, IO_SIM_CACHED);
    } else if (under_way(heart)) {
        heart_break_sync(heart);
    }
    while (commit_sync_now(heart->commit))
        ;
    forget_unanswered(heart);
    if (strstr(heart->config.store, "memory")) return;
    if (is_embedded(heart)) embedded_of(heart->inner)->state_failed = true; /* flush nothing */
    stop(heart);
    if (heart->sim) io_sim_crash(heart->sim, seed);
    enum err e = heart_open(heart);
    if (e != ERR_OK) fprintf(stderr, "%s\n", heart->why.text);
    must(e == ERR_OK);
}

static void sent_done(struct bundle *bundle)
{
    struct sent *sent = bundle->owner;
    sent->answered++;
}

struct sent *heart_send(struct heart *heart, struct bundle shape, const struct op *ops,
                        uint32_t count)
{
    struct sent *sent = must_calloc(1, sizeof *sent);
    sent->bundle = shape;
    sent->bundle.ops = must_calloc(count, sizeof *ops);
    memcpy(sent->bundle.ops, ops, count * sizeof *ops);
    sent->bundle.count = count;
    sent->bundle.whole = shape.whole || shape.atomic || shape.keyed;
    sent->bundle.tenant = ops[0].tenant.size > 0 ? ops[0].tenant : BYTES(""); /* never a null */
    sent->bundle.done = sent_done;
    sent->bundle.owner = sent;
    sent->next = heart->sents;
    heart->sents = sent;
    sent->pushed = queue_push(heart->queue, &sent->bundle);
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
    struct sent *sent = heart_send(heart, (struct bundle){0}, &op, 1);
    must(sent->pushed == ERR_OK);
    heart_run(heart);
    must(sent->answered == 1);
    struct op done = sent->bundle.ops[0];
    if (sent->bundle.err != ERR_OK) done.err = sent->bundle.err;
    return done;
}

void *heart_commit_main(void *context)
{
    struct heart *heart = context;
    while (queue_wait(heart->queue))
        commit_turn(heart->commit);
    commit_close(heart->commit);
    return NULL;
}

void *heart_sync_main(void *context)
{
    struct heart *heart = context;
    while (commit_sync(heart->commit))
        ;
    return NULL;
}

void heart_wait_ms(struct heart *heart, int64_t ms)
{
    heart->time->wall_ms += ms;
    heart->time->mono_ns += ms * 1000000;
}

void heart_tend(struct heart *heart)
{
    unsigned rounds = 0;
    while (store_tend(heart->store))
        must(++rounds < 10000);
}

bool heart_checkpoint(struct heart *heart)
{
    struct store_stats before;
    struct store_stats after;
    store_stats(heart->store, &before);
    heart_wait_ms(heart, CHECKPOINT_MS);
    heart_tend(heart);
    store_stats(heart->store, &after);
    return after.applied_sequence == before.durable_sequence;
}

struct cell_ref heart_ref(struct heart *heart, const char *name, int32_t duration)
{
    struct bytes key = ask_counter(&heart->asks, name);
    return (struct cell_ref){key, fingerprint_of(heart->asks.secret, key), duration, 0};
}

enum err heart_get(struct heart *heart, const char *name, int32_t duration, int64_t bucket,
                   struct cell *cell_out)
{
    struct cell_ref ref = heart_ref(heart, name, duration);
    return view_get(&heart->store->view, &ref, bucket, READ_ALL, cell_out);
}

int64_t heart_net(struct heart *heart, const char *name)
{
    struct cell cell;
    if (heart_get(heart, name, 0, 0, &cell) != ERR_OK) return -1;
    return cell_triple(&cell).net;
}

int64_t heart_rule_net(struct heart *heart, const char *name, uint32_t generation)
{
    struct bytes key = rule_key(&heart->asks.arena, bytes_str(heart->asks.tenant), bytes_str(name),
                                generation, BYTES("{}"));
    struct cell_ref ref = {key, fingerprint_of(heart->asks.secret, key), 0, 0};
    struct cell cell;
    enum err e = view_get(&heart->store->view, &ref, 0, READ_ALL, &cell);
    return e == ERR_OK ? cell_triple(&cell).net : -1;
}

int64_t heart_tenant_cells(struct heart *heart)
{
    struct arena arena;
    arena_init(&arena, 1024);
    struct read_tenant tenant = {.tenant = bytes_str(heart->asks.tenant)};
    struct read_set reads = {.tenants = &tenant, .tenants_count = 1};
    enum err e = writer_begin(&heart->store->writer);
    if (e == ERR_OK) {
        e = writer_load(&heart->store->writer, &reads, &arena);
        writer_abandon(&heart->store->writer, &reads);
    }
    arena_release(&arena);
    return e == ERR_OK ? tenant.cells : -1;
}

/* -- Whether everything fits together ----------------------------------------------------------
 *
 * Gathers first and looks afterwards: a visitor must not call the store. */

struct gathered_cell {
    int64_t bucket;
    struct cell cell;
};

struct gathered_counter {
    struct bytes key;
    const struct counter *counter;
    struct gathered_counter *next;
};

struct gathering {
    struct arena arena;
    struct gathered_counter *counters;
    struct gathered_cell *cells; /* of one series */
    size_t cells_count;
    size_t cells_capacity;
};

static bool gather_counter(void *context, struct bytes key, const struct counter *counter)
{
    struct gathering *gathering = context;
    struct gathered_counter *gathered = arena_alloc(&gathering->arena, sizeof *gathered);
    *gathered =
        (struct gathered_counter){arena_copy(&gathering->arena, key),
                                  counter_copy(&gathering->arena, counter), gathering->counters};
    gathering->counters = gathered;
    return true;
}

static bool gather_cell(void *context, int64_t bucket, const struct cell *cell)
{
    struct gathering *gathering = context;
    if (gathering->cells_count == gathering->cells_capacity) {
        gathering->cells_capacity = gathering->cells_capacity * 2 + 16;
        gathering->cells =
            must_realloc(gathering->cells, gathering->cells_capacity * sizeof *gathering->cells);
    }
    gathering->cells[gathering->cells_count++] = (struct gathered_cell){bucket, *cell};
    return true;
}

static const char *cell_broken(struct store *store, const struct cell_ref *ref,
                               const struct gathered_cell *gathered)
{
    const struct cell *cell = &gathered->cell;
    struct cell got = {0};
    if (!cell->exists || cell->subbed < 0 || cell->added < 0) return "a cell is not a cell";
    if (view_get(&store->view, ref, gathered->bucket, READ_ALL, &got) != ERR_OK)
        return "range has a cell that get has not";
    if (got.added != cell->added || got.subbed != cell->subbed ||
        got.expires_ms != cell->expires_ms || got.start_ms != cell->start_ms ||
        got.updated_ms != cell->updated_ms)
        return "range and get show different values";
    return NULL;
}

/* Of all, and of the middle third. */
static const char *sum_broken(struct store *store, const struct cell_ref *ref,
                              const struct gathering *gathering, bool all)
{
    size_t first = all ? 0 : gathering->cells_count / 3;
    size_t end = all ? gathering->cells_count : gathering->cells_count * 2 / 3;
    struct range_sum sum;
    __int128 added = 0;
    __int128 subbed = 0;
    if (first >= end) return NULL;
    for (size_t i = first; i < end; i++) {
        added += gathering->cells[i].cell.added;
        subbed += gathering->cells[i].cell.subbed;
    }
    int64_t from = all ? INT64_MIN : gathering->cells[first].bucket;
    int64_t to = all ? INT64_MAX : gathering->cells[end - 1].bucket;
    if (view_sum(&store->view, ref, from, to, UINT32_MAX, &sum) != ERR_OK) return "sum failed";
    return sum.added == added && sum.subbed == subbed ? NULL : "sum is not the sum of the range";
}

static const char *series_broken(struct store *store, struct gathering *gathering, struct bytes key,
                                 const struct series *series)
{
    struct cell_ref ref = {key, fingerprint_of(&store->secret, key), series->duration, 0};
    const struct gathered_cell *cells;
    const char *broken = NULL;
    gathering->cells_count = 0;
    if (view_range(&store->view, &ref, INT64_MIN, INT64_MAX, NULL, gather_cell, gathering) !=
        ERR_OK)
        return "range failed";
    cells = gathering->cells;
    for (size_t i = 0; i < gathering->cells_count && !broken; i++) {
        if (i > 0 && cells[i].bucket <= cells[i - 1].bucket) return "range is not in order";
        broken = cell_broken(store, &ref, &cells[i]);
    }
    if (!broken) broken = sum_broken(store, &ref, gathering, true);
    if (!broken) broken = sum_broken(store, &ref, gathering, false);
    if (!broken && (int64_t)gathering->cells_count != series->cells)
        return "a series has another number of cells than it says";
    return broken;
}

static const char *tenant_broken(struct heart *heart, struct gathering *gathering)
{
    struct store *store = heart->store;
    char prefix[64];
    int size = snprintf(prefix, sizeof prefix, "%s%c", heart->asks.tenant, 0);
    if (view_list(&store->view, bytes_of(prefix, (size_t)size), BYTES_NONE, gather_counter,
                  gathering) != ERR_OK)
        return "list failed";
    int64_t cells = 0;
    for (struct gathered_counter *each = gathering->counters; each; each = each->next) {
        if (each->counter->count == 0) return "a listed counter has no granularity";
        for (uint32_t i = 0; i < each->counter->count; i++) {
            const struct series *series = &each->counter->series[i];
            const char *broken = series_broken(store, gathering, each->key, series);
            if (broken) return broken;
            cells += series->cells;
        }
    }
    if (cells != heart_tenant_cells(heart))
        return "the tenant has another number of cells than it says";
    return NULL;
}

const char *heart_broken(struct heart *heart)
{
    struct gathering gathering = {0};
    arena_init(&gathering.arena, 4096);
    const char *broken = tenant_broken(heart, &gathering);
    free(gathering.cells);
    arena_release(&gathering.arena);
    return broken;
}
