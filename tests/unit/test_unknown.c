/* test_unknown.c -- names that a call does not know are found, and told with what was meant. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "api/route.h"
#include "api/unknown.h"

static struct json_parser *parser;
static struct arena arena;
static struct reason why;

static int setup(void **state)
{
    parser = json_parser_new(64 * 1024);
    arena_init(&arena, 4096);
    return 0;
}

static int teardown(void **state)
{
    json_parser_free(parser);
    arena_release(&arena);
    return 0;
}

static struct json_value json(const char *text)
{
    size_t size = strlen(text);
    char *copy = arena_zalloc(&arena, size + JSON_PADDING);
    struct json_value root;
    memcpy(copy, text, size);
    if (!json_parse(parser, bytes_of(copy, size), &root)) fail_msg("not JSON: %s", text);
    return root;
}

static const struct bytes change_names[] = {
    BYTES("durationSeconds"), BYTES("timestamp"), BYTES("expiresAt"),
    BYTES("amount"),          BYTES("max"),       BYTES("idempotencyKey"),
};
#define MAX_ONLY_AS_NULL (1u << 4)
static const struct known change = {change_names, ARRAY_COUNT(change_names), 0, false};

/* "" if all of it is known. */
static const char *told(const char *text, const struct known *known)
{
    struct json_value object = json(text);
    why.text[0] = '\0';
    bool found = unknown_field(&object, known, &why);
    assert_int_equal(found, why.text[0] != '\0');
    return why.text;
}

static void an_unknown_field_is_named_with_what_was_probably_meant(void **state)
{
    static const char *const cases[][2] = {
        {"{\"amout\":1}", "Unknown field \"amout\": did you mean \"amount\"?"},
        {"{\"Amount\":1}", "Unknown field \"Amount\": did you mean \"amount\"?"},
        {"{\"amuont\":1}", "Unknown field \"amuont\": did you mean \"amount\"?"},
        {"{\"expires_at\":1}", "Unknown field \"expires_at\": did you mean \"expiresAt\"?"},
        {"{\"expires\":1}", "Unknown field \"expires\": did you mean \"expiresAt\"?"},
        {"{\"duration\":1}", "Unknown field \"duration\": did you mean \"durationSeconds\"?"},
        {"{\"maximum\":1}", "Unknown field \"maximum\": did you mean \"max\"?"},
        {"{\"key\":1}", "Unknown field \"key\": did you mean \"idempotencyKey\"?"},
        {"{\"time_stamp\":null}", "Unknown field \"time_stamp\": did you mean \"timestamp\"?"},
        {"{\"colour\":1}", "Unknown field \"colour\"."},
        {"{\"\":1}", "Unknown field \"\"."},
        {"{\"amount\":1,\"a\":{},\"b\":2}", "Unknown field \"a\"."},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++)
        assert_string_equal(told(cases[i][0], &change), cases[i][1]);
}

static void known_fields_and_those_that_are_ignored_pass(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"amount\":1,\"max\":null}",
        "{\"x-trace\":{\"a\":1},\"x-\":1}",
        "{\"minSequence\":\"9\"}",
        "[1,{\"a\":1}]",
        "7",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++)
        assert_string_equal(told(texts[i], &change), "");
}

static void a_field_of_another_kind_of_operation_is_known_only_as_null(void **state)
{
    struct known known = change;
    known.elsewhere = MAX_ONLY_AS_NULL;
    assert_string_equal(told("{\"max\":null}", &known), "");
    assert_string_equal(told("{\"max\":5}", &known), "Unknown field \"max\".");
    assert_string_equal(told("{\"maxx\":5}", &known), "Unknown field \"maxx\".");
}

static void a_long_name_is_cut_between_two_characters(void **state)
{
    char text[256] = "{\"";
    for (unsigned i = 0; i < 40; i++)
        strcat(text, "ä");
    strcat(text, "\":1}");
    const char *sentence = told(text, &change);
    assert_true(bytes_is_utf8(bytes_str(sentence)));
    assert_non_null(strstr(sentence, "ä...\"."));
    assert_int_equal(strlen(sentence), strlen("Unknown field \"\".") + 64 + strlen("..."));
}

static const struct known *of_route(const char *name)
{
    for (unsigned i = 0; i < route_count(); i++)
        if (strcmp(route_at(i)->name, name) == 0) return known_params(i);
    fail_msg("no route %s", name);
    return NULL;
}

static const char *asked(const char *route, const char *text)
{
    struct params params;
    why.text[0] = '\0';
    assert_int_equal(params_parse(bytes_str(text), &arena, &params, &why), ERR_OK);
    bool found = unknown_param(&params, of_route(route), &why);
    assert_int_equal(found, why.text[0] != '\0');
    return why.text;
}

static void a_route_knows_the_parameters_that_are_documented(void **state)
{
    assert_string_equal(asked("list", "limit=1&after=&prefix=a"), "");
    assert_string_equal(asked("series", "durationSeconds=1&fill=zero&limit=3&dim.page=/"), "");
    assert_string_equal(asked("healthz", "_cache=1&minSequence=7"), "");
    assert_string_equal(asked("list", "limt=1"),
                        "Unknown query parameter \"limt\": did you mean \"limit\"?");
    assert_string_equal(asked("list", "dim.page=1"), "Unknown query parameter \"dim.page\".");
    assert_string_equal(asked("increment", "amount=5"), "Unknown query parameter \"amount\".");
    assert_string_equal(asked("sumRange", "start=1"),
                        "Unknown query parameter \"start\": did you mean \"startTime\"?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_field_is_named_with_what_was_probably_meant),
        cmocka_unit_test(known_fields_and_those_that_are_ignored_pass),
        cmocka_unit_test(a_field_of_another_kind_of_operation_is_known_only_as_null),
        cmocka_unit_test(a_long_name_is_cut_between_two_characters),
        cmocka_unit_test(a_route_knows_the_parameters_that_are_documented),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
