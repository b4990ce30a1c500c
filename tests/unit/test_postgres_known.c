/* test_postgres_known.c -- what a node keeps of a lane's rows: what it was told last, in bounded
 * space. Law (2) of postgres.h, whether it may be believed, is test_postgres_nodes.c's. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "core/counter.h"
#include "store/postgres/known.h"

#define BYTES_MAX ((size_t)2 << 20)

struct world {
    struct known_rows known;
    struct arena arena;
};

static int start(void **state)
{
    struct world *world = must_calloc(1, sizeof *world);
    known_init(&world->known, BYTES_MAX);
    arena_init(&world->arena, 4096);
    *state = world;
    return 0;
}

static int stop(void **state)
{
    struct world *world = *state;
    known_release(&world->known);
    arena_release(&world->arena);
    free(world);
    return 0;
}

static struct fingerprint named(uint64_t number)
{
    return (struct fingerprint){.low = number * 0x9e3779b97f4a7c15u, .high = number};
}

static int64_t added(struct world *world, uint64_t series)
{
    struct cell cell;
    return known_cell(&world->known, series, 60, &cell) ? cell.added : -1;
}

static void put_added(struct world *world, uint64_t series, int64_t value)
{
    const struct cell cell = {.added = value, .exists = true};
    known_put_cell(&world->known, series, 60, &cell);
}

static void nothing_is_known_at_first_and_after_it_was_cleared(void **state)
{
    struct world *world = *state;
    int64_t cells;
    assert_int_equal(added(world, 1), -1);
    put_added(world, 1, 5);
    known_put_tenant(&world->known, named(1), 3);
    known_clear(&world->known);
    assert_int_equal(added(world, 1), -1);
    assert_false(known_tenant(&world->known, named(1), &cells));
}

static void the_value_that_was_put_last_is_known(void **state)
{
    struct world *world = *state;
    struct bytes value;
    put_added(world, 1, 5);
    put_added(world, 2, 7);
    put_added(world, 1, 6);
    assert_int_equal(added(world, 1), 6);
    assert_int_equal(added(world, 2), 7);
    known_put_object(&world->known, named(1), BYTES("short"));
    known_put_object(&world->known, named(1), BYTES("a good deal longer"));
    known_put_object(&world->known, named(2), BYTES("long enough"));
    known_put_object(&world->known, named(2), BYTES("less"));
    assert_true(known_object(&world->known, named(1), &world->arena, &value));
    assert_true(bytes_equal(value, BYTES("a good deal longer")));
    assert_true(known_object(&world->known, named(2), &world->arena, &value));
    assert_true(bytes_equal(value, BYTES("less")));
}

static void what_is_absent_is_known_to_be_so(void **state)
{
    struct world *world = *state;
    const struct counter *counter = (const struct counter *)(uintptr_t)1;
    struct bytes value = BYTES("there");
    known_put_counter(&world->known, named(1), NULL);
    known_put_object(&world->known, named(1), BYTES_NONE);
    assert_true(known_counter(&world->known, named(1), &world->arena, &counter));
    assert_null(counter);
    assert_true(known_object(&world->known, named(1), &world->arena, &value));
    assert_int_equal(value.size, 0);
}

/* The same fingerprint may name a counter and a tenant. */
static void kinds_are_apart(void **state)
{
    struct world *world = *state;
    struct key_record record;
    int64_t cells;
    known_put_tenant(&world->known, named(1), 3);
    assert_false(known_key(&world->known, named(1), &world->arena, &record));
    known_put_key(&world->known, named(1),
                  &(struct key_record){.sequence = 9, .outcome = BYTES("ok"), .exists = true});
    assert_true(known_key(&world->known, named(1), &world->arena, &record));
    assert_int_equal(record.sequence, 9);
    assert_true(bytes_equal(record.outcome, BYTES("ok")));
    assert_true(known_tenant(&world->known, named(1), &cells));
    assert_int_equal(cells, 3);
}

static void a_counter_comes_with_its_granularities(void **state)
{
    struct world *world = *state;
    const struct counter *counter =
        counter_with(&world->arena, NULL, (struct series){.id = 4, .duration = 60, .cells = 2});
    known_put_counter(&world->known, named(1), counter);
    counter = counter_with(&world->arena, counter, (struct series){.id = 5, .duration = 3600});
    known_put_counter(&world->known, named(1), counter);
    assert_true(known_counter(&world->known, named(1), &world->arena, &counter));
    assert_int_equal(counter->count, 2);
    assert_int_equal(counter_find(counter, 60)->id, 4);
    assert_int_equal(counter_find(counter, 3600)->id, 5);
}

static void it_is_bounded_and_keeps_what_is_used(void **state)
{
    struct world *world = *state;
    put_added(world, 1, 1);
    for (uint64_t series = 2; series < 200000; series++) {
        put_added(world, series, (int64_t)series);
        if (series % 1000 == 0) assert_int_equal(added(world, 1), 1);
        assert_true(known_bytes(&world->known) <= BYTES_MAX + BYTES_MAX / 4);
    }
    assert_int_equal(added(world, 199999), 199999);
    assert_int_equal(added(world, 2), -1);
}

static void ids_push_no_cell_out(void **state)
{
    struct world *world = *state;
    put_added(world, 1, 1);
    for (uint64_t i = 0; i < 200000; i++)
        known_put_key(&world->known, named(i), &(struct key_record){.sequence = i});
    assert_int_equal(added(world, 1), 1);
    assert_true(known_bytes(&world->known) <= BYTES_MAX);
}

#define WORLD(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WORLD(nothing_is_known_at_first_and_after_it_was_cleared),
        WORLD(the_value_that_was_put_last_is_known),
        WORLD(what_is_absent_is_known_to_be_so),
        WORLD(kinds_are_apart),
        WORLD(a_counter_comes_with_its_granularities),
        WORLD(it_is_bounded_and_keeps_what_is_used),
        WORLD(ids_push_no_cell_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
