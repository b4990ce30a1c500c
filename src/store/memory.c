/* memory.c -- two sets of plain tables: `head` has everything submitted, `shown` what is durable.
 *
 * Speed is no aim here; being obviously right is. A failed sync copies `shown` over `head`. */
#include "store/memory.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/cell.h"
#include "core/counter.h"
#include "store/memory_history.h"
#include "store/memory_tables.h"

struct memory {
    struct store store;
    pthread_mutex_t turn;
    pthread_mutex_t lock; /* for everything below */
    struct tables head;
    struct tables shown;
    struct history history; /* shown events */
    struct store_position shown_position;
    struct write_set *submitted_first;
    struct write_set *submitted_last;
    bool breaking;
    bool break_keeps;
    uint64_t errors;
    uint64_t syncs;
};

#define MEMORY_OF(pointer) CONTAINER_OF(pointer, struct memory, store)

/* -- The turn ---------------------------------------------------------------------------------- */

static void load_counter(struct tables *tables, struct read_counter *read, struct arena *arena)
{
    struct object *object = tables_find(tables, COUNTERS, read->key);
    read->value =
        object ? counter_copy(arena, (const struct counter *)(void *)object->value) : NULL;
}

static void load_cell(struct tables *tables, const struct read_set *reads, struct read_cell *read)
{
    const struct series *series =
        counter_find(reads->counters[read->counter_index].value, read->duration);
    read->value = cell_absent();
    read->series = series ? series->id : 0;
    struct cell_place place = {read->series, read->bucket};
    struct object *object = tables_find(tables, CELLS, bytes_of(&place, sizeof place));
    if (series && object) memcpy(&read->value, object->value, sizeof read->value);
}

static void load_key(struct tables *tables, struct read_key *read, struct arena *arena)
{
    struct object *object = tables_find(tables, KEYS, bytes_of(&read->print, sizeof read->print));
    read->value = (struct key_record){0};
    if (!object) return;
    memcpy(&read->value, object->value, sizeof read->value);
    read->value.outcome = arena_copy(arena, bytes_of(object->value + sizeof read->value,
                                                     object->value_size - sizeof read->value));
}

static enum err memory_begin(struct writer *writer)
{
    pthread_mutex_lock(&MEMORY_OF(writer->store)->turn);
    return ERR_OK;
}

static void load_object(struct tables *tables, struct read_object *read, struct arena *arena)
{
    struct object *object = tables_find(tables, OBJECTS, read->key);
    read->value = object ? arena_copy(arena, object_value(object)) : BYTES_NONE;
}

static enum err memory_load(struct writer *writer, struct read_set *reads, struct arena *arena)
{
    struct memory *memory = MEMORY_OF(writer->store);
    pthread_mutex_lock(&memory->lock);
    for (uint32_t i = reads->loaded.objects; i < reads->objects_count; i++)
        load_object(&memory->head, &reads->objects[i], arena);
    for (uint32_t i = reads->loaded.counters; i < reads->counters_count; i++)
        load_counter(&memory->head, &reads->counters[i], arena);
    for (uint32_t i = reads->loaded.cells; i < reads->cells_count; i++)
        load_cell(&memory->head, reads, &reads->cells[i]);
    for (uint32_t i = reads->loaded.tenants; i < reads->tenants_count; i++) {
        struct object *object = tables_find(&memory->head, TENANTS, reads->tenants[i].tenant);
        reads->tenants[i].cells = 0;
        if (object) memcpy(&reads->tenants[i].cells, object->value, sizeof(int64_t));
    }
    for (uint32_t i = reads->loaded.keys; i < reads->keys_count; i++)
        load_key(&memory->head, &reads->keys[i], arena);
    reads->loaded = (struct loaded){reads->counters_count, reads->cells_count, reads->tenants_count,
                                    reads->keys_count, reads->objects_count};
    pthread_mutex_unlock(&memory->lock);
    return ERR_OK;
}

static void memory_abandon(struct writer *writer, struct read_set *reads)
{
    (void)reads;
    pthread_mutex_unlock(&MEMORY_OF(writer->store)->turn);
}

