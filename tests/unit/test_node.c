/* test_node.c -- what a data directory's server is, and how a snapshot takes its store's place. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "replica/node.h"
#include "support/scratch_dir.h"

static struct scratch_dir dir;
static struct reason why;

static int setup(void **state)
{
    scratch_dir_init(&dir);
    return 0;
}

static int teardown(void **state)
{
    scratch_dir_release(&dir);
    return 0;
}

static void put(const char *name, const char *text)
{
    char path[TREE_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir.path, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make(const char *name)
{
    char path[TREE_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir.path, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static bool has(const char *name)
{
    char path[TREE_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", dir.path, name);
    return access(path, F_OK) == 0;
}

static void a_directory_that_says_nothing_is_a_primarys(void **state)
{
    struct membership node;
    assert_int_equal(node_read(&node, dir.path, &why), ERR_OK);
    assert_false(node.follows || node.followed);
    assert_false(node_has_store(dir.path));
    assert_int_equal(node_read(&node, "/nowhere/at/all", &why), ERR_OK);
}

static void what_was_written_is_read(void **state)
{
    struct membership node = {.follows = true, .primary = "http://10.0.0.1:8787"};
    struct membership back;
    assert_int_equal(node_write(&node, dir.path, &why), ERR_OK);
    assert_int_equal(node_read(&back, dir.path, &why), ERR_OK);
    assert_true(back.follows);
    assert_string_equal(back.primary, "http://10.0.0.1:8787");
    node = (struct membership){.followed = true};
    assert_int_equal(node_write(&node, dir.path, &why), ERR_OK);
    assert_int_equal(node_read(&back, dir.path, &why), ERR_OK);
    assert_false(back.follows);
    assert_true(back.followed);
}

/* A follower that took itself for a primary would decide. */
static void a_file_that_does_not_check_is_refused(void **state)
{
    struct membership node = {.follows = true, .primary = "http://10.0.0.1:8787"};
    char path[TREE_PATH_MAX];
    char text[4096];
    assert_int_equal(node_write(&node, dir.path, &why), ERR_OK);
    snprintf(path, sizeof path, "%s/NODE", dir.path);
    FILE *file = fopen(path, "r");
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    for (size_t at = 0; at + 1 < size; at++) {
        text[at] ^= 1;
        text[size] = '\0';
        file = fopen(path, "w");
        fwrite(text, 1, size, file);
        fclose(file);
        assert_int_equal(node_read(&node, dir.path, &why), ERR_CORRUPT);
        assert_non_null(strstr(why.text, "NODE is damaged"));
        text[at] ^= 1;
    }
    put("NODE", "");
    assert_int_equal(node_read(&node, dir.path, &why), ERR_CORRUPT);
}

static void old_store(void)
{
    make("state");
    put("state/old", "1");
    make("journal");
    put("journal/old", "1");
    put("IDENTITY", "old");
    put("LOCK", "");
}

static void half_a_snapshot_is_rubbish(void **state)
{
    old_store();
    make("incoming");
    put("incoming/IDENTITY", "new");
    assert_int_equal(node_settle(dir.path, &why), ERR_OK);
    assert_false(has("incoming"));
    assert_true(has("state/old"));
}

static void a_whole_one_takes_the_stores_place(void **state)
{
    old_store();
    make("arrived");
    make("arrived/state");
    put("arrived/state/new", "2");
    make("arrived/journal");
    make("arrived/ids");
    make("arrived/archive");
    put("arrived/IDENTITY", "new");
    assert_true(node_has_store(dir.path));
    assert_int_equal(node_settle(dir.path, &why), ERR_OK);
    assert_true(has("state/new") && has("ids") && has("archive") && has("LOCK"));
    assert_false(has("state/old") || has("journal/old") || has("arrived"));
}

/* Cut short after some parts had been moved: they are not touched again. */
static void what_was_cut_short_is_made_good(void **state)
{
    make("state");
    put("state/new", "2");
    make("ids");
    put("ids/new", "2");
    make("journal");
    put("journal/old", "1");
    put("IDENTITY", "old");
    make("arrived");
    make("arrived/journal");
    put("arrived/journal/new", "2");
    put("arrived/IDENTITY", "new");
    assert_int_equal(node_settle(dir.path, &why), ERR_OK);
    assert_true(has("state/new") && has("ids/new") && has("journal/new"));
    assert_false(has("journal/old") || has("arrived"));
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(a_directory_that_says_nothing_is_a_primarys), ROW(what_was_written_is_read),
        ROW(a_file_that_does_not_check_is_refused),       ROW(half_a_snapshot_is_rubbish),
        ROW(a_whole_one_takes_the_stores_place),          ROW(what_was_cut_short_is_made_good),
    };
    return cmocka_run_group_tests_name("node", tests, NULL, NULL);
}
