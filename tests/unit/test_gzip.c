/* test_gzip.c -- what goes in comes out, and what is refused before or after it does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/gzip.h"

static struct unpacker unpacker;

/* One member that unpacks to `text`. */
static struct bytes member(struct bytes text)
{
    static unsigned char room[1 << 16];
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)text.data;
    stream.avail_in = (uInt)text.size;
    stream.next_out = room;
    stream.avail_out = sizeof room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t size = sizeof room - stream.avail_out;
    deflateEnd(&stream);
    return bytes_of(room, size);
}

/* Into memory of just that size, so that a byte too many is seen. */
static bool takes(struct bytes packed)
{
    size_t size;
    if (!unpack_size(packed, &size) || size > 1 << 20) return false;
    char *out = must_alloc(size + 1);
    bool good = unpack(&unpacker, packed, out, size);
    free(out);
    return good;
}

static void what_was_packed_comes_out(void **state)
{
    (void)state;
    static char text[20000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * i >> 3);
    static const size_t sizes[] = {0, 1, 2, 31, 1000, sizeof text};
    for (unsigned i = 0; i < ARRAY_COUNT(sizes); i++) {
        struct bytes packed = member(bytes_of(text, sizes[i]));
        size_t size;
        assert_true(unpack_size(packed, &size));
        assert_int_equal(size, sizes[i]);
        char *out = must_alloc(size + 1);
        assert_true(unpack(&unpacker, packed, out, size));
        assert_memory_equal(out, text, size);
        free(out);
    }
}

static void a_member_is_whole_or_nothing(void **state)
{
    (void)state;
    char copy[256];
    struct bytes packed = member(BYTES("{\"durationSeconds\":0,\"timestamp\":0}"));
    assert_true(packed.size + 20 < sizeof copy);
    memcpy(copy, packed.data, packed.size);
    assert_true(takes(bytes_of(copy, packed.size)));
    for (size_t cut = 0; cut < packed.size; cut++)
        assert_false(takes(bytes_of(copy, cut)));
    for (size_t more = 1; more < 20; more++) {
        memset(copy + packed.size, (int)more, more);
        assert_false(takes(bytes_of(copy, packed.size + more)));
    }
    assert_true(takes(bytes_of(copy, packed.size))); /* a failure leaves nothing behind */
}

static void two_members_are_one_too_many(void **state)
{
    (void)state;
    char copy[256];
    struct bytes packed = member(BYTES("a"));
    memcpy(copy, packed.data, packed.size);
    memcpy(copy + packed.size, packed.data, packed.size);
    assert_false(takes(bytes_of(copy, 2 * packed.size)));
}

/* The byte with the flags names fields that may be there, or not; some others have no meaning. */
static void a_changed_byte_is_noticed_where_it_matters(void **state)
{
    (void)state;
    char copy[256];
    struct bytes packed = member(BYTES("some text that is long enough to have a match in long"));
    memcpy(copy, packed.data, packed.size);
    for (size_t at = 10; at < packed.size; at++) {
        copy[at] = (char)(copy[at] ^ 0x55);
        assert_false(takes(bytes_of(copy, packed.size)));
        copy[at] = (char)(copy[at] ^ 0x55);
    }
}

static void what_is_packed_can_be_unpacked_and_is_smaller(void **state)
{
    (void)state;
    static char text[200000];
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)('a' + i % 1000 % 26);
    for (size_t size = 1; size <= sizeof text; size = size * 3 + 1) {
        struct buf packed;
        buf_init(&packed, 1 << 20);
        if (pack(bytes_of(text, size), &packed)) {
            size_t made;
            char *out = must_alloc(size + 1);
            assert_true(packed.size < size);
            assert_true(unpack_size(buf_bytes(&packed), &made));
            assert_int_equal(made, size);
            assert_true(unpack(&unpacker, buf_bytes(&packed), out, size));
            assert_memory_equal(out, text, size);
            free(out);
        } else {
            assert_true(size < 100);
        }
        buf_release(&packed);
    }
}

static void what_would_grow_or_not_fit_is_left(void **state)
{
    (void)state;
    char noise[3000];
    uint64_t random = 1;
    for (size_t i = 0; i < sizeof noise; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        noise[i] = (char)(random >> 56);
    }
    struct buf out;
    buf_init(&out, 1 << 20);
    buf_add(&out, BYTES("before"));
    assert_false(pack(bytes_of(noise, sizeof noise), &out));
    assert_true(bytes_equal(buf_bytes(&out), BYTES("before")));
    assert_false(pack(BYTES_NONE, &out));
    buf_release(&out);
    buf_init(&out, 100);
    memset(noise, 'x', sizeof noise);
    assert_false(pack(bytes_of(noise, sizeof noise), &out));
    buf_release(&out);
}

static void a_size_that_cannot_be_is_no_size(void **state)
{
    (void)state;
    char copy[256];
    size_t size;
    struct bytes packed = member(BYTES("a"));
    memcpy(copy, packed.data, packed.size);
    memset(copy + packed.size - 4, 0x7f, 4);
    assert_false(unpack_size(bytes_of(copy, packed.size), &size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_packed_comes_out),
        cmocka_unit_test(a_member_is_whole_or_nothing),
        cmocka_unit_test(two_members_are_one_too_many),
        cmocka_unit_test(a_changed_byte_is_noticed_where_it_matters),
        cmocka_unit_test(what_is_packed_can_be_unpacked_and_is_smaller),
        cmocka_unit_test(what_would_grow_or_not_fit_is_left),
        cmocka_unit_test(a_size_that_cannot_be_is_no_size),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unpacker_release(&unpacker);
    return failed;
}
