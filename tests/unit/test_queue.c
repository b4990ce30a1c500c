/* test_queue.c -- bounded and fair: who gets into a batch, in what order, and who is refused.
 *
 * What a batch takes is written as text: "a2+1" is one op of bundle a from its third on. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "commit/queue_internal.h"
#include "support/panic.h"

#define JOBS_MAX 400
#define OPS_MAX 1000

static struct queue *queue;
static struct bundle bundles[JOBS_MAX];
static unsigned bundles_count;

/* What every queue here has, and the limits that a test is about. */
static void start(struct queue_limits limits)
{
    limits.ops_max = 1000;
    limits.tenant_ops_max = 800;
    limits.urgent_ops_max = 100;
    limits.bytes_max = 10000;
    queue = queue_new(&limits, NULL);
}

static void start_again(struct queue_limits limits)
{
    queue_free(queue);
    start(limits);
}

static int setup(void **state)
{
    start((struct queue_limits){0});
    bundles_count = 0;
    return 0;
}

static struct bundle *bundle_new(const char *tenant, char name, uint32_t count)
{
    struct bundle *bundle = &bundles[bundles_count++];
    must(bundles_count <= JOBS_MAX);
    *bundle = (struct bundle){
        .count = count, .tenant = bytes_str(tenant), .failed_index = (uint32_t)name};
    return bundle;
}

static struct bundle *push(const char *tenant, char name, uint32_t count)
{
    struct bundle *bundle = bundle_new(tenant, name, count);
    assert_int_equal(queue_push(queue, bundle), ERR_OK);
    return bundle;
}

static struct bundle *push_whole(const char *tenant, char name, uint32_t count)
{
    struct bundle *bundle = bundle_new(tenant, name, count);
    bundle->whole = true;
    assert_int_equal(queue_push(queue, bundle), ERR_OK);
    return bundle;
}

static struct bundle *push_urgent(char name, uint32_t count, bool whole)
{
    struct bundle *bundle = bundle_new("s", name, count);
    bundle->urgency = URGENCY_URGENT;
    bundle->whole = whole;
    assert_int_equal(queue_push(queue, bundle), ERR_OK);
    return bundle;
}

/* Takes a batch and answers every bundle of which it was the last part. */
static const char *take(uint32_t ops_max)
{
    static char text[4000];
    struct slice slices[OPS_MAX];
    uint32_t count = queue_take(queue, slices, ops_max);
    text[0] = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t used = strlen(text);
        struct bundle *bundle = slices[i].bundle;
        snprintf(text + used, sizeof text - used, "%s%c%u+%u", i ? " " : "",
                 (int)bundle->failed_index, slices[i].first, slices[i].count);
        bundle->answered += slices[i].count;
        if (bundle->answered == bundle->count) queue_done(queue, bundle);
    }
    return text;
}

static int teardown(void **state)
{
    while (*take(OPS_MAX))
        ;
    queue_free(queue);
    return 0;
}

/* ---- small batches ---- */

static void nothing_joins_a_batch_that_has_enough(void **state)
{
    start_again((struct queue_limits){.enough_ops = 10});
    push("t", 'a', 8);
    push("t", 'b', 8);
    push("u", 'c', 1);
    assert_string_equal(take(100), "a0+8 b0+8");
    assert_string_equal(take(100), "c0+1");
}

static void a_whole_bundle_may_be_larger_than_enough(void **state)
{
    start_again((struct queue_limits){.enough_ops = 10});
    push("t", 'a', 5);
    push_whole("t", 'b', 95);
    push_whole("u", 'c', 96);
    assert_string_equal(take(100), "a0+5 b0+95");
    assert_string_equal(take(100), "c0+96");
    push_urgent('s', 60, true);
    assert_string_equal(take(100), "s0+60");
}

static void a_bound_cuts_what_may_be_cut_and_nothing_else(void **state)
{
    queue_bound(queue, 2);
    push("t", 'a', 5);
    push_whole("u", 'b', 7);
    push("u", 'c', 1);
    assert_string_equal(take(100), "a0+2");
    assert_string_equal(take(100), "b0+7");
    assert_string_equal(take(100), "a2+2");
    assert_string_equal(take(100), "c0+1 a4+1");
    queue_bound(queue, UINT32_MAX);
    push("t", 'a', 5);
    assert_string_equal(take(100), "a0+5");
}

