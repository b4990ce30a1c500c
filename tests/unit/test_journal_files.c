/* test_journal_files.c -- the journal's files: spares, trimming, scanning, and a real disk.
 *
 * On the simulated disk first, see journal_world.h; then with io_system in a directory of its own,
 * with a second thread that prepares and trims as the server's caretaker does. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "support/journal_expect.h"

static void a_spare_of_another_size_is_not_used(void **state)
{
    (void)state;
    world.config.spare_count = 2;
    world_kill(&world);
    expect_reopen(0);
    while (journal_prepare(world.journal))
        continue;
    world_kill(&world);
    world.config.segment_size *= 2;
    world.config.first_size *= 2;
    expect_reopen(0);
    assert_null(io_sim_name(world.sim, "spare-", 0));
    write_blocks(20);
    world_crash(&world, 1);
    expect_open(0, 20);
}

static void spares_are_made_up_to_the_count_and_used(void **state)
{
    (void)state;
    world_release(&world);
    world_init(&world, 3000, 2); /* 12 MB: three steps each */
    expect_reopen(0);
    unsigned steps = 1;
    while (journal_prepare(world.journal))
        steps++;
    assert_int_equal(steps, 6);
    assert_false(journal_prepare(world.journal));
    assert_non_null(io_sim_name(world.sim, "spare-", 1));
    world_crash(&world, 1); /* they were synced, file and directory */
    expect_reopen(0);
    struct journal_stats stats;
    journal_stats(world.journal, &stats);
    /* Opening took one for its new segment; the empty old one was never zero-written and is gone.
     */
    assert_int_equal(stats.segments, 1);
    assert_int_equal(stats.bytes, 2 * world.config.segment_size);
}

/* Syncs into blocks that were only reserved take twice as long. */
static void a_segment_made_in_need_is_left_when_a_zeroed_one_is_there(void **state)
{
    (void)state;
    world_release(&world);
    world_init(&world, 8, 1);
    expect_reopen(0);
    write_blocks(1);
    assert_non_null(io_sim_name(world.sim, "journal-", 0));
    assert_null(io_sim_name(world.sim, "journal-", 1));
    while (journal_prepare(world.journal))
        ;
    write_blocks(1);
    assert_non_null(io_sim_name(world.sim, "journal-", 1));
    assert_null(io_sim_name(world.sim, "spare-", 0));
    write_blocks(1); /* and stays there */
    assert_null(io_sim_name(world.sim, "journal-", 2));
    world_crash(&world, 1);
    expect_open(0, 3);
}

static uint64_t bytes_now(void)
{
    struct journal_stats stats;
    journal_stats(world.journal, &stats);
    return stats.bytes;
}

static void grow_from(unsigned first_pages, unsigned segment_pages)
{
    world_release(&world);
    world_init(&world, segment_pages, 2);
    world.config.first_size = first_pages * WORLD_PAGE;
    expect_reopen(0);
}

static void prepare(void)
{
    while (journal_prepare(world.journal))
        continue;
}

/* A fresh store took 785 MB before anybody had counted anything. */
static void a_new_journal_is_small_and_grows_with_use(void **state)
{
    (void)state;
    grow_from(8, 64);
    assert_int_equal(bytes_now(), 8 * WORLD_PAGE);
    prepare();
    assert_int_equal(bytes_now(), 16 * WORLD_PAGE); /* one to take the place of the first */
    write_blocks(1);
    prepare();
    assert_int_equal(bytes_now(), 16 * WORLD_PAGE); /* nothing more is made ahead */
    write_blocks(2);
    prepare();
    assert_int_equal(bytes_now(), 32 * WORLD_PAGE); /* half full: one of twice its size */
    write_blocks(60);
    journal_trim(world.journal, world.acked);
    prepare();
    assert_int_equal(bytes_now(), 3 * 64 * WORLD_PAGE); /* the current one and two spares */
    world_crash(&world, 1);
    expect_open(world.acked, 63);
}

static void a_start_alone_makes_no_segment_larger(void **state)
{
    (void)state;
    grow_from(4, 32);
    for (unsigned i = 0; i < 5; i++) {
        prepare();
        write_blocks(1);
        world_kill(&world);
        expect_open(world.acked, world.acked);
        journal_trim(world.journal, world.acked);
    }
    assert_int_equal(bytes_now(), 4 * WORLD_PAGE);
}

static void a_block_that_needs_a_larger_segment_gets_it_at_once(void **state)
{
    (void)state;
    grow_from(4, 32);
    prepare();
    assert_int_equal(journal_body_max(world.journal), 31 * WORLD_PAGE - 88);
    assert_int_equal(world_write(&world, 10 * WORLD_PAGE), ERR_OK);
    assert_int_equal(world_write(&world, journal_body_max(world.journal)), ERR_OK);
    prepare();
    assert_null(io_sim_name(world.sim, "spare-", 2)); /* outgrown spares are gone */
    world_crash(&world, 1);
    expect_open(0, 2);
}

