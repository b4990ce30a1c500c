/* reads.c -- what readers see: durable values only, memory before disk.
 *
 * A range or a listing first copies what memory has that is newer than the state, then takes a
 * snapshot of the state. In this order nothing falls between the two: what is written back after
 * the copy is in both, and the copy wins. */
#include "store/embedded/internal.h"

#include <stdlib.h>

#include "base/log.h"
#include "core/cell.h"

#define READ_ARENA_CHUNK (16u << 10)
#ifdef TALLY_SMALL_WORLD
#define LIST_CHUNK_FIRST 2u /* newer entries to a chunk of a listing */
#define LIST_CHUNK_MAX 8u
#else
#define LIST_CHUNK_FIRST 64u
#define LIST_CHUNK_MAX 4096u
#endif

enum err embedded_read_ended(struct embedded *embedded, const char *what, enum err e)
{
    static struct log_limit limit = {.lines_max = 10};
    uint64_t left_out;
    if (e != ERR_STORAGE && e != ERR_CORRUPT) return e;
    atomic_fetch_add(&embedded->storage_errors, 1);
    if (log_limit_pass(&limit, clock_wall_ms(embedded->config.clock), &left_out))
        log_line(LOG_ERROR, "the store could not be read", LOG_KV("what", what),
                 LOG_KV("code", err_code(e)), LOG_KV("why", state_error(embedded->state)),
                 LOG_KV("leftOut", left_out));
    state_error_forget(embedded->state); /* the next one may have another reason */
    return e;
}