static void memory_submit(struct writer *writer, struct write_set *writes)
{
    struct memory *memory = MEMORY_OF(writer->store);
    pthread_mutex_lock(&memory->lock);
    if (writes->count > 0) {
        must(writes->first_sequence == writer->position.last_sequence + 1);
        tables_apply(&memory->head, writes);
        writer->position =
            (struct store_position){.last_sequence = writes->first_sequence + writes->count - 1,
                                    .next_series = writes->next_series,
                                    .time_ms = writes->time_ms};
    }
    writes->next = NULL;
    *(memory->submitted_last ? &memory->submitted_last->next : &memory->submitted_first) = writes;
    memory->submitted_last = writes;
    pthread_mutex_unlock(&memory->lock);
    pthread_mutex_unlock(&memory->turn);
}

/* -- Making durable ---------------------------------------------------------------------------- */

static struct write_set *take_submitted(struct memory *memory)
{
    struct write_set *list = memory->submitted_first;
    memory->submitted_first = memory->submitted_last = NULL;
    return list;
}

static void show(struct memory *memory, const struct write_set *list)
{
    for (const struct write_set *writes = list; writes; writes = writes->next) {
        if (writes->count == 0) continue;
        tables_apply(&memory->shown, writes);
        history_take(&memory->history, writes);
        memory->shown_position =
            (struct store_position){.last_sequence = writes->first_sequence + writes->count - 1,
                                    .next_series = writes->next_series,
                                    .time_ms = writes->time_ms};
    }
}

static void wind_back(struct memory *memory)
{
    tables_copy(&memory->head, &memory->shown);
    memory->store.writer.position = memory->shown_position;
}

static uint32_t memory_sync(struct writer *writer)
{
    struct memory *memory = MEMORY_OF(writer->store);
    pthread_mutex_lock(&memory->turn);
    pthread_mutex_lock(&memory->lock);
    struct write_set *list = take_submitted(memory);
    enum err e = list && memory->breaking ? ERR_STORAGE : ERR_OK;
    if (e == ERR_OK || memory->break_keeps) show(memory, list);
    if (e != ERR_OK) {
        memory->breaking = false;
        memory->errors++;
        wind_back(memory);
    }
    if (list) memory->syncs++;
    pthread_mutex_unlock(&memory->lock);
    if (e == ERR_OK) pthread_mutex_unlock(&memory->turn);
    uint32_t count = 0;
    for (struct write_set *writes = list, *next; writes; writes = next) {
        next = writes->next;
        writer->durable(writer->durable_context, writes->batch, e);
        count++;
    }
    /* A failure is told before the next turn, which must not go by what failed. */
    if (e != ERR_OK) pthread_mutex_unlock(&memory->turn);
    return count;
}

void memory_break_sync(struct store *store, bool kept)
{
    struct memory *memory = MEMORY_OF(store);
    pthread_mutex_lock(&memory->lock);
    memory->breaking = true;
    memory->break_keeps = kept;
    pthread_mutex_unlock(&memory->lock);
}

void memory_crash(struct store *store)
{
    struct memory *memory = MEMORY_OF(store);
    pthread_mutex_lock(&memory->lock);
    take_submitted(memory);
    wind_back(memory);
    pthread_mutex_unlock(&memory->lock);
}

/* -- Readers ----------------------------------------------------------------------------------- */

static const struct counter *shown_counter(struct memory *memory, struct bytes key)
{
    struct object *object = tables_find(&memory->shown, COUNTERS, key);
    return object ? (const struct counter *)(void *)object->value : NULL;
}

static enum err memory_get(struct view *view, const struct cell_ref *ref, int64_t bucket,
                           enum read_how how, struct cell *cell_out)
{
    struct memory *memory = MEMORY_OF(view->store);
    (void)how;
    pthread_mutex_lock(&memory->lock);
    const struct series *series = counter_find(shown_counter(memory, ref->counter), ref->duration);
    struct cell_place place = {series ? series->id : 0, bucket};
    struct object *object = tables_find(&memory->shown, CELLS, bytes_of(&place, sizeof place));
    bool found = series && object;
    if (found) memcpy(cell_out, object->value, sizeof *cell_out);
    pthread_mutex_unlock(&memory->lock);
    return found ? ERR_OK : ERR_NOT_FOUND;
}

static enum err memory_counter(struct view *view, const struct cell_ref *ref, struct arena *arena,
                               const struct counter **counter_out)
{
    struct memory *memory = MEMORY_OF(view->store);
    pthread_mutex_lock(&memory->lock);
    *counter_out = counter_copy(arena, shown_counter(memory, ref->counter));
    pthread_mutex_unlock(&memory->lock);
    return ERR_OK;
}

