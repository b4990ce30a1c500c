/* test_tend.c -- the sweep proposes, the commit thread decides (SPEC 5; ARCHITECTURE, law 8). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "core/name.h"
#include "store/memory.h"
#include "support/heart.h"
#include "tend/tend.h"

#define SWEEP_MS 1000
#define SWEEP_OPS 3

static struct heart *heart;
static struct tend *tend;

static struct tend *tend_one(void)
{
    return tend_new(
        &(struct tend_config){.lanes = &heart->lanes, .sweep_ms = SWEEP_MS, .step_ops = SWEEP_OPS});
}

static int setup(void **state)
{
    heart = heart_new((struct heart_config){.store = "fault memory"});
    tend = tend_one();
    return 0;
}

static int teardown(void **state)
{
    heart_run(heart);
    tend_free(tend);
    heart_free(heart);
    return 0;
}

static void add(const char *name, int64_t expires_ms)
{
    struct op op = ask(&heart->asks, OP_INCREMENT, name, 1);
    op.expires_ms = expires_ms;
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
}

static void round_and_run(void)
{
    tend_round(tend);
    heart_run(heart);
}

static unsigned left(void)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
    unsigned count = 0;
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++)
        count += heart_net(heart, names[i]) >= 0;
    return count;
}

static void a_cell_stays_until_the_sweep_after_its_time_S3_77(void **state)
{
    add("a", HEART_START_MS + 500);
    add("b", HEART_START_MS + 5000);
    add("c", TIME_NONE);
    heart_wait_ms(heart, SWEEP_MS - 1);
    round_and_run();
    assert_int_equal(left(), 3); /* over, but it was not swept yet */
    heart_wait_ms(heart, 1);
    round_and_run();
    assert_int_equal(left(), 2);
    assert_int_equal(heart_net(heart, "a"), -1);
    heart_wait_ms(heart, 10 * SWEEP_MS);
    round_and_run();
    assert_int_equal(left(), 1);
    assert_int_equal(heart_tenant_cells(heart), 1);
}

static void an_expiry_in_the_past_is_swept_next(void **state)
{
    add("a", 1);
    assert_int_equal(heart_net(heart, "a"), 1);
    heart_wait_ms(heart, SWEEP_MS);
    round_and_run();
    assert_int_equal(left(), 0);
}

static void what_is_more_than_one_step_follows_at_once(void **state)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
    for (unsigned i = 0; i < 7; i++)
        add(names[i], 1);
    heart_wait_ms(heart, SWEEP_MS);
    round_and_run();
    assert_int_equal(left(), 7 - SWEEP_OPS);
    round_and_run(); /* no time has passed */
    assert_int_equal(left(), 7 - 2 * SWEEP_OPS);
    round_and_run();
    assert_int_equal(left(), 0);
    add("a", 1);
    round_and_run(); /* that was all: now it waits again */
    assert_int_equal(left(), 1);
}

static void one_proposal_is_under_way_at_a_time(void **state)
{
    add("a", 1);
    heart_wait_ms(heart, SWEEP_MS);
    tend_round(tend);
    assert_int_equal(queue_depth(heart->queue), 1);
    for (unsigned i = 0; i < 3; i++) {
        heart_wait_ms(heart, SWEEP_MS);
        tend_round(tend);
    }
    assert_int_equal(queue_depth(heart->queue), 1);
    heart_run(heart);
    assert_int_equal(left(), 0);
}

/* The sweep proposes on what readers see; an extension that is queued by then is judged first. */
static void a_cell_extended_since_the_proposal_stays(void **state)
{
    add("a", 1);
    struct op extend = ask(&heart->asks, OP_SET, "a", 5);
    extend.expires_ms = HEART_START_MS + 99999;
    heart_send(heart, (struct bundle){.urgency = URGENCY_URGENT}, &extend, 1);
    heart_wait_ms(heart, SWEEP_MS);
    tend_round(tend);
    assert_int_equal(queue_depth(heart->queue), 2);
    heart_run(heart);
    assert_int_equal(heart_net(heart, "a"), 5);
}

/* Deleted and made anew without an expiry while the proposal waits: that one was never to go. */
static void a_cell_made_anew_since_the_proposal_stays(void **state)
{
    add("a", 1);
    const struct op ops[] = {ask(&heart->asks, OP_DELETE, "a", 0),
                             ask(&heart->asks, OP_INCREMENT, "a", 7)};
    heart_send(heart, (struct bundle){.urgency = URGENCY_URGENT}, ops, 2);
    heart_wait_ms(heart, SWEEP_MS);
    tend_round(tend);
    assert_int_equal(queue_depth(heart->queue), 3);
    heart_run(heart);
    assert_int_equal(heart_net(heart, "a"), 7);
}

static void a_store_that_cannot_say_is_asked_again_later(void **state)
{
    add("a", 1);
    fault_fail(heart->store, FAULT_DUE, 1);
    heart_wait_ms(heart, SWEEP_MS);
    round_and_run();
    assert_int_equal(left(), 1);
    heart_wait_ms(heart, SWEEP_MS);
    round_and_run();
    assert_int_equal(left(), 0);
}

static void a_sweep_that_did_not_become_durable_is_proposed_again(void **state)
{
    add("a", 1);
    fault_fail(heart->store, FAULT_SYNC, 1);
    heart_wait_ms(heart, SWEEP_MS);
    round_and_run();
    assert_int_equal(left(), 1);
    heart_wait_ms(heart, SWEEP_MS);
    round_and_run();
    assert_int_equal(left(), 0);
}

