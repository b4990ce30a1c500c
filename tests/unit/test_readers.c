/* test_readers.c -- the pool for reads that may touch the disk: bounded, fair, and done at the end.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "api/readers.h"
#include "base/hash.h"

#define TASKS 64

/* The first task holds the one thread until the gate opens, so that the others queue up. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool at_gate;
static atomic_uint ran;
static char order[TASKS + 1];

static void wait_at_gate(void *context)
{
    (void)context;
    at_gate = true;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static void note(void *context)
{
    order[ran++] = *(const char *)context;
}

static struct readers *readers;
static struct read_task tasks[TASKS];
static unsigned tasks_count;

static enum err push(const char *tenant)
{
    struct read_task *task = &tasks[tasks_count];
    *task = (struct read_task){bytes_str(tenant), note, (void *)tenant, NULL};
    enum err e = readers_push(readers, task);
    if (e == ERR_OK) tasks_count++;
    return e;
}

static void start(unsigned tasks_max)
{
    static struct read_task blocker;
    ran = 0;
    tasks_count = 0;
    at_gate = false;
    memset(order, 0, sizeof order);
    readers = readers_new(1, tasks_max);
    pthread_mutex_lock(&gate);
    blocker = (struct read_task){BYTES("blocker"), wait_at_gate, NULL, NULL};
    assert_int_equal(readers_push(readers, &blocker), ERR_OK);
    while (!at_gate)
        usleep(100);
}

static void finish(void)
{
    pthread_mutex_unlock(&gate);
    readers_free(readers);
    assert_int_equal(ran, tasks_count);
}

/* Two tenants of different lanes; there are 16, chosen by hash. */
static const char *other_lane(const char *tenant)
{
    static char name[2];
    for (name[0] = 'b'; name[0] <= 'z'; name[0]++)
        if (hash_keyed(&hash_own, bytes_str(name)) % 16 !=
            hash_keyed(&hash_own, bytes_str(tenant)) % 16)
            return name;
    fail();
    return NULL;
}

static void what_is_queued_runs_before_the_end(void **state)
{
    start(TASKS);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(push("a"), ERR_OK);
    finish();
}

static void tenants_take_turns(void **state)
{
    const char *late = other_lane("a");
    start(TASKS);
    for (unsigned i = 0; i < 10; i++)
        push("a");
    push(late);
    push(late);
    finish();
    const char *first = strchr(order, late[0]);
    const char *second = strrchr(order, late[0]);
    assert_true(first - order <= 1); /* behind one of the other's, not behind ten */
    assert_true(second - order <= 3);
}

static void one_tenant_gets_half_of_the_queue(void **state)
{
    const char *other = other_lane("a");
    start(8);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(push("a"), ERR_OK);
    assert_int_equal(push("a"), ERR_BUSY);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(push(other), ERR_OK);
    assert_int_equal(push(other), ERR_BUSY);
    finish();
}

static void all_together_get_no_more_than_the_queue(void **state)
{
    start(10);
    unsigned taken = 0;
    char names[16][2] = {{0}};
    for (unsigned i = 0; i < 16; i++) {
        names[i][0] = (char)('a' + i);
        taken += push(names[i]) == ERR_OK;
    }
    assert_int_equal(taken, 10);
    finish();
}

static void a_queue_of_one_takes_one(void **state)
{
    start(1);
    assert_int_equal(push("a"), ERR_OK);
    assert_int_equal(push("a"), ERR_BUSY);
    finish();
}

static void places_are_free_again_once_their_task_runs(void **state)
{
    readers = readers_new(2, 2);
    tasks_count = 0;
    ran = 0;
    for (unsigned i = 0; i < TASKS; i++) {
        while (push("a") != ERR_OK)
            usleep(100);
    }
    readers_free(readers);
    assert_int_equal(ran, TASKS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_queued_runs_before_the_end),
        cmocka_unit_test(tenants_take_turns),
        cmocka_unit_test(one_tenant_gets_half_of_the_queue),
        cmocka_unit_test(all_together_get_no_more_than_the_queue),
        cmocka_unit_test(a_queue_of_one_takes_one),
        cmocka_unit_test(places_are_free_again_once_their_task_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
