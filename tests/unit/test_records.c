/* test_records.c -- the rows of the state: there and back, in order, and nothing else accepted. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/embedded/state/records.h"

static struct buf buf;
static struct arena arena;

static int setup(void **state)
{
    buf_init(&buf, 4096);
    arena_init(&arena, 1024);
    return 0;
}

static int teardown(void **state)
{
    buf_release(&buf);
    arena_release(&arena);
    return 0;
}

/* ---- keys ---- */

static void cell_keys_sort_by_series_then_time(void **state)
{
    static const struct {
        uint64_t series;
        int64_t bucket;
    } sorted[] = {{1, INT64_MIN}, {1, -60}, {1, 0},   {1, 60},        {1, INT64_MAX},
                  {2, -60},       {2, 0},   {256, 0}, {UINT64_MAX, 0}};
    char left[CELL_KEY_SIZE];
    char right[CELL_KEY_SIZE];
    for (size_t i = 0; i < ARRAY_COUNT(sorted); i++) {
        uint64_t series;
        int64_t bucket;
        struct bytes key = cell_key(left, sorted[i].series, sorted[i].bucket);
        assert_int_equal(cell_key_decode(key, &series, &bucket), ERR_OK);
        assert_int_equal(series, sorted[i].series);
        assert_int_equal(bucket, sorted[i].bucket);
        for (size_t k = 0; k < ARRAY_COUNT(sorted); k++) {
            int order = bytes_compare(key, cell_key(right, sorted[k].series, sorted[k].bucket));
            assert_int_equal(i < k, order < 0);
        }
    }
}

static void series_keys_stand_before_the_keys_of_their_cells(void **state)
{
    char series[SERIES_KEY_SIZE];
    char next[SERIES_KEY_SIZE];
    char cell[CELL_KEY_SIZE];
    struct bytes key = cell_key(cell, 7, INT64_MAX);
    assert_true(bytes_compare(series_key(series, 7), key) < 0);
    assert_true(bytes_compare(key, series_key(next, 8)) < 0);
}

static void expiry_keys_sort_by_time_first(void **state)
{
    char left[EXPIRY_KEY_SIZE];
    char right[EXPIRY_KEY_SIZE];
    int64_t expires;
    uint64_t series;
    int64_t bucket;
    assert_true(bytes_compare(expiry_key(left, -5, 9, 9), expiry_key(right, 4, 1, -9)) < 0);
    assert_true(bytes_compare(expiry_key(left, 4, 1, 9), expiry_key(right, 4, 2, -9)) < 0);
    assert_int_equal(expiry_key_decode(bytes_of(left, sizeof left), &expires, &series, &bucket),
                     ERR_OK);
    assert_int_equal(expires, 4);
    assert_int_equal(series, 1);
    assert_int_equal(bucket, 9);
}

static void node_keys_sort_by_series_then_level_then_time(void **state)
{
    static const struct {
        uint64_t series;
        uint8_t level;
        int64_t index;
    } sorted[] = {{1, 1, INT64_MIN}, {1, 1, -1}, {1, 1, 0}, {1, 1, INT64_MAX}, {1, 2, -5},
                  {1, 2, 0},         {2, 1, -9}, {2, 2, 0}, {UINT64_MAX, 1, 0}};
    char left[NODE_KEY_SIZE];
    char right[NODE_KEY_SIZE];
    for (size_t i = 1; i < ARRAY_COUNT(sorted); i++) {
        struct bytes before =
            node_key(left, sorted[i - 1].series, sorted[i - 1].level, sorted[i - 1].index);
        struct bytes after = node_key(right, sorted[i].series, sorted[i].level, sorted[i].index);
        assert_true(bytes_compare(before, after) < 0);
    }
}