static void a_full_queue_is_tried_again(void **state)
{
    heart_run(heart);
    tend_free(tend);
    heart_free(heart);
    heart = heart_new((struct heart_config){.store = "memory", .queue = {.urgent_ops_max = 1}});
    tend = tend_one();
    add("a", 1);
    struct op op = ask(&heart->asks, OP_SET, "other", 1);
    heart_send(heart, (struct bundle){.urgency = URGENCY_URGENT}, &op, 1);
    heart_wait_ms(heart, SWEEP_MS);
    tend_round(tend);
    assert_int_equal(queue_depth(heart->queue), 1); /* no place */
    heart_run(heart);
    heart_wait_ms(heart, SWEEP_MS);
    round_and_run();
    assert_int_equal(left(), 0);
}

/* ---- its thread ---- */

static void *tend_main(void *context)
{
    (void)context;
    tend_run(tend);
    return NULL;
}

static void it_stops_when_told_to(void **state)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, tend_main, NULL), 0);
    tend_stop(tend);
    pthread_join(thread, NULL);
}

/* ---- several lanes ---- */

/* Stores whose caretaking is this test's. */
#define LANES 3

static struct lane wards[LANES];
static struct store_ops ward_ops;
static atomic_uint tended[LANES];
static atomic_bool press;  /* all lanes but the last */
static atomic_bool stalls; /* the first lane */

static unsigned ward_of(const struct store *store)
{
    unsigned i = 0;
    while (wards[i].store != store)
        i++;
    return i;
}

static bool ward_tend(struct store *store)
{
    unsigned index = ward_of(store);
    tended[index]++;
    bool presses = press && index < LANES - 1;
    if (presses) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    while (index == 0 && stalls)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return presses;
}

static enum err ward_due(struct store *store, int64_t now_ms, store_due_fn *visit, void *context)
{
    if (ward_of(store) == 0) return ERR_STORAGE;
    char key[COUNTER_KEY_SIZE_MAX];
    visit(context, counter_key(key, BYTES("acme"), BYTES("a")), 0, 0);
    return ERR_OK;
}

static int lanes_setup(void **state)
{
    const struct queue_limits limits = {.urgent_ops_max = 10};
    setup(state);
    tend_free(tend);
    press = stalls = false;
    for (unsigned i = 0; i < LANES; i++) {
        wards[i] = (struct lane){
            .index = i, .queue = queue_new(&limits, NULL), .clock = &heart->time->clock};
        assert_int_equal(memory_open(&wards[i].store), ERR_OK);
        ward_ops = *wards[i].store->ops;
        ward_ops.tend = ward_tend;
        ward_ops.due = ward_due;
        wards[i].store->ops = &ward_ops;
        tended[i] = 0;
    }
    static const struct lanes lanes = {LANES, wards};
    tend = tend_new(&(struct tend_config){.lanes = &lanes, .sweep_ms = SWEEP_MS});
    return 0;
}

static int lanes_teardown(void **state)
{
    teardown(state);
    for (unsigned i = 0; i < LANES; i++) {
        queue_free(wards[i].queue);
        store_close(wards[i].store);
    }
    return 0;
}

/* The lanes after the first are served so often, or it takes too long. */
static void expect_the_others_are_served(unsigned times)
{
    for (unsigned i = 1; i < LANES; i++)
        for (unsigned ms = 0; tended[i] < times; ms++) {
            assert_true(ms < 10000);
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        }
}

static void lanes_that_always_press_leave_the_others_their_turn(void **state)
{
    pthread_t thread;
    press = true;
    assert_int_equal(pthread_create(&thread, NULL, tend_main, NULL), 0);
    expect_the_others_are_served(5);
    assert_true(tended[0] > tended[LANES - 1]);
    tend_stop(tend);
    pthread_join(thread, NULL);
}

static void a_lane_that_stalls_keeps_one_thread_and_not_the_others(void **state)
{
    pthread_t threads[2];
    stalls = true;
    for (unsigned i = 0; i < ARRAY_COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, tend_main, NULL), 0);
    expect_the_others_are_served(5);
    assert_int_equal(tended[0], 1); /* and by one thread at a time */
    stalls = false;
    tend_stop(tend);
    for (unsigned i = 0; i < ARRAY_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
}

static void answer_one(struct queue *queue)
{
    struct slice slice;
    assert_int_equal(queue_take(queue, &slice, 10), 1);
    assert_int_equal(slice.count, 1);
    slice.bundle->err = ERR_STORAGE;
    queue_done(queue, slice.bundle);
    slice.bundle->done(slice.bundle);
}

static void each_lane_is_swept_by_its_own_commits_whatever_another_one_says(void **state)
{
    heart_wait_ms(heart, SWEEP_MS);
    tend_round(tend);
    assert_int_equal(queue_depth(wards[0].queue), 0); /* its store cannot say */
    for (unsigned i = 1; i < LANES; i++)
        answer_one(wards[i].queue);
}

#define LANES_CARE(name) cmocka_unit_test_setup_teardown(name, lanes_setup, lanes_teardown)
#define CARE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CARE(a_cell_stays_until_the_sweep_after_its_time_S3_77),
        CARE(an_expiry_in_the_past_is_swept_next),
        CARE(what_is_more_than_one_step_follows_at_once),
        CARE(one_proposal_is_under_way_at_a_time),
        CARE(a_cell_extended_since_the_proposal_stays),
        CARE(a_cell_made_anew_since_the_proposal_stays),
        CARE(a_store_that_cannot_say_is_asked_again_later),
        CARE(a_sweep_that_did_not_become_durable_is_proposed_again),
        CARE(a_full_queue_is_tried_again),
        CARE(it_stops_when_told_to),
        LANES_CARE(lanes_that_always_press_leave_the_others_their_turn),
        LANES_CARE(a_lane_that_stalls_keeps_one_thread_and_not_the_others),
        LANES_CARE(each_lane_is_swept_by_its_own_commits_whatever_another_one_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
