/* test_expiry.c -- until when a cell is there: what SPEC 14 says of exact expiries, and how they
 * meet those of SPEC 5. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/decider.h"

#define NOW 1000000

static struct decider decider;

static int setup(void **state)
{
    decider_init(&decider);
    decider.moment.now_ms = NOW;
    return 0;
}

static int teardown(void **state)
{
    decider_release(&decider);
    return 0;
}

static struct op make(enum op_kind kind, int64_t amount)
{
    return ask(&decider.asks, kind, "n", amount);
}

static struct op do_with(struct op op, enum op_expiry expiry, int64_t expires_ms)
{
    op.expiry = expiry;
    op.expires_ms = expires_ms;
    return decider_do(&decider, op);
}

static struct op add_until(int64_t amount, int64_t ends_ms)
{
    return do_with(make(OP_INCREMENT, amount), EXPIRY_AT, ends_ms);
}

static struct op deadline(int64_t ends_ms, unsigned unless)
{
    struct op op = make(OP_DEADLINE, 0);
    op.unless = unless;
    return do_with(op, EXPIRY_AT, ends_ms);
}

static struct op look(void)
{
    return decider_do(&decider, make(OP_READ, 0));
}

static void at(int64_t now_ms)
{
    decider.moment.now_ms = now_ms;
}

static void past_it_the_cell_is_absent_and_starts_afresh(void **state)
{
    add_until(7, NOW + 100);
    at(NOW + 99);
    assert_true(look().existed);
    assert_int_equal(look().left_ms, 1);
    at(NOW + 100);
    assert_false(look().existed);
    assert_int_equal(decider_do(&decider, make(OP_DECREMENT, 1)).err, ERR_NEGATIVE);
    struct op anew = decider_do(&decider, make(OP_INCREMENT, 2));
    assert_false(anew.existed);
    assert_int_equal(anew.after.added, 2);
    assert_int_equal(anew.after.subbed, 0);
    assert_int_equal(look().left_ms, TIME_NONE);
    assert_int_equal(decider.apply.reads.tenants[0].cells, 1); /* it took the old one's place */
}

static void it_goes_by_batch_time_and_the_sweep_by_what_is_sure(void **state)
{
    add_until(7, NOW + 100);
    decider.moment = (struct moment){.now_ms = NOW + 100, .held_ms = 50};
    assert_int_equal(decider_do(&decider, make(OP_EXPIRE, 0)).err, ERR_NOT_FOUND);
    assert_false(look().existed);
    decider.moment.held_ms = 0;
    assert_int_equal(decider_do(&decider, make(OP_EXPIRE, 0)).err, ERR_OK);
    assert_int_equal(decider.apply.reads.tenants[0].cells, 0);
}

static void it_replaces_what_was_there_sooner_or_later(void **state)
{
    add_until(1, NOW + 500);
    add_until(1, NOW + 100);
    assert_int_equal(look().left_ms, 100);
    do_with(make(OP_INCREMENT, 1), EXPIRY_AFTER, 300);
    assert_int_equal(look().left_ms, 300);
    do_with(make(OP_SET, 9), EXPIRY_NONE, TIME_NONE);
    assert_int_equal(look().left_ms, TIME_NONE);
}

static void later_never_shortens_it_and_is_its_own_kind_S3_43(void **state)
{
    add_until(1, NOW + 100);
    do_with(make(OP_INCREMENT, 1), EXPIRY_LATER, NOW + 50);
    do_with(make(OP_INCREMENT, 1), EXPIRY_LATER, NOW + 100);
    at(NOW + 100);
    assert_false(look().existed); /* it stayed exact */
    at(NOW + 99);
    do_with(make(OP_INCREMENT, 1), EXPIRY_LATER, NOW + 101);
    at(NOW + 200);
    assert_int_equal(look().after.added, 4); /* until the sweep */
    assert_int_equal(look().left_ms, 0);
}

static void an_end_that_has_come_removes_the_cell(void **state)
{
    add_until(5, NOW + 100);
    struct op gone = deadline(NOW, 0);
    assert_true(gone.existed && !gone.unmet);
    assert_int_equal(decider.apply.reads.tenants[0].cells, 0);
    assert_false(look().existed);
    assert_int_equal(add_until(5, NOW - 1).after.net, 5); /* it was there for no time */
    assert_int_equal(decider.apply.writes.count, 0);
    assert_false(look().existed);
}

