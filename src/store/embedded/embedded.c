/* embedded.c -- opens, recovers and closes the embedded store.
 *
 *   DIR/IDENTITY, DIR/LOCK    which store it is (identity.h)
 *   DIR/journal/              segments (journal.h)
 *   DIR/state/                RocksDB (state.h)
 *   DIR/ids/                  event ids and saved filters (registry.h)
 *   DIR/archive/              retained events (archive.h)
 *   DIR/snapshot/             scratch of backups and exports (snapshot.c)
 *   DIR/lent/                 the same of a follower that copies the store
 *
 * Opening: identity and lock, then the state and its `applied`, then the registry, then the journal
 * replays everything after `applied` into memory. Nothing is served before that is done. */
#include "store/embedded/embedded.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/log.h"
#include "base/rwlock.h"
#include "base/tree.h"
#include "store/embedded/journal/block.h"
#include "store/embedded/internal.h"

#define STATE_CACHE_SHARE 4u           /* share of cacheBytes for RocksDB's blocks, */
#define COUNTER_CACHE_SHARE 4u         /* share of the rest for counters, */
#define OBJECT_CACHE_SHARE 8u          /* and for objects; cells have what is left */
#define SEAL_COUNT 262144u             /* ids in one sorted file */
#define SEGMENT_FIRST_BYTES (4u << 20) /* a new journal's, or those of all lanes' together */
#define SEGMENT_FIRST_LEAST (256u << 10)
#define OPEN_ROOM_BYTES (4u << 20) /* RocksDB writes a little when it opens */

static const struct store_ops embedded_ops;
static uint64_t embedded_sequence(struct view *view)
{
    return atomic_load(&embedded_of(view->store)->durable_sequence);
}

static const struct writer_ops embedded_writer_ops;
static const struct view_ops embedded_view_ops;

static enum err make_dir(const char *dir, const char *name, char *path, size_t size,
                         struct reason *why_out)
{
    int need = snprintf(path, size, "%s/%s", dir, name);
    if (need < 0 || (size_t)need >= size) {
        reason_say(why_out, "the path of the data directory is too long.");
        return ERR_STORAGE;
    }
    int result = mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : -errno;
    /* The name is synced even if the directory was there: the process that made it may have been
     * killed before syncing, and all that is in it goes with the name. */
    if (result == 0) result = io_system.ops->sync_dir(&io_system, dir);
    if (result == 0) return ERR_OK;
    reason_say(why_out, "cannot make %s: %s.", path, strerror(-result));
    return ERR_STORAGE;
}

/* A snapshot is removed because its links hold on to room. */
static enum err remove_snapshots(const char *dir, struct reason *why_out)
{
    char path[TREE_PATH_MAX];
    enum err e = tree_path(path, dir, EMBEDDED_SNAPSHOT);
    if (e == ERR_OK) e = tree_remove(path);
    if (e == ERR_OK) e = tree_path(path, dir, EMBEDDED_LENT);
    if (e == ERR_OK) e = tree_remove(path);
    if (e != ERR_OK) reason_say(why_out, "cannot remove %s: %s.", path, strerror(errno));
    return e;
}

/* A compaction forgets a key no earlier than a decision does: by batch time, as far as that is
 * sure. */
static int64_t ids_expired_before(void *context)
{
    struct embedded *embedded = context;
    int64_t sure_ms = atomic_load(&embedded->sure_ms);
    return sure_ms == INT64_MIN ? INT64_MIN : sure_ms - embedded->config.key_keep_ms;
}

static enum err open_state(struct embedded *embedded, struct reason *why_out)
{
    char path[4096];
    enum err e = make_dir(embedded->config.dir, "state", path, sizeof path, why_out);
    if (e != ERR_OK) return e;
    embedded->state_failed = !reserve_make_room(&embedded->reserve, OPEN_ROOM_BYTES);
    struct state_config config = {.dir = path,
                                  .read_only = embedded->state_failed,
                                  .cache_bytes = embedded->config.cache_bytes / STATE_CACHE_SHARE,
                                  .sharers = embedded->config.lanes,
                                  .ids_expired_before = ids_expired_before,
                                  .context = embedded};
    e = state_open(&embedded->state, &config, why_out);
    if (e != ERR_OK) return e;
    embedded->writes = state_batch_new(embedded->state);
    e = sums_load(embedded->sums, embedded->state);
    if (e != ERR_OK) reason_say(why_out, "cannot read which series are summed.");
    return e;
}