static enum err read_counter_row(struct embedded *embedded, struct bytes key, struct arena *arena,
                                 const struct counter **counter_out)
{
    struct buf value;
    buf_init(&value, SIZE_MAX / 2);
    *counter_out = NULL;
    enum err e = state_get(embedded->state, STATE_COUNTERS, key, &value);
    if (e == ERR_OK) e = counter_record_decode(buf_bytes(&value), arena, counter_out);
    buf_release(&value);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* `*series_out` has id 0 if there is no such counter or granularity. */
static enum err find_series(struct embedded *embedded, const struct cell_ref *ref,
                            enum read_how how, struct series *series_out)
{
    uint64_t stamp;
    *series_out = (struct series){0};
    if (counters_get(embedded->counters, ref->print, ref->duration, series_out, &stamp))
        return ERR_OK;
    if (how == READ_MEMORY) return ERR_BUSY;
    struct arena arena;
    arena_init(&arena, READ_ARENA_CHUNK);
    const struct counter *counter;
    enum err e = read_counter_row(embedded, ref->counter, &arena, &counter);
    if (e == ERR_OK) {
        counters_offer(embedded->counters, ref->print, ref->counter, counter, stamp);
        const struct series *series = counter_find(counter, ref->duration);
        if (series) *series_out = *series;
    }
    arena_release(&arena);
    return e;
}

enum err embedded_counter(struct view *view, const struct cell_ref *ref, struct arena *arena,
                          const struct counter **counter_out)
{
    struct embedded *embedded = embedded_of(view->store);
    if (counters_copy(embedded->counters, ref->print, arena, counter_out)) return ERR_OK;
    return read_counter_row(embedded, ref->counter, arena, counter_out);
}

enum err embedded_series(struct embedded *embedded, struct bytes counter, int32_t duration,
                         struct series *series_out)
{
    struct cell_ref ref = {.counter = counter,
                           .print = fingerprint_of(&embedded->store.secret, counter),
                           .duration = duration};
    return find_series(embedded, &ref, READ_ALL, series_out);
}

enum err embedded_cell(struct embedded *embedded, uint64_t series, int64_t bucket,
                       struct cell *cell_out)
{
    uint64_t stamp;
    if (cells_get(embedded->cells, series, bucket, cell_out, &stamp)) return ERR_OK;
    char key[CELL_KEY_SIZE];
    struct buf value;
    buf_init(&value, 256);
    *cell_out = cell_absent();
    enum err e = state_get(embedded->state, STATE_CELLS, cell_key(key, series, bucket), &value);
    if (e == ERR_OK) e = cell_record_decode(buf_bytes(&value), cell_out);
    if (e == ERR_NOT_FOUND) e = ERR_OK;
    if (e == ERR_OK) cells_offer(embedded->cells, series, bucket, cell_out, stamp);
    buf_release(&value);
    return e;
}

enum err embedded_get(struct view *view, const struct cell_ref *ref, int64_t bucket,
                      enum read_how how, struct cell *cell_out)
{
    struct embedded *embedded = embedded_of(view->store);
    struct series series;
    uint64_t stamp;
    enum err e = find_series(embedded, ref, how, &series);
    if (e == ERR_OK && series.id == 0) return ERR_NOT_FOUND;
    if (e == ERR_OK && how == READ_ALL)
        e = embedded_cell(embedded, series.id, bucket, cell_out);
    else if (e == ERR_OK && !cells_get(embedded->cells, series.id, bucket, cell_out, &stamp))
        e = ERR_BUSY;
    if (e != ERR_OK) return embedded_read_ended(embedded, "a cell", e);
    return cell_out->exists ? ERR_OK : ERR_NOT_FOUND;
}

/* Two ascending sequences become one; where both have a bucket, memory's is newer. */
struct range_merge {
    const struct bucket_cell *newer;
    size_t newer_count;
    size_t newer_at;
    store_cell_fn *visit;
    void *context;
    bool stopped;
    enum err err;
};

static void merge_visit(struct range_merge *merge, int64_t bucket, const struct cell *cell)
{
    if (merge->stopped || !cell->exists) return;
    merge->stopped = !merge->visit(merge->context, bucket, cell);
}

static void merge_newer_before(struct range_merge *merge, int64_t bucket)
{
    while (merge->newer_at < merge->newer_count && merge->newer[merge->newer_at].bucket < bucket) {
        const struct bucket_cell *newer = &merge->newer[merge->newer_at++];
        merge_visit(merge, newer->bucket, &newer->cell);
    }
}

static bool merge_stored(void *context, struct bytes key, struct bytes value)
{
    struct range_merge *merge = context;
    uint64_t series;
    int64_t bucket;
    struct cell cell;
    merge->err = cell_key_decode(key, &series, &bucket);
    if (merge->err == ERR_OK) merge->err = cell_record_decode(value, &cell);
    if (merge->err != ERR_OK) return false;
    merge_newer_before(merge, bucket);
    if (merge->newer_at < merge->newer_count && merge->newer[merge->newer_at].bucket == bucket)
        cell = merge->newer[merge->newer_at++].cell;
    merge_visit(merge, bucket, &cell);
    return !merge->stopped;
}

struct newer_cells {
    const struct bucket_cell *cells;
    size_t count;
};

static enum err walk_cells(struct embedded *embedded, uint64_t series, int64_t from, int64_t to,
                           const struct newer_cells *newer, store_cell_fn *visit, void *context)
{
    struct range_merge merge = {
        .newer = newer->cells, .newer_count = newer->count, .visit = visit, .context = context};
    char first[CELL_KEY_SIZE];
    char end[CELL_KEY_SIZE + 1] = {0}; /* right after the last key: the end is not included */
    cell_key(first, series, from);
    cell_key(end, series, to);
    enum err e = state_scan(embedded->state, STATE_CELLS, bytes_of(first, sizeof first),
                            bytes_of(end, sizeof end), merge_stored, &merge);
    if (e == ERR_OK) e = merge.err;
    if (e == ERR_OK) merge_newer_before(&merge, INT64_MAX);
    return e;
}

/* Keeps what the first part of a range finds in memory, for all of its parts. */
static void newer_keep(struct embedded *embedded, uint64_t series, int64_t from, int64_t to,
                       struct range_newer *kept)
{
    struct bucket_cell *cells;
    if (kept->series == series) return;
    kept->count = cells_newer(embedded->cells, series, from, to, &cells);
    size_t size = kept->count * sizeof *cells;
    kept->cells = arena_copy(kept->arena, bytes_of((const char *)cells, size)).data;
    kept->series = series;
    free(cells);
}

/* The kept cells that this part still has before it. */
static struct newer_cells newer_from(const struct range_newer *kept, int64_t from)
{
    const struct bucket_cell *cells = kept->cells;
    size_t low = 0;
    size_t high = kept->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (cells[middle].bucket < from)
            low = middle + 1;
        else
            high = middle;
    }
    return (struct newer_cells){cells + low, kept->count - low};
}