static void urgent_bundles_leave_others_half_of_enough(void **state)
{
    start_again((struct queue_limits){.enough_ops = 10});
    push("t", 'a', 20);
    push_urgent('s', 20, false);
    assert_string_equal(take(100), "s0+5 a0+20");
    assert_string_equal(take(100), "s5+10");
    assert_string_equal(take(100), "s15+5");
}

static void where_one_is_enough_the_urgencies_take_turns(void **state)
{
    start_again((struct queue_limits){.enough_ops = 1});
    push_urgent('s', 3, false);
    push("t", 'a', 1);
    assert_string_equal(take(100), "s0+1");
    assert_string_equal(take(100), "a0+1");
    assert_string_equal(take(100), "s1+1");
}

/* ---- weights ---- */

static struct bundle *push_heavy(const char *tenant, char name, uint32_t count, size_t weight)
{
    static struct op ops[16][16];
    struct op *own = ops[bundles_count % ARRAY_COUNT(ops)];
    struct bundle *bundle = bundle_new(tenant, name, count);
    must(count <= ARRAY_COUNT(ops[0]));
    for (uint32_t i = 0; i < count; i++)
        own[i] = (struct op){.kind = OP_EVENT, .weight = weight};
    bundle->ops = own;
    bundle->weighty = true;
    assert_int_equal(queue_push(queue, bundle), ERR_OK);
    return bundle;
}

static void a_batch_holds_so_much_weight(void **state)
{
    start_again((struct queue_limits){.batch_weight_max = 100});
    push_heavy("t", 'a', 5, 30);
    push("t", 'b', 1);
    push_heavy("u", 'c', 1, 20);
    assert_string_equal(take(100), "a0+3"); /* 'c' would not fit beside it */
    assert_string_equal(take(100), "c0+1 a3+2 b0+1");
}

static void what_is_heavier_than_a_batch_goes_first_in_one(void **state)
{
    start_again((struct queue_limits){.batch_weight_max = 100});
    push("t", 'a', 1);
    push_heavy("t", 'b', 3, 500);
    assert_string_equal(take(100), "a0+1 b0+1");
    assert_string_equal(take(100), "b1+1");
    assert_string_equal(take(100), "b2+1");
}

static void a_whole_bundle_is_weighed_whole(void **state)
{
    start_again((struct queue_limits){.batch_weight_max = 100});
    push_heavy("t", 'a', 2, 30);
    push_heavy("t", 'b', 3, 30)->whole = true;
    push_heavy("t", 'c', 4, 60)->whole = true; /* heavier than any batch */
    assert_string_equal(take(100), "a0+2");
    assert_string_equal(take(100), "b0+3");
    assert_string_equal(take(100), "c0+4");
}

/* ---- bundles that go alone ---- */

static void prepare_nothing(struct bundle *bundle, int64_t time_ms)
{
    (void)bundle, (void)time_ms;
}

static void new_rules_go_alone(void **state)
{
    push("t", 'a', 3);
    push_urgent('b', 1, false);
    struct bundle *rules = bundle_new("", 'r', 5);
    static struct op ops[5];
    rules->ops = ops;
    rules->urgency = URGENCY_URGENT;
    rules->whole = rules->weighty = true;
    rules->rules = (struct rules *)rules; /* any will do */
    assert_int_equal(queue_push(queue, rules), ERR_OK);
    push_urgent('c', 1, false);
    assert_string_equal(take(4), "b0+1");
    assert_string_equal(take(4), "r0+5"); /* whatever its size */
    assert_string_equal(take(4), "c0+1 a0+3");
}

