/* test_outcome.c -- what an idempotency key remembers says all that the first reply said. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/outcome.h"

static struct buf bytes;

static int setup(void **state)
{
    buf_init(&bytes, 4096);
    return 0;
}

static int teardown(void **state)
{
    buf_release(&bytes);
    return 0;
}

/* Everything an op or a bundle can end with, whether it is remembered by itself or only as part of
 * a batch under one key. */
static const enum err outcomes[] = {
    ERR_OK,         ERR_NEGATIVE, ERR_LIMIT,     ERR_OVERFLOW,     ERR_INVALID,
    ERR_CELL_LIMIT, ERR_MANAGED,  ERR_NOT_FOUND, ERR_KEY_CONFLICT, ERR_GRANULARITY_LIMIT,
};

static void only_decided_outcomes_are_final(void **state)
{
    for (enum err e = 0; e < ERR_COUNT; e++) {
        bool final = e == ERR_OK || e == ERR_NEGATIVE || e == ERR_LIMIT || e == ERR_OVERFLOW;
        assert_int_equal(outcome_is_final(e), final);
    }
}

static void an_op_comes_back_as_it_was(void **state)
{
    static const struct triple triples[] = {
        {0, 0, 0}, {4, 10, 6}, {INT64_MAX, INT64_MAX, 0}, {0, INT64_MAX, INT64_MAX}};
    for (size_t i = 0; i < ARRAY_COUNT(outcomes); i++)
        for (size_t t = 0; t < ARRAY_COUNT(triples); t++) {
            struct op op = {.err = outcomes[i], .after = triples[t]};
            struct op back = {.err = ERR_INTERNAL};
            bool shown = op.err == ERR_OK || op.err == ERR_LIMIT;
            buf_reset(&bytes);
            outcome_encode_op(&bytes, &op);
            assert_true(outcome_decode_op(buf_bytes(&bytes), &back));
            assert_int_equal(back.err, op.err);
            if (shown) assert_memory_equal(&back.after, &op.after, sizeof op.after);
        }
}

/* The numbers are on disk: they must stay what they are. */
static void the_numbers_of_errors_never_change(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(outcomes); i++) {
        struct op op = {.err = outcomes[i]};
        buf_reset(&bytes);
        outcome_encode_op(&bytes, &op);
        assert_int_equal(bytes.data[0], i + 1);
    }
}

static struct bundle bundle_of(struct op *ops, uint32_t count)
{
    return (struct bundle){.ops = ops, .count = count};
}

static void a_bundle_comes_back_as_it_was(void **state)
{
    struct op ops[] = {{.err = ERR_OK, .after = {4, 10, 6}},
                       {.err = ERR_NEGATIVE},
                       {.err = ERR_LIMIT, .after = {1, 2, 1}},
                       {.err = ERR_INVALID}};
    struct op back[4] = {0};
    struct bundle first = bundle_of(ops, 4);
    struct bundle second = bundle_of(back, 4);
    first.err = ERR_OVERFLOW;
    first.failed_index = 3;
    outcome_encode_bundle(&bytes, &first);
    assert_true(outcome_decode_bundle(buf_bytes(&bytes), &second));
    assert_int_equal(second.err, ERR_OVERFLOW);
    assert_int_equal(second.failed_index, 3);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(back[i].err, ops[i].err);
        assert_memory_equal(&back[i].after, &ops[i].after, sizeof ops[i].after);
    }
}

static void a_bundle_of_another_size_is_not_this_one(void **state)
{
    struct op ops[3] = {0};
    struct bundle bundle = bundle_of(ops, 2);
    outcome_encode_bundle(&bytes, &bundle);
    bundle.count = 3;
    assert_false(outcome_decode_bundle(buf_bytes(&bytes), &bundle));
    bundle.count = 1;
    assert_false(outcome_decode_bundle(buf_bytes(&bytes), &bundle));
    bundle.count = 2;
    assert_true(outcome_decode_bundle(buf_bytes(&bytes), &bundle));
}

static void an_op_and_a_bundle_of_one_are_not_mistaken_for_each_other(void **state)
{
    struct op op = {.err = ERR_OK, .after = {1, 1, 0}};
    struct bundle bundle = bundle_of(&op, 1);
    outcome_encode_bundle(&bytes, &bundle);
    assert_false(outcome_decode_op(buf_bytes(&bytes), &op));
    buf_reset(&bytes);
    outcome_encode_op(&bytes, &(struct op){.err = ERR_OK, .after = {1, 1, 0}});
    assert_false(outcome_decode_bundle(buf_bytes(&bytes), &bundle));
}

static void bytes_cut_short_or_too_long_are_refused(void **state)
{
    struct op ops[2] = {{.err = ERR_OK, .after = {4, 1000, 996}}, {.err = ERR_LIMIT}};
    struct bundle bundle = bundle_of(ops, 2);
    outcome_encode_bundle(&bytes, &bundle);
    for (size_t size = 0; size < bytes.size; size++)
        assert_false(outcome_decode_bundle(bytes_of(bytes.data, size), &bundle));
    buf_add_char(&bytes, 0);
    assert_false(outcome_decode_bundle(buf_bytes(&bytes), &bundle));

    buf_reset(&bytes);
    outcome_encode_op(&bytes, &(struct op){.err = ERR_OK, .after = {4, 1000, 996}});
    for (size_t size = 0; size < bytes.size; size++)
        assert_false(outcome_decode_op(bytes_of(bytes.data, size), ops));
    buf_add_char(&bytes, 0);
    assert_false(outcome_decode_op(buf_bytes(&bytes), ops));
}

static void a_triple_that_does_not_add_up_is_refused(void **state)
{
    struct op op;
    buf_add_varint(&bytes, 1);
    buf_add_signed(&bytes, INT64_MIN);
    buf_add_signed(&bytes, 1);
    assert_false(outcome_decode_op(buf_bytes(&bytes), &op));
    static const char unknown[] = {0, 12, 127};
    for (size_t i = 0; i < sizeof unknown; i++)
        assert_false(outcome_decode_op(bytes_of(&unknown[i], 1), &op));
}

#define RECORD(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RECORD(only_decided_outcomes_are_final),
        RECORD(an_op_comes_back_as_it_was),
        RECORD(the_numbers_of_errors_never_change),
        RECORD(a_bundle_comes_back_as_it_was),
        RECORD(a_bundle_of_another_size_is_not_this_one),
        RECORD(an_op_and_a_bundle_of_one_are_not_mistaken_for_each_other),
        RECORD(bytes_cut_short_or_too_long_are_refused),
        RECORD(a_triple_that_does_not_add_up_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
