/* test_histogram.c -- latencies to within 3 %. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cli/histogram.h"

static struct histogram histogram;

static int empty(void **state)
{
    (void)state;
    histogram = (struct histogram){0};
    return 0;
}

static void an_empty_one_says_nothing(void **state)
{
    (void)state;
    assert_int_equal(histogram_at(&histogram, 0.5), 0);
}

static void small_values_are_exact(void **state)
{
    (void)state;
    for (uint64_t value = 0; value < 32; value++)
        histogram_add(&histogram, value);
    for (uint64_t value = 0; value < 32; value++)
        assert_int_equal(histogram_at(&histogram, (double)(value + 1) / 32), value);
}

static void every_value_comes_back_to_within_a_thirtysecond(void **state)
{
    (void)state;
    for (uint64_t value = 1; value < UINT64_MAX / 3; value = value * 3 + 1) {
        histogram = (struct histogram){0};
        histogram_add(&histogram, value);
        histogram_add(&histogram, UINT64_MAX); /* so that the largest does not cut it off */
        uint64_t back = histogram_at(&histogram, 0.5);
        assert_true(back >= value && back - value <= value / 32 + 1);
    }
}

static void the_share_counts_from_below_and_the_largest_is_kept(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 999; i++)
        histogram_add(&histogram, 1000);
    histogram_add(&histogram, 70000000);
    assert_in_range(histogram_at(&histogram, 0.5), 1000, 1031);
    assert_in_range(histogram_at(&histogram, 0.999), 1000, 1031);
    assert_int_equal(histogram_at(&histogram, 1), 70000000);
    assert_int_equal(histogram.max, 70000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_one_says_nothing, empty),
        cmocka_unit_test_setup(small_values_are_exact, empty),
        cmocka_unit_test_setup(every_value_comes_back_to_within_a_thirtysecond, empty),
        cmocka_unit_test_setup(the_share_counts_from_below_and_the_largest_is_kept, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
