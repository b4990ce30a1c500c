/* test_registry.c -- an id, once seen, is seen for ever; one never seen is never "seen".
 *
 * Laws are those of registry.h. A model, the list of what was published, is asked at every turn:
 * across write-backs, flushes, reopened states, restarts and damaged filter files. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "store/embedded/filter.h"
#include "store/embedded/registry.h"
#include "support/scratch_dir.h"

#define SEAL 50u /* records to a sealed set */
#define LARGE (FILTER_TAIL_MAX + 100) /* fills a tail */
#define SOME 100u

struct world {
    struct scratch_dir dir;
    struct state *state;
    struct registry *registry;
    struct arena arena;
    size_t seal_count;
    uint64_t applied;
};

/* The nth id, and what it leads to in round `round`: long outcomes among short and empty ones. */
static struct fingerprint nth(uint64_t n)
{
    return (struct fingerprint){hash_mix(2 * n + 1), hash_mix(2 * n + 2)};
}

static struct key_record record_of(uint64_t n, uint64_t sequence)
{
    static _Thread_local char outcome[4096];
    size_t size = n % 7 == 0 ? 0 : n % 97 == 1 ? sizeof outcome : 26;
    memset(outcome, (int)(n + sequence), size);
    return (struct key_record){
        .sequence = sequence,
        .first_seen_ms = 1785000000000 + (int64_t)n,
        .check = n % 2 ? hash_mix(n) : (uint32_t)n,
        .outcome = bytes_of(outcome, size),
        .exists = true,
    };
}

static void world_open(struct world *world)
{
    char error[256];
    struct state_config state = {.dir = world->dir.path, .cache_bytes = 8u << 20};
    if (state_open(&world->state, &state, error, sizeof error)) fail_msg("%s", error);
    struct registry_config config = {.dir = world->dir.path,
                                     .io = &io_system,
                                     .state = world->state,
                                     .applied = world->applied,
                                     .seal_count = world->seal_count};
    assert_int_equal(registry_open(&world->registry, &config), ERR_OK);
}

static void world_close(struct world *world)
{
    registry_free(world->registry);
    state_close(world->state);
}

static int setup(void **state)
{
    static struct world world;
    world = (struct world){.seal_count = SEAL};
    scratch_dir_init(&world.dir);
    arena_init(&world.arena, 64 << 10);
    world_open(&world);
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;
    world_close(world);
    arena_release(&world->arena);
    scratch_dir_release(&world->dir);
    return 0;
}

static void stage(struct world *world, uint64_t n, uint64_t sequence)
{
    struct key_record record = record_of(n, sequence);
    registry_stage(world->registry, nth(n), &record);
}

/* Ids from <= n < to with the sequence n + 1, durable. */
static void publish_range(struct world *world, uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n < to; n++)
        stage(world, n, n + 1);
    registry_publish(world->registry, to);
}

static void expect_record(struct world *world, uint64_t n, uint64_t sequence)
{
    struct key_record got, expected = record_of(n, sequence);
    assert_int_equal(registry_find(world->registry, nth(n), &world->arena, &got), ERR_OK);
    assert_int_equal(got.sequence, sequence);
    assert_int_equal(got.first_seen_ms, expected.first_seen_ms);
    assert_true(got.check == expected.check);
    assert_true(got.exists);
    assert_true(bytes_equal(got.outcome, expected.outcome));
    arena_reset(&world->arena);
}

static void expect_none(struct world *world, uint64_t n)
{
    struct key_record got;
    assert_int_equal(registry_find(world->registry, nth(n), &world->arena, &got), ERR_NOT_FOUND);
}

static void expect_range(struct world *world, uint64_t from, uint64_t to)
{
    for (uint64_t n = from; n < to; n++)
        expect_record(world, n, n + 1);
    for (uint64_t n = to; n < to + 500; n++)
        expect_none(world, n + (1ull << 40));
}

static void write_back(struct world *world, bool all)
{
    bool more;
    assert_int_equal(registry_write_back(world->registry, all, &more), ERR_OK);
    if (all) assert_false(more);
}

static uint64_t recent_count(struct world *world)
{
    struct registry_stats stats;
    registry_stats(world->registry, &stats);
    return stats.recent;
}

/* As registry.h shows it, up to the sequence `to`. */
static void checkpoint(struct world *world, uint64_t to)
{
    write_back(world, true);
    assert_int_equal(state_flush(world->state), ERR_OK);
    assert_int_equal(registry_save_filters(world->registry, to), ERR_OK);
    world->applied = to;
}

