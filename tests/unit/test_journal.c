/* test_journal.c -- the journal's laws, each broken on purpose.
 *
 * Laws are those of journal.h. ARCHITECTURE, laws 4 to 6, lean on them. Law 4 is in
 * test_journal_damage.c. Every opening compares with the list, see journal_world.h; `broken` says
 * which promise was not kept. */
#include <errno.h>

#include "support/journal_expect.h"

/* ---- (1) what was acknowledged is replayed, once, in order ---- */

static void synced_blocks_survive_a_power_cut(void **state)
{
    (void)state;
    write_blocks(20);
    append_blocks(3, BIG);
    assert_int_equal(world_sync(&world), ERR_OK);
    world_crash(&world, 1);
    expect_open(0, 23);
    assert_int_equal(world.replayed, 23);
}

static void only_blocks_after_applied_are_replayed(void **state)
{
    (void)state;
    write_blocks(20);
    world_kill(&world);
    expect_open(13, 20);
    assert_int_equal(world.replayed, 7);
    world_kill(&world);
    expect_open(20, 20);
    assert_int_equal(world.replayed, 0);
}

static void a_block_of_many_sequences_is_replayed_when_any_is_after_applied(void **state)
{
    (void)state;
    assert_int_equal(world_append(&world, SMALL, 10), ERR_OK);
    assert_int_equal(world_append(&world, SMALL, 10), ERR_OK);
    assert_int_equal(world_sync(&world), ERR_OK);
    world_kill(&world);
    expect_open(10, 20);
    assert_int_equal(world.replayed, 1);
}

/* After a kill the last blocks are whole, but only in a cache. Recovery has to make them durable
 * before it lets a new segment name them. */
static void what_a_kill_left_in_the_cache_is_durable_after_the_next_opening(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        append_blocks(1, BIG);
        io_sim_fail_sync(world.sim, 1, IO_SIM_CACHED);
        assert_int_equal(world_sync(&world), ERR_STORAGE); /* killed before the sync, that is */
        world_kill(&world);
        expect_open(0, seed);
        world_crash(&world, seed);
        expect_open(0, seed);
    }
}

/* ---- (2) whole or not at all, never after a gap ---- */

static void a_torn_block_is_cut(void **state)
{
    (void)state;
    static const unsigned torn_at[] = {0, 87, 88, 88 + SMALL - 1};
    for (unsigned i = 0; i < ARRAY_COUNT(torn_at); i++) {
        write_blocks(3);
        world.acked--; /* the power went before the sync of the third could answer */
        damage(i, 2, torn_at[i], 0x10);
        world_kill(&world);
        expect_open(0, 2 * (i + 1));
    }
}

static void what_pads_a_block_does_not_count(void **state)
{
    (void)state;
    write_blocks(1);
    damage(0, 0, 88 + SMALL, 0x10);
    world_kill(&world);
    expect_open(0, 1);
}

static void a_torn_block_under_a_later_whole_one_of_the_same_sync_is_cut(void **state)
{
    (void)state;
    write_blocks(1);
    append_blocks(3, SMALL);
    assert_int_equal(world_sync(&world), ERR_OK);
    world.acked = 1; /* the power went before the sync could answer */
    damage(0, 2, 90, 0x01);
    world_kill(&world);
    expect_open(0, 2);
    write_blocks(1);
    world_crash(&world, 7);
    expect_open(0, 3); /* the list has the new block 3; the old whole block 4 does not come back */
}

static void stale_blocks_never_come_back_after_a_cut(void **state)
{
    (void)state;
    write_blocks(1);
    append_blocks(5, SMALL);
    assert_int_equal(world_sync(&world), ERR_OK);
    world.acked = 1;
    damage(0, 1, 90, 0x01); /* block 2 is torn, 3 to 6 are whole */
    world_kill(&world);
    expect_open(0, 1);
    write_blocks(1); /* fewer than were lost */
    world_crash(&world, 3);
    expect_open(0, 2);
    world_crash(&world, 4);
    expect_open(0, 2);
}

/* ---- (3) a failed write or sync is final ---- */

/* What is allowed: a batch that was answered "unknown" may come back when the process ends before
 * journal_restart succeeded, for it may have reached the disk. Once the restart has succeeded it is
 * void for good, on whatever the disk did: its sequences belong to other blocks now. */
