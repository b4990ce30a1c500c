/* test_block.c -- a batch's effects come back from the journal's bytes as they went in, and other
 * bytes are refused. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/counter.h"
#include "store/embedded/journal/block.h"
#include "support/decider.h"
#include "support/rules_text.h"

static struct decider decider;
static struct buf body;
static struct arena arena;

static int setup(void **state)
{
    decider_init(&decider);
    buf_init(&body, 1u << 20);
    arena_init(&arena, 4096);
    return 0;
}

static int teardown(void **state)
{
    decider_release(&decider);
    rules_release(decider.rules);
    buf_release(&body);
    arena_release(&arena);
    return 0;
}

/* ---- what is visited, as text ---- */

static struct buf seen;

static void saw_counter(void *context, struct bytes key, const struct counter *counter)
{
    (void)context;
    struct bytes name = bytes_of(key.data + 6, key.size - 7); /* after "acme", NUL, kind */
    buf_addf(&seen, "counter %.*s", (int)name.size, name.data);
    if (!counter) buf_addf(&seen, " gone");
    for (uint32_t i = 0; counter && i < counter->count; i++)
        buf_addf(&seen, " %llu/%d:%lld", (unsigned long long)counter->series[i].id,
                 counter->series[i].duration, (long long)counter->series[i].cells);
    buf_add_char(&seen, '\n');
}

static void saw_cell(void *context, uint64_t series, int64_t bucket, const struct cell *cell)
{
    (void)context;
    buf_addf(&seen, "cell %llu@%lld", (unsigned long long)series, (long long)bucket);
    if (cell->exists)
        buf_addf(&seen, " %lld-%lld at %lld", (long long)cell->added, (long long)cell->subbed,
                 (long long)cell->updated_ms);
    else
        buf_addf(&seen, " gone");
    if (cell->exact) buf_addf(&seen, " exact %lld", (long long)cell->expires_ms);
    if (cell->expires_ms != TIME_NONE) buf_addf(&seen, " until %lld", (long long)cell->expires_ms);
    if (cell->start_ms != TIME_NONE) buf_addf(&seen, " from %lld", (long long)cell->start_ms);
    buf_add_char(&seen, '\n');
}

static void saw_tenant(void *context, struct bytes tenant, int64_t cells)
{
    (void)context;
    buf_addf(&seen, "tenant %.*s %lld\n", (int)tenant.size, tenant.data, (long long)cells);
}

static void saw_key(void *context, struct fingerprint print, const struct key_record *record)
{
    (void)context, (void)print;
    assert_true(record->exists);
    buf_addf(&seen, "%s %llu at %lld digest %llx outcome %zu\n", record->event ? "id" : "key",
             (unsigned long long)record->sequence, (long long)record->first_seen_ms,
             (unsigned long long)record->digest, record->outcome.size);
}

static void saw_dead(void *context, uint64_t series)
{
    (void)context;
    buf_addf(&seen, "dead %llu\n", (unsigned long long)series);
}

static void saw_object(void *context, struct bytes key, struct bytes value)
{
    (void)context;
    buf_addf(&seen, "object %.*s=%.*s\n", (int)key.size, key.data, (int)value.size, value.data);
}

static const struct block_visitor visitor = {.counter = saw_counter,
                                             .cell = saw_cell,
                                             .tenant = saw_tenant,
                                             .key = saw_key,
                                             .object = saw_object,
                                             .dead = saw_dead};

static enum err visit(struct bytes bytes)
{
    buf_init(&seen, 1u << 16);
    enum err e = block_visit(bytes, 777, &arena, &visitor);
    buf_add_char(&seen, 0);
    return e;
}

static void expect_seen(const char *text)
{
    assert_int_equal(visit(buf_bytes(&body)), ERR_OK);
    assert_string_equal(seen.data, text);
    buf_release(&seen);
}

static struct op make(enum op_kind kind, const char *name, int64_t amount, int32_t duration,
                      int64_t bucket)
{
    struct op op = ask(&decider.asks, kind, name, amount);
    op.duration = duration;
    op.bucket = bucket;
    return op;
}

