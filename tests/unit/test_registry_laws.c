/* test_registry_laws.c -- the laws of the registry (ids/registry_internal.h), broken on purpose. An
 * id that is lost by such a bug would be counted twice (S1-57). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/registry_world.h"
#include "support/panic.h"
#include "store/embedded/ids/registry_internal.h"

static struct world *made;
static struct registry *registry;

/* Two sealed sets that were not written, then some more. */
static int setup_sets(void **state)
{
    setup(state);
    made = *state;
    publish_range(made, 1, 2 * SEAL + 10);
    registry = made->registry;
    return 0;
}

static void write_all(void)
{
    write_back(made, true);
}

/* ---- (1), (2) ---- */

static void let_the_active_set_grow(void)
{
    registry->seal_count = 5;
    registry_check(registry);
}

static void lose_the_oldest_set(void)
{
    registry->oldest = NULL;
    write_all();
}

static void link_a_set_past_its_neighbour(void)
{
    registry->oldest->older = registry->newest;
    write_all();
}

static void keep_a_spare_that_is_full(void)
{
    registry->spare = registry->active;
    registry->spare_count = 1;
    write_all();
}

static void sets_are_sealed_in_their_order_and_none_is_lost(void **state)
{
    expect_panic(let_the_active_set_grow, "< registry->seal_count");
    expect_panic(lose_the_oldest_set, "(registry->newest == NULL) == (registry->oldest == NULL)");
    expect_panic(link_a_set_past_its_neighbour, "!registry->oldest->older");
    if (SLOW_CHECKS) expect_panic(keep_a_spare_that_is_full, "recent_size(&set->records) == 0");
}

/* ---- (3), (4) ---- */

static void write_a_later_set_first(void)
{
    registry->newest->at = SET_INGESTED;
    write_all();
}

static void give_runs_falling_numbers(void)
{
    registry->oldest->run = 9;
    registry->newest->run = 8;
    write_all();
}

/* Only what the state has flushed goes into the filters. */
static void settle_all(void)
{
    write_all();
    assert_int_equal(state_flush(made->state), ERR_OK);
    write_all();
}

static void name_a_run_that_is_not_there(void)
{
    atomic_store(&registry->chain.filters[0].last, 99);
    write_all();
}

static void miscount_a_filter(void)
{
    registry->chain.ids++;
    write_all();
}

static void filters_name_only_what_is_durable(void **state)
{
    expect_panic(write_a_later_set_first, "!sealed || set->at == SET_SEALED");
    expect_panic(give_runs_falling_numbers, "set->run == 0 || set->run > run");
    settle_all(); /* here, for a child has none of RocksDB's threads */
    expect_panic(name_a_run_that_is_not_there, "filter_chain_last(&registry->chain) <= run_last");
    expect_panic(miscount_a_filter, "ids == chain->ids");
}

#define LAW(name) cmocka_unit_test_setup_teardown(name, setup_sets, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(sets_are_sealed_in_their_order_and_none_is_lost),
        LAW(filters_name_only_what_is_durable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
