/* test_embedded_disk.c -- the embedded store when its disk fails: a journal that cannot be written,
 * a state that cannot be flushed, and the room kept back for the day the disk is full.
 *
 * The journal's disk is simulated. RocksDB's is made to fail by the kernel: a limit on the size of
 * files, past which every write answers EFBIG. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "store/embedded/internal.h"
#include "support/heart.h"

static struct heart *heart;

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static int setup(void **state)
{
    heart = heart_new(
        (struct heart_config){.store = "embedded", .simulated_disk = true, .segment_bytes = 32768});
    return 0;
}

static int teardown(void **state)
{
    limit_file_size(RLIM_INFINITY);
    io_sim_heal(heart->sim);
    heart_free(heart);
    return 0;
}

static struct op increment(const char *name, int64_t amount)
{
    return ask(&heart->asks, OP_INCREMENT, name, amount);
}

static struct op keyed(const char *name, const char *key)
{
    return ask_keyed(&heart->asks, increment(name, 1), key, 1);
}

static void do_ok(struct op op)
{
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
}

static void expect_whole(void)
{
    const char *broken = heart_broken(heart);
    if (broken) fail_msg("%s", broken);
}

static struct store_stats stats(void)
{
    struct store_stats stats;
    store_stats(heart->store, &stats);
    return stats;
}

/* ---- the journal's disk ---- */

static const struct io_ops *quick_ops;
static int64_t sync_takes_ms;

/* As if every sync took so long. */
static int slow_sync(struct io *io, int fd)
{
    heart_wait_ms(heart, sync_takes_ms);
    return quick_ops->sync(io, fd);
}

/* What is logged while one increment is made durable; valid until the next call. */
static const char *said_of_a_sync_of(int64_t ms)
{
    static char said[4096];
    int ends[2];
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    log_set_fd(ends[1]);
    sync_takes_ms = ms;
    do_ok(increment("n", 1));
    sync_takes_ms = 0;
    log_set_fd(STDERR_FILENO);
    ssize_t size = read(ends[0], said, sizeof said - 1);
    said[size > 0 ? size : 0] = '\0';
    close(ends[0]);
    close(ends[1]);
    return said;
}

static void a_commit_that_waited_says_for_what(void **state)
{
    (void)state;
    struct io_ops ops = *heart->disk.io.ops;
    quick_ops = heart->disk.io.ops;
    ops.sync = slow_sync;
    heart->disk.io.ops = &ops;
    assert_string_equal(said_of_a_sync_of(99), "");
    embedded_beside(embedded_of(heart->store), "flush");
    const char *said = said_of_a_sync_of(300);
    assert_non_null(strstr(said, "a commit waited"));
    assert_non_null(strstr(said, "\"appendMs\":0,\"syncMs\":300,\"followersMs\":0,\"showMs\":0"));
    assert_non_null(strstr(said, "\"besideFirst\":\"flush\",\"besideLast\":\"flush\""));
    assert_string_equal(said_of_a_sync_of(300), ""); /* once a second is enough */
    heart_wait_ms(heart, 1000);
    heart_tend(heart);
    assert_non_null(strstr(said_of_a_sync_of(300), "\"besideFirst\":\"nothing\""));
    heart->disk.io.ops = quick_ops;
}

static void a_full_disk_refuses_writes_and_goes_on_reading(void **state)
{
    do_ok(increment("n", 1));
    io_sim_room(heart->sim, io_sim_bytes(heart->sim)); /* no new segment any more */
    enum err e = ERR_OK;
    int64_t acked = 1;
    for (unsigned i = 0; i < 20 && e == ERR_OK; i++) {
        e = heart_do(heart, increment("n", 1)).err;
        acked += e == ERR_OK;
    }
    assert_int_equal(e, ERR_STORAGE);
    for (unsigned i = 0; i < 3; i++) {
        heart_tend(heart);
        assert_int_equal(heart_do(heart, increment("n", 1)).err, ERR_STORAGE);
        assert_int_equal(heart_net(heart, "n"), acked);
        assert_false(stats().writable);
    }
    io_sim_heal(heart->sim);
    heart_tend(heart);
    assert_true(stats().writable);
    assert_int_equal(heart_do(heart, increment("n", 1)).after.net, acked + 1);
    heart_crash(heart, 1);
    assert_int_equal(heart_net(heart, "n"), acked + 1);
    expect_whole();
}

