/* state.c -- RocksDB behind typed calls.
 *
 * Every call holds `open_lock` shared, so that state_reopen, which holds it alone, never pulls the
 * database from under a reader. A reopening that waits comes before readers that wait. Writes and
 * flushes also exclude each other (`write_lock`): a flush then has a clear before and after, which
 * is what state_fate tells.
 *
 * (1) Nothing is durable before state_flush or state_ingest: the log is off, closing does not
 *     flush.
 * (2) A batch is durable whole or not at all, over all families (atomic flush).
 * (3) state_flush returns ERR_OK only once no memtable of any family holds anything. */
#include "store/embedded/state/state.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/rwlock.h"
#include "store/embedded/state/mend.h"
#include "store/embedded/state/options.h"

#define STATE_PATH_MAX 4096
#define STATE_MESSAGE_SIZE 1024u /* a sentence with a path in it */
#define STATE_GET_CHUNK 64

struct state {
    char *dir;
    struct state_options options;
    pthread_rwlock_t open_lock;
    pthread_mutex_t write_lock;
    rocksdb_t *db; /* NULL after a failed reopen */
    rocksdb_column_family_handle_t *families[STATE_FAMILY_COUNT];
    rocksdb_readoptions_t *read;
    rocksdb_writeoptions_t *write;
    uint64_t identity;
    _Atomic uint64_t opens;
    _Atomic uint64_t flushes;
    _Atomic uint64_t ingest_number;
};

struct state_batch {
    struct state *state;
    rocksdb_writebatch_t *batch;
    struct state_mark mark;
    bool failed; /* added to while the state was closed */
};

struct state_view {
    struct state *state; /* entered for as long as the view lives */
    const rocksdb_snapshot_t *snapshot;
    rocksdb_readoptions_t *read;
};

static _Thread_local char state_message[STATE_MESSAGE_SIZE];

static enum err state_fail(char *error)
{
    snprintf(state_message, sizeof state_message, "%s", error);
    rocksdb_free(error);
    return ERR_STORAGE;
}

static enum err state_refuse(const char *why)
{
    snprintf(state_message, sizeof state_message, "%s", why);
    return ERR_STORAGE;
}

const char *state_error(struct state *state)
{
    (void)state;
    return state_message;
}

void state_error_forget(struct state *state)
{
    (void)state;
    state_message[0] = '\0';
}

static enum err state_enter(struct state *state)
{
    pthread_rwlock_rdlock(&state->open_lock);
    if (state->db) return ERR_OK;
    pthread_rwlock_unlock(&state->open_lock);
    return state_refuse("the state is closed after an error");
}

static void state_leave(struct state *state)
{
    pthread_rwlock_unlock(&state->open_lock);
}

/* RocksDB writes a little whenever it opens for writing; opened for reading only it writes
 * nothing. */
static char *state_try_read_only(struct state *state)
{
    char *error = NULL;
    state->db = rocksdb_open_for_read_only_column_families(
        state->options.db, state->dir, STATE_FAMILY_COUNT, state_family_names,
        (const rocksdb_options_t *const *)state->options.families, state->families, 0, &error);
    return error;
}

static char *state_try(struct state *state)
{
    char *error = NULL;
    state->db = rocksdb_open_column_families(
        state->options.db, state->dir, STATE_FAMILY_COUNT, state_family_names,
        (const rocksdb_options_t *const *)state->options.families, state->families, &error);
    return error;
}

static enum err state_opened(struct state *state, char *error)
{
    if (error) {
        state->db = NULL;
        return state_fail(error);
    }
    state->identity = state_identity_of(state->dir);
    atomic_fetch_add(&state->opens, 1);
    return ERR_OK;
}

static enum err state_start(struct state *state)
{
    struct reason damage;
    reason_clear(&damage);
    state_mend_leftovers(state->dir);
    char *error = state_try(state);
    if (error && state_mend(state->dir, &damage)) {
        rocksdb_free(error);
        error = state_try(state);
    }
    enum err e = state_opened(state, error);
    return e != ERR_OK && reason_given(&damage) ? state_refuse(damage.text) : e;
}

static void state_stop(struct state *state)
{
    if (!state->db) return;
    for (size_t i = 0; i < STATE_FAMILY_COUNT; i++)
        rocksdb_column_family_handle_destroy(state->families[i]);
    rocksdb_close(state->db);
    state->db = NULL;
}