static void without_room_for_a_segment_the_journal_is_read_until_there_is(void **state)
{
    (void)state;
    grow_from(4, 32);
    write_blocks(20);
    world_kill(&world);
    io_sim_room(world.sim, io_sim_bytes(world.sim));
    expect_open(0, 20);
    assert_true(journal_has_failed(world.journal));
    assert_int_equal(world_scan(&world, 1), ERR_OK);
    assert_int_equal(world_write(&world, SMALL), ERR_STORAGE);
    assert_false(journal_prepare(world.journal));
    assert_int_equal(world_restart(&world), ERR_STORAGE);
    world_crash(&world, 1);
    expect_open(0, 20);
    io_sim_heal(world.sim);
    assert_int_equal(world_restart(&world), ERR_OK);
    write_blocks(1);
    world_crash(&world, 2);
    expect_open(0, 21);
}

/* A disk with room for a small segment, but none of the size that is due, is not full yet. */
static void a_smaller_segment_will_do_where_a_large_one_does_not_fit(void **state)
{
    (void)state;
    grow_from(4, 32);
    write_blocks(40); /* in a segment of 32 pages by now */
    world_kill(&world);
    io_sim_room(world.sim, io_sim_bytes(world.sim) + 8 * WORLD_PAGE);
    expect_open(0, 40);
    assert_false(journal_has_failed(world.journal));
    write_blocks(1);
}

/* A rename that is reported as failed may be there after all. Such a segment was forgotten,
 * outlasted those after it, and what they had held was then missed in it. */
static void a_segment_whose_naming_failed_never_stands_for_later_ones(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth <= 8; nth++) {
        for (int loss = 0; loss < IO_SIM_LOSSES; loss++) {
            world_release(&world);
            world_init(&world, 4, 0);
            expect_reopen(0);
            write_blocks(3); /* the next one needs a segment */
            io_sim_fail(world.sim, nth, EIO, (enum io_sim_loss)loss);
            enum err e = world_write(&world, SMALL);
            io_sim_heal(world.sim);
            if (e != ERR_OK) assert_int_equal(world_restart(&world), ERR_OK);
            write_blocks(10);
            journal_trim(world.journal, world.acked);
            uint64_t acked = world.acked;
            world_crash(&world, nth);
            expect_open(acked, acked);
            for (uint64_t from = 1; from <= acked; from++)
                assert_int_not_equal(world_scan(&world, from), ERR_CORRUPT);
        }
    }
}

/* Such a segment, which may not be there, was believed to follow, and the one before it was let go
 * as applied and followed: then the journal was empty and its state ahead. Found by sim --seed
 * 80004064 --world embedded. */
static void a_segment_whose_naming_failed_lets_none_before_it_go(void **state)
{
    (void)state;
    for (unsigned nth = 1; nth <= 8; nth++) {
        for (int loss = 0; loss < IO_SIM_LOSSES; loss++) {
            world_release(&world);
            world_init(&world, 4, 0);
            expect_reopen(0);
            write_blocks(3);
            io_sim_fail(world.sim, nth, EIO, (enum io_sim_loss)loss);
            (void)world_write(&world, SMALL);
            io_sim_heal(world.sim);
            uint64_t acked = world.acked;
            journal_trim(world.journal, acked);
            world_crash(&world, nth);
            expect_reopen(acked); /* with what failed, or without it */
        }
    }
}

static void a_spare_half_made_is_thrown_away(void **state)
{
    (void)state;
    world_release(&world);
    world_init(&world, 3000, 1);
    expect_reopen(0);
    assert_true(journal_prepare(world.journal));
    assert_non_null(io_sim_name(world.sim, "making-", 0));
    world_kill(&world);
    expect_reopen(0);
    assert_null(io_sim_name(world.sim, "making-", 0));
    io_sim_room(world.sim, io_sim_bytes(world.sim));
    assert_false(journal_prepare(world.journal));
    assert_null(io_sim_name(world.sim, "making-", 0));
    struct journal_stats stats;
    journal_stats(world.journal, &stats);
    assert_int_equal(stats.files_failed, 1);
    assert_int_equal(stats.last_error, ENOSPC);
}

static void many_openings_do_not_fill_the_disk(void **state)
{
    (void)state;
    write_blocks(3);
    for (unsigned i = 0; i < 20; i++) {
        world_kill(&world);
        expect_open(0, 3);
    }
    assert_int_equal(io_sim_bytes(world.sim), 2 * world.config.segment_size);
}

