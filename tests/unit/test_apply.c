/* test_apply.c -- single decisions: what SPEC 5 says about each operation, limits and deletes.
 * All-or-nothing bundles and keys are in test_apply_bundles.c. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "core/counter.h"
#include "support/decider.h"

static struct decider decider;

static int setup(void **state)
{
    decider_init(&decider);
    return 0;
}

static int teardown(void **state)
{
    decider_release(&decider);
    return 0;
}

static struct op make(enum op_kind kind, const char *name, int64_t amount)
{
    return ask(&decider.asks, kind, name, amount);
}

static struct op make_at(enum op_kind kind, const char *name, int64_t amount, int32_t duration,
                         int64_t bucket)
{
    struct op op = make(kind, name, amount);
    op.duration = duration;
    op.bucket = bucket;
    return op;
}

/* One batch of separate bundles, one op each, all of them kept. */
static struct op *judge(const struct op *ops, uint32_t count)
{
    struct op *first = decider_bundle(&decider, (struct bundle){0}, ops, count);
    decider_decide(&decider);
    return first;
}

static void expect_triple(const struct op *op, int64_t net, int64_t added, int64_t subbed)
{
    assert_int_equal(op->err, ERR_OK);
    assert_int_equal(op->after.net, net);
    assert_int_equal(op->after.added, added);
    assert_int_equal(op->after.subbed, subbed);
}

static struct cell stored(const char *name, int32_t duration, int64_t bucket)
{
    struct bytes key = ask_counter(&decider.asks, name);
    struct cell_ref ref = {key, fingerprint_of(decider.asks.secret, key), duration, 0};
    struct cell cell = {.exists = false};
    enum err e = view_get(&decider.store->view, &ref, bucket, READ_ALL, &cell);
    assert_int_equal(e, cell.exists ? ERR_OK : ERR_NOT_FOUND);
    return cell;
}

/* ---- in arrival order, each alone ---- */

static void each_op_is_judged_on_what_the_one_before_left_A_27c(void **state)
{
    const struct op ops[] = {make(OP_INCREMENT, "n", 5), make(OP_DECREMENT, "n", 2),
                             make(OP_SET, "n", 10), make(OP_DECREMENT, "n", 10)};
    const struct op *done = judge(ops, 4);
    expect_triple(&done[0], 5, 5, 0);
    expect_triple(&done[1], 3, 5, 2);
    expect_triple(&done[2], 10, 12, 2);
    expect_triple(&done[3], 0, 12, 12);
}

static void a_later_increment_does_not_rescue_a_decrement_A_27c(void **state)
{
    const struct op ops[] = {make(OP_INCREMENT, "n", 1), make(OP_DECREMENT, "n", 2),
                             make(OP_INCREMENT, "n", 5)};
    const struct op *done = judge(ops, 3);
    assert_int_equal(done[1].err, ERR_NEGATIVE);
    expect_triple(&done[2], 6, 6, 0);
}

static void a_refused_op_disturbs_no_neighbour_S3_45(void **state)
{
    const struct op ops[] = {make(OP_INCREMENT, "n", INT64_MAX), make(OP_INCREMENT, "n", 1),
                             make(OP_DECREMENT, "m", 1), make(OP_DECREMENT, "n", 7)};
    const struct op *done = judge(ops, 4);
    assert_int_equal(done[1].err, ERR_OVERFLOW);
    assert_int_equal(done[2].err, ERR_NEGATIVE);
    expect_triple(&done[3], INT64_MAX - 7, INT64_MAX, 7);
    assert_int_equal(decider.apply.writes.count, 2);
    decider_keep(&decider);
    assert_int_equal(stored("n", 0, 0).subbed, 7);
    assert_false(stored("m", 0, 0).exists);
}

static void a_refused_decrement_leaves_no_trace_S3_40_S3_42(void **state)
{
    const struct op op = make(OP_DECREMENT, "n", 1);
    const struct op *done = judge(&op, 1);
    assert_int_equal(done[0].err, ERR_NEGATIVE);
    const struct apply *apply = &decider.apply;
    assert_int_equal(apply->writes.count, 0);
    assert_int_equal(apply->sequence, 0);
    assert_int_equal(apply->next_series, 1);
    assert_false(apply->reads.counters[0].changed);
    assert_false(apply->reads.cells[0].changed);
    assert_false(apply->reads.tenants[0].changed);
}

