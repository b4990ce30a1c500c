/* test_journal_crash.c -- the journal against a plain list, through thousands of random crashes.
 *
 * One seed is one life: appends, syncs, spares, trims, failing calls, a full disk, kills and power
 * cuts. journal_world compares at each opening. The seed that fails is the bug report:
 * JOURNAL_SEED=n runs that one alone, JOURNAL_SEEDS=n runs as many. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>

#include "support/journal_world.h"

struct life {
    struct world world;
    uint64_t random;
    uint64_t applied; /* what the state would have flushed */
    uint64_t crashes;
    uint64_t restarts;
};

static uint64_t draw(struct life *life, uint64_t below)
{
    uint64_t z = life->random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % below;
}

static size_t draw_body(struct life *life)
{
    size_t max = journal_body_max(life->world.journal);
    if (draw(life, 20) == 0) return max;
    size_t size = (size_t)(draw(life, 3) ? draw(life, 3000) : draw(life, 20000));
    return size < max ? size : max;
}

/* A failing disk may refuse the opening, but it must never make it see corruption. */
static enum err reopen(struct life *life)
{
    struct world *world = &life->world;
    if (draw(life, 4) == 0)
        io_sim_fail(world->sim, 1 + draw(life, 6), EIO,
                    (enum io_sim_loss)draw(life, IO_SIM_LOSSES));
    enum err e = world_open(world, life->applied);
    if (e != ERR_STORAGE) return e;
    if (draw(life, 2)) {
        world_crash(world, draw(life, UINT64_MAX));
    } else {
        world_kill(world);
    }
    return world_open(world, life->applied);
}

static enum err end_and_reopen(struct life *life)
{
    struct world *world = &life->world;
    life->crashes++;
    if (draw(life, 3))
        world_crash(world, draw(life, UINT64_MAX));
    else
        world_kill(world);
    return reopen(life);
}

/* Sometimes the process ends before the restart succeeds. */
static enum err after_failure(struct life *life)
{
    struct world *world = &life->world;
    life->restarts++;
    for (int attempt = 0; attempt < 3; attempt++) {
        if (draw(life, 5) == 0) return end_and_reopen(life);
        if (world_restart(world) == ERR_OK) return ERR_OK;
    }
    io_sim_heal(world->sim);
    return world_restart(world);
}

static void inject(struct life *life)
{
    struct io_sim *sim = life->world.sim;
    switch (draw(life, 4)) {
    case 0:
        io_sim_fail(sim, 1 + draw(life, 10), draw(life, 2) ? EIO : ENOSPC,
                    (enum io_sim_loss)draw(life, IO_SIM_LOSSES));
        break;
    case 1:
        io_sim_fail_sync(sim, 1 + draw(life, 4), (enum io_sim_loss)draw(life, IO_SIM_LOSSES));
        break;
    case 2:
        io_sim_room(sim, io_sim_bytes(sim) + draw(life, life->world.config.segment_size));
        break;
    default:
        io_sim_heal(sim);
    }
}

static enum err step(struct life *life)
{
    struct world *world = &life->world;
    enum err e = ERR_OK;
    switch (draw(life, 12)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4:
        e = world_append(world, draw_body(life), (uint32_t)(1 + draw(life, 5)));
        break;
    case 5:
    case 6:
    case 7:
        e = world_sync(world);
        break;
    case 8:
        journal_prepare(world->journal);
        break;
    case 9:
        if (world->acked > life->applied)
            life->applied += draw(life, world->acked - life->applied + 1);
        journal_trim(world->journal, life->applied);
        break;
    case 10:
        if (draw(life, 3) == 0) inject(life);
        break;
    default:
        if (draw(life, 3) == 0) return end_and_reopen(life);
    }
    return e == ERR_STORAGE ? after_failure(life) : e;
}

static void live(uint64_t seed, struct life *life)
{
    *life = (struct life){.random = seed * 0x2545f4914f6cdd1du + 1};
    struct world *world = &life->world;
    world_init(world, (unsigned)(4 + draw(life, 12)), (unsigned)draw(life, 3));
    if (world->config.segment_size >= 8 * WORLD_PAGE && draw(life, 2))
        world->config.first_size = 4 * WORLD_PAGE;
    world->config.keep_bytes = draw(life, 3) * world->config.segment_size;
    world->config.keep_ms = draw(life, 2) ? INT64_MAX : 100;
    enum err e = world_open(world, 0);
    unsigned steps = (unsigned)(20 + draw(life, 150));
    for (unsigned i = 0; i < steps && e == ERR_OK && !world->broken; i++)
        e = step(life);
    if (e == ERR_OK && !world->broken) e = end_and_reopen(life);
    if (e == ERR_OK && world->acked > life->applied) e = world_scan(world, life->applied + 1);
    if (e != ERR_OK || world->broken)
        fail_msg("seed %llu: %s; %s", (unsigned long long)seed,
                 world->broken ? world->broken : err_sentence(e), world->why.text);
    world_release(world);
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void what_was_acknowledged_comes_back_after_any_crash(void **state)
{
    (void)state;
    uint64_t first = setting("JOURNAL_SEED", 1);
    uint64_t count = getenv("JOURNAL_SEED") ? 1 : setting("JOURNAL_SEEDS", 2000);
    uint64_t crashes = 0, restarts = 0;
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct life life;
        live(seed, &life);
        crashes += life.crashes;
        restarts += life.restarts;
    }
    print_message("%llu lives, %llu crashes, %llu failures survived\n", (unsigned long long)count,
                  (unsigned long long)crashes, (unsigned long long)restarts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_acknowledged_comes_back_after_any_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