static enum err read_applied(struct embedded *embedded, struct reason *why_out)
{
    struct buf value;
    buf_init(&value, 256);
    embedded->applied = (struct store_position){.next_series = SERIES_FIRST, .time_ms = INT64_MIN};
    enum err e = state_get(embedded->state, STATE_META, META_APPLIED, &value);
    if (e == ERR_OK) e = position_record_decode(buf_bytes(&value), &embedded->applied);
    if (e == ERR_NOT_FOUND) e = ERR_OK;
    if (e != ERR_OK) reason_say(why_out, "cannot read `applied` from the state.");
    buf_release(&value);
    embedded->durable = embedded->applied;
    return e;
}

static enum err open_registry(struct embedded *embedded, struct reason *why_out)
{
    char path[4096];
    enum err e = make_dir(embedded->config.dir, "ids", path, sizeof path, why_out);
    if (e != ERR_OK) return e;
    struct registry_config config = {.dir = path,
                                     .io = embedded->config.io,
                                     .state = embedded->state,
                                     .applied = embedded->applied.last_sequence,
                                     .seal_count = SEAL_COUNT};
    e = registry_open(&embedded->registry, &config);
    if (e != ERR_OK) reason_say(why_out, "cannot open the id registry.");
    return e;
}

void embedded_replay_counter(void *context, struct bytes key, const struct counter *counter)
{
    struct embedded *embedded = context;
    counters_replay(embedded->counters, fingerprint_of(&embedded->store.secret, key), key, counter);
}

void embedded_replay_cell(void *context, uint64_t series, int64_t bucket, const struct cell *cell)
{
    struct embedded *embedded = context;
    cells_replay(embedded->cells, series, bucket, cell);
}

void embedded_replay_tenant(void *context, struct bytes tenant, int64_t cells)
{
    struct embedded *embedded = context;
    tenants_replay(embedded->tenants, tenant, cells);
}

void embedded_replay_key(void *context, struct fingerprint print, const struct key_record *record)
{
    struct embedded *embedded = context;
    registry_replay(embedded->registry, print, record);
}

void embedded_replay_object(void *context, struct bytes key, struct bytes value)
{
    struct embedded *embedded = context;
    objects_replay(embedded->objects, fingerprint_of(&embedded->store.secret, key), key, value);
}

static void replay_dead(void *context, uint64_t series)
{
    embedded_bury(context, &series, 1);
}

/* A block of before has no hash inside, and a store that began with one knows none of what came
 * before it. */
static bool continues(uint64_t hash, const struct journal_block *block)
{
    uint64_t before;
    return hash == 0 || !block_before(block, &before) || before == hash;
}

static enum err replay_block(void *context, const struct journal_block *block)
{
    struct embedded *embedded = context;
    struct arena arena;
    const struct block_visitor visitor = {.counter = embedded_replay_counter,
                                          .cell = embedded_replay_cell,
                                          .tenant = embedded_replay_tenant,
                                          .key = embedded_replay_key,
                                          .object = embedded_replay_object,
                                          .dead = replay_dead,
                                          .context = embedded};
    arena_init(&arena, 64u << 10);
    enum err e = block_visit(block->body, block->time_ms, &arena, &visitor);
    arena_release(&arena);
    uint64_t hash = embedded->durable.hash;
    if (e == ERR_OK && !continues(hash, block)) e = ERR_CORRUPT;
    if (hash == 0) (void)!block_before(block, &hash);
    embedded->durable =
        (struct store_position){.last_sequence = block->first_sequence + block->count - 1,
                                .next_series = block->next_series,
                                .time_ms = block->time_ms,
                                .hash = block_hash(hash, block)};
    return e;
}

/* A small world's segments are smaller still, and shall grow all the same. */
static uint64_t first_segment_bytes(const struct embedded_config *config)
{
    uint64_t eighth = config->segment_bytes / 8 / IO_ALIGN * IO_ALIGN;
    uint64_t share = SEGMENT_FIRST_BYTES / config->lanes / IO_ALIGN * IO_ALIGN;
    uint64_t most = share > SEGMENT_FIRST_LEAST ? share : SEGMENT_FIRST_LEAST;
    if (eighth < 4 * IO_ALIGN) return config->segment_bytes;
    return eighth < most ? eighth : most;
}

static enum err open_journal(struct embedded *embedded, struct reason *why_out)
{
    char path[4096];
    const struct embedded_config *config = &embedded->config;
    enum err e = make_dir(config->dir, "journal", path, sizeof path, why_out);
    if (e != ERR_OK) return e;
    struct journal_config journal = {.dir = path,
                                     .io = config->io,
                                     .segment_size = config->segment_bytes,
                                     .first_size = first_segment_bytes(config),
                                     .keep_bytes = config->keep_bytes,
                                     .keep_ms = config->keep_ms,
                                     .spare_count = config->spare_segments,
                                     .installation = embedded->identity.installation};
    e = journal_open(&embedded->journal, &journal, embedded->applied.last_sequence, replay_block,
                     embedded, why_out);
    if (e == ERR_OK) embedded->down = journal_has_failed(embedded->journal);
    return e;
}

