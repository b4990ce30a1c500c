/* test_json.c -- the JSON shim: what is a document, what is picked, what is walked, what is
 * written again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/json.h"

#define TEXT_MAX (1u << 20)

static struct json_parser *parser;
static char *held; /* the text of the last parse, in memory of exactly its size and padding */

static bool parse_bytes(struct bytes text, struct json_value *root)
{
    free(held);
    held = malloc(text.size + JSON_PADDING);
    assert_non_null(held);
    memset(held, '7', text.size + JSON_PADDING); /* padding that would go on with a number */
    memcpy(held, text.data, text.size);
    return json_parse(parser, bytes_of(held, text.size), root);
}

static bool parse(const char *text, struct json_value *root)
{
    return parse_bytes(bytes_str(text), root);
}

static struct json_value pick_one(const char *text, const char *name)
{
    struct json_value root, value;
    struct bytes names[] = {bytes_str(name)};
    assert_true(parse(text, &root));
    json_pick(&root, names, 1, &value);
    return value;
}

static void assert_bytes(struct bytes got, struct bytes want)
{
    assert_int_equal(got.size, want.size);
    assert_memory_equal(got.data, want.data, want.size);
}

static void assert_string(const struct json_value *value, const char *want)
{
    assert_int_equal(value->type, JSON_STRING);
    assert_bytes(value->string, bytes_str(want));
}

static void each_type_comes_out_as_itself(void **state)
{
    static const struct {
        const char *text;
        enum json_type type;
    } cases[] = {
        {"null", JSON_NULL},
        {" true ", JSON_BOOL},
        {"false", JSON_BOOL},
        {"0", JSON_INT},
        {"-0", JSON_INT},
        {"\r\n\t 7\n", JSON_INT},
        {"9223372036854775807", JSON_INT},
        {"-9223372036854775808", JSON_INT},
        {"9223372036854775808", JSON_NUMBER},
        {"18446744073709551615", JSON_NUMBER},
        {"1.0", JSON_NUMBER},
        {"1e3", JSON_NUMBER},
        {"1E-3", JSON_NUMBER},
        {"\"\"", JSON_STRING},
        {"\"x\"", JSON_STRING},
        {"{}", JSON_OBJECT},
        {"[]", JSON_ARRAY},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct json_value root;
        if (!parse(cases[i].text, &root)) fail_msg("refused: %s", cases[i].text);
        if (root.type != cases[i].type) fail_msg("%s: type %d", cases[i].text, (int)root.type);
    }
}

/* S3-04, A-18: nothing is rounded. */
static void S3_04_integers_are_exact_over_all_of_int64(void **state)
{
    static const int64_t values[] = {0, 1, -1, 9007199254740993, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < ARRAY_COUNT(values); i++) {
        char text[64];
        struct json_value root;
        snprintf(text, sizeof text, "%lld", (long long)values[i]);
        assert_true(parse(text, &root));
        assert_int_equal(root.type, JSON_INT);
        assert_true(root.integer == values[i]);
    }
}

/* S3-33 */
static void S3_33_anything_malformed_anywhere_refuses_the_document(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "\n",
        "{",
        "}",
        "[",
        "]",
        "{]",
        "[}",
        "nul",
        "tru",
        "True",
        "nullx",
        "truefalse",
        "undefined",
        "NaN",
        "Infinity",
        "'a'",
        "\"",
        "\"a",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{1:1}",
        "{null:1}",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1,,2]",
        "{\"a\":1 \"b\":2}",
        "{\"a\" 1}",
        "{\"a\"::1}",
        "01",
        "-",
        "-a",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x10",
        "1_0",
        "--1",
        "1.5.5",
        "{}x",
        "{} {}",
        "{}\n{}",
        "{},",
        "1 2",
        "\"a\" \"b\"",
        "[1]]",
        "// c\n1",
        "/**/1",
        "{\"a\":1}//",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\\"",
        "\"a\nb\"",
        "\"a\tb\"",
        "\"\x01\"",
        "\"\\ud800\"",
        "\"\\ud800x\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"\\udfff\\ud800\"",
        "{\"unknown\":[1,{\"deep\":tru}],\"amount\":1}",
        "{\"unknown\":01,\"amount\":1}",
        "{\"unknown\":\"\\q\",\"amount\":1}",
        "\xef\xbb\xbf{}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct json_value root;
        if (parse(texts[i], &root)) fail_msg("accepted: %s", texts[i]);
        assert_true(strlen(json_problem(parser)) > 5);
    }
}

