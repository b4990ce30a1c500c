/* test_backup.c -- what is believed of the directory of backups is durable before it is acted on.
 *
 * A process may be killed between a rename and the sync of the directory; the next one sees the new
 * name, and a power cut can still take it back. fsync is this file's, to see what is synced when.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "store/embedded/backup/backup.h"
#include "support/scratch_dir.h"

static struct scratch_dir dir;
static unsigned syncs; /* of `dir` itself */
static bool failing;

int fsync(int fd)
{
    char link[64], path[512] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) > 0 && strcmp(path, dir.path) == 0) {
        syncs++;
        errno = EIO;
        if (failing) return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

static int setup(void **state)
{
    (void)state;
    scratch_dir_init(&dir);
    syncs = 0;
    failing = false;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_dir_release(&dir);
    return 0;
}

static void make_backup(const char *name)
{
    struct manifest manifest;
    char path[512];
    manifest_init(&manifest, 1);
    manifest.lanes[0].sequence = 7;
    manifest.taken_ms = 1700000000000;
    snprintf(path, sizeof path, "%s", scratch_dir_file(&dir, name));
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(manifest_write(path, &manifest), ERR_OK);
    manifest_release(&manifest);
}

static bool is_there(const char *name)
{
    return access(scratch_dir_file(&dir, name), F_OK) == 0;
}

static void a_backup_that_is_found_has_a_durable_name(void **state)
{
    (void)state;
    struct manifest manifest;
    make_backup("b1");
    assert_int_equal(backup_find(dir.path, "b1", &manifest), ERR_OK);
    assert_int_equal(manifest_changes(&manifest), 7);
    manifest_release(&manifest);
    assert_int_equal(syncs, 1);
    failing = true;
    assert_int_equal(backup_find(dir.path, "b1", &manifest), ERR_STORAGE);
    assert_int_equal(backup_find(dir.path, "b2", &manifest), ERR_NOT_FOUND);
}

static void what_a_crash_left_is_removed_only_once_its_name_is_durable(void **state)
{
    (void)state;
    make_backup(".removing-b1");
    failing = true;
    backup_tidy(dir.path);
    assert_true(is_there(".removing-b1/MANIFEST"));
    failing = false;
    backup_tidy(dir.path);
    assert_false(is_there(".removing-b1"));
    assert_int_equal(syncs, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_backup_that_is_found_has_a_durable_name),
        TEST(what_a_crash_left_is_removed_only_once_its_name_is_durable),
    };
    return cmocka_run_group_tests_name("backup", tests, NULL, NULL);
}
