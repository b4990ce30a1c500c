/* test_top.c -- the best few of many rows, against sorting all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "api/counters/top.h"

#define ROWS 300

struct world {
    char names[ROWS][8];
    struct top_row rows[ROWS];
};

/* Few different nets, so that ties are common. */
static void world_init(struct world *world, unsigned seed)
{
    for (unsigned i = 0; i < ROWS; i++) {
        seed = seed * 1664525u + 1013904223u;
        snprintf(world->names[i], sizeof world->names[i], "%05u", (i * 7919u) % 100000u);
        world->rows[i] = (struct top_row){.net = (int64_t)(seed >> 16) % 40 - 20,
                                          .json = bytes_str(world->names[i])};
    }
}

static int compare(const void *a, const void *b, void *context)
{
    return top_before(context, a, b) ? -1 : 1;
}

static void check_against_sorting(size_t limit, bool descending)
{
    static struct world world;
    struct top top;
    world_init(&world, (unsigned)limit);
    top_init(&top, limit, descending);
    for (unsigned i = 0; i < ROWS; i++)
        top_offer(&top, &world.rows[i]);
    top_sort(&top);
    qsort_r(world.rows, ROWS, sizeof world.rows[0], compare, &top);
    assert_int_equal(top.offered, ROWS);
    assert_int_equal(top.count, limit < ROWS ? limit : ROWS);
    for (size_t i = 0; i < top.count; i++) {
        assert_int_equal(top.rows[i].net, world.rows[i].net);
        assert_true(bytes_equal(top.rows[i].json, world.rows[i].json));
    }
    top_release(&top);
}

static void it_keeps_what_sorting_all_would_put_first(void **state)
{
    for (size_t limit = 1; limit <= ROWS + 1; limit += limit < 10 ? 1 : 29) {
        check_against_sorting(limit, true);
        check_against_sorting(limit, false);
    }
}

static void ties_go_by_the_dimensions_in_both_orders(void **state)
{
    struct top_row a = {.net = 1, .json = BYTES("a")};
    struct top_row b = {.net = 1, .json = BYTES("b")};
    struct top_row more = {.net = 2, .json = BYTES("z")};
    for (int descending = 0; descending < 2; descending++) {
        struct top top = {.descending = descending};
        assert_true(top_before(&top, &a, &b));
        assert_false(top_before(&top, &b, &a));
        assert_false(top_before(&top, &a, &a));
        assert_int_equal(top_before(&top, &more, &a), descending);
    }
}

static void extreme_nets_are_ordered(void **state)
{
    struct top top = {.descending = true};
    struct top_row low = {.net = INT64_MIN, .json = BYTES("a")};
    struct top_row high = {.net = INT64_MAX, .json = BYTES("b")};
    assert_true(top_before(&top, &high, &low));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_keeps_what_sorting_all_would_put_first),
        cmocka_unit_test(ties_go_by_the_dimensions_in_both_orders),
        cmocka_unit_test(extreme_nets_are_ordered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