enum err state_open(struct state **state_out, const struct state_config *config,
                    struct reason *why_out)
{
    struct state *state = must_calloc(1, sizeof *state);
    state->dir = must_alloc(strlen(config->dir) + 1);
    memcpy(state->dir, config->dir, strlen(config->dir) + 1);
    rwlock_init(&state->open_lock);
    pthread_mutex_init(&state->write_lock, NULL);
    state->read = rocksdb_readoptions_create();
    state->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(state->write, 1);
    state_options_init(&state->options, config);

    enum err e =
        config->read_only ? state_opened(state, state_try_read_only(state)) : state_start(state);
    if (e != ERR_OK) {
        reason_say(why_out, "%s", state_message);
        state_close(state);
        state = NULL;
    }
    *state_out = state;
    return e;
}

void state_close(struct state *state)
{
    if (!state) return;
    state_stop(state);
    state_options_release(&state->options);
    rocksdb_writeoptions_destroy(state->write);
    rocksdb_readoptions_destroy(state->read);
    pthread_mutex_destroy(&state->write_lock);
    pthread_rwlock_destroy(&state->open_lock);
    free(state->dir);
    free(state);
}

enum err state_reopen(struct state *state)
{
    pthread_rwlock_wrlock(&state->open_lock);
    state_stop(state);
    enum err e = state_start(state);
    if (e != ERR_OK) (void)!state_opened(state, state_try_read_only(state));
    pthread_rwlock_unlock(&state->open_lock);
    return e;
}

static enum err state_get_held(struct state *state, const rocksdb_readoptions_t *read,
                               enum state_family family, struct bytes key, struct buf *value_out)
{
    char *error = NULL;
    buf_reset(value_out);
    rocksdb_pinnableslice_t *slice =
        rocksdb_get_pinned_cf(state->db, read, state->families[family], key.data, key.size, &error);
    if (error) return state_fail(error);
    if (!slice) return ERR_NOT_FOUND;
    struct bytes value;
    value.data = rocksdb_pinnableslice_value(slice, &value.size);
    buf_add(value_out, value);
    rocksdb_pinnableslice_destroy(slice);
    return value_out->failed ? state_refuse("a stored value is larger than it can be") : ERR_OK;
}

enum err state_get(struct state *state, enum state_family family, struct bytes key,
                   struct buf *value_out)
{
    enum err e = state_enter(state);
    if (e != ERR_OK) return e;
    e = state_get_held(state, state->read, family, key, value_out);
    state_leave(state);
    return e;
}

static enum err state_get_chunk(struct state *state, const rocksdb_readoptions_t *read,
                                enum state_family family, const struct bytes *keys, size_t first,
                                size_t count, state_found_fn *found, void *context)
{
    const char *data[STATE_GET_CHUNK] = {0};
    size_t sizes[STATE_GET_CHUNK] = {0};
    rocksdb_pinnableslice_t *slices[STATE_GET_CHUNK];
    char *errors[STATE_GET_CHUNK];
    enum err e = ERR_OK;
    for (size_t i = 0; i < count; i++) {
        data[i] = keys[first + i].data;
        sizes[i] = keys[first + i].size;
    }
    rocksdb_batched_multi_get_cf(state->db, read, state->families[family], count, data, sizes,
                                 slices, errors, false);
    for (size_t i = 0; i < count; i++) {
        if (errors[i]) e = state_fail(errors[i]);
        if (!slices[i]) continue;
        struct bytes value;
        value.data = rocksdb_pinnableslice_value(slices[i], &value.size);
        if (e == ERR_OK) found(context, first + i, value);
        rocksdb_pinnableslice_destroy(slices[i]);
    }
    return e;
}

static enum err state_get_many_held(struct state *state, const rocksdb_readoptions_t *read,
                                    enum state_family family, const struct bytes *keys,
                                    size_t count, state_found_fn *found, void *context)
{
    enum err e = ERR_OK;
    for (size_t first = 0; first < count && e == ERR_OK; first += STATE_GET_CHUNK) {
        size_t left = count - first;
        e = state_get_chunk(state, read, family, keys, first,
                            left < STATE_GET_CHUNK ? left : STATE_GET_CHUNK, found, context);
    }
    return e;
}

