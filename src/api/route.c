/* route.c -- the endpoint table. A path is compared segment by segment, raw: an encoded slash is
 * part of its segment and never separates. */
#include "api/route.h"

#include <stdio.h>

#include "api/api.h"
#include "api/endpoints.h"
#include "api/params.h"

#define COUNTERS "/api/counters/{tenant}"
#define ONE COUNTERS "/{name}"
#define RECONCILE "/api/reconcile/{tenant}/{name}"
#define EVENTS "/api/events/{tenant}"
#define COPIED (ROUTE_READ | ROUTE_COPIED)

static const struct route routes[] = {
    /* name, method, path, scope, flags, function, detail */
    {"page", HTTP_GET, "/", 0, ROUTE_PUBLIC | ROUTE_ANY_QUERY, page_get, 0},
    {"asset", HTTP_GET, "/assets/{name}", 0, ROUTE_PUBLIC | ROUTE_ANY_QUERY, page_asset, 0},
    {"healthz", HTTP_GET, "/healthz", 0, ROUTE_PUBLIC, ops_health, 0},
    {"readyz", HTTP_GET, "/readyz", 0, ROUTE_PUBLIC, ops_ready, 0},
    {"metrics", HTTP_GET, "/metrics", SCOPE_ADMIN, ROUTE_ADMIN_UNLESS_PUBLIC_METRICS, ops_metrics,
     0},
    {"openapi", HTTP_GET, "/openapi.json", 0, ROUTE_PUBLIC, openapi_get, 0},
    {"increment", HTTP_POST, ONE "/increment", SCOPE_WRITE, 0, change_one, CHANGE_INCREMENT},
    {"decrement", HTTP_POST, ONE "/decrement", SCOPE_WRITE, 0, change_one, CHANGE_DECREMENT},
    {"incrementSync", HTTP_POST, ONE "/incrementSync", SCOPE_WRITE, 0, change_one,
     CHANGE_INCREMENT_SYNC},
    {"decrementSync", HTTP_POST, ONE "/decrementSync", SCOPE_WRITE, 0, change_one,
     CHANGE_DECREMENT_SYNC},
    {"set", HTTP_PUT, ONE "/set", SCOPE_WRITE, 0, change_one, CHANGE_SET},
    {"get", HTTP_GET, ONE "/get", SCOPE_READ, COPIED, read_get, 0},
    {"sumRange", HTTP_GET, ONE "/sumRange", SCOPE_READ, COPIED, read_sum, 0},
    {"series", HTTP_GET, ONE "/series", SCOPE_READ, COPIED, read_series, 0},
    {"batch", HTTP_POST, COUNTERS "/batch", SCOPE_WRITE, 0, batch_post, 0},
    {"query", HTTP_POST, COUNTERS "/query", SCOPE_READ, COPIED, query_post, 0},
    {"list", HTTP_GET, COUNTERS, SCOPE_READ, COPIED, read_list, 0},
    {"delete", HTTP_DELETE, ONE, SCOPE_WRITE, 0, change_delete, 0},
    {"events", HTTP_POST, EVENTS, SCOPE_WRITE, 0, events_post, 0},
    {"eventList", HTTP_GET, EVENTS, SCOPE_READ, COPIED, history_events, 0},
    {"event", HTTP_GET, EVENTS "/{id}", SCOPE_READ, COPIED, history_event, 0},
    {"duplicates", HTTP_GET, "/api/duplicates/{tenant}", SCOPE_READ, COPIED, history_duplicates, 0},
    {"cells", HTTP_GET, ONE "/cells", SCOPE_READ, COPIED, cells_page, 0},
    {"windows", HTTP_GET, "/api/windows/{tenant}", SCOPE_READ, COPIED, windows_get, 0},
    {"usage", HTTP_GET, "/api/usage/{tenant}", SCOPE_READ, COPIED, usage_get, 0},
    {"usageHealth", HTTP_GET, "/api/usage/{tenant}/health", SCOPE_READ, COPIED, usage_health, 0},
    {"busiest", HTTP_GET, "/api/busiest/{tenant}", SCOPE_READ, ROUTE_READ, busiest_get, 0},
    {"stream", HTTP_GET, "/api/stream/{tenant}", SCOPE_READ, ROUTE_READ, stream_get, 0},
    {"reconcileRequest", HTTP_POST, RECONCILE "/request", SCOPE_WRITE, 0, reconcile_post_request,
     0},
    {"reconcileRun", HTTP_POST, RECONCILE "/run", SCOPE_WRITE, 0, reconcile_post_run, 0},
    {"reconcileDrift", HTTP_GET, RECONCILE "/drift", SCOPE_READ, ROUTE_READ, reconcile_get_drift,
     0},
    {"reconcileStatus", HTTP_GET, RECONCILE "/status", SCOPE_READ, ROUTE_READ, reconcile_get_status,
     0},
    {"tenants", HTTP_GET, "/api/admin/tenants", SCOPE_ADMIN, ROUTE_READ, admin_tenants, 0},
    {"lanes", HTTP_GET, "/api/admin/lanes", SCOPE_ADMIN, ROUTE_READ, admin_lanes, 0},
    {"nodes", HTTP_GET, "/api/admin/nodes", SCOPE_ADMIN, ROUTE_READ, admin_nodes, 0},
    {"followers", HTTP_GET, "/api/admin/followers", SCOPE_ADMIN, ROUTE_READ, admin_followers, 0},
    {"reload", HTTP_POST, "/api/admin/reload", SCOPE_ADMIN, ROUTE_LOCAL, admin_reload, 0},
    {"clock", HTTP_GET, "/api/admin/clock", SCOPE_ADMIN, ROUTE_LOCAL, clock_get, 0},
    {"clockSet", HTTP_POST, "/api/admin/clock", SCOPE_ADMIN, 0, clock_post, 0},
    {"rebuild", HTTP_POST, "/api/admin/counters/{name}/rebuild", SCOPE_ADMIN, 0, jobs_rebuild, 0},
    {"forget", HTTP_DELETE, "/api/admin/counters/{name}", SCOPE_ADMIN, 0, jobs_forget, 0},
    {"backup", HTTP_POST, "/api/admin/backups", SCOPE_ADMIN, 0, errands_ask, API_BACKUP},
    {"backupList", HTTP_GET, "/api/admin/backups", SCOPE_ADMIN, ROUTE_READ, errands_list,
     API_BACKUP},
    {"backupRemove", HTTP_DELETE, "/api/admin/backups/{name}", SCOPE_ADMIN, 0, errands_remove,
     API_BACKUP},
    {"export", HTTP_POST, "/api/admin/exports", SCOPE_ADMIN, 0, errands_ask, API_EXPORT},
    {"exportList", HTTP_GET, "/api/admin/exports", SCOPE_ADMIN, ROUTE_READ, errands_list,
     API_EXPORT},
    {"exportRemove", HTTP_DELETE, "/api/admin/exports/{name}", SCOPE_ADMIN, 0, errands_remove,
     API_EXPORT},
    {"import", HTTP_POST, "/api/admin/imports", SCOPE_ADMIN, 0, errands_ask, API_IMPORT},
    {"job", HTTP_GET, "/api/admin/jobs/{id}", SCOPE_ADMIN, ROUTE_READ, jobs_get, 0},
    {"replicaJournal", HTTP_GET, "/api/replica/journal", SCOPE_REPLICA, ROUTE_LOCAL,
     replica_journal, 0},
    {"replicaSnapshot", HTTP_POST, "/api/replica/snapshot", SCOPE_REPLICA, ROUTE_LOCAL,
     replica_snapshot, 0},
    {"replicaPiece", HTTP_GET, "/api/replica/snapshot", SCOPE_REPLICA, ROUTE_LOCAL, replica_piece,
     0},
    {"replicaSnapshotEnd", HTTP_DELETE, "/api/replica/snapshot", SCOPE_REPLICA, ROUTE_LOCAL,
     replica_snapshot_end, 0},
};

