/* load.c -- what a batch needs: from memory what is known there, the rest in one round of
 * statements, and none if nothing is left to ask. */
#include "store/postgres/internal.h"

#include "core/cell.h"
#include "core/counter.h"
#include "store/damage.h"

/* Which entries of a list are asked for, in this order. */
struct asked {
    uint32_t *indexes;
    uint32_t count;
};

/* What is asked in one load: from where `loaded` says to the ends of the lists. */
struct batch_load {
    struct lane_store *lane;
    struct read_set *reads;
    struct arena *arena;
    struct loaded from;
    struct asked keys;
    struct asked objects;
    struct asked counters;
    struct asked cells;    /* whose counters are asked for, too */
    struct asked cells_at; /* whose series are known */
    struct asked tenants;
    bool *counter_asked; /* by index */
    bool corrupt;
};

static struct asked asked_new(struct arena *arena, uint32_t from, uint32_t count)
{
    if (from == count) return (struct asked){0};
    return (struct asked){.indexes = arena_alloc(arena, (count - from) * sizeof(uint32_t))};
}

static void asked_add(struct asked *asked, uint32_t index)
{
    asked->indexes[asked->count++] = index;
}

/* Column 0 of a row counts, from 1, the entries that were asked for. False: it is none of them. */
static bool row_index(const PGresult *result, int row, const struct asked *asked,
                      uint32_t *index_out)
{
    int64_t n;
    if (!result_i64(result, row, 0, &n) || n < 1 || n > (int64_t)asked->count) return false;
    *index_out = asked->indexes[n - 1];
    return true;
}

static void corrupt(struct batch_load *load, const char *what)
{
    damage_say(what, BYTES("(a row of the database)"), 1);
    load->corrupt = true;
}

/* -- Remembering ------------------------------------------------------------------------------- */

static void recall_keys(struct batch_load *load)
{
    struct read_set *reads = load->reads;
    load->keys = asked_new(load->arena, load->from.keys, reads->keys_count);
    for (uint32_t i = load->from.keys; i < reads->keys_count; i++) {
        struct read_key *read = &reads->keys[i];
        read->value = (struct key_record){0};
        if (!known_key(&load->lane->known, read->print, load->arena, &read->value))
            asked_add(&load->keys, i);
    }
}

static void recall_objects(struct batch_load *load)
{
    struct read_set *reads = load->reads;
    load->objects = asked_new(load->arena, load->from.objects, reads->objects_count);
    for (uint32_t i = load->from.objects; i < reads->objects_count; i++) {
        struct read_object *read = &reads->objects[i];
        read->value = BYTES_NONE;
        if (!known_object(&load->lane->known, read->print, load->arena, &read->value))
            asked_add(&load->objects, i);
    }
}

static void recall_counters(struct batch_load *load)
{
    struct read_set *reads = load->reads;
    load->counters = asked_new(load->arena, load->from.counters, reads->counters_count);
    load->counter_asked = arena_zalloc(load->arena, reads->counters_count * sizeof(bool) + 1);
    for (uint32_t i = load->from.counters; i < reads->counters_count; i++) {
        struct read_counter *read = &reads->counters[i];
        read->value = NULL;
        if (known_counter(&load->lane->known, read->print, load->arena, &read->value)) continue;
        load->counter_asked[i] = true;
        asked_add(&load->counters, i);
    }
}

/* A cell is named by its series. A counter that has no series of that duration has no such cell. */
static void name_cell(const struct read_set *reads, struct read_cell *read)
{
    const struct series *series =
        counter_find(reads->counters[read->counter_index].value, read->duration);
    read->series = series ? series->id : 0;
    read->value = cell_absent();
}

static void recall_cells(struct batch_load *load)
{
    struct read_set *reads = load->reads;
    load->cells = asked_new(load->arena, load->from.cells, reads->cells_count);
    load->cells_at = asked_new(load->arena, load->from.cells, reads->cells_count);
    for (uint32_t i = load->from.cells; i < reads->cells_count; i++) {
        struct read_cell *read = &reads->cells[i];
        if (load->counter_asked[read->counter_index]) {
            asked_add(&load->cells, i);
            continue;
        }
        name_cell(reads, read);
        if (read->series != 0 &&
            !known_cell(&load->lane->known, read->series, read->bucket, &read->value))
            asked_add(&load->cells_at, i);
    }
}

static void recall_tenants(struct batch_load *load)
{
    struct read_set *reads = load->reads;
    load->tenants = asked_new(load->arena, load->from.tenants, reads->tenants_count);
    for (uint32_t i = load->from.tenants; i < reads->tenants_count; i++) {
        struct read_tenant *read = &reads->tenants[i];
        read->print = fingerprint_of(&load->lane->store.secret, read->tenant);
        read->cells = 0;
        if (!known_tenant(&load->lane->known, read->print, &read->cells))
            asked_add(&load->tenants, i);
    }
}

/* -- Asking ------------------------------------------------------------------------------------ */

