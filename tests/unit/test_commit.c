/* test_commit.c -- the laws of commit.c: who is answered, when, with what, and how the numbers go
 * on. One thread drives it by hand; the last tests run it with its two threads. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "store/memory.h"
#include "support/heart.h"

static struct heart *heart;

static void start(struct heart_config config)
{
    config.store = "fault memory";
    heart = heart_new(config);
}

static int setup(void **state)
{
    start((struct heart_config){.batch_ops = 4, .batches = 2});
    return 0;
}

static int teardown(void **state)
{
    fault_heal(heart->store);
    heart_free(heart);
    return 0;
}

static struct op increment(int64_t amount)
{
    return ask(&heart->asks, OP_INCREMENT, "n", amount);
}

static struct sent *send_one(struct op op)
{
    struct sent *sent = heart_send(heart, (struct bundle){0}, &op, 1);
    assert_int_equal(sent->pushed, ERR_OK);
    return sent;
}

static struct sent *send_many(uint32_t count)
{
    struct op ops[64];
    for (uint32_t i = 0; i < count; i++)
        ops[i] = increment(1);
    struct sent *sent = heart_send(heart, (struct bundle){0}, ops, count);
    assert_int_equal(sent->pushed, ERR_OK);
    return sent;
}

static void turn(void)
{
    assert_true(commit_turn(heart->commit));
}

static void expect_answer(const struct sent *sent, enum err e)
{
    assert_int_equal(sent->answered, 1);
    assert_int_equal(sent->bundle.err, e);
}

/* ---- (1) a reply leaves only when its batch is durable ---- */

static void a_change_is_answered_by_the_sync_not_by_the_decision(void **state)
{
    struct sent *sent = send_one(increment(5));
    turn();
    assert_int_equal(sent->answered, 0);
    assert_int_equal(heart_net(heart, "n"), -1);
    assert_int_equal(queue_depth(heart->queue), 1);
    assert_true(commit_sync_now(heart->commit));
    expect_answer(sent, ERR_OK);
    assert_int_equal(queue_depth(heart->queue), 0);
}

/* It was judged on values that might not have become durable. */
static void a_refusal_waits_for_durability_too(void **state)
{
    struct sent *first = send_one(increment(5));
    turn();
    struct sent *refused = send_one(ask(&heart->asks, OP_DECREMENT, "n", 6));
    turn();
    assert_int_equal(refused->answered, 0);
    memory_break_sync(heart->inner, false);
    assert_true(commit_sync_now(heart->commit));
    expect_answer(first, ERR_STORAGE);
    expect_answer(refused, ERR_STORAGE); /* not "negative": nobody knows */

    refused = send_one(ask(&heart->asks, OP_DECREMENT, "n", 6));
    turn();
    assert_int_equal(refused->answered, 0);
    assert_true(commit_sync_now(heart->commit));
    expect_answer(refused, ERR_OK);
    assert_int_equal(refused->bundle.ops[0].err, ERR_NEGATIVE);
}

static void a_bundle_cut_over_batches_is_answered_once_with_its_last(void **state)
{
    struct sent *sent = send_many(10); /* 4 + 4 + 2 */
    for (unsigned batch = 0; batch < 3; batch++) {
        assert_int_equal(sent->answered, 0);
        turn();
        assert_true(commit_sync_now(heart->commit));
    }
    expect_answer(sent, ERR_OK);
    assert_int_equal(sent->bundle.sequence, 10);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(sent->bundle.ops[i].after.net, i + 1);
    assert_false(commit_turn(heart->commit));
}

static void a_round_of_answers_is_one_wake_up(void **state)
{
    send_many(4);
    turn();
    send_many(4);
    turn();
    assert_int_equal(heart->wakes, 0);
    assert_true(commit_sync_now(heart->commit));
    assert_int_equal(heart->wakes, 1);
    assert_false(commit_sync_now(heart->commit));
    assert_int_equal(heart->wakes, 1);
}

/* ---- when the store cannot ---- */

static void a_failed_sync_answers_storage_to_everyone_under_way(void **state)
{
    heart_do(heart, increment(1));
    struct sent *whole = send_one(increment(2));
    struct sent *cut = send_many(5); /* 3 with `whole`, then 2 */
    turn();
    memory_break_sync(heart->inner, false);
    assert_true(commit_sync_now(heart->commit));
    expect_answer(whole, ERR_STORAGE);
    assert_int_equal(cut->answered, 0);
    turn();
    assert_true(commit_sync_now(heart->commit));
    expect_answer(cut, ERR_STORAGE); /* once, though its last part went well */
    assert_int_equal(heart_net(heart, "n"), 3);
    assert_int_equal(queue_depth(heart->queue), 0);
}