static void check_failed_sync(enum io_sim_loss loss)
{
    write_blocks(2);
    append_blocks(2, SMALL);
    io_sim_fail_sync(world.sim, 1, loss);
    assert_int_equal(world_sync(&world), ERR_STORAGE);
    assert_int_equal(journal_durable_sequence(world.journal), 2);
    assert_int_equal(world_append(&world, SMALL, 1), ERR_STORAGE);
    assert_int_equal(journal_sync(world.journal), ERR_STORAGE);

    assert_int_equal(world_restart(&world), ERR_OK);
    world_crash(&world, 11);
    expect_open(0, 2);
    write_blocks(1);
    world_crash(&world, 12);
    expect_open(0, 3);
}

static void a_failed_sync_that_lost_the_data_is_void_after_the_restart(void **state)
{
    (void)state;
    check_failed_sync(IO_SIM_LOST);
}

static void a_failed_sync_that_kept_the_data_is_void_after_the_restart(void **state)
{
    (void)state;
    check_failed_sync(IO_SIM_KEPT);
}

static void a_failed_sync_may_come_back_if_the_restart_never_was(void **state)
{
    (void)state;
    write_blocks(2);
    append_blocks(2, SMALL);
    io_sim_fail_sync(world.sim, 1, IO_SIM_KEPT);
    assert_int_equal(world_sync(&world), ERR_STORAGE);
    world_kill(&world);
    expect_open(0, 4);
}

static void a_failed_segment_is_never_written_or_synced_again(void **state)
{
    (void)state;
    write_blocks(2);
    append_blocks(1, SMALL);
    io_sim_fail_sync(world.sim, 1, IO_SIM_KEPT);
    assert_int_equal(world_sync(&world), ERR_STORAGE);
    uint64_t calls = io_sim_calls(world.sim);
    assert_int_equal(journal_sync(world.journal), ERR_STORAGE);
    assert_int_equal(world_append(&world, SMALL, 1), ERR_STORAGE);
    assert_int_equal(io_sim_calls(world.sim), calls);
    struct journal_stats stats;
    journal_stats(world.journal, &stats);
    assert_int_equal(stats.last_error, EIO);
}

/* The switch syncs the old segment, then fails to make a new one: what was synced stays and has to
 * be answered as durable. */
static void a_failed_switch_keeps_what_it_synced(void **state)
{
    (void)state;
    append_blocks(7, SMALL);
    io_sim_room(world.sim, io_sim_bytes(world.sim));
    assert_int_equal(world_append(&world, SMALL, 1), ERR_STORAGE);
    assert_int_equal(world.acked, 7);
    io_sim_heal(world.sim);
    assert_int_equal(world_restart(&world), ERR_OK);
    write_blocks(1);
    world_crash(&world, 5);
    expect_open(0, 8);
}

static void a_full_disk_stops_the_journal_until_there_is_room(void **state)
{
    (void)state;
    uint64_t room = io_sim_bytes(world.sim) + world.config.segment_size;
    io_sim_room(world.sim, room);
    enum err e = ERR_OK;
    while ((e = world_write(&world, SMALL)) == ERR_OK)
        must(world.count < 100);
    assert_int_equal(e, ERR_STORAGE);
    assert_int_equal(world.acked, 14); /* two segments of seven */
    for (int i = 0; i < 5; i++)
        assert_int_equal(world_restart(&world), ERR_STORAGE);
    assert_int_equal(io_sim_bytes(world.sim), room); /* attempts leave nothing lying about */
    assert_null(io_sim_name(world.sim, "spare-", 0));

    journal_trim(world.journal, 14); /* keep_bytes is 0: the first segment goes */
    assert_int_equal(world_restart(&world), ERR_OK);
    write_blocks(3);
    world_crash(&world, 9);
    expect_open(14, 17);
}

/* Every call fails once in turn, doing nothing or everything, and then the power goes. */
static void no_single_failing_call_loses_what_was_acknowledged(void **state)
{
    (void)state;
    for (uint64_t nth = 0; nth == 0 || nth / IO_SIM_LOSSES < io_sim_calls(world.sim); nth++) {
        world_release(&world);
        world_init(&world, 8, 1);
        io_sim_fail(world.sim, nth / IO_SIM_LOSSES + 1, EIO,
                    (enum io_sim_loss)(nth % IO_SIM_LOSSES));
        if (world_open(&world, 0) == ERR_STORAGE) expect_reopen(0);
        for (unsigned i = 0; i < 20; i++) {
            journal_prepare(world.journal);
            if (world_write(&world, SMALL) != ERR_OK)
                assert_int_equal(world_restart(&world), ERR_OK);
            if (i == 15) journal_trim(world.journal, 3);
        }
        world_crash(&world, nth);
        expect_reopen(3);
    }
}

