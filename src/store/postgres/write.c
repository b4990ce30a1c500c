/* write.c -- what a batch changed, as a few statements of arrays.
 *
 * Nothing is waited for: the result of a statement comes with the round that it is part of. A
 * statement that would be larger than ROWS_BYTES is cut in two. */
#include "store/postgres/internal.h"

#include "core/counter.h"
#include "core/event.h"
#include "core/name.h"
#include "core/object.h"
#include "core/project.h"

#define ROWS_BYTES (1u << 20)
#define HOUR_MS 3600000

/* One kind of rows on its way out. */
struct rows {
    struct lane_store *lane;
    enum sql_name name;
    const char *types;
};

static void rows_begin(struct rows *rows, struct lane_store *lane, enum sql_name name,
                       const char *types)
{
    *rows = (struct rows){lane, name, types};
    values_begin(&lane->values, lane);
    values_columns(&lane->values, types);
}

static void rows_end(struct rows *rows)
{
    struct sql_values *values = &rows->lane->values;
    if (values->rows > 0) link_send(rows->lane->link, rows->name, values, LINK_DROP);
}

/* Begins another statement, between two rows, where this one has grown large. */
static void rows_cut(struct rows *rows)
{
    if (values_size(&rows->lane->values) < ROWS_BYTES) return;
    rows_end(rows);
    rows_begin(rows, rows->lane, rows->name, rows->types);
}

/* -- Counters ---------------------------------------------------------------------------------- */

static void write_dead(struct lane_store *lane, const struct write_set *writes, enum sql_name name)
{
    struct rows rows;
    rows_begin(&rows, lane, name, "l");
    for (uint32_t i = 0; i < writes->dead_count; i++)
        row_i64(&lane->values, (int64_t)writes->dead[i]);
    rows_end(&rows);
}

static void write_series(struct lane_store *lane, const struct write_set *writes)
{
    const struct read_set *reads = writes->reads;
    struct sql_values *values = &lane->values;
    struct rows rows;
    rows_begin(&rows, lane, SQL_PUT_SERIES, "lillutb");
    for (uint32_t i = 0; i < reads->counters_count; i++) {
        const struct read_counter *read = &reads->counters[i];
        if (!read->changed || !read->value) continue;
        for (uint32_t s = 0; s < read->value->count; s++) {
            const struct series *series = &read->value->series[s];
            row_i64(values, (int64_t)series->id);
            row_i32(values, series->duration);
            row_i64(values, series->cells);
            row_time(values, series->until_ms ? series->until_ms : TIME_NONE);
            row_print(values, read->print);
            row_text(values, reads->tenants[read->tenant_index].tenant);
            row_bytes(values, read->key);
            rows_cut(&rows);
        }
    }
    rows_end(&rows);
}

/* The hour in which a cell expires is what the index has: an expiry that slides by seconds then
 * leaves the index alone, and the update stays on its page. */
static void row_due(struct sql_values *values, int64_t expires_ms)
{
    int64_t hour = expires_ms / HOUR_MS;
    if (expires_ms == TIME_NONE)
        row_null(values);
    else
        row_i32(values, hour > INT32_MAX   ? INT32_MAX
                        : hour < INT32_MIN ? INT32_MIN
                                           : (int32_t)hour);
}

static struct bytes tenant_of_cell(const struct read_set *reads, const struct read_cell *cell)
{
    return reads->tenants[reads->counters[cell->counter_index].tenant_index].tenant;
}

/* A cell that was not there, or not in this series, is written without looking for it. */
static bool is_new_cell(const struct lane_store *lane, const struct read_cell *read)
{
    return !read->handle || read->series >= lane->store.writer.position.next_series;
}

static void write_cells(struct lane_store *lane, const struct write_set *writes, bool new)
{
    const struct read_set *reads = writes->reads;
    struct sql_values *values = &lane->values;
    struct rows rows;
    rows_begin(&rows, lane, new ? SQL_ADD_CELLS : SQL_PUT_CELLS, "lllllillft");
    for (uint32_t i = 0; i < reads->cells_count; i++) {
        const struct read_cell *read = &reads->cells[i];
        if (!read->changed || !read->value.exists || is_new_cell(lane, read) != new) continue;
        row_i64(values, (int64_t)read->series);
        row_i64(values, read->bucket);
        row_i64(values, read->value.added);
        row_i64(values, read->value.subbed);
        row_time(values, read->value.expires_ms);
        row_due(values, read->value.expires_ms);
        row_time(values, read->value.start_ms);
        row_i64(values, read->value.updated_ms);
        row_bool(values, read->value.exact);
        row_text(values, tenant_of_cell(reads, read));
        rows_cut(&rows);
    }
    rows_end(&rows);
}