static void bytes_that_are_not_UTF8_refuse_the_document(void **state)
{
    static const char *const bad[] = {
        "\x80",         "\xbf",     "\xc0\x80",     "\xc1\xbf",         "\xc3",
        "\xe0\x80\x80", "\xe2\x82", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80",
        "\xf8\x88",     "\xff",     "\xfe",         "\xe2\x28\xa1",     "a\xc3(",
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        char text[64];
        struct json_value root;
        snprintf(text, sizeof text, "{\"nobody asks\":\"%s\"}", bad[i]);
        if (parse(text, &root)) fail_msg("accepted as value: %zu", i);
        snprintf(text, sizeof text, "{\"%s\":1}", bad[i]);
        if (parse(text, &root)) fail_msg("accepted as key: %zu", i);
        snprintf(text, sizeof text, "{}%s", bad[i]);
        if (parse(text, &root)) fail_msg("accepted outside a string: %zu", i);
    }
}

static void a_NUL_outside_a_string_refuses_the_document(void **state)
{
    struct json_value root;
    assert_false(parse_bytes(BYTES("{}\0"), &root));
    assert_false(parse_bytes(BYTES("\0{}"), &root));
    assert_false(parse_bytes(BYTES("{\"a\":\0}"), &root));
    assert_false(parse_bytes(BYTES("\"a\0b\""), &root));
}

/* json.h promises this much and says why: simdjson has no larger integers. */
static void numbers_past_64_bits_refuse_the_document_and_say_so(void **state)
{
    static const char *const texts[] = {
        "{\"amount\":18446744073709551616}",
        "{\"amount\":99999999999999999999999}",
        "{\"amount\":-9223372036854775809}",
        "{\"nobody asks\":1e999,\"amount\":1}",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct json_value root;
        assert_false(parse(texts[i], &root));
        assert_non_null(strstr(json_problem(parser), "number"));
    }
}

static void depth_is_limited_on_both_sides_of_the_line(void **state)
{
    for (size_t depth = JSON_DEPTH_MAX - 2; depth <= JSON_DEPTH_MAX + 2; depth++) {
        char text[4 * JSON_DEPTH_MAX];
        struct json_value root;
        memset(text, '[', depth);
        text[depth] = '1';
        memset(text + depth + 1, ']', depth);
        bool parsed = parse_bytes(bytes_of(text, 2 * depth + 1), &root);
        if (parsed != (depth <= JSON_DEPTH_MAX)) fail_msg("depth %zu: %d", depth, parsed);
    }
}

static void strings_are_unescaped(void **state)
{
    struct json_value v =
        pick_one("{\"s\":\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20ac\"}", "s");
    assert_string(&v, "a\"\\/\b\f\n\r\tA\u00e9\u20ac");
    v = pick_one("{\"s\":\"\\ud83d\\ude00 \xf0\x9f\x98\x80\"}", "s");
    assert_string(&v, "\U0001F600 \U0001F600");
    v = pick_one("{\"s\":\"a\\u0000b\"}", "s");
    assert_bytes(v.string, BYTES("a\0b"));
    v = pick_one("{\"\\u0073\":1}", "s"); /* keys too */
    assert_int_equal(v.type, JSON_INT);
}

static void pick_finds_fields_in_any_order_and_marks_the_rest_absent(void **state)
{
    static const char *const texts[] = {
        "{\"durationSeconds\":60,\"timestamp\":\"t\",\"amount\":5}",
        "{\"amount\":5,\"timestamp\":\"t\",\"durationSeconds\":60}",
        "{\"x\":{\"amount\":9},\"timestamp\":\"t\",\"y\":[1,2],\"amount\":5,\"durationSeconds\":60}",
    };
    struct bytes names[] = {BYTES("durationSeconds"), BYTES("timestamp"), BYTES("amount"),
                            BYTES("expiresAt")};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct json_value root, v[4];
        assert_true(parse(texts[i], &root));
        json_pick(&root, names, 4, v);
        assert_int_equal(v[0].type, JSON_INT);
        assert_int_equal(v[0].integer, 60);
        assert_string(&v[1], "t");
        assert_int_equal(v[2].integer, 5);
        assert_int_equal(v[3].type, JSON_ABSENT);
    }
}

static void pick_matches_whole_names_only(void **state)
{
    assert_int_equal(pick_one("{\"amoun\":1,\"amountt\":1,\"Amount\":1,\"\":1}", "amount").type,
                     JSON_ABSENT);
    assert_int_equal(pick_one("{\"\":1}", "").type, JSON_INT);
}

static void pick_from_what_is_no_object_gives_absent(void **state)
{
    assert_int_equal(pick_one("[{\"a\":1}]", "a").type, JSON_ABSENT);
    assert_int_equal(pick_one("\"a\"", "a").type, JSON_ABSENT);
    assert_int_equal(pick_one("null", "a").type, JSON_ABSENT);
}