/* Going on to a new segment syncs the old one: what was in it is safe, though the sync failed. */
static void batches_that_a_new_segment_made_safe_are_answered_as_durable(void **state)
{
    do_ok(increment("n", 1));
    struct sent *sents[7];
    for (unsigned i = 0; i < 7; i++) { /* a segment has a header and seven blocks of one page */
        struct op op = increment("n", 1);
        sents[i] = heart_send(heart, (struct bundle){0}, &op, 1);
        assert_true(commit_turn(heart->commit));
    }
    io_sim_fail_sync(heart->sim, 3, IO_SIM_LOST); /* of the old one, of the new one's header, */
    assert_true(commit_sync_now(heart->commit));  /* and of its first block */
    int64_t acked = 1;
    for (unsigned i = 0; i < 7; i++) {
        assert_int_equal(sents[i]->answered, 1);
        acked += sents[i]->bundle.err == ERR_OK;
        if (i) assert_true(sents[i]->bundle.err != ERR_OK || sents[i - 1]->bundle.err == ERR_OK);
    }
    assert_int_equal(heart_net(heart, "n"), acked);
    heart_tend(heart);
    assert_int_equal(heart_do(heart, increment("n", 1)).sequence, (uint64_t)acked + 1);
    heart_crash(heart, 1);
    assert_int_equal(heart_net(heart, "n"), acked + 1);
}

static void a_failed_append_is_as_good_as_a_failed_sync(void **state)
{
    do_ok(increment("n", 1));
    io_sim_fail(heart->sim, 1, EIO, IO_SIM_LOST);
    assert_int_equal(heart_do(heart, increment("n", 1)).err, ERR_STORAGE);
    assert_int_equal(heart_do(heart, increment("n", 1)).err, ERR_STORAGE);
    heart_tend(heart);
    assert_int_equal(heart_do(heart, increment("n", 1)).after.net, 2);
    assert_true(stats().storage_errors > 0);
}

/* ---- ids and rows that cannot be read ---- */

static void expect_one_more_error(uint64_t before)
{
    assert_int_equal(stats().storage_errors, before + 1);
}

static struct op sale(const char *id)
{
    return ask_event(&heart->asks, id, "sale", "", NULL);
}

/* Turns a bit of the first file of ids, or turns it back. */
static void turn_a_bit_of_the_ids(void)
{
    const off_t place = 4096 + 200;
    char byte;
    int fd = open(scratch_dir_file(&heart->dir, "ids/ids-0000000001-0000000001"), O_RDWR);
    assert_true(fd >= 0 && pread(fd, &byte, 1, place) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, place), 1);
    close(fd);
}

static void an_id_that_cannot_be_read_refuses_its_event_and_is_counted(void **state)
{
    do_ok(sale("e1"));
    assert_true(heart_checkpoint(heart));
    turn_a_bit_of_the_ids();
    uint64_t before = stats().storage_errors;
    assert_int_equal(heart_do(heart, sale("e1")).err, ERR_STORAGE);
    expect_one_more_error(before);
    do_ok(sale("e2"));
    turn_a_bit_of_the_ids();
    assert_int_equal(heart_do(heart, sale("e1")).event->result, EVENT_DUPLICATE);
    expect_one_more_error(before);
}

static void a_row_that_does_not_decode_is_an_error_for_each_that_reads_it(void **state)
{
    do_ok(increment("n", 1));
    assert_true(heart_checkpoint(heart));
    struct embedded *embedded = embedded_of(heart->inner);
    struct state_batch *batch = state_batch_new(embedded->state);
    struct cell_ref ref = heart_ref(heart, "n", 0);
    state_batch_put(batch, STATE_COUNTERS, ref.counter, BYTES("\xff no counter"));
    assert_int_equal(state_write(embedded->state, batch), ERR_OK);
    assert_int_equal(state_flush(embedded->state), ERR_OK);
    state_batch_free(batch);
    heart_reopen(heart);
    uint64_t before = stats().storage_errors;
    struct cell cell;
    assert_int_equal(heart_get(heart, "n", 0, 0, &cell), ERR_CORRUPT);
    expect_one_more_error(before);
    assert_int_equal(heart_do(heart, increment("n", 1)).err, ERR_STORAGE);
    expect_one_more_error(before + 1);
}

/* ---- the state's disk ---- */

static void make_changes(void)
{
    do_ok(keyed("n", "k1"));
    do_ok(increment("gone", 1));
    struct op minute = increment("n", 7);
    minute.duration = 60;
    minute.expires_ms = 500;
    do_ok(minute);
}

static void expect_changes(void)
{
    struct cell cell;
    assert_int_equal(heart_net(heart, "n"), 1);
    assert_int_equal(heart_net(heart, "gone"), -1);
    assert_int_equal(heart_get(heart, "n", 60, 0, &cell), ERR_OK);
    assert_int_equal(cell.added, 7);
    expect_whole();
}

