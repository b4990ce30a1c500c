/* registry_world.h -- a registry over a state in a directory of its own, and what it should know.
 *
 * Ids have numbers; what the nth one leads to follows from n and its sequence. */
#ifndef TALLY_TESTS_REGISTRY_WORLD_H
#define TALLY_TESTS_REGISTRY_WORLD_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/embedded/ids/registry.h"
#include "support/scratch_dir.h"

#define SEAL 50u /* records to a sealed set */

struct world {
    struct scratch_dir dir;
    struct state *state;
    struct registry *registry;
    struct arena arena;
    size_t seal_count;
    uint64_t applied;
};

/* The nth id, and what it leads to in round `round`: long outcomes among short and empty ones. */
static inline struct fingerprint nth(uint64_t n)
{
    return (struct fingerprint){hash_mix(2 * n + 1), hash_mix(2 * n + 2)};
}

static inline struct key_record record_of(uint64_t n, uint64_t sequence)
{
    static _Thread_local char outcome[4096];
    size_t size = n % 7 == 0 ? 0 : n % 97 == 1 ? sizeof outcome : 26;
    memset(outcome, (int)(n + sequence), size);
    return (struct key_record){
        .sequence = sequence,
        .first_seen_ms = 1785000000000 + (int64_t)n,
        .digest = n % 2 ? hash_mix(n) : (uint32_t)n,
        .outcome = bytes_of(outcome, size),
        .event = n % 3 == 0,
        .exists = true,
    };
}

static inline void world_open(struct world *world)
{
    struct reason why;
    struct state_config state = {.dir = world->dir.path, .cache_bytes = 8u << 20};
    if (state_open(&world->state, &state, &why) != ERR_OK) fail_msg("%s", why.text);
    struct registry_config config = {.dir = world->dir.path,
                                     .io = &io_system,
                                     .state = world->state,
                                     .applied = world->applied,
                                     .seal_count = world->seal_count};
    assert_int_equal(registry_open(&world->registry, &config), ERR_OK);
}

static inline void world_close(struct world *world)
{
    registry_free(world->registry);
    state_close(world->state);
}

static inline int setup(void **state)
{
    static struct world world;
    world = (struct world){.seal_count = SEAL};
    scratch_dir_init(&world.dir);
    arena_init(&world.arena, 64 << 10);
    world_open(&world);
    *state = &world;
    return 0;
}

static inline int teardown(void **state)
{
    struct world *world = *state;
    world_close(world);
    arena_release(&world->arena);
    scratch_dir_release(&world->dir);
    return 0;
}

static inline void stage(struct world *world, uint64_t n, uint64_t sequence)
{
    struct read_key key = {.print = nth(n), .value = record_of(n, sequence), .changed = true};
    registry_stage(world->registry, &key, 1);
}

/* Ids from <= n < to with the sequence n + 1, durable. */
static inline void publish_range(struct world *world, uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n < to; n++)
        stage(world, n, n + 1);
    registry_publish(world->registry, to);
}

static inline void expect_record(struct world *world, uint64_t n, uint64_t sequence)
{
    struct key_record got, expected = record_of(n, sequence);
    assert_int_equal(registry_find(world->registry, nth(n), &world->arena, &got), ERR_OK);
    assert_int_equal(got.sequence, sequence);
    assert_int_equal(got.first_seen_ms, expected.first_seen_ms);
    assert_true(got.digest == expected.digest);
    assert_true(got.exists);
    assert_true(got.event == expected.event);
    assert_true(bytes_equal(got.outcome, expected.outcome));
    arena_reset(&world->arena);
}

static inline void expect_none(struct world *world, uint64_t n)
{
    struct key_record got;
    assert_int_equal(registry_find(world->registry, nth(n), &world->arena, &got), ERR_NOT_FOUND);
}

static inline void expect_range(struct world *world, uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n < to; n++)
        expect_record(world, n, n + 1);
    for (uint64_t n = to; n < to + 500; n++)
        expect_none(world, n + (1ull << 40));
}

static inline void write_back(struct world *world, bool all)
{
    bool more;
    assert_int_equal(registry_write_back(world->registry, all, &more), ERR_OK);
    if (all) assert_false(more);
}

static inline uint64_t recent_count(struct world *world)
{
    struct registry_stats stats;
    registry_stats(world->registry, &stats);
    return stats.recent;
}

/* As registry.h shows it, up to the sequence `to`. */
static inline void checkpoint(struct world *world, uint64_t to)
{
    write_back(world, true);
    assert_int_equal(state_flush(world->state), ERR_OK);
    assert_int_equal(registry_save_filters(world->registry, to), ERR_OK);
    world->applied = to;
}

/* As after a kill: what the journal has after `applied`, up to `durable`, is replayed. */
static inline void restart(struct world *world, uint64_t durable)
{
    world_close(world);
    world_open(world);
    for (uint64_t n = world->applied; n < durable; n++) {
        struct key_record record = record_of(n, n + 1);
        registry_replay(world->registry, nth(n), &record);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