static void drop_cells(struct lane_store *lane, const struct write_set *writes)
{
    const struct read_set *reads = writes->reads;
    struct rows rows;
    rows_begin(&rows, lane, SQL_DROP_CELLS, "ll");
    for (uint32_t i = 0; i < reads->cells_count; i++) {
        const struct read_cell *read = &reads->cells[i];
        if (!read->changed || read->value.exists) continue;
        row_i64(&lane->values, (int64_t)read->series);
        row_i64(&lane->values, read->bucket);
    }
    rows_end(&rows);
}

static void write_tenants(struct lane_store *lane, const struct write_set *writes)
{
    const struct read_set *reads = writes->reads;
    struct rows rows;
    rows_begin(&rows, lane, SQL_PUT_TENANTS, "tl");
    for (uint32_t i = 0; i < reads->tenants_count; i++) {
        if (!reads->tenants[i].changed) continue;
        row_text(&lane->values, reads->tenants[i].tenant);
        row_i64(&lane->values, reads->tenants[i].cells);
        rows_cut(&rows);
    }
    rows_end(&rows);
}

/* -- Keys and objects -------------------------------------------------------------------------- */

static void write_keys(struct lane_store *lane, const struct write_set *writes, bool new)
{
    const struct read_set *reads = writes->reads;
    struct sql_values *values = &lane->values;
    struct rows rows;
    rows_begin(&rows, lane, new ? SQL_ADD_KEYS : SQL_PUT_KEYS, "utlllfb");
    for (uint32_t i = 0; i < reads->keys_count; i++) {
        const struct read_key *read = &reads->keys[i];
        if (!read->changed || (read->handle == NULL) != new) continue;
        row_print(values, read->print);
        row_text(values, read->tenant);
        row_i64(values, (int64_t)read->value.sequence);
        row_i64(values, read->value.first_seen_ms);
        row_i64(values, (int64_t)read->value.digest);
        row_bool(values, read->value.event);
        row_bytes(values, read->value.outcome);
        rows_cut(&rows);
    }
    rows_end(&rows);
}

static void write_objects(struct lane_store *lane, const struct write_set *writes)
{
    const struct read_set *reads = writes->reads;
    struct sql_values *values = &lane->values;
    struct rows rows;
    rows_begin(&rows, lane, SQL_PUT_OBJECTS, "ubb");
    for (uint32_t i = 0; i < reads->objects_count; i++) {
        const struct read_object *read = &reads->objects[i];
        if (!read->changed || read->value.size == 0) continue;
        row_print(values, read->print);
        row_bytes(values, read->key);
        row_bytes(values, read->value);
        rows_cut(&rows);
    }
    rows_end(&rows);
    rows_begin(&rows, lane, SQL_DROP_OBJECTS, "u");
    for (uint32_t i = 0; i < reads->objects_count; i++) {
        const struct read_object *read = &reads->objects[i];
        if (read->changed && read->value.size == 0) row_print(values, read->print);
    }
    rows_end(&rows);
}

/* The views go by some of what a definition says, which is in its object for everybody else. */
static void write_definition(struct sql_values *values, struct bytes value, struct arena *arena)
{
    struct definition definition;
    bool whole = false;
    if (definition_decode(value, arena, &definition) != ERR_OK) return; /* readers say so */
    for (unsigned i = 0; i < definition.sets_count; i++)
        whole |= definition.sets[i].count == 0;
    bool zero = definition.mode != MODE_SERIES;
    for (unsigned i = 0; i < definition.granularities_count; i++)
        zero |= definition.granularities[i] == 0;
    row_text(values, definition.name);
    row_i64(values, definition.generation);
    row_i32(values, definition.mode == MODE_WINDOWED ? WINDOW_DURATION : 0);
    row_bool(values,
             whole && zero && !definition.frozen && bytes_equal(definition.group, USAGE_GROUP));
    row_time(values, definition.limit == LIMIT_NONE ? INT64_MIN : definition.limit);
}

static void write_definitions(struct lane_store *lane, const struct write_set *writes)
{
    const struct read_set *reads = writes->reads;
    struct rows rows;
    rows_begin(&rows, lane, SQL_PUT_DEFINITIONS, "tlifl");
    for (uint32_t i = 0; i < reads->objects_count; i++) {
        const struct read_object *read = &reads->objects[i];
        if (!read->changed || read->value.size == 0 || read->key.data[0] != OBJECT_DEFINITION)
            continue;
        write_definition(&lane->values, read->value, writes->arena);
        rows_cut(&rows);
    }
    rows_end(&rows);
    rows_begin(&rows, lane, SQL_DROP_DEFINITIONS, "t");
    for (uint32_t i = 0; i < reads->objects_count; i++) {
        const struct read_object *read = &reads->objects[i];
        if (!read->changed || read->value.size > 0 || read->key.data[0] != OBJECT_DEFINITION)
            continue;
        row_text(&lane->values, bytes_of(read->key.data + 1, read->key.size - 1));
    }
    rows_end(&rows);
}

/* -- Events ------------------------------------------------------------------------------------ */