static void marks_stand_before_all_nodes(void **state)
{
    char left[MARK_KEY_SIZE];
    char right[NODE_KEY_SIZE];
    uint64_t series;
    struct bytes mark = mark_key(left, UINT64_MAX);
    assert_true(bytes_compare(mark, node_key(right, 1, 1, INT64_MIN)) < 0);
    assert_int_equal(mark_key_decode(mark, &series), ERR_OK);
    assert_true(series == UINT64_MAX);
    left[7] = 1;
    assert_int_equal(mark_key_decode(mark, &series), ERR_CORRUPT);
    assert_int_equal(mark_key_decode(node_key(right, 0, 1, 1), &series), ERR_CORRUPT);
}

static void keys_of_another_size_are_refused(void **state)
{
    char bytes[64] = {0};
    uint64_t series;
    int64_t a;
    int64_t b;
    for (size_t size = 0; size < sizeof bytes; size++) {
        if (size != CELL_KEY_SIZE)
            assert_int_equal(cell_key_decode(bytes_of(bytes, size), &series, &a), ERR_CORRUPT);
        if (size != EXPIRY_KEY_SIZE)
            assert_int_equal(expiry_key_decode(bytes_of(bytes, size), &a, &series, &b),
                             ERR_CORRUPT);
    }
}

/* ---- values ---- */

/* Every value cut short, too long or of another format is refused. */
typedef enum err decode_fn(struct bytes value);

static void expect_only_whole(decode_fn *decode)
{
    assert_int_equal(decode(buf_bytes(&buf)), ERR_OK);
    for (size_t size = 0; size < buf.size; size++)
        assert_int_equal(decode(bytes_of(buf.data, size)), ERR_CORRUPT);
    buf_add_char(&buf, 0);
    assert_int_equal(decode(buf_bytes(&buf)), ERR_CORRUPT);
    buf.size--;
    buf.data[0] += 2; /* cells have two */
    assert_int_equal(decode(buf_bytes(&buf)), ERR_CORRUPT);
    buf_reset(&buf);
}

static struct cell cell_back;

static enum err decode_cell(struct bytes value)
{
    return cell_record_decode(value, &cell_back);
}

static void cells_come_back(void **state)
{
    static const struct cell cells[] = {
        {0, 0, TIME_NONE, TIME_NONE, 0, true, false},
        {INT64_MAX, INT64_MAX, -1, TIME_NONE, INT64_MAX, true, false},
        {1000, 1, 1700000000000, TIME_NONE, -62135596800000, true, false},
        {1, 2, TIME_NONE, TIME_NONE, 1, true, false}, /* below zero: a rule may allow it */
        {5, 0, 1700000900000, 1700000000000, 1700000000001, true, false}, /* a window */
        {0, INT64_MAX, INT64_MAX, INT64_MIN + 1, INT64_MAX, true, false},
        {7, 2, 1700000900000, TIME_NONE, 1700000000001, true, true}, /* an exact expiry */
        {7, 2, INT64_MAX, TIME_NONE, INT64_MAX, true, true},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cells); i++) {
        cell_record(&buf, &cells[i]);
        assert_true(buf.size <= 64); /* the room that checkpoint.c has for one */
        assert_int_equal(decode_cell(buf_bytes(&buf)), ERR_OK);
        assert_int_equal(cell_back.added, cells[i].added);
        assert_int_equal(cell_back.subbed, cells[i].subbed);
        assert_int_equal(cell_back.expires_ms, cells[i].expires_ms);
        assert_int_equal(cell_back.start_ms, cells[i].start_ms);
        assert_int_equal(cell_back.updated_ms, cells[i].updated_ms);
        assert_true(cell_back.exists);
        assert_int_equal(cell_back.exact, cells[i].exact);
        expect_only_whole(decode_cell);
    }
}

/* As stored before there were exact expiries, and as it still is: added 5, subbed 1, updated 100, a
 * flag, expires 1000. */
