/* test_newer.c -- what memory has that is newer than the disk, listed in the order of keys, a chunk
 * at a time, at the cost of what is asked for. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/hash.h"
#include "core/counter.h"
#include "store/embedded/counters.h"

#define LARGE (64u << 20)

static struct counters *counters;
static struct arena arena;

static int setup(void **state)
{
    (void)state;
    counters = counters_new(LARGE);
    arena_init(&arena, 4096);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    counters_free(counters);
    arena_release(&arena);
    return 0;
}

static struct read_counter counter_read(const char *key)
{
    struct bytes bytes = bytes_str(key);
    return (struct read_counter){.print = fingerprint_of(&hash_own, bytes), .key = bytes};
}

static const struct counter *counter_of(uint64_t id)
{
    return counter_with(&arena, NULL, (struct series){id, 1, 60, 0});
}

static size_t newer_counters(struct bytes prefix, struct bytes after, struct keyed_counter **out)
{
    struct bytes upto;
    const struct cache_wanted wanted = {prefix, after, 1000};
    size_t count = counters_newer(counters, &wanted, &arena, out, &upto);
    assert_null(upto.data);
    return count;
}

static void replay_many(const char *tenant, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s/%06u", tenant, i);
        struct read_counter read = counter_read(key);
        counters_replay(counters, read.print, read.key, counter_of(i + 1));
    }
}

static uint64_t steps_in_order(void)
{
    uint64_t steps = 0;
    for (unsigned s = 0; s < CACHE_SHARDS; s++)
        steps += counters_cache(counters)->shards[s].newer.steps;
    return steps;
}

/* An empty tenant's list took 1.6 s beside 500,000 changed counters of another. */
static void listing_a_tenant_does_not_look_at_the_counters_of_others(void **state)
{
    struct keyed_counter *newer;
    replay_many("big", 20000);
    replay_many("small", 3);
    uint64_t before = steps_in_order();
    assert_int_equal(newer_counters(BYTES("none/"), BYTES_NONE, &newer), 0);
    assert_int_equal(newer_counters(BYTES("small/"), BYTES_NONE, &newer), 3);
    assert_true(steps_in_order() - before <= 2 * CACHE_SHARDS * 64 + 3 * 64);
}

static void newer_counters_come_in_chunks_without_a_gap(void **state)
{
    replay_many("a", 10);
    replay_many("b", 1000);
    replay_many("c", 10);
    struct cache_wanted wanted = {.prefix = BYTES("b/"), .max = 100};
    struct bytes upto;
    unsigned seen = 0;
    do {
        struct keyed_counter *newer;
        size_t count = counters_newer(counters, &wanted, &arena, &newer, &upto);
        assert_true(count <= wanted.max + CACHE_SHARDS);
        for (size_t i = 0; i < count; i++) {
            char key[32];
            snprintf(key, sizeof key, "b/%06u", seen++);
            assert_true(bytes_equal(newer[i].key, bytes_str(key)));
        }
        wanted.after = upto;
    } while (upto.data);
    assert_int_equal(seen, 1000);
}

static void newer_counters_are_listed_in_key_order(void **state)
{
    static const char *const keys[] = {"b2", "a", "b1", "c", "b3"};
    for (unsigned i = 0; i < ARRAY_COUNT(keys); i++) {
        struct read_counter read = counter_read(keys[i]);
        counters_replay(counters, read.print, read.key, i == 2 ? NULL : counter_of(i + 1));
    }
    struct read_counter clean = counter_read("b0");
    counters_insert(counters, &clean, counter_of(50), &arena);
    counters_drop(counters, &clean);
    struct keyed_counter *newer;
    assert_int_equal(newer_counters(BYTES("b"), BYTES("b1"), &newer), 2);
    assert_true(bytes_equal(newer[0].key, BYTES("b2")));
    assert_true(bytes_equal(newer[1].key, BYTES("b3")));
    assert_int_equal(newer_counters(BYTES_NONE, BYTES_NONE, &newer), 5);
    assert_true(bytes_equal(newer[0].key, BYTES("a")));
    assert_true(bytes_equal(newer[1].key, BYTES("b1")));
    assert_null(newer[1].counter); /* deleted */
    assert_int_equal(counter_find(newer[4].counter, 60)->id, 4);
}

#define NEWER(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        NEWER(newer_counters_are_listed_in_key_order),
        NEWER(newer_counters_come_in_chunks_without_a_gap),
        NEWER(listing_a_tenant_does_not_look_at_the_counters_of_others),
    };
    return cmocka_run_group_tests_name("newer", tests, NULL, NULL);
}
