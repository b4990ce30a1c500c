/* test_lanes_dir.c -- a directory of several lanes is made whole or not at all, and is never opened as
 * anything else. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crash.h"
#include "store/embedded/embedded.h"
#include "store/embedded/lanes_dir.h"
#include "support/scratch_dir.h"

static struct scratch_dir dir;
static struct lanes_dir lanes;
static struct reason why;

/* In place of base/crash.c, which reads the environment before main. */
bool crash_armed = true;
static const char *deadly_point;
static unsigned deadly_pass;

void crash_pass(const char *name)
{
    if (deadly_point && strcmp(name, deadly_point) == 0 && --deadly_pass == 0) raise(SIGKILL);
}

static int setup(void **state)
{
    scratch_dir_init(&dir);
    reason_clear(&why);
    return 0;
}

static int teardown(void **state)
{
    scratch_dir_release(&dir);
    return 0;
}

static enum err open_lanes(unsigned count)
{
    const struct identity_wish wish = {.lanes = count};
    return lanes_dir_open(&lanes, dir.path, &wish, &why);
}

static void open_and_close(unsigned count)
{
    if (open_lanes(count) != ERR_OK) fail_msg("%s", why.text);
    lanes_dir_close(&lanes);
}

static void expect_refused(unsigned count, enum err expected, const char *part_of_sentence)
{
    assert_int_equal(open_lanes(count), expected);
    if (!strstr(why.text, part_of_sentence)) fail_msg("said: %s", why.text);
    lanes_dir_close(&lanes);
}

static struct store_identity identity_of(const char *name)
{
    char path[512];
    struct store_identity identity = {.lock_fd = -1};
    snprintf(path, sizeof path, "%s", scratch_dir_file(&dir, name));
    if (identity_read(&identity, path, &why) != ERR_OK) fail_msg("%s", why.text);
    return identity;
}

static bool is_there(const char *name)
{
    return access(scratch_dir_file(&dir, name), F_OK) == 0;
}

static void make_dir(const char *name)
{
    assert_int_equal(mkdir(scratch_dir_file(&dir, name), 0700), 0);
}

