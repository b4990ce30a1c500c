/* test_archive_laws.c -- the laws of the archive's list (archive/internal.h), broken on purpose. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/archive_world.h"
#include "support/panic.h"
#include "store/embedded/archive/internal.h"

static struct archive_world world;

static int setup(void **state)
{
    world_init(&world, 3);
    assert_int_equal(world_open(&world), ERR_OK);
    world_add(&world, 1, 50);
    assert_int_equal(archive_seal(world.archive, 50), ERR_OK);
    world_add(&world, 51, 90);
    assert_int_equal(archive_seal(world.archive, 90), ERR_OK);
    return 0;
}

static int teardown(void **state)
{
    world_release(&world);
    return 0;
}

static void seal_more(void)
{
    (void)!archive_seal(world.archive, 100);
}

static void leave_a_gap_between_files(void)
{
    world.archive->files[0]->summary.last = 40;
    seal_more();
}

static void hold_no_reference(void)
{
    world.archive->files[1]->references = 0;
    seal_more();
}

static void drop_from_the_middle(void)
{
    world.archive->files[1]->dropped = true;
    seal_more();
}

static void keep_a_file_open_without_its_index(void)
{
    world.archive->files[0]->fd = 3;
    seal_more();
}

static void files_follow_one_another_and_are_held_by_the_list(void **state)
{
    expect_panic(leave_a_gap_between_files, "archive->files[index - 1]->summary.last + 1");
    expect_panic(hold_no_reference, "file->references > 0");
    expect_panic(drop_from_the_middle, "index == 0 || !file->dropped");
    expect_panic(keep_a_file_open_without_its_index,
                 "(file->fd >= 0) == (file->index.frames != NULL)");
}

static void add_what_is_in_a_file_already(void)
{
    world_add(&world, 90, 91);
}

static void begin_the_run_before_the_last_file_ends(void)
{
    world.archive->added_last = 80;
    seal_more();
}

static void a_run_comes_behind_the_last_file(void **state)
{
    expect_panic(add_what_is_in_a_file_already, "event->sequence > archive->added_last");
    if (!SLOW_CHECKS) return;
    expect_panic(begin_the_run_before_the_last_file_ends, "archive->added_last >= last");
}

#define LAW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(files_follow_one_another_and_are_held_by_the_list),
        LAW(a_run_comes_behind_the_last_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
