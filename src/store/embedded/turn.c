/* turn.c -- the commit thread's side: bring a batch's objects into memory, stage what it decided.
 *
 * Memory is asked first; what is missing is read from the state in one go for each family. Only
 * this thread puts entries in for writing, and they stay pinned until their batch is answered. */
#include "store/embedded/internal.h"

#include "core/cell.h"
#include "store/embedded/journal/block.h"

struct misses {
    struct embedded *embedded;
    struct arena *arena;
    uint32_t *indexes; /* which reads were not in memory */
    struct bytes *keys;
    size_t count;
    bool *found;
    enum err err;
    struct read_set *reads;
};

static struct misses misses_new(struct embedded *embedded, struct read_set *reads,
                                struct arena *arena)
{
    return (struct misses){.embedded = embedded, .arena = arena, .reads = reads};
}

/* Room for `max` misses is taken at the first one: most batches have none. */
static void misses_add(struct misses *misses, uint32_t index, struct bytes key, uint32_t max)
{
    if (!misses->indexes) {
        misses->indexes = arena_alloc(misses->arena, max * sizeof *misses->indexes);
        misses->keys = arena_alloc(misses->arena, max * sizeof *misses->keys);
        misses->found = arena_zalloc(misses->arena, max * sizeof *misses->found);
    }
    misses->indexes[misses->count] = index;
    misses->keys[misses->count++] = key;
}

static void counter_found(void *context, size_t at, struct bytes value)
{
    struct misses *misses = context;
    const struct counter *counter = NULL;
    misses->found[at] = true;
    enum err e = counter_record_decode(value, misses->arena, &counter);
    if (e != ERR_OK) {
        misses->err = e; /* and not into memory: the next batch would take it for the truth */
        return;
    }
    counters_insert(misses->embedded->counters, &misses->reads->counters[misses->indexes[at]],
                    counter, misses->arena);
}

static enum err load_counters(struct embedded *embedded, struct read_set *reads,
                              struct arena *arena)
{
    struct misses misses = misses_new(embedded, reads, arena);
    uint32_t known = reads->loaded.counters;
    counters_load(embedded->counters, reads->counters + known, reads->counters_count - known,
                  arena);
    for (uint32_t i = known; i < reads->counters_count; i++)
        if (!reads->counters[i].handle)
            misses_add(&misses, i, reads->counters[i].key, reads->counters_count);
    if (misses.count == 0) return ERR_OK;
    enum err e = state_get_many(embedded->state, STATE_COUNTERS, misses.keys, misses.count,
                                counter_found, &misses);
    if (e != ERR_OK || misses.err != ERR_OK) return ERR_STORAGE;
    for (size_t at = 0; at < misses.count; at++)
        if (!misses.found[at])
            counters_insert(embedded->counters, &reads->counters[misses.indexes[at]], NULL, arena);
    return ERR_OK;
}

static void cell_found(void *context, size_t at, struct bytes value)
{
    struct misses *misses = context;
    struct cell cell;
    misses->found[at] = true;
    enum err e = cell_record_decode(value, &cell);
    if (e != ERR_OK) {
        misses->err = e;
        return;
    }
    cells_insert(misses->embedded->cells, &misses->reads->cells[misses->indexes[at]], &cell);
}

static void misses_add_cell(struct misses *misses, uint32_t index)
{
    const struct read_cell *read = &misses->reads->cells[index];
    char *key = arena_alloc(misses->arena, CELL_KEY_SIZE);
    misses_add(misses, index, cell_key(key, read->series, read->bucket),
               misses->reads->cells_count);
}

/* A granularity that the counter does not have has no cells, so nothing is looked for. */
static enum err load_cells(struct embedded *embedded, struct read_set *reads, struct arena *arena)
{
    struct misses misses = misses_new(embedded, reads, arena);
    uint32_t known = reads->loaded.cells;
    for (uint32_t i = known; i < reads->cells_count; i++) {
        struct read_cell *read = &reads->cells[i];
        const struct series *series =
            counter_find(reads->counters[read->counter_index].value, read->duration);
        read->value = cell_absent();
        read->series = series ? series->id : 0;
    }
    cells_load(embedded->cells, reads->cells + known, reads->cells_count - known, arena);
    for (uint32_t i = known; i < reads->cells_count; i++)
        if (reads->cells[i].series && !reads->cells[i].handle) misses_add_cell(&misses, i);
    if (misses.count == 0) return ERR_OK;
    enum err e = state_get_many(embedded->state, STATE_CELLS, misses.keys, misses.count, cell_found,
                                &misses);
    if (e != ERR_OK || misses.err != ERR_OK) return ERR_STORAGE;
    const struct cell absent = cell_absent();
    for (size_t at = 0; at < misses.count; at++)
        if (!misses.found[at])
            cells_insert(embedded->cells, &reads->cells[misses.indexes[at]], &absent);
    return ERR_OK;
}

static void object_found(void *context, size_t at, struct bytes value)
{
    struct misses *misses = context;
    misses->found[at] = true;
    objects_insert(misses->embedded->objects, &misses->reads->objects[misses->indexes[at]], value,
                   misses->arena);
}

static enum err load_objects(struct embedded *embedded, struct read_set *reads, struct arena *arena)
{
    struct misses misses = misses_new(embedded, reads, arena);
    for (uint32_t i = reads->loaded.objects; i < reads->objects_count; i++)
        if (!objects_load(embedded->objects, &reads->objects[i], arena))
            misses_add(&misses, i, reads->objects[i].key, reads->objects_count);
    if (misses.count == 0) return ERR_OK;
    enum err e = state_get_many(embedded->state, STATE_OBJECTS, misses.keys, misses.count,
                                object_found, &misses);
    if (e != ERR_OK) return ERR_STORAGE;
    for (size_t at = 0; at < misses.count; at++)
        if (!misses.found[at])
            objects_insert(embedded->objects, &reads->objects[misses.indexes[at]], BYTES_NONE,
                           arena);
    return ERR_OK;
}