/* Copies of matching objects, sorted by key, so that visitors run without the lock. */
struct gathering {
    struct tables *tables;
    bool (*wanted)(struct gathering *gathering, const struct object *object); /* NULL: all are */
    struct object **objects;
    size_t count;
    size_t capacity;
    struct bytes prefix;
    struct bytes after;
    uint64_t series;
    int64_t from;
    int64_t to;
};

static struct object *object_clone(const struct object *object)
{
    struct object *clone = must_alloc(sizeof *clone + object->key_size);
    memcpy(clone, object, sizeof *clone + object->key_size);
    clone->value = must_alloc(object->value_size);
    memcpy(clone->value, object->value, object->value_size);
    return clone;
}

static void gather_object(void *context, enum kind kind, const struct object *object)
{
    struct gathering *gathering = context;
    (void)kind;
    if (gathering->wanted && !gathering->wanted(gathering, object)) return;
    if (gathering->count == gathering->capacity) {
        gathering->capacity = gathering->capacity ? gathering->capacity * 2 : 16;
        gathering->objects =
            must_realloc(gathering->objects, gathering->capacity * sizeof(struct object *));
    }
    gathering->objects[gathering->count++] = object_clone(object);
}

static void gather(struct memory *memory, enum kind kind, struct gathering *gathering,
                   int (*compare)(const void *, const void *))
{
    pthread_mutex_lock(&memory->lock);
    tables_each(&memory->shown, kind, gather_object, gathering);
    pthread_mutex_unlock(&memory->lock);
    if (gathering->count)
        qsort(gathering->objects, gathering->count, sizeof(struct object *), compare);
}

static void gathering_release(struct gathering *gathering)
{
    for (size_t i = 0; i < gathering->count; i++)
        object_free(NULL, KINDS, gathering->objects[i]);
    free(gathering->objects);
}

static struct cell_place object_place(const struct object *object)
{
    struct cell_place place;
    memcpy(&place, object->key, sizeof place);
    return place;
}

static int compare_places(const void *a, const void *b)
{
    struct cell_place left = object_place(*(struct object *const *)a);
    struct cell_place right = object_place(*(struct object *const *)b);
    return left.bucket < right.bucket ? -1 : left.bucket > right.bucket;
}

static int compare_keys(const void *a, const void *b)
{
    const struct object *left = *(struct object *const *)a;
    const struct object *right = *(struct object *const *)b;
    return bytes_compare(bytes_of(left->key, left->key_size),
                         bytes_of(right->key, right->key_size));
}

static bool cell_wanted(struct gathering *gathering, const struct object *object)
{
    struct cell_place place = object_place(object);
    return place.series == gathering->series && place.bucket >= gathering->from &&
           place.bucket <= gathering->to;
}

static enum err memory_range(struct view *view, const struct cell_ref *ref, int64_t from,
                             int64_t to, struct range_newer *newer, store_cell_fn *visit,
                             void *context)
{
    (void)newer;
    struct memory *memory = MEMORY_OF(view->store);
    pthread_mutex_lock(&memory->lock);
    const struct series *series = counter_find(shown_counter(memory, ref->counter), ref->duration);
    struct gathering gathering = {
        .wanted = cell_wanted, .series = series ? series->id : 0, .from = from, .to = to};
    pthread_mutex_unlock(&memory->lock);
    gather(memory, CELLS, &gathering, compare_places);
    for (size_t i = 0; i < gathering.count; i++) {
        struct cell cell;
        memcpy(&cell, gathering.objects[i]->value, sizeof cell);
        if (!visit(context, object_place(gathering.objects[i]).bucket, &cell)) break;
    }
    gathering_release(&gathering);
    return ERR_OK;
}

struct summing {
    const struct cell_ref *ref;
    struct range_sum *sum;
    uint32_t cells_left;
    bool over;
};

static bool sum_cell(void *context, int64_t bucket, const struct cell *cell)
{
    struct summing *summing = context;
    (void)bucket;
    if (!cell_ref_shows(summing->ref, cell)) return true;
    summing->over = summing->cells_left-- == 0;
    if (summing->over) return false;
    summing->sum->added += cell->added;
    summing->sum->subbed += cell->subbed;
    return true;
}

static enum err memory_sum(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                           uint32_t cells_max, struct range_sum *sum_out)
{
    struct summing summing = {.ref = ref, .sum = sum_out, .cells_left = cells_max};
    *sum_out = (struct range_sum){0};
    enum err e = memory_range(view, ref, from, to, NULL, sum_cell, &summing);
    return e == ERR_OK && summing.over ? ERR_TOO_MANY_CELLS : e;
}