/* As after a kill: what the journal has after `applied`, up to `durable`, is replayed. */
static void restart(struct world *world, uint64_t durable)
{
    world_close(world);
    world_open(world);
    for (uint64_t n = world->applied; n < durable; n++) {
        struct key_record record = record_of(n, n + 1);
        registry_replay(world->registry, nth(n), &record);
    }
}

/* ---- staging ---- */

static void law_1_a_staged_record_is_found_at_once(void **state)
{
    struct world *world = *state;
    expect_none(world, 1);
    stage(world, 1, 10);
    expect_record(world, 1, 10);
    expect_none(world, 2);
}

static void a_dropped_record_is_gone_and_a_published_one_is_not(void **state)
{
    struct world *world = *state;
    stage(world, 1, 10);
    stage(world, 2, 11);
    stage(world, 3, 12);
    registry_publish(world->registry, 11);
    registry_drop_staged(world->registry);
    expect_record(world, 1, 10);
    expect_record(world, 2, 11);
    expect_none(world, 3);
    stage(world, 3, 12); /* the retry */
    expect_record(world, 3, 12);
}

static void a_replaced_record_is_back_when_its_replacement_is_dropped(void **state)
{
    struct world *world = *state;
    stage(world, 1, 10);
    registry_publish(world->registry, 10);
    stage(world, 1, 20);
    expect_record(world, 1, 20);
    registry_drop_staged(world->registry);
    expect_record(world, 1, 10);
}

static void a_record_replaced_while_staged_comes_through_in_order(void **state)
{
    struct world *world = *state;
    stage(world, 1, 10);
    stage(world, 2, 11);
    stage(world, 1, 20);
    registry_publish(world->registry, 15);
    expect_record(world, 1, 20);
    registry_drop_staged(world->registry);
    expect_record(world, 1, 10);
}

static void an_outcome_outlives_what_comes_after(void **state)
{
    struct world *world = *state;
    struct key_record got, expected;
    stage(world, 98, 1); /* 4 KiB */
    assert_int_equal(registry_find(world->registry, nth(98), &world->arena, &got), ERR_OK);
    publish_range(world, 100, 400);
    write_back(world, true);
    expected = record_of(98, 1);
    assert_true(bytes_equal(got.outcome, expected.outcome));
}

/* In flight without a pause, as under load: staged records come and go, none is lost. */
static void staging_and_publishing_may_overlap_for_ever(void **state)
{
    struct world *world = *state;
    for (uint64_t n = 0; n < 5000; n++) {
        stage(world, n, n + 1);
        if (n % 10 == 9) registry_publish(world->registry, n - 4);
        if (n % 1000 == 0) write_back(world, true);
    }
    expect_range(world, 0, 5000);
}

/* ---- writing back ---- */

static void law_3_records_are_found_through_every_stage_of_writing_back(void **state)
{
    struct world *world = *state;
    publish_range(world, 0, 5 * SEAL + 7);
    bool more = true;
    while (more) {
        assert_int_equal(registry_write_back(world->registry, false, &more), ERR_OK);
        expect_range(world, 0, 5 * SEAL + 7);
    }
    write_back(world, true);
    expect_range(world, 0, 5 * SEAL + 7);
    assert_int_equal(state_flush(world->state), ERR_OK);
    write_back(world, true);
    assert_int_equal(recent_count(world), 0);
    expect_range(world, 0, 5 * SEAL + 7);
}

static void law_2_what_is_staged_is_not_written_back(void **state)
{
    struct world *world = *state;
    publish_range(world, 0, 10);
    stage(world, 10, 11);
    checkpoint(world, 10);
    assert_int_equal(recent_count(world), 1);
    restart(world, 10);
    expect_range(world, 0, 10);
    expect_none(world, 10);
}

static void law_3_small_sets_stay_in_memory_until_the_flush(void **state)
{
    struct world *world = *state;
    publish_range(world, 0, 5);
    write_back(world, true);
    assert_int_equal(recent_count(world), 5);
    assert_int_equal(state_flush(world->state), ERR_OK);
    write_back(world, true);
    assert_int_equal(recent_count(world), 0);
    expect_range(world, 0, 5);
}

static void law_3_large_sets_leave_memory_once_ingested(void **state)
{
    struct world *world = *state;
    world_close(world);
    world->seal_count = 5000;
    world_open(world);
    for (uint64_t n = 0; n < 10000; n++) { /* outcomes as short as they come */
        struct key_record record = {.sequence = n + 1, .check = n};
        registry_stage(world->registry, nth(n), &record);
    }
    registry_publish(world->registry, 10000);
    write_back(world, true);
    assert_int_equal(recent_count(world), 0);
    world->applied = 10000;
    restart(world, 10000); /* ingested files need no flush */
    for (uint64_t n = 0; n < 10000; n++) {
        struct key_record got;
        assert_int_equal(registry_find(world->registry, nth(n), &world->arena, &got), ERR_OK);
        assert_int_equal(got.check, n);
    }
}

