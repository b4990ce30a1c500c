/* test_counter.c -- lists of granularities: sorted, copied on change, and as bytes. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/counter.h"

static struct arena arena;
static struct buf bytes;

static int setup(void **state)
{
    arena_init(&arena, 1024);
    buf_init(&bytes, 4096);
    return 0;
}

static int teardown(void **state)
{
    arena_release(&arena);
    buf_release(&bytes);
    return 0;
}

static struct counter *counter_of(const int32_t *durations, uint32_t count)
{
    struct counter *counter = NULL;
    for (uint32_t i = 0; i < count; i++)
        counter =
            counter_with(&arena, counter, (struct series){100 + i, 10 * (1 + i), durations[i], 0});
    return counter;
}

static const int32_t durations[] = {3600, 0, INT32_MAX, 60, -28924397, INT32_MIN};

static void series_are_sorted_by_duration_whatever_the_order_they_came_in(void **state)
{
    const struct counter *counter = counter_of(durations, 6);
    static const int32_t sorted[] = {INT32_MIN, -28924397, 0, 60, 3600, INT32_MAX};
    static const uint64_t ids[] = {105, 104, 101, 103, 100, 102};
    assert_int_equal(counter->count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(counter->series[i].duration, sorted[i]);
        assert_int_equal(counter->series[i].id, ids[i]);
    }
}

static void find_finds_each_and_nothing_else(void **state)
{
    assert_null(counter_find(NULL, 0));
    for (uint32_t count = 1; count <= 4; count++) {
        const struct counter *counter = counter_of(durations, count);
        for (uint32_t i = 0; i < 4; i++) {
            const struct series *series = counter_find(counter, durations[i]);
            assert_int_equal(series != NULL, i < count);
            if (series) assert_int_equal(series->id, 100 + i);
        }
        assert_null(counter_find(counter, 1));
        assert_null(counter_find(counter, 61));
        assert_null(counter_find(counter, INT32_MAX - 1));
    }
}

static void cells_are_summed_over_all_series(void **state)
{
    assert_int_equal(counter_cells(NULL), 0);
    assert_int_equal(counter_cells(counter_of(durations, 4)), 10 + 20 + 30 + 40);
}

static void changes_make_copies_and_leave_the_old_list(void **state)
{
    const struct counter *old = counter_of(durations, 3);
    struct counter *copy = counter_copy(&arena, old);
    copy->series[0].cells = 99;
    const struct counter *more = counter_with(&arena, old, (struct series){7, 1, 60, 0});
    const struct counter *less = counter_without(&arena, old, 3600);
    assert_int_equal(old->count, 3);
    assert_int_equal(old->series[0].cells, 20);
    assert_int_equal(more->count, 4);
    assert_int_equal(counter_find(more, 60)->id, 7);
    assert_int_equal(less->count, 2);
    assert_null(counter_find(less, 3600));
    assert_non_null(counter_find(less, 0));
    assert_non_null(counter_find(less, INT32_MAX));
}

static void without_its_last_series_a_counter_is_none(void **state)
{
    assert_null(counter_without(&arena, counter_of(durations, 1), 3600));
}

static const struct counter *decode(struct bytes from, bool *whole_out)
{
    struct reader reader = reader_of(from);
    const struct counter *counter = counter_decode(&reader, &arena);
    assert_int_equal(counter == NULL, reader.failed);
    *whole_out = reader_left(&reader) == 0;
    return counter;
}

static void what_is_encoded_is_decoded(void **state)
{
    struct counter *counter = counter_of(durations, 6);
    counter->series[3] = (struct series){UINT64_MAX, INT64_MAX, 60, 0};
    counter->series[2].cells = 0;
    counter->series[4].until_ms = INT64_MAX;
    counter->series[0].until_ms = -1;
    counter_encode(&bytes, counter);
    bool whole;
    const struct counter *back = decode(buf_bytes(&bytes), &whole);
    assert_non_null(back);
    assert_true(whole);
    assert_int_equal(back->count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(back->series[i].id, counter->series[i].id);
        assert_int_equal(back->series[i].cells, counter->series[i].cells);
        assert_int_equal(back->series[i].duration, counter->series[i].duration);
        assert_int_equal(back->series[i].until_ms, counter->series[i].until_ms);
    }
}

/* As stored before there were exact expiries, and as it still is without one. */
static void a_list_without_an_end_is_stored_as_ever(void **state)
{
    counter_encode(&bytes, counter_of(durations, 1));
    struct buf old;
    buf_init(&old, 64);
    buf_add_varint(&old, 1);
    buf_add_varint(&old, 100);
    buf_add_varint(&old, 10);
    buf_add_varint(&old, (uint64_t)durations[0]);
    assert_true(bytes_equal(buf_bytes(&bytes), buf_bytes(&old)));
    buf_release(&old);
}

static void a_list_cut_short_is_refused(void **state)
{
    counter_encode(&bytes, counter_of(durations, 4));
    bool whole;
    for (size_t size = 0; size < bytes.size; size++)
        assert_null(decode(bytes_of(bytes.data, size), &whole));
}

static void expect_refused(uint64_t count, uint64_t id, uint64_t cells, uint64_t first,
                           uint64_t second)
{
    bool whole;
    buf_reset(&bytes);
    buf_add_varint(&bytes, count);
    const uint64_t rest[] = {5, 1, first, id, cells, second};
    for (size_t i = 0; i < ARRAY_COUNT(rest); i++)
        buf_add_varint(&bytes, rest[i]);
    assert_null(decode(buf_bytes(&bytes), &whole));
}

static void what_no_encoder_writes_is_refused(void **state)
{
    expect_refused(0, 6, 1, 0, 60);                       /* an empty list */
    expect_refused(UINT64_MAX, 6, 1, 0, 60);              /* more than there are bytes */
    expect_refused((1ull << 32) + 2, 6, 1, 0, 60);        /* the same, cut to 32 bits it fits */
    expect_refused(2, 0, 1, 0, 60);                       /* id 0 means none */
    expect_refused(2, 6, (uint64_t)INT64_MAX + 1, 0, 60); /* a negative count */
    expect_refused(2, 6, 1, 60, 0);                       /* not sorted */
    expect_refused(2, 6, 1, 60, 60);                      /* twice */
    expect_refused(2, 6, 1, 0, (uint64_t)INT32_MAX + 1);  /* a calendar's, and so before it */
    expect_refused(2, 6, 1, 0, (1ull << 32) + 60);        /* the same, cut to 32 bits it is */
}

#define LISTS(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LISTS(series_are_sorted_by_duration_whatever_the_order_they_came_in),
        LISTS(find_finds_each_and_nothing_else),
        LISTS(cells_are_summed_over_all_series),
        LISTS(changes_make_copies_and_leave_the_old_list),
        LISTS(without_its_last_series_a_counter_is_none),
        LISTS(what_is_encoded_is_decoded),
        LISTS(a_list_without_an_end_is_stored_as_ever),
        LISTS(a_list_cut_short_is_refused),
        LISTS(what_no_encoder_writes_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