static void a_bundle_that_is_prepared_goes_alone(void **state)
{
    push("t", 'a', 3);
    struct bundle *bundle = bundle_new("", 'p', 1);
    static struct op ops[7];
    bundle->ops = ops;
    bundle->urgency = URGENCY_URGENT;
    bundle->prepare = prepare_nothing;
    assert_int_equal(queue_push(queue, bundle), ERR_OK);
    struct slice slices[8];
    assert_int_equal(queue_take(queue, slices, 8), 1);
    assert_ptr_equal(slices[0].bundle, bundle);
    bundle->count = 7; /* as the commit thread has it made */
    queue_done(queue, bundle);
    assert_int_equal(queue_depth(queue), 3);
    assert_string_equal(take(8), "a0+3");
    assert_int_equal(queue_depth(queue), 0);
}

/* ---- order and fairness ---- */

static void one_tenants_bundles_keep_their_order(void **state)
{
    push("t", 'a', 2);
    push("t", 'b', 1);
    push("t", 'c', 3);
    assert_string_equal(take(100), "a0+2 b0+1 c0+3");
    assert_string_equal(take(100), "");
}

static void a_bundle_is_cut_over_batches_in_order(void **state)
{
    struct bundle *bundle = push("t", 'a', 5);
    push("t", 'b', 1);
    assert_string_equal(take(2), "a0+2");
    assert_string_equal(take(2), "a2+2");
    assert_int_equal(queue_waiting(queue), 2);
    assert_int_equal(queue_depth(queue), 6); /* not answered, though mostly taken */
    assert_string_equal(take(2), "a4+1 b0+1");
    assert_int_equal(bundle->taken, 5);
    assert_int_equal(queue_depth(queue), 0);
}

static void tenants_take_turns_a_few_ops_at_a_time(void **state)
{
    push("big", 'a', 300);
    push("big", 'b', 1);
    push("small", 'c', 1);
    push("other", 'd', 70);
    assert_string_equal(take(OPS_MAX),
                        "a0+64 c0+1 d0+64 a64+64 d64+6 a128+64 a192+64 a256+44 b0+1");
}

static void a_tenant_that_came_late_does_not_wait_for_one_that_came_early(void **state)
{
    push("big", 'a', 700);
    assert_string_equal(take(64), "a0+64");
    push("small", 'b', 3);
    assert_string_equal(take(100), "a64+64 b0+3 a128+33");
    push("small", 'c', 3);
    assert_string_equal(take(64), "a161+64");
    assert_string_equal(take(64), "c0+3 a225+61"); /* its turn, though the batch before was full */
}

/* ---- urgencies ---- */

static enum err try_urgent(const char *tenant, uint32_t count)
{
    struct bundle *bundle = bundle_new(tenant, 'x', count);
    bundle->urgency = URGENCY_URGENT;
    enum err e = queue_push(queue, bundle);
    if (e != ERR_OK) bundles_count--;
    return e;
}

static void one_tenant_cannot_hold_all_of_the_urgent_places(void **state)
{
    start_again((struct queue_limits){.tenant_urgent_ops_max = 80});
    assert_int_equal(try_urgent("a", 80), ERR_OK);
    assert_int_equal(try_urgent("a", 1), ERR_BUSY);
    assert_int_equal(try_urgent("b", 20), ERR_OK);
    assert_int_equal(try_urgent("c", 1), ERR_BUSY);
    take(1000);
    assert_int_equal(try_urgent("a", 1), ERR_OK);  /* answered ones give their places back */
    assert_int_equal(try_urgent("b", 90), ERR_OK); /* what is larger than a share comes alone */
    assert_int_equal(try_urgent("b", 1), ERR_BUSY);
    take(1000);
}

static void urgent_bundles_go_first(void **state)
{
    push("t", 'a', 1);
    push_urgent('s', 2, false);
    push_urgent('t', 1, false);
    assert_string_equal(take(100), "s0+2 t0+1 a0+1");
}

static void urgent_bundles_take_at_most_half_while_others_wait(void **state)
{
    push("t", 'a', 50);
    push_urgent('s', 60, false);
    assert_string_equal(take(20), "s0+10 a0+10");
    assert_string_equal(take(60), "s10+30 a10+30");
    assert_string_equal(take(60), "s40+20 a40+10");
}

