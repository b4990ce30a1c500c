/* test_table.c -- nodes are found by their hash however many there are, and only those put in. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>

#include "base/hash.h"
#include "base/table.h"

#define COUNT 1000u

struct thing {
    struct table_node node;
    unsigned number;
};

#define THING_OF(pointer) CONTAINER_OF(pointer, struct thing, node)

static struct table table;
static struct thing things[COUNT];

/* Some hashes differ only above the bits that choose a bucket, some not at all. */
static uint64_t hash_of(unsigned number)
{
    if (number % 10 == 0) return 7;
    if (number % 10 == 1) return (uint64_t)number << 40;
    return hash_mix(number);
}

static int setup(void **state)
{
    table_init(&table);
    for (unsigned i = 0; i < COUNT; i++)
        things[i] = (struct thing){.number = i, .node.hash = hash_of(i)};
    return 0;
}

static int teardown(void **state)
{
    table_release(&table);
    return 0;
}

static struct thing *find(unsigned number)
{
    struct thing *found = NULL;
    TABLE_EACH_MATCH(&table, hash_of(number), node)
    {
        assert_int_equal(node->hash, hash_of(number));
        if (THING_OF(node)->number == number) found = THING_OF(node);
    }
    return found;
}

static void every_node_is_found_while_the_table_grows(void **state)
{
    for (unsigned i = 0; i < COUNT; i++) {
        assert_null(find(i));
        table_insert(&table, &things[i].node);
        assert_int_equal(table.count, i + 1);
        assert_ptr_equal(find(i), &things[i]);
        assert_ptr_equal(find(i / 2), &things[i / 2]);
    }
    for (unsigned i = 0; i < COUNT; i++)
        assert_ptr_equal(find(i), &things[i]);
    assert_true(table.mask + 1 >= COUNT); /* chains stay short */
}

static void a_removed_node_is_gone_and_no_other(void **state)
{
    for (unsigned i = 0; i < COUNT; i++)
        table_insert(&table, &things[i].node);
    for (unsigned i = 0; i < COUNT; i += 3)
        table_remove(&table, &things[i].node);
    assert_int_equal(table.count, COUNT - (COUNT + 2) / 3);
    for (unsigned i = 0; i < COUNT; i++)
        assert_int_equal(find(i) != NULL, i % 3 != 0);
    for (unsigned i = 0; i < COUNT; i += 3)
        table_insert(&table, &things[i].node);
    for (unsigned i = 0; i < COUNT; i++)
        assert_ptr_equal(find(i), &things[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_node_is_found_while_the_table_grows, setup, teardown),
        cmocka_unit_test_setup_teardown(a_removed_node_is_gone_and_no_other, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
