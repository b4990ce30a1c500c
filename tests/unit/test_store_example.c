/* test_store_example.c -- the example at the top of store.h compiles and does what it says. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/apply.h"
#include "store/fault.h"
#include "store/memory.h"
#include "support/asks.h"

#include "../build/examples/store/store.h.inc"

static const struct apply_limits limits = {.tenant_cells = 100, .granularities = 4};
static struct store *store;
static struct asks asks;
static unsigned reported;

static void count_report(void *context, void *batch, enum err e)
{
    assert_int_equal(e, ERR_OK);
    reported++;
}

static int setup(void **state)
{
    assert_int_equal(memory_open(&store), ERR_OK);
    store = fault_new(store, NULL, NULL);
    store->writer.durable = count_report;
    asks_init(&asks, &store->secret);
    reported = 0;
    return 0;
}

static int teardown(void **state)
{
    asks_release(&asks);
    store_close(store);
    return 0;
}

static enum err commit_increment(struct arena *arena, int64_t amount)
{
    struct op op = ask(&asks, OP_INCREMENT, "views", amount);
    struct bundle bundle = {.ops = &op, .count = 1};
    struct slice slice = {&bundle, 0, 1};
    struct apply apply = {.arena = arena,
                          .limits = &limits,
                          .slices = &slice,
                          .slices_count = 1,
                          .secret = &store->secret,
                          .moment = {.now_ms = 1000}};
    return commit_one(store, &apply);
}

static int64_t views(void)
{
    struct cell cell;
    struct bytes key = ask_counter(&asks, "views");
    struct cell_ref ref = {.counter = key, .print = fingerprint_of(&store->secret, key)};
    enum err e = view_get(&store->view, &ref, 0, READ_ALL, &cell);
    assert_true(e == ERR_OK || e == ERR_NOT_FOUND);
    return e == ERR_OK ? cell_triple(&cell).net : 0;
}

static void the_example_in_store_h_commits_a_batch(void **state)
{
    struct arena arena;
    arena_init(&arena, 4096);
    assert_int_equal(commit_increment(&arena, 5), ERR_OK);
    assert_int_equal(commit_increment(&arena, 2), ERR_OK);
    assert_int_equal(views(), 7);
    assert_int_equal(reported, 2);
    arena_release(&arena);
}

static void the_example_in_store_h_ends_its_turn_after_an_error(void **state)
{
    struct arena arena;
    arena_init(&arena, 4096);
    for (uint64_t nth = 1; nth <= 3; nth++) {
        fault_fail(store, FAULT_BEGIN | FAULT_LOAD, nth);
        assert_int_equal(commit_increment(&arena, 5), ERR_STORAGE);
        assert_false(fault_heal(store));
    }
    assert_int_equal(commit_increment(&arena, 5), ERR_OK);
    assert_int_equal(views(), 5);
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_example_in_store_h_commits_a_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(the_example_in_store_h_ends_its_turn_after_an_error, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