static void alone_urgent_bundles_take_it_all(void **state)
{
    push_urgent('s', 60, false);
    assert_string_equal(take(20), "s0+20");
    push("t", 'a', 1);
    assert_string_equal(take(1), "s20+1"); /* half of one is nothing: nobody would get in */
    assert_string_equal(take(100), "s21+39 a0+1");
}

/* ---- whole bundles ---- */

static void a_whole_bundle_comes_in_one_piece(void **state)
{
    push("t", 'a', 6);
    push_whole("t", 'b', 5);
    push("t", 'c', 1);
    assert_string_equal(take(10), "a0+6"); /* and c does not overtake b */
    assert_string_equal(take(10), "b0+5 c0+1");
}

static void a_whole_bundle_may_be_larger_than_a_turn(void **state)
{
    push_whole("t", 'a', 200);
    push("u", 'b', 1);
    assert_string_equal(take(300), "a0+200 b0+1");
}

static void a_whole_urgent_bundle_may_be_larger_than_its_half(void **state)
{
    push("t", 'a', 5);
    push_urgent('s', 10, true);
    assert_string_equal(take(10), "s0+10");
    push_urgent('t', 1, false);
    push_urgent('u', 9, true);
    assert_string_equal(take(10), "t0+1 a0+5");
    assert_string_equal(take(10), "u0+9");
}

/* Others fill what is left of the batch, and go on doing so. */
static unsigned batches_until(char name, uint32_t ops_max, void (*refill)(void))
{
    for (unsigned batches = 1; batches < 20; batches++) {
        if (strchr(take(ops_max), name)) return batches;
        refill();
    }
    fail_msg("it waits for ever");
    return 0;
}

static void refill_nothing(void)
{
}

/* Two others fill each batch exactly, so that the turn would never come to an empty one. */
static void a_whole_bundle_as_large_as_a_batch_is_not_starved_by_other_tenants(void **state)
{
    push("u", 'u', 400);
    push_whole("t", 'a', 128);
    push("v", 'v', 400);
    assert_true(batches_until('a', 128, refill_nothing) <= 2);
}

static void refill_urgent(void)
{
    push_urgent('s', 1, false);
}

static void a_whole_bundle_as_large_as_a_batch_is_not_starved_by_urgent_ones(void **state)
{
    push_urgent('s', 1, false);
    push_whole("t", 'a', 128);
    assert_true(batches_until('a', 128, refill_urgent) <= 2);
}

static void refill_sync_whole(void)
{
    push_urgent('s', 10, true);
}

static void whole_bundles_of_both_urgencies_take_turns(void **state)
{
    push_urgent('s', 10, true);
    push_whole("t", 'a', 10);
    assert_true(batches_until('a', 10, refill_sync_whole) <= 2);
    push_whole("t", 'b', 10);
    assert_true(batches_until('s', 10, refill_sync_whole) <= 2);
}

static void in_batches_of_one_the_urgencies_take_turns(void **state)
{
    push_urgent('s', 5, false);
    push("t", 'a', 2);
    assert_string_equal(take(1), "s0+1");
    assert_string_equal(take(1), "a0+1");
    assert_string_equal(take(1), "s1+1");
    assert_string_equal(take(1), "a1+1");
    assert_string_equal(take(3), "s2+3");
}

static void two_stuck_tenants_do_not_stop_the_others(void **state)
{
    push("w", 'w', 30);
    push_whole("t", 'a', 100);
    push_whole("u", 'b', 100);
    push("v", 'v', 10);
    assert_string_equal(take(100), "w0+30 v0+10");
    assert_string_equal(take(100), "a0+100");
    assert_string_equal(take(100), "b0+100");
}

/* ---- bounds ---- */

static enum err try_push(const char *tenant, uint32_t count, size_t bytes)
{
    struct bundle *bundle = bundle_new(tenant, 'x', count);
    bundle->bytes = bytes;
    enum err e = queue_push(queue, bundle);
    if (e != ERR_OK) bundles_count--;
    return e;
}

