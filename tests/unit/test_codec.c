/* test_codec.c -- what is written is read back, order is kept where promised, and no bytes make a
 * reader read past its end. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/codec.h"

static struct buf buf;

static int setup(void **state)
{
    buf_init(&buf, 1000);
    return 0;
}

static int teardown(void **state)
{
    buf_release(&buf);
    return 0;
}

static const uint64_t edges[] = {
    0,          1,         0x7f, 0x80, 0x3fff, 0x4000, UINT32_MAX, 1ull << 56, (1ull << 63) - 1,
    1ull << 63, UINT64_MAX};

static void every_kind_of_integer_comes_back(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(edges); i++) {
        buf_reset(&buf);
        buf_add_u32(&buf, (uint32_t)edges[i]);
        buf_add_fixed64(&buf, edges[i]);
        buf_add_varint(&buf, edges[i]);
        buf_add_signed(&buf, (int64_t)edges[i]);
        buf_add_signed(&buf, -(int64_t)(edges[i] >> 1));
        buf_add_char(&buf, (char)edges[i]);
        struct reader reader = reader_of(buf_bytes(&buf));
        assert_int_equal(read_u32(&reader), (uint32_t)edges[i]);
        assert_int_equal(read_fixed64(&reader), edges[i]);
        assert_int_equal(read_varint(&reader), edges[i]);
        assert_int_equal(read_signed(&reader), (int64_t)edges[i]);
        assert_int_equal(read_signed(&reader), -(int64_t)(edges[i] >> 1));
        assert_int_equal(read_u8(&reader), (uint8_t)edges[i]);
        assert_false(reader.failed);
        assert_int_equal(reader_left(&reader), 0);
    }
}

/* Sizes are on disk: the journal's bytes are the server's speed. */
static void small_integers_are_small(void **state)
{
    static const struct {
        int64_t value;
        size_t size;
    } cases[] = {{0, 1},   {63, 1},   {-64, 1},        {64, 2},
                 {-65, 2}, {8191, 2}, {INT64_MAX, 10}, {INT64_MIN, 10}};
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        buf_reset(&buf);
        buf_add_signed(&buf, cases[i].value);
        assert_int_equal(buf.size, cases[i].size);
    }
    buf_reset(&buf);
    buf_add_u32(&buf, 0x01020304);
    assert_memory_equal(buf.data, "\x04\x03\x02\x01", 4);
}

static void sized_bytes_come_back_and_borrow(void **state)
{
    buf_add_sized(&buf, BYTES("hello"));
    buf_add_sized(&buf, BYTES_NONE);
    buf_add_char(&buf, 'x');
    struct reader reader = reader_of(buf_bytes(&buf));
    struct bytes text = read_sized(&reader);
    assert_true(bytes_equal(text, BYTES("hello")));
    assert_ptr_equal(text.data, buf.data + 1);
    assert_int_equal(read_sized(&reader).size, 0);
    assert_true(bytes_equal(read_bytes(&reader, 1), BYTES("x")));
    assert_false(reader.failed);
}

static void ordered_integers_sort_as_bytes(void **state)
{
    static const int64_t sorted[] = {INT64_MIN, INT64_MIN + 1, -256, -255,     -1, 0,
                                     1,         255,           256,  INT64_MAX};
    char left[8];
    char right[8];
    for (size_t i = 0; i < ARRAY_COUNT(sorted); i++) {
        put_ordered_i64(left, sorted[i]);
        assert_int_equal(get_ordered_i64(left), sorted[i]);
        for (size_t k = 0; k < ARRAY_COUNT(sorted); k++) {
            put_ordered_i64(right, sorted[k]);
            assert_int_equal(i < k, memcmp(left, right, 8) < 0);
        }
    }
    for (size_t i = 1; i < ARRAY_COUNT(edges); i++) {
        put_ordered_u64(left, edges[i - 1]);
        put_ordered_u64(right, edges[i]);
        assert_true(memcmp(left, right, 8) < 0);
        assert_int_equal(get_ordered_u64(right), edges[i]);
    }
}

static void a_reader_remembers_that_it_ran_out(void **state)
{
    struct reader reader = reader_of(BYTES("\x01\x02\x03"));
    assert_int_equal(read_u32(&reader), 0);
    assert_true(reader.failed);
    assert_int_equal(read_u8(&reader), 0); /* there are bytes, but they are not to be trusted */
    assert_int_equal(reader_left(&reader), 3);
    reader = reader_of(BYTES_NONE);
    assert_int_equal(read_u8(&reader), 0);
    assert_true(reader.failed);
    reader = reader_of(BYTES("1234567"));
    assert_int_equal(read_fixed64(&reader), 0);
    assert_true(reader.failed);
}

static void a_size_past_the_end_fails(void **state)
{
    struct reader reader = reader_of(BYTES("\x05hell"));
    assert_int_equal(read_sized(&reader).size, 0);
    assert_true(reader.failed);
    reader = reader_of(BYTES("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x"));
    assert_int_equal(read_sized(&reader).size, 0);
    assert_true(reader.failed);
}

static void a_varint_that_does_not_end_fails(void **state)
{
    struct reader reader = reader_of(BYTES("\x80\x80"));
    assert_int_equal(read_varint(&reader), 0);
    assert_true(reader.failed);
    reader = reader_of(BYTES("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"));
    assert_int_equal(read_varint(&reader), 0);
    assert_true(reader.failed);
}

static void a_full_buffer_fails_for_every_kind(void **state)
{
    for (unsigned kind = 0; kind < 4; kind++) {
        struct buf small;
        buf_init(&small, 3);
        if (kind == 0) buf_add_u32(&small, 1);
        if (kind == 1) buf_add_fixed64(&small, 1);
        if (kind == 2) buf_add_varint(&small, 1); /* asks for the longest form's room */
        if (kind == 3) buf_add_sized(&small, BYTES("abc"));
        assert_true(small.failed);
        buf_release(&small);
    }
}

#define CODE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CODE(every_kind_of_integer_comes_back),   CODE(small_integers_are_small),
        CODE(sized_bytes_come_back_and_borrow),   CODE(ordered_integers_sort_as_bytes),
        CODE(a_reader_remembers_that_it_ran_out), CODE(a_size_past_the_end_fails),
        CODE(a_varint_that_does_not_end_fails),   CODE(a_full_buffer_fails_for_every_kind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
