/* test_io.c -- a file that is removed goes for good, wherever a crash comes, and gives its room back
 * without touching what is still linked elsewhere. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "store/embedded/io.h"
#include "support/io_sim.h"
#include "support/scratch_dir.h"

#define LARGE ((int64_t)40 << 20) /* several steps, and part of one */

static struct scratch_dir dir;

static int set_up(void **state)
{
    (void)state;
    scratch_dir_init(&dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scratch_dir_release(&dir);
    return 0;
}

static int large_file(void)
{
    int fd = open(scratch_dir_file(&dir, "large"), O_RDWR | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, LARGE), 0);
    assert_int_equal(pwrite(fd, "kept", 4, 0), 4);
    return fd;
}

static int64_t size_of(int fd)
{
    return io_system.ops->size(&io_system, fd);
}

/* A descriptor shows what the steps left: unlinking alone would leave the file as large as it was.
 */
static void a_removed_file_has_given_its_room_back(void **state)
{
    (void)state;
    int fd = large_file();
    const char *path = scratch_dir_file(&dir, "large");
    assert_int_equal(io_remove(&io_system, dir.path, path), 0);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(size_of(fd), 0);
    close(fd);
}

/* Snapshots link the files of ids: a merge that removes them must not empty the snapshot's. */
static void a_file_that_is_linked_elsewhere_is_left_whole(void **state)
{
    (void)state;
    char from[512];
    char text[4];
    int fd = large_file();
    snprintf(from, sizeof from, "%s", scratch_dir_file(&dir, "large"));
    assert_int_equal(link(from, scratch_dir_file(&dir, "snapshot")), 0);
    assert_int_equal(io_remove(&io_system, dir.path, from), 0);
    assert_int_equal(access(from, F_OK), -1);
    assert_int_equal(size_of(fd), LARGE);
    assert_int_equal(pread(fd, text, 4, 0), 4);
    assert_memory_equal(text, "kept", 4);
    close(fd);
}

static void what_is_not_there_is_said(void **state)
{
    (void)state;
    assert_int_equal(io_remove(&io_system, dir.path, scratch_dir_file(&dir, "none")), -ENOENT);
}

static int shrunk;
static const char *name_at_shrink;
static struct io_sim *sim;

/* What a power cut would leave is asked of a copy of the disk. */
static void shrink_seen(struct io *io, int fd)
{
    (void)io, (void)fd;
    struct io_sim *after = io_sim_copy(sim);
    io_sim_crash(after, 1);
    name_at_shrink = io_sim_name(after, "large", 0) ? "large" : NULL;
    io_sim_free(after);
    shrunk++;
}

static void a_file_is_shrunk_only_once_no_crash_brings_its_name_back(void **state)
{
    (void)state;
    sim = io_sim_new();
    struct io *io = io_sim_io(sim);
    struct io_ops ops = *io->ops;
    const struct io_ops *before = io->ops;
    ops.shrink = shrink_seen;
    io->ops = &ops;
    for (uint64_t nth = 0; nth < 3; nth++) { /* none, the unlink, the sync of the directory fails */
        int fd = io->ops->open(io, "large", true, false);
        io->ops->close(io, fd);
        assert_int_equal(io->ops->sync_dir(io, "."), 0);
        shrunk = 0;
        if (nth) io_sim_fail(sim, nth, EIO, IO_SIM_LOST);
        assert_int_equal(io_remove(io, ".", "large"), nth ? -EIO : 0);
        assert_int_equal(shrunk, nth ? 0 : 1);
        if (!nth) assert_null(name_at_shrink);
        io_sim_heal(sim);
    }
    io->ops = before;
    io_sim_free(sim);
}

#define LAW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(a_removed_file_has_given_its_room_back),
        LAW(a_file_that_is_linked_elsewhere_is_left_whole),
        LAW(what_is_not_there_is_said),
        LAW(a_file_is_shrunk_only_once_no_crash_brings_its_name_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