static void all_tenants_together_hold_so_many_ops(void **state)
{
    push("t", 'a', 600);
    push("u", 'b', 399);
    assert_int_equal(try_push("v", 2, 0), ERR_QUEUE_FULL);
    assert_int_equal(try_push("v", UINT32_MAX, 0), ERR_QUEUE_FULL); /* must not wrap */
    assert_int_equal(try_push("v", 1, 0), ERR_OK);
    assert_int_equal(try_push("w", 1, 0), ERR_QUEUE_FULL);
    assert_int_equal(queue_depth(queue), 1000);
}

static void one_tenant_holds_its_share_at_most(void **state)
{
    push("t", 'a', 800);
    assert_int_equal(try_push("t", 1, 0), ERR_QUEUE_FULL);
    assert_int_equal(try_push("u", 200, 0), ERR_OK);
}

static void a_refused_bundle_takes_no_place(void **state)
{
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(try_push("t", 801, 0), ERR_QUEUE_FULL);
    assert_int_equal(queue_depth(queue), 0);
    assert_string_equal(take(100), "");
    push("t", 'a', 800);
}

static void places_are_free_when_the_bundle_is_answered_not_when_it_is_taken(void **state)
{
    struct slice slices[OPS_MAX];
    struct bundle *bundle = push_whole("t", 'a', 800);
    assert_int_equal(queue_take(queue, slices, OPS_MAX), 1);
    assert_int_equal(try_push("t", 1, 0), ERR_QUEUE_FULL);
    queue_done(queue, bundle);
    assert_int_equal(try_push("t", 1, 0), ERR_OK);
}

static void bytes_are_bounded_too(void **state)
{
    assert_int_equal(try_push("t", 1, 10001), ERR_QUEUE_FULL);
    assert_int_equal(try_push("t", 1, 9000), ERR_OK);
    assert_int_equal(try_push("u", 1, 1001), ERR_QUEUE_FULL);
    assert_int_equal(try_push("u", 1, SIZE_MAX), ERR_QUEUE_FULL);
    assert_int_equal(try_push("u", 1, 1000), ERR_OK);
    take(100);
    assert_int_equal(try_push("u", 1, 10000), ERR_OK);
}

static void one_tenant_cannot_hold_all_the_bytes(void **state)
{
    start_again((struct queue_limits){.tenant_bytes_max = 8000});
    assert_int_equal(try_push("t", 1, 8001), ERR_QUEUE_FULL);
    assert_int_equal(try_push("t", 1, 7000), ERR_OK);
    assert_int_equal(try_push("t", 1, 1001), ERR_QUEUE_FULL);
    assert_int_equal(try_push("u", 1, 3000), ERR_OK);
    take(100);
    assert_int_equal(try_push("t", 1, 8000), ERR_OK);
}

static void a_queue_full_of_batched_ops_refuses_no_urgent_ones_S3_49(void **state)
{
    push("s", 'a', 800);
    push("u", 'b', 200);
    push_urgent('s', 10, false);
    assert_int_equal(queue_depth(queue), 1010);
}

static void urgent_ops_have_a_bound_of_its_own(void **state)
{
    push_urgent('s', 99, false);
    struct bundle *bundle = bundle_new("s", 'x', 2);
    bundle->urgency = URGENCY_URGENT;
    assert_int_equal(queue_push(queue, bundle), ERR_BUSY);
    push_urgent('t', 1, false);
    take(200);
    push_urgent('u', 150, false); /* larger than the bound, but there is no other */
}

static void a_list_of_bundles_is_pushed_and_the_refused_come_back_in_order(void **state)
{
    static const uint32_t counts[] = {500, 400, 300, 500, 1};
    struct bundle *first = NULL;
    struct bundle **end = &first;
    for (unsigned i = 0; i < 5; i++) {
        *end = bundle_new("t", (char)('a' + i), counts[i]);
        end = &(*end)->next;
    }
    struct bundle *refused;
    queue_push_all(queue, first, &refused);
    assert_int_equal(refused->failed_index, 'b');
    assert_int_equal(refused->err, ERR_QUEUE_FULL);
    assert_int_equal(refused->next->failed_index, 'd');
    assert_int_equal(refused->next->next->failed_index, 'e');
    assert_null(refused->next->next->next);
    assert_int_equal(queue_depth(queue), 800);
    assert_string_equal(take(64), "a0+64");
}

