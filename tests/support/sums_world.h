/* sums_world.h -- an embedded store with one counter of minutes, the plain integers it must hold,
 * and a look at the nodes in its state. The buckets reach over two nodes of the highest level to
 * either side of 1970. */
#ifndef TALLY_TESTS_SUPPORT_SUMS_WORLD_H
#define TALLY_TESTS_SUPPORT_SUMS_WORLD_H

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

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

static inline int setup(void **state)
{
    heart = heart_new((struct heart_config){.store = "embedded", .simulated_disk = true});
    memset(&model, 0, sizeof model);
    return 0;
}

static inline int teardown(void **state)
{
    heart_free(heart);
    return 0;
}

static inline int64_t bucket_of(unsigned at)
{
    return ((int64_t)at - SIDE) * DURATION;
}

static inline struct op make(enum op_kind kind, unsigned at, int64_t amount)
{
    struct op op = ask(&heart->asks, kind, "minutes", amount);
    op.duration = DURATION;
    op.bucket = bucket_of(at);
    return op;
}

static inline void do_ok(struct op op)
{
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
}

static inline void add(unsigned at, int64_t amount)
{
    do_ok(make(OP_INCREMENT, at, amount));
    model.added[at] += amount;
}

static inline void take(unsigned at, int64_t amount)
{
    if (heart_do(heart, make(OP_DECREMENT, at, amount)).err == ERR_OK) model.subbed[at] += amount;
}

static inline void expire(unsigned at)
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
static inline void fill(unsigned step)
{
    struct op ops[JOB_OPS];
    uint32_t count = 0;
    for (unsigned at = 0; at < BUCKETS; at += step) {
        model.added[at] += at % 7 + 1;
        ops[count++] = make(OP_INCREMENT, at, at % 7 + 1);
        if (count < JOB_OPS && at + step < BUCKETS) continue;
        assert_int_equal(heart_send(heart, (struct bundle){0}, ops, count)->pushed, ERR_OK);
        heart_run(heart);
        count = 0;
    }
}

static inline struct range_sum sum(int64_t from, int64_t to)
{
    struct range_sum sum;
    struct cell_ref ref = heart_ref(heart, "minutes", DURATION);
    assert_int_equal(view_sum(&heart->store->view, &ref, from, to, UINT32_MAX, &sum), ERR_OK);
    return sum;
}

/* Buckets from one index to another, both included. */
static inline void expect_sum(unsigned first, unsigned last)
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

static inline void expect_sums(uint64_t seed)
{
    expect_sum(0, BUCKETS - 1);
    for (uint64_t i = 0; i < 12; i++) {
        unsigned a = (unsigned)(hash_mix(seed * 100 + i) % BUCKETS);
        unsigned b = (unsigned)(hash_mix(seed * 100 + i + 50) % BUCKETS);
        expect_sum(a < b ? a : b, a < b ? b : a);
    }
}

/* ---- what the state holds ---- */

static inline struct state *state_below(void)
{
    return embedded_of(heart->inner)->state;
}

struct rows {
    struct state_view *view;
    size_t marks;
    size_t nodes;
    struct range_sum sum; /* of the cells below one node */
};

static inline bool add_stored_cell(void *context, struct bytes key, struct bytes value)
{
    struct rows *rows = context;
    struct cell cell;
    assert_int_equal(cell_record_decode(value, &cell), ERR_OK);
    rows->sum.added += cell.added;
    rows->sum.subbed += cell.subbed;
    return true;
}

static inline bool check_row(void *context, struct bytes key, struct bytes value)
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
static inline struct rows look(void)
{
    struct rows rows = {0};
    assert_int_equal(state_view_new(&rows.view, state_below()), ERR_OK);
    assert_int_equal(
        state_view_scan(rows.view, STATE_SUMS, BYTES_NONE, BYTES_NONE, check_row, &rows), ERR_OK);
    state_view_free(rows.view);
    return rows;
}

/* Writes a row behind the store's back. */
static inline void forge(struct bytes key, struct bytes value)
{
    struct state_batch *batch = state_batch_new(state_below());
    state_batch_put(batch, STATE_SUMS, key, value);
    assert_int_equal(state_write(state_below(), batch), ERR_OK);
    state_batch_free(batch);
}

static inline uint64_t series_id(void)
{
    struct series series;
    struct bytes key = ask_counter(&heart->asks, "minutes");
    assert_int_equal(embedded_series(embedded_of(heart->inner), key, DURATION, &series), ERR_OK);
    return series.id;
}

static inline bool has_mark(uint64_t series)
{
    char key[MARK_KEY_SIZE];
    struct buf value;
    buf_init(&value, 64);
    enum err e = state_get(state_below(), STATE_SUMS, mark_key(key, series), &value);
    buf_release(&value);
    assert_true(e == ERR_OK || e == ERR_NOT_FOUND);
    return e == ERR_OK;
}

static inline bool is_marked(void)
{
    return has_mark(series_id());
}

static inline bool found_row(void *context, struct bytes key, struct bytes value)
{
    *(bool *)context = true;
    return false;
}

static inline bool has_rows(uint64_t series)
{
    char from[SERIES_KEY_SIZE];
    char to[SERIES_KEY_SIZE];
    bool any = has_mark(series);
    assert_int_equal(state_scan(state_below(), STATE_SUMS, series_key(from, series),
                                series_key(to, series + 1), found_row, &any),
                     ERR_OK);
    return any;
}

static inline void have_nodes(unsigned step)
{
    fill(step);
    assert_true(heart_checkpoint(heart));
    expect_sum(0, BUCKETS - 1);
    heart_tend(heart);
    assert_int_equal(look().marks, 1);
    assert_true(look().nodes > 5);
}

#define SUMS(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
