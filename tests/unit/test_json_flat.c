/* test_json_flat.c -- the shortcut for plain objects says what the parser says, or nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/json_flat.h"

static const struct bytes names[] = {BYTES("a"), BYTES("bb"), BYTES("timestamp")};
#define NAMES ARRAY_COUNT(names)

static void assert_same(const struct json_value *got, const struct json_value *want)
{
    assert_int_equal(got->type, want->type);
    if (want->type == JSON_INT) assert_true(got->integer == want->integer);
    if (want->type != JSON_STRING) return;
    assert_int_equal(got->string.size, want->string.size);
    assert_memory_equal(got->string.data, want->string.data, want->string.size);
}

/* From memory of exactly its size, so that the address sanitizer sees a byte too far. */
static bool flat(struct json_parser *parser, struct bytes text)
{
    struct json_value got[NAMES], root, want[NAMES];
    char *exact = must_alloc(text.size + 1), *padded = must_calloc(1, text.size + JSON_PADDING);
    memcpy(exact, text.data, text.size);
    memcpy(padded, text.data, text.size);
    bool known = json_flat_pick(bytes_of(exact, text.size), names, NAMES, got);
    if (known) {
        if (!json_parse(parser, bytes_of(padded, text.size), &root))
            fail_msg("not JSON, but taken: %.*s", (int)text.size, text.data);
        json_pick(&root, names, NAMES, want);
        for (size_t i = 0; i < NAMES; i++)
            assert_same(&got[i], &want[i]);
    }
    free(exact);
    free(padded);
    return known;
}

static void plain_objects_are_read(void **state)
{
    static const char *const texts[] = {
        "{\"a\":1}",
        " { \"timestamp\" : \"2026-01-01T00:00:00Z\" , \"a\" : -5 }\r\n",
        "{\"timestamp\":\"x\",\"bb\":\"\",\"a\":0}",
        "{\"a\":1,\"a\":\"last wins\"}",
        "{\"a\":999999999999999999,\"bb\":-999999999999999999}",
        "{\"a\":-0}",
    };
    struct json_parser *parser = json_parser_new(1 << 16);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        if (!flat(parser, bytes_str(texts[i]))) fail_msg("not taken: %s", texts[i]);
    json_parser_free(parser);
}

static void what_is_not_plain_is_left_to_the_parser(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "{}",
        "[]",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{\"a\":1",
        "{\"a\":1}}",
        "{\"a\":1} x",
        "{\"a\":01}",
        "{\"a\":-}",
        "{\"a\":+1}",
        "{\"a\":1.5}",
        "{\"a\":1e3}",
        "{\"a\":9223372036854775807}",
        "{\"a\":null}",
        "{\"a\":{}}",
        "{\"a\":\"\\u0041\"}",
        "{\"a\":\"\xc3\xa4\"}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"open}",
        "{a:1}",
        "{\"a\":1 \"bb\":2}",
        "{\"a\":1,\"other\":2}",
    };
    struct json_parser *parser = json_parser_new(1 << 16);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        if (flat(parser, bytes_str(texts[i]))) fail_msg("taken: %s", texts[i]);
    json_parser_free(parser);
}

/* Pieces of JSON in any order: now and then an object, mostly not. */
static void whatever_is_taken_is_what_the_parser_says(void **state)
{
    static const char *const pieces[] = {"\"a\":1,",    "\"bb\":\"x\",",
                                         "\"c\": -7 ,", "\"timestamp\":",
                                         "\"a\"",       "{",
                                         "}",           "1}",
                                         "0",           "12",
                                         "\"x\"}",      ",",
                                         " ",           "\n",
                                         "\"",          "\\",
                                         ":",           "1.5",
                                         "[]",          "null}"};
    struct json_parser *parser = json_parser_new(1 << 16);
    unsigned seed = 7, taken = 0;
    for (unsigned round = 0; round < 200000; round++) {
        char text[256] = "{";
        size_t size = round % 2;
        unsigned count = 1 + (unsigned)rand_r(&seed) % 9;
        for (unsigned i = 0; i < count; i++) {
            const char *piece = pieces[(unsigned)rand_r(&seed) % ARRAY_COUNT(pieces)];
            memcpy(text + size, piece, strlen(piece));
            size += strlen(piece);
        }
        taken += flat(parser, bytes_of(text, size));
    }
    assert_true(taken > 100);
    json_parser_free(parser);
}

/* Every byte there is, in the place of every byte and before it, and every beginning: NUL, control
 * bytes, what is not UTF-8, a quote or backslash too many, a number that grows, bytes behind. */
static void one_wrong_byte_anywhere_is_judged_as_by_the_parser(void **state)
{
    static const char *const texts[] = {
        "{\"a\":-105,\"timestamp\":\"2026-01-01T00:00:00Z\"}",
        " {\"bb\" : \"\" , \"a\":999999999999999999,\"a\":\"0\" } ",
        "{\"a\":0,\"\\u0061\":1,\"x\":{\"a\":[2]}}",
        "{\"a\":\"\xf0\x9f\x98\x80\",\"bb\":18446744073709551615}",
    };
    struct json_parser *parser = json_parser_new(1 << 16);
    for (size_t t = 0; t < ARRAY_COUNT(texts); t++) {
        char text[128];
        size_t size = strlen(texts[t]);
        for (size_t at = 0; at <= size; at++) {
            (void)flat(parser, bytes_of(texts[t], at));
            for (int byte = 0; byte < 256; byte++) {
                memcpy(text, texts[t], at);
                text[at] = (char)byte;
                memcpy(text + at + 1, texts[t] + at, size - at);
                (void)flat(parser, bytes_of(text, size + 1));
                if (at == size) continue;
                memcpy(text + at + 1, texts[t] + at + 1, size - at - 1);
                (void)flat(parser, bytes_of(text, size));
            }
        }
    }
    json_parser_free(parser);
}

/* The last of two equal keys wins, however it is written: a shortcut that missed the escaped one
 * would take the first. */
static void a_key_is_the_same_key_however_it_is_written(void **state)
{
    static const char *const texts[] = {
        "{\"a\":1,\"\\u0061\":2}",
        "{\"\\u0061\":1,\"a\":2}",
        "{\"a\":1,\"a\":null}",
        "{\"a\":1,\"a\":{\"a\":3}}",
    };
    struct json_parser *parser = json_parser_new(1 << 16);
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        assert_false(flat(parser, bytes_str(texts[i])));
    json_parser_free(parser);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_objects_are_read),
        cmocka_unit_test(what_is_not_plain_is_left_to_the_parser),
        cmocka_unit_test(whatever_is_taken_is_what_the_parser_says),
        cmocka_unit_test(one_wrong_byte_anywhere_is_judged_as_by_the_parser),
        cmocka_unit_test(a_key_is_the_same_key_however_it_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
