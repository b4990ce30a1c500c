/* test_cell.c -- the arithmetic of one cell, at its edges (SPEC 5). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/cell.h"

#define MOST INT64_MAX

static struct cell cell_of(int64_t added, int64_t subbed)
{
    return (struct cell){.added = added, .subbed = subbed, .expires_ms = TIME_NONE, .exists = true};
}

static void expect_cell(const struct cell *cell, int64_t added, int64_t subbed)
{
    assert_true(cell->exists);
    assert_int_equal(cell->added, added);
    assert_int_equal(cell->subbed, subbed);
    assert_int_equal(cell_triple(cell).net, added - subbed);
}

static void expect_unchanged(const struct cell *cell, const struct cell *before)
{
    assert_memory_equal(cell, before, sizeof *cell);
}

static void an_increment_raises_added_only_S3_31(void **state)
{
    struct cell cell = cell_absent();
    assert_false(cell.exists);
    assert_int_equal(cell_increment(&cell, 5, MAX_NONE), ERR_OK);
    expect_cell(&cell, 5, 0);
    assert_int_equal(cell_increment(&cell, 1, MAX_NONE), ERR_OK);
    expect_cell(&cell, 6, 0);
    assert_int_equal(cell.expires_ms, TIME_NONE);
}

static void a_decrement_raises_subbed_only_S3_38(void **state)
{
    struct cell cell = cell_of(10, 2);
    assert_int_equal(cell_decrement(&cell, 3), ERR_OK);
    expect_cell(&cell, 10, 5);
}

static void a_decrement_may_reach_exactly_zero_S3_41(void **state)
{
    struct cell cell = cell_of(10, 2);
    assert_int_equal(cell_decrement(&cell, 8), ERR_OK);
    expect_cell(&cell, 10, 10);
}

static void a_decrement_below_zero_is_refused_and_changes_nothing_S3_39_S3_40(void **state)
{
    struct cell cell = cell_of(10, 2);
    struct cell before = cell;
    assert_int_equal(cell_decrement(&cell, 9), ERR_NEGATIVE);
    assert_int_equal(cell_decrement(&cell, MOST), ERR_NEGATIVE);
    expect_unchanged(&cell, &before);
}

static void an_absent_cell_cannot_be_decremented_and_stays_absent_A_23(void **state)
{
    struct cell cell = cell_absent();
    assert_int_equal(cell_decrement(&cell, 1), ERR_NEGATIVE);
    assert_false(cell.exists);
}

/* Both below zero and past the end of subbed: the first is reported. */
static void negative_wins_over_overflow_A_27(void **state)
{
    struct cell cell = cell_of(MOST, MOST);
    assert_int_equal(cell_decrement(&cell, MOST), ERR_NEGATIVE);
}

static void the_largest_value_is_reachable_and_one_more_is_not_S3_74(void **state)
{
    struct cell cell = cell_of(MOST - 1, 0);
    assert_int_equal(cell_increment(&cell, 1, MAX_NONE), ERR_OK);
    expect_cell(&cell, MOST, 0);
    struct cell before = cell;
    assert_int_equal(cell_increment(&cell, 1, MAX_NONE), ERR_OVERFLOW);
    assert_int_equal(cell_increment(&cell, MOST, MAX_NONE), ERR_OVERFLOW);
    expect_unchanged(&cell, &before);
}

static void added_is_bounded_though_net_is_small_A_27(void **state)
{
    struct cell cell = cell_of(MOST, MOST);
    struct cell before = cell;
    assert_int_equal(cell_increment(&cell, 1, MAX_NONE), ERR_OVERFLOW);
    assert_int_equal(cell_set(&cell, 1), ERR_OVERFLOW);
    expect_unchanged(&cell, &before);
    assert_int_equal(cell_set(&cell, 0), ERR_OK);
    expect_unchanged(&cell, &before);
}

static void a_cap_lets_net_reach_it_and_not_pass_it(void **state)
{
    struct cell cell = cell_of(8, 3);
    struct cell before = cell;
    assert_int_equal(cell_increment(&cell, 6, 10), ERR_LIMIT);
    expect_unchanged(&cell, &before);
    assert_int_equal(cell_increment(&cell, 5, 10), ERR_OK);
    expect_cell(&cell, 13, 3);
    assert_int_equal(cell_increment(&cell, 1, 0), ERR_LIMIT);
    cell = cell_absent();
    assert_int_equal(cell_increment(&cell, 1, 0), ERR_LIMIT);
    assert_false(cell.exists);
}

