/* test_order.c -- entries in the order of their keys, found in a few steps. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/table.h"
#include "store/embedded/order.h"

#define COUNT 4096u

struct item {
    struct order_node place;
    bool in;
    char key[8];
};

static struct item items[COUNT];
static struct order order;

static struct bytes item_key(const struct order_node *node)
{
    return bytes_str(CONTAINER_OF(node, struct item, place)->key);
}

static int setup(void **state)
{
    (void)state;
    order = (struct order){.key = item_key};
    for (unsigned i = 0; i < COUNT; i++) {
        items[i] = (struct item){.place.priority = hash_mix(i + 1)};
        snprintf(items[i].key, sizeof items[i].key, "%04u", i);
    }
    return 0;
}

static void add(unsigned i)
{
    order_add(&order, &items[i].place);
    items[i].in = true;
}

static void drop(unsigned i)
{
    order_remove(&order, &items[i].place);
    items[i].in = false;
}

/* All that are in, forwards, and the neighbours of each key that could be. */
static void expect_exact(void)
{
    struct order_node *node = order_from(&order, BYTES(""));
    for (unsigned i = 0; i < COUNT; i++) {
        struct order_node *from = order_from(&order, bytes_str(items[i].key));
        assert_ptr_equal(from, node);
        if (!items[i].in) continue;
        assert_ptr_equal(node, &items[i].place);
        node = order_after(&order, bytes_str(items[i].key));
    }
    assert_null(node);
}

static void what_is_added_and_removed_at_random_stays_in_order(void **state)
{
    (void)state;
    uint64_t random = 7;
    expect_exact();
    for (unsigned step = 0; step < 6 * COUNT; step++) {
        random = hash_mix(random + step);
        unsigned i = (unsigned)(random % COUNT);
        if (items[i].in)
            drop(i);
        else
            add(i);
        if (step % COUNT == 0) expect_exact();
    }
    expect_exact();
    for (unsigned i = 0; i < COUNT; i++)
        if (items[i].in) drop(i);
    assert_null(order.root);
}

/* Ascending keys are what names with a number come in. */
static void finding_takes_some_steps_whatever_order_the_keys_came_in(void **state)
{
    (void)state;
    for (unsigned i = 0; i < COUNT; i++)
        add(i);
    for (unsigned i = 0; i < COUNT; i++) {
        uint64_t before = order.steps;
        assert_ptr_equal(order_from(&order, bytes_str(items[i].key)), &items[i].place);
        assert_true(order.steps - before <= 40); /* log2 is 12 */
    }
    expect_exact();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_is_added_and_removed_at_random_stays_in_order, setup),
        cmocka_unit_test_setup(finding_takes_some_steps_whatever_order_the_keys_came_in, setup),
    };
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