static uint64_t segments_now(void)
{
    struct journal_stats stats;
    journal_stats(world.journal, &stats);
    return stats.segments;
}

static void trimming_keeps_what_is_not_applied_and_what_is_to_be_kept(void **state)
{
    (void)state;
    world.config.keep_bytes = 2 * world.config.segment_size;
    world.config.keep_ms = INT64_MAX;
    world_kill(&world);
    expect_reopen(0);
    write_blocks(35); /* five segments, 35 the last of the fifth */
    assert_int_equal(segments_now(), 5);
    journal_trim(world.journal, 0);
    assert_int_equal(segments_now(), 5);
    journal_trim(world.journal, 13); /* one is applied, and kept */
    assert_int_equal(segments_now(), 5);
    journal_trim(world.journal, 35); /* the current one never goes, two are kept */
    assert_int_equal(segments_now(), 3);

    world.config.keep_ms = 30; /* blocks are 10 ms apart */
    world_kill(&world);
    expect_open(30, 35);
    journal_trim(world.journal, 35);
    assert_int_equal(segments_now(), 2); /* 29..35, whose last is new enough, and the new one */
    world_crash(&world, 1);
    expect_open(35, 35);
}

static void bytes_since_applied_are_those_a_restart_would_read(void **state)
{
    (void)state;
    write_blocks(10);
    struct journal_stats stats;
    journal_stats(world.journal, &stats);
    assert_int_equal(stats.bytes_since_applied, (8 + 4) * WORLD_PAGE);
    assert_int_equal(stats.appended_bytes, 10 * WORLD_PAGE);
    assert_int_equal(stats.syncs, 10);
    journal_trim(world.journal, 7);
    journal_stats(world.journal, &stats);
    assert_int_equal(stats.bytes_since_applied, 4 * WORLD_PAGE);
}

static void a_scan_reads_what_is_durable(void **state)
{
    (void)state;
    write_blocks(16);
    append_blocks(2, SMALL);
    for (uint64_t from = 1; from <= 17; from++) {
        assert_int_equal(world_scan(&world, from), ERR_OK);
        assert_int_equal(world.replayed, 17 - from);
        assert_null(world.broken);
    }
    journal_trim(world.journal, 8);
    assert_int_equal(world_scan(&world, 7), ERR_NOT_FOUND);
    assert_int_equal(world_scan(&world, 8), ERR_OK);
    io_sim_damage(world.sim, io_sim_name(world.sim, "journal-", 0), 4 * WORLD_PAGE + 90, 1);
    assert_int_equal(world_scan(&world, 8), ERR_CORRUPT);
}

static enum err trim_meanwhile(void *context, const struct journal_block *block)
{
    uint64_t *last = context;
    *last = block->first_sequence + block->count - 1;
    journal_trim(world.journal, 0);
    return ERR_OK;
}

/* Its pin protects blocks. A segment without any goes under a scan that has it in its list: a
 * backup soon after a few restarts failed by that. */
static void a_scan_goes_on_when_an_empty_segment_goes(void **state)
{
    (void)state;
    uint64_t last = 0;
    struct journal_stats stats;
    write_blocks(3);
    assert_int_equal(world_restart(&world), ERR_OK);
    assert_int_equal(world_restart(&world), ERR_OK);
    write_blocks(2);
    journal_stats(world.journal, &stats);
    assert_int_equal(stats.segments, 3);
    assert_int_equal(journal_scan(world.journal, 1, trim_meanwhile, &last), ERR_OK);
    assert_int_equal(last, 5);
    journal_stats(world.journal, &stats);
    assert_int_equal(stats.segments, 2); /* it did go */
}

static void the_largest_body_fills_a_segment(void **state)
{
    (void)state;
    assert_int_equal(journal_body_max(world.journal), 7 * WORLD_PAGE - 88);
    for (int i = 0; i < 3; i++)
        assert_int_equal(world_write(&world, journal_body_max(world.journal)), ERR_OK);
    assert_int_equal(world_write(&world, 0), ERR_OK);
    world_crash(&world, 1);
    expect_open(0, 4);
}

/* ---- a real disk ---- */

static char disk_dir[256];

static void disk_remove(void *context, const char *name)
{
    (void)context;
    char path[600];
    snprintf(path, sizeof path, "%s/%s", disk_dir, name);
    unlink(path);
}