static void encode(const struct op *ops, uint32_t count)
{
    decider_bundle(&decider, (struct bundle){0}, ops, count);
    decider_decide(&decider);
    buf_reset(&body);
    block_encode(&body, &decider.apply.writes, 0);
    assert_false(body.failed);
    decider_keep(&decider);
}

/* ---- there and back ---- */

static void every_kind_of_effect_comes_back(void **state)
{
    struct op lasting = make(OP_INCREMENT, "n", INT64_MAX, 60, -120);
    struct op due = make(OP_INCREMENT, "m", 1, 60, 60);
    due.expires_ms = -5;
    const struct op first[] = {lasting, make(OP_DECREMENT, "n", 3, 60, -120), due,
                               make(OP_INCREMENT, "m", 1, 0, 0),
                               ask_keyed(&decider.asks, make(OP_SET, "k", 0, 0, 0), "k", 0xabc)};
    encode(first, 5);
    expect_seen("counter n 1/60:1\n"
                "counter m 3/0:1 2/60:1\n"
                "counter k 4/0:1\n"
                "cell 1@-120 9223372036854775807-3 at 777\n"
                "cell 2@60 1-0 at 777 until -5\n"
                "cell 3@0 1-0 at 777\n"
                "cell 4@0 0-0 at 777\n"
                "tenant acme 4\n"
                "key 5 at 777 digest abc outcome 3\n");
    const struct op second[] = {make(OP_DELETE, "n", 0, 0, 0), make(OP_EXPIRE, "m", 0, 60, 60),
                                make(OP_INCREMENT, "m", 2, 60, 0)};
    encode(second, 3);
    expect_seen("counter n gone\n"
                "counter m 3/0:1 5/60:1\n"
                "cell 5@0 2-0 at 777\n"
                "tenant acme 3\n"
                "dead 1\n"
                "dead 2\n");
}

static void a_removed_cell_of_a_living_series_comes_back_as_gone(void **state)
{
    struct op due = make(OP_INCREMENT, "n", 1, 60, 60);
    due.expires_ms = 1;
    const struct op first[] = {due, make(OP_INCREMENT, "n", 1, 60, 120)};
    encode(first, 2);
    const struct op second = make(OP_EXPIRE, "n", 0, 60, 60);
    encode(&second, 1);
    expect_seen("counter n 1/60:1\ncell 1@60 gone\ntenant acme 1\n");
}

static void what_did_not_change_is_not_written(void **state)
{
    const struct op first[] = {make(OP_INCREMENT, "n", 1, 0, 0), make(OP_INCREMENT, "m", 1, 0, 0)};
    encode(first, 2);
    const struct op second[] = {make(OP_INCREMENT, "n", 1, 0, 0), make(OP_DECREMENT, "m", 9, 0, 0),
                                make(OP_SET, "m", 1, 0, 0)};
    encode(second, 3);
    expect_seen("cell 1@0 2-0 at 777\n");
}

/* A refusal that is remembered is a cause, though it changed no cell. */
static void a_remembered_refusal_is_only_a_key(void **state)
{
    const struct op op = ask_keyed(&decider.asks, make(OP_DECREMENT, "n", 1, 0, 0), "k", 1);
    encode(&op, 1);
    expect_seen("key 1 at 777 digest 1 outcome 1\n");
}

static void the_key_of_an_effect_borrows_from_the_body(void **state)
{
    const struct op op = make(OP_INCREMENT, "n", 1, 0, 0);
    encode(&op, 1);
    buf_init(&seen, 1u << 16);
    char *copy = must_alloc(body.size); /* exact size: reading past it is seen by the sanitizer */
    memcpy(copy, body.data, body.size);
    assert_int_equal(block_visit(bytes_of(copy, body.size), 1, &arena, &visitor), ERR_OK);
    free(copy);
    buf_release(&seen);
}

/* ---- events ---- */

static struct op event(const char *id, const char *type)
{
    decider.asks.occurred_ms = 1234;
    return ask_event(&decider.asks, id, type, "k=v", "[1]");
}