static void buckets_granularities_and_names_do_not_mix(void **state)
{
    const struct op ops[] = {
        make_at(OP_INCREMENT, "n", 1, 60, 0),   make_at(OP_INCREMENT, "n", 2, 60, 60),
        make_at(OP_INCREMENT, "n", 4, 3600, 0), make_at(OP_INCREMENT, "m", 8, 60, 0),
        make_at(OP_INCREMENT, "n", 16, 60, 0),
    };
    judge(ops, 5);
    decider_keep(&decider);
    assert_int_equal(stored("n", 60, 0).added, 17);
    assert_int_equal(stored("n", 60, 60).added, 2);
    assert_int_equal(stored("n", 3600, 0).added, 4);
    assert_int_equal(stored("m", 60, 0).added, 8);
    decider.asks.tenant = "other";
    assert_false(stored("n", 60, 0).exists);
}

static void every_object_of_a_batch_is_read_once(void **state)
{
    struct op ops[40];
    for (unsigned i = 0; i < 40; i++) {
        ops[i] = make_at(OP_INCREMENT, i % 2 ? "n" : "m", 1, 60, i / 4 % 2 * 60);
        if (i % 3 == 0) ops[i] = ask_keyed(&decider.asks, ops[i], i % 2 ? "k1" : "k2", i);
    }
    judge(ops, 40);
    const struct read_set *reads = &decider.apply.reads;
    assert_int_equal(reads->counters_count, 2);
    assert_int_equal(reads->cells_count, 4);
    assert_int_equal(reads->tenants_count, 1);
    assert_int_equal(reads->keys_count, 2);
}

static void an_op_that_came_with_an_error_is_left_alone(void **state)
{
    struct op ops[] = {make(OP_INCREMENT, "bad", 1), make(OP_INCREMENT, "n", 1)};
    ops[0].err = ERR_INVALID;
    const struct op *done = judge(ops, 2);
    assert_int_equal(done[0].err, ERR_INVALID);
    expect_triple(&done[1], 1, 1, 0);
    assert_int_equal(decider.apply.reads.counters_count, 1);
    assert_int_equal(decider.apply.writes.count, 1);
}

/* ---- numbers and time ---- */

static void changes_are_numbered_without_gaps_and_refusals_name_the_last(void **state)
{
    decider_do(&decider, make(OP_INCREMENT, "n", 1));
    const struct op ops[] = {make(OP_DECREMENT, "n", 9), make(OP_INCREMENT, "n", 1),
                             make(OP_DECREMENT, "n", 9), make(OP_INCREMENT, "n", 1)};
    const struct op *done = judge(ops, 4);
    static const uint64_t expected[] = {1, 2, 2, 3};
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(done[i].sequence, expected[i]);
    const struct write_set *writes = &decider.apply.writes;
    assert_int_equal(writes->first_sequence, 2);
    assert_int_equal(writes->count, 2);
    assert_ptr_equal(writes->causes[0], &done[1]);
    assert_ptr_equal(writes->causes[1], &done[3]);
    assert_int_equal(decider.bundles[0].sequence, 3);
}

static void a_changed_cell_has_the_batch_time(void **state)
{
    decider_do(&decider, make(OP_SET, "n", 5));
    decider.moment.now_ms += 500;
    decider_do(&decider, make(OP_SET, "n", 5)); /* changes nothing */
    assert_int_equal(stored("n", 0, 0).updated_ms, 1000000);
    decider_do(&decider, make(OP_SET, "n", 6));
    assert_int_equal(stored("n", 0, 0).updated_ms, 1000500);
}

static void series_ids_are_given_out_once(void **state)
{
    const struct op ops[] = {make_at(OP_INCREMENT, "n", 1, 60, 0),
                             make_at(OP_INCREMENT, "n", 1, 60, 60),
                             make_at(OP_INCREMENT, "n", 1, 0, 0), make(OP_INCREMENT, "m", 1)};
    judge(ops, 4);
    assert_int_equal(decider.apply.writes.next_series, 4);
    const struct counter *counter = decider.apply.reads.counters[0].value;
    assert_int_equal(counter_find(counter, 60)->id, 1);
    assert_int_equal(counter_find(counter, 60)->cells, 2);
    assert_int_equal(counter_find(counter, 0)->id, 2);
    assert_int_equal(counter_find(counter, 0)->cells, 1);
}

