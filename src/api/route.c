/* route.c -- the endpoint table. A path is compared segment by segment, raw: an encoded slash is
 * part of its segment and never separates. */
#include "api/route.h"

#include <stdio.h>

#include "api/endpoints.h"
#include "api/params.h"

#define COUNTERS "/api/counters/{tenant}"
#define ONE COUNTERS "/{name}"

static const struct route routes[] = {
    /* name, method, path, scope, flags, function, detail */
    {"healthz", HTTP_GET, "/healthz", 0, ROUTE_PUBLIC, ops_health, 0},
    {"readyz", HTTP_GET, "/readyz", 0, ROUTE_PUBLIC, ops_ready, 0},
    {"metrics", HTTP_GET, "/metrics", SCOPE_ADMIN, ROUTE_ADMIN_UNLESS_PUBLIC_METRICS, ops_metrics,
     0},
    {"increment", HTTP_POST, ONE "/increment", SCOPE_WRITE, 0, change_one, CHANGE_INCREMENT},
    {"decrement", HTTP_POST, ONE "/decrement", SCOPE_WRITE, 0, change_one, CHANGE_DECREMENT},
    {"incrementSync", HTTP_POST, ONE "/incrementSync", SCOPE_WRITE, 0, change_one,
     CHANGE_INCREMENT_SYNC},
    {"decrementSync", HTTP_POST, ONE "/decrementSync", SCOPE_WRITE, 0, change_one,
     CHANGE_DECREMENT_SYNC},
    {"set", HTTP_PUT, ONE "/set", SCOPE_WRITE, 0, change_one, CHANGE_SET},
    {"get", HTTP_GET, ONE "/get", SCOPE_READ, ROUTE_READ, read_get, 0},
    {"sumRange", HTTP_GET, ONE "/sumRange", SCOPE_READ, ROUTE_READ, read_sum, 0},
    {"series", HTTP_GET, ONE "/series", SCOPE_READ, ROUTE_READ, read_series, 0},
    {"batch", HTTP_POST, COUNTERS "/batch", SCOPE_WRITE, 0, batch_post, 0},
    {"query", HTTP_POST, COUNTERS "/query", SCOPE_READ, ROUTE_READ, query_post, 0},
    {"list", HTTP_GET, COUNTERS, SCOPE_READ, ROUTE_READ, read_list, 0},
    {"delete", HTTP_DELETE, ONE, SCOPE_WRITE, 0, change_delete, 0},
};

static const char *const method_names[] = {
    [HTTP_GET] = "GET",     [HTTP_HEAD] = "HEAD",     [HTTP_POST] = "POST",
    [HTTP_PUT] = "PUT",     [HTTP_DELETE] = "DELETE", [HTTP_OPTIONS] = "OPTIONS",
    [HTTP_PATCH] = "PATCH", [HTTP_OTHER] = "",
};

static bool match_path(const struct route *route, const struct bytes *segments, unsigned count,
                       struct route_match *match)
{
    struct bytes pattern = bytes_str(route->path + 1);
    struct bytes tenant = BYTES_NONE;
    struct bytes name = BYTES_NONE;
    for (unsigned i = 0; i < count; i++) {
        if (!pattern.data) return false; /* the pattern is shorter */
        struct bytes part = bytes_split(&pattern, '/');
        if (bytes_equal(part, BYTES("{tenant}")))
            tenant = segments[i];
        else if (bytes_equal(part, BYTES("{name}")))
            name = segments[i];
        else if (!bytes_equal(part, segments[i]))
            return false;
    }
    if (pattern.data) return false;
    match->tenant = tenant;
    match->name = name;
    return true;
}

static void allow_add(struct route_match *match, enum http_method method)
{
    size_t used = strlen(match->allow);
    snprintf(match->allow + used, sizeof match->allow - used, "%s%s%s", used ? ", " : "",
             method_names[method], method == HTTP_GET ? ", HEAD" : "");
}

/* HEAD is GET without the body, which the wire leaves out. */
void route_find(enum http_method method, struct bytes path, struct route_match *match_out)
{
    struct bytes segments[ROUTE_SEGMENTS_MAX];
    unsigned count;
    *match_out = (struct route_match){.err = ERR_NOT_FOUND};
    if (!path_split(path, segments, ROUTE_SEGMENTS_MAX, &count)) return;
    if (method == HTTP_HEAD) method = HTTP_GET;
    for (unsigned i = 0; i < ARRAY_COUNT(routes); i++) {
        if (!match_path(&routes[i], segments, count, match_out)) continue;
        if (routes[i].method == method) {
            match_out->route = &routes[i];
            match_out->err = ERR_OK;
            return;
        }
        match_out->err = ERR_METHOD;
        allow_add(match_out, routes[i].method);
    }
}

unsigned route_index(const struct route *route)
{
    must(route >= routes && route < routes + ARRAY_COUNT(routes));
    return (unsigned)(route - routes);
}

unsigned route_count(void)
{
    return ARRAY_COUNT(routes);
}

const char *const *route_names(void)
{
    static const char *names[ARRAY_COUNT(routes)];
    for (unsigned i = 0; i < ARRAY_COUNT(routes); i++)
        names[i] = routes[i].name;
    return names;
}