static void switch_and_crash(uint64_t nth, enum io_sim_loss loss, uint64_t seed)
{
    world_release(&world);
    world_init(&world, 8, (unsigned)(seed % 2));
    expect_reopen(0);
    journal_prepare(world.journal);
    append_blocks(7, SMALL);
    io_sim_fail(world.sim, nth, EIO, loss);
    if (world_append(&world, SMALL, 1) == ERR_OK) (void)world_sync(&world);
    world_crash(&world, seed);
    expect_reopen(0);
    write_blocks(9);
    world_crash(&world, seed + 100);
    expect_reopen(0);
}

static void a_power_cut_anywhere_in_a_switch_leaves_one_chain(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth <= 12; nth++)
        for (uint64_t seed = 0; seed < 60; seed++)
            switch_and_crash(nth, (enum io_sim_loss)(seed % IO_SIM_LOSSES), seed);
}

/* A restart that got as far as the name leaves an empty segment; the next one has the same
 * predecessor. */
static void a_restart_that_failed_half_way_does_not_confuse_the_next_opening(void **state)
{
    (void)state;
    write_blocks(2);
    append_blocks(2, SMALL);
    io_sim_fail_sync(world.sim, 1, IO_SIM_KEPT);
    assert_int_equal(world_sync(&world), ERR_STORAGE);
    for (uint64_t nth = 2; nth <= 6; nth++) {
        io_sim_fail(world.sim, nth, EIO, IO_SIM_KEPT);
        (void)world_restart(&world);
    }
    io_sim_heal(world.sim);
    assert_int_equal(world_restart(&world), ERR_OK);
    write_blocks(1);
    world_crash(&world, 21);
    expect_open(0, 3);
}

static void a_file_that_took_no_header_is_not_kept(void **state)
{
    (void)state;
    write_blocks(1);
    io_sim_fail_sync(world.sim, 1, IO_SIM_KEPT);
    assert_int_equal(world_restart(&world), ERR_STORAGE);
    assert_null(io_sim_name(world.sim, "spare-", 0));
    assert_null(io_sim_name(world.sim, "journal-", 1));
}

/* ---- (5) recycled files ---- */

/* The old blocks stay in the file, whole, right behind the new ones. */
static void a_recycled_segment_never_shows_its_old_blocks(void **state)
{
    (void)state;
    world_release(&world);
    world_init(&world, 8, 1);
    expect_reopen(0);
    write_blocks(8);
    journal_trim(world.journal, 8);
    assert_non_null(io_sim_name(world.sim, "spare-", 0)); /* the first segment, as it was */
    write_blocks(1); /* goes there: it is better than one made in need */
    assert_null(io_sim_name(world.sim, "spare-", 0));
    uint64_t size;
    const unsigned char *content =
        io_sim_content(world.sim, io_sim_name(world.sim, "journal-", 1), &size);
    struct journal_block old;
    struct bytes second = bytes_of(content + 2 * WORLD_PAGE, WORLD_PAGE);
    assert_int_equal(journal_block_decode(second, &old), ERR_OK);
    assert_int_equal(old.first_sequence, 2);
    world_crash(&world, 1);
    expect_open(8, 9);
}

/* The worst case: the file was given up with void blocks that carry just the sequences that come
 * next when it is used again. */
static void void_blocks_in_a_recycled_segment_do_not_continue_the_new_chain(void **state)
{
    (void)state;
    world_release(&world);
    world_init(&world, 8, 1);
    expect_reopen(0);
    while (journal_prepare(world.journal))
        ;
    append_blocks(5, SMALL); /* into the zero-written one: only such a file is used again */
    io_sim_fail_sync(world.sim, 1, IO_SIM_KEPT);
    assert_int_equal(world_sync(&world), ERR_STORAGE);
    assert_int_equal(world_restart(&world), ERR_OK);
    journal_trim(world.journal, 0); /* no live block in it: it becomes a spare */
    assert_non_null(io_sim_name(world.sim, "spare-", 0));
    assert_int_equal(world_restart(&world), ERR_OK); /* and is the current one again */
    write_blocks(2);                                 /* void 3, 4 and 5 lie behind */
    world_crash(&world, 2);
    expect_open(0, 2);
}