static enum err memory_series(struct view *view, const struct cell_ref *ref, uint64_t *series_out)
{
    struct memory *memory = MEMORY_OF(view->store);
    pthread_mutex_lock(&memory->lock);
    const struct series *series = counter_find(shown_counter(memory, ref->counter), ref->duration);
    *series_out = series ? series->id : 0;
    pthread_mutex_unlock(&memory->lock);
    return ERR_OK;
}

static bool counter_wanted(struct gathering *gathering, const struct object *object)
{
    struct bytes key = bytes_of(object->key, object->key_size);
    return bytes_starts(key, gathering->prefix) && bytes_compare(key, gathering->after) > 0;
}

static enum err memory_list(struct view *view, struct bytes prefix, struct bytes after,
                            store_counter_fn *visit, void *context)
{
    struct gathering gathering = {.wanted = counter_wanted, .prefix = prefix, .after = after};
    gather(MEMORY_OF(view->store), COUNTERS, &gathering, compare_keys);
    for (size_t i = 0; i < gathering.count; i++) {
        const struct object *object = gathering.objects[i];
        if (!visit(context, bytes_of(object->key, object->key_size),
                   (const struct counter *)(void *)object->value))
            break;
    }
    gathering_release(&gathering);
    return ERR_OK;
}

static enum err memory_object(struct view *view, struct bytes key, struct buf *value_out)
{
    struct memory *memory = MEMORY_OF(view->store);
    buf_reset(value_out);
    pthread_mutex_lock(&memory->lock);
    struct object *object = tables_find(&memory->shown, OBJECTS, key);
    if (object) buf_add(value_out, object_value(object));
    pthread_mutex_unlock(&memory->lock);
    return object ? ERR_OK : ERR_NOT_FOUND;
}

static enum err memory_objects(struct view *view, struct bytes prefix, struct bytes after,
                               store_object_fn *visit, void *context)
{
    struct gathering gathering = {.wanted = counter_wanted, .prefix = prefix, .after = after};
    gather(MEMORY_OF(view->store), OBJECTS, &gathering, compare_keys);
    for (size_t i = 0; i < gathering.count; i++) {
        const struct object *object = gathering.objects[i];
        if (!visit(context, bytes_of(object->key, object->key_size), object_value(object))) break;
    }
    gathering_release(&gathering);
    return ERR_OK;
}

/* The lock is recursive: reads inside take it again. */
static void memory_instant(struct view *view, view_read_fn *read, void *context)
{
    struct memory *memory = MEMORY_OF(view->store);
    pthread_mutex_lock(&memory->lock);
    read(context, view);
    pthread_mutex_unlock(&memory->lock);
}

static enum err memory_events(struct view *view, const struct event_query *query,
                              store_event_fn *visit, void *context, uint64_t *next_out)
{
    struct memory *memory = MEMORY_OF(view->store);
    pthread_mutex_lock(&memory->lock);
    history_read(&memory->history, query, visit, context, next_out);
    pthread_mutex_unlock(&memory->lock);
    return ERR_OK;
}

static enum err memory_lookup(struct view *view, struct fingerprint print,
                              struct key_record *record_out)
{
    struct memory *memory = MEMORY_OF(view->store);
    pthread_mutex_lock(&memory->lock);
    struct object *object = tables_find(&memory->shown, KEYS, bytes_of(&print, sizeof print));
    if (object) memcpy(record_out, object->value, sizeof *record_out);
    pthread_mutex_unlock(&memory->lock);
    record_out->outcome = BYTES_NONE;
    return object ? ERR_OK : ERR_NOT_FOUND;
}

static enum err memory_ids(struct view *view, store_id_fn *visit, void *context)
{
    struct gathering gathering = {0};
    gather(MEMORY_OF(view->store), KEYS, &gathering, compare_keys);
    for (size_t i = 0; i < gathering.count; i++) {
        struct object *object = gathering.objects[i];
        struct fingerprint print;
        struct key_record record;
        memcpy(&print, object->key, sizeof print);
        memcpy(&record, object->value, sizeof record);
        record.outcome =
            bytes_of(object->value + sizeof record, object->value_size - sizeof record);
        if (!visit(context, print, &record)) break;
    }
    gathering_release(&gathering);
    return ERR_OK;
}

