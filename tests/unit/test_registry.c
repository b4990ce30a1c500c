/* test_registry.c -- an id, once seen, is seen for ever; one never seen is never "seen".
 *
 * Laws are those of registry.h: here through staging, publishing and writing back;
 * test_registry_restart.c takes them through restarts, damaged filters, threads and random lives.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <unistd.h>

#include "support/registry_world.h"

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
        struct read_key key = {
            .print = nth(n), .value = {.sequence = n + 1, .digest = n}, .changed = true};
        registry_stage(world->registry, &key, 1);
    }
    registry_publish(world->registry, 10000);
    write_back(world, true);
    assert_int_equal(recent_count(world), 0);
    world->applied = 10000;
    restart(world, 10000); /* ingested files need no flush */
    for (uint64_t n = 0; n < 10000; n++) {
        struct key_record got;
        assert_int_equal(registry_find(world->registry, nth(n), &world->arena, &got), ERR_OK);
        assert_int_equal(got.digest, n);
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

/* Both records of an event's id lie in runs, and two filters know it. */
static void of_an_id_in_two_filters_the_newest_record_is_found(void **state)
{
    struct world *world = *state;
    const uint64_t plain = 42;
    publish_range(world, 0, 6 * SEAL);
    checkpoint(world, 6 * SEAL);
    stage(world, plain, 1000);
    registry_publish(world->registry, 1000);
    checkpoint(world, 1000);
    expect_record(world, plain, 1000);
    restart(world, 0);
    expect_record(world, plain, 1000);
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
        TEST(of_an_id_in_two_filters_the_newest_record_is_found),
        TEST(a_failed_write_back_loses_nothing),
    };
    return cmocka_run_group_tests_name("registry", tests, NULL, NULL);
}
