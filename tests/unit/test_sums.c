/* test_sums.c -- higher-level sums: in every state of the store each node is the sum of its stored
 * cells, and a range sum is what an array of plain integers says, whatever happens to cells and
 * nodes in between. The array reaches over two nodes of the highest level to either side of 1970.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "store/embedded/internal.h"
#include "support/heart.h"

#define DURATION 60
#define TOP (SUMS_FAN * SUMS_FAN) /* buckets in a node of the highest level */
#define SIDE (2 * TOP + SUMS_FAN / 2 + 3)
#define BUCKETS (2 * SIDE)
#define JOB_OPS 500u

static struct heart *heart;

/* What every bucket must hold; index 0 is bucket -SIDE. */
static struct {
    int64_t added[BUCKETS];
    int64_t subbed[BUCKETS];
} model;

static int setup(void **state)
{
    heart = heart_new((struct heart_config){.store = "embedded", .simulated_disk = true});
    memset(&model, 0, sizeof model);
    return 0;
}

static int teardown(void **state)
{
    heart_free(heart);
    return 0;
}

static int64_t bucket_of(unsigned at)
{
    return ((int64_t)at - SIDE) * DURATION;
}

static struct op make(enum op_kind kind, unsigned at, int64_t amount)
{
    struct op op = ask(&heart->asks, kind, "minutes", amount);
    op.duration = DURATION;
    op.bucket = bucket_of(at);
    return op;
}

static void do_ok(struct op op)
{
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
}

static void add(unsigned at, int64_t amount)
{
    do_ok(make(OP_INCREMENT, at, amount));
    model.added[at] += amount;
}

static void take(unsigned at, int64_t amount)
{
    if (heart_do(heart, make(OP_DECREMENT, at, amount)).err == ERR_OK) model.subbed[at] += amount;
}

static void expire(unsigned at)
{
    struct op op = make(OP_INCREMENT, at, 1);
    op.expires_ms = heart->time->wall_ms + 1;
    do_ok(op);
    if (at % 2) heart_checkpoint(heart); /* stored before it goes, or not */
    heart_wait_ms(heart, 2);
    do_ok(make(OP_EXPIRE, at, 0));
    model.added[at] = model.subbed[at] = 0;
}

/* Some cells of every kind of place: all, or each third. */
static void fill(unsigned step)
{
    struct op ops[JOB_OPS];
    uint32_t count = 0;
    for (unsigned at = 0; at < BUCKETS; at += step) {
        model.added[at] += at % 7 + 1;
        ops[count++] = make(OP_INCREMENT, at, at % 7 + 1);
        if (count < JOB_OPS && at + step < BUCKETS) continue;
        assert_int_equal(heart_send(heart, (struct job){0}, ops, count)->pushed, ERR_OK);
        heart_run(heart);
        count = 0;
    }
}

static struct range_sum sum(int64_t from, int64_t to)
{
    struct range_sum sum;
    struct cell_ref ref = heart_ref(heart, "minutes", DURATION);
    assert_int_equal(heart->store->ops->sum(heart->store, &ref, from, to, &sum), ERR_OK);
    return sum;
}

/* Buckets from one index to another, both included. */
static void expect_sum(unsigned first, unsigned last)
{
    __int128 added = 0;
    __int128 subbed = 0;
    for (unsigned at = first; at <= last; at++) {
        added += model.added[at];
        subbed += model.subbed[at];
    }
    struct range_sum found = sum(bucket_of(first), bucket_of(last));
    if (found.added != added || found.subbed != subbed)
        fail_msg("buckets %u to %u: %lld - %lld, not %lld - %lld", first, last,
                 (long long)found.added, (long long)found.subbed, (long long)added,
                 (long long)subbed);
}

static void expect_sums(uint64_t seed)
{
    expect_sum(0, BUCKETS - 1);
    for (uint64_t i = 0; i < 12; i++) {
        unsigned a = (unsigned)(hash_mix(seed * 100 + i) % BUCKETS);
        unsigned b = (unsigned)(hash_mix(seed * 100 + i + 50) % BUCKETS);
        expect_sum(a < b ? a : b, a < b ? b : a);
    }
}

/* ---- what the state holds ---- */

static struct state *state_below(void)
{
    return embedded_of(heart->inner)->state;
}

struct rows {
    struct state_view *view;
    size_t marks;
    size_t nodes;
    struct range_sum sum; /* of the cells below one node */
};