static void use_rules(const char *text)
{
    rules_release(decider.rules);
    decider.rules = rules_of_text(text, 1);
}

static void an_event_leaves_its_id_and_what_the_rules_say(void **state)
{
    use_rules("counters:\n"
              "- counterName: w\n  mode: windowed\n  window: 1h\n"
              "  rules: [{on: up, op: increment}]\n"
              "- counterName: n\n  rules: [{on: up, op: decrement}]\n"
              "statuses: {up: high}\n");
    const struct op op = event("E1", "up");
    encode(&op, 1);
    assert_int_equal(visit(buf_bytes(&body)), ERR_OK);
    char expected[400];
    snprintf(expected, sizeof expected,
             "cell 1@0 1-0 at 777 until %lld from 1000000\n"
             "cell 2@0 0-1 at 777\n"
             "tenant acme 2\n"
             "id 1 at 777 digest %x outcome 0\n"
             "object uacme=",
             (long long)(1000000 + 3600000 + WINDOW_IDLE_MS), op.event->digest);
    assert_non_null(strstr(seen.data, expected));
    buf_release(&seen);
}

static void whose_an_id_is_comes_back(void **state)
{
    use_rules("{}");
    decider.limits.ids_shared = decider.asks.ids_shared = true;
    const struct op op = event("E1", "up");
    encode(&op, 1);
    char expected[100];
    snprintf(expected, sizeof expected, "id 1 at 777 digest %x outcome 8\n", op.event->digest);
    expect_seen(expected);
}

static void objects_come_back_and_go(void **state)
{
    const struct op put[] = {ask_object(&decider.asks, "u1", "one"),
                             ask_object(&decider.asks, "u2", "two")};
    encode(put, 2);
    expect_seen("object u1=one\nobject u2=two\n");
    const struct op cut[] = {ask_object(&decider.asks, "u1", NULL),
                             ask_object(&decider.asks, "u2", "two")}; /* as it is */
    encode(cut, 2);
    expect_seen("object u1=\n");
}

static unsigned stop_after;

static bool saw_event(void *context, const struct stored_event *event)
{
    (void)context;
    buf_addf(&seen, "%s %llu at %lld: %.*s %.*s %.*s %lld %.*s %.*s",
             event->duplicate ? "dup" : "event", (unsigned long long)event->sequence,
             (long long)event->arrived_ms, (int)event->tenant.size, event->tenant.data,
             (int)event->id.size, event->id.data, (int)event->type.size, event->type.data,
             (long long)event->occurred_ms, (int)event->dimensions_json.size,
             event->dimensions_json.data, (int)event->payload.size, event->payload.data);
    if (event->duplicate)
        buf_addf(&seen, " first %llu at %lld", (unsigned long long)event->first_sequence,
                 (long long)event->first_seen_ms);
    buf_add_char(&seen, '\n');
    return --stop_after > 0;
}

static enum err visit_events(struct bytes bytes, uint32_t count, bool *stopped_out)
{
    const struct journal_block block = {
        .first_sequence = 40, .count = count, .time_ms = 777, .body = bytes};
    buf_init(&seen, 1u << 16);
    enum err e = block_events(&block, saw_event, NULL, stopped_out);
    buf_add_char(&seen, 0);
    return e;
}

/* Between causes of every other kind, which are stepped over. */
static uint32_t encode_mixed(void)
{
    use_rules("{}");
    struct op due = make(OP_INCREMENT, "m", 1, 60, 60);
    due.expires_ms = 5;
    const struct op ops[] = {
        make(OP_INCREMENT, "n", 300, 0, 0),
        event("E1", "up"),
        due,
        make(OP_EXPIRE, "m", 0, 60, 60),
        make(OP_SET, "k", 70000, 0, 0),
        make(OP_DECREMENT, "k", 1, 0, 0),
        event("E1", "up"),
        ask_keyed(&decider.asks, make(OP_DECREMENT, "n", 1000, 0, 0), "k", 1), /* refused */
        ask_object(&decider.asks, "u1", "one"),
        make(OP_DELETE, "k", 0, 0, 0),
        make(OP_REMOVE, "n", 0, 0, 0),
        event("E2", "down"),
    };
    encode(ops, ARRAY_COUNT(ops));
    return ARRAY_COUNT(ops);
}

