/* test_sequence_set.c -- a set of sequences has what was added and nothing else, few or many of them. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "jobs/sequence_set.h"

static void it_is_empty_at_first_and_again(void **state)
{
    (void)state;
    struct sequence_set set = {0};
    assert_false(sequence_set_has(&set, 0));
    sequence_set_add(&set, 0);
    assert_true(sequence_set_has(&set, 0));
    sequence_set_release(&set);
    assert_false(sequence_set_has(&set, 0));
    sequence_set_add(&set, 5); /* below what there was */
    assert_true(sequence_set_has(&set, 5) && !sequence_set_has(&set, 0));
    sequence_set_release(&set);
}

/* Every `step`-th sequence, so that pages are lists, bits, and both in turn. */
static void it_has_what_was_added_and_nothing_else(void **state)
{
    (void)state;
    static const uint64_t steps[] = {1, 2, 15, 17, 65535, 65536, 65537, UINT64_C(1) << 40};
    for (size_t s = 0; s < ARRAY_COUNT(steps); s++) {
        struct sequence_set set = {0};
        uint64_t count = steps[s] < 20 ? 200000 / steps[s] : 300;
        for (uint64_t i = 1; i <= count; i++)
            sequence_set_add(&set, i * steps[s]);
        for (uint64_t i = 1; i <= count; i++) {
            assert_true(sequence_set_has(&set, i * steps[s]));
            if (steps[s] == 1) continue;
            assert_false(sequence_set_has(&set, i * steps[s] + 1));
            assert_false(sequence_set_has(&set, i * steps[s] - 1));
        }
        assert_false(sequence_set_has(&set, (count + 1) * steps[s]));
        sequence_set_release(&set);
    }
}

static void the_greatest_sequence_is_one(void **state)
{
    (void)state;
    struct sequence_set set = {0};
    sequence_set_add(&set, UINT64_MAX - 1);
    sequence_set_add(&set, UINT64_MAX);
    assert_true(sequence_set_has(&set, UINT64_MAX) && sequence_set_has(&set, UINT64_MAX - 1));
    assert_false(sequence_set_has(&set, UINT64_MAX - 2));
    sequence_set_release(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_empty_at_first_and_again),
        cmocka_unit_test(it_has_what_was_added_and_nothing_else),
        cmocka_unit_test(the_greatest_sequence_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
