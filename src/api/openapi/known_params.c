/* known_params.c -- which parameters a route takes in its query, and whether it takes a body:
 * openapi.def's word, so that what is documented, what is taken and what is suggested are one. */
#include "api/route.h"
#include "api/unknown.h"

enum param_line_kind { LINE_CALL, LINE_QUERY, LINE_DIMENSIONS, LINE_BODY };

struct param_line {
    enum param_line_kind kind;
    const char *name;
};

static const struct param_line lines[] = {
#define TAG(...)
#define CALL(route, ...) {LINE_CALL, #route},
#define PATH(...)
#define QUERY(name, ...) {LINE_QUERY, name},
#define DIMENSIONS(...) {LINE_DIMENSIONS, NULL},
#define HEADER(...)
#define BODY(...) {LINE_BODY, NULL},
#define REPLY(...)
#define REPLY_AS(...)
#define SENDS(...)
#define FAILS(...)
#include "api/openapi/openapi.def"
};

/* Both have room for more than there are: every call and every parameter has a line. */
static struct bytes names[ARRAY_COUNT(lines)];
static struct known of_routes[ARRAY_COUNT(lines)];
static bool with_body[ARRAY_COUNT(lines)];

static unsigned index_of(const char *call)
{
    for (unsigned i = 0; i < route_count(); i++)
        if (strcmp(route_at(i)->name, call) == 0) return i;
    unreachable_state(call[0]); /* tests/unit/test_openapi.c finds it first */
}

__attribute__((constructor)) static void join_routes(void)
{
    unsigned route = 0;
    unsigned used = 0;
    must(route_count() <= ARRAY_COUNT(of_routes));
    for (unsigned i = 0; i < ARRAY_COUNT(lines); i++) {
        switch (lines[i].kind) {
        case LINE_CALL:
            route = index_of(lines[i].name);
            of_routes[route].names = names + used;
            break;
        case LINE_QUERY:
            names[used++] = bytes_str(lines[i].name);
            of_routes[route].count++;
            break;
        case LINE_DIMENSIONS:
            of_routes[route].dimensions = true;
            break;
        case LINE_BODY:
            with_body[route] = true;
            break;
        }
    }
}

const struct known *known_params(unsigned route_index)
{
    must(route_index < route_count());
    return &of_routes[route_index];
}

bool known_body(unsigned route_index)
{
    must(route_index < route_count());
    return with_body[route_index];
}
