/* test_dims.c -- dimensions on their way in and out (SPEC 7). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "api/counters/dims.h"

static struct arena arena;
static struct json_parser *parser;

static int setup(void **state)
{
    arena_init(&arena, 4096);
    parser = json_parser_new(1u << 20);
    return 0;
}

static int teardown(void **state)
{
    json_parser_free(parser);
    arena_release(&arena);
    return 0;
}

static struct dims from_query(const char *query)
{
    struct params params;
    struct reason why;
    assert_int_equal(params_parse(bytes_str(query), &arena, &params, &why), ERR_OK);
    return dims_from_params(&params, &arena);
}

static enum err from_json(const char *text, struct dims *dims_out)
{
    struct json_value value;
    struct reason why;
    char padded[4096] = "";
    snprintf(padded, sizeof padded - JSON_PADDING, "%s", text);
    assert_true(json_parse(parser, bytes_str(padded), &value));
    return dims_from_json(&value, &arena, dims_out, &why);
}

static void assert_json(struct dims dims, const char *expected)
{
    struct bytes json = dims_json(&dims, &arena);
    assert_int_equal(json.size, strlen(expected));
    assert_memory_equal(json.data, expected, json.size);
}

static void a_query_names_dimensions_with_dim(void **state)
{
    assert_json(from_query(""), "{}");
    assert_json(from_query("limit=5&dimension=x&dim=y"), "{}");
    assert_json(from_query("dim.b=2&limit=5&dim.a=1"), "{\"a\":\"1\",\"b\":\"2\"}");
    assert_json(from_query("dim.a=1&dim.a=2"), "{\"a\":\"2\"}");
    assert_json(from_query("dim.a="), "{\"a\":\"\"}");
    assert_json(from_query("dim.payload.kind=note"), "{\"payload.kind\":\"note\"}");
}

static void A_11_json_values_count_by_their_string_form(void **state)
{
    struct dims dims;
    assert_int_equal(from_json("{\"b\":true,\"a\":-7,\"c\":\"x\",\"d\":null}", &dims), ERR_OK);
    assert_json(dims, "{\"a\":\"-7\",\"b\":\"true\",\"c\":\"x\"}");
    assert_int_equal(from_json("null", &dims), ERR_OK);
    assert_json(dims, "{}");
    assert_int_equal(from_json("{\"a\":-9223372036854775808}", &dims), ERR_OK);
    assert_json(dims, "{\"a\":\"-9223372036854775808\"}");
}

static void of_a_repeated_key_the_last_stands_also_a_null(void **state)
{
    struct dims dims;
    assert_int_equal(from_json("{\"a\":\"1\",\"a\":null}", &dims), ERR_OK);
    assert_json(dims, "{}");
    assert_int_equal(from_json("{\"a\":null,\"a\":\"\"}", &dims), ERR_OK);
    assert_json(dims, "{\"a\":\"\"}");
}

static void other_json_is_refused(void **state)
{
    static const char *const bad[] = {"[]",          "\"a\"",      "1",
                                      "{\"a\":1.5}", "{\"a\":[]}", "{\"a\":{}}"};
    struct dims dims;
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++)
        assert_int_equal(from_json(bad[i], &dims), ERR_INVALID);
}

/* {"k0":1,"k1":1,...} */
static enum err from_many(unsigned count, struct dims *dims_out)
{
    char text[2048];
    size_t size = 0;
    for (unsigned i = 0; i < count; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%c\"k%u\":1", i ? ',' : '{', i);
    snprintf(text + size, sizeof text - size, "}");
    return from_json(text, dims_out);
}

static void more_than_64_keys_are_refused(void **state)
{
    struct dims dims;
    assert_int_equal(from_many(EVENT_DIMENSIONS_MAX, &dims), ERR_OK);
    assert_int_equal(dims.count, EVENT_DIMENSIONS_MAX);
    assert_int_equal(from_many(EVENT_DIMENSIONS_MAX + 1, &dims), ERR_INVALID);
}

static bool matches(const char *json, const char *query)
{
    struct dims dims = from_query(query);
    return dims_match(bytes_str(json), &dims);
}