enum err state_get_many(struct state *state, enum state_family family, const struct bytes *keys,
                        size_t count, state_found_fn *found, void *context)
{
    enum err e = state_enter(state);
    if (e != ERR_OK) return e;
    e = state_get_many_held(state, state->read, family, keys, count, found, context);
    state_leave(state);
    return e;
}

/* A scan within one series skips files without it by their filters; a wider one sees all files. */
static bool state_scan_in_series(enum state_family family, struct bytes from, struct bytes to)
{
    return family == STATE_CELLS && from.size >= STATE_SERIES_SIZE &&
           to.size >= STATE_SERIES_SIZE && memcmp(from.data, to.data, STATE_SERIES_SIZE) == 0;
}

static rocksdb_readoptions_t *state_scan_options(enum state_family family, struct bytes from,
                                                 struct bytes to)
{
    rocksdb_readoptions_t *read = rocksdb_readoptions_create();
    if (to.size) rocksdb_readoptions_set_iterate_upper_bound(read, to.data, to.size);
    rocksdb_readoptions_set_total_order_seek(read, !state_scan_in_series(family, from, to));
    rocksdb_readoptions_set_fill_cache(read, family != STATE_IDS); /* ids are read once, at start */
    return read;
}

static void state_scan_walk(rocksdb_iterator_t *iterator, struct bytes from, state_visit_fn *visit,
                            void *context)
{
    if (from.size)
        rocksdb_iter_seek(iterator, from.data, from.size);
    else
        rocksdb_iter_seek_to_first(iterator);
    for (; rocksdb_iter_valid(iterator); rocksdb_iter_next(iterator)) {
        struct bytes key, value;
        key.data = rocksdb_iter_key(iterator, &key.size);
        value.data = rocksdb_iter_value(iterator, &value.size);
        if (!visit(context, key, value)) return;
    }
}

static enum err state_scan_held(struct state *state, const rocksdb_snapshot_t *snapshot,
                                enum state_family family, struct bytes from, struct bytes to,
                                state_visit_fn *visit, void *context)
{
    char *error = NULL;
    rocksdb_readoptions_t *read = state_scan_options(family, from, to);
    rocksdb_readoptions_set_snapshot(read, snapshot);
    rocksdb_iterator_t *iterator =
        rocksdb_create_iterator_cf(state->db, read, state->families[family]);
    state_scan_walk(iterator, from, visit, context);
    rocksdb_iter_get_error(iterator, &error);
    rocksdb_iter_destroy(iterator);
    rocksdb_readoptions_destroy(read);
    return error ? state_fail(error) : ERR_OK;
}

/* An iterator that is given no snapshot takes one of its own. */
enum err state_scan(struct state *state, enum state_family family, struct bytes from,
                    struct bytes to, state_visit_fn *visit, void *context)
{
    enum err e = state_enter(state);
    if (e != ERR_OK) return e;
    e = state_scan_held(state, NULL, family, from, to, visit, context);
    state_leave(state);
    return e;
}

enum err state_view_new(struct state_view **view_out, struct state *state)
{
    *view_out = NULL;
    enum err e = state_enter(state);
    if (e != ERR_OK) return e;
    struct state_view *view = must_calloc(1, sizeof *view);
    view->state = state;
    view->snapshot = rocksdb_create_snapshot(state->db);
    view->read = rocksdb_readoptions_create();
    rocksdb_readoptions_set_snapshot(view->read, view->snapshot);
    *view_out = view;
    return ERR_OK;
}

void state_view_free(struct state_view *view)
{
    if (!view) return;
    rocksdb_readoptions_destroy(view->read);
    rocksdb_release_snapshot(view->state->db, view->snapshot);
    state_leave(view->state);
    free(view);
}

enum err state_view_get(struct state_view *view, enum state_family family, struct bytes key,
                        struct buf *value_out)
{
    return state_get_held(view->state, view->read, family, key, value_out);
}

enum err state_view_get_many(struct state_view *view, enum state_family family,
                             const struct bytes *keys, size_t count, state_found_fn *found,
                             void *context)
{
    return state_get_many_held(view->state, view->read, family, keys, count, found, context);
}

enum err state_view_scan(struct state_view *view, enum state_family family, struct bytes from,
                         struct bytes to, state_visit_fn *visit, void *context)
{
    return state_scan_held(view->state, view->snapshot, family, from, to, visit, context);
}