static void a_cell_without_an_exact_expiry_is_stored_as_ever(void **state)
{
    const struct bytes old = BYTES("\x01\x0a\x02\xc8\x01\x01\xd0\x0f");
    cell_record(&buf, &(struct cell){5, 1, 1000, TIME_NONE, 100, true, false});
    assert_true(bytes_equal(buf_bytes(&buf), old));
    buf_reset(&buf);
    assert_int_equal(decode_cell(old), ERR_OK);
    assert_false(cell_back.exact);
    assert_int_equal(decode_cell(BYTES("\x02\x0a\x02\xc8\x01\x01\xd0\x0f")), ERR_OK);
    assert_true(cell_back.exact);
    assert_int_equal(decode_cell(BYTES("\x02\x0a\x02\xc8\x01\x00")), ERR_CORRUPT);
}

static void a_cell_that_is_none_is_refused(void **state)
{
    static const struct cell cells[] = {{1, -1, TIME_NONE, TIME_NONE, 0, true, false},
                                        {-1, 0, TIME_NONE, TIME_NONE, 0, true, false}};
    for (size_t i = 0; i < ARRAY_COUNT(cells); i++) {
        cell_record(&buf, &cells[i]);
        assert_int_equal(decode_cell(buf_bytes(&buf)), ERR_CORRUPT);
        buf_reset(&buf);
    }
    static const char flag_4[] = {1, 2, 2, 2, 4, 2};
    assert_int_equal(decode_cell(bytes_of(flag_4, sizeof flag_4)), ERR_CORRUPT);
}

static const struct counter *counter_back;

static enum err decode_counter(struct bytes value)
{
    return counter_record_decode(value, &arena, &counter_back);
}

static void counters_come_back(void **state)
{
    struct counter *counter = counter_with(&arena, NULL, (struct series){7, 1000, 60, 0});
    counter = counter_with(&arena, counter, (struct series){8, 0, 3600, 0});
    counter_record(&buf, counter);
    assert_int_equal(decode_counter(buf_bytes(&buf)), ERR_OK);
    assert_int_equal(counter_back->count, 2);
    assert_int_equal(counter_find(counter_back, 60)->id, 7);
    assert_int_equal(counter_find(counter_back, 60)->cells, 1000);
    assert_int_equal(counter_find(counter_back, 3600)->id, 8);
    expect_only_whole(decode_counter);
}

static int32_t duration_back;
static struct bytes key_back;

static enum err decode_series(struct bytes value)
{
    return series_record_decode(value, &duration_back, &key_back);
}

static void series_come_back(void **state)
{
    series_record(&buf, INT32_MAX, BYTES("acme\0dviews\0"));
    assert_int_equal(decode_series(buf_bytes(&buf)), ERR_OK);
    assert_int_equal(duration_back, INT32_MAX);
    assert_true(bytes_equal(key_back, BYTES("acme\0dviews\0")));
    expect_only_whole(decode_series);
    buf_add_char(&buf, 1);
    buf_add_varint(&buf, (uint64_t)UINT32_MAX + 1);
    buf_add_sized(&buf, BYTES("x"));
    assert_int_equal(decode_series(buf_bytes(&buf)), ERR_CORRUPT);
    buf_reset(&buf);
    series_record(&buf, -28924397, BYTES("acme\0dviews\0")); /* a day in UTC */
    assert_int_equal(decode_series(buf_bytes(&buf)), ERR_OK);
    assert_int_equal(duration_back, -28924397);
}

static struct range_sum node_back;

static enum err decode_node(struct bytes value)
{
    return node_record_decode(value, &node_back);
}

static void nodes_come_back(void **state)
{
    const __int128 most = (__int128)(~(unsigned __int128)0 >> 1);
    const struct range_sum sums[] = {{0, 0},
                                     {1, 300},
                                     {INT64_MAX, 0},
                                     {(__int128)1 << 64, ((__int128)5 << 64) + 7},
                                     {most, most}};
    for (size_t i = 0; i < ARRAY_COUNT(sums); i++) {
        node_record(&buf, &sums[i]);
        assert_true(buf.size <= 64); /* the room that sums.c has for one */
        assert_int_equal(decode_node(buf_bytes(&buf)), ERR_OK);
        assert_true(node_back.added == sums[i].added && node_back.subbed == sums[i].subbed);
        expect_only_whole(decode_node);
    }
    buf_add_char(&buf, 1); /* below zero */
    for (unsigned i = 0; i < 4; i++)
        buf_add_varint(&buf, i == 1 ? (uint64_t)1 << 63 : 0);
    assert_int_equal(decode_node(buf_bytes(&buf)), ERR_CORRUPT);
}

