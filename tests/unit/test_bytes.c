/* test_bytes.c -- views compare as bytes do, buffers stop at their ceiling, text comes out right.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bytes.h"

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

static void expect_text(const char *text)
{
    assert_false(buf.failed);
    assert_int_equal(buf.size, strlen(text));
    assert_memory_equal(buf.data, text, buf.size);
    buf_reset(&buf);
}

/* ---- views ---- */

static void views_compare_by_content_and_size(void **state)
{
    assert_true(bytes_equal(BYTES("ab"), bytes_str("ab")));
    assert_false(bytes_equal(BYTES("ab"), BYTES("abc")));
    assert_false(bytes_equal(BYTES("ab"), BYTES("aB")));
    assert_true(bytes_equal(BYTES_NONE, BYTES("")));
    assert_true(bytes_equal(BYTES("a\0b"), bytes_of("a\0b", 3)));
    assert_false(bytes_equal(BYTES("a\0b"), BYTES("a\0c")));
}

static void views_are_ordered_as_unsigned_bytes_shorter_first(void **state)
{
    static const struct bytes sorted[] = {BYTES(""),   BYTES("\0"), BYTES("A"),
                                          BYTES("Aa"), BYTES("B"),  BYTES("\xff")};
    for (size_t i = 0; i < ARRAY_COUNT(sorted); i++)
        for (size_t k = 0; k < ARRAY_COUNT(sorted); k++) {
            int order = bytes_compare(sorted[i], sorted[k]);
            assert_int_equal(i < k, order < 0);
            assert_int_equal(i == k, order == 0);
        }
    assert_int_equal(bytes_compare(BYTES_NONE, BYTES("")), 0);
}

static void a_prefix_is_found_at_the_start_only(void **state)
{
    assert_true(bytes_starts(BYTES("abc"), BYTES("ab")));
    assert_true(bytes_starts(BYTES("abc"), BYTES_NONE));
    assert_true(bytes_starts(BYTES("abc"), BYTES("abc")));
    assert_false(bytes_starts(BYTES("abc"), BYTES("abcd")));
    assert_false(bytes_starts(BYTES("abc"), BYTES("bc")));
}

static void case_is_folded_for_ascii_letters_only(void **state)
{
    assert_true(bytes_equal_nocase(BYTES("Content-TYPE"), BYTES("content-type")));
    assert_true(bytes_equal_nocase(BYTES("AZ"), BYTES("az")));
    assert_false(bytes_equal_nocase(BYTES("@["), BYTES("`{")));
    assert_false(bytes_equal_nocase(BYTES("\xc4"), BYTES("\xe4")));
    assert_false(bytes_equal_nocase(BYTES("a"), BYTES("ab")));
}

static void split_gives_the_parts_one_after_the_other(void **state)
{
    struct bytes rest = BYTES("a,,bc");
    assert_true(bytes_equal(bytes_split(&rest, ','), BYTES("a")));
    assert_true(bytes_equal(bytes_split(&rest, ','), BYTES("")));
    assert_non_null(rest.data);
    assert_true(bytes_equal(bytes_split(&rest, ','), BYTES("bc")));
    assert_null(rest.data);
    rest = BYTES("a,");
    bytes_split(&rest, ',');
    assert_non_null(rest.data); /* an empty part is a part */
    assert_int_equal(bytes_split(&rest, ',').size, 0);
    assert_null(rest.data);
    assert_int_equal(bytes_split(&rest, ',').size, 0);
}

/* ---- buffers ---- */

static void a_buffer_grows_up_to_its_ceiling(void **state)
{
    for (unsigned i = 0; i < 1000; i++)
        buf_add_char(&buf, (char)('a' + i % 26));
    assert_false(buf.failed);
    assert_int_equal(buf.size, 1000);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(buf.data[i], 'a' + i % 26);
    buf_add_char(&buf, 'x');
    assert_true(buf.failed);
}