static bool add_stored_cell(void *context, struct bytes key, struct bytes value)
{
    struct rows *rows = context;
    struct cell cell;
    assert_int_equal(cell_record_decode(value, &cell), ERR_OK);
    rows->sum.added += cell.added;
    rows->sum.subbed += cell.subbed;
    return true;
}

static bool check_row(void *context, struct bytes key, struct bytes value)
{
    struct rows *rows = context;
    struct range_sum node;
    if (key.size == MARK_KEY_SIZE) {
        rows->marks++;
        return true;
    }
    assert_int_equal(key.size, NODE_KEY_SIZE);
    assert_int_equal(node_record_decode(value, &node), ERR_OK);
    rows->nodes++;
    if (rows->marks == 0) return true;
    int64_t size = (int64_t)1 << (uint8_t)key.data[8] * SUMS_SHIFT;
    int64_t first = get_ordered_i64(key.data + 9) * size;
    char from[CELL_KEY_SIZE];
    char to[CELL_KEY_SIZE];
    uint64_t series = get_ordered_u64(key.data);
    rows->sum = (struct range_sum){0};
    assert_int_equal(
        state_view_scan(rows->view, STATE_CELLS, cell_key(from, series, first * DURATION),
                        cell_key(to, series, (first + size) * DURATION), add_stored_cell, rows),
        ERR_OK);
    assert_true(rows->sum.added == node.added && rows->sum.subbed == node.subbed);
    return true;
}

/* Every node there is fits its cells. That none is missing, the sums show. */
static struct rows look(void)
{
    struct rows rows = {0};
    assert_int_equal(state_view_new(&rows.view, state_below()), ERR_OK);
    assert_int_equal(
        state_view_scan(rows.view, STATE_SUMS, BYTES_NONE, BYTES_NONE, check_row, &rows), ERR_OK);
    state_view_free(rows.view);
    return rows;
}

/* Writes a row behind the store's back. */
static void forge(struct bytes key, struct bytes value)
{
    struct state_batch *batch = state_batch_new(state_below());
    state_batch_put(batch, STATE_SUMS, key, value);
    assert_int_equal(state_write(state_below(), batch), ERR_OK);
    state_batch_free(batch);
}

static uint64_t series_id(void)
{
    struct series series;
    struct bytes key = ask_counter(&heart->asks, "minutes");
    assert_int_equal(embedded_series(embedded_of(heart->inner), key, DURATION, &series), ERR_OK);
    return series.id;
}

static bool has_mark(uint64_t series)
{
    char key[MARK_KEY_SIZE];
    struct buf value;
    buf_init(&value, 64);
    enum err e = state_get(state_below(), STATE_SUMS, mark_key(key, series), &value);
    buf_release(&value);
    assert_true(e == ERR_OK || e == ERR_NOT_FOUND);
    return e == ERR_OK;
}

static bool is_marked(void)
{
    return has_mark(series_id());
}

static bool found_row(void *context, struct bytes key, struct bytes value)
{
    *(bool *)context = true;
    return false;
}

static bool has_rows(uint64_t series)
{
    char from[SERIES_KEY_SIZE];
    char to[SERIES_KEY_SIZE];
    bool any = has_mark(series);
    assert_int_equal(state_scan(state_below(), STATE_SUMS, series_key(from, series),
                                series_key(to, series + 1), found_row, &any),
                     ERR_OK);
    return any;
}

static void have_nodes(unsigned step)
{
    fill(step);
    assert_true(heart_checkpoint(heart));
    expect_sum(0, BUCKETS - 1);
    heart_tend(heart);
    assert_int_equal(look().marks, 1);
    assert_true(look().nodes > 5);
}

/* ---- tests ---- */

static void a_long_sum_has_its_nodes_built_and_uses_them(void **state)
{
    have_nodes(1);
    expect_sums(1);
    struct buf value;
    char key[NODE_KEY_SIZE];
    buf_init(&value, 64);
    node_record(&value, &(struct range_sum){1000000, 0});
    __int128 before = sum(INT64_MIN, INT64_MAX).added;
    forge(node_key(key, series_id(), 2, -1), buf_bytes(&value));
    __int128 after = sum(INT64_MIN, INT64_MAX).added;
    assert_true(after > before && after != before);
    assert_true(sum(-DURATION * (TOP - 1), INT64_MAX).added < after - 900000); /* not that node */
    buf_release(&value);
}