static enum err range_part(struct embedded *embedded, uint64_t series, int64_t from, int64_t to,
                           struct range_newer *kept, store_cell_fn *visit, void *context)
{
    struct bucket_cell *cells;
    if (kept) {
        newer_keep(embedded, series, from, to, kept);
        struct newer_cells newer = newer_from(kept, from);
        return walk_cells(embedded, series, from, to, &newer, visit, context);
    }
    size_t count = cells_newer(embedded->cells, series, from, to, &cells);
    struct newer_cells newer = {cells, count};
    enum err e = walk_cells(embedded, series, from, to, &newer, visit, context);
    free(cells);
    return e;
}

/* A counter deleted meanwhile is shown whole: its stored cells stay until no reader walks any
 * more. */
enum err embedded_range(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                        struct range_newer *newer, store_cell_fn *visit, void *context)
{
    struct embedded *embedded = embedded_of(view->store);
    struct series series;
    pthread_rwlock_rdlock(&embedded->living);
    enum err e = find_series(embedded, ref, READ_ALL, &series);
    if (e == ERR_OK && series.id != 0)
        e = range_part(embedded, series.id, from, to, newer, visit, context);
    pthread_rwlock_unlock(&embedded->living);
    return embedded_read_ended(embedded, "a range of cells", e);
}

/* -- Sums -------------------------------------------------------------------------------------- */

struct range_walk {
    const struct cell_ref *ref;
    struct range_sum *sum;
    size_t cells;
    size_t cells_max;
};

static bool walk_cell(void *context, int64_t bucket, const struct cell *cell)
{
    struct range_walk *walk = context;
    (void)bucket;
    walk->cells++;
    if (!cell_ref_shows(walk->ref, cell)) return walk->cells <= walk->cells_max;
    walk->sum->added += cell->added;
    walk->sum->subbed += cell->subbed;
    return walk->cells <= walk->cells_max;
}

static bool has_nodes_inside(const struct series *series, int64_t from, int64_t to)
{
    if (series->duration <= 0 || from > to) return false; /* calendars have few buckets */
    return ((uint64_t)to - (uint64_t)from) / (uint64_t)series->duration >= 2 * SUMS_FAN;
}

/* Takes the sum from nodes where there are any. They hold what is stored, so the newer cells are
 * exchanged for the stored ones of the same snapshot. */
static enum err sum_nodes(struct embedded *embedded, const struct series *series, int64_t from,
                          int64_t to, const struct newer_cells *newer, struct range_sum *sum,
                          bool *summed_out)
{
    struct state_view *view;
    *summed_out = false;
    enum err e = state_view_new(&view, embedded->state);
    if (e == ERR_OK) e = sums_read(view, series, from, to, sum, summed_out);
    if (e == ERR_OK && *summed_out) e = sums_renew(view, series, newer->cells, newer->count, sum);
    state_view_free(view);
    return e;
}

static void hide_over(const struct cell_ref *ref, struct bucket_cell *cells, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!cell_ref_shows(ref, &cells[i].cell)) cells[i].cell.exists = false;
}

/* Nodes need no hiding: a series with exact expiries in the state has none (sums.c). */
static enum err sum_series(struct embedded *embedded, const struct cell_ref *ref,
                           const struct series *series, int64_t from, int64_t to,
                           struct range_walk *walk)
{
    struct bucket_cell *cells;
    bool summed = false;
    enum err e = ERR_OK;
    bool long_range = has_nodes_inside(series, from, to);
    size_t count = cells_newer(embedded->cells, series->id, from, to, &cells);
    struct newer_cells newer = {cells, count};
    hide_over(ref, cells, count);
    if (long_range) e = sum_nodes(embedded, series, from, to, &newer, walk->sum, &summed);
    if (e == ERR_OK && !summed)
        e = walk_cells(embedded, series->id, from, to, &newer, walk_cell, walk);
    if (e == ERR_OK && long_range && walk->cells > SUMS_WALK_MIN)
        sums_ask(embedded->sums, series->id);
    free(cells);
    return e == ERR_OK && walk->cells > walk->cells_max ? ERR_TOO_MANY_CELLS : e;
}

/* A series that dies while it is read may have lost its stored cells and not yet the copied ones:
 * half a sum, which no reader may see. It is unmapped before its cells go, so looking for it again
 * tells. */