static void a_buffer_that_failed_takes_nothing_more(void **state)
{
    char big[1001] = {0};
    buf_add(&buf, BYTES("ab"));
    buf_add(&buf, bytes_of(big, 999));
    assert_true(buf.failed);
    buf_add(&buf, BYTES("c"));
    buf_add_i64(&buf, 5);
    assert_int_equal(buf.size, 2);
    assert_null(buf_reserve(&buf, 1));
    buf_reset(&buf);
    assert_false(buf.failed);
    buf_add(&buf, bytes_of(big, 1000));
    assert_false(buf.failed);
}

static void a_size_that_would_wrap_is_too_large(void **state)
{
    buf_add(&buf, BYTES("ab"));
    assert_null(buf_reserve(&buf, SIZE_MAX));
    assert_true(buf.failed);
    buf_reset(&buf);
    buf_add(&buf, BYTES("ab"));
    assert_null(buf_reserve(&buf, SIZE_MAX - 1));
    assert_true(buf.failed);
}

static void a_reset_buffer_keeps_its_memory(void **state)
{
    buf_add(&buf, BYTES("abc"));
    const char *data = buf.data;
    buf_reset(&buf);
    buf_add(&buf, BYTES("x"));
    assert_ptr_equal(buf.data, data);
    expect_text("x");
}

static void a_released_buffer_can_be_used_again(void **state)
{
    buf_add(&buf, BYTES("abc"));
    buf_release(&buf);
    assert_int_equal(buf.size, 0);
    buf_add(&buf, BYTES("de"));
    expect_text("de");
}

static void reserved_room_is_written_by_the_caller(void **state)
{
    char *at = buf_reserve(&buf, 3);
    memcpy(at, "xyz", 3);
    buf.size += 2;
    expect_text("xy");
}

/* ---- numbers ---- */

static void integers_are_written_exactly(void **state)
{
    buf_add_i64(&buf, 0);
    expect_text("0");
    buf_add_i64(&buf, INT64_MAX);
    expect_text("9223372036854775807");
    buf_add_i64(&buf, INT64_MIN);
    expect_text("-9223372036854775808");
    buf_add_i64(&buf, -10);
    expect_text("-10");
    buf_add_u64(&buf, UINT64_MAX);
    expect_text("18446744073709551615");
    buf_add_u64(&buf, 100);
    expect_text("100");
}

static void sums_past_64_bits_are_written_exactly_A_27(void **state)
{
    buf_add_i128(&buf, (__int128)INT64_MAX + 1);
    expect_text("9223372036854775808");
    buf_add_i128(&buf, (__int128)INT64_MIN - 1);
    expect_text("-9223372036854775809");
    buf_add_i128(&buf, (__int128)INT64_MAX * 525600);
    expect_text("4847804342570870164159200");
    __int128 least = (__int128)1 << 126;
    buf_add_i128(&buf, -least - least);
    expect_text("-170141183460469231731687303715884105728");
    buf_add_i128(&buf, -7);
    expect_text("-7");
}

static void formatted_text_fits_exactly_or_fails(void **state)
{
    buf_addf(&buf, "%s=%d", "a", 5);
    expect_text("a=5");
    buf_release(&buf);
    buf_init(&buf, 4);
    buf_addf(&buf, "%s", "abc"); /* and the NUL that vsnprintf writes */
    expect_text("abc");
    buf_addf(&buf, "%s", "abcd");
    assert_true(buf.failed);
}

/* ---- JSON strings ---- */

static void json_text_is_quoted_and_escaped(void **state)
{
    buf_add_json(&buf, BYTES("a\"b\\c\n\t\x01/\x7f"));
    expect_text("\"a\\\"b\\\\c\\n\\u0009\\u0001/\x7f\"");
    buf_add_json(&buf, BYTES_NONE);
    expect_text("\"\"");
    buf_add_json(&buf, BYTES("a\0b"));
    expect_text("\"a\\u0000b\"");
}

