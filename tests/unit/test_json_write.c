/* test_json_write.c -- commas come by themselves, and what is written reads back. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/json_write.h"

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

static void the_first_field_has_no_comma_and_each_further_one_has(void **state)
{
    json_open(&buf, JSON_ITEM, '{');
    json_add_text(&buf, JSON_KEY("a"), BYTES("x\"{"));
    json_add_word(&buf, JSON_KEY("b"), BYTES("plain"));
    json_add_quoted(&buf, JSON_KEY("c"), -1);
    json_add_number(&buf, JSON_KEY("d"), INT64_MIN);
    json_add_bool(&buf, JSON_KEY("e"), true);
    json_add_null(&buf, JSON_KEY("f"));
    json_add_raw(&buf, JSON_KEY("g"), BYTES("[1,2]"));
    json_close(&buf, '}');
    expect_text("{\"a\":\"x\\\"{\",\"b\":\"plain\",\"c\":\"-1\",\"d\":-9223372036854775808,"
                "\"e\":true,\"f\":null,\"g\":[1,2]}");
}

static void arrays_and_objects_stand_in_each_other(void **state)
{
    json_open(&buf, JSON_ITEM, '[');
    for (int i = 0; i < 2; i++) {
        json_open(&buf, JSON_ITEM, '{');
        json_open(&buf, JSON_KEY("items"), '[');
        json_close(&buf, ']');
        json_add_number(&buf, JSON_KEY("i"), i);
        json_close(&buf, '}');
    }
    json_add_null(&buf, JSON_ITEM);
    json_close(&buf, ']');
    expect_text("[{\"items\":[],\"i\":0},{\"items\":[],\"i\":1},null]");
}

static void a_text_that_ends_like_an_opening_is_a_value_all_the_same(void **state)
{
    static const struct bytes odd[] = {BYTES("{"), BYTES("["),  BYTES(":"),
                                       BYTES(" "), BYTES("\n"), BYTES("")};
    for (size_t i = 0; i < ARRAY_COUNT(odd); i++) {
        json_open(&buf, JSON_ITEM, '[');
        json_add_text(&buf, JSON_ITEM, odd[i]);
        size_t before = buf.size;
        json_add_number(&buf, JSON_ITEM, 1);
        assert_int_equal(buf.data[before], ',');
        buf_reset(&buf);
    }
}

static void a_key_may_be_any_text(void **state)
{
    json_open(&buf, JSON_ITEM, '{');
    json_key_named(&buf, BYTES("a\"b"));
    json_add_quoted(&buf, JSON_ITEM, 1);
    json_key_named(&buf, BYTES("c"));
    json_open(&buf, JSON_ITEM, '{');
    json_close(&buf, '}');
    json_close(&buf, '}');
    expect_text("{\"a\\\"b\":\"1\",\"c\":{}}");
}

static void what_is_cut_back_is_written_anew(void **state)
{
    json_open(&buf, JSON_ITEM, '[');
    for (int i = 0; i < 2; i++) {
        size_t start = buf.size;
        json_open(&buf, JSON_ITEM, '{');
        json_add_number(&buf, JSON_KEY("half"), i);
        buf.size = start;
        json_add_number(&buf, JSON_ITEM, i);
    }
    json_close(&buf, ']');
    expect_text("[0,1]");
}

static void a_document_follows_a_label_or_a_line(void **state)
{
    buf_add(&buf, BYTES("data: "));
    json_open(&buf, JSON_ITEM, '{');
    json_close(&buf, '}');
    buf_add_char(&buf, '\n');
    json_open(&buf, JSON_ITEM, '{');
    json_close(&buf, '}');
    expect_text("data: {}\n{}");
}

static void fields_may_be_collected_before_their_object_is_opened(void **state)
{
    json_add_number(&buf, JSON_KEY("a"), 1);
    json_add_number(&buf, JSON_KEY("b"), 2);
    expect_text("\"a\":1,\"b\":2");
}

static void numbers_past_64_bits_are_exact_in_quotes(void **state)
{
    json_add_quoted(&buf, JSON_ITEM, (__int128)INT64_MAX * 4);
    json_add_quoted(&buf, JSON_ITEM, UINT64_MAX);
    expect_text("\"36893488147419103228\",\"18446744073709551615\"");
}

static void an_error_has_a_sentence_and_its_code(void **state)
{
    json_open(&buf, JSON_ITEM, '{');
    json_add_number(&buf, JSON_KEY("status"), err_status(ERR_INVALID));
    json_add_error(&buf, ERR_INVALID, "Say \"please\".");
    json_close(&buf, '}');
    expect_text("{\"status\":400,\"error\":\"Say \\\"please\\\".\",\"code\":\"invalid_request\"}");
}

static void an_error_without_a_sentence_has_the_tables(void **state)
{
    char text[300];
    snprintf(text, sizeof text, "\"error\":\"%s\",\"code\":\"%s\"", err_sentence(ERR_NOT_FOUND),
             err_code(ERR_NOT_FOUND));
    json_add_error(&buf, ERR_NOT_FOUND, NULL);
    expect_text(text);
}

static void a_full_buffer_fails_and_stays_so(void **state)
{
    buf_release(&buf);
    buf_init(&buf, 4);
    json_open(&buf, JSON_ITEM, '{');
    json_add_number(&buf, JSON_KEY("long"), 1);
    assert_true(buf.failed);
    json_close(&buf, '}');
    assert_true(buf.failed);
    assert_int_equal(buf.size, 1);
}

#define TEXT(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEXT(the_first_field_has_no_comma_and_each_further_one_has),
        TEXT(arrays_and_objects_stand_in_each_other),
        TEXT(a_text_that_ends_like_an_opening_is_a_value_all_the_same),
        TEXT(a_key_may_be_any_text),
        TEXT(what_is_cut_back_is_written_anew),
        TEXT(a_document_follows_a_label_or_a_line),
        TEXT(fields_may_be_collected_before_their_object_is_opened),
        TEXT(numbers_past_64_bits_are_exact_in_quotes),
        TEXT(an_error_has_a_sentence_and_its_code),
        TEXT(an_error_without_a_sentence_has_the_tables),
        TEXT(a_full_buffer_fails_and_stays_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
