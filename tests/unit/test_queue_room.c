/* test_queue_room.c -- the queues of all lanes are bounded together, as one queue is alone. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>

#include "commit/queue.h"

#define QUEUES 4
#define ROUNDS 200000

static struct queue_room room;
static struct queue *queues[QUEUES];
static const struct queue_limits limits = {
    .ops_max = 100,
    .tenant_ops_max = 80,
    .urgent_ops_max = 10,
    .bytes_max = 1000,
    .tenant_bytes_max = 800,
};

static int setup(void **state)
{
    room = (struct queue_room){.shared = true};
    for (unsigned i = 0; i < QUEUES; i++)
        queues[i] = queue_new(&limits, &room);
    return 0;
}

static int teardown(void **state)
{
    for (unsigned i = 0; i < QUEUES; i++)
        queue_free(queues[i]);
    for (unsigned i = 0; i < ROOM_KINDS; i++)
        assert_int_equal(room_used(&room, i), 0);
    return 0;
}

static struct bundle bundle_of(const char *tenant, uint32_t count, size_t bytes)
{
    return (struct bundle){.tenant = bytes_str(tenant), .count = count, .bytes = bytes};
}

static void answer(struct queue *queue, struct bundle *bundle)
{
    struct slice slices[8];
    uint32_t count = queue_take(queue, slices, UINT32_MAX);
    assert_int_equal(bundle->taken, bundle->count);
    assert_ptr_equal(slices[count - 1].bundle, bundle);
    queue_done(queue, bundle);
}

static void ops_are_bounded_over_all_queues(void **state)
{
    struct bundle a = bundle_of("a", 80, 0), b = bundle_of("b", 20, 0), c = bundle_of("c", 1, 0);
    assert_int_equal(queue_push(queues[0], &a), ERR_OK);
    assert_int_equal(queue_push(queues[1], &b), ERR_OK);
    assert_int_equal(queue_push(queues[2], &c), ERR_QUEUE_FULL);
    assert_int_equal(queue_depth(queues[1]), 20); /* what each has is still known */
    answer(queues[0], &a);
    assert_int_equal(queue_push(queues[2], &c), ERR_OK);
    answer(queues[1], &b);
    answer(queues[2], &c);
}

static void bytes_are_bounded_over_all_queues(void **state)
{
    struct bundle a = bundle_of("a", 1, 800), b = bundle_of("b", 1, 201),
                  c = bundle_of("c", 1, 200);
    assert_int_equal(queue_push(queues[0], &a), ERR_OK);
    assert_int_equal(queue_push(queues[1], &b), ERR_QUEUE_FULL);
    assert_int_equal(room_used(&room, ROOM_OPS), 1); /* it took no place for its op either */
    assert_int_equal(queue_push(queues[1], &c), ERR_OK);
    answer(queues[0], &a);
    answer(queues[1], &c);
}

static void urgent_ops_are_bounded_over_all_queues(void **state)
{
    struct bundle a = bundle_of("a", 8, 0), b = bundle_of("b", 3, 0), large = bundle_of("c", 50, 0);
    a.urgency = b.urgency = large.urgency = URGENCY_URGENT;
    assert_int_equal(queue_push(queues[0], &a), ERR_OK);
    assert_int_equal(queue_push(queues[1], &b), ERR_BUSY);
    assert_int_equal(queue_push(queues[2], &large), ERR_BUSY);
    answer(queues[0], &a);
    assert_int_equal(queue_push(queues[2], &large), ERR_OK); /* where nothing else is */
    answer(queues[2], &large);
}

static void a_tenants_share_is_counted_in_its_own_queue(void **state)
{
    struct bundle a = bundle_of("a", 80, 0), more = bundle_of("a", 1, 0), b = bundle_of("b", 1, 0);
    assert_int_equal(queue_push(queues[0], &a), ERR_OK);
    assert_int_equal(queue_push(queues[0], &more), ERR_QUEUE_FULL);
    assert_int_equal(queue_push(queues[1], &b), ERR_OK);
    answer(queues[0], &a);
    answer(queues[1], &b);
}

static void what_is_unbounded_goes_in_and_is_counted(void **state)
{
    struct bundle a = bundle_of("a", 80, 0), b = bundle_of(" care", 50, 2000),
                  c = bundle_of("c", 1, 0);
    b.unbounded = true;
    assert_int_equal(queue_push(queues[0], &a), ERR_OK);
    assert_int_equal(queue_push(queues[1], &b), ERR_OK);
    assert_int_equal(queue_push(queues[2], &c), ERR_QUEUE_FULL);
    assert_int_equal(room_used(&room, ROOM_OPS), 130);
    answer(queues[0], &a);
    answer(queues[1], &b);
}

static pthread_barrier_t begin;

static void *fill(void *context)
{
    pthread_barrier_wait(&begin);
    struct queue *queue = context;
    struct slice slice;
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct bundle bundle = bundle_of("t", 40, 400);
        if (queue_push(queue, &bundle) != ERR_OK) {
            sched_yield();
            continue;
        }
        must(room_used(&room, ROOM_OPS) <= limits.ops_max);
        must(room_used(&room, ROOM_BYTES) <= limits.bytes_max);
        must(queue_take(queue, &slice, UINT32_MAX) == 1);
        queue_done(queue, &bundle);
    }
    return NULL;
}

static void queues_that_fill_at_once_never_pass_a_bound(void **state)
{
    pthread_t threads[QUEUES];
    pthread_barrier_init(&begin, NULL, QUEUES);
    for (unsigned i = 0; i < QUEUES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fill, queues[i]), 0);
    for (unsigned i = 0; i < QUEUES; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&begin);
}

#define SHARED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SHARED(ops_are_bounded_over_all_queues),
        SHARED(bytes_are_bounded_over_all_queues),
        SHARED(urgent_ops_are_bounded_over_all_queues),
        SHARED(a_tenants_share_is_counted_in_its_own_queue),
        SHARED(what_is_unbounded_goes_in_and_is_counted),
        SHARED(queues_that_fill_at_once_never_pass_a_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
