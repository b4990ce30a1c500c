/* test_journal_laws.c -- what journal.c says of itself, broken on purpose: the process ends before
 * a byte of it reaches the disk. */
#include "support/journal_expect.h"
#include "support/panic.h"
#include "store/embedded/journal/internal.h"

static void sync_again(void)
{
    (void)!journal_sync(world.journal);
}

static void leave_a_gap(void)
{
    const struct journal_block block = {.first_sequence = journal_last_sequence(world.journal) + 2,
                                        .count = 1,
                                        .time_ms = journal_last_time(world.journal),
                                        .body = BYTES("after the gap")};
    (void)!journal_append(world.journal, &block);
}

static void go_back_in_time(void)
{
    const struct journal_block block = {.first_sequence = journal_last_sequence(world.journal) + 1,
                                        .count = 1,
                                        .time_ms = journal_last_time(world.journal) - 1,
                                        .body = BYTES("earlier")};
    (void)!journal_append(world.journal, &block);
}

/* What the store relies on when it numbers its batches (SPEC 1). */
static void a_block_that_does_not_continue_the_journal_ends_the_process(void **state)
{
    write_blocks(2);
    expect_panic(leave_a_gap, "block->first_sequence == journal->last.sequence + 1");
    expect_panic(go_back_in_time, "block->set_back || block->time_ms >= journal->last.time_ms");
}

static void say_more_is_durable_than_was_appended(void)
{
    world.journal->durable.sequence = world.journal->last.sequence + 1;
    sync_again();
}

static void tell_readers_of_more_than_is_durable(void)
{
    atomic_store(&world.journal->durable_sequence, 9);
    sync_again();
}

static void stage_behind_the_segment(void)
{
    world.journal->offset = world.journal->size;
    world.journal->stage_size = IO_ALIGN;
    sync_again();
}

static void overwrite_the_header(void)
{
    world.journal->offset = 0;
    sync_again();
}

static void keep_what_is_durable_staged(void)
{
    world.journal->stage_size = IO_ALIGN;
    sync_again();
}

static void a_journal_that_contradicts_itself_ends_the_process(void **state)
{
    write_blocks(2);
    expect_panic(say_more_is_durable_than_was_appended,
                 "journal->durable.sequence <= journal->last.sequence");
    expect_panic(tell_readers_of_more_than_is_durable,
                 "journal->durable.sequence == journal_durable_sequence(journal)");
    expect_panic(stage_behind_the_segment,
                 "journal->offset + journal->stage_size <= journal->size");
    expect_panic(overwrite_the_header, "journal->offset >= IO_ALIGN");
    expect_panic(keep_what_is_durable_staged, "journal->stage_size == 0");
}

static void use_a_number_twice(void)
{
    world.journal->number_next--;
    sync_again();
}

static void name_what_is_not_durable(void)
{
    world.journal->segments[0].previous.sequence = 3;
    world.journal->segments[0].places_count = 0;
    sync_again();
}

static void forget_the_current_segment(void)
{
    world.journal->segments_count--;
    sync_again();
}

static void note_a_place_twice(void)
{
    struct segment *segment = &world.journal->segments[0];
    segment->places_count = 2;
    segment->places[1] = segment->places[0];
    sync_again();
}

static void a_list_of_segments_that_is_not_the_disks_ends_a_slow_build(void **state)
{
    if (!SLOW_CHECKS) return;
    write_blocks(2);
    expect_panic(use_a_number_twice, "segments[i].number < journal->number_next");
    expect_panic(name_what_is_not_durable,
                 "segments[i].previous.sequence <= journal->durable.sequence");
    expect_panic(forget_the_current_segment, "count > 0 && !segments[count - 1].doubtful");
    expect_panic(note_a_place_twice, "segment->places[i].offset > before");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(a_block_that_does_not_continue_the_journal_ends_the_process),
        LAW(a_journal_that_contradicts_itself_ends_the_process),
        LAW(a_list_of_segments_that_is_not_the_disks_ends_a_slow_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