static void a_deadline_needs_a_cell_and_changes_no_value(void **state)
{
    assert_true(deadline(NOW + 10, 0).unmet);
    decider_do(&decider, make(OP_INCREMENT, 5));
    assert_false(deadline(NOW + 10, 0).unmet);
    assert_int_equal(look().after.net, 5);
    assert_int_equal(look().left_ms, 10);
}

static void a_deadline_may_depend_on_the_one_there_is(void **state)
{
    decider_do(&decider, make(OP_INCREMENT, 5));
    assert_true(deadline(NOW + 10, UNLESS_NONE).unmet);     /* XX */
    assert_true(deadline(NOW + 10, UNLESS_NO_LATER).unmet); /* GT: none is the latest */
    assert_false(deadline(NOW + 10, UNLESS_THERE).unmet);   /* NX */
    assert_true(deadline(NOW + 20, UNLESS_THERE).unmet);
    assert_true(deadline(NOW + 10, UNLESS_NO_LATER).unmet);
    assert_true(deadline(NOW + 10, UNLESS_NO_SOONER).unmet);
    assert_false(deadline(NOW + 11, UNLESS_NO_LATER).unmet);
    assert_false(deadline(NOW + 5, UNLESS_NO_SOONER).unmet); /* LT */
    assert_false(deadline(NOW + 7, UNLESS_NONE | UNLESS_NO_LATER).unmet);
    assert_int_equal(look().left_ms, 7);
}

/* ---- moves within bounds (INCREX) ---- */

static struct op move(int64_t amount, int64_t least, int64_t most, bool saturate)
{
    struct op_bounds *bounds = arena_alloc(&decider.asks.arena, sizeof *bounds);
    *bounds = (struct op_bounds){least, most, saturate};
    struct op op = make(OP_MOVE, amount);
    op.bounds = bounds;
    return decider_do(&decider, op);
}

static void a_move_past_a_bound_changes_nothing(void **state)
{
    struct op op = move(11, 0, 10, false);
    assert_true(op.unmet && !op.existed);
    assert_int_equal(decider.apply.writes.count, 0);
    assert_int_equal(move(8, 0, 10, false).after.net, 8);
    op = move(3, 0, 10, false);
    assert_true(op.unmet);
    assert_int_equal(op.after.net, 8);
    assert_int_equal(op.was, 8);
    assert_true(move(-9, 0, 10, false).unmet);
    assert_int_equal(move(-8, 0, 10, false).after.net, 0);
}

static void a_move_that_saturates_goes_as_far_as_the_bound(void **state)
{
    struct op op = move(INT64_MAX, 0, 10, true);
    assert_int_equal(op.after.net, 10);
    assert_int_equal(op.was, 0);
    assert_false(op.unmet);
    assert_int_equal(move(-INT64_MAX, 4, 10, true).after.net, 4);
    assert_int_equal(move(5, 0, 3, true).after.net, 3); /* also one that is beyond it already */
    assert_true(move(5, 0, 2, false).unmet);
    assert_int_equal(move(-1, 0, 2, false).after.net, 2);
}

static void what_was_added_overflows_although_the_value_does_not(void **state)
{
    move(INT64_MAX, 0, INT64_MAX, false);
    move(-10, 0, INT64_MAX, false);
    assert_int_equal(move(1, 0, INT64_MAX, false).err, ERR_OVERFLOW);
    assert_int_equal(look().after.net, INT64_MAX - 10);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(past_it_the_cell_is_absent_and_starts_afresh),
        CASE(it_goes_by_batch_time_and_the_sweep_by_what_is_sure),
        CASE(it_replaces_what_was_there_sooner_or_later),
        CASE(later_never_shortens_it_and_is_its_own_kind_S3_43),
        CASE(an_end_that_has_come_removes_the_cell),
        CASE(a_deadline_needs_a_cell_and_changes_no_value),
        CASE(a_deadline_may_depend_on_the_one_there_is),
        CASE(a_move_past_a_bound_changes_nothing),
        CASE(a_move_that_saturates_goes_as_far_as_the_bound),
        CASE(what_was_added_overflows_although_the_value_does_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
