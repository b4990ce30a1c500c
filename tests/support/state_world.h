/* state_world.h -- a state in a directory of its own, and words to write and read it with. */
#ifndef TALLY_TESTS_STATE_WORLD_H
#define TALLY_TESTS_STATE_WORLD_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/embedded/state/state.h"
#include "support/scratch_dir.h"

struct world {
    struct scratch_dir dir;
    struct state *state;
    struct state_batch *batch;
    struct state_config config;
    int64_t expired_before;
};

static inline int64_t expired_before(void *context)
{
    const struct world *world = context;
    return world->expired_before;
}

static inline void world_open(struct world *world)
{
    struct reason why;
    if (state_open(&world->state, &world->config, &why) != ERR_OK) fail_msg("%s", why.text);
    world->batch = state_batch_new(world->state);
}

static inline void world_close(struct world *world)
{
    state_batch_free(world->batch);
    state_close(world->state);
}

/* As after a kill: what was not flushed is not there. */
static inline void world_restart(struct world *world)
{
    world_close(world);
    world_open(world);
}

static inline int setup(void **state)
{
    static struct world world;
    world = (struct world){.expired_before = INT64_MIN};
    scratch_dir_init(&world.dir);
    world.config = (struct state_config){.dir = world.dir.path,
                                         .cache_bytes = 8u << 20,
                                         .ids_expired_before = expired_before,
                                         .context = &world};
    world_open(&world);
    *state = &world;
    return 0;
}

static inline int teardown(void **state)
{
    struct world *world = *state;
    world_close(world);
    scratch_dir_release(&world->dir);
    return 0;
}

static inline void put(struct world *world, enum state_family family, const char *key,
                       const char *value)
{
    state_batch_put(world->batch, family, bytes_str(key), bytes_str(value));
}

static inline void write_batch(struct world *world)
{
    assert_int_equal(state_write(world->state, world->batch), ERR_OK);
}

static inline void put_now(struct world *world, enum state_family family, const char *key,
                           const char *value)
{
    put(world, family, key, value);
    write_batch(world);
}

static inline void expect_stored(struct world *world, enum state_family family, const char *key,
                                 const char *value)
{
    struct buf got;
    buf_init(&got, 1 << 20);
    enum err e = state_get(world->state, family, bytes_str(key), &got);
    assert_int_equal(e, value ? ERR_OK : ERR_NOT_FOUND);
    if (value) assert_true(bytes_equal(buf_bytes(&got), bytes_str(value)));
    buf_release(&got);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