/* ---- set, caps, expiry ---- */

static void a_set_that_changes_nothing_is_no_cause_but_shows_the_value_S3_55(void **state)
{
    decider_do(&decider, make(OP_INCREMENT, "n", 10));
    decider_do(&decider, make(OP_SET, "n", 4));
    const struct op op = make(OP_SET, "n", 4);
    const struct op *done = judge(&op, 1);
    expect_triple(&done[0], 4, 10, 6);
    assert_int_equal(decider.apply.writes.count, 0);
    assert_false(decider.apply.reads.cells[0].changed);
}

static void set_to_zero_makes_the_cell_S3_57(void **state)
{
    struct op done = decider_do(&decider, make(OP_SET, "n", 0));
    expect_triple(&done, 0, 0, 0);
    assert_true(stored("n", 0, 0).exists);
    done = decider_do(&decider, make(OP_DECREMENT, "n", 1));
    assert_int_equal(done.err, ERR_NEGATIVE);
}

static void past_its_cap_an_increment_shows_the_value_and_takes_nothing(void **state)
{
    struct op op = make(OP_INCREMENT, "n", 3);
    op.max = 5;
    struct op done = decider_do(&decider, op);
    expect_triple(&done, 3, 3, 0);
    done = decider_do(&decider, op);
    assert_int_equal(done.err, ERR_LIMIT);
    assert_int_equal(done.after.net, 3);
    assert_int_equal(stored("n", 0, 0).added, 3);
}

static void a_cap_on_an_absent_cell_shows_zeros_and_makes_none(void **state)
{
    struct op op = make(OP_INCREMENT, "n", 3);
    op.max = 2;
    struct op done = decider_do(&decider, op);
    assert_int_equal(done.err, ERR_LIMIT);
    assert_int_equal(done.after.added, 0);
    assert_false(stored("n", 0, 0).exists);
}

static int64_t expiry_after(enum op_kind kind, int64_t amount, int64_t expires_ms)
{
    struct op op = make(kind, "n", amount);
    op.expires_ms = expires_ms;
    struct op done = decider_do(&decider, op);
    (void)done;
    return stored("n", 0, 0).expires_ms;
}

static void the_later_expiry_is_kept_and_decrements_ignore_it_S3_43(void **state)
{
    assert_int_equal(expiry_after(OP_INCREMENT, 10, TIME_NONE), TIME_NONE);
    assert_int_equal(expiry_after(OP_DECREMENT, 1, 900), TIME_NONE);
    assert_int_equal(expiry_after(OP_INCREMENT, 1, 500), 500);
    assert_int_equal(expiry_after(OP_INCREMENT, 1, 400), 500);
    assert_int_equal(expiry_after(OP_DECREMENT, 1, 900), 500);
    assert_int_equal(expiry_after(OP_INCREMENT, INT64_MAX, 900), 500); /* refused: overflow */
    assert_int_equal(expiry_after(OP_SET, 3, 600), 600);
    assert_int_equal(expiry_after(OP_SET, 3, 700), 700); /* the same value, but longer */
    assert_int_equal(expiry_after(OP_SET, 3, TIME_NONE), 700);
}

/* ---- what keys of Redis want of a counter (SPEC 14) ---- */

static void a_read_sees_what_stands_before_it_and_changes_nothing(void **state)
{
    const struct op ops[] = {make(OP_READ, "n", 0), make(OP_INCREMENT, "n", 5),
                             make(OP_READ, "n", 0), make(OP_DECREMENT, "n", 2),
                             make(OP_READ, "n", 0)};
    const struct op *done = judge(ops, 5);
    expect_triple(&done[0], 0, 0, 0);
    assert_false(done[0].existed);
    expect_triple(&done[2], 5, 5, 0);
    assert_true(done[2].existed);
    expect_triple(&done[4], 3, 5, 2);
    assert_int_equal(decider.apply.writes.count, 2);
    assert_int_equal(done[4].sequence, done[3].sequence);
    decider_keep(&decider);
    const struct op again = decider_do(&decider, make(OP_READ, "n", 0));
    expect_triple(&again, 3, 5, 2);
    assert_int_equal(decider.apply.writes.count, 0);
}