/* ---- waiting ---- */

static atomic_uint woken;

static void *wait_for_more(void *context)
{
    (void)context;
    while (queue_wait(queue)) {
        woken++;
        take(OPS_MAX);
    }
    return NULL;
}

static void eventually(unsigned count)
{
    for (unsigned i = 0; i < 2000 && woken < count; i++)
        usleep(1000);
    assert_int_equal(woken, count);
}

static void a_waiter_wakes_up_for_a_bundle_and_for_the_end(void **state)
{
    pthread_t thread;
    woken = 0;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_more, NULL), 0);
    usleep(10000);
    assert_int_equal(woken, 0);
    push("t", 'a', 1);
    eventually(1);
    usleep(10000);
    push_urgent('s', 1, false);
    eventually(2);
    queue_stop(queue);
    pthread_join(thread, NULL);
    assert_int_equal(woken, 2);
}

static void what_is_queued_is_still_taken_after_the_stop(void **state)
{
    push("t", 'a', 3);
    queue_stop(queue);
    assert_true(queue_wait(queue));
    assert_string_equal(take(2), "a0+2");
    assert_true(queue_wait(queue));
    assert_string_equal(take(2), "a2+1");
    assert_false(queue_wait(queue));
}

static void gathering_ends_when_enough_came_or_in_time(void **state)
{
    struct timespec before;
    struct timespec after;
    push("t", 'a', 3);
    clock_gettime(CLOCK_MONOTONIC, &before);
    queue_gather(queue, 3, 60 * 1000000000ll); /* there already */
    queue_gather(queue, 4, 20 * 1000000);
    clock_gettime(CLOCK_MONOTONIC, &after);
    int64_t ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    assert_in_range(ms, 19, 30000);
    queue_stop(queue);
    queue_gather(queue, 100, 60 * 1000000000ll); /* nobody waits any more */
}

#define FAIR(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* ---- queue_check: what is counted is what there is ---- */

static void count_one_too_many(void)
{
    queue->waiting_ops = queue->ops + 1;
    push("u", 'x', 1);
}

static void lose_the_ring(void)
{
    queue->ring_first = queue->ring_last = NULL;
    push("u", 'x', 1);
}

static void forget_a_urgent_bundle(void)
{
    queue->urgent = (struct fifo){0};
    push("u", 'x', 1);
}

static void answer_what_waits(void)
{
    queue_done(queue, &bundles[0]);
}

static void push_rules_among_others(void)
{
    struct bundle *bundle = bundle_new("t", 'r', 1);
    bundle->alone = true;
    must(queue_push(queue, bundle) == ERR_OK);
}

static void a_count_that_is_wrong_ends_the_process(void **state)
{
    push("t", 'a', 3);
    push_urgent('s', 2, true);
    expect_panic(count_one_too_many, "queue->waiting_ops <= queue->ops");
    expect_panic(lose_the_ring, "(queue->ring_first != NULL) == (queue->waiting_ops > 0)");
    expect_panic(forget_a_urgent_bundle,
                 "(queue->urgent.first != NULL) == (queue->waiting_urgent_ops > 0)");
    expect_panic(answer_what_waits, "bundle->taken > 0");
    expect_panic(push_rules_among_others, "!goes_alone(bundle)");
    assert_string_equal(take(100), "s0+2 a0+3");
}

static void charge_a_tenant_too_little(void)
{
    queue->ring_first->ops--;
    queue_depth(queue);
}

static void leave_the_ring_unmarked(void)
{
    queue->ring_first->in_ring = false;
    queue_depth(queue);
}

static void take_from_the_middle(void)
{
    bundles[1].taken = 1;
    queue_depth(queue);
}