static void a_row_matches_if_it_has_every_pair(void **state)
{
    const char *row = "{\"choice\":\"yes\",\"poll\":\"p1\"}";
    assert_true(matches(row, ""));
    assert_true(matches(row, "dim.poll=p1"));
    assert_true(matches(row, "dim.choice=yes"));
    assert_true(matches(row, "dim.poll=p1&dim.choice=yes"));
    assert_false(matches(row, "dim.poll=p"));
    assert_false(matches(row, "dim.poll=p1&dim.choice=no"));
    assert_false(matches(row, "dim.yes=poll"));
    assert_true(matches("{}", ""));
    assert_false(matches("{}", "dim.a=1"));
}

/* A search for the pair's text would find it here, across the end of one value and the next key. */
static void a_value_that_looks_like_a_pair_is_none(void **state)
{
    const char *row = "{\"x\":\"a,\",\":\":\"v\"}";
    assert_true(matches(row, "dim.x=a%2C"));
    assert_true(matches(row, "dim.%3A=v"));
    assert_false(matches(row, "dim.%2C=%3A"));
    assert_true(matches("{\"q\":\"say \\\"hi\\\"\"}", "dim.q=say+%22hi%22"));
    assert_true(matches("{\"q\":\"\\\\\",\"r\":\"1\"}", "dim.q=%5C&dim.r=1"));
}

/* Keys come from the store; bytes that no encoder wrote must do no harm. */
static void damaged_rows_match_nothing_and_end(void **state)
{
    static const char *const bad[] = {"",       "{",       "{\"",       "{\"a",
                                      "{\"a\"", "{\"a\":", "{\"a\":\"", "{\"a\":\"\\"};
    for (unsigned i = 0; i < ARRAY_COUNT(bad); i++) {
        assert_false(matches(bad[i], "dim.a=1"));
        assert_false(dims_same_keys(BYTES("{\"a\":\"\"}"), bytes_str(bad[i])));
    }
}

static void shapes_compare_keys_and_not_values(void **state)
{
    struct source sources[] = {{.name = BYTES("a")}, {.name = BYTES("q\"")}};
    struct dimension_set set = {2, sources};
    struct dimension_set none = {0, NULL};
    struct bytes shape = dims_shape(&set, &arena);
    assert_true(dims_same_keys(BYTES("{\"a\":\"1\",\"q\\\"\":\"2\"}"), shape));
    assert_false(dims_same_keys(BYTES("{\"a\":\"1\"}"), shape));
    assert_false(dims_same_keys(BYTES("{\"a\":\"1\",\"q\":\"2\"}"), shape));
    assert_false(dims_same_keys(BYTES("{\"a\":\"1\",\"q\\\"\":\"2\",\"z\":\"\"}"), shape));
    assert_true(dims_same_keys(BYTES("{}"), dims_shape(&none, &arena)));
    assert_false(dims_same_keys(BYTES("{\"a\":\"1\"}"), dims_shape(&none, &arena)));
}

/* printf '{"a":"1"}' | sha256sum */
static void a_dimension_key_is_the_sha256_of_canonical_json(void **state)
{
    struct buf buf;
    buf_init(&buf, 128);
    dims_add_key(&buf, BYTES("{\"a\":\"1\"}"));
    assert_int_equal(buf.size, 64);
    assert_memory_equal(buf.data,
                        "9afeb0f2b203f254312ec8ded441d0318b7c34c57f8695ede42d2215a30c0960", 64);
    buf_release(&buf);
}

static void a_value_is_found_by_its_key(void **state)
{
    struct dims dims = from_query("dim.a=1&dim.b=");
    assert_true(bytes_equal(dims_value(&dims, BYTES("a")), BYTES("1")));
    assert_non_null(dims_value(&dims, BYTES("b")).data);
    assert_null(dims_value(&dims, BYTES("c")).data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_query_names_dimensions_with_dim),
        cmocka_unit_test(A_11_json_values_count_by_their_string_form),
        cmocka_unit_test(of_a_repeated_key_the_last_stands_also_a_null),
        cmocka_unit_test(other_json_is_refused),
        cmocka_unit_test(more_than_64_keys_are_refused),
        cmocka_unit_test(a_row_matches_if_it_has_every_pair),
        cmocka_unit_test(a_value_that_looks_like_a_pair_is_none),
        cmocka_unit_test(damaged_rows_match_nothing_and_end),
        cmocka_unit_test(shapes_compare_keys_and_not_values),
        cmocka_unit_test(a_dimension_key_is_the_sha256_of_canonical_json),
        cmocka_unit_test(a_value_is_found_by_its_key),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