static void nothing_added_makes_the_cell(void **state)
{
    const struct op op = decider_do(&decider, make(OP_INCREMENT, "n", 0));
    expect_triple(&op, 0, 0, 0);
    assert_false(op.existed);
    assert_true(stored("n", 0, 0).exists);
    assert_true(decider_do(&decider, make(OP_INCREMENT, "n", 0)).existed);
}

static void a_removal_takes_one_cell_and_leaves_the_others(void **state)
{
    const struct op ops[] = {make(OP_INCREMENT, "n", 7), make_at(OP_INCREMENT, "n", 1, 60, 60),
                             make(OP_REMOVE, "n", 0),    make(OP_REMOVE, "n", 0),
                             make(OP_REMOVE, "m", 0),    make(OP_INCREMENT, "n", 2)};
    const struct op *done = judge(ops, 6);
    assert_true(done[2].existed);
    assert_false(done[3].existed);
    assert_false(done[4].existed);
    for (unsigned i = 2; i < 5; i++)
        assert_int_equal(done[i].err, ERR_OK);
    expect_triple(&done[5], 2, 2, 0);
    assert_int_equal(decider.apply.reads.tenants[0].cells, 2);
    assert_int_equal(decider.apply.writes.count, 4);
    decider_keep(&decider);
    assert_int_equal(stored("n", 60, 60).added, 1);
    assert_int_equal(stored("n", 0, 0).added, 2);
}

static struct op set_when(enum op_when when, int64_t target)
{
    struct op op = make(OP_SET, "n", target);
    op.when = when;
    return decider_do(&decider, op);
}

static void a_set_may_depend_on_whether_the_cell_is_there(void **state)
{
    struct op op = set_when(WHEN_PRESENT, 5);
    assert_true(op.unmet && !op.existed);
    assert_int_equal(op.err, ERR_OK);
    assert_false(stored("n", 0, 0).exists);
    op = set_when(WHEN_ABSENT, 5);
    assert_false(op.unmet);
    expect_triple(&op, 5, 5, 0);
    op = set_when(WHEN_ABSENT, 6);
    assert_true(op.unmet && op.existed);
    expect_triple(&op, 5, 5, 0);
    op = set_when(WHEN_PRESENT, 3);
    assert_false(op.unmet);
    expect_triple(&op, 3, 5, 2);
    assert_int_equal(op.was, 5);
}

/* ---- limits ---- */

static void a_new_cell_past_the_tenants_limit_is_refused(void **state)
{
    decider.limits.tenant_cells = 2;
    const struct op ops[] = {make(OP_INCREMENT, "a", 1), make(OP_INCREMENT, "b", 1),
                             make(OP_INCREMENT, "c", 1), make(OP_INCREMENT, "a", 1),
                             make(OP_SET, "d", 0),       make(OP_DECREMENT, "e", 1),
                             make(OP_DELETE, "b", 0),    make(OP_INCREMENT, "c", 2)};
    static const enum err expected[] = {ERR_OK,         ERR_OK,       ERR_CELL_LIMIT, ERR_OK,
                                        ERR_CELL_LIMIT, ERR_NEGATIVE, ERR_OK,         ERR_OK};
    const struct op *done = judge(ops, 8);
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(done[i].err, expected[i]);
    assert_int_equal(decider.apply.reads.tenants[0].cells, 2);
    decider_keep(&decider);
    assert_int_equal(decider_do(&decider, make(OP_INCREMENT, "f", 1)).err, ERR_CELL_LIMIT);
    decider.asks.tenant = "other"; /* has a limit of its own */
    assert_int_equal(decider_do(&decider, make(OP_INCREMENT, "f", 1)).err, ERR_OK);
}

static void a_counter_has_so_many_granularities_at_most(void **state)
{
    decider.limits.granularities = 2;
    const struct op ops[] = {
        make_at(OP_INCREMENT, "n", 1, 0, 0), make_at(OP_INCREMENT, "n", 1, 60, 0),
        make_at(OP_INCREMENT, "n", 1, 61, 0), make_at(OP_INCREMENT, "n", 1, 60, 60),
        make_at(OP_INCREMENT, "m", 1, 61, 0)};
    const struct op *done = judge(ops, 5);
    assert_int_equal(done[1].err, ERR_OK);
    assert_int_equal(done[2].err, ERR_GRANULARITY_LIMIT);
    assert_int_equal(done[3].err, ERR_OK);
    assert_int_equal(done[4].err, ERR_OK);
}

/* ---- delete ---- */