struct state_batch *state_batch_new(struct state *state)
{
    struct state_batch *batch = must_calloc(1, sizeof *batch);
    batch->state = state;
    batch->batch = rocksdb_writebatch_create();
    return batch;
}

void state_batch_clear(struct state_batch *batch)
{
    rocksdb_writebatch_clear(batch->batch);
    batch->failed = false;
}

void state_batch_free(struct state_batch *batch)
{
    if (!batch) return;
    rocksdb_writebatch_destroy(batch->batch);
    free(batch);
}

/* Asks without the lock: batches belong to the thread that reopens, and they are filled under the
 * caches' locks, which other threads take inside the state's. */
static bool batch_lacks_state(struct state_batch *batch)
{
    if (!batch->state->db) batch->failed = true;
    return batch->failed;
}

void state_batch_put(struct state_batch *batch, enum state_family family, struct bytes key,
                     struct bytes value)
{
    if (batch_lacks_state(batch)) return;
    rocksdb_writebatch_put_cf(batch->batch, batch->state->families[family], key.data, key.size,
                              value.data, value.size);
}

void state_batch_delete(struct state_batch *batch, enum state_family family, struct bytes key)
{
    if (batch_lacks_state(batch)) return;
    rocksdb_writebatch_delete_cf(batch->batch, batch->state->families[family], key.data, key.size);
}

void state_batch_delete_range(struct state_batch *batch, enum state_family family,
                              struct bytes from, struct bytes to)
{
    if (batch_lacks_state(batch)) return;
    rocksdb_writebatch_delete_range_cf(batch->batch, batch->state->families[family], from.data,
                                       from.size, to.data, to.size);
}

static struct state_mark state_mark_now(struct state *state)
{
    return (struct state_mark){atomic_load(&state->opens), atomic_load(&state->flushes)};
}

static enum err state_write_held(struct state *state, struct state_batch *batch)
{
    char *error = NULL;
    pthread_mutex_lock(&state->write_lock);
    batch->mark = state_mark_now(state);
    rocksdb_write(state->db, state->write, batch->batch, &error);
    pthread_mutex_unlock(&state->write_lock);
    return error ? state_fail(error) : ERR_OK;
}

enum err state_write(struct state *state, struct state_batch *batch)
{
    enum err e = state_enter(state);
    if (e == ERR_OK) {
        e = batch->failed ? ERR_STORAGE : state_write_held(state, batch);
        state_leave(state);
    }
    state_batch_clear(batch);
    return e;
}

struct state_mark state_batch_mark(const struct state_batch *batch)
{
    return batch->mark;
}

enum state_fate state_fate(struct state *state, struct state_mark mark)
{
    struct state_mark now = state_mark_now(state);
    if (now.opens != mark.opens) return STATE_LOST;
    return now.flushes > mark.flushes ? STATE_FLUSHED : STATE_PENDING;
}

static enum err state_ingest_fill(rocksdb_sstfilewriter_t *writer, const char *path,
                                  state_next_fn *next, void *context, size_t *count_out)
{
    char *error = NULL;
    struct bytes key, value;
    rocksdb_sstfilewriter_open(writer, path, &error);
    for (*count_out = 0; !error && next(context, &key, &value); ++*count_out)
        rocksdb_sstfilewriter_put(writer, key.data, key.size, value.data, value.size, &error);
    /* RocksDB refuses to finish an empty file. */
    if (!error && *count_out) rocksdb_sstfilewriter_finish(writer, &error); /* syncs it */
    return error ? state_fail(error) : ERR_OK;
}

static enum err state_ingest_write(struct state *state, const char *path, state_next_fn *next,
                                   void *context, size_t *count_out)
{
    rocksdb_envoptions_t *env = rocksdb_envoptions_create();
    rocksdb_sstfilewriter_t *writer = rocksdb_sstfilewriter_create(env, state->options.ingest);
    enum err e = state_ingest_fill(writer, path, next, context, count_out);
    rocksdb_sstfilewriter_destroy(writer);
    rocksdb_envoptions_destroy(env);
    return e;
}

static enum err state_ingest_move(struct state *state, enum state_family family, const char *path)
{
    char *error = NULL;
    rocksdb_ingestexternalfileoptions_t *options = rocksdb_ingestexternalfileoptions_create();
    rocksdb_ingestexternalfileoptions_set_move_files(options, 1);
    rocksdb_ingestexternalfileoptions_set_allow_global_seqno(options, 1);
    rocksdb_ingest_external_file_cf(state->db, state->families[family], &path, 1, options, &error);
    rocksdb_ingestexternalfileoptions_destroy(options);
    return error ? state_fail(error) : ERR_OK;
}

