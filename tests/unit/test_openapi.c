/* test_openapi.c -- the description of the API and the route table say the same.
 * What is described is tried over HTTP by tests/e2e/openapi.test.mjs. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "api/openapi/openapi.h"
#include "api/route.h"
#include "base/json.h"

static const char *const described[] = {
#define TAG(...)
#define CALL(route, ...) #route,
#define PATH(...)
#define QUERY(...)
#define DIMENSIONS(...)
#define HEADER(...)
#define BODY(...)
#define REPLY(...)
#define REPLY_AS(...)
#define SENDS(...)
#define FAILS(...)
#include "api/openapi/openapi.def"
};

static bool is_described(const char *route)
{
    for (size_t i = 0; i < ARRAY_COUNT(described); i++)
        if (strcmp(described[i], route) == 0) return true;
    return false;
}

static bool is_route(const char *name)
{
    for (unsigned i = 0; i < route_count(); i++)
        if (strcmp(route_at(i)->name, name) == 0) return true;
    return false;
}

static void every_route_is_described(void **state)
{
    for (unsigned i = 0; i < route_count(); i++)
        if (!is_described(route_at(i)->name))
            fail_msg("route \"%s\" has no CALL in src/api/openapi/openapi.def", route_at(i)->name);
}

static void every_description_has_a_route(void **state)
{
    for (size_t i = 0; i < ARRAY_COUNT(described); i++)
        if (!is_route(described[i])) fail_msg("CALL(%s) has no route in route.c", described[i]);
    assert_int_equal(ARRAY_COUNT(described), route_count());
}

/* Ends in NUL, for strstr. */
static const char *document(void)
{
    static char *text;
    struct bytes bytes = openapi_text();
    if (!text) text = strndup(bytes.data, bytes.size);
    return text;
}

static unsigned count_of(const char *text, const char *word)
{
    unsigned count = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        count++;
    return count;
}

static void the_document_is_json_and_has_every_route_once(void **state)
{
    struct bytes text = openapi_text();
    struct json_value value;
    struct json_parser *parser = json_parser_new(text.size + 64);
    assert_true(json_parse(parser, text, &value));
    assert_int_equal(value.type, JSON_OBJECT);
    json_parser_free(parser);
    for (unsigned i = 0; i < route_count(); i++) {
        char word[96];
        snprintf(word, sizeof word, "\"operationId\": \"%s\"", route_at(i)->name);
        assert_int_equal(count_of(document(), word), 1);
    }
}

/* A type that openapi.def or schemas.def only mentions would be a dead reference. */
static void every_shape_that_is_named_is_there(void **state)
{
    static const char prefix[] = "\"#/components/schemas/";
    const char *text = document();
    for (const char *at = strstr(text, prefix); at; at = strstr(at + 1, prefix)) {
        const char *name = at + strlen(prefix);
        char word[96];
        snprintf(word, sizeof word, "\n   \"%.*s\": {", (int)strcspn(name, "\""), name);
        if (!strstr(text, word)) fail_msg("no shape %s in schemas.def", word + 4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_is_described),
        cmocka_unit_test(every_description_has_a_route),
        cmocka_unit_test(the_document_is_json_and_has_every_route_once),
        cmocka_unit_test(every_shape_that_is_named_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