static void a_delete_takes_every_cell_of_the_counter(void **state)
{
    const struct op ops[] = {make_at(OP_INCREMENT, "n", 1, 60, 0),
                             make_at(OP_INCREMENT, "n", 1, 60, 60),
                             make_at(OP_INCREMENT, "n", 1, 0, 0), make(OP_INCREMENT, "m", 1)};
    judge(ops, 4);
    decider_keep(&decider);
    const struct op op = make(OP_DELETE, "n", 0);
    judge(&op, 1);
    assert_null(decider.apply.reads.counters[0].value);
    assert_int_equal(decider.apply.reads.tenants[0].cells, 1);
    assert_int_equal(decider.apply.writes.dead_count, 2);
    assert_int_equal(decider.apply.writes.dead[0] + decider.apply.writes.dead[1], 1 + 2);
    decider_keep(&decider);
    assert_false(stored("n", 60, 60).exists);
    assert_true(stored("m", 0, 0).exists);
    assert_int_equal(decider_do(&decider, make(OP_DELETE, "n", 0)).err, ERR_NOT_FOUND);
}

static void what_follows_a_delete_in_its_batch_starts_afresh(void **state)
{
    decider_do(&decider, make(OP_INCREMENT, "n", 50));
    const struct op ops[] = {make(OP_INCREMENT, "n", 1), make(OP_DELETE, "n", 0),
                             make(OP_DECREMENT, "n", 1), make(OP_INCREMENT, "n", 2),
                             make(OP_INCREMENT, "n", 3)};
    const struct op *done = judge(ops, 5);
    expect_triple(&done[0], 51, 51, 0);
    assert_int_equal(done[2].err, ERR_NEGATIVE);
    expect_triple(&done[4], 5, 5, 0);
    assert_int_equal(decider.apply.reads.cells[0].series, 2);
    decider_keep(&decider);
    assert_int_equal(stored("n", 0, 0).added, 5);
}

/* A cell of an unmapped series is garbage; as an after-image it would only be written to be
 * deleted. */
static void a_cell_deleted_later_in_the_batch_is_no_after_image(void **state)
{
    const struct op ops[] = {make(OP_INCREMENT, "n", 1), make(OP_INCREMENT, "m", 1),
                             make(OP_DELETE, "n", 0)};
    judge(ops, 3);
    assert_false(decider.apply.reads.cells[0].changed);
    assert_true(decider.apply.reads.cells[1].changed);
    assert_int_equal(decider.apply.writes.count, 3);
}

/* The list of dead series grows by sixteens. */
static void many_deletes_in_a_batch_bury_every_series(void **state)
{
    struct op ops[40];
    char names[40][8];
    for (unsigned i = 0; i < 40; i++) {
        snprintf(names[i], sizeof names[i], "n%u", i);
        decider_do(&decider, make(OP_INCREMENT, names[i], 1));
        ops[i] = make(OP_DELETE, names[i], 0);
    }
    judge(ops, 40);
    assert_int_equal(decider.apply.writes.dead_count, 40);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(decider.apply.writes.dead[i], i + 1);
}

/* ---- the sweep's proposals ---- */

static void make_expiring(const char *name, int64_t bucket, int64_t expires_ms)
{
    struct op op = make_at(OP_INCREMENT, name, 1, 60, bucket);
    op.expires_ms = expires_ms;
    decider_do(&decider, op);
}

static enum err propose(const char *name, int64_t bucket)
{
    return decider_do(&decider, make_at(OP_EXPIRE, name, 0, 60, bucket)).err;
}

static void only_a_cell_that_is_due_now_expires_S3_77(void **state)
{
    make_expiring("n", 0, decider.moment.now_ms + 1);
    assert_int_equal(propose("n", 0), ERR_NOT_FOUND);
    decider.moment.now_ms++;
    make_expiring("n", 0, decider.moment.now_ms + 100); /* extended since the proposal */
    assert_int_equal(propose("n", 0), ERR_NOT_FOUND);
    decider_do(&decider, make_at(OP_INCREMENT, "n", 1, 60, 60)); /* never expires */
    assert_int_equal(propose("n", 60), ERR_NOT_FOUND);
    assert_int_equal(propose("n", 120), ERR_NOT_FOUND); /* not there */
    assert_int_equal(propose("m", 0), ERR_NOT_FOUND);
    decider.moment.now_ms += 100;
    assert_int_equal(propose("n", 0), ERR_OK);
    assert_int_equal(propose("n", 0), ERR_NOT_FOUND);
    assert_false(stored("n", 60, 0).exists);
    assert_true(stored("n", 60, 60).exists);
}

