/* test_route.c -- which request goes where (SPEC 3 and 5): the table, 404 and 405 with Allow. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "api/route.h"

static struct route_match find(enum http_method method, const char *path)
{
    struct route_match match;
    route_find(method, bytes_str(path), &match);
    return match;
}

static void expect_route(enum http_method method, const char *path, const char *name)
{
    struct route_match match = find(method, path);
    if (!match.route) fail_msg("%s leads nowhere", path);
    assert_int_equal(match.err, ERR_OK);
    assert_string_equal(match.route->name, name);
}

static void every_call_of_the_contract_has_its_route(void **state)
{
    static const struct {
        enum http_method method;
        const char *path;
        const char *name;
        enum scope scope;
    } calls[] = {
        {HTTP_POST, "/api/counters/t/n/increment", "increment", SCOPE_WRITE},
        {HTTP_POST, "/api/counters/t/n/decrement", "decrement", SCOPE_WRITE},
        {HTTP_POST, "/api/counters/t/n/incrementSync", "incrementSync", SCOPE_WRITE},
        {HTTP_POST, "/api/counters/t/n/decrementSync", "decrementSync", SCOPE_WRITE},
        {HTTP_PUT, "/api/counters/t/n/set", "set", SCOPE_WRITE},
        {HTTP_GET, "/api/counters/t/n/get", "get", SCOPE_READ},
        {HTTP_GET, "/api/counters/t/n/sumRange", "sumRange", SCOPE_READ},
        {HTTP_GET, "/api/counters/t/n/series", "series", SCOPE_READ},
        {HTTP_POST, "/api/counters/t/batch", "batch", SCOPE_WRITE},
        {HTTP_POST, "/api/counters/t/query", "query", SCOPE_READ},
        {HTTP_GET, "/api/counters/t", "list", SCOPE_READ},
        {HTTP_DELETE, "/api/counters/t/n", "delete", SCOPE_WRITE},
        {HTTP_POST, "/api/events/t", "events", SCOPE_WRITE},
        {HTTP_GET, "/api/events/t", "eventList", SCOPE_READ},
        {HTTP_GET, "/api/events/t/E1", "event", SCOPE_READ},
        {HTTP_GET, "/api/duplicates/t", "duplicates", SCOPE_READ},
    };
    for (size_t i = 0; i < ARRAY_COUNT(calls); i++) {
        expect_route(calls[i].method, calls[i].path, calls[i].name);
        struct route_match match = find(calls[i].method, calls[i].path);
        assert_int_equal(match.route->scope, calls[i].scope);
        assert_int_equal(match.route->flags & ROUTE_PUBLIC, 0);
        assert_true(bytes_equal(match.tenant, BYTES("t")));
        bool waits = calls[i].scope == SCOPE_READ; /* reads see the writes sent before them */
        assert_int_equal((match.route->flags & ROUTE_READ) != 0, waits);
    }
}

static void public_routes_need_no_token(void **state)
{
    static const char *const paths[] = {"/healthz", "/readyz"};
    for (size_t i = 0; i < ARRAY_COUNT(paths); i++)
        assert_true(find(HTTP_GET, paths[i]).route->flags & ROUTE_PUBLIC);
    unsigned flags = find(HTTP_GET, "/metrics").route->flags;
    assert_true(flags & ROUTE_ADMIN_UNLESS_PUBLIC_METRICS);
    assert_false(flags & ROUTE_PUBLIC);
}

static void nothing_else_is_there(void **state)
{
    static const char *const paths[] = {
        "/nope",
        "/api",
        "/api/counters",
        "/api/counter/t",
        "/healthz/x",
        "/api/counters/t/n/get/x",
        "/api/counters/t/n/nope",
        "/API/counters/t/n/get",
        "/api/counters/t/n/Get",
        "/api/counters/t/n/increment/now/and/then",
    };
    for (size_t i = 0; i < ARRAY_COUNT(paths); i++)
        for (enum http_method method = HTTP_GET; method <= HTTP_OTHER; method++) {
            struct route_match match = find(method, paths[i]);
            assert_null(match.route);
            assert_int_equal(match.err, ERR_NOT_FOUND);
        }
}