static int disk_setup(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(disk_dir, sizeof disk_dir, "%s/tally-journal-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(disk_dir));
    world_init(&world, 64, 2);
    world.config.io = &io_system;
    world.config.dir = disk_dir;
    assert_int_equal(world_open(&world, 0), ERR_OK);
    return 0;
}

static int disk_teardown(void **state)
{
    (void)state;
    world_release(&world);
    io_system.ops->list(&io_system, disk_dir, disk_remove, NULL);
    return rmdir(disk_dir);
}

static void the_laws_hold_on_a_real_disk(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        while (journal_prepare(world.journal))
            continue;
        for (unsigned i = 0; i < 60; i++)
            assert_int_equal(world_write(&world, i * 400), ERR_OK);
        append_blocks(3, SMALL); /* these are staged only and go with the process */
        uint64_t acked = world.acked;
        world_kill(&world);
        expect_open(0, acked);
        assert_int_equal(world_scan(&world, 1), ERR_OK);
        assert_null(world.broken);
    }
    uint64_t applied = world.acked;
    world_kill(&world);
    world.config.keep_bytes = 0;
    expect_open(applied, applied);
    journal_trim(world.journal, applied);
    struct journal_stats stats;
    journal_stats(world.journal, &stats);
    assert_int_equal(stats.segments, 1);
}

static atomic_bool stop_tending;
static atomic_uint_fast64_t tend_applied;

static void *tend(void *context)
{
    struct journal *journal = context;
    while (!atomic_load(&stop_tending)) {
        uint64_t applied = atomic_load(&tend_applied);
        journal_prepare(journal);
        journal_trim(journal, applied);
        struct journal_stats stats;
        journal_stats(journal, &stats);
        must(stats.segments > 0);
        must(journal_durable_sequence(journal) >= applied);
    }
    return NULL;
}

/* For the thread sanitizer above all. */
static void appending_and_tending_go_on_side_by_side(void **state)
{
    (void)state;
    pthread_t thread;
    atomic_store(&stop_tending, false);
    atomic_store(&tend_applied, 0);
    assert_int_equal(pthread_create(&thread, NULL, tend, world.journal), 0);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(world_write(&world, i * 40), ERR_OK);
        if (i % 50 == 49) assert_int_equal(world_restart(&world), ERR_OK);
        if (i % 20 == 19) atomic_store(&tend_applied, world.acked - 10);
    }
    atomic_store(&stop_tending, true);
    pthread_join(thread, NULL);
    uint64_t acked = world.acked;
    world_kill(&world);
    expect_open(acked - 10, acked);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare_times(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Says what a sync costs here; a figure to look at, not a condition. */
static void what_a_sync_costs(void **state)
{
    (void)state;
    static const size_t sizes[] = {WORLD_PAGE - 88, 64 * WORLD_PAGE - 88};
    world_kill(&world);
    world.config.first_size = world.config.segment_size = 4096 * (uint64_t)WORLD_PAGE;
    for (size_t i = 0; i < ARRAY_COUNT(sizes); i++) {
        if (world.journal) world_kill(&world);
        expect_reopen(world.acked);
        while (journal_prepare(world.journal))
            continue;
        assert_int_equal(journal_restart(world.journal), ERR_OK); /* into a zero-written one */
        int64_t times[50];
        for (size_t n = 0; n < ARRAY_COUNT(times); n++) {
            int64_t start = now_ns();
            assert_int_equal(world_write(&world, sizes[i]), ERR_OK);
            times[n] = now_ns() - start;
        }
        qsort(times, ARRAY_COUNT(times), sizeof *times, compare_times);
        print_message("append and sync of %zu KiB: median %lld us, best %lld us\n",
                      (sizes[i] + 88) / 1024, (long long)(times[25] / 1000),
                      (long long)(times[0] / 1000));
    }
}

#define DISK(name) cmocka_unit_test_setup_teardown(name, disk_setup, disk_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(a_spare_of_another_size_is_not_used),
        LAW(spares_are_made_up_to_the_count_and_used),
        LAW(a_segment_made_in_need_is_left_when_a_zeroed_one_is_there),
        LAW(a_new_journal_is_small_and_grows_with_use),
        LAW(a_start_alone_makes_no_segment_larger),
        LAW(a_block_that_needs_a_larger_segment_gets_it_at_once),
        LAW(without_room_for_a_segment_the_journal_is_read_until_there_is),
        LAW(a_smaller_segment_will_do_where_a_large_one_does_not_fit),
        LAW(a_segment_whose_naming_failed_never_stands_for_later_ones),
        LAW(a_segment_whose_naming_failed_lets_none_before_it_go),
        LAW(a_spare_half_made_is_thrown_away),
        LAW(many_openings_do_not_fill_the_disk),
        LAW(trimming_keeps_what_is_not_applied_and_what_is_to_be_kept),
        LAW(bytes_since_applied_are_those_a_restart_would_read),
        LAW(a_scan_reads_what_is_durable),
        LAW(a_scan_goes_on_when_an_empty_segment_goes),
        LAW(the_largest_body_fills_a_segment),
        DISK(the_laws_hold_on_a_real_disk),
        DISK(appending_and_tending_go_on_side_by_side),
        DISK(what_a_sync_costs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