static void memory_forget(struct store *store, int64_t before_ms)
{
    struct memory *memory = MEMORY_OF(store);
    pthread_mutex_lock(&memory->lock);
    history_forget(&memory->history, before_ms);
    pthread_mutex_unlock(&memory->lock);
}

struct due_context {
    struct memory *memory;
    int64_t now_ms;
    struct bytes key;
    int32_t duration;
    bool stopped;
    store_due_fn *visit;
    void *context;
};

static bool due_cell(void *context, int64_t bucket, const struct cell *cell)
{
    struct due_context *due = context;
    if (cell->expires_ms == TIME_NONE || cell->expires_ms > due->now_ms) return true;
    due->stopped = !due->visit(due->context, due->key, due->duration, bucket);
    return !due->stopped;
}

static bool due_counter(void *context, struct bytes key, const struct counter *counter)
{
    struct due_context *due = context;
    for (uint32_t i = 0; i < counter->count && !due->stopped; i++) {
        due->key = key;
        due->duration = counter->series[i].duration;
        struct cell_ref ref = {.counter = key, .duration = due->duration};
        enum err e =
            memory_range(&due->memory->store.view, &ref, INT64_MIN, INT64_MAX, NULL, due_cell, due);
        must(e == ERR_OK);
    }
    return !due->stopped;
}

static enum err memory_due(struct store *store, int64_t now_ms, store_due_fn *visit, void *context)
{
    struct due_context due = {
        .memory = MEMORY_OF(store), .now_ms = now_ms, .visit = visit, .context = context};
    return memory_list(&store->view, BYTES_NONE, BYTES_NONE, due_counter, &due);
}

/* -- The rest ---------------------------------------------------------------------------------- */

static bool memory_tend(struct store *store)
{
    (void)store;
    return false;
}

static void memory_stats(struct store *store, struct store_stats *stats_out)
{
    struct memory *memory = MEMORY_OF(store);
    pthread_mutex_lock(&memory->lock);
    *stats_out = (struct store_stats){.writable = true,
                                      .durable_sequence = memory->shown_position.last_sequence,
                                      .cache_cells = memory->shown.of[CELLS].count,
                                      .registry_ids = memory->shown.of[KEYS].count,
                                      .oldest_event_ms = history_oldest(&memory->history),
                                      .storage_errors = memory->errors,
                                      .syncs = memory->syncs};
    pthread_mutex_unlock(&memory->lock);
}

static void memory_close(struct store *store)
{
    struct memory *memory = MEMORY_OF(store);
    tables_release(&memory->head);
    tables_release(&memory->shown);
    history_release(&memory->history);
    pthread_mutex_destroy(&memory->lock);
    pthread_mutex_destroy(&memory->turn);
    free(memory);
}

static uint64_t memory_sequence(struct view *view)
{
    struct store_stats stats;
    memory_stats(view->store, &stats);
    return stats.durable_sequence;
}

static const struct writer_ops memory_writer_ops = {
    .begin = memory_begin,
    .load = memory_load,
    .submit = memory_submit,
    .abandon = memory_abandon,
    .sync = memory_sync,
};

static const struct view_ops memory_view_ops = {
    .get = memory_get,
    .range = memory_range,
    .sum = memory_sum,
    .counter = memory_counter,
    .series = memory_series,
    .list = memory_list,
    .object = memory_object,
    .objects = memory_objects,
    .instant = memory_instant,
    .events = memory_events,
    .lookup = memory_lookup,
    .ids = memory_ids,
    .sequence = memory_sequence,
};

static const struct store_ops memory_ops = {
    .name = "memory",
    .forget = memory_forget,
    .due = memory_due,
    .tend = memory_tend,
    .stats = memory_stats,
    .close = memory_close,
};

enum err memory_open(struct store **store_out)
{
    struct memory *memory = must_calloc(1, sizeof *memory);
    store_init(&memory->store, &memory_ops, &memory_writer_ops, &memory_view_ops);
    memory->store.writer.position = (struct store_position){.next_series = 1, .time_ms = INT64_MIN};
    memory->shown_position = memory->store.writer.position;
    memory->store.secret = hash_own;
    tables_init(&memory->head);
    tables_init(&memory->shown);
    pthread_mutex_init(&memory->turn, NULL);
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&memory->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    *store_out = &memory->store;
    return ERR_OK;
}