/* What was given to the state and not flushed is dirty again: reopening the state loses nothing. */
static void a_failed_flush_leaves_everything_to_be_written_again(void **state)
{
    make_changes();
    assert_true(heart_checkpoint(heart));
    uint64_t applied = stats().applied_sequence;
    do_ok(ask(&heart->asks, OP_DELETE, "gone", 0));
    do_ok(keyed("m", "k2"));
    size_t dirty = stats().dirty_cells;
    limit_file_size(64);
    assert_false(heart_checkpoint(heart));
    assert_true(stats().storage_errors > 0);
    assert_int_equal(stats().applied_sequence, applied);
    assert_int_equal(stats().dirty_cells, dirty);
    assert_true(stats().writable); /* the journal is well */
    do_ok(keyed("m", "k3"));
    assert_int_equal(heart_net(heart, "m"), 2);

    limit_file_size(RLIM_INFINITY);
    assert_true(heart_checkpoint(heart));
    assert_int_equal(stats().dirty_cells, 0);
    expect_changes();
    heart_crash(heart, 1);
    expect_changes();
    assert_int_equal(heart_net(heart, "m"), 2);
    assert_true(heart_do(heart, keyed("n", "k1")).replayed);
    assert_true(heart_do(heart, keyed("m", "k2")).replayed);
    assert_true(heart_do(heart, keyed("m", "k3")).replayed);
}

static void killed_after_a_failed_flush_the_journal_has_everything(void **state)
{
    make_changes();
    do_ok(ask(&heart->asks, OP_DELETE, "gone", 0));
    limit_file_size(64);
    assert_false(heart_checkpoint(heart));
    limit_file_size(RLIM_INFINITY);
    heart_crash(heart, 1);
    expect_changes();
    assert_true(heart_do(heart, keyed("n", "k1")).replayed);
}

static void closed_after_a_failed_flush_the_journal_has_everything(void **state)
{
    make_changes();
    do_ok(ask(&heart->asks, OP_DELETE, "gone", 0));
    limit_file_size(64);
    assert_false(heart_checkpoint(heart));
    limit_file_size(RLIM_INFINITY);
    heart_reopen(heart);
    expect_changes();
}

static bool never_due(void *context, struct bytes counter, int32_t duration, int64_t bucket)
{
    (void)context, (void)counter, (void)duration, (void)bucket;
    fail();
    return false;
}

static void while_the_state_cannot_be_written_nothing_is_due(void **state)
{
    make_changes();
    limit_file_size(64);
    assert_false(heart_checkpoint(heart));
    struct store *store = heart->store;
    assert_int_equal(store_due(store, 1000, never_due, NULL), ERR_STORAGE);
    limit_file_size(RLIM_INFINITY);
    assert_true(heart_checkpoint(heart));
}

/* ---- room kept back ---- */

static void the_reserve_is_taken_given_up_and_taken_again(void **state)
{
    struct reserve reserve;
    reserve_init(&reserve, heart->dir.path, 1);
    unlink(reserve.path);
    reserve_init(&reserve, heart->dir.path, 1);
    assert_false(reserve.held);
    reserve_restore(&reserve);
    assert_true(reserve.held);
    struct stat file;
    assert_int_equal(stat(reserve.path, &file), 0);
    assert_true(file.st_blocks * 512ll >= 1 << 20); /* real blocks, not a hole */

    struct reserve again;
    reserve_init(&again, heart->dir.path, 1);
    assert_true(again.held); /* a restart finds it */
    assert_true(reserve_make_room(&again, 1));
    assert_true(again.held);                             /* there was room without it */
    assert_false(reserve_make_room(&again, UINT64_MAX)); /* not even with it */
    assert_false(again.held);
    assert_int_equal(access(again.path, F_OK), -1);
    limit_file_size(64);
    reserve_restore(&again); /* it does not fit */
    assert_false(again.held);
    assert_int_equal(access(again.path, F_OK), -1);
    limit_file_size(RLIM_INFINITY);
    reserve_restore(&again);
    assert_true(again.held);
}

static void the_store_takes_its_reserve_when_it_tends(void **state)
{
    assert_int_equal(access(scratch_dir_file(&heart->dir, "RESERVE"), F_OK), -1);
    do_ok(increment("n", 1));
    heart_tend(heart);
    assert_int_equal(access(scratch_dir_file(&heart->dir, "RESERVE"), F_OK), 0);
}

#define DISK(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    signal(SIGXFSZ, SIG_IGN); /* an error will do */
    const struct CMUnitTest tests[] = {
        DISK(a_commit_that_waited_says_for_what),
        DISK(a_full_disk_refuses_writes_and_goes_on_reading),
        DISK(batches_that_a_new_segment_made_safe_are_answered_as_durable),
        DISK(a_failed_append_is_as_good_as_a_failed_sync),
        DISK(an_id_that_cannot_be_read_refuses_its_event_and_is_counted),
        DISK(a_row_that_does_not_decode_is_an_error_for_each_that_reads_it),
        DISK(a_failed_flush_leaves_everything_to_be_written_again),
        DISK(killed_after_a_failed_flush_the_journal_has_everything),
        DISK(closed_after_a_failed_flush_the_journal_has_everything),
        DISK(while_the_state_cannot_be_written_nothing_is_due),
        DISK(the_reserve_is_taken_given_up_and_taken_again),
        DISK(the_store_takes_its_reserve_when_it_tends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