static void a_failed_load_answers_storage_at_once_and_gives_everything_back(void **state)
{
    for (unsigned i = 0; i < 5; i++) { /* more often than there are batches */
        fault_fail(heart->store, FAULT_LOAD, 1);
        struct sent *sent = send_one(increment(1));
        turn();
        expect_answer(sent, ERR_STORAGE);
        assert_int_equal(queue_depth(heart->queue), 0);
        assert_int_equal(heart->wakes, i + 1);
    }
    assert_int_equal(heart_do(heart, increment(1)).after.net, 1);
}

static void a_failed_load_leaves_the_batch_before_it_alone(void **state)
{
    struct sent *before = send_one(increment(1));
    turn();
    fault_fail(heart->store, FAULT_LOAD, 1);
    struct sent *failed = send_one(increment(2));
    turn();
    expect_answer(failed, ERR_STORAGE);
    assert_int_equal(before->answered, 0);
    assert_true(commit_sync_now(heart->commit));
    expect_answer(before, ERR_OK);
    assert_int_equal(heart_do(heart, increment(4)).after.net, 5);
}

static void a_cut_bundle_with_one_part_not_loaded_is_answered_once(void **state)
{
    for (unsigned nth = 1; nth <= 3; nth++) {
        fault_fail(heart->store, FAULT_LOAD, nth);
        struct sent *sent = send_many(10);
        heart_run(heart);
        expect_answer(sent, ERR_STORAGE);
        assert_false(fault_heal(heart->store));
    }
    assert_int_equal(heart_net(heart, "n"), 6 + 6 + 8);
}

/* ---- (3), (4) numbers and time ---- */

static void sequences_have_no_gap_over_failures(void **state)
{
    assert_int_equal(heart_do(heart, increment(1)).sequence, 1);
    memory_break_sync(heart->inner, false);
    heart_do(heart, increment(1));
    assert_int_equal(heart_do(heart, increment(1)).sequence, 2);
    fault_fail(heart->store, FAULT_LOAD, 1);
    heart_do(heart, increment(1));
    assert_int_equal(heart_do(heart, increment(1)).sequence, 3);
    heart_do(heart, ask(&heart->asks, OP_DECREMENT, "n", 99));
    assert_int_equal(heart_do(heart, increment(1)).sequence, 4);
    memory_break_sync(heart->inner, true); /* it happened, but nobody was told */
    heart_do(heart, increment(1));
    assert_int_equal(heart_do(heart, increment(1)).sequence, 6);
}

static int64_t updated_ms(void)
{
    struct cell cell;
    assert_int_equal(heart_get(heart, "n", 0, 0, &cell), ERR_OK);
    return cell.updated_ms;
}

static void batch_time_never_runs_back(void **state)
{
    heart_do(heart, increment(1));
    assert_int_equal(updated_ms(), HEART_START_MS);
    heart->time->wall_ms = HEART_START_MS + 5000;
    heart_do(heart, increment(1));
    assert_int_equal(updated_ms(), HEART_START_MS + 5000);
    heart->time->wall_ms = HEART_START_MS - 99999;
    heart_do(heart, increment(1));
    assert_int_equal(updated_ms(), HEART_START_MS + 5000);
    heart->time->wall_ms = HEART_START_MS + 5001;
    heart_do(heart, increment(1));
    assert_int_equal(updated_ms(), HEART_START_MS + 5001);
}

static void limits_reach_the_decision(void **state)
{
    heart_free(heart);
    start((struct heart_config){.limits = {.tenant_cells = 1}});
    heart_do(heart, increment(1));
    assert_int_equal(heart_do(heart, ask(&heart->asks, OP_SET, "m", 0)).err, ERR_CELL_LIMIT);
}

static void small_batches_are_synced_where_they_are_decided(void **state)
{
    heart_free(heart);
    start((struct heart_config){.small_ops = 3, .batch_ops = 4, .batches = 2});
    struct sent *small = send_many(2);
    turn();
    expect_answer(small, ERR_OK);
    struct sent *large = send_many(3);
    turn();
    assert_int_equal(large->answered, 0);
    assert_true(commit_sync_now(heart->commit));
    expect_answer(large, ERR_OK);
    assert_int_equal(heart->wakes, 2);
}

static void whoever_pushed_commits_little_itself(void **state)
{
    heart_free(heart);
    start((struct heart_config){.small_ops = 3, .batch_ops = 4, .batches = 2});
    struct sent *small = send_many(2);
    commit_help(heart->commit);
    expect_answer(small, ERR_OK);
    assert_int_equal(heart_net(heart, "n"), 2);
    assert_int_equal(heart->wakes, 1);
    commit_help(heart->commit); /* nothing is queued: nothing happens */
    assert_int_equal(heart->wakes, 1);
}