static enum err decode_mark(struct bytes value)
{
    return mark_record_decode(value, &duration_back);
}

static void marks_come_back(void **state)
{
    static const int32_t durations[] = {1, 60, INT32_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(durations); i++) {
        mark_record(&buf, durations[i]);
        assert_int_equal(decode_mark(buf_bytes(&buf)), ERR_OK);
        assert_int_equal(duration_back, durations[i]);
        expect_only_whole(decode_mark);
    }
    mark_record(&buf, 0);
    assert_int_equal(decode_mark(buf_bytes(&buf)), ERR_CORRUPT);
}

static int64_t tenant_back;

static enum err decode_tenant(struct bytes value)
{
    return tenant_record_decode(value, &tenant_back);
}

static void tenants_come_back(void **state)
{
    static const int64_t counts[] = {0, 1, 10000000, INT64_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(counts); i++) {
        tenant_record(&buf, counts[i]);
        assert_true(buf.size <= 16); /* the room that checkpoint.c has for one */
        assert_int_equal(decode_tenant(buf_bytes(&buf)), ERR_OK);
        assert_int_equal(tenant_back, counts[i]);
        expect_only_whole(decode_tenant);
    }
    tenant_record(&buf, -1);
    assert_int_equal(decode_tenant(buf_bytes(&buf)), ERR_CORRUPT);
}

static struct store_position position_back;

static enum err decode_position(struct bytes value)
{
    return position_record_decode(value, &position_back);
}

static void positions_come_back(void **state)
{
    static const struct store_position positions[] = {
        {.last_sequence = 0, .next_series = 1, .time_ms = INT64_MIN},
        {.last_sequence = UINT64_MAX, .next_series = UINT64_MAX, .time_ms = INT64_MAX},
        {.last_sequence = 300,
         .next_series = 7,
         .time_ms = 1700000000000,
         .hash = 0xfedcba9876543210}};
    for (size_t i = 0; i < ARRAY_COUNT(positions); i++) {
        position_record(&buf, &positions[i]);
        assert_true(buf.size <= 48);
        assert_int_equal(decode_position(buf_bytes(&buf)), ERR_OK);
        assert_memory_equal(&position_back, &positions[i], sizeof position_back);
        expect_only_whole(decode_position);
    }
}

/* What was written before there was a running hash. */
static void a_position_of_before_has_no_hash(void **state)
{
    assert_int_equal(decode_position(BYTES("\x01\x05\x03\x0c")), ERR_OK);
    assert_int_equal(position_back.last_sequence, 5);
    assert_int_equal(position_back.next_series, 3);
    assert_int_equal(position_back.time_ms, 6);
    assert_int_equal(position_back.hash, 0);
    assert_int_equal(decode_position(BYTES("\x03\x05\x03\x0c")), ERR_CORRUPT);
}

#define ROW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(cell_keys_sort_by_series_then_time),
        ROW(series_keys_stand_before_the_keys_of_their_cells),
        ROW(expiry_keys_sort_by_time_first),
        ROW(node_keys_sort_by_series_then_level_then_time),
        ROW(marks_stand_before_all_nodes),
        ROW(keys_of_another_size_are_refused),
        ROW(cells_come_back),
        ROW(a_cell_that_is_none_is_refused),
        ROW(a_cell_without_an_exact_expiry_is_stored_as_ever),
        ROW(counters_come_back),
        ROW(series_come_back),
        ROW(nodes_come_back),
        ROW(marks_come_back),
        ROW(tenants_come_back),
        ROW(positions_come_back),
        ROW(a_position_of_before_has_no_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