static void the_last_cell_takes_its_series_and_the_last_series_its_counter(void **state)
{
    make_expiring("n", 0, 1);
    make_expiring("n", 60, 1);
    decider_do(&decider, make(OP_INCREMENT, "n", 1));
    const struct op first = make_at(OP_EXPIRE, "n", 0, 60, 0);
    judge(&first, 1);
    assert_int_equal(decider.apply.writes.dead_count, 0);
    assert_int_equal(counter_find(decider.apply.reads.counters[0].value, 60)->cells, 1);
    assert_int_equal(decider.apply.reads.tenants[0].cells, 2);
    decider_keep(&decider);

    const struct op last = make_at(OP_EXPIRE, "n", 0, 60, 60);
    judge(&last, 1);
    assert_int_equal(decider.apply.writes.dead_count, 1);
    assert_null(counter_find(decider.apply.reads.counters[0].value, 60));
    assert_non_null(counter_find(decider.apply.reads.counters[0].value, 0));
    decider_keep(&decider);
    decider_do(&decider, make(OP_DELETE, "n", 0));

    make_expiring("n", 0, 1);
    const struct op only = make_at(OP_EXPIRE, "n", 0, 60, 0);
    judge(&only, 1);
    assert_null(decider.apply.reads.counters[0].value);
    assert_true(decider.apply.reads.counters[0].changed);
}

static void an_expired_cell_starts_afresh_in_its_own_batch(void **state)
{
    make_expiring("n", 0, 1);
    const struct op ops[] = {make_at(OP_EXPIRE, "n", 0, 60, 0),
                             make_at(OP_INCREMENT, "n", 7, 60, 0)};
    const struct op *done = judge(ops, 2);
    expect_triple(&done[1], 7, 7, 0);
    assert_int_equal(decider.apply.reads.tenants[0].cells, 1);
    decider_keep(&decider);
    assert_int_equal(stored("n", 60, 0).added, 7);
    assert_int_equal(stored("n", 60, 0).expires_ms, TIME_NONE);
}

#define DECISION(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DECISION(each_op_is_judged_on_what_the_one_before_left_A_27c),
        DECISION(a_later_increment_does_not_rescue_a_decrement_A_27c),
        DECISION(a_refused_op_disturbs_no_neighbour_S3_45),
        DECISION(a_refused_decrement_leaves_no_trace_S3_40_S3_42),
        DECISION(buckets_granularities_and_names_do_not_mix),
        DECISION(every_object_of_a_batch_is_read_once),
        DECISION(an_op_that_came_with_an_error_is_left_alone),
        DECISION(changes_are_numbered_without_gaps_and_refusals_name_the_last),
        DECISION(a_changed_cell_has_the_batch_time),
        DECISION(series_ids_are_given_out_once),
        DECISION(a_set_that_changes_nothing_is_no_cause_but_shows_the_value_S3_55),
        DECISION(set_to_zero_makes_the_cell_S3_57),
        DECISION(past_its_cap_an_increment_shows_the_value_and_takes_nothing),
        DECISION(a_cap_on_an_absent_cell_shows_zeros_and_makes_none),
        DECISION(the_later_expiry_is_kept_and_decrements_ignore_it_S3_43),
        DECISION(a_read_sees_what_stands_before_it_and_changes_nothing),
        DECISION(nothing_added_makes_the_cell),
        DECISION(a_removal_takes_one_cell_and_leaves_the_others),
        DECISION(a_set_may_depend_on_whether_the_cell_is_there),
        DECISION(a_new_cell_past_the_tenants_limit_is_refused),
        DECISION(a_counter_has_so_many_granularities_at_most),
        DECISION(a_delete_takes_every_cell_of_the_counter),
        DECISION(what_follows_a_delete_in_its_batch_starts_afresh),
        DECISION(a_cell_deleted_later_in_the_batch_is_no_after_image),
        DECISION(many_deletes_in_a_batch_bury_every_series),
        DECISION(only_a_cell_that_is_due_now_expires_S3_77),
        DECISION(the_last_cell_takes_its_series_and_the_last_series_its_counter),
        DECISION(an_expired_cell_starts_afresh_in_its_own_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