static void make_file(const char *name)
{
    int fd = open(scratch_dir_file(&dir, name), O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void move(const char *from, const char *to)
{
    char path[512];
    snprintf(path, sizeof path, "%s", scratch_dir_file(&dir, from));
    assert_int_equal(rename(path, scratch_dir_file(&dir, to)), 0);
}

static void make_one_store(void)
{
    const struct identity_wish whole = {0};
    struct store_identity identity;
    if (identity_open(&identity, dir.path, &whole, &why) != ERR_OK) fail_msg("%s", why.text);
    identity_release(&identity);
}

/* ---- making ---- */

static void each_lane_says_which_of_how_many_it_is_and_all_have_one_secret(void **state)
{
    char name[32];
    open_and_close(12);
    struct store_identity root = identity_of(".");
    assert_int_equal(root.lane, IDENTITY_ROOT);
    assert_int_equal(root.lanes, 12);
    for (unsigned i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "lane-%03u", i);
        struct store_identity lane = identity_of(name);
        assert_int_equal(lane.lanes, 12);
        assert_int_equal(lane.lane, i);
        assert_int_equal(lane.installation, root.installation);
        assert_memory_equal(&lane.secret, &root.secret, sizeof root.secret);
    }
}

static void it_is_found_again_as_it_was_made(void **state)
{
    open_and_close(4);
    struct store_identity made = identity_of(".");
    assert_int_equal(open_lanes(4), ERR_OK);
    assert_int_equal(lanes.identity.installation, made.installation);
    assert_string_equal(lanes_dir_lane(&lanes, 3), scratch_dir_file(&dir, "lane-003"));
    lanes_dir_close(&lanes);
}

static void one_lane_is_the_directory_itself(void **state)
{
    assert_int_equal(open_lanes(1), ERR_OK);
    assert_string_equal(lanes_dir_lane(&lanes, 0), dir.path);
    lanes_dir_close(&lanes);
    assert_false(is_there("IDENTITY")); /* its store makes that */
    make_one_store();
    open_and_close(1);
}

/* Dies at the crash point, in a process of its own. */
static void die_while_making(unsigned count, const char *point, unsigned nth)
{
    pid_t child = fork();
    if (child == 0) {
        deadly_point = point;
        deadly_pass = nth;
        (void)!open_lanes(count);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void what_a_crash_left_while_it_was_made_is_made_anew(void **state)
{
    for (unsigned nth = 1; nth <= 5; nth++) {
        die_while_making(4, nth < 5 ? "lanes.after_lane" : "lanes.before_identity",
                         nth < 5 ? nth : 1);
        assert_false(is_there("IDENTITY"));
        struct store_identity before = identity_of("lane-000");
        open_and_close(4);
        struct store_identity root = identity_of(".");
        assert_true(root.installation != before.installation);
        assert_true(identity_of("lane-000").installation == root.installation);
        teardown(state);
        setup(state);
    }
}

static void what_a_crash_left_can_become_a_store_of_another_number(void **state)
{
    die_while_making(4, "lanes.before_identity", 1);
    open_and_close(2);
    assert_int_equal(identity_of("lane-001").lanes, 2);
    assert_false(is_there("lane-002"));
    teardown(state);
    setup(state);
    die_while_making(4, "lanes.before_identity", 1);
    open_and_close(1);
}

/* A lane may be a disk of its own. */
static void a_lane_that_is_there_and_empty_is_used(void **state)
{
    make_dir("lane-001");
    make_dir("lane-001/lost+found");
    open_and_close(2);
    assert_true(is_there("lane-001/IDENTITY"));
}

static void nothing_is_made_beside_what_may_be_data(void **state)
{
    static const char *const places[] = {"lane-000/journal", "lane-007/state", "journal", "ids"};
    for (unsigned i = 0; i < ARRAY_COUNT(places); i++) {
        char file[64];
        if (i == 0) make_dir("lane-000");
        if (i == 1) make_dir("lane-007");
        make_dir(places[i]);
        snprintf(file, sizeof file, "%s/1", places[i]);
        make_file(file);
        expect_refused(4, ERR_CORRUPT, "IDENTITY is missing");
        expect_refused(1, ERR_CORRUPT, "IDENTITY is missing");
        assert_false(is_there("IDENTITY"));
        teardown(state);
        setup(state);
    }
}

static void it_takes_a_secret_that_is_known(void **state)
{
    struct hash_secret secret = {.bytes = "known"};
    const struct lanes_make make = {.count = 3, .secret = &secret};
    assert_int_equal(lanes_dir_make(dir.path, &make, &why), ERR_OK);
    open_and_close(3);
    struct store_identity lane = identity_of("lane-002");
    assert_memory_equal(&lane.secret, &secret, sizeof secret);
}

/* An empty store of before 2^40 others' numbers: it is opened, says where it is, and goes on. */
static void its_sequences_begin_where_they_were_made_to(void **state)
{
    const uint64_t last = UINT64_C(1) << 40;
    for (unsigned count = 1; count <= 3; count += 2) {
        const struct lanes_make make = {.count = count, .last = last};
        assert_int_equal(lanes_dir_make(dir.path, &make, &why), ERR_OK);
        for (unsigned life = 0; life < 2; life++) {
            assert_int_equal(open_lanes(count), ERR_OK);
            for (unsigned i = 0; i < count; i++) {
                const struct embedded_config config = {.dir = lanes_dir_lane(&lanes, i),
                                                       .clock = &clock_system,
                                                       .cache_bytes = 1u << 20,
                                                       .segment_bytes = 1u << 20,
                                                       .lanes = count,
                                                       .lane = i};
                struct store *store;
                assert_int_equal(embedded_open(&store, &config, &why), ERR_OK);
                assert_true(store->writer.position.last_sequence == last);
                assert_true(store->writer.position.time_ms == INT64_MIN);
                store_close(store);
            }
            lanes_dir_close(&lanes);
        }
        teardown(state);
        setup(state);
    }
}

/* ---- refusing ---- */

static void another_number_is_refused_and_the_way_to_move_is_said(void **state)
{
    open_and_close(4);
    expect_refused(1, ERR_INVALID, "store.lanes is 1");
    expect_refused(2, ERR_INVALID, "was made with 4");
    expect_refused(8, ERR_INVALID, "`tally export --ids --events`, and `tally import`");
    open_and_close(4);
}

static void a_store_of_one_lane_stays_one(void **state)
{
    make_one_store();
    expect_refused(4, ERR_INVALID, "store.lanes is 4, but");
    assert_false(is_there("lane-000"));
    open_and_close(1);
}

static void a_lane_that_is_missing_is_named(void **state)
{
    open_and_close(4);
    move("lane-002", "elsewhere");
    expect_refused(4, ERR_CORRUPT, "lane-002 is missing");
    assert_false(is_there("lane-002"));
    move("elsewhere", "lane-002");
    open_and_close(4);
}

static void lanes_that_were_exchanged_are_refused(void **state)
{
    open_and_close(4);
    move("lane-002", "elsewhere");
    move("lane-001", "lane-002");
    move("elsewhere", "lane-001");
    expect_refused(4, ERR_CORRUPT, "is lane 2 and lies where lane 1 belongs");
}

static void a_lane_of_another_installation_is_refused(void **state)
{
    char lane[512];
    open_and_close(2);
    struct store_identity other = identity_of("lane-001");
    other.installation++;
    snprintf(lane, sizeof lane, "%s", scratch_dir_file(&dir, "lane-001"));
    assert_int_equal(identity_write(&other, lane), ERR_OK);
    expect_refused(2, ERR_CORRUPT, "lane-001 is of another installation");
}

static void a_lane_is_not_opened_by_itself_nor_the_root_as_a_store(void **state)
{
    const struct identity_wish whole = {0};
    struct store_identity identity;
    char lane[512];
    open_and_close(2);
    snprintf(lane, sizeof lane, "%s", scratch_dir_file(&dir, "lane-001"));
    assert_int_equal(identity_open(&identity, lane, &whole, &why), ERR_CORRUPT);
    assert_non_null(strstr(why.text, "is lane 1 of 2"));
    assert_int_equal(identity_open(&identity, dir.path, &whole, &why), ERR_INVALID);
    assert_non_null(strstr(why.text, "store.lanes is 1"));
}

static void the_root_is_not_taken_for_a_lane(void **state)
{
    char lane[512];
    open_and_close(2);
    struct store_identity root = identity_of(".");
    snprintf(lane, sizeof lane, "%s", scratch_dir_file(&dir, "lane-001"));
    assert_int_equal(identity_write(&root, lane), ERR_OK);
    expect_refused(2, ERR_CORRUPT, "has the identity of a directory of 2 lanes");
}

static void a_second_opener_is_refused(void **state)
{
    struct lanes_dir second;
    const struct identity_wish wish = {.lanes = 2};
    assert_int_equal(open_lanes(2), ERR_OK);
    assert_int_equal(lanes_dir_open(&second, dir.path, &wish, &why), ERR_BUSY);
    lanes_dir_close(&second);
    lanes_dir_close(&lanes);
    open_and_close(2);
}

static void another_scope_of_ids_is_refused(void **state)
{
    const struct identity_wish shared = {.lanes = 2, .ids_shared = true};
    open_and_close(2);
    assert_int_equal(lanes_dir_open(&lanes, dir.path, &shared, &why), ERR_INVALID);
    lanes_dir_close(&lanes);
}

static void a_half_restored_directory_is_refused(void **state)
{
    open_and_close(2);
    make_file(IDENTITY_RESTORING);
    expect_refused(2, ERR_CORRUPT, "restore did not finish");
}

#define DIR_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DIR_TEST(each_lane_says_which_of_how_many_it_is_and_all_have_one_secret),
        DIR_TEST(it_is_found_again_as_it_was_made),
        DIR_TEST(one_lane_is_the_directory_itself),
        DIR_TEST(what_a_crash_left_while_it_was_made_is_made_anew),
        DIR_TEST(what_a_crash_left_can_become_a_store_of_another_number),
        DIR_TEST(a_lane_that_is_there_and_empty_is_used),
        DIR_TEST(nothing_is_made_beside_what_may_be_data),
        DIR_TEST(it_takes_a_secret_that_is_known),
        DIR_TEST(its_sequences_begin_where_they_were_made_to),
        DIR_TEST(another_number_is_refused_and_the_way_to_move_is_said),
        DIR_TEST(a_store_of_one_lane_stays_one),
        DIR_TEST(a_lane_that_is_missing_is_named),
        DIR_TEST(lanes_that_were_exchanged_are_refused),
        DIR_TEST(a_lane_of_another_installation_is_refused),
        DIR_TEST(a_lane_is_not_opened_by_itself_nor_the_root_as_a_store),
        DIR_TEST(the_root_is_not_taken_for_a_lane),
        DIR_TEST(a_second_opener_is_refused),
        DIR_TEST(another_scope_of_ids_is_refused),
        DIR_TEST(a_half_restored_directory_is_refused),
    };
    return cmocka_run_group_tests_name("lanes_dir", tests, NULL, NULL);
}
