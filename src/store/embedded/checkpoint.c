/* checkpoint.c -- the tend thread's side: memory goes to the state, then the journal may shrink.
 *
 *   write back -> flush -> `applied` -> flush -> trim
 *
 * (1) Only durable values are written back: entries show nothing else.
 * (2) `applied` moves only after everything up to it is flushed, ids before objects.
 * (3) An entry is clean only after the flush that holds it. If writing or flushing fails, all that
 *     was given to the state is dirty again, so reopening the state loses nothing.
 * (4) After-images are absolute, so a checkpoint need not be one instant: the state may run ahead
 *     of `applied`, never ahead of the journal. */
#include "store/embedded/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crash.h"
#include "base/log.h"

#define WRITE_BACK_CHUNK 256u /* entries a lock hold and a state write */
#define DEAD_CELLS_FEW 256u   /* up to so many are deleted one by one */
#define DIRTY_BYTES_EACH 256u /* generous: a row, its index, and the files' own overhead */
#define ROOM_BYTES (6u << 20) /* RocksDB's manifest, logs of changes, a small compaction */
#define DUE_ROWS_MAX 1000u    /* expiry rows looked at in one go */

static void write_cell(void *context, struct cache_entry *entry)
{
    struct embedded *embedded = context;
    uint64_t series;
    int64_t bucket;
    struct cell cell;
    char key[CELL_KEY_SIZE];
    char due[EXPIRY_KEY_SIZE];
    char room[64];
    cells_value(entry, &series, &bucket, &cell);
    sums_note(embedded->sums, series, bucket, &cell);
    cell_key(key, series, bucket);
    if (!cell.exists) {
        state_batch_delete(embedded->writes, STATE_CELLS, bytes_of(key, sizeof key));
        return;
    }
    struct buf value = {.data = room, .capacity = sizeof room, .max = sizeof room};
    cell_record(&value, &cell);
    must(!value.failed);
    state_batch_put(embedded->writes, STATE_CELLS, bytes_of(key, sizeof key), buf_bytes(&value));
    if (cell.expires_ms == TIME_NONE) return;
    expiry_key(due, cell.expires_ms, series, bucket);
    state_batch_put(embedded->writes, STATE_EXPIRY, bytes_of(due, sizeof due), BYTES(""));
}

static void write_series(struct embedded *embedded, const struct keyed_counter *keyed,
                         struct buf *value)
{
    char key[SERIES_KEY_SIZE];
    for (uint32_t i = 0; i < keyed->counter->count; i++) {
        buf_reset(value);
        series_record(value, keyed->counter->series[i].duration, keyed->key);
        state_batch_put(embedded->writes, STATE_SERIES,
                        series_key(key, keyed->counter->series[i].id), buf_bytes(value));
    }
}

static void write_counter(void *context, struct cache_entry *entry)
{
    struct embedded *embedded = context;
    struct keyed_counter keyed = counters_value(entry);
    if (!keyed.counter) {
        state_batch_delete(embedded->writes, STATE_COUNTERS, keyed.key);
        return;
    }
    struct buf value;
    buf_init(&value, SIZE_MAX / 2);
    counter_record(&value, keyed.counter);
    state_batch_put(embedded->writes, STATE_COUNTERS, keyed.key, buf_bytes(&value));
    write_series(embedded, &keyed, &value);
    buf_release(&value);
}

static void write_tenant(void *context, struct cache_entry *entry)
{
    struct embedded *embedded = context;
    int64_t cells;
    char room[16];
    struct bytes tenant = tenants_value(entry, &cells);
    struct buf value = {.data = room, .capacity = sizeof room, .max = sizeof room};
    tenant_record(&value, cells);
    state_batch_put(embedded->writes, STATE_TENANTS, tenant, buf_bytes(&value));
}

static void write_object(void *context, struct cache_entry *entry)
{
    struct embedded *embedded = context;
    struct keyed_object object = objects_value(entry);
    if (object.value.size)
        state_batch_put(embedded->writes, STATE_OBJECTS, object.key, object.value);
    else
        state_batch_delete(embedded->writes, STATE_OBJECTS, object.key);
}