enum err embedded_sum(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                      uint32_t cells_max, struct range_sum *sum_out)
{
    struct embedded *embedded = embedded_of(view->store);
    struct series series;
    struct series after;
    enum err e;
    do {
        struct range_walk walk = {.ref = ref, .sum = sum_out, .cells_max = cells_max};
        *sum_out = (struct range_sum){0};
        e = find_series(embedded, ref, READ_ALL, &series);
        if (e == ERR_OK && series.id == 0) return e;
        if (e == ERR_OK) e = sum_series(embedded, ref, &series, from, to, &walk);
        if (e == ERR_OK) e = find_series(embedded, ref, READ_ALL, &after);
    } while (e == ERR_OK && after.id != series.id);
    return embedded_read_ended(embedded, "a sum of cells", e);
}

enum err embedded_series_number(struct view *view, const struct cell_ref *ref, uint64_t *series_out)
{
    struct series series;
    enum err e = find_series(embedded_of(view->store), ref, READ_ALL, &series);
    *series_out = series.id;
    return e;
}

struct list_merge {
    struct arena *arena;
    struct bytes prefix;
    struct bytes after;
    const struct keyed_counter *newer;
    size_t newer_count;
    size_t newer_at;
    store_counter_fn *visit;
    void *context;
    bool stopped;
    enum err err;
};

static void list_visit(struct list_merge *merge, struct bytes key, const struct counter *counter)
{
    if (merge->stopped || !counter) return;
    merge->stopped = !merge->visit(merge->context, key, counter);
}

static void list_newer_before(struct list_merge *merge, struct bytes key)
{
    while (merge->newer_at < merge->newer_count &&
           (!key.data || bytes_compare(merge->newer[merge->newer_at].key, key) < 0)) {
        const struct keyed_counter *newer = &merge->newer[merge->newer_at++];
        list_visit(merge, newer->key, newer->counter);
    }
}

static bool list_stored(void *context, struct bytes key, struct bytes value)
{
    struct list_merge *merge = context;
    if (!bytes_starts(key, merge->prefix)) return false;
    if (bytes_compare(key, merge->after) <= 0) return true;
    const struct counter *counter;
    merge->err = counter_record_decode(value, merge->arena, &counter);
    if (merge->err != ERR_OK) return false;
    list_newer_before(merge, key);
    if (merge->newer_at < merge->newer_count && bytes_equal(merge->newer[merge->newer_at].key, key))
        counter = merge->newer[merge->newer_at++].counter;
    list_visit(merge, key, counter);
    return !merge->stopped;
}

/* The key at which a chunk ends, as the end of a scan, which is not included. BYTES_NONE: at the
 * end of all. */
static struct bytes right_after(struct arena *arena, struct bytes key)
{
    if (!key.data) return BYTES_NONE;
    return bytes_of(arena_copy(arena, key).data, key.size + 1); /* a copy is followed by a zero */
}

/* Lists what memory has of a chunk, and the state's part of it. */
static enum err list_chunk(struct embedded *embedded, const struct cache_wanted *wanted,
                           struct list_merge *merge, struct bytes *upto_out)
{
    struct keyed_counter *newer;
    merge->after = wanted->after;
    merge->newer_at = 0;
    merge->newer_count = counters_newer(embedded->counters, wanted, merge->arena, &newer, upto_out);
    merge->newer = newer;
    struct bytes from =
        bytes_compare(wanted->prefix, wanted->after) > 0 ? wanted->prefix : wanted->after;
    struct bytes end = right_after(merge->arena, *upto_out);
    enum err e = state_scan(embedded->state, STATE_COUNTERS, from, end, list_stored, merge);
    if (e == ERR_OK) e = merge->err;
    if (e == ERR_OK) list_newer_before(merge, BYTES_NONE);
    return e;
}

/* Lists in chunks that grow, so that a few counters cost a few steps, however many are newer than
 * the state, of this tenant or of others. */
enum err embedded_list(struct view *view, struct bytes prefix, struct bytes after,
                       store_counter_fn *visit, void *context)
{
    struct embedded *embedded = embedded_of(view->store);
    struct arena arena;
    enum err e;
    arena_init(&arena, READ_ARENA_CHUNK);
    struct list_merge merge = {
        .arena = &arena, .prefix = prefix, .visit = visit, .context = context};
    struct cache_wanted wanted = {prefix, after, LIST_CHUNK_FIRST};
    do {
        e = list_chunk(embedded, &wanted, &merge, &after);
        wanted.after = after;
        if (wanted.max < LIST_CHUNK_MAX) wanted.max *= 4;
    } while (e == ERR_OK && after.data && !merge.stopped);
    arena_release(&arena);
    return embedded_read_ended(embedded, "the list of counters", e);
}

/* -- Objects ----------------------------------------------------------------------------------- */

