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

#define TASKS 64

/* The first task holds the one thread until the gate opens, so that the others queue up. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool at_gate;
static atomic_uint ran;
static char order[TASKS + 1];

static bool wait_at_gate(void *context)
{
    (void)context;
    at_gate = true;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
    return false;
}

static bool note(void *context)
{
    order[ran++] = *(const char *)context;
    return false;
}

static struct readers *readers;
static struct read_task tasks[TASKS];
static unsigned tasks_count;

static enum err push(const char *tenant)
{
    struct read_task *task = &tasks[tasks_count];
    *task = (struct read_task){.tenant = bytes_str(tenant), .run = note, .context = (void *)tenant};
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
    readers = readers_new("reader", 1, tasks_max);
    pthread_mutex_lock(&gate);
    blocker = (struct read_task){.tenant = BYTES("blocker"), .run = wait_at_gate};
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

/* Work of so many parts; each notes itself. */
struct work {
    struct read_task task;
    char name;
    unsigned parts;
};

static bool do_part(void *context)
{
    struct work *work = context;
    order[ran++] = work->name;
    return --work->parts > 0;
}

static void push_work(struct work *work, const char *tenant, char name, unsigned parts)
{
    *work = (struct work){.name = name, .parts = parts};
    work->task = (struct read_task){.tenant = bytes_str(tenant), .run = do_part, .context = work};
    assert_int_equal(readers_push(readers, &work->task), ERR_OK);
    tasks_count += parts;
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
    const char *late = "b";
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

/* -- Looking together -- */

static void look_at_it(void *context, struct view *moment)
{
    assert_non_null(moment);
    order[ran++] = (char)(*(const char *)context - 'a' + 'A');
}

static char together[TASKS + 1]; /* how many looked at once, each time */

static void gather(const struct view_reading *readings, unsigned count)
{
    size_t used = strlen(together);
    snprintf(together + used, sizeof together - used, "%u ", count);
    for (unsigned i = 0; i < count; i++)
        readings[i].read(readings[i].context, readings[i].view);
}

static struct view gathering_view = {.ops = &(const struct view_ops){.gather = gather}};

static void push_looking(const char *tenant, unsigned values)
{
    struct read_task *task = &tasks[tasks_count];
    *task = (struct read_task){
        .tenant = bytes_str(tenant),
        .run = note,
        .context = (void *)tenant,
        .look = {.view = &gathering_view, .read = look_at_it, .context = (void *)tenant},
        .values = values};
    assert_int_equal(readers_push(readers, task), ERR_OK);
    tasks_count += 2;
}

static void tasks_that_look_do_so_together_and_run_then(void **state)
{
    start(TASKS);
    together[0] = 0;
    for (unsigned i = 0; i < 3; i++)
        push_looking("a", 1);
    finish();
    assert_string_equal(order, "AAAaaa");
    assert_string_equal(together, "3 ");
}

static void only_those_that_are_next_look_together(void **state)
{
    start(TASKS);
    together[0] = 0;
    push_looking("a", 1);
    push_looking("a", 1);
    push("a");
    push_looking("a", 1);
    finish();
    assert_string_equal(order, "AAaaaAa");
    assert_string_equal(together, "2 1 ");
}

static void a_task_that_looks_at_much_looks_alone(void **state)
{
    start(TASKS);
    together[0] = 0;
    push_looking("a", 1);
    push_looking("a", 100000);
    push_looking("a", 1);
    finish();
    assert_string_equal(order, "AaAaAa");
    assert_string_equal(together, "1 1 1 ");
}

static void tenants_take_turns_within_their_work(void **state)
{
    struct work long_one, short_one;
    start(TASKS);
    push_work(&long_one, "a", 'L', 10);
    push_work(&short_one, "b", 's', 2);
    finish();
    assert_string_equal(order, "LsLsLLLLLLLL");
}

static void a_short_read_does_not_wait_for_a_long_one_of_its_own_tenant(void **state)
{
    struct work long_one, short_one;
    start(TASKS);
    push_work(&long_one, "a", 'L', 6);
    push_work(&short_one, "a", 's', 1);
    finish();
    assert_string_equal(order, "LLsLLLL");
}

static void long_reads_of_one_tenant_end_one_after_the_other(void **state)
{
    struct work works[3];
    start(TASKS);
    for (unsigned i = 0; i < 3; i++)
        push_work(&works[i], "a", (char)('1' + i), 5);
    finish();
    assert_string_equal(order, "112131122223333");
}

static void one_tenant_gets_half_of_the_queue(void **state)
{
    const char *other = "b";
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
    readers = readers_new("reader", 2, 2);
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
        cmocka_unit_test(tenants_take_turns_within_their_work),
        cmocka_unit_test(tasks_that_look_do_so_together_and_run_then),
        cmocka_unit_test(only_those_that_are_next_look_together),
        cmocka_unit_test(a_task_that_looks_at_much_looks_alone),
        cmocka_unit_test(a_short_read_does_not_wait_for_a_long_one_of_its_own_tenant),
        cmocka_unit_test(long_reads_of_one_tenant_end_one_after_the_other),
        cmocka_unit_test(one_tenant_gets_half_of_the_queue),
        cmocka_unit_test(all_together_get_no_more_than_the_queue),
        cmocka_unit_test(a_queue_of_one_takes_one),
        cmocka_unit_test(places_are_free_again_once_their_task_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