static struct sql_values *ask_begin(struct batch_load *load, const char *types)
{
    values_begin(&load->lane->values, load->lane);
    values_columns(&load->lane->values, types);
    return &load->lane->values;
}

static void ask_end(struct batch_load *load, enum sql_name name)
{
    if (load->lane->values.rows > 0)
        link_send(load->lane->link, name, &load->lane->values, LINK_KEEP);
}

static void ask_keys(struct batch_load *load)
{
    struct sql_values *values = ask_begin(load, "u");
    for (uint32_t i = 0; i < load->keys.count; i++)
        row_print(values, load->reads->keys[load->keys.indexes[i]].print);
    ask_end(load, SQL_LOAD_KEYS);
}

static void ask_objects(struct batch_load *load)
{
    struct sql_values *values = ask_begin(load, "u");
    for (uint32_t i = 0; i < load->objects.count; i++)
        row_print(values, load->reads->objects[load->objects.indexes[i]].print);
    ask_end(load, SQL_LOAD_OBJECTS);
}

static void ask_counters(struct batch_load *load)
{
    struct sql_values *values = ask_begin(load, "u");
    for (uint32_t i = 0; i < load->counters.count; i++)
        row_print(values, load->reads->counters[load->counters.indexes[i]].print);
    ask_end(load, SQL_LOAD_COUNTERS);
}

static void ask_cells(struct batch_load *load)
{
    const struct read_set *reads = load->reads;
    struct sql_values *values = ask_begin(load, "uil");
    for (uint32_t i = 0; i < load->cells.count; i++) {
        const struct read_cell *read = &reads->cells[load->cells.indexes[i]];
        row_print(values, reads->counters[read->counter_index].print);
        row_i32(values, read->duration);
        row_i64(values, read->bucket);
    }
    ask_end(load, SQL_LOAD_CELLS);
    values = ask_begin(load, "ll");
    for (uint32_t i = 0; i < load->cells_at.count; i++) {
        const struct read_cell *read = &reads->cells[load->cells_at.indexes[i]];
        row_i64(values, (int64_t)read->series);
        row_i64(values, read->bucket);
    }
    ask_end(load, SQL_LOAD_CELLS_AT);
}

static void ask_tenants(struct batch_load *load)
{
    struct sql_values *values = ask_begin(load, "t");
    for (uint32_t i = 0; i < load->tenants.count; i++)
        row_text(values, load->reads->tenants[load->tenants.indexes[i]].tenant);
    ask_end(load, SQL_LOAD_TENANTS);
}

/* -- Taking ------------------------------------------------------------------------------------ */

static bool read_key_row(struct batch_load *load, const PGresult *result, int row)
{
    struct key_record record = {.exists = true};
    uint32_t index;
    int64_t sequence, digest;
    if (!row_index(result, row, &load->keys, &index) || !result_i64(result, row, 1, &sequence) ||
        !result_i64(result, row, 2, &record.first_seen_ms) ||
        !result_i64(result, row, 3, &digest) || !result_bool(result, row, 4, &record.event))
        return false;
    record.sequence = (uint64_t)sequence;
    record.digest = (uint64_t)digest;
    record.outcome = arena_copy(load->arena, result_bytes(result, row, 5));
    load->reads->keys[index].value = record;
    known_put_key(&load->lane->known, load->reads->keys[index].print, &record);
    return true;
}

static void take_keys(struct batch_load *load)
{
    if (load->keys.count == 0) return;
    PGresult *result = link_take(load->lane->link);
    for (int row = 0; row < PQntuples(result) && !load->corrupt; row++)
        if (!read_key_row(load, result, row)) corrupt(load, "a key");
    PQclear(result);
}

static void take_objects(struct batch_load *load)
{
    struct read_object *objects = load->reads->objects;
    if (load->objects.count == 0) return;
    PGresult *result = link_take(load->lane->link);
    for (int row = 0; row < PQntuples(result); row++) {
        uint32_t index;
        if (!row_index(result, row, &load->objects, &index)) {
            corrupt(load, "an object");
            break;
        }
        objects[index].value = arena_copy(load->arena, result_bytes(result, row, 1));
    }
    for (uint32_t i = 0; i < load->objects.count; i++) {
        const struct read_object *read = &objects[load->objects.indexes[i]];
        known_put_object(&load->lane->known, read->print, read->value);
    }
    PQclear(result);
}

const struct counter *rows_counter(const PGresult *result, int row, int count, int column,
                                   struct arena *arena)
{
    struct counter *counter = arena_alloc(arena, counter_size((uint32_t)count));
    counter->count = (uint32_t)count;
    for (int i = 0; i < count; i++) {
        struct series *series = &counter->series[i];
        int64_t id;
        if (!result_i64(result, row + i, column, &id) || id <= 0 ||
            !result_i32(result, row + i, column + 1, &series->duration) ||
            !result_i64(result, row + i, column + 2, &series->cells) ||
            !result_time(result, row + i, column + 3, &series->until_ms))
            return NULL;
        series->id = (uint64_t)id;
        if (series->until_ms == TIME_NONE) series->until_ms = 0;
    }
    return counter;
}