static const char *const method_names[] = {
    [HTTP_GET] = "GET",     [HTTP_HEAD] = "HEAD",     [HTTP_POST] = "POST",
    [HTTP_PUT] = "PUT",     [HTTP_DELETE] = "DELETE", [HTTP_OPTIONS] = "OPTIONS",
    [HTTP_PATCH] = "PATCH", [HTTP_OTHER] = "",
};

/* The patterns cut into segments, once: every request walks this table. */
enum part { PART_WORD, PART_TENANT, PART_NAME };

static struct pattern {
    unsigned count;
    enum part parts[ROUTE_SEGMENTS_MAX];
    struct bytes words[ROUTE_SEGMENTS_MAX];
} patterns[ARRAY_COUNT(routes)];

__attribute__((constructor)) static void cut_patterns(void)
{
    for (unsigned i = 0; i < ARRAY_COUNT(routes); i++) {
        struct pattern *pattern = &patterns[i];
        bool fits = path_split(bytes_str(routes[i].path), pattern->words, ROUTE_SEGMENTS_MAX,
                               &pattern->count);
        must(fits);
        for (unsigned p = 0; p < pattern->count; p++) {
            if (bytes_equal(pattern->words[p], BYTES("{tenant}")))
                pattern->parts[p] = PART_TENANT;
            else if (bytes_equal(pattern->words[p], BYTES("{name}")) ||
                     bytes_equal(pattern->words[p], BYTES("{id}")))
                pattern->parts[p] = PART_NAME; /* what it may be is its endpoint's to check */
        }
    }
}

/* From the end: routes differ in their last word. */
static bool match_path(const struct pattern *pattern, const struct bytes *segments, unsigned count,
                       struct route_match *match)
{
    if (pattern->count != count) return false;
    for (unsigned i = count; i-- > 0;)
        if (pattern->parts[i] == PART_WORD && !bytes_equal(pattern->words[i], segments[i]))
            return false;
    for (unsigned i = 0; i < count; i++) {
        if (pattern->parts[i] == PART_TENANT) match->tenant = segments[i];
        if (pattern->parts[i] == PART_NAME) match->name = segments[i];
    }
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
        if (!match_path(&patterns[i], segments, count, match_out)) continue;
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

const struct route *route_at(unsigned index)
{
    must(index < ARRAY_COUNT(routes));
    return &routes[index];
}

unsigned route_index_other(void)
{
    return ARRAY_COUNT(routes);
}

unsigned route_count(void)
{
    return ARRAY_COUNT(routes);
}

const char *const *route_names(void)
{
    static const char *names[ARRAY_COUNT(routes) + 1];
    for (unsigned i = 0; i < ARRAY_COUNT(routes); i++)
        names[i] = routes[i].name;
    names[route_index_other()] = "other";
    return names;
}