static void row_event(struct sql_values *values, const struct op *op, int64_t arrived_ms)
{
    const struct stored_event event = event_to_store(op->event);
    row_i64(values, (int64_t)op->sequence);
    row_i64(values, arrived_ms);
    row_text(values, op->tenant);
    row_bytes(values, event.id);
    row_bytes(values, event.type);
    row_i64(values, event.occurred_ms);
    row_bytes(values, event.dimensions_json);
    row_bytes(values, event.payload);
    row_bool(values, event.duplicate);
    row_i64(values, event.duplicate ? (int64_t)event.first_sequence : 0);
    row_i64(values, event.duplicate ? event.first_seen_ms : 0);
    row_i64(values, (int64_t)event.origin);
}

static bool is_event(const struct op *op)
{
    return op->kind == OP_EVENT || op->kind == OP_IMPORT_EVENT;
}

/* An imported event says itself when it arrived. */
static int64_t arrival_of(const struct write_set *writes, const struct op *op)
{
    return op->kind == OP_IMPORT_EVENT ? op->event->arrived_ms : writes->time_ms;
}

/* Finds the oldest arrival of a batch's events, and sees to it that each has a partition to go to.
 * ERR_NOT_FOUND: there are none. */
static enum err prepare_events(struct lane_store *lane, const struct write_set *writes,
                               int64_t *oldest_out)
{
    enum err found = ERR_NOT_FOUND;
    int64_t before_ms = INT64_MIN;
    *oldest_out = INT64_MAX;
    for (uint32_t i = 0; i < writes->count; i++) {
        const struct op *op = writes->causes[i];
        if (!is_event(op)) continue;
        int64_t arrived_ms = arrival_of(writes, op);
        if (arrived_ms < *oldest_out) *oldest_out = arrived_ms;
        if (arrived_ms == before_ms) continue; /* as all that came to this store in one batch */
        found = partition_ensure(lane->database, arrived_ms);
        if (found != ERR_OK) return found;
        before_ms = arrived_ms;
    }
    return found;
}

/* 0 says that there is no event. */
static void note_oldest(struct lane_store *lane, int64_t oldest_ms)
{
    int64_t known_ms = atomic_load(&lane->oldest_ms);
    while (known_ms == 0 || known_ms > oldest_ms)
        if (atomic_compare_exchange_weak(&lane->oldest_ms, &known_ms, oldest_ms)) return;
}

static void write_events(struct lane_store *lane, const struct write_set *writes)
{
    struct rows rows;
    int64_t oldest_ms;
    enum err e = prepare_events(lane, writes, &oldest_ms);
    if (e == ERR_NOT_FOUND) return;
    if (e != ERR_OK) {
        lane->failed = true;
        return;
    }
    rows_begin(&rows, lane, SQL_PUT_EVENTS, "lltbblbbflll");
    for (uint32_t i = 0; i < writes->count; i++) {
        const struct op *op = writes->causes[i];
        if (!is_event(op)) continue;
        row_event(&lane->values, op, arrival_of(writes, op));
        rows_cut(&rows);
    }
    rows_end(&rows);
    note_oldest(lane, oldest_ms);
}

void lane_write(struct lane_store *lane, const struct write_set *writes)
{
    write_dead(lane, writes, SQL_DROP_SERIES);
    write_dead(lane, writes, SQL_DIG_GRAVES);
    write_series(lane, writes);
    write_cells(lane, writes, true);
    write_cells(lane, writes, false);
    drop_cells(lane, writes);
    lane_drop_sums(lane, writes);
    write_tenants(lane, writes);
    write_keys(lane, writes, true);
    write_keys(lane, writes, false);
    write_objects(lane, writes);
    write_definitions(lane, writes);
    write_events(lane, writes);
}

/* -- Memory ------------------------------------------------------------------------------------ */

void lane_remember(struct lane_store *lane, const struct write_set *writes)
{
    const struct read_set *reads = writes->reads;
    struct known_rows *known = &lane->known;
    for (uint32_t i = 0; i < reads->counters_count; i++)
        if (reads->counters[i].changed)
            known_put_counter(known, reads->counters[i].print, reads->counters[i].value);
    for (uint32_t i = 0; i < reads->cells_count; i++) {
        const struct read_cell *read = &reads->cells[i];
        if (read->changed && read->series != 0)
            known_put_cell(known, read->series, read->bucket, &read->value);
    }
    for (uint32_t i = 0; i < reads->tenants_count; i++)
        if (reads->tenants[i].changed)
            known_put_tenant(known, reads->tenants[i].print, reads->tenants[i].cells);
    for (uint32_t i = 0; i < reads->keys_count; i++)
        if (reads->keys[i].changed)
            known_put_key(known, reads->keys[i].print, &reads->keys[i].value);
    for (uint32_t i = 0; i < reads->objects_count; i++)
        if (reads->objects[i].changed)
            known_put_object(known, reads->objects[i].print, reads->objects[i].value);
}