/* How many rows from `row` on are of the same counter. */
static int rows_alike(const PGresult *result, int row)
{
    struct bytes first = result_bytes(result, row, 0);
    int count = 1;
    while (row + count < PQntuples(result) &&
           bytes_equal(result_bytes(result, row + count, 0), first))
        count++;
    return count;
}

static void take_counters(struct batch_load *load)
{
    struct read_counter *counters = load->reads->counters;
    if (load->counters.count == 0) return;
    PGresult *result = link_take(load->lane->link);
    for (int row = 0, count; row < PQntuples(result); row += count) {
        uint32_t index;
        count = rows_alike(result, row);
        const struct counter *counter = rows_counter(result, row, count, 1, load->arena);
        if (!counter || !row_index(result, row, &load->counters, &index)) {
            corrupt(load, "a counter");
            break;
        }
        counters[index].value = counter;
    }
    for (uint32_t i = 0; i < load->counters.count; i++) {
        const struct read_counter *read = &counters[load->counters.indexes[i]];
        known_put_counter(&load->lane->known, read->print, read->value);
    }
    PQclear(result);
}

static bool read_cell_row(struct batch_load *load, const struct asked *asked,
                          const PGresult *result, int row)
{
    struct cell cell;
    uint32_t index;
    if (!row_index(result, row, asked, &index) || load->reads->cells[index].series == 0 ||
        !row_cell(result, row, 1, &cell))
        return false;
    load->reads->cells[index].value = cell;
    return true;
}

static void take_cells(struct batch_load *load, const struct asked *asked)
{
    struct read_cell *cells = load->reads->cells;
    if (asked->count == 0) return;
    PGresult *result = link_take(load->lane->link);
    for (int row = 0; row < PQntuples(result) && !load->corrupt; row++)
        if (!read_cell_row(load, asked, result, row)) corrupt(load, "a cell");
    for (uint32_t i = 0; i < asked->count; i++) {
        const struct read_cell *read = &cells[asked->indexes[i]];
        if (read->series != 0)
            known_put_cell(&load->lane->known, read->series, read->bucket, &read->value);
    }
    PQclear(result);
}

static void take_tenants(struct batch_load *load)
{
    struct read_tenant *tenants = load->reads->tenants;
    if (load->tenants.count == 0) return;
    PGresult *result = link_take(load->lane->link);
    for (int row = 0; row < PQntuples(result); row++) {
        uint32_t index;
        if (!row_index(result, row, &load->tenants, &index) ||
            !result_i64(result, row, 1, &tenants[index].cells)) {
            corrupt(load, "a tenant");
            break;
        }
    }
    for (uint32_t i = 0; i < load->tenants.count; i++) {
        const struct read_tenant *read = &tenants[load->tenants.indexes[i]];
        known_put_tenant(&load->lane->known, read->print, read->cells);
    }
    PQclear(result);
}

static enum err ask_database(struct batch_load *load)
{
    struct link *link = load->lane->link;
    ask_keys(load);
    ask_objects(load);
    ask_counters(load);
    ask_cells(load);
    ask_tenants(load);
    link_go(link, LOAD_WAIT_MS);
    take_keys(load);
    take_objects(load);
    take_counters(load);
    for (uint32_t i = 0; i < load->cells.count; i++)
        name_cell(load->reads, &load->reads->cells[load->cells.indexes[i]]);
    take_cells(load, &load->cells);
    take_cells(load, &load->cells_at);
    take_tenants(load);
    enum err e = link_end(link);
    if (e != ERR_OK) return e;
    return load->corrupt ? ERR_CORRUPT : ERR_OK;
}

/* What was there before the batch changes it: the rest is written without looking for it. */
static void note_existing(const struct batch_load *load)
{
    struct read_set *reads = load->reads;
    for (uint32_t i = load->from.cells; i < reads->cells_count; i++)
        reads->cells[i].handle = reads->cells[i].value.exists ? &reads->cells[i] : NULL;
    for (uint32_t i = load->from.keys; i < reads->keys_count; i++)
        reads->keys[i].handle = reads->keys[i].value.exists ? &reads->keys[i] : NULL;
}

enum err lane_load(struct lane_store *lane, struct read_set *reads, struct arena *arena)
{
    struct batch_load load = {.lane = lane, .reads = reads, .arena = arena, .from = reads->loaded};
    enum err e = ERR_OK;
    recall_keys(&load);
    recall_objects(&load);
    recall_counters(&load);
    recall_cells(&load);
    recall_tenants(&load);
    if (load.keys.count || load.objects.count || load.counters.count || load.cells.count ||
        load.cells_at.count || load.tenants.count)
        e = ask_database(&load);
    if (e != ERR_OK) known_clear(&lane->known); /* part of what was put may not be true */
    note_existing(&load);
    reads->loaded = (struct loaded){reads->counters_count, reads->cells_count, reads->tenants_count,
                                    reads->keys_count, reads->objects_count};
    return e;
}
