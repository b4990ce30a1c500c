/* test_sums.c -- higher-level sums: in every state of the store each node is the sum of its stored
 * cells, and a range sum is what an array of plain integers says, whatever happens to cells and
 * nodes in between. */
#include "support/sums_world.h"

#include <signal.h>
#include <sys/resource.h>

/* ---- built, read, kept up ---- */

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
    have_nodes(1);
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
    struct range_sum before = sum(bucket_of(0) + 1, -1);
    struct range_sum after = sum(-1, bucket_of(BUCKETS - 1) - 1);
    assert_true(before.added + after.added == inside.added);
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

/* A node could not follow a cell that is over without a batch that says so. */
static void an_exact_expiry_takes_the_nodes_away(void **state)
{
    have_nodes(1);
    struct op op = make(OP_INCREMENT, SIDE, 5);
    op.expiry = EXPIRY_AT;
    op.expires_ms = heart->time->wall_ms + 1000000;
    do_ok(op);
    model.added[SIDE] += 5;
    expect_sums(1);
    assert_true(heart_checkpoint(heart));
    assert_int_equal(look().marks, 0);
    expect_sums(2); /* which asks for nodes: the build is given up */
    heart_tend(heart);
    assert_int_equal(look().marks, 0);
    struct range_sum sum;
    struct cell_ref ref = heart_ref(heart, "minutes", DURATION);
    ref.now_ms = op.expires_ms;
    assert_int_equal(
        view_sum(&heart->store->view, &ref, bucket_of(SIDE), bucket_of(SIDE), UINT32_MAX, &sum),
        ERR_OK);
    assert_true(sum.added == 0);
    struct op lasting = make(OP_DEADLINE, SIDE, 0);
    lasting.expiry = EXPIRY_NONE;
    do_ok(lasting);
    assert_true(heart_checkpoint(heart));
    expect_sums(3);
    heart_tend(heart);
    assert_int_equal(look().marks, 1);
    expect_sums(4);
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
        assert_int_equal(store_due(store, 0, NULL, &left), ERR_OK); /* writes cells back */
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
        heart_send(heart, (struct bundle){0}, ops, count);
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
        store_tend(heart->store);
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
    store_tend(heart->store);
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
    store_tend(heart->store);
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

static void a_node_that_is_less_than_its_cells_is_made_anew(void **state)
{
    have_nodes(1);
    char key[NODE_KEY_SIZE];
    struct buf value;
    buf_init(&value, 64);
    node_record(&value, &(struct range_sum){0});
    forge(node_key(key, series_id(), 2, 0), buf_bytes(&value));
    buf_release(&value);
    expire(SIDE + 1);
    expire(SIDE + 2);
    heart_checkpoint(heart);
    expect_sums(1);
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

/* On a slow machine RocksDB has flushed both by itself before it is closed, once it may write
 * again: then both are there. */
static void a_mark_that_was_not_flushed_is_lost_with_its_nodes(void **state)
{
    fill(1);
    assert_true(heart_checkpoint(heart));
    expect_sum(0, BUCKETS - 1);
    heart_tend(heart);
    assert_true(is_marked());
    fail_a_checkpoint();
    heart_tend(heart); /* reopens */
    assert_int_equal(look().nodes > 0, is_marked());
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

int main(void)
{
    signal(SIGXFSZ, SIG_IGN); /* an error will do */
    const struct CMUnitTest tests[] = {
        SUMS(a_long_sum_has_its_nodes_built_and_uses_them),
        SUMS(a_short_sum_asks_for_nothing),
        SUMS(any_ends_of_the_range_will_do),
        SUMS(sums_past_64_bits_are_exact),
        SUMS(an_exact_expiry_takes_the_nodes_away),
        SUMS(sums_follow_every_change_over_checkpoints_and_crashes),
        SUMS(a_crash_after_write_back_without_a_checkpoint_counts_nothing_twice),
        SUMS(nodes_die_with_their_series),
        SUMS(cells_change_while_their_nodes_are_built),
        SUMS(a_build_that_was_cut_off_is_begun_again),
        SUMS(a_build_that_was_cut_off_goes_with_its_series),
        SUMS(a_damaged_node_is_made_anew),
        SUMS(a_node_that_is_less_than_its_cells_is_made_anew),
        SUMS(a_mark_that_was_not_flushed_is_lost_with_its_nodes),
        SUMS(a_state_that_is_reopened_loses_cells_and_nodes_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
