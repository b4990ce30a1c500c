/* test_bounds.c -- caches hold what they may in bytes, whatever tenants put into their entries. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <malloc.h>

#include "base/hash.h"
#include "core/counter.h"
#include "store/embedded/counters.h"
#include "store/embedded/objects.h"

#define BYTES_MAX (CACHE_SHARDS * (128u << 10))
#define SLACK (BYTES_MAX / 4) /* the allocator's own, and an entry too many in each shard */
#define GRANULARITIES 100u
#define VALUE_SIZE 4000u
#define FLOOD (8 * BYTES_MAX / VALUE_SIZE)

static struct counters *counters;
static struct objects *objects;
static struct arena arena;
static size_t before; /* bytes that malloc has given out */

/* A sanitizer's malloc says nothing; the caches' own figures are checked there, too. */
static size_t allocated(void)
{
    return mallinfo2().uordblks + mallinfo2().hblkhd;
}

static int setup(void **state)
{
    (void)state;
    arena_init(&arena, 1u << 20);
    counters = counters_new(BYTES_MAX);
    objects = objects_new(BYTES_MAX);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    counters_free(counters);
    objects_free(objects);
    arena_release(&arena);
    return 0;
}

static const struct counter *counter_of(unsigned granularities)
{
    const struct counter *counter = NULL;
    for (unsigned i = 0; i < granularities; i++)
        counter = counter_with(&arena, counter, (struct series){i + 1, 1, (int32_t)i, 0});
    return counter;
}

static struct bytes long_key(char key[256], unsigned i)
{
    int size = snprintf(key, 256, "%0200u", i);
    return bytes_of(key, (size_t)size);
}

static void expect_within(struct cache *cache)
{
    struct cache_stats stats;
    cache_stats(cache, &stats);
    assert_true(stats.bytes <= BYTES_MAX + SLACK);
    assert_true(stats.bytes >= BYTES_MAX / 2); /* and the room is used */
    assert_true(allocated() <= before + BYTES_MAX + SLACK);
}

static void counters_with_long_names_and_many_granularities_stay_within(void **state)
{
    (void)state;
    const struct counter *counter = counter_of(GRANULARITIES);
    before = allocated();
    for (unsigned i = 0; i < FLOOD; i++) {
        char text[256];
        struct bytes key = long_key(text, i);
        struct fingerprint print = fingerprint_of(&hash_own, key);
        struct series series;
        uint64_t stamp;
        assert_false(counters_get(counters, print, 0, &series, &stamp));
        counters_offer(counters, print, key, counter, stamp);
    }
    expect_within(counters_cache(counters));
}

static void objects_with_large_values_stay_within(void **state)
{
    (void)state;
    static char value[VALUE_SIZE];
    before = allocated();
    for (unsigned i = 0; i < FLOOD; i++) {
        char text[256];
        struct bytes key = long_key(text, i);
        struct fingerprint print = fingerprint_of(&hash_own, key);
        struct buf got;
        uint64_t stamp;
        buf_init(&got, sizeof value);
        assert_false(objects_get(objects, print, &got, &stamp));
        objects_offer(objects, print, key, bytes_of(value, sizeof value), stamp);
    }
    expect_within(objects_cache(objects));
}

static void replay_counters(unsigned count, const struct counter *counter)
{
    for (unsigned i = 0; i < count; i++) {
        char text[256];
        struct bytes key = long_key(text, i);
        counters_replay(counters, fingerprint_of(&hash_own, key), key, counter);
    }
}

/* A counter takes up more with each granularity that it gets. */
static void what_grows_in_memory_presses_for_write_back(void **state)
{
    (void)state;
    const unsigned count = BYTES_MAX / 4000;
    replay_counters(count, counter_of(1));
    assert_false(cache_pressed(counters_cache(counters)));
    replay_counters(count, counter_of(2 * GRANULARITIES));
    assert_true(cache_pressed(counters_cache(counters)));
    replay_counters(count, NULL);
    assert_false(cache_pressed(counters_cache(counters)));
}

#define BOUNDS(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOUNDS(counters_with_long_names_and_many_granularities_stay_within),
        BOUNDS(objects_with_large_values_stay_within),
        BOUNDS(what_grows_in_memory_presses_for_write_back),
    };
    return cmocka_run_group_tests_name("bounds", tests, NULL, NULL);
}
