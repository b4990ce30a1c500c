/* load.c -- what a batch needs, in one round of statements. */
#include "store/postgres/internal.h"

#include "core/cell.h"
#include "core/counter.h"
#include "store/damage.h"

/* What is asked in one load: from where `loaded` says to the ends of the lists. */
struct batch_load {
    struct lane_store *lane;
    struct read_set *reads;
    struct arena *arena;
    struct loaded from;
    bool corrupt;
};

/* The number in column 0 of a row, counted from 1 by the database, as an index into `count` entries
 * that begin at `from`. False: it is none of them. */
static bool row_index(const PGresult *result, int row, uint32_t from, uint32_t count,
                      uint32_t *index_out)
{
    int64_t n;
    if (!result_i64(result, row, 0, &n) || n < 1 || n > (int64_t)(count - from)) return false;
    *index_out = from + (uint32_t)n - 1;
    return true;
}

static void corrupt(struct batch_load *load, const char *what)
{
    damage_say(what, BYTES("(a row of the database)"), 1);
    load->corrupt = true;
}

/* -- Asking ------------------------------------------------------------------------------------ */

static void ask_keys(struct batch_load *load)
{
    const struct read_set *reads = load->reads;
    struct sql_values *values = &load->lane->values;
    if (load->from.keys == reads->keys_count) return;
    values_begin(values, load->lane);
    values_columns(values, "u");
    for (uint32_t i = load->from.keys; i < reads->keys_count; i++)
        row_print(values, reads->keys[i].print);
    link_send(load->lane->link, SQL_LOAD_KEYS, values, LINK_KEEP);
}

static void ask_objects(struct batch_load *load)
{
    const struct read_set *reads = load->reads;
    struct sql_values *values = &load->lane->values;
    if (load->from.objects == reads->objects_count) return;
    values_begin(values, load->lane);
    values_columns(values, "u");
    for (uint32_t i = load->from.objects; i < reads->objects_count; i++)
        row_print(values, reads->objects[i].print);
    link_send(load->lane->link, SQL_LOAD_OBJECTS, values, LINK_KEEP);
}

static void ask_counters(struct batch_load *load)
{
    const struct read_set *reads = load->reads;
    struct sql_values *values = &load->lane->values;
    if (load->from.counters == reads->counters_count) return;
    values_begin(values, load->lane);
    values_columns(values, "u");
    for (uint32_t i = load->from.counters; i < reads->counters_count; i++)
        row_print(values, reads->counters[i].print);
    link_send(load->lane->link, SQL_LOAD_COUNTERS, values, LINK_KEEP);
}

static void ask_cells(struct batch_load *load)
{
    const struct read_set *reads = load->reads;
    struct sql_values *values = &load->lane->values;
    if (load->from.cells == reads->cells_count) return;
    values_begin(values, load->lane);
    values_columns(values, "uil");
    for (uint32_t i = load->from.cells; i < reads->cells_count; i++) {
        const struct read_cell *read = &reads->cells[i];
        row_print(values, reads->counters[read->counter_index].print);
        row_i32(values, read->duration);
        row_i64(values, read->bucket);
    }
    link_send(load->lane->link, SQL_LOAD_CELLS, values, LINK_KEEP);
}

static void ask_tenants(struct batch_load *load)
{
    const struct read_set *reads = load->reads;
    struct sql_values *values = &load->lane->values;
    if (load->from.tenants == reads->tenants_count) return;
    values_begin(values, load->lane);
    values_columns(values, "t");
    for (uint32_t i = load->from.tenants; i < reads->tenants_count; i++)
        row_text(values, reads->tenants[i].tenant);
    link_send(load->lane->link, SQL_LOAD_TENANTS, values, LINK_KEEP);
}

/* -- Taking ------------------------------------------------------------------------------------ */

static void take_keys(struct batch_load *load)
{
    struct read_set *reads = load->reads;
    if (load->from.keys == reads->keys_count) return;
    PGresult *result = link_take(load->lane->link);
    for (uint32_t i = load->from.keys; i < reads->keys_count; i++)
        reads->keys[i].value = (struct key_record){0};
    for (int row = 0; row < PQntuples(result); row++) {
        struct key_record record = {.exists = true};
        uint32_t index;
        int64_t sequence, digest;
        if (!row_index(result, row, load->from.keys, reads->keys_count, &index) ||
            !result_i64(result, row, 1, &sequence) ||
            !result_i64(result, row, 2, &record.first_seen_ms) ||
            !result_i64(result, row, 3, &digest) || !result_bool(result, row, 4, &record.event)) {
            corrupt(load, "a key");
            break;
        }
        record.sequence = (uint64_t)sequence;
        record.digest = (uint64_t)digest;
        record.outcome = arena_copy(load->arena, result_bytes(result, row, 5));
        reads->keys[index].value = record;
    }
    PQclear(result);
}