#define MIXED_FIRST "event 41 at 777: acme E1 up 1234 {\"k\":\"v\"} [1]\n"
#define MIXED_SECOND "dup 46 at 777: acme E1 up 1234 {\"k\":\"v\"} [1] first 2 at 1000000\n"
#define MIXED_LAST "event 51 at 777: acme E2 down 1234 {\"k\":\"v\"} [1]\n"

static void events_are_found_among_other_causes(void **state)
{
    bool stopped;
    uint32_t count = encode_mixed();
    stop_after = UINT32_MAX;
    assert_int_equal(visit_events(buf_bytes(&body), count, &stopped), ERR_OK);
    assert_false(stopped);
    assert_string_equal(seen.data, MIXED_FIRST MIXED_SECOND MIXED_LAST);
    buf_release(&seen);
}

static void a_walk_over_events_stops_when_told_to(void **state)
{
    bool stopped;
    uint32_t count = encode_mixed();
    stop_after = 2;
    assert_int_equal(visit_events(buf_bytes(&body), count, &stopped), ERR_OK);
    assert_true(stopped);
    assert_string_equal(seen.data, MIXED_FIRST MIXED_SECOND);
    buf_release(&seen);
}

static void causes_that_no_encoder_writes_are_refused(void **state)
{
    bool stopped;
    uint32_t count = encode_mixed();
    stop_after = UINT32_MAX;
    assert_int_equal(visit_events(buf_bytes(&body), count + 1, &stopped), ERR_CORRUPT);
    buf_release(&seen);
    for (size_t size = 0; size < 40; size++) {
        assert_int_equal(visit_events(bytes_of(body.data, size), count, &stopped), ERR_CORRUPT);
        buf_release(&seen);
    }
    assert_int_equal(visit_events(BYTES("\x02\x01\0\0\0\x40"), 1, &stopped), ERR_CORRUPT);
    buf_release(&seen);
}

/* ---- other bytes ---- */

static void encode_everything(void)
{
    struct op due = make(OP_INCREMENT, "m", 1, 60, 60);
    due.expires_ms = 5;
    const struct op first[] = {make(OP_INCREMENT, "n", 1000, 60, -120), due,
                               make(OP_INCREMENT, "x", 1, 0, 0)};
    encode(first, 3);
    const struct op second[] = {
        make(OP_DELETE, "n", 0, 0, 0), make(OP_INCREMENT, "m", 1000, 60, 60),
        ask_keyed(&decider.asks, make(OP_INCREMENT, "x", 1, 60, 0), "k", 1)};
    encode(second, 3);
}

/* Cut at an effect's end it is a shorter list, which only the block's checksum can tell. */
static void a_body_cut_inside_an_effect_is_refused(void **state)
{
    encode_everything();
    unsigned good = 0;
    for (size_t size = 0; size < body.size; size++) {
        char *copy = must_alloc(size + 1);
        memcpy(copy, body.data, size);
        good += visit(bytes_of(copy, size)) == ERR_OK;
        buf_release(&seen);
        free(copy);
    }
    assert_int_equal(visit(buf_bytes(&body)), ERR_OK);
    unsigned lines = 0;
    for (const char *at = seen.data; (at = strchr(at, '\n')); at++)
        lines++;
    assert_int_equal(good, lines); /* one before each effect */
    buf_release(&seen);
}

static void a_body_of_another_format_is_refused(void **state)
{
    encode_everything();
    body.data[0]++;
    assert_int_equal(visit(buf_bytes(&body)), ERR_CORRUPT);
    assert_int_equal(seen.size, 1); /* nothing was visited */
    buf_release(&seen);
    body.data[0] = 1;
    assert_int_equal(visit(buf_bytes(&body)), ERR_CORRUPT);
    buf_release(&seen);
}