static void a_short_sum_asks_for_nothing(void **state)
{
    fill(1);
    assert_true(heart_checkpoint(heart));
    for (unsigned i = 0; i < 3; i++) {
        expect_sum(SIDE - SUMS_FAN / 2, SIDE + SUMS_FAN / 2);
        heart_tend(heart);
    }
    assert_int_equal(look().nodes + look().marks, 0);
}

static void any_ends_of_the_range_will_do(void **state)
{
    have_nodes(3);
    static const int64_t ends[] = {0,       1,   SUMS_FAN - 1, SUMS_FAN, SUMS_FAN + 1,
                                   TOP - 1, TOP, TOP + 1,      2 * TOP};
    for (size_t i = 0; i < ARRAY_COUNT(ends); i++) {
        for (size_t k = 0; k < ARRAY_COUNT(ends); k++) {
            expect_sum((unsigned)(SIDE - ends[i]), (unsigned)(SIDE + ends[k]));
            if (ends[i] < ends[k])
                expect_sum((unsigned)(SIDE + ends[i]), (unsigned)(SIDE + ends[k]));
        }
    }
    struct range_sum all = sum(INT64_MIN, INT64_MAX);
    struct range_sum inside = sum(bucket_of(0) + 1, bucket_of(BUCKETS - 1) - 1);
    assert_true(all.added - inside.added == model.added[0] + model.added[BUCKETS - 1]);
    assert_true(sum(1, DURATION - 1).added == 0);
    assert_true(sum(INT64_MAX, INT64_MIN).added == 0);
}

static void sums_past_64_bits_are_exact(void **state)
{
    have_nodes(1);
    for (unsigned i = 0; i < 5; i++)
        add(SIDE + i, INT64_MAX - 100);
    expect_sums(1);
    assert_true(heart_checkpoint(heart));
    expect_sums(2);
    look();
    heart_reopen(heart);
    expect_sums(3);
}

static void change_something(uint64_t dice)
{
    unsigned at = (unsigned)(hash_mix(dice) % BUCKETS);
    switch (dice % 6) {
    case 0:
        take(at, 1 + (int64_t)(dice % 3));
        break;
    case 1:
        expire(at);
        break;
    default:
        add(at, 1 + (int64_t)(dice % 1000));
    }
}

/* Late and early, new and gone, with checkpoints, write-backs without a flush, and crashes. */
static void sums_follow_every_change_over_checkpoints_and_crashes(void **state)
{
    have_nodes(3);
    for (uint64_t i = 0; i < 240; i++) {
        uint64_t dice = hash_mix(i + 77);
        change_something(dice >> 8);
        if (dice % 11 == 0) heart_checkpoint(heart);
        if (dice % 13 == 0) assert_int_equal(state_flush(state_below()), ERR_OK);
        if (dice % 29 == 0) heart_crash(heart, i);
        if (dice % 31 == 0) heart_reopen(heart);
        if (i % 8 == 0) expect_sums(i);
        if (i % 8 == 0) look();
    }
    assert_int_equal(look().marks, 1); /* it was summed all the time */
    expect_sums(1000);
}

/* The state may be newer than `applied`, so replay meets values that are written already. */
static void a_crash_after_write_back_without_a_checkpoint_counts_nothing_twice(void **state)
{
    have_nodes(1);
    for (unsigned i = 0; i < 40; i++) {
        unsigned left = UINT32_MAX;
        add(i * 3 % BUCKETS, 5);
        struct store *store = heart->store;
        assert_int_equal(store->ops->due(store, 0, NULL, &left), ERR_OK); /* writes cells back */
        if (i % 2) assert_int_equal(state_flush(state_below()), ERR_OK);
        if (i % 5 == 4) heart_crash(heart, i);
        look();
        expect_sums(i);
    }
    assert_true(heart_checkpoint(heart));
    look();
    expect_sums(99);
}

static void nodes_die_with_their_series(void **state)
{
    have_nodes(1);
    uint64_t old = series_id();
    do_ok(make(OP_DELETE, 0, 0));
    memset(&model, 0, sizeof model);
    expect_sums(1);
    add(5, 7); /* the counter again, another series */
    assert_true(series_id() != old);
    expect_sums(2);
    assert_true(has_rows(old));
    assert_true(heart_checkpoint(heart));
    assert_false(has_rows(old));
    expect_sums(3);
    sums_ask(embedded_of(heart->inner)->sums, old); /* a reader who was late */
    heart_tend(heart);
    assert_false(has_rows(old));
    have_nodes(1);
    expect_sums(4);
}

/* ---- building ---- */

#ifdef TALLY_SMALL_WORLD
#define STEPS_CELLS 100u
#else
#define STEPS_CELLS 36000u /* more than two steps */
#endif