/* A rename that was done but reported as failed, a kill, and the next process finds a spare whose
 * name no crash has to respect. Seed 11873 of test_journal_crash.c found it. */
static void a_spare_by_a_name_that_is_not_safe_does_not_become_two_segments(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        world_release(&world);
        world_init(&world, 8, 1);
        expect_reopen(0);
        write_blocks(8);
        io_sim_fail(world.sim, 1, EIO, IO_SIM_KEPT);
        journal_trim(world.journal, 8);
        world_kill(&world);
        io_sim_fail(world.sim, 1 + seed % 8, EIO, IO_SIM_LOST);
        (void)world_open(&world, 8);
        world_crash(&world, seed);
        expect_open(8, 8);
    }
}

/* ---- places ---- */

/* What lies before the place is not even read. */
static void a_scan_begins_at_the_place_noted_before_its_block(void **state)
{
    write_blocks(7);
    damage(0, 1, 60, 0xff);
    assert_int_equal(world_scan(&world, 1), ERR_CORRUPT);
    assert_int_equal(world_scan(&world, 5), ERR_OK);
    assert_null(world.broken);
}

static void expect_scans(void)
{
    for (uint64_t from = 1; from <= world.acked; from++) {
        assert_int_equal(world_scan(&world, from), ERR_OK);
        if (world.broken) fail_msg("from %llu: %s", (unsigned long long)from, world.broken);
    }
}

static void scans_from_anywhere_read_the_same(void **state)
{
    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(world_append(&world, i % 5 ? SMALL : BIG, 1 + i % 3), ERR_OK);
        if (i % 2) assert_int_equal(world_sync(&world), ERR_OK);
    }
    assert_int_equal(world_sync(&world), ERR_OK);
    expect_scans();
    world_kill(&world);
    expect_reopen(0);
    expect_scans(); /* by the places that recovery noted */
}

/* Places of blocks that became void must lead nobody there. */
static void a_place_of_a_void_block_is_not_used(void **state)
{
    static const enum io_sim_loss ways[] = {IO_SIM_LOST, IO_SIM_KEPT};
    for (unsigned i = 0; i < 6; i++) {
        write_blocks(2);
        append_blocks(2, SMALL);
        io_sim_fail_sync(world.sim, 1, ways[i % 2]);
        assert_int_equal(world_sync(&world), ERR_STORAGE);
        assert_int_equal(world_restart(&world), ERR_OK);
        expect_scans();
        write_blocks(3);
        expect_scans();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(synced_blocks_survive_a_power_cut),
        LAW(only_blocks_after_applied_are_replayed),
        LAW(a_block_of_many_sequences_is_replayed_when_any_is_after_applied),
        LAW(what_a_kill_left_in_the_cache_is_durable_after_the_next_opening),
        LAW(a_torn_block_is_cut),
        LAW(what_pads_a_block_does_not_count),
        LAW(a_torn_block_under_a_later_whole_one_of_the_same_sync_is_cut),
        LAW(stale_blocks_never_come_back_after_a_cut),
        LAW(a_failed_sync_that_lost_the_data_is_void_after_the_restart),
        LAW(a_failed_sync_that_kept_the_data_is_void_after_the_restart),
        LAW(a_failed_sync_may_come_back_if_the_restart_never_was),
        LAW(a_failed_segment_is_never_written_or_synced_again),
        LAW(a_failed_switch_keeps_what_it_synced),
        LAW(a_full_disk_stops_the_journal_until_there_is_room),
        LAW(no_single_failing_call_loses_what_was_acknowledged),
        LAW(a_power_cut_anywhere_in_a_switch_leaves_one_chain),
        LAW(a_restart_that_failed_half_way_does_not_confuse_the_next_opening),
        LAW(a_file_that_took_no_header_is_not_kept),
        LAW(a_recycled_segment_never_shows_its_old_blocks),
        LAW(void_blocks_in_a_recycled_segment_do_not_continue_the_new_chain),
        LAW(a_scan_begins_at_the_place_noted_before_its_block),
        LAW(scans_from_anywhere_read_the_same),
        LAW(a_place_of_a_void_block_is_not_used),
        LAW(a_spare_by_a_name_that_is_not_safe_does_not_become_two_segments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
