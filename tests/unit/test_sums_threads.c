/* test_sums_threads.c -- sums while others write, write back, build and delete: what a reader may
 * see is bounded by what was acknowledged before it asked and what was sent by the end. */
#include "support/sums_world.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

#define BORN 20
#define LIVES 150u

static atomic_bool stopping;
static _Atomic int64_t acked;
static _Atomic int64_t sent;

static void *tend_main(void *context)
{
    (void)context;
    while (!stopping)
        store_tend(heart->store);
    return NULL;
}

/* All that was acknowledged before, and nothing that was not sent by the end. */
static void *read_main(void *context)
{
    while (!stopping) {
        struct range_sum found;
        int64_t least = acked;
        enum err e =
            view_sum(&heart->store->view, context, INT64_MIN, INT64_MAX, UINT32_MAX, &found);
        must(e == ERR_OK);
        must(found.added >= least);
        must(found.added <= sent);
    }
    return NULL;
}

/* The counter comes whole, has one more added and goes again. */
static void *read_lives_main(void *context)
{
    while (!stopping) {
        struct range_sum found;
        enum err e =
            view_sum(&heart->store->view, context, INT64_MIN, INT64_MAX, UINT32_MAX, &found);
        must(e == ERR_OK);
        must(found.added == 0 || found.added == BORN || found.added == BORN + 1);
    }
    return NULL;
}

static pthread_t threads[5];

static void start_threads(void *(*read)(void *), struct cell_ref *ref)
{
    void *(*const mains[])(void *) = {heart_commit_main, heart_sync_main, tend_main, read, read};
    void *contexts[] = {heart, heart, NULL, ref, ref};
    stopping = false;
    for (unsigned i = 0; i < ARRAY_COUNT(mains); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, mains[i], contexts[i]), 0);
}

static void stop_threads(void)
{
    queue_stop(heart->queue);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    acked = sent;
    for (unsigned i = 0; i < 100; i++)
        sched_yield();
    stopping = true;
    for (unsigned i = 2; i < ARRAY_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
}

/* The simulated disk knows one thread only. */
static void start_on_the_real_disk(void)
{
    heart_free(heart);
    heart = heart_new((struct heart_config){
        .store = "embedded", .cache_bytes = 65536, .checkpoint_bytes = 16384});
}

#define ROUNDS 1500u

static void sums_are_between_what_was_acknowledged_and_what_was_sent(void **state)
{
    start_on_the_real_disk();
    have_nodes(3);
    struct cell_ref ref = heart_ref(heart, "minutes", DURATION);
    acked = sent = (int64_t)sum(INT64_MIN, INT64_MAX).added;
    start_threads(read_main, &ref);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct op op = make(OP_INCREMENT, (unsigned)(hash_mix(i) % BUCKETS), 1);
        sent++;
        heart_send(heart, (struct bundle){.urgency = URGENCY_URGENT}, &op, 1);
        if (i % 8 == 7) sched_yield();
    }
    stop_threads();
    assert_true(sum(INT64_MIN, INT64_MAX).added == sent);
    look();
}

/* Its stored cells go before or after the newer ones, but nobody sees half of them. */
static void a_counter_that_dies_is_summed_whole_or_not_at_all(void **state)
{
    start_on_the_real_disk();
    struct cell_ref ref = heart_ref(heart, "minutes", DURATION);
    struct op ops[BORN];
    start_threads(read_lives_main, &ref);
    for (unsigned i = 0; i < LIVES; i++) {
        for (unsigned k = 0; k < BORN; k++)
            ops[k] = make(OP_INCREMENT, k, 1);
        heart_send(heart, (struct bundle){.urgency = URGENCY_URGENT, .atomic = true}, ops, BORN);
        usleep(i % 3 * 1000); /* for a checkpoint */
        heart_send(heart, (struct bundle){.urgency = URGENCY_URGENT}, ops, 1);
        ops[0].kind = OP_DELETE;
        heart_send(heart, (struct bundle){.urgency = URGENCY_URGENT}, ops, 1);
    }
    stop_threads();
    assert_true(sum(INT64_MIN, INT64_MAX).added == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SUMS(sums_are_between_what_was_acknowledged_and_what_was_sent),
        SUMS(a_counter_that_dies_is_summed_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