static enum err write_back_cache(struct embedded *embedded, struct cache *cache,
                                 cache_copy_fn *copy)
{
    for (unsigned i = 0; i < CACHE_SHARDS; i++) {
        while (cache_write_back(cache, i, WRITE_BACK_CHUNK, copy, embedded) > 0) {
            enum err e = state_write(embedded->state, embedded->writes);
            if (e != ERR_OK) return e;
        }
    }
    return ERR_OK;
}

/* The nodes above a chunk of cells go into the same batch. They are worked out after the cache's
 * lock is released: other threads take that lock while they hold the state's. */
static enum err write_back_cells(struct embedded *embedded)
{
    _Static_assert(WRITE_BACK_CHUNK <= SUMS_CHUNK, "every cell of a chunk can be noted");
    struct cache *cache = cells_cache(embedded->cells);
    for (unsigned i = 0; i < CACHE_SHARDS; i++) {
        while (cache_write_back(cache, i, WRITE_BACK_CHUNK, write_cell, embedded) > 0) {
            enum err e = sums_write(embedded->sums, embedded->state, embedded->writes);
            if (e == ERR_OK) e = state_write(embedded->state, embedded->writes);
            if (e != ERR_OK) return e;
        }
    }
    return ERR_OK;
}

/* The cells of an unmapped series. A few are deleted one by one; many by one range tombstone, which
 * would slow scans down if every small series left one behind. */
struct dead_cells {
    struct state_batch *writes;
    size_t count;
};

static bool delete_dead_cell(void *context, struct bytes key, struct bytes value)
{
    struct dead_cells *cells = context;
    (void)value;
    state_batch_delete(cells->writes, STATE_CELLS, key);
    return ++cells->count < DEAD_CELLS_FEW;
}

static enum err write_dead_series(struct embedded *embedded, uint64_t series)
{
    char from[SERIES_KEY_SIZE];
    char to[SERIES_KEY_SIZE];
    struct bytes first = series_key(from, series);
    struct bytes end = series_key(to, series + 1);
    struct dead_cells cells = {.writes = embedded->writes};
    enum err e = state_scan(embedded->state, STATE_CELLS, first, end, delete_dead_cell, &cells);
    if (e != ERR_OK) return e;
    if (cells.count >= DEAD_CELLS_FEW)
        state_batch_delete_range(embedded->writes, STATE_CELLS, first, end);
    state_batch_delete(embedded->writes, STATE_SERIES, first);
    e = sums_bury(embedded->sums, embedded->state, embedded->writes, series);
    if (e != ERR_OK) return e;
    return state_write(embedded->state, embedded->writes);
}

/* Expiry rows that point to such a series are found stale when they come due. */
static enum err write_dead(struct embedded *embedded, const uint64_t *dead, size_t count)
{
    enum err e = ERR_OK;
    for (size_t i = 0; i < count && e == ERR_OK; i++) {
        pthread_rwlock_wrlock(&embedded->living);
        e = write_dead_series(embedded, dead[i]);
        pthread_rwlock_unlock(&embedded->living);
    }
    return e;
}

static enum err write_back(struct embedded *embedded)
{
    enum err e = write_back_cache(embedded, tenants_cache(embedded->tenants), write_tenant);
    if (e == ERR_OK) e = write_back_cache(embedded, objects_cache(embedded->objects), write_object);
    if (e == ERR_OK)
        e = write_back_cache(embedded, counters_cache(embedded->counters), write_counter);
    if (e == ERR_OK) e = write_back_cells(embedded);
    return e;
}

static enum err write_applied(struct embedded *embedded, const struct store_position *position)
{
    char room[48];
    struct buf value = {.data = room, .capacity = sizeof room, .max = sizeof room};
    position_record(&value, position);
    must(!value.failed);
    crash_point("checkpoint.before_applied");
    state_batch_put(embedded->writes, STATE_META, META_APPLIED, buf_bytes(&value));
    enum err e = state_write(embedded->state, embedded->writes);
    if (e == ERR_OK) e = state_flush(embedded->state);
    crash_point("checkpoint.after_applied");
    return e;
}

static void settle(struct embedded *embedded, bool ok)
{
    cache_flushed(tenants_cache(embedded->tenants), ok);
    cache_flushed(objects_cache(embedded->objects), ok);
    cache_flushed(counters_cache(embedded->counters), ok);
    cache_flushed(cells_cache(embedded->cells), ok);
}

