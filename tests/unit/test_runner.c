/* test_runner.c -- the threads that do jobs: none waits for the other, no job is left lying. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>

#include "jobs/runner.h"
#include "support/panic.h"

/* A desk in a test: its steps wait at a gate, say what they were told to say, and are counted. */
struct bench {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned begun;
    unsigned ended;
    unsigned may; /* steps that the gate has let through */
    bool told;    /* to come back soon */
    enum desk_next next;
};

static struct bench files, counts;
static struct runner *runner;

static enum desk_next bench_step(void *context)
{
    struct bench *bench = context;
    pthread_mutex_lock(&bench->lock);
    bench->begun++;
    pthread_cond_broadcast(&bench->changed);
    while (bench->ended >= bench->may && !bench->told)
        pthread_cond_wait(&bench->changed, &bench->lock);
    bench->ended++;
    enum desk_next next = bench->next;
    pthread_cond_broadcast(&bench->changed);
    pthread_mutex_unlock(&bench->lock);
    return next;
}

static void bench_stop(void *context)
{
    struct bench *bench = context;
    pthread_mutex_lock(&bench->lock);
    bench->told = true;
    pthread_cond_broadcast(&bench->changed);
    pthread_mutex_unlock(&bench->lock);
}

static void wait_begun(struct bench *bench, unsigned begun)
{
    pthread_mutex_lock(&bench->lock);
    while (bench->begun < begun)
        pthread_cond_wait(&bench->changed, &bench->lock);
    pthread_mutex_unlock(&bench->lock);
}

static void wait_ended(struct bench *bench, unsigned ended)
{
    pthread_mutex_lock(&bench->lock);
    while (bench->ended < ended)
        pthread_cond_wait(&bench->changed, &bench->lock);
    pthread_mutex_unlock(&bench->lock);
}

static void let_through(struct bench *bench, unsigned steps)
{
    pthread_mutex_lock(&bench->lock);
    bench->may += steps;
    pthread_cond_broadcast(&bench->changed);
    pthread_mutex_unlock(&bench->lock);
}

static void bench_init(struct bench *bench)
{
    *bench = (struct bench){.next = DESK_RESTS};
    pthread_mutex_init(&bench->lock, NULL);
    pthread_cond_init(&bench->changed, NULL);
}

static int setup(void **state)
{
    bench_init(&files);
    bench_init(&counts);
    runner = runner_new();
    runner_set(runner, DESK_FILES, &(struct desk_work){bench_step, bench_stop, &files});
    runner_set(runner, DESK_COUNTS, &(struct desk_work){bench_step, bench_stop, &counts});
    return 0;
}

static int teardown(void **state)
{
    runner_free(runner);
    return 0;
}

static void a_long_backup_holds_up_no_rebuild(void **state)
{
    counts.next = DESK_AGAIN;
    runner_start(runner);
    wait_begun(&files, 1); /* and stays at the gate */
    let_through(&counts, 20);
    wait_ended(&counts, 20);
    assert_int_equal(files.ended, 0);
    runner_stop(runner);
}

static void what_is_left_from_before_is_looked_for_at_once(void **state)
{
    runner_start(runner);
    wait_begun(&files, 1);
    wait_begun(&counts, 1);
    runner_stop(runner);
}

static void a_job_that_is_put_while_a_step_looks_is_not_left_lying(void **state)
{
    runner_start(runner);
    wait_begun(&files, 1);
    runner_wake(runner, DESK_FILES);
    let_through(&files, 1); /* it has seen nothing, and would rest */
    wait_begun(&files, 2);
    runner_stop(runner);
}

static void a_desk_at_rest_is_woken_by_its_own_jobs_alone(void **state)
{
    let_through(&files, 1);
    let_through(&counts, 100);
    runner_start(runner);
    wait_ended(&files, 1);
    for (unsigned i = 0; i < 10; i++) {
        wait_ended(&counts, i + 1);
        runner_wake(runner, DESK_COUNTS);
    }
    wait_ended(&counts, 10);
    assert_int_equal(files.begun, 1);
    runner_wake(runner, DESK_FILES);
    wait_begun(&files, 2);
    runner_stop(runner);
}

static void what_could_not_be_done_is_tried_again(void **state)
{
    counts.next = DESK_LATER;
    let_through(&counts, 2);
    runner_start(runner);
    wait_ended(&counts, 2);
    runner_stop(runner);
}

static void a_stop_tells_the_step_under_way_and_waits_for_it(void **state)
{
    files.next = DESK_AGAIN;
    runner_start(runner);
    wait_begun(&files, 1);
    runner_stop(runner);
    assert_true(files.told);
    assert_int_equal(files.ended, files.begun);
    assert_int_equal(files.begun, 1);
}

static void without_a_runner_nobody_is_woken(void **state)
{
    runner_wake(NULL, DESK_FILES);
}

/* ---- laws ---- */

static void end_while_it_runs(void)
{
    runner_start(runner);
    runner_free(runner);
}

static void set_work_while_it_runs(void)
{
    runner_start(runner);
    runner_set(runner, DESK_FILES, &(struct desk_work){bench_step, bench_stop, &files});
}

static void stop_what_never_ran(void)
{
    runner_stop(runner);
}

static void a_runner_takes_no_other_steps(void **state)
{
    expect_panic(end_while_it_runs, "runner->started == runner->stopped");
    expect_panic(set_work_while_it_runs, "!runner->started");
    expect_panic(stop_what_never_ran, "runner->started && !runner->stopped");
}

#define TEST_OF_RUNNER(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_OF_RUNNER(a_long_backup_holds_up_no_rebuild),
        TEST_OF_RUNNER(what_is_left_from_before_is_looked_for_at_once),
        TEST_OF_RUNNER(a_job_that_is_put_while_a_step_looks_is_not_left_lying),
        TEST_OF_RUNNER(a_desk_at_rest_is_woken_by_its_own_jobs_alone),
        TEST_OF_RUNNER(what_could_not_be_done_is_tried_again),
        TEST_OF_RUNNER(a_stop_tells_the_step_under_way_and_waits_for_it),
        TEST_OF_RUNNER(without_a_runner_nobody_is_woken),
        TEST_OF_RUNNER(a_runner_takes_no_other_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