enum err state_ingest(struct state *state, enum state_family family, state_next_fn *next,
                      void *context)
{
    enum err e = state_enter(state);
    if (e != ERR_OK) return e;
    char path[STATE_PATH_MAX];
    size_t count;
    uint64_t number = atomic_fetch_add(&state->ingest_number, 1);
    snprintf(path, sizeof path, "%s/" STATE_INGEST_PREFIX "%llu", state->dir,
             (unsigned long long)number);
    e = state_ingest_write(state, path, next, context, &count);
    crash_point("state.ingest.before_move");
    if (e == ERR_OK && count) e = state_ingest_move(state, family, path);
    unlink(path); /* gone already unless something failed */
    state_leave(state);
    return e;
}

static uint64_t state_property(struct state *state, enum state_family family, const char *name)
{
    uint64_t value = 0;
    rocksdb_property_int_cf(state->db, state->families[family], name, &value);
    return value;
}

/* RocksDB 7.8's C API flushes one family at a time, which would tear batches that span several.
 * A manual compaction flushes all of them at once under atomic_flush, before it looks for files in
 * its range; this range is empty, so nothing else happens. It reports no error, hence
 * state_flush_rest. */
static void state_flush_together(struct state *state)
{
    rocksdb_compactoptions_t *options = rocksdb_compactoptions_create();
    /* it waits for no other compaction */
    rocksdb_compactoptions_set_exclusive_manual_compaction(options, 0);
    rocksdb_compact_range_cf_opt(state->db, state->families[STATE_META], options, NULL, 0, "", 0);
    rocksdb_compactoptions_destroy(options);
}

/* Has nothing to do unless the flush failed; then it says why. */
static enum err state_flush_rest(struct state *state, enum state_family family)
{
    if (state_property(state, family, "rocksdb.num-immutable-mem-table") == 0 &&
        state_property(state, family, "rocksdb.num-entries-active-mem-table") == 0)
        return ERR_OK;
    char *error = NULL;
    rocksdb_flushoptions_t *options = rocksdb_flushoptions_create();
    rocksdb_flushoptions_set_wait(options, 1);
    rocksdb_flush_cf(state->db, options, state->families[family], &error);
    rocksdb_flushoptions_destroy(options);
    return error ? state_fail(error) : ERR_OK;
}

enum err state_flush(struct state *state)
{
    enum err e = state_enter(state);
    if (e != ERR_OK) return e;
    pthread_mutex_lock(&state->write_lock);
    state_flush_together(state);
    for (size_t i = 0; i < STATE_FAMILY_COUNT && e == ERR_OK; i++)
        e = state_flush_rest(state, (enum state_family)i);
    if (e == ERR_OK) atomic_fetch_add(&state->flushes, 1);
    pthread_mutex_unlock(&state->write_lock);
    state_leave(state);
    return e;
}

/* RocksDB would flush here, but one family after the other, so everything was flushed before. */
enum err state_checkpoint(struct state *state, const char *dir)
{
    enum err e = state_enter(state);
    if (e != ERR_OK) return e;
    char *error = NULL;
    rocksdb_checkpoint_t *checkpoint = rocksdb_checkpoint_object_create(state->db, &error);
    if (!error) rocksdb_checkpoint_create(checkpoint, dir, UINT64_MAX, &error);
    rocksdb_checkpoint_object_destroy(checkpoint);
    state_leave(state);
    return error ? state_fail(error) : ERR_OK;
}

uint64_t state_disk_bytes(struct state *state)
{
    uint64_t total = 0;
    if (state_enter(state) != ERR_OK) return 0;
    for (size_t i = 0; i < STATE_FAMILY_COUNT; i++)
        total += state_property(state, (enum state_family)i, "rocksdb.total-sst-files-size");
    state_leave(state);
    return total;
}

uint64_t state_key_count(struct state *state, enum state_family family)
{
    if (state_enter(state) != ERR_OK) return 0;
    uint64_t count = state_property(state, family, "rocksdb.estimate-num-keys");
    state_leave(state);
    return count;
}

uint64_t state_identity(struct state *state)
{
    return state->identity;
}
