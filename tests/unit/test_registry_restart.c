/* test_registry_restart.c -- the registry's laws through kills, damaged filter files and threads.
 *
 * After each restart the list of what was published is asked for, all of it. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "store/embedded/ids/filter.h"
#include "support/registry_world.h"

#define LARGE (FILTER_TAIL_MAX + 100) /* fills a tail */
#define SOME 100u

/* ---- restarts ---- */

static uint64_t lookups(struct world *world)
{
    struct registry_stats stats;
    registry_stats(world->registry, &stats);
    return stats.lookups;
}

static void law_4_a_clean_restart_knows_everything(void **state)
{
    struct world *world = *state;
    publish_range(world, 0, 1000);
    checkpoint(world, 1000);
    restart(world, 1000);
    assert_int_equal(recent_count(world), 0);
    expect_range(world, 0, 1000);
    assert_true(lookups(world) < 1000 + 20); /* the filters do filter */
}

static void X_01_after_a_kill_the_state_and_the_journal_make_it_whole(void **state)
{
    struct world *world = *state;
    publish_range(world, 0, 300);
    checkpoint(world, 300);
    publish_range(world, 300, 700); /* some written back, none flushed */
    write_back(world, false);
    publish_range(world, 700, 800);
    restart(world, 800);
    expect_range(world, 0, 800);
    checkpoint(world, 800);
    restart(world, 800);
    expect_range(world, 0, 800);
}

/* Killed between "applied is flushed" and "filters saved": the filters are behind. */
static void law_4_filters_behind_the_state_are_completed(void **state)
{
    struct world *world = *state;
    publish_range(world, 0, 300);
    checkpoint(world, 300);
    publish_range(world, 300, 900);
    write_back(world, true);
    assert_int_equal(state_flush(world->state), ERR_OK);
    world->applied = 900;
    restart(world, 900);
    expect_range(world, 0, 900);
    restart(world, 900); /* with what the first one saved */
    expect_range(world, 0, 900);
}

/* Killed between "filters saved" and "applied is flushed": the filters are ahead. */
static void law_4_filters_ahead_of_the_state_are_right(void **state)
{
    struct world *world = *state;
    publish_range(world, 0, 300);
    checkpoint(world, 300);
    publish_range(world, 300, 900);
    checkpoint(world, 900);
    world->applied = 300;
    restart(world, 900);
    expect_range(world, 0, 900);
}

static void cut(struct world *world, const char *name, long size)
{
    assert_int_equal(truncate(scratch_dir_file(&world->dir, name), size), 0);
}

static void law_4_cut_and_missing_filter_files_cost_time_only(void **state)
{
    struct world *world = *state;
    publish_range(world, 0, LARGE);
    checkpoint(world, LARGE);
    cut(world, "filters", 50);
    restart(world, LARGE);
    expect_range(world, LARGE - SOME, LARGE);
    checkpoint(world, LARGE);
    cut(world, "filter-0", 1000);
    restart(world, LARGE);
    expect_range(world, 0, SOME);
    checkpoint(world, LARGE);
    assert_int_equal(unlink(scratch_dir_file(&world->dir, "filters")), 0);
    restart(world, LARGE);
    expect_range(world, 0, SOME);
    restart(world, LARGE); /* with what the last one saved */
    expect_range(world, LARGE - SOME, LARGE);
}

/* Files that survived while the state was made anew, or came from another backup. */
static void law_4_filters_of_another_state_are_not_believed(void **state)
{
    struct world *world = *state;
    struct world other = {.seal_count = SEAL};
    char command[1024];
    publish_range(world, 0, 100);
    checkpoint(world, 100);
    scratch_dir_init(&other.dir);
    arena_init(&other.arena, 1024);
    world_open(&other);
    publish_range(&other, 1000, 1010);
    checkpoint(&other, 1010);
    world_close(world);
    snprintf(command, sizeof command, "cp %s/filters %s/filters", other.dir.path, world->dir.path);
    assert_int_equal(system(command), 0);
    world_open(world);
    expect_range(world, 0, 100);
    world_close(&other);
    arena_release(&other.arena);
    scratch_dir_release(&other.dir);
}

/* Runs tile the sets from 1 on, so a gap is seen; that the last one is gone only the filters know.
 */
static void a_missing_newest_run_refuses_to_open(void **state)
{
    struct world *world = *state;
    publish_range(world, 0, 100);
    checkpoint(world, 100);
    publish_range(world, 100, 150);
    checkpoint(world, 150);
    registry_free(world->registry);
    world->registry = NULL;
    assert_int_equal(unlink(scratch_dir_file(&world->dir, "ids-0000000003-0000000003")), 0);
    struct registry_config config = {.dir = world->dir.path,
                                     .io = &io_system,
                                     .state = world->state,
                                     .applied = world->applied,
                                     .seal_count = SEAL};
    assert_int_equal(registry_open(&world->registry, &config), ERR_STORAGE);
}