/* SPEC 3, A-27e: at every depth. */
static void A_27e_of_repeated_keys_the_last_wins(void **state)
{
    assert_int_equal(pick_one("{\"a\":1,\"b\":2,\"a\":3}", "a").integer, 3);
    assert_int_equal(pick_one("{\"a\":1,\"a\":null}", "a").type, JSON_NULL);

    struct json_value inner = pick_one("{\"o\":1,\"o\":{\"a\":1,\"a\":2}}", "o"), v;
    json_pick(&inner, (struct bytes[]){BYTES("a")}, 1, &v);
    assert_int_equal(v.integer, 2);
}

static void an_array_is_walked_in_order(void **state)
{
    struct json_value root;
    struct json_iter iter;
    int64_t next = 0;
    assert_true(parse("[0,1,2,{\"a\":[]},4]", &root));
    for (json_each(&root, &iter); json_next(&iter); next++) {
        if (next == 3) assert_int_equal(iter.value.type, JSON_OBJECT);
        if (next != 3) assert_int_equal(iter.value.integer, next);
        assert_null(iter.key.data);
    }
    assert_int_equal(next, 5);
    assert_false(json_next(&iter)); /* and stays at its end */
}

static void an_object_is_walked_with_repeated_keys_each_time(void **state)
{
    static const char *const keys[] = {"a", "b", "a", ""};
    struct json_value root;
    struct json_iter iter;
    unsigned count = 0;
    assert_true(parse("{\"a\":[1,[2]],\"b\":{\"c\":1},\"a\":true,\"\":null}", &root));
    for (json_each(&root, &iter); json_next(&iter); count++)
        assert_bytes(iter.key, bytes_str(keys[count]));
    assert_int_equal(count, 4);
    assert_int_equal(iter.value.type, JSON_NULL);
}

static void what_has_no_parts_is_walked_in_no_steps(void **state)
{
    static const char *const texts[] = {"[]", "{}", "1", "\"abc\"", "null", "true"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        struct json_value root;
        struct json_iter iter;
        assert_true(parse(texts[i], &root));
        json_each(&root, &iter);
        assert_false(json_next(&iter));
    }
}

static void lines_are_parsed_where_they_stand(void **state)
{
    static const char text[] = "{\"n\":0}\n{\"n\":1}\n{\"n\":\n{\"n\":3}\n{\"n\":4";
    struct bytes names[] = {BYTES("n")};
    size_t size = strlen(text);
    char *lines = calloc(1, size + JSON_PADDING);
    assert_non_null(lines);
    memcpy(lines, text, size);

    struct bytes rest = bytes_of(lines, size);
    for (int64_t i = 0; rest.data; i++) {
        struct json_value root, n;
        bool good = json_parse(parser, bytes_split(&rest, '\n'), &root);
        assert_int_equal(good, i != 2 && i != 4);
        if (!good) continue;
        json_pick(&root, names, 1, &n);
        assert_int_equal(n.integer, i);
    }
    assert_memory_equal(lines, text, size);
    free(lines);
}

static void a_long_document_is_parsed_up_to_the_limit_and_small_ones_after_it(void **state)
{
    for (size_t size = TEXT_MAX - 1; size <= TEXT_MAX + 1; size++) {
        char *text = malloc(size + JSON_PADDING);
        assert_non_null(text);
        for (size_t at = 0; at < size; at++)
            text[at] = at % 2 ? '1' : ',';
        text[0] = '[';
        if (size % 2 == 0) text[size - 2] = ' ';
        text[size - 1] = ']';

        struct json_value root;
        bool parsed = json_parse(parser, bytes_of(text, size), &root);
        assert_int_equal(parsed, size <= TEXT_MAX);
        if (!parsed) assert_string_equal(json_problem(parser), "it is too long");
        free(text);
        assert_int_equal(pick_one("{\"a\":7}", "a").integer, 7);
    }
}

static void assert_text(const char *text, const char *want)
{
    struct json_value root;
    if (!parse(text, &root)) fail_msg("refused: %s", text);
    struct bytes got = json_text(parser, &root);
    if (!bytes_equal(got, bytes_str(want)))
        fail_msg("%s: %.*s, not %s", text, (int)got.size, got.data, want);
}