static enum err write_everything(struct embedded *embedded, const uint64_t *dead, size_t count)
{
    bool more;
    embedded_beside(embedded, "ids");
    enum err e = registry_write_back(embedded->registry, true, &more);
    crash_point("checkpoint.after_ids");
    embedded_beside(embedded, "write-back");
    if (e == ERR_OK) e = write_back(embedded);
    if (e == ERR_OK) e = write_dead(embedded, dead, count);
    crash_point("checkpoint.before_flush");
    embedded_beside(embedded, "flush");
    if (e == ERR_OK) e = state_flush(embedded->state);
    crash_point("checkpoint.after_flush");
    return e;
}

/* The position that was published when the checkpoint begins; everything up to it is in the caches
 * by then. */
static struct store_position checkpoint_begin(struct embedded *embedded, uint64_t **dead_out,
                                              size_t *count_out)
{
    struct journal_stats journal;
    journal_stats(embedded->journal, &journal);
    embedded->applied_bytes = journal.appended_bytes;
    embedded->checkpoint_ns = clock_mono_ns(embedded->config.clock);
    pthread_mutex_lock(&embedded->pipeline);
    struct store_position position = embedded->durable;
    *dead_out = embedded->dead;
    *count_out = embedded->dead_count;
    embedded->dead = NULL;
    embedded->dead_count = embedded->dead_capacity = 0;
    pthread_mutex_unlock(&embedded->pipeline);
    return position;
}

static void checkpoint_failed(struct embedded *embedded)
{
    log_line(LOG_ERROR, "checkpoint failed", LOG_KV("why", state_error(embedded->state)));
    atomic_fetch_add(&embedded->storage_errors, 1);
    state_batch_clear(embedded->writes); /* half a batch is never written */
    embedded->state_failed = true;
}

static void filters_not_saved(struct embedded *embedded)
{
    log_line(LOG_WARN, "the id filters could not be saved");
    atomic_fetch_add(&embedded->storage_errors, 1);
}

enum err checkpoint_run(struct embedded *embedded)
{
    uint64_t *dead;
    size_t dead_count;
    struct store_position position = checkpoint_begin(embedded, &dead, &dead_count);
    enum err e = write_everything(embedded, dead, dead_count);
    settle(embedded, e == ERR_OK);
    if (e != ERR_OK) embedded_bury(embedded, dead, dead_count);
    free(dead);
    embedded_beside(embedded, "filters");
    /* Filters are saved before `applied` moves: a filter saved too early covers more than it says,
     * one saved too late costs a scan of all ids at the next start. */
    if (e == ERR_OK && registry_save_filters(embedded->registry, position.last_sequence) != ERR_OK)
        filters_not_saved(embedded);
    embedded_beside(embedded, "applied");
    if (e == ERR_OK) e = write_applied(embedded, &position);
    if (e != ERR_OK) {
        checkpoint_failed(embedded);
        return e;
    }
    embedded->applied = position;
    atomic_store(&embedded->applied_sequence, position.last_sequence);
    atomic_fetch_add(&embedded->checkpoints, 1);
    crash_point("checkpoint.before_trim");
    history_trim(embedded);
    return ERR_OK;
}

bool checkpoint_has_room(struct embedded *embedded)
{
    struct cache_stats cells;
    struct cache_stats counters;
    struct cache_stats objects;
    struct registry_stats registry;
    cache_stats(cells_cache(embedded->cells), &cells);
    cache_stats(counters_cache(embedded->counters), &counters);
    cache_stats(objects_cache(embedded->objects), &objects);
    registry_stats(embedded->registry, &registry);
    uint64_t entries = cells.dirty + counters.dirty + objects.dirty + registry.recent;
    bool room = reserve_make_room(&embedded->reserve, ROOM_BYTES + entries * DIRTY_BYTES_EACH);
    if (!room && !embedded->no_room)
        log_line(LOG_ERROR, "the disk is full: changes stay in the journal until there is room");
    embedded->no_room = !room;
    return room;
}

