/* fuzz_block.c -- no bytes in the journal or the state make their readers do anything but read or
 * refuse.
 *
 * The first byte of the input says what the rest is: 'b' a block's body, 'c' a cell's row, 'n' a
 * counter's, 's' a series', 't' a tenant's, 'p' a position, 'k' and 'e' keys of cells and of the
 * expiry index, 'o' an op's outcome, 'j' a bundle's, 'd' a counter's definition, 'u' a tenant's
 * usage row. What is accepted must be what an encoder could have written: encoded and read again it
 * is the same. */
#include <stdlib.h>

#include "core/object.h"
#include "core/outcome.h"
#include "core/rules.h"
#include "store/embedded/journal/block.h"
#include "store/embedded/state/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t touched; /* views are read to their ends */

static void touch(struct bytes bytes)
{
    touched += hash_checksum(bytes);
}

static void check_counter(const struct counter *counter)
{
    must(counter->count > 0);
    int64_t last = INT64_MIN; /* calendar buckets are below 0 */
    for (uint32_t i = 0; i < counter->count; i++) {
        const struct series *series = &counter->series[i];
        must(series->id != 0);
        must(series->cells >= 0);
        must(series->duration > last);
        last = series->duration;
        must(counter_find(counter, series->duration) == series);
    }
}

static void check_cell(const struct cell *cell)
{
    must(cell->subbed >= 0);
    must(cell->added >= 0); /* net may be below zero: a rule may allow it */
}

static void saw_counter(void *context, struct bytes key, const struct counter *counter)
{
    (void)context;
    touch(key);
    if (counter) check_counter(counter);
}

static void saw_cell(void *context, uint64_t series, int64_t bucket, const struct cell *cell)
{
    (void)context, (void)series, (void)bucket;
    check_cell(cell);
}

static void saw_tenant(void *context, struct bytes tenant, int64_t cells)
{
    (void)context;
    touch(tenant);
    must(cells >= 0);
}

static void saw_key(void *context, struct fingerprint print, const struct key_record *record)
{
    (void)context, (void)print;
    must(record->exists);
    touch(record->outcome);
}

static void saw_dead(void *context, uint64_t series)
{
    (void)context;
    touched += series;
}

static void saw_object(void *context, struct bytes key, struct bytes value)
{
    (void)context;
    touch(key);
    touch(value);
}

static bool saw_event(void *context, const struct stored_event *event)
{
    (void)context;
    touch(event->tenant);
    touch(event->id);
    touch(event->type);
    touch(event->dimensions_json);
    touch(event->payload);
    return true;
}

static void fuzz_events(struct bytes bytes)
{
    bool stopped;
    for (uint32_t count = 1; count <= 8; count++) {
        const struct journal_block block = {.first_sequence = 1, .count = count, .body = bytes};
        enum err e = block_events(&block, saw_event, NULL, &stopped);
        must(e == ERR_OK || e == ERR_CORRUPT);
        must(!stopped);
    }
}

static void fuzz_definition(struct bytes bytes, struct buf *again, struct arena *arena)
{
    struct definition definition;
    struct definition back;
    if (definition_decode(bytes, arena, &definition) != ERR_OK) return;
    definition_encode(again, &definition);
    must(definition_decode(buf_bytes(again), arena, &back) == ERR_OK);
    must(back.mode == definition.mode && back.generation == definition.generation);
    must(back.sets_count == definition.sets_count);
}

static void fuzz_row(struct bytes bytes, struct arena *arena)
{
    struct usage_row row;
    struct usage_row back;
    if (!usage_row_decode(bytes, &row)) return;
    must(usage_row_decode(usage_row_encode(arena, &row), &back));
    must(bytes_equal(back.status, row.status) && back.updated_ms == row.updated_ms);
}

static void fuzz_body(struct bytes bytes, struct arena *arena)
{
    static const struct block_visitor visitor = {.counter = saw_counter,
                                                 .cell = saw_cell,
                                                 .tenant = saw_tenant,
                                                 .key = saw_key,
                                                 .object = saw_object,
                                                 .dead = saw_dead};
    enum err e = block_visit(bytes, 1, arena, &visitor);
    must(e == ERR_OK || e == ERR_CORRUPT);
    fuzz_events(bytes);
}

