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
#include "store/embedded/block.h"
#include "support/decider.h"

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
    if (cell->expires_ms != TIME_NONE) buf_addf(&seen, " until %lld", (long long)cell->expires_ms);
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
    buf_addf(&seen, "key %llu at %lld check %llx outcome %zu\n",
             (unsigned long long)record->sequence, (long long)record->first_seen_ms,
             (unsigned long long)record->check, record->outcome.size);
}

static void saw_dead(void *context, uint64_t series)
{
    (void)context;
    buf_addf(&seen, "dead %llu\n", (unsigned long long)series);
}

static const struct block_visitor visitor = {saw_counter, saw_cell, saw_tenant,
                                             saw_key,     saw_dead, NULL};

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
    decider_job(&decider, (struct job){0}, ops, count);
    decider_decide(&decider);
    buf_reset(&body);
    block_encode(&body, &decider.apply.writes);
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
                "key 5 at 1000000 check abc outcome 3\n");
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
    expect_seen("key 1 at 1000000 check 1 outcome 1\n");
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
}

static void refuse(const char *tail, size_t size)
{
    buf_reset(&body);
    buf_add(&body, BYTES("\x01\0\0\0\0"));
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
    REFUSE("C\x01\x00\x02\x04");                              /* subbed over added */
    REFUSE("C\x01\x00\x02\x01");                              /* subbed below zero */
    REFUSE("E\x01\x00\x02\x00");                              /* no expiry */
    REFUSE("N\x01x\x00");                                     /* no series */
    REFUSE("N\x01x\x01\x00\x01\x00");                         /* series 0 */
    REFUSE("T\x01x\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"); /* negative */
    REFUSE("K1234567812345678\x01\x02"
           "12345678\x05"
           "abcd");   /* an outcome cut short */
    REFUSE("n\x09x"); /* a key cut short */
    REFUSE("D");
}

/* The causes' size says more than there is. */
static void causes_past_the_end_are_refused(void **state)
{
    buf_add(&body, BYTES("\x01\x05\0\0\0abcd"));
    assert_int_equal(visit(buf_bytes(&body)), ERR_CORRUPT);
    buf_release(&seen);
    assert_int_equal(visit(BYTES("\x01\x05\0")), ERR_CORRUPT);
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
        BODY(a_body_cut_inside_an_effect_is_refused),
        BODY(a_body_of_another_format_is_refused),
        BODY(effects_that_no_encoder_writes_are_refused),
        BODY(causes_past_the_end_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