static bool checkpoint_is_due(struct embedded *embedded)
{
    struct journal_stats journal;
    if (atomic_load(&embedded->durable_sequence) == embedded->applied.last_sequence) return false;
    int64_t age_ns = clock_mono_ns(embedded->config.clock) - embedded->checkpoint_ns;
    if (age_ns >= embedded->config.checkpoint_ms * 1000000) return true;
    journal_stats(embedded->journal, &journal);
    if (journal.appended_bytes - embedded->applied_bytes >= embedded->config.checkpoint_bytes)
        return true;
    return cache_pressed(cells_cache(embedded->cells)) ||
           cache_pressed(counters_cache(embedded->counters)) ||
           cache_pressed(objects_cache(embedded->objects));
}

/* RocksDB has no way to resume after an I/O error but to open it anew. What it had not flushed is
 * then gone from it, and dirty in memory (law 3): also what a sweep gave it since the last flush.
 */
static void reopen_state(struct embedded *embedded)
{
    settle(embedded, false);
    state_batch_free(embedded->writes);
    enum err e = state_reopen(embedded->state);
    embedded->writes = state_batch_new(embedded->state);
    if (e == ERR_OK) e = sums_load(embedded->sums, embedded->state);
    embedded->state_failed = e != ERR_OK;
}

static void restart_journal(struct embedded *embedded)
{
    if (journal_restart(embedded->journal) != ERR_OK) return;
    pthread_mutex_lock(&embedded->pipeline);
    must(journal_last_sequence(embedded->journal) == embedded->store.writer.position.last_sequence);
    embedded->down = false;
    pthread_mutex_unlock(&embedded->pipeline);
    log_line(LOG_INFO, "the journal can be written again");
}

static bool tend_sums(struct embedded *embedded)
{
    bool more;
    if (embedded->state_failed) return false;
    embedded_beside(embedded, "sums");
    if (sums_build(embedded->sums, embedded->state, embedded->writes, &more) != ERR_OK)
        checkpoint_failed(embedded);
    return more;
}

static bool tend_state(struct embedded *embedded)
{
    bool more = false;
    if (!checkpoint_has_room(embedded)) return false;
    if (embedded->state_failed) reopen_state(embedded);
    if (embedded->state_failed) return false;
    embedded_beside(embedded, "ids");
    if (registry_write_back(embedded->registry, false, &more) != ERR_OK)
        checkpoint_failed(embedded);
    else if (checkpoint_is_due(embedded))
        (void)!checkpoint_run(embedded);
    more |= tend_sums(embedded);
    reserve_restore(&embedded->reserve);
    return more;
}

/* The journal goes on without spares, and with files it no longer needs, only slower and larger.
 * Where the disk has no room these files fail again at each step, and each failure is logged
 * once. */
static void say_failed_files(struct embedded *embedded)
{
    struct journal_stats journal;
    journal_stats(embedded->journal, &journal);
    if (journal.files_failed == embedded->journal_files_failed) return;
    embedded->journal_files_failed = journal.files_failed;
    if (journal.last_error != ENOSPC && journal.last_error != EDQUOT)
        log_line(LOG_WARN, "a journal file could not be made ahead or let go of",
                 LOG_KV("why", strerror(journal.last_error)));
}

static bool tend_locked(struct embedded *embedded)
{
    embedded_check_tend(embedded);
    pthread_mutex_lock(&embedded->pipeline);
    bool down = embedded->down;
    pthread_mutex_unlock(&embedded->pipeline);
    if (down) restart_journal(embedded);
    embedded_release(embedded);
    bool more = tend_state(embedded);
    embedded_beside(embedded, "archive");
    more |= history_archive(embedded);
    embedded_beside(embedded, "segment");
    more |= journal_prepare(embedded->journal);
    embedded_beside(embedded, "nothing");
    say_failed_files(embedded);
    embedded_check_tend(embedded);
    return more;
}

bool embedded_tend(struct store *store)
{
    struct embedded *embedded = embedded_of(store);
    pthread_mutex_lock(&embedded->tending);
    bool more = tend_locked(embedded);
    pthread_mutex_unlock(&embedded->tending);
    return more;
}

struct due_rows {
    char keys[DUE_ROWS_MAX][EXPIRY_KEY_SIZE];
    size_t count;
    uint64_t young; /* series from this one on may have cells here and no counter yet */
};

static bool due_row(void *context, struct bytes key, struct bytes value)
{
    struct due_rows *rows = context;
    (void)value;
    if (key.size == EXPIRY_KEY_SIZE) memcpy(rows->keys[rows->count++], key.data, key.size);
    return rows->count < DUE_ROWS_MAX;
}