enum err embedded_object(struct view *view, struct bytes key, struct buf *value_out)
{
    struct embedded *embedded = embedded_of(view->store);
    struct fingerprint print = fingerprint_of(&view->store->secret, key);
    uint64_t stamp;
    buf_reset(value_out);
    if (!objects_get(embedded->objects, print, value_out, &stamp)) {
        enum err e = state_get(embedded->state, STATE_OBJECTS, key, value_out);
        if (e != ERR_OK && e != ERR_NOT_FOUND) return embedded_read_ended(embedded, "an object", e);
        objects_offer(embedded->objects, print, key, buf_bytes(value_out), stamp);
    }
    return value_out->size ? ERR_OK : ERR_NOT_FOUND;
}

struct object_merge {
    struct bytes prefix;
    struct bytes after;
    const struct keyed_object *newer;
    size_t newer_count;
    size_t newer_at;
    store_object_fn *visit;
    void *context;
    bool stopped;
};

static void object_visit(struct object_merge *merge, struct bytes key, struct bytes value)
{
    if (merge->stopped || value.size == 0) return;
    merge->stopped = !merge->visit(merge->context, key, value);
}

static void objects_before(struct object_merge *merge, struct bytes key)
{
    while (merge->newer_at < merge->newer_count &&
           (!key.data || bytes_compare(merge->newer[merge->newer_at].key, key) < 0)) {
        const struct keyed_object *newer = &merge->newer[merge->newer_at++];
        object_visit(merge, newer->key, newer->value);
    }
}

static bool object_stored(void *context, struct bytes key, struct bytes value)
{
    struct object_merge *merge = context;
    if (!bytes_starts(key, merge->prefix)) return false;
    if (bytes_compare(key, merge->after) <= 0) return true;
    objects_before(merge, key);
    if (merge->newer_at < merge->newer_count && bytes_equal(merge->newer[merge->newer_at].key, key))
        value = merge->newer[merge->newer_at++].value;
    object_visit(merge, key, value);
    return !merge->stopped;
}

static enum err objects_chunk(struct embedded *embedded, const struct cache_wanted *wanted,
                              struct arena *arena, struct object_merge *merge,
                              struct bytes *upto_out)
{
    struct keyed_object *newer;
    merge->after = wanted->after;
    merge->newer_at = 0;
    merge->newer_count = objects_newer(embedded->objects, wanted, arena, &newer, upto_out);
    merge->newer = newer;
    struct bytes from =
        bytes_compare(wanted->prefix, wanted->after) > 0 ? wanted->prefix : wanted->after;
    struct bytes end = right_after(arena, *upto_out);
    enum err e = state_scan(embedded->state, STATE_OBJECTS, from, end, object_stored, merge);
    if (e == ERR_OK) objects_before(merge, BYTES_NONE);
    return e;
}

/* In chunks, like embedded_list. */
enum err embedded_objects(struct view *view, struct bytes prefix, struct bytes after,
                          store_object_fn *visit, void *context)
{
    struct embedded *embedded = embedded_of(view->store);
    struct arena arena;
    enum err e;
    arena_init(&arena, READ_ARENA_CHUNK);
    struct object_merge merge = {.prefix = prefix, .visit = visit, .context = context};
    struct cache_wanted wanted = {prefix, after, LIST_CHUNK_FIRST};
    do {
        e = objects_chunk(embedded, &wanted, &arena, &merge, &after);
        wanted.after = after;
        if (wanted.max < LIST_CHUNK_MAX) wanted.max *= 4;
    } while (e == ERR_OK && after.data && !merge.stopped);
    arena_release(&arena);
    return embedded_read_ended(embedded, "the list of objects", e);
}

/* `read` runs first without the lock, which holds up commits: a read may have to wait for the disk.
 * If a batch was being shown meanwhile it runs again with the lock, and finds what it needs in
 * memory. What is shown is read under the lock of a shard, so a read that saw a part of a batch
 * also sees that `shown` has moved. */
void embedded_instant(struct view *view, view_read_fn *read, void *context)
{
    struct embedded *embedded = embedded_of(view->store);
    uint64_t shown = atomic_load(&embedded->shown);
    read(context, view);
    if (shown % 2 == 0 && atomic_load(&embedded->shown) == shown) return;
    pthread_rwlock_rdlock(&embedded->visible);
    read(context, view);
    pthread_rwlock_unlock(&embedded->visible);
}