static void whoever_pushed_leaves_much_or_what_others_are_at_to_the_commit_thread(void **state)
{
    heart_free(heart);
    start((struct heart_config){.small_ops = 3, .batch_ops = 4, .batches = 2});
    struct sent *large = send_many(3);
    commit_help(heart->commit);
    assert_int_equal(large->answered, 0);
    turn();
    struct sent *behind = send_many(1); /* the large one is in flight */
    commit_help(heart->commit);
    assert_int_equal(behind->answered, 0);
    assert_true(commit_sync_now(heart->commit));
    commit_help(heart->commit);
    expect_answer(behind, ERR_OK);
}

/* ---- with its two threads ---- */

#define PUSHERS 3
#define PUSHES 200

struct pusher {
    struct bundle bundles[PUSHES];
    struct op ops[PUSHES][3];
    atomic_uint answers;
};

static void pusher_done(struct bundle *bundle)
{
    struct pusher *pusher = bundle->owner;
    pusher->answers++;
}

static void *push_main(void *context)
{
    struct pusher *pusher = context;
    for (unsigned i = 0; i < PUSHES; i++) {
        pusher->bundles[i] = (struct bundle){.ops = pusher->ops[i],
                                             .count = 1 + i % 3,
                                             .urgency = i % 7 ? URGENCY_BATCHED : URGENCY_URGENT,
                                             .whole = i % 5 == 0,
                                             .tenant = pusher->ops[i][0].tenant,
                                             .done = pusher_done,
                                             .owner = pusher};
        struct bundle *refused;
        for (queue_push_all(heart->queue, &pusher->bundles[i], &refused); refused;
             queue_push_all(heart->queue, &pusher->bundles[i], &refused))
            sched_yield();
        commit_help(heart->commit);
    }
    return NULL;
}

static unsigned run_threads(struct pusher *pushers)
{
    pthread_t threads[PUSHERS + 2];
    for (unsigned p = 0; p < PUSHERS; p++)
        for (unsigned i = 0; i < PUSHES; i++)
            for (unsigned k = 0; k < 3; k++)
                pushers[p].ops[i][k] = increment(1);
    must(pthread_create(&threads[PUSHERS], NULL, heart_commit_main, heart) == 0);
    must(pthread_create(&threads[PUSHERS + 1], NULL, heart_sync_main, heart) == 0);
    for (unsigned p = 0; p < PUSHERS; p++)
        must(pthread_create(&threads[p], NULL, push_main, &pushers[p]) == 0);
    for (unsigned p = 0; p < PUSHERS; p++)
        pthread_join(threads[p], NULL);
    queue_stop(heart->queue);
    pthread_join(threads[PUSHERS], NULL);
    pthread_join(threads[PUSHERS + 1], NULL);
    unsigned ops = 0;
    for (unsigned p = 0; p < PUSHERS; p++) {
        assert_int_equal(pushers[p].answers, PUSHES);
        for (unsigned i = 0; i < PUSHES; i++)
            ops += pushers[p].bundles[i].err == ERR_OK ? pushers[p].bundles[i].count : 0;
    }
    return ops;
}

static void threads_count_every_op_once(void **state)
{
    static const uint32_t small_ops[] = {0, 2, 1000};
    for (unsigned i = 0; i < ARRAY_COUNT(small_ops); i++) {
        struct pusher *pushers = must_calloc(PUSHERS, sizeof *pushers);
        heart_free(heart);
        start((struct heart_config){.batch_ops = 5,
                                    .batches = 2,
                                    .small_ops = small_ops[i],
                                    .queue = {.ops_max = 40, .urgent_ops_max = 10}});
        unsigned ops = run_threads(pushers);
        assert_int_equal(heart_net(heart, "n"), ops);
        assert_int_equal(queue_depth(heart->queue), 0);
        free(pushers);
    }
}

static void threads_answer_every_op_also_when_loads_and_syncs_fail(void **state)
{
    struct pusher *pushers = must_calloc(PUSHERS, sizeof *pushers);
    heart_free(heart);
    start((struct heart_config){.batch_ops = 5, .batches = 3});
    fault_fail(heart->store, FAULT_SYNC | FAULT_LOAD, 9);
    unsigned ops = run_threads(pushers);
    assert_true(ops < PUSHERS * PUSHES * 2);
    assert_in_range(heart_net(heart, "n"), ops, 2 * PUSHERS * PUSHES);
    free(pushers);
}