static void take_objects(struct batch_load *load)
{
    struct read_set *reads = load->reads;
    if (load->from.objects == reads->objects_count) return;
    PGresult *result = link_take(load->lane->link);
    for (uint32_t i = load->from.objects; i < reads->objects_count; i++)
        reads->objects[i].value = BYTES_NONE;
    for (int row = 0; row < PQntuples(result); row++) {
        uint32_t index;
        if (!row_index(result, row, load->from.objects, reads->objects_count, &index)) {
            corrupt(load, "an object");
            break;
        }
        reads->objects[index].value = arena_copy(load->arena, result_bytes(result, row, 1));
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
    struct read_set *reads = load->reads;
    if (load->from.counters == reads->counters_count) return;
    PGresult *result = link_take(load->lane->link);
    for (uint32_t i = load->from.counters; i < reads->counters_count; i++)
        reads->counters[i].value = NULL;
    for (int row = 0, count; row < PQntuples(result); row += count) {
        uint32_t index;
        count = rows_alike(result, row);
        const struct counter *counter = rows_counter(result, row, count, 1, load->arena);
        if (!counter ||
            !row_index(result, row, load->from.counters, reads->counters_count, &index)) {
            corrupt(load, "a counter");
            break;
        }
        reads->counters[index].value = counter;
    }
    PQclear(result);
}

static void cells_begin(struct batch_load *load)
{
    struct read_set *reads = load->reads;
    for (uint32_t i = load->from.cells; i < reads->cells_count; i++) {
        struct read_cell *read = &reads->cells[i];
        const struct series *series =
            counter_find(reads->counters[read->counter_index].value, read->duration);
        read->value = cell_absent();
        read->series = series ? series->id : 0;
    }
}

static void take_cells(struct batch_load *load)
{
    struct read_set *reads = load->reads;
    if (load->from.cells == reads->cells_count) return;
    PGresult *result = link_take(load->lane->link);
    cells_begin(load);
    for (int row = 0; row < PQntuples(result); row++) {
        struct cell cell = {.exists = true};
        uint32_t index;
        if (!row_index(result, row, load->from.cells, reads->cells_count, &index) ||
            reads->cells[index].series == 0 || !result_i64(result, row, 1, &cell.added) ||
            !result_i64(result, row, 2, &cell.subbed) ||
            !result_time(result, row, 3, &cell.expires_ms) ||
            !result_time(result, row, 4, &cell.start_ms) ||
            !result_i64(result, row, 5, &cell.updated_ms) ||
            !result_bool(result, row, 6, &cell.exact)) {
            corrupt(load, "a cell");
            break;
        }
        reads->cells[index].value = cell;
    }
    PQclear(result);
}

static void take_tenants(struct batch_load *load)
{
    struct read_set *reads = load->reads;
    if (load->from.tenants == reads->tenants_count) return;
    PGresult *result = link_take(load->lane->link);
    for (uint32_t i = load->from.tenants; i < reads->tenants_count; i++)
        reads->tenants[i].cells = 0;
    for (int row = 0; row < PQntuples(result); row++) {
        uint32_t index;
        if (!row_index(result, row, load->from.tenants, reads->tenants_count, &index) ||
            !result_i64(result, row, 1, &reads->tenants[index].cells)) {
            corrupt(load, "a tenant");
            break;
        }
    }
    PQclear(result);
}

enum err lane_load(struct lane_store *lane, struct read_set *reads, struct arena *arena)
{
    struct batch_load load = {.lane = lane, .reads = reads, .arena = arena, .from = reads->loaded};
    ask_keys(&load);
    ask_objects(&load);
    ask_counters(&load);
    ask_cells(&load);
    ask_tenants(&load);
    link_go(lane->link, LOAD_WAIT_MS);
    take_keys(&load);
    take_objects(&load);
    take_counters(&load);
    take_cells(&load);
    take_tenants(&load);
    enum err e = link_end(lane->link);
    reads->loaded = (struct loaded){reads->counters_count, reads->cells_count, reads->tenants_count,
                                    reads->keys_count, reads->objects_count};
    if (e != ERR_OK) return e;
    return load.corrupt ? ERR_CORRUPT : ERR_OK;
}