static void text_is_the_document_without_its_white_space(void **state)
{
    assert_text(" { \"b\" : [ 1 , { } , [ ] , null ] ,\n\"a\":{\"x\":true,\"y\":false} } ",
                "{\"b\":[1,{},[],null],\"a\":{\"x\":true,\"y\":false}}");
    assert_text("{\"a\":1,\"a\" :2}", "{\"a\":1,\"a\":2}");
    assert_text(" \"x\" ", "\"x\"");
    assert_text("[]", "[]");
    assert_text("{}", "{}");
    assert_text("null", "null");
}

/* what is an integer stays exact, what is none does not become one. */
static void A_18_text_keeps_numbers_as_they_are(void **state)
{
    static const char *const cases[][2] = {
        {"-9223372036854775808", "-9223372036854775808"},
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775808", "9223372036854775808"},
        {"18446744073709551615", "18446744073709551615"},
        {"9007199254740993", "9007199254740993"},
        {"-0", "0"},
        {"1.0", "1.0"},
        {"-0.0", "-0.0"},
        {"0.1", "0.1"},
        {"1e2", "100.0"},
        {"1E5", "1e+05"},
        {"12345678901234567890.0", "12345678901234567168.0"},
        {"1.7976931348623157e308", "1.7976931348623157e+308"},
        {"5e-324", "5e-324"},
        {"0.30000000000000004", "0.30000000000000004"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        struct json_value before, after;
        assert_text(cases[i][0], cases[i][1]);
        assert_true(parse(cases[i][0], &before));
        assert_true(parse(cases[i][1], &after));
        assert_int_equal(before.type, after.type);
        assert_text(cases[i][1], cases[i][1]);
    }
}

static void text_escapes_what_JSON_demands_and_nothing_else(void **state)
{
    assert_text("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\\"\\\\/\\b\\f\\n\\r\\t\"");
    assert_text("\"\\u0000\\u0001\\u000B\\u001F\\u007f\"", "\"\\u0000\\u0001\\u000b\\u001f\x7f\"");
    assert_text("{\"\\u0022k\":\"\\u00e9\\ud83d\\ude00\"}", "{\"\\\"k\":\"\u00e9\U0001F600\"}");
}

/* Each byte at each place of the eight that are looked at together, and in what is left over. */
static void text_finds_every_byte_to_escape_wherever_it_stands(void **state)
{
    for (unsigned byte = 0; byte < 0x80; byte++) {
        for (size_t at = 0; at < 19; at++) {
            char text[64] = "\"", *end = text + 1;
            for (size_t i = 0; i < 19; i++)
                end += i == at ? sprintf(end, "\\u%04x", byte) : sprintf(end, "x");
            memcpy(end, "\"", 2);
            struct json_value root, again;
            assert_true(parse(text, &root));
            char copy[64 + JSON_PADDING] = {0};
            char want[64];
            struct bytes once = json_text(parser, &root);
            size_t want_size = root.string.size;
            memcpy(want, root.string.data, want_size);
            memcpy(copy, once.data, once.size);
            if (!json_parse(parser, bytes_of(copy, once.size), &again))
                fail_msg("byte %u at %zu gave no JSON", byte, at);
            assert_bytes(again.string, bytes_of(want, want_size));
        }
    }
}

static void text_of_one_part_and_of_none(void **state)
{
    struct json_value value =
        pick_one("{\"a\":1,\"payload\":{ \"x\":[1.5, 2] },\"b\":2}", "payload");
    assert_bytes(json_text(parser, &value), BYTES("{\"x\":[1.5,2]}"));
    assert_bytes(json_text(parser, &value), BYTES("{\"x\":[1.5,2]}"));
    value = pick_one("{\"a\": 0.5}", "a");
    assert_bytes(json_text(parser, &value), BYTES("0.5"));
    assert_int_equal(json_text(parser, &(struct json_value){.type = JSON_ABSENT}).size, 0);
}

static void text_of_a_long_document_is_whole_and_its_memory_goes(void **state)
{
    size_t size = TEXT_MAX / 2;
    char *text = malloc(size + JSON_PADDING);
    assert_non_null(text);
    memset(text, 'x', size);
    for (size_t at = 1; at + 2 < size; at += 1000)
        memcpy(text + at, "\\n", 2);
    text[0] = text[size - 1] = '"';
    struct json_value root;
    assert_true(json_parse(parser, bytes_of(text, size), &root));
    assert_bytes(json_text(parser, &root), bytes_of(text, size));
    free(text);
    assert_text("[1]", "[1]");
}

static int setup(void **state)
{
    parser = json_parser_new(TEXT_MAX);
    return 0;
}

static int teardown(void **state)
{
    json_parser_free(parser);
    free(held);
    return 0;
}

/* What stands in a text is found again, whichever of its parts is asked for, and in any order. */
static void SPEC_12_source_is_what_was_written_but_for_white_space(void **state)
{
    static const char text[] =
        " { \"a\" : 1E+2 , \"b\":[ 1.00 , -0 , { } , [ ] , \"\\u00e9 \\n\" ],\n"
        "\"c\" : { \"d\" : 0.10 , \"e\" : \"x y\" } , \"f\" : \"\\u0000\" , "
        "\"g\":true , \"h\" : 1.000000000000000000000001 } ";
    static const struct {
        const char *name;
        const char *source;
    } parts[] = {
        {"h", "1.000000000000000000000001"},      {"a", "1E+2"},
        {"b", "[1.00,-0,{},[],\"\\u00e9 \\n\"]"}, {"f", "\"\\u0000\""},
        {"c", "{\"d\":0.10,\"e\":\"x y\"}"},      {"g", "true"},
        {"c", "{\"d\":0.10,\"e\":\"x y\"}"},
    };
    struct json_value root, value;
    assert_true(parse(text, &root));
    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        struct bytes names[] = {bytes_str(parts[i].name)};
        json_pick(&root, names, 1, &value);
        assert_bytes(json_source(parser, &value), bytes_str(parts[i].source));
    }
    assert_bytes(json_source(parser, &root),
                 BYTES("{\"a\":1E+2,\"b\":[1.00,-0,{},[],\"\\u00e9 \\n\"],\"c\":{\"d\":0.10,"
                       "\"e\":\"x y\"},\"f\":\"\\u0000\",\"g\":true,"
                       "\"h\":1.000000000000000000000001}"));
    assert_true(parse("\n 5e0 \n", &root));
    assert_bytes(json_source(parser, &root), BYTES("5e0"));
    assert_true(parse("[ ]", &root));
    assert_bytes(json_source(parser, &root), BYTES("[]"));
    assert_int_equal(json_source(parser, &(struct json_value){.type = JSON_ABSENT}).size, 0);
}