static void keep_bytes_of_nobody(void)
{
    must(queue_take(queue, (struct slice[8]){0}, 100) == 2);
    queue_done(queue, &bundles[0]);
    queue_done(queue, &bundles[1]);
    queue->bytes = 1;
    push("u", 'x', 1);
}

static void misplace_a_tenant(void)
{
    queue->ring_first->name[0] = 'z';
    queue_depth(queue);
}

static void forget_the_last_bundle(void)
{
    bundles[0].next = NULL;
    queue_depth(queue);
}

static void slow_builds_count_tenants_and_bundles_anew(void **state)
{
    push("t", 'a', 3);
    push("t", 'b', 3);
    if (SLOW_CHECKS) {
        expect_panic(charge_a_tenant_too_little, "waiting <= tenant->ops");
        expect_panic(leave_the_ring_unmarked, "tenant->in_ring == (tenant->waiting.first != NULL)");
        expect_panic(take_from_the_middle, "bundle->taken == 0 || bundle == fifo->first");
        expect_panic(misplace_a_tenant, "== bucket");
        expect_panic(keep_bytes_of_nobody, "queue->bytes == 0 ||");
        expect_panic(forget_the_last_bundle, "bundle->next || bundle == fifo->last");
    }
    assert_string_equal(take(100), "a0+3 b0+3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAIR(nothing_joins_a_batch_that_has_enough),
        FAIR(a_bound_cuts_what_may_be_cut_and_nothing_else),
        FAIR(a_whole_bundle_may_be_larger_than_enough),
        FAIR(urgent_bundles_leave_others_half_of_enough),
        FAIR(where_one_is_enough_the_urgencies_take_turns),
        FAIR(a_batch_holds_so_much_weight),
        FAIR(what_is_heavier_than_a_batch_goes_first_in_one),
        FAIR(a_whole_bundle_is_weighed_whole),
        FAIR(new_rules_go_alone),
        FAIR(a_bundle_that_is_prepared_goes_alone),
        FAIR(one_tenants_bundles_keep_their_order),
        FAIR(a_bundle_is_cut_over_batches_in_order),
        FAIR(tenants_take_turns_a_few_ops_at_a_time),
        FAIR(a_tenant_that_came_late_does_not_wait_for_one_that_came_early),
        FAIR(one_tenant_cannot_hold_all_of_the_urgent_places),
        FAIR(urgent_bundles_go_first),
        FAIR(urgent_bundles_take_at_most_half_while_others_wait),
        FAIR(alone_urgent_bundles_take_it_all),
        FAIR(a_whole_bundle_comes_in_one_piece),
        FAIR(a_whole_bundle_may_be_larger_than_a_turn),
        FAIR(a_whole_urgent_bundle_may_be_larger_than_its_half),
        FAIR(a_whole_bundle_as_large_as_a_batch_is_not_starved_by_other_tenants),
        FAIR(a_whole_bundle_as_large_as_a_batch_is_not_starved_by_urgent_ones),
        FAIR(whole_bundles_of_both_urgencies_take_turns),
        FAIR(in_batches_of_one_the_urgencies_take_turns),
        FAIR(two_stuck_tenants_do_not_stop_the_others),
        FAIR(all_tenants_together_hold_so_many_ops),
        FAIR(one_tenant_holds_its_share_at_most),
        FAIR(a_refused_bundle_takes_no_place),
        FAIR(places_are_free_when_the_bundle_is_answered_not_when_it_is_taken),
        FAIR(bytes_are_bounded_too),
        FAIR(one_tenant_cannot_hold_all_the_bytes),
        FAIR(a_queue_full_of_batched_ops_refuses_no_urgent_ones_S3_49),
        FAIR(urgent_ops_have_a_bound_of_its_own),
        FAIR(a_list_of_bundles_is_pushed_and_the_refused_come_back_in_order),
        FAIR(a_waiter_wakes_up_for_a_bundle_and_for_the_end),
        FAIR(what_is_queued_is_still_taken_after_the_stop),
        FAIR(gathering_ends_when_enough_came_or_in_time),
        FAIR(a_count_that_is_wrong_ends_the_process),
        FAIR(slow_builds_count_tenants_and_bundles_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