static enum err open_archive(struct embedded *embedded, struct reason *why_out)
{
    char path[4096];
    const struct embedded_config *config = &embedded->config;
    enum err e = make_dir(config->dir, "archive", path, sizeof path, why_out);
    if (e != ERR_OK) return e;
    struct archive_config archive = {
        .dir = path, .io = config->io, .installation = embedded->identity.installation};
    return archive_open(&embedded->archive, &archive, why_out);
}

static struct embedded *embedded_new(const struct embedded_config *config)
{
    struct embedded *embedded = must_calloc(1, sizeof *embedded);
    embedded->sure_ms = INT64_MIN;
    size_t memory = config->cache_bytes - config->cache_bytes / STATE_CACHE_SHARE;
    store_init(&embedded->store, &embedded_ops, &embedded_writer_ops, &embedded_view_ops);
    embedded->config = *config;
    if (embedded->config.lanes == 0) embedded->config.lanes = 1;
    if (!embedded->config.io) embedded->config.io = &io_system;
    embedded->identity.lock_fd = -1;
    embedded->counters = counters_new(memory / COUNTER_CACHE_SHARE);
    embedded->objects = objects_new(memory / OBJECT_CACHE_SHARE);
    embedded->cells =
        cells_new(memory - memory / COUNTER_CACHE_SHARE - memory / OBJECT_CACHE_SHARE);
    embedded->tenants = tenants_new();
    embedded->sums = sums_new();
    rwlock_init(&embedded->visible);
    rwlock_init(&embedded->retained);
    rwlock_init(&embedded->living);
    atomic_store(&embedded->pinned, UINT64_MAX);
    embedded_beside(embedded, "nothing");
    atomic_store(&embedded->followed, UINT64_MAX);
    pthread_mutex_init(&embedded->snapshotting, NULL);
    pthread_mutex_init(&embedded->tending, NULL);
    pthread_mutex_init(&embedded->turn, NULL);
    pthread_mutex_init(&embedded->pipeline, NULL);
    return embedded;
}

static void embedded_free(struct embedded *embedded)
{
    if (embedded->archive) archive_close(embedded->archive);
    if (embedded->journal) journal_close(embedded->journal);
    if (embedded->registry) registry_free(embedded->registry);
    if (embedded->writes) state_batch_free(embedded->writes);
    if (embedded->state) state_close(embedded->state);
    for (struct pending *pending = embedded->free_pendings, *next; pending; pending = next) {
        next = pending->next;
        buf_release(&pending->body);
        free(pending);
    }
    cells_free(embedded->cells);
    counters_free(embedded->counters);
    tenants_free(embedded->tenants);
    objects_free(embedded->objects);
    sums_free(embedded->sums);
    pthread_rwlock_destroy(&embedded->visible);
    pthread_rwlock_destroy(&embedded->retained);
    pthread_rwlock_destroy(&embedded->living);
    identity_release(&embedded->identity);
    free(embedded->dead);
    pthread_mutex_destroy(&embedded->pipeline);
    pthread_mutex_destroy(&embedded->turn);
    pthread_mutex_destroy(&embedded->tending);
    pthread_mutex_destroy(&embedded->snapshotting);
    free(embedded);
}

static enum err open_identity(struct embedded *embedded, struct reason *why_out)
{
    const struct embedded_config *config = &embedded->config;
    const struct identity_wish wish = {.ids_shared = config->ids_shared,
                                       .lanes = config->lanes,
                                       .lane = config->lane,
                                       .installation = config->installation};
    struct reason why;
    enum err e = identity_open(&embedded->identity, config->dir, &wish, &why);
    if (e != ERR_OK) reason_say(why_out, "%s", why.text);
    return e;
}

enum err embedded_open(struct store **store_out, const struct embedded_config *config,
                       struct reason *why_out)
{
    struct embedded *embedded = embedded_new(config);
    enum err e = open_identity(embedded, why_out);
    if (e != ERR_OK) goto failed;
    embedded->store.secret = embedded->identity.secret;
    embedded->store.installation = embedded->identity.installation;
    embedded->store.directory = embedded->config.dir;
    e = remove_snapshots(config->dir, why_out);
    if (e != ERR_OK) goto failed;
    reserve_init(&embedded->reserve, config->dir, embedded->config.lanes);
    e = open_state(embedded, why_out);
    if (e != ERR_OK) goto failed;
    e = read_applied(embedded, why_out);
    if (e != ERR_OK) goto failed;
    e = open_registry(embedded, why_out);
    if (e != ERR_OK) goto failed;
    e = open_archive(embedded, why_out);
    if (e != ERR_OK) goto failed;
    e = open_journal(embedded, why_out);
    if (e != ERR_OK) goto failed;