/* Format 2, as a program wrote it that knew no exact expiries: a cell that expires, and one that
 * does not. */
static void a_body_of_the_format_before_is_read(void **state)
{
    buf_reset(&body);
    buf_add(&body, BYTES("\x02\0\0\0\0"
                         "E\x07\x78\x0a\x02\xd0\x0f"
                         "C\x07\x00\x04\x00"));
    assert_int_equal(visit(buf_bytes(&body)), ERR_OK);
    assert_non_null(strstr(seen.data, "1000"));
    assert_null(strstr(seen.data, "exact"));
    buf_release(&seen);
}

static void an_exact_expiry_comes_back(void **state)
{
    buf_reset(&body);
    buf_add(&body, BYTES("\x03\0\0\0\0X\x07\x78\x0a\x02\xd0\x0f"));
    assert_int_equal(visit(buf_bytes(&body)), ERR_OK);
    assert_non_null(strstr(seen.data, "exact 1000"));
    buf_release(&seen);
}

static void refuse(const char *tail, size_t size)
{
    buf_reset(&body);
    buf_add(&body, BYTES("\x02\0\0\0\0"));
    assert_int_equal(visit(buf_bytes(&body)), ERR_OK);
    buf_release(&seen);
    buf_add(&body, bytes_of(tail, size));
    assert_int_equal(visit(buf_bytes(&body)), ERR_CORRUPT);
    assert_int_equal(seen.size, 1);
    buf_release(&seen);
}
#define REFUSE(tail) refuse(tail, sizeof(tail) - 1)

static void effects_that_no_encoder_writes_are_refused(void **state)
{
    REFUSE("?");
    REFUSE("C\x01\x00\x01\x02");                              /* added below zero */
    REFUSE("C\x01\x00\x02\x01");                              /* subbed below zero */
    REFUSE("E\x01\x00\x02\x00");                              /* no expiry */
    REFUSE("N\x01x\x00");                                     /* no series */
    REFUSE("N\x01x\x01\x00\x01\x00");                         /* series 0 */
    REFUSE("T\x01x\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"); /* negative */
    REFUSE("W\x01\x00\x02\x00\x02");                          /* no start */
    REFUSE("O\x01k\x06value");                                /* a value cut short */
    REFUSE("I1234567812345678\x01\x02\x02\x02");              /* a digest cut short */
    REFUSE("K1234567812345678\x01"
           "12345678\x05"
           "abcd");   /* an outcome cut short */
    REFUSE("n\x09x"); /* a key cut short */
    REFUSE("D");
}

/* The causes' size says more than there is. */
static void causes_past_the_end_are_refused(void **state)
{
    buf_add(&body, BYTES("\x02\x05\0\0\0abcd"));
    assert_int_equal(visit(buf_bytes(&body)), ERR_CORRUPT);
    buf_release(&seen);
    assert_int_equal(visit(BYTES("\x02\x05\0")), ERR_CORRUPT);
    buf_release(&seen);
    assert_int_equal(visit(BYTES_NONE), ERR_CORRUPT);
    buf_release(&seen);
}

#define BODY(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BODY(every_kind_of_effect_comes_back),
        BODY(a_removed_cell_of_a_living_series_comes_back_as_gone),
        BODY(what_did_not_change_is_not_written),
        BODY(a_remembered_refusal_is_only_a_key),
        BODY(the_key_of_an_effect_borrows_from_the_body),
        BODY(an_event_leaves_its_id_and_what_the_rules_say),
        BODY(whose_an_id_is_comes_back),
        BODY(objects_come_back_and_go),
        BODY(events_are_found_among_other_causes),
        BODY(a_walk_over_events_stops_when_told_to),
        BODY(causes_that_no_encoder_writes_are_refused),
        BODY(a_body_cut_inside_an_effect_is_refused),
        BODY(a_body_of_another_format_is_refused),
        BODY(a_body_of_the_format_before_is_read),
        BODY(an_exact_expiry_comes_back),
        BODY(effects_that_no_encoder_writes_are_refused),
        BODY(causes_past_the_end_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