/* The sum is not computed in 64 bits before it is compared. */
static void a_cap_is_compared_exactly_where_the_sum_would_overflow(void **state)
{
    struct cell cell = cell_of(MOST, 0);
    assert_int_equal(cell_increment(&cell, MOST, MOST), ERR_LIMIT);
    cell = cell_of(MOST, MOST);
    assert_int_equal(cell_increment(&cell, 1, MOST), ERR_OVERFLOW); /* net 1 is below the cap */
}

static void set_raises_added_or_subbed_by_the_difference_A_17(void **state)
{
    struct cell cell = cell_of(10, 0);
    assert_int_equal(cell_set(&cell, 4), ERR_OK);
    expect_cell(&cell, 10, 6);
    assert_int_equal(cell_set(&cell, 9), ERR_OK);
    expect_cell(&cell, 15, 6);
}

static void set_to_the_same_value_changes_nothing_S3_55(void **state)
{
    struct cell cell = cell_of(10, 6);
    struct cell before = cell;
    assert_int_equal(cell_set(&cell, 4), ERR_OK);
    expect_unchanged(&cell, &before);
}

static void set_makes_an_absent_cell_also_for_zero_S3_57(void **state)
{
    struct cell cell = cell_absent();
    assert_int_equal(cell_set(&cell, 0), ERR_OK);
    expect_cell(&cell, 0, 0);
    cell = cell_absent();
    assert_int_equal(cell_set(&cell, MOST), ERR_OK);
    expect_cell(&cell, MOST, 0);
}

static void the_later_expiry_is_kept_S3_78(void **state)
{
    struct cell cell = cell_of(1, 0);
    cell_extend(&cell, TIME_NONE);
    assert_int_equal(cell.expires_ms, TIME_NONE);
    cell_extend(&cell, -5); /* before 1970, yet an expiry */
    assert_int_equal(cell.expires_ms, -5);
    cell_extend(&cell, -6);
    assert_int_equal(cell.expires_ms, -5);
    cell_extend(&cell, 100);
    assert_int_equal(cell.expires_ms, 100);
    cell_extend(&cell, 99);
    assert_int_equal(cell.expires_ms, 100);
    cell_extend(&cell, TIME_NONE);
    assert_int_equal(cell.expires_ms, 100);
}

static void cells_are_equal_when_all_that_a_change_changes_is(void **state)
{
    struct cell a = cell_of(5, 2);
    struct cell b = a;
    b.updated_ms = 77; /* when, not what */
    assert_true(cell_equal(&a, &b));
    b = a, b.added++;
    assert_false(cell_equal(&a, &b));
    b = a, b.subbed++;
    assert_false(cell_equal(&a, &b));
    b = a, b.expires_ms = 1;
    assert_false(cell_equal(&a, &b));
    b = a, b.exists = false;
    assert_false(cell_equal(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_increment_raises_added_only_S3_31),
        cmocka_unit_test(a_decrement_raises_subbed_only_S3_38),
        cmocka_unit_test(a_decrement_may_reach_exactly_zero_S3_41),
        cmocka_unit_test(a_decrement_below_zero_is_refused_and_changes_nothing_S3_39_S3_40),
        cmocka_unit_test(an_absent_cell_cannot_be_decremented_and_stays_absent_A_23),
        cmocka_unit_test(negative_wins_over_overflow_A_27),
        cmocka_unit_test(the_largest_value_is_reachable_and_one_more_is_not_S3_74),
        cmocka_unit_test(added_is_bounded_though_net_is_small_A_27),
        cmocka_unit_test(a_cap_lets_net_reach_it_and_not_pass_it),
        cmocka_unit_test(a_cap_is_compared_exactly_where_the_sum_would_overflow),
        cmocka_unit_test(set_raises_added_or_subbed_by_the_difference_A_17),
        cmocka_unit_test(set_to_the_same_value_changes_nothing_S3_55),
        cmocka_unit_test(set_makes_an_absent_cell_also_for_zero_S3_57),
        cmocka_unit_test(the_later_expiry_is_kept_S3_78),
        cmocka_unit_test(cells_are_equal_when_all_that_a_change_changes_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