static void fill_many(void)
{
    struct op ops[JOB_OPS];
    uint32_t count = 0;
    for (unsigned i = 0; i < STEPS_CELLS; i++) {
        ops[count] = make(OP_INCREMENT, 0, 1);
        ops[count++].bucket = (int64_t)i * DURATION;
        if (count < JOB_OPS && i + 1 < STEPS_CELLS) continue;
        heart_send(heart, (struct job){0}, ops, count);
        heart_run(heart);
        count = 0;
    }
    assert_true(heart_checkpoint(heart));
}

static int64_t sum_many(void)
{
    return (int64_t)sum(INT64_MIN, INT64_MAX).added;
}

static void increment_at(unsigned index)
{
    struct op op = make(OP_INCREMENT, 0, 1);
    op.bucket = (int64_t)index * DURATION;
    do_ok(op);
}

/* One that holds 1 and nobody else changes. */
static void remove_at(unsigned index)
{
    struct op op = make(OP_INCREMENT, 0, 1);
    op.bucket = (int64_t)index * DURATION;
    op.expires_ms = heart->time->wall_ms + 1;
    do_ok(op);
    heart_wait_ms(heart, 2);
    op.kind = OP_EXPIRE;
    do_ok(op);
}

/* Before and behind the place that the build has come to. */
static void cells_change_while_their_nodes_are_built(void **state)
{
    fill_many();
    int64_t expected = STEPS_CELLS;
    assert_int_equal(sum_many(), expected);
    for (unsigned step = 0; look().marks == 0; step++) {
        heart_wait_ms(heart, 60000); /* a checkpoint with every step */
        heart->store->ops->tend(heart->store);
        assert_true(look().nodes > 0);
        assert_true(step < 20);
        for (unsigned i = 0; i < 10; i++, expected++)
            increment_at((unsigned)(hash_mix(step * 10 + i) % (STEPS_CELLS - 20)));
        remove_at(STEPS_CELLS - 1 - step);
        expected--;
        assert_int_equal(sum_many(), expected);
        if (step == 0) assert_int_equal(look().marks, 0);
    }
    assert_true(heart_checkpoint(heart));
    look();
    assert_int_equal(sum_many(), expected);
}

static void a_build_that_was_cut_off_is_begun_again(void **state)
{
    fill_many();
    int64_t expected = STEPS_CELLS;
    assert_int_equal(sum_many(), expected);
    heart->store->ops->tend(heart->store);
    assert_true(look().nodes > 0);
    assert_int_equal(state_flush(state_below()), ERR_OK);
    heart_crash(heart, 1);
    assert_true(look().nodes > 0);
    assert_int_equal(look().marks, 0);
    for (unsigned i = 0; i < 10; i++, expected++)
        increment_at(i); /* the nodes left behind do not know of it */
    assert_true(heart_checkpoint(heart));
    assert_int_equal(sum_many(), expected);
    heart_tend(heart);
    assert_int_equal(look().marks, 1);
    assert_int_equal(sum_many(), expected);
}

static void a_build_that_was_cut_off_goes_with_its_series(void **state)
{
    fill_many();
    sum_many();
    heart->store->ops->tend(heart->store);
    assert_int_equal(state_flush(state_below()), ERR_OK);
    heart_crash(heart, 1);
    assert_true(look().nodes > 0);
    do_ok(make(OP_DELETE, 0, 0));
    assert_true(heart_checkpoint(heart));
    assert_int_equal(look().nodes, 0);
}

/* ---- what goes wrong ---- */

static void a_damaged_node_is_made_anew(void **state)
{
    have_nodes(1);
    char key[NODE_KEY_SIZE];
    forge(node_key(key, series_id(), 1, 0), BYTES("\x09garbage"));
    add(SIDE, 1); /* in this node */
    add(0, 1);    /* in another */
    assert_true(heart_checkpoint(heart));
    assert_false(is_marked());
    expect_sums(1); /* from cells, and asks */
    heart_tend(heart);
    assert_int_equal(look().marks, 1);
    expect_sums(2);
}