/* Finds whose cell an expiry row points to. ERR_NOT_FOUND: the series was unmapped. Its cells may
 * still lie about until the next checkpoint; to propose them would only keep the sweep from the
 * rows after them. `value` holds the bytes of `counter_out`. */
static enum err due_owner(struct embedded *embedded, uint64_t series, struct buf *value,
                          int32_t *duration_out, struct bytes *counter_out)
{
    char id[SERIES_KEY_SIZE];
    struct series now;
    enum err e = state_get(embedded->state, STATE_SERIES, series_key(id, series), value);
    if (e == ERR_OK) e = series_record_decode(buf_bytes(value), duration_out, counter_out);
    if (e == ERR_OK) e = embedded_series(embedded, *counter_out, *duration_out, &now);
    if (e != ERR_OK) return e;
    return now.id == series ? ERR_OK : ERR_NOT_FOUND;
}

/* A row whose cell is gone, or expires at another time, is out of date. It is removed here, by the
 * thread that writes such rows, so no new row of the same key can be lost. The row of a young
 * series without an owner waits: its counter is on its way. */
static enum err due_check(struct embedded *embedded, const struct due_rows *rows, size_t index,
                          store_due_fn *visit, void *context, bool *go_on_out)
{
    const char *key = rows->keys[index];
    int64_t expires_ms;
    uint64_t series;
    int64_t bucket;
    struct cell cell;
    enum err e = expiry_key_decode(bytes_of(key, EXPIRY_KEY_SIZE), &expires_ms, &series, &bucket);
    if (e == ERR_OK) e = embedded_cell(embedded, series, bucket, &cell);
    if (e != ERR_OK) return e;
    int32_t duration;
    struct bytes counter;
    struct buf value;
    buf_init(&value, SIZE_MAX / 2);
    e = due_owner(embedded, series, &value, &duration, &counter);
    bool orphan = e == ERR_NOT_FOUND;
    if ((orphan && series < rows->young) || !cell.exists || cell.expires_ms != expires_ms) {
        state_batch_delete(embedded->writes, STATE_EXPIRY, bytes_of(key, EXPIRY_KEY_SIZE));
        e = state_write(embedded->state, embedded->writes);
    } else if (e == ERR_OK) {
        *go_on_out = visit(context, counter, duration, bucket);
    }
    buf_release(&value);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* The first series whose counter may not be in the cache yet: a batch publishes its cells first,
 * its counters next and its position last. */
static uint64_t series_published(struct embedded *embedded)
{
    pthread_mutex_lock(&embedded->pipeline);
    uint64_t next = embedded->durable.next_series;
    pthread_mutex_unlock(&embedded->pipeline);
    return next;
}

static enum err due_locked(struct embedded *embedded, int64_t now_ms, store_due_fn *visit,
                           void *context)
{
    if (embedded->state_failed || embedded->no_room) return ERR_STORAGE;
    uint64_t young = series_published(embedded);
    embedded_beside(embedded, "expiry");
    enum err e = write_back(embedded); /* so that the index knows every cell */
    if (e != ERR_OK) {
        settle(embedded, false);
        checkpoint_failed(embedded);
        return e;
    }
    char end[EXPIRY_KEY_SIZE];
    expiry_key(end, now_ms + 1, 0, INT64_MIN);
    struct due_rows *rows = must_calloc(1, sizeof *rows);
    rows->young = young;
    e = state_scan(embedded->state, STATE_EXPIRY, BYTES_NONE, bytes_of(end, sizeof end), due_row,
                   rows);
    bool go_on = true;
    for (size_t i = 0; i < rows->count && e == ERR_OK && go_on; i++)
        e = due_check(embedded, rows, i, visit, context, &go_on);
    free(rows);
    return e;
}

/* This is a step of caretaking like any other: what it has given to the state and not written yet
 * must not pass for flushed in a checkpoint that a snapshot makes meanwhile. */
enum err embedded_due(struct store *store, int64_t now_ms, store_due_fn *visit, void *context)
{
    struct embedded *embedded = embedded_of(store);
    pthread_mutex_lock(&embedded->tending);
    enum err e = due_locked(embedded, now_ms, visit, context);
    embedded_beside(embedded, "nothing");
    pthread_mutex_unlock(&embedded->tending);
    return e;
}