static void utf8_passes_unchanged(void **state)
{
    static const char *const good[] = {"\xc2\x80",         "\xdf\xbf",        "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",     "\xee\x80\x80",    "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        char expected[8];
        buf_add_json(&buf, bytes_str(good[i]));
        strcpy(expected, "\"");
        strcat(expected, good[i]);
        strcat(expected, "\"");
        expect_text(expected);
    }
}

#define ODD "\xef\xbf\xbd" /* U+FFFD */

static void what_is_not_utf8_is_replaced_byte_by_byte(void **state)
{
    static const struct {
        struct bytes bad;
        const char *json;
    } cases[] = {
        {BYTES("\x80"), "\"" ODD "\""},
        {BYTES("\xc0\x80"), "\"" ODD ODD "\""},                 /* overlong */
        {BYTES("\xc1\xbf"), "\"" ODD ODD "\""},                 /* overlong */
        {BYTES("\xe0\x9f\xbf"), "\"" ODD ODD ODD "\""},         /* overlong */
        {BYTES("\xf0\x8f\xbf\xbf"), "\"" ODD ODD ODD ODD "\""}, /* overlong */
        {BYTES("\xed\xa0\x80"), "\"" ODD ODD ODD "\""},         /* a surrogate */
        {BYTES("\xf4\x90\x80\x80"), "\"" ODD ODD ODD ODD "\""}, /* past U+10FFFF */
        {BYTES("\xf5\x80\x80\x80"), "\"" ODD ODD ODD ODD "\""}, /* past U+10FFFF */
        {BYTES("\xff"), "\"" ODD "\""},
        {BYTES("\xe2\x82"), "\"" ODD ODD "\""}, /* cut short */
        {BYTES("\xe2\x28\xa1"), "\"" ODD "(" ODD "\""},
        {BYTES("\xf0\x90\x80x"), "\"" ODD ODD ODD "x\""},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        buf_add_json(&buf, cases[i].bad);
        expect_text(cases[i].json);
    }
}

/* ASCII is passed over by eight bytes at a time, so each place and each length is another case. */
static void utf8_is_known_wherever_it_stands(void **state)
{
    char text[32];
    (void)state;
    assert_true(bytes_is_utf8(BYTES_NONE));
    for (size_t size = 1; size <= sizeof text; size++)
        for (size_t at = 0; at < size; at++) {
            memset(text, 'a', sizeof text);
            assert_true(bytes_is_utf8(bytes_of(text, size)));
            text[at] = '\x80';
            assert_false(bytes_is_utf8(bytes_of(text, size)));
            if (at == 0) continue;
            text[at - 1] = '\xc3';
            assert_true(bytes_is_utf8(bytes_of(text, size)));
            assert_false(bytes_is_utf8(bytes_of(text, at)));
        }
}

#define TEXT(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEXT(views_compare_by_content_and_size),
        TEXT(views_are_ordered_as_unsigned_bytes_shorter_first),
        TEXT(a_prefix_is_found_at_the_start_only),
        TEXT(case_is_folded_for_ascii_letters_only),
        TEXT(split_gives_the_parts_one_after_the_other),
        TEXT(a_buffer_grows_up_to_its_ceiling),
        TEXT(a_buffer_that_failed_takes_nothing_more),
        TEXT(a_size_that_would_wrap_is_too_large),
        TEXT(a_reset_buffer_keeps_its_memory),
        TEXT(a_released_buffer_can_be_used_again),
        TEXT(reserved_room_is_written_by_the_caller),
        TEXT(integers_are_written_exactly),
        TEXT(sums_past_64_bits_are_written_exactly_A_27),
        TEXT(formatted_text_fits_exactly_or_fails),
        TEXT(json_text_is_quoted_and_escaped),
        TEXT(utf8_passes_unchanged),
        TEXT(what_is_not_utf8_is_replaced_byte_by_byte),
        TEXT(utf8_is_known_wherever_it_stands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