static enum err load_tenant(struct embedded *embedded, struct read_tenant *read)
{
    if (tenants_load(embedded->tenants, read)) return ERR_OK;
    struct buf value;
    int64_t cells = 0;
    buf_init(&value, 64);
    enum err e = state_get(embedded->state, STATE_TENANTS, read->tenant, &value);
    if (e == ERR_OK) e = tenant_record_decode(buf_bytes(&value), &cells);
    if (e == ERR_NOT_FOUND) e = ERR_OK;
    if (e == ERR_OK) tenants_insert(embedded->tenants, read, cells);
    buf_release(&value);
    return e == ERR_OK ? ERR_OK : ERR_STORAGE;
}

static enum err load_rest(struct embedded *embedded, struct read_set *reads, struct arena *arena)
{
    for (uint32_t i = reads->loaded.tenants; i < reads->tenants_count; i++) {
        enum err e = load_tenant(embedded, &reads->tenants[i]);
        if (e != ERR_OK) return e;
    }
    uint32_t known = reads->loaded.keys;
    enum err e = registry_find_many(embedded->registry, reads->keys + known,
                                    reads->keys_count - known, arena);
    return e == ERR_OK ? ERR_OK : ERR_STORAGE;
}

/* The turn is held. */
static enum err may_begin(struct embedded *embedded)
{
    pthread_mutex_lock(&embedded->pipeline);
    embedded_check_turn(embedded);
    enum err e = embedded->down || embedded->following ? ERR_STORAGE
                 : embedded->withheld                  ? ERR_FEW_FOLLOWERS
                                                       : ERR_OK;
    pthread_mutex_unlock(&embedded->pipeline);
    return e;
}

enum err embedded_begin(struct writer *writer)
{
    struct embedded *embedded = embedded_of(writer->store);
    pthread_mutex_lock(&embedded->turn);
    enum err e = may_begin(embedded);
    if (e != ERR_OK) pthread_mutex_unlock(&embedded->turn);
    return e;
}

enum err embedded_load(struct writer *writer, struct read_set *reads, struct arena *arena)
{
    struct embedded *embedded = embedded_of(writer->store);
    enum err e = load_objects(embedded, reads, arena);
    if (e == ERR_OK) e = load_counters(embedded, reads, arena);
    if (e == ERR_OK) e = load_cells(embedded, reads, arena);
    if (e == ERR_OK) e = load_rest(embedded, reads, arena);
    reads->loaded = (struct loaded){reads->counters_count, reads->cells_count, reads->tenants_count,
                                    reads->keys_count, reads->objects_count};
    return embedded_read_ended(embedded, "what a batch needs", e);
}

void embedded_abandon(struct writer *writer, struct read_set *reads)
{
    struct embedded *embedded = embedded_of(writer->store);
    embedded_drop(embedded, reads);
    pthread_mutex_unlock(&embedded->turn);
}

static void stage(struct embedded *embedded, struct read_set *reads)
{
    for (uint32_t i = 0; i < reads->counters_count; i++)
        if (reads->counters[i].changed) counters_stage(embedded->counters, &reads->counters[i]);
    for (uint32_t i = 0; i < reads->cells_count; i++)
        if (reads->cells[i].changed) cells_stage(embedded->cells, &reads->cells[i]);
    for (uint32_t i = 0; i < reads->tenants_count; i++)
        if (reads->tenants[i].changed) tenants_stage(embedded->tenants, &reads->tenants[i]);
    for (uint32_t i = 0; i < reads->objects_count; i++)
        if (reads->objects[i].changed) objects_stage(embedded->objects, &reads->objects[i]);
    registry_stage(embedded->registry, reads->keys, reads->keys_count);
}

static struct pending *pending_take(struct embedded *embedded)
{
    pthread_mutex_lock(&embedded->pipeline);
    struct pending *pending = embedded->free_pendings;
    if (pending) embedded->free_pendings = pending->next;
    pthread_mutex_unlock(&embedded->pipeline);
    if (pending) return pending;
    pending = must_calloc(1, sizeof *pending);
    buf_init(&pending->body, SIZE_MAX / 2);
    return pending;
}

void embedded_submit(struct writer *writer, struct write_set *writes)
{
    struct embedded *embedded = embedded_of(writer->store);
    struct pending *pending = pending_take(embedded);
    buf_reset(&pending->body);
    must(writes->first_sequence == writer->position.last_sequence + 1);
    if (writes->count > 0) {
        stage(embedded, writes->reads);
        uint64_t before = writer->position.hash;
        block_encode(&pending->body, writes, before);
        must(!pending->body.failed);
        const struct journal_block block = embedded_block(writes, pending);
        pending->hash = block_hash(before, &block);
        writer->position =
            (struct store_position){.last_sequence = writes->first_sequence + writes->count - 1,
                                    .next_series = writes->next_series,
                                    .time_ms = writes->time_ms,
                                    .hash = pending->hash};
    }
    writes->stored = pending;
    writes->next = NULL;
    pthread_mutex_lock(&embedded->pipeline);
    if (embedded->submitted_last)
        embedded->submitted_last->next = writes;
    else
        embedded->submitted_first = writes;
    embedded->submitted_last = writes;
    if (SLOW_CHECKS) embedded_check_turn(embedded);
    pthread_mutex_unlock(&embedded->pipeline);
    pthread_mutex_unlock(&embedded->turn);
}