static void law_3_what_a_reopened_state_forgot_is_written_again(void **state)
{
    struct world *world = *state;
    publish_range(world, 0, 30);
    write_back(world, true);
    assert_int_equal(state_reopen(world->state), ERR_OK);
    expect_range(world, 0, 30);
    assert_int_equal(state_flush(world->state), ERR_OK); /* of nothing */
    assert_int_equal(registry_save_filters(world->registry, 30), ERR_STORAGE);
    checkpoint(world, 30);
    restart(world, 30);
    expect_range(world, 0, 30);
}

/* The older set is forgotten by the state, the newer was ingested: the newer must win. */
static void law_3_a_set_written_again_does_not_hide_a_newer_one(void **state)
{
    struct world *world = *state;
    world_close(world);
    world->seal_count = 5000;
    world_open(world);
    publish_range(world, 0, 5);
    write_back(world, true); /* small: in a memtable */
    for (uint64_t n = 0; n < 5000; n++)
        stage(world, n, n + 1000);
    registry_publish(world->registry, 10000);
    write_back(world, true); /* large: ingested */
    assert_int_equal(state_reopen(world->state), ERR_OK);
    checkpoint(world, 10000);
    write_back(world, true);
    assert_int_equal(recent_count(world), 0);
    for (uint64_t n = 0; n < 5000; n++)
        expect_record(world, n, n + 1000);
}

static void a_replaced_record_stays_replaced_in_the_state(void **state)
{
    struct world *world = *state;
    publish_range(world, 0, 60);
    checkpoint(world, 60);
    stage(world, 7, 100);
    registry_publish(world->registry, 100);
    checkpoint(world, 100);
    restart(world, 0);
    expect_record(world, 7, 100);
    expect_record(world, 8, 9);
}

static void a_failed_write_back_loses_nothing(void **state)
{
    struct world *world = *state;
    char moved[512];
    bool more;
    publish_range(world, 0, 3 * SEAL);
    snprintf(moved, sizeof moved, "%s-moved", world->dir.path);
    assert_int_equal(rename(world->dir.path, moved), 0);
    FILE *in_the_way = fopen(world->dir.path, "w");
    fclose(in_the_way);
    assert_int_equal(state_reopen(world->state), ERR_STORAGE);
    assert_int_equal(registry_write_back(world->registry, true, &more), ERR_STORAGE);
    assert_true(more);
    assert_int_equal(registry_save_filters(world->registry, 3 * SEAL), ERR_STORAGE);
    expect_range(world, 0, 3 * SEAL);

    assert_int_equal(unlink(world->dir.path), 0);
    assert_int_equal(rename(moved, world->dir.path), 0);
    assert_int_equal(state_reopen(world->state), ERR_OK);
    checkpoint(world, 3 * SEAL);
    restart(world, 3 * SEAL);
    expect_range(world, 0, 3 * SEAL);
}

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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(law_1_a_staged_record_is_found_at_once),
        TEST(a_dropped_record_is_gone_and_a_published_one_is_not),
        TEST(a_replaced_record_is_back_when_its_replacement_is_dropped),
        TEST(a_record_replaced_while_staged_comes_through_in_order),
        TEST(an_outcome_outlives_what_comes_after),
        TEST(staging_and_publishing_may_overlap_for_ever),
        TEST(law_3_records_are_found_through_every_stage_of_writing_back),
        TEST(law_2_what_is_staged_is_not_written_back),
        TEST(law_3_small_sets_stay_in_memory_until_the_flush),
        TEST(law_3_large_sets_leave_memory_once_ingested),
        TEST(law_3_what_a_reopened_state_forgot_is_written_again),
        TEST(law_3_a_set_written_again_does_not_hide_a_newer_one),
        TEST(a_replaced_record_stays_replaced_in_the_state),
        TEST(a_failed_write_back_loses_nothing),
        TEST(law_4_a_clean_restart_knows_everything),
        TEST(X_01_after_a_kill_the_state_and_the_journal_make_it_whole),
        TEST(law_4_filters_behind_the_state_are_completed),
        TEST(law_4_filters_ahead_of_the_state_are_right),
        TEST(law_4_cut_and_missing_filter_files_cost_time_only),
        TEST(law_4_filters_of_another_state_are_not_believed),
        TEST(filters_are_saved_only_when_they_are_complete),
        TEST(statistics_count_ids_once),
        TEST(law_1_holds_while_others_publish_and_write_back),
        TEST(every_life_remembers_what_it_published),
    };
    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
