/* route.h -- which request goes where: one table of method, path, scope and function. */
#ifndef TALLY_API_ROUTE_H
#define TALLY_API_ROUTE_H

#include "api/auth/auth.h"
#include "wire/exchange.h"

struct call;

#define ROUTE_SEGMENTS_MAX 6

enum route_flags {
    ROUTE_PUBLIC = 1, /* no token */
    ROUTE_READ = 2,   /* waits for the writes sent before it on the same connection */
    ROUTE_ADMIN_UNLESS_PUBLIC_METRICS = 4,
    ROUTE_LOCAL = 32,    /* no read, and still not for the primary alone (SPEC 13) */
    ROUTE_ANY_QUERY = 8, /* the address of a page may have any query: it is ignored */
    ROUTE_COPIED = 16,   /* a read that a copy of the store may answer which lags behind */
};

struct route {
    const char *name; /* in metrics */
    enum http_method method;
    const char *path; /* {tenant}, {name} and {id} stand for one segment each */
    enum scope scope;
    unsigned flags;
    enum request_verdict (*handle)(struct call *call);
    int detail; /* the handler's own */
};

struct route_match {
    const struct route *route; /* NULL: see `err` */
    enum err err;              /* ERR_NOT_FOUND, or ERR_METHOD with `allow` filled */
    char allow[64];
    struct bytes tenant; /* raw */
    struct bytes name;   /* raw; {name} or {id} */
};

void route_find(enum http_method method, struct bytes path, struct route_match *match_out);

/* The whole table, for what is made from it. */
const struct route *route_at(unsigned index);

unsigned route_count(void);

/* For metrics: route_count() names, and one more for what came to no route. */
unsigned route_index(const struct route *route);
unsigned route_index_other(void);
const char *const *route_names(void);

#endif
