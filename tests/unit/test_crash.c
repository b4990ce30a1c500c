/* test_crash.c -- the named places kill the process when asked to, and only then.
 *
 * The environment is read before main, so the program starts itself again with it set. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/must.h"

/* Passes "one" three times and "two" once, then "three" once in lane 1 and twice in lane 2. Returns the signal that ended it, 0 for none. */
static int signal_of_child(const char *crash_at)
{
    pid_t child = fork();
    if (child == 0) {
        if (crash_at) setenv("TALLY_CRASH_POINT", crash_at, 1);
        execl("/proc/self/exe", "test_crash", "pass", (char *)NULL);
        _exit(1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) return WTERMSIG(status);
    assert_int_equal(WEXITSTATUS(status), 0);
    return 0;
}

static void a_named_point_kills_at_the_chosen_passing(void **state)
{
    (void)state;
    assert_int_equal(signal_of_child("one"), SIGKILL);
    assert_int_equal(signal_of_child("two"), SIGKILL);
    assert_int_equal(signal_of_child("one:3"), SIGKILL);
    assert_int_equal(signal_of_child("one:4"), 0);
    assert_int_equal(signal_of_child("two:2"), 0);
}

static void other_names_do_nothing(void **state)
{
    (void)state;
    assert_int_equal(signal_of_child(NULL), 0);
    assert_int_equal(signal_of_child(""), 0);
    assert_int_equal(signal_of_child("on"), 0);
    assert_int_equal(signal_of_child("one.more"), 0);
}

static void a_named_point_of_a_lane_kills_there_alone(void **state)
{
    (void)state;
    assert_int_equal(signal_of_child("three:3"), SIGKILL);
    assert_int_equal(signal_of_child("three:1@1"), SIGKILL);
    assert_int_equal(signal_of_child("three:2@1"), 0);
    assert_int_equal(signal_of_child("three:2@2"), SIGKILL);
    assert_int_equal(signal_of_child("three:1@0"), 0);
    assert_int_equal(signal_of_child("one:1@0"), 0); /* no lane is not lane 0 */
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void a_named_point_holds_up_each_time(void **state)
{
    (void)state;
    setenv("TALLY_PAUSE_POINT", "one:30", 1);
    int64_t began = now_ms();
    assert_int_equal(signal_of_child(NULL), 0);
    assert_true(now_ms() - began >= 90);
    assert_int_equal(signal_of_child("one:2"), SIGKILL);
    unsetenv("TALLY_PAUSE_POINT");
}

static void pass_three_in(unsigned lane)
{
    const struct must_place place = {.state = "test", .lane = lane};
    must_at = &place;
    for (unsigned i = 0; i < lane; i++)
        crash_point("three");
    must_at = NULL;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "pass") == 0) {
        for (int i = 0; i < 3; i++)
            crash_point("one");
        crash_point("two");
        for (unsigned lane = 1; lane <= 2; lane++)
            pass_three_in(lane);
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_named_point_kills_at_the_chosen_passing),
        cmocka_unit_test(other_names_do_nothing),
        cmocka_unit_test(a_named_point_of_a_lane_kills_there_alone),
        cmocka_unit_test(a_named_point_holds_up_each_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