static void closing_waits_for_what_is_decided(void **state)
{
    struct sent *sent = send_one(increment(1));
    turn();
    commit_close(heart->commit);
    assert_true(commit_sync(heart->commit));
    expect_answer(sent, ERR_OK);
    assert_false(commit_sync(heart->commit));
}

#define LAW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* What an operator is woken by: a disk that hangs answers nobody, so no answer tells of it. */
static void SPEC_10_the_lag_grows_while_nothing_is_answered(void **state)
{
    struct op op = increment(1);
    assert_int_equal(commit_lag_ns(heart->commit), 0);
    heart->time->mono_ns = 5000000000;
    heart_send(heart, (struct bundle){.queued_ns = 5000000000}, &op, 1);
    heart->time->mono_ns = 12000000000;
    assert_int_equal(commit_lag_ns(heart->commit), 7000000000);
    turn();
    heart->time->mono_ns = 13000000000;
    assert_int_equal(commit_lag_ns(heart->commit), 8000000000);
    assert_true(commit_sync_now(heart->commit));
    assert_int_equal(commit_lag_ns(heart->commit), 0);
    heart->time->mono_ns = 90000000000;
    heart_send(heart, (struct bundle){.queued_ns = 90000000000}, &op, 1);
    heart->time->mono_ns = 99000000000;
    assert_int_equal(commit_lag_ns(heart->commit), 9000000000);
    turn();
    assert_true(commit_sync_now(heart->commit));
}

/* -- A store whose sync says whether it is alone ----------------------------------------------- */

#define ALONE_ROUNDS 20000u /* of looking about: some milliseconds */

static struct writer_ops alone_ops;
static const struct writer_ops *inner_ops;
static atomic_uint syncing, most_syncing, syncs;

/* Stays until somebody else comes in, or for a while. */
static uint32_t sync_alone(struct writer *writer)
{
    unsigned now = atomic_fetch_add(&syncing, 1) + 1;
    unsigned most = atomic_load(&most_syncing);
    while (now > most && !atomic_compare_exchange_weak(&most_syncing, &most, now))
        ;
    atomic_fetch_add(&syncs, 1);
    for (unsigned i = 0; i < ALONE_ROUNDS && atomic_load(&most_syncing) < 2; i++)
        sched_yield();
    uint32_t reported = inner_ops->sync(writer);
    atomic_fetch_sub(&syncing, 1);
    return reported;
}

static void *sync_once(void *commit)
{
    commit_sync_now(commit);
    return NULL;
}

/* The sync thread, the commit thread and helpers all sync; the store is promised one at a time. */
static void one_thread_at_a_time_is_in_the_stores_sync(void **state)
{
    (void)state;
    pthread_t threads[2];
    struct sent *sent = send_one(increment(5));
    turn();
    inner_ops = heart->store->writer.ops;
    alone_ops = *inner_ops;
    alone_ops.sync = sync_alone;
    heart->store->writer.ops = &alone_ops;
    syncing = most_syncing = syncs = 0;
    for (unsigned i = 0; i < 2; i++)
        must(pthread_create(&threads[i], NULL, sync_once, heart->commit) == 0);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    heart->store->writer.ops = inner_ops;
    assert_int_equal(syncs, 2);
    assert_int_equal(most_syncing, 1);
    expect_answer(sent, ERR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(SPEC_10_the_lag_grows_while_nothing_is_answered),
        LAW(a_change_is_answered_by_the_sync_not_by_the_decision),
        LAW(a_refusal_waits_for_durability_too),
        LAW(a_bundle_cut_over_batches_is_answered_once_with_its_last),
        LAW(a_round_of_answers_is_one_wake_up),
        LAW(a_failed_sync_answers_storage_to_everyone_under_way),
        LAW(a_failed_load_answers_storage_at_once_and_gives_everything_back),
        LAW(a_failed_load_leaves_the_batch_before_it_alone),
        LAW(a_cut_bundle_with_one_part_not_loaded_is_answered_once),
        LAW(sequences_have_no_gap_over_failures),
        LAW(batch_time_never_runs_back),
        LAW(limits_reach_the_decision),
        LAW(small_batches_are_synced_where_they_are_decided),
        LAW(whoever_pushed_commits_little_itself),
        LAW(whoever_pushed_leaves_much_or_what_others_are_at_to_the_commit_thread),
        LAW(threads_count_every_op_once),
        LAW(threads_answer_every_op_also_when_loads_and_syncs_fail),
        LAW(one_thread_at_a_time_is_in_the_stores_sync),
        LAW(closing_waits_for_what_is_decided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