static void fuzz_cell(struct bytes bytes, struct buf *again)
{
    struct cell cell;
    struct cell back;
    if (cell_record_decode(bytes, &cell) != ERR_OK) return;
    check_cell(&cell);
    cell_record(again, &cell);
    must(cell_record_decode(buf_bytes(again), &back) == ERR_OK);
    must(back.added == cell.added && back.subbed == cell.subbed && back.exact == cell.exact);
    must(back.expires_ms == cell.expires_ms && back.start_ms == cell.start_ms);
}

static void fuzz_node(struct bytes bytes, struct buf *again)
{
    struct range_sum sum;
    struct range_sum back;
    if (node_record_decode(bytes, &sum) != ERR_OK) return;
    must(sum.added >= 0 && sum.subbed >= 0);
    node_record(again, &sum);
    must(node_record_decode(buf_bytes(again), &back) == ERR_OK);
    must(back.added == sum.added && back.subbed == sum.subbed);
}

static void fuzz_counter(struct bytes bytes, struct buf *again, struct arena *arena)
{
    const struct counter *counter;
    const struct counter *back;
    if (counter_record_decode(bytes, arena, &counter) != ERR_OK) return;
    check_counter(counter);
    counter_record(again, counter);
    must(counter_record_decode(buf_bytes(again), arena, &back) == ERR_OK);
    must(back->count == counter->count);
    must(back->series[0].until_ms == counter->series[0].until_ms);
}

static void fuzz_series(struct bytes bytes)
{
    int32_t duration;
    struct bytes key;
    if (series_record_decode(bytes, &duration, &key) != ERR_OK) return;
    touched += (uint32_t)duration;
    touch(key);
}

static void fuzz_small(char kind, struct bytes bytes)
{
    int64_t a;
    int64_t b;
    uint64_t series;
    struct store_position position;
    int32_t duration;
    if (kind == 'm' && mark_record_decode(bytes, &duration) == ERR_OK) must(duration > 0);
    if (kind == 't' && tenant_record_decode(bytes, &a) == ERR_OK) must(a >= 0);
    if (kind == 'p') (void)!position_record_decode(bytes, &position);
    if (kind == 'k') must((cell_key_decode(bytes, &series, &a) == ERR_OK) == (bytes.size == 16));
    if (kind == 'e')
        must((expiry_key_decode(bytes, &a, &series, &b) == ERR_OK) == (bytes.size == 24));
}

static void fuzz_op(struct bytes bytes, struct buf *again)
{
    struct op op = {0};
    struct op back = {0};
    if (!outcome_decode_op(bytes, &op)) return;
    outcome_encode_op(again, &op);
    must(outcome_decode_op(buf_bytes(again), &back));
    must(back.err == op.err && back.after.net == op.after.net);
}

static void fuzz_bundle(struct bytes bytes, struct buf *again)
{
    struct op ops[8] = {0};
    for (uint32_t count = 1; count <= ARRAY_COUNT(ops); count++) {
        struct bundle bundle = {.ops = ops, .count = count};
        if (!outcome_decode_bundle(bytes, &bundle)) continue;
        buf_reset(again);
        outcome_encode_bundle(again, &bundle);
        must(outcome_decode_bundle(buf_bytes(again), &bundle));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct buf again;
    if (size == 0) return 0;
    char kind = (char)data[0];
    struct bytes bytes = bytes_of(data + 1, size - 1);
    arena_init(&arena, 4096);
    buf_init(&again, 1u << 20);
    if (kind == 'b') fuzz_body(bytes, &arena);
    if (kind == 'c') fuzz_cell(bytes, &again);
    if (kind == 'w') fuzz_node(bytes, &again);
    if (kind == 'n') fuzz_counter(bytes, &again, &arena);
    if (kind == 's') fuzz_series(bytes);
    if (kind == 'd') fuzz_definition(bytes, &again, &arena);
    if (kind == 'u') fuzz_row(bytes, &arena);
    if (kind == 'o') fuzz_op(bytes, &again);
    if (kind == 'j') fuzz_bundle(bytes, &again);
    fuzz_small(kind, bytes);
    buf_release(&again);
    arena_release(&arena);
    return 0;
}