static void limit_file_size(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void fail_a_checkpoint(void)
{
    for (unsigned i = 0; i < 30; i++)
        add(i * 5 % BUCKETS, 3);
    limit_file_size(64);
    assert_false(heart_checkpoint(heart));
    limit_file_size(RLIM_INFINITY);
}

static void a_mark_that_was_not_flushed_is_lost_with_its_nodes(void **state)
{
    fill(1);
    assert_true(heart_checkpoint(heart));
    expect_sum(0, BUCKETS - 1);
    heart_tend(heart);
    assert_true(is_marked());
    fail_a_checkpoint();
    heart_tend(heart); /* reopens */
    assert_false(is_marked());
    assert_int_equal(look().nodes, 0);
    add(7, 1);
    assert_true(heart_checkpoint(heart));
    expect_sums(1);
    heart_tend(heart);
    assert_true(is_marked());
    look();
    expect_sums(2);
}

static void a_state_that_is_reopened_loses_cells_and_nodes_together(void **state)
{
    have_nodes(1);
    assert_int_equal(state_flush(state_below()), ERR_OK);
    for (unsigned round = 0; round < 3; round++) {
        fail_a_checkpoint();
        expect_sums(round);
        heart_tend(heart);
        assert_int_equal(look().marks, 1);
        expect_sums(round + 10);
        assert_true(heart_checkpoint(heart));
        assert_int_equal(look().marks, 1);
        expect_sums(round + 20);
    }
}

/* ---- all threads at once ---- */

static atomic_bool stopping;
static _Atomic int64_t acked;
static _Atomic int64_t sent;

static void *commit_main(void *context)
{
    (void)context;
    while (queue_wait(heart->queue))
        commit_turn(heart->commit);
    commit_close(heart->commit);
    return NULL;
}

static void *sync_main(void *context)
{
    (void)context;
    while (commit_sync(heart->commit))
        ;
    return NULL;
}

static void *tend_main(void *context)
{
    (void)context;
    while (!stopping)
        heart->store->ops->tend(heart->store);
    return NULL;
}

/* All that was acknowledged before, and nothing that was not sent by the end. */
static void *read_main(void *context)
{
    while (!stopping) {
        struct range_sum found;
        int64_t least = acked;
        enum err e = heart->store->ops->sum(heart->store, context, INT64_MIN, INT64_MAX, &found);
        must(e == ERR_OK);
        must(found.added >= least);
        must(found.added <= sent);
    }
    return NULL;
}

#define ROUNDS 1500u

static void sums_are_between_what_was_acknowledged_and_what_was_sent(void **state)
{
    heart_free(heart); /* the simulated disk knows one thread only */
    heart = heart_new((struct heart_config){
        .store = "embedded", .cache_bytes = 65536, .checkpoint_bytes = 16384});
    have_nodes(3);
    struct cell_ref ref = heart_ref(heart, "minutes", DURATION);
    static void *(*const mains[])(void *) = {read_main, read_main, tend_main, commit_main,
                                             sync_main};
    pthread_t threads[5];
    stopping = false;
    acked = sent = (int64_t)sum(INT64_MIN, INT64_MAX).added;
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, mains[i], &ref), 0);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct op op = make(OP_INCREMENT, (unsigned)(hash_mix(i) % BUCKETS), 1);
        sent++;
        heart_send(heart, (struct job){.lane = LANE_SYNC}, &op, 1);
        if (i % 8 == 7) sched_yield();
    }
    queue_stop(heart->queue);
    pthread_join(threads[3], NULL);
    pthread_join(threads[4], NULL);
    acked = sent;
    for (unsigned i = 0; i < 100; i++)
        sched_yield();
    stopping = true;
    for (unsigned i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_true(sum(INT64_MIN, INT64_MAX).added == sent);
    look();
}

#define SUMS(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    signal(SIGXFSZ, SIG_IGN); /* an error will do */
    const struct CMUnitTest tests[] = {
        SUMS(a_long_sum_has_its_nodes_built_and_uses_them),
        SUMS(a_short_sum_asks_for_nothing),
        SUMS(any_ends_of_the_range_will_do),
        SUMS(sums_past_64_bits_are_exact),
        SUMS(sums_follow_every_change_over_checkpoints_and_crashes),
        SUMS(a_crash_after_write_back_without_a_checkpoint_counts_nothing_twice),
        SUMS(nodes_die_with_their_series),
        SUMS(cells_change_while_their_nodes_are_built),
        SUMS(a_build_that_was_cut_off_is_begun_again),
        SUMS(a_build_that_was_cut_off_goes_with_its_series),
        SUMS(a_damaged_node_is_made_anew),
        SUMS(a_mark_that_was_not_flushed_is_lost_with_its_nodes),
        SUMS(a_state_that_is_reopened_loses_cells_and_nodes_together),
        SUMS(sums_are_between_what_was_acknowledged_and_what_was_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