    embedded->store.writer.position = embedded->durable;
    atomic_store(&embedded->durable_sequence, embedded->durable.last_sequence);
    atomic_store(&embedded->applied_sequence, embedded->applied.last_sequence);
    embedded->checkpoint_ns = clock_mono_ns(config->clock);
    history_open(embedded);
    embedded_check_turn(embedded);
    embedded_check_tend(embedded);
    if (embedded->down)
        log_line(LOG_ERROR, "the disk is full: open for reading only until there is room");
    *store_out = &embedded->store;
    return ERR_OK;
failed:
    embedded_free(embedded);
    return e;
}

static void embedded_close(struct store *store)
{
    struct embedded *embedded = embedded_of(store);
    must(embedded->submitted_first == NULL);
    embedded_check_turn(embedded);
    embedded_check_tend(embedded);
    embedded_check_idle(embedded);
    if (embedded->state_failed || !checkpoint_has_room(embedded) ||
        checkpoint_run(embedded) != ERR_OK)
        log_line(LOG_WARN, "closed without a last checkpoint; the journal has everything");
    embedded_free(embedded);
}

void embedded_crash(struct store *store)
{
    struct embedded *embedded = embedded_of(store);
    for (struct write_set *writes = embedded->submitted_first; writes; writes = writes->next) {
        struct pending *pending = writes->stored;
        pending->next = embedded->free_pendings;
        embedded->free_pendings = pending;
    }
    embedded_free(embedded);
}

static void embedded_stats(struct store *store, struct store_stats *stats_out)
{
    struct embedded *embedded = embedded_of(store);
    struct journal_stats journal;
    struct registry_stats registry;
    struct cache_stats cells;
    struct cache_stats counters;
    struct cache_stats objects;
    struct archive_stats archive;
    journal_stats(embedded->journal, &journal);
    registry_stats(embedded->registry, &registry);
    cache_stats(cells_cache(embedded->cells), &cells);
    cache_stats(counters_cache(embedded->counters), &counters);
    cache_stats(objects_cache(embedded->objects), &objects);
    archive_stats(embedded->archive, &archive);
    pthread_mutex_lock(&embedded->pipeline);
    bool writable = !embedded->down;
    pthread_mutex_unlock(&embedded->pipeline);
    *stats_out = (struct store_stats){
        .writable = writable,
        .durable_sequence = atomic_load(&embedded->durable_sequence),
        .applied_sequence = atomic_load(&embedded->applied_sequence),
        .journal_bytes = journal.bytes,
        .journal_segments = journal.segments,
        .journal_appended_bytes = journal.appended_bytes,
        .cache_bytes = cells.bytes + counters.bytes + objects.bytes,
        .cache_cells = cells.entries,
        .dirty_cells = cells.dirty,
        .registry_ids = registry.ids,
        .registry_filter_bytes = registry.filter_bytes,
        .state_bytes = state_disk_bytes(embedded->state),
        .archive_bytes = archive.bytes,
        .archive_files = archive.files,
        .oldest_event_ms = (int64_t)archive.first_arrived_ms,
        .archived_sequence = atomic_load(&embedded->archived),
        .checkpoints = atomic_load(&embedded->checkpoints),
        .syncs = journal.syncs,
        .storage_errors =
            atomic_load(&embedded->storage_errors) + registry.merges_failed + journal.files_failed,
        .disk_free_bytes = reserve_free_bytes(&embedded->reserve),
    };
}

static const struct writer_ops embedded_writer_ops = {
    .begin = embedded_begin,
    .load = embedded_load,
    .submit = embedded_submit,
    .abandon = embedded_abandon,
    .sync = embedded_sync,
};

static const struct view_ops embedded_view_ops = {
    .get = embedded_get,
    .range = embedded_range,
    .sum = embedded_sum,
    .counter = embedded_counter,
    .series = embedded_series_number,
    .list = embedded_list,
    .object = embedded_object,
    .objects = embedded_objects,
    .instant = embedded_instant,
    .events = embedded_events,
    .lookup = embedded_lookup,
    .ids = embedded_ids,
    .sequence = embedded_sequence,
};

static const struct store_ops embedded_ops = {
    .name = "embedded",
    .forget = embedded_forget,
    .snapshot = embedded_snapshot,
    .due = embedded_due,
    .tend = embedded_tend,
    .leads = embedded_leads,
    .stats = embedded_stats,
    .close = embedded_close,
};