static void source_of_each_element_of_a_long_array(void **state)
{
    static char text[1 << 16];
    struct json_value root;
    struct json_iter iter;
    size_t size = 0;
    unsigned count = 0;
    for (unsigned i = 0; i < 2000; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%c {\"n\" : [%u.0, {}]}",
                                 i ? ',' : '[', i);
    text[size++] = ']';
    assert_true(parse_bytes(bytes_of(text, size), &root));
    for (json_each(&root, &iter); json_next(&iter); count++) {
        char want[32];
        snprintf(want, sizeof want, "{\"n\":[%u.0,{}]}", count);
        assert_bytes(json_source(parser, &iter.value), bytes_str(want));
    }
    assert_int_equal(count, 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_comes_out_as_itself),
        cmocka_unit_test(S3_04_integers_are_exact_over_all_of_int64),
        cmocka_unit_test(S3_33_anything_malformed_anywhere_refuses_the_document),
        cmocka_unit_test(bytes_that_are_not_UTF8_refuse_the_document),
        cmocka_unit_test(a_NUL_outside_a_string_refuses_the_document),
        cmocka_unit_test(numbers_past_64_bits_refuse_the_document_and_say_so),
        cmocka_unit_test(depth_is_limited_on_both_sides_of_the_line),
        cmocka_unit_test(strings_are_unescaped),
        cmocka_unit_test(pick_finds_fields_in_any_order_and_marks_the_rest_absent),
        cmocka_unit_test(pick_matches_whole_names_only),
        cmocka_unit_test(pick_from_what_is_no_object_gives_absent),
        cmocka_unit_test(A_27e_of_repeated_keys_the_last_wins),
        cmocka_unit_test(an_array_is_walked_in_order),
        cmocka_unit_test(an_object_is_walked_with_repeated_keys_each_time),
        cmocka_unit_test(what_has_no_parts_is_walked_in_no_steps),
        cmocka_unit_test(lines_are_parsed_where_they_stand),
        cmocka_unit_test(a_long_document_is_parsed_up_to_the_limit_and_small_ones_after_it),
        cmocka_unit_test(text_is_the_document_without_its_white_space),
        cmocka_unit_test(A_18_text_keeps_numbers_as_they_are),
        cmocka_unit_test(text_escapes_what_JSON_demands_and_nothing_else),
        cmocka_unit_test(text_finds_every_byte_to_escape_wherever_it_stands),
        cmocka_unit_test(text_of_one_part_and_of_none),
        cmocka_unit_test(text_of_a_long_document_is_whole_and_its_memory_goes),
        cmocka_unit_test(SPEC_12_source_is_what_was_written_but_for_white_space),
        cmocka_unit_test(source_of_each_element_of_a_long_array),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