static void a_slash_too_many_leads_nowhere(void **state)
{
    static const char *const paths[] = {"/healthz/", "//healthz", "/api/counters/t/n/get/",
                                        "/api//counters/t/n/get"};
    for (size_t i = 0; i < ARRAY_COUNT(paths); i++) {
        struct route_match match = find(HTTP_GET, paths[i]);
        assert_null(match.route);
    }
}

static void an_encoded_slash_is_part_of_its_segment_A_24(void **state)
{
    struct route_match match = find(HTTP_GET, "/api/counters/t%2Fu/a%2Fb/get");
    assert_int_equal(match.err, ERR_OK);
    assert_true(bytes_equal(match.tenant, BYTES("t%2Fu")));
    assert_true(bytes_equal(match.name, BYTES("a%2Fb")));
    assert_null(find(HTTP_GET, "/api/counters/t%2Fn/get").route);
    match = find(HTTP_GET, "/api/events/t/a%2Fb");
    assert_true(bytes_equal(match.name, BYTES("a%2Fb")));
}

static void a_name_may_be_that_of_a_call(void **state)
{
    expect_route(HTTP_DELETE, "/api/counters/t/batch", "delete");
    assert_true(bytes_equal(find(HTTP_DELETE, "/api/counters/t/batch").name, BYTES("batch")));
    expect_route(HTTP_GET, "/api/counters/t/get/get", "get");
}

static void expect_allow(enum http_method method, const char *path, const char *allow)
{
    struct route_match match = find(method, path);
    assert_null(match.route);
    assert_int_equal(match.err, ERR_METHOD);
    assert_string_equal(match.allow, allow);
}

static void another_method_is_told_which_are_allowed_S3_58(void **state)
{
    expect_allow(HTTP_GET, "/api/counters/t/n/increment", "POST");
    expect_allow(HTTP_POST, "/api/counters/t/n/set", "PUT");
    expect_allow(HTTP_DELETE, "/api/counters/t/n/set", "PUT");
    expect_allow(HTTP_POST, "/api/counters/t/n/get", "GET, HEAD");
    expect_allow(HTTP_OTHER, "/api/counters/t", "GET, HEAD");
    expect_allow(HTTP_GET, "/api/counters/t/batch", "POST, DELETE");
    expect_allow(HTTP_PATCH, "/api/counters/t/n", "DELETE");
    expect_allow(HTTP_HEAD, "/api/counters/t/n/increment", "POST");
    expect_allow(HTTP_PUT, "/api/events/t", "POST, GET, HEAD");
}

static void head_is_get_without_a_body(void **state)
{
    expect_route(HTTP_HEAD, "/healthz", "healthz");
    expect_route(HTTP_HEAD, "/api/counters/t/n/get", "get");
}

static void metrics_know_every_route_by_one_name(void **state)
{
    const char *const *names = route_names();
    for (unsigned i = 0; i < route_count(); i++)
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(names[i], names[k]);
    const struct route *set = find(HTTP_PUT, "/api/counters/t/n/set").route;
    assert_string_equal(names[route_index(set)], "set");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_of_the_contract_has_its_route),
        cmocka_unit_test(public_routes_need_no_token),
        cmocka_unit_test(nothing_else_is_there),
        cmocka_unit_test(a_slash_too_many_leads_nowhere),
        cmocka_unit_test(an_encoded_slash_is_part_of_its_segment_A_24),
        cmocka_unit_test(a_name_may_be_that_of_a_call),
        cmocka_unit_test(another_method_is_told_which_are_allowed_S3_58),
        cmocka_unit_test(head_is_get_without_a_body),
        cmocka_unit_test(metrics_know_every_route_by_one_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