static void filters_are_saved_only_when_they_are_complete(void **state)
{
    struct world *world = *state;
    publish_range(world, 0, 10);
    assert_int_equal(registry_save_filters(world->registry, 10), ERR_STORAGE);
    write_back(world, true);
    assert_int_equal(registry_save_filters(world->registry, 10), ERR_STORAGE); /* not flushed */
    assert_int_equal(state_flush(world->state), ERR_OK);
    stage(world, 10, 11);
    registry_publish(world->registry, 11); /* later ones do not matter */
    assert_int_equal(registry_save_filters(world->registry, 10), ERR_OK);
}

static void statistics_count_ids_once(void **state)
{
    struct world *world = *state;
    struct registry_stats stats;
    publish_range(world, 0, 120);
    stage(world, 120, 121);
    registry_stats(world->registry, &stats);
    assert_int_equal(stats.ids, 120);
    assert_int_equal(stats.recent, 121);
    checkpoint(world, 120);
    registry_stats(world->registry, &stats);
    assert_int_equal(stats.ids, 120);
    assert_int_equal(stats.recent, 1);
    assert_true(stats.filter_bytes > 0);
}

/* ---- threads ---- */

struct life {
    struct world *world;
    uint64_t count;
    _Atomic uint64_t staged;
    _Atomic bool done;
};

static void *life_sync(void *context)
{
    struct life *life = context;
    while (!life->done) {
        registry_publish(life->world->registry, life->staged);
        usleep(100);
    }
    return NULL;
}

static void *life_tend(void *context)
{
    struct life *life = context;
    struct registry_stats stats;
    for (unsigned turn = 0; !life->done; turn++) {
        bool more, all = turn % 8 == 7;
        uint64_t durable = life->staged;
        if (all) registry_publish(life->world->registry, durable);
        must(registry_write_back(life->world->registry, all, &more) == ERR_OK);
        if (all) must(state_flush(life->world->state) == ERR_OK);
        if (all) must(registry_save_filters(life->world->registry, durable) == ERR_OK);
        registry_stats(life->world->registry, &stats);
    }
    return NULL;
}

/* The commit thread's view: every earlier id is found, no new one is, whatever the others do. */
static void life_commit(struct life *life)
{
    struct world *world = life->world;
    uint64_t random = 7;
    for (uint64_t n = 0; n < life->count; n++) {
        expect_none(world, n);
        stage(world, n, n + 1);
        random = hash_mix(random + n);
        expect_record(world, random % (n + 1), random % (n + 1) + 1);
        if (n % 20 == 19) life->staged = n + 1;
    }
}

static void law_1_holds_while_others_publish_and_write_back(void **state)
{
    struct world *world = *state;
    struct life life = {.world = world, .count = 20000};
    pthread_t sync, tend;
    world_close(world);
    /* Every set is a synced file: fifty times as many would take minutes. */
    world->seal_count = 1000;
    world_open(world);
    pthread_create(&sync, NULL, life_sync, &life);
    pthread_create(&tend, NULL, life_tend, &life);
    life_commit(&life);
    life.done = true;
    pthread_join(sync, NULL);
    pthread_join(tend, NULL);
    registry_publish(world->registry, life.count);
    checkpoint(world, life.count);
    restart(world, life.count);
    expect_range(world, 0, life.count);
}

/* ---- many random lives ---- */

static uint64_t draw(uint64_t *random, uint64_t below)
{
    *random = hash_mix(*random + 0x9e3779b97f4a7c15ull);
    return *random % below;
}

/* One random step; `*count` ids are published so far. */
static void live_a_step(struct world *world, uint64_t *random, uint64_t *count)
{
    uint64_t more = draw(random, 40);
    switch (draw(random, 8)) {
    case 0:
        checkpoint(world, *count);
        break;
    case 1:
        restart(world, *count);
        break;
    case 2:
        assert_int_equal(state_reopen(world->state), ERR_OK);
        break;
    case 3:
        write_back(world, draw(random, 2));
        break;
    case 4: /* staged, then the sync fails */
        for (uint64_t n = 0; n < more; n++)
            stage(world, *count + n, *count + n + 1);
        registry_drop_staged(world->registry);
        break;
    default:
        publish_range(world, *count, *count + more);
        *count += more;
    }
}

static void every_life_remembers_what_it_published(void **state)
{
    struct world *world = *state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        uint64_t random = seed, count = 0;
        teardown(state);
        setup(state);
        for (unsigned step = 0; step < 60; step++)
            live_a_step(world, &random, &count);
        for (uint64_t n = 0; n < count; n++)
            expect_record(world, n, n + 1);
        for (uint64_t n = count; n < count + 100; n++)
            expect_none(world, n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(law_4_a_clean_restart_knows_everything),
        TEST(X_01_after_a_kill_the_state_and_the_journal_make_it_whole),
        TEST(law_4_filters_behind_the_state_are_completed),
        TEST(law_4_filters_ahead_of_the_state_are_right),
        TEST(law_4_cut_and_missing_filter_files_cost_time_only),
        TEST(law_4_filters_of_another_state_are_not_believed),
        TEST(a_missing_newest_run_refuses_to_open),
        TEST(filters_are_saved_only_when_they_are_complete),
        TEST(statistics_count_ids_once),
        TEST(law_1_holds_while_others_publish_and_write_back),
        TEST(every_life_remembers_what_it_published),
    };
    return cmocka_run_group_tests_name("registry_restart", tests, NULL, NULL);
}
