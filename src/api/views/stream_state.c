/* stream_state.c -- a stream's words, as JSON. Counts leave as decimal strings, as everywhere. */
#include "api/views/stream_state.h"

#include "api/call.h"
#include "api/counters/granularity.h"
#include "api/counters/windows.h"
#include "core/reconcile.h"
#include "core/timefmt.h"

static void add_count(struct buf *body, const char *label, uint64_t count)
{
    buf_addf(body, ",\"%s\":\"", label);
    buf_add_u64(body, count);
    buf_add_char(body, '"');
}

/* Buckets up to the last that is not zero: most are. */
static void add_buckets(struct buf *body, const char *label, const uint64_t counts[METRIC_BUCKETS])
{
    unsigned used = METRIC_BUCKETS;
    while (used > 0 && counts[used - 1] == 0)
        used--;
    buf_addf(body, ",\"%s\":[", label);
    for (unsigned i = 0; i < used; i++) {
        buf_add(body, i ? BYTES(",\"") : BYTES("\""));
        buf_add_u64(body, counts[i]);
        buf_add_char(body, '"');
    }
    buf_add_char(body, ']');
}

static void add_activity(struct buf *body, const struct activity_figures *figures)
{
    buf_add(body, BYTES(",\"activity\":{\"since\":"));
    time_format_json(body, figures->since_ms);
    add_count(body, "applied", figures->applied);
    add_count(body, "duplicates", figures->duplicates);
    add_count(body, "refused", figures->refused);
    add_count(body, "throttled", figures->throttled);
    add_buckets(body, "writeSeconds", figures->seconds);
    buf_add_char(body, '}');
}

/* Figures of the process, by the names the page knows them under. */
static const struct {
    const char *label;
    enum metric metric;
} server_figures[] = {
    {"applied", METRIC_UPDATE_SUCCESS},
    {"duplicates", METRIC_DUPLICATE_DROPPED},
    {"throttled", METRIC_QUEUE_REFUSED},
    {"queueDepth", METRIC_QUEUE_DEPTH},
    {"journalBytes", METRIC_JOURNAL_BYTES},
    {"journalSegments", METRIC_JOURNAL_SEGMENTS},
    {"syncs", METRIC_SYNCS},
    {"durableSequence", METRIC_DURABLE_SEQUENCE},
    {"appliedSequence", METRIC_APPLIED_SEQUENCE},
    {"checkpoints", METRIC_CHECKPOINTS},
    {"registryIds", METRIC_REGISTRY_IDS},
    {"registryFilterBytes", METRIC_REGISTRY_FILTER_BYTES},
    {"cacheBytes", METRIC_CACHE_BYTES},
    {"dirtyCells", METRIC_DIRTY_CELLS},
    {"diskFreeBytes", METRIC_DISK_FREE_BYTES},
    {"storageErrors", METRIC_STORAGE_ERRORS},
    {"connections", METRIC_CONNECTIONS},
    {"clockSuspect", METRIC_CLOCK_SUSPECT},
};

static void add_server(struct buf *body, const struct api *api)
{
    uint64_t counts[METRIC_BUCKETS];
    buf_addf(body, ",\"server\":{\"queueLimit\":\"%ld\"",
             (long)api->config.config->limits_queue_ops);
    for (unsigned i = 0; i < ARRAY_COUNT(server_figures); i++)
        add_count(body, server_figures[i].label, (uint64_t)metric_value(server_figures[i].metric));
    metric_buckets(METRIC_COMMIT_SECONDS, counts);
    add_buckets(body, "commitSeconds", counts);
    buf_add_char(body, '}');
}

/* Whether writes can be made durable concerns every tenant and tells nothing about another. */
static void add_storage(struct buf *body, struct lane *lane)
{
    struct store_stats stats;
    store_stats(lane->store, &stats);
    buf_addf(body, ",\"storage\":\"%s\"", stats.writable ? "ok" : "unavailable");
}

enum err stream_state_add(struct api *api, struct lane *lane, const struct stream_view *view,
                          const struct activity_figures *figures, const struct rules *rules,
                          struct arena *arena, struct buf *body)
{
    buf_add(body, BYTES("\"tenant\":"));
    buf_add_json(body, view->tenant);
    buf_addf(body, ",\"admin\":%s,\"expiresAt\":", view->admin ? "true" : "false");
    if (view->expires_ms == INT64_MAX)
        buf_add(body, BYTES("null"));
    else
        time_format_json(body, view->expires_ms);
    add_storage(body, lane);
    add_activity(body, figures);
    buf_add(body, BYTES(",\"windows\":"));
    const struct moment moment = clock_moment(lane->clock);
    enum err e = windows_add(lane->store, rules, view->tenant, &view->dims, &moment, arena, body);
    if (e != ERR_OK) return e;
    if (view->server)
        add_server(body, api);
    else
        buf_add(body, BYTES(",\"server\":null"));
    return ERR_OK;
}

static void add_set(struct buf *body, const struct dimension_set *set)
{
    buf_add_char(body, '[');
    for (unsigned i = 0; i < set->count; i++) {
        if (i) buf_add_char(body, ',');
        buf_add_json(body, set->sources[i].name);
    }
    buf_add_char(body, ']');
}

static void add_granularities(struct buf *body, const struct definition *definition)
{
    buf_add(body, BYTES(",\"granularities\":["));
    if (definition->mode == MODE_PERSISTENT) buf_add_char(body, '0');
    for (unsigned i = 0; i < definition->granularities_count; i++) {
        if (i) buf_add_char(body, ',');
        granularity_write(body, definition->granularities[i]);
    }
    buf_add_char(body, ']');
}

static void add_counter(struct buf *body, const struct definition *definition)
{
    buf_add(body, BYTES("{\"name\":"));
    buf_add_json(body, definition->name);
    buf_addf(body, ",\"mode\":\"%s\",\"frozen\":%s", counter_mode_names[definition->mode],
             definition->frozen ? "true" : "false");
    add_granularities(body, definition);
    buf_add(body, BYTES(",\"sets\":["));
    for (unsigned i = 0; i < definition->sets_count; i++) {
        if (i) buf_add_char(body, ',');
        add_set(body, &definition->sets[i]);
    }
    buf_add_char(body, ']');
    if (definition->mode == MODE_WINDOWED)
        buf_addf(body, ",\"windowSeconds\":%ld", (long)(definition->window_ms / 1000));
    buf_add_char(body, '}');
}

/* Entries of `reconcile:` that are about this tenant. */
static void add_reconciles(struct buf *body, const struct rules *rules, struct bytes tenant)
{
    bool first = true;
    buf_add(body, BYTES(",\"reconciles\":["));
    for (unsigned i = 0; i < rules->reconciles_count; i++) {
        if (!reconcile_has_tenant(&rules->reconciles[i], tenant)) continue;
        if (!first) buf_add_char(body, ',');
        first = false;
        buf_add_json(body, rules->reconciles[i].name);
    }
    buf_add_char(body, ']');
}

void stream_rules_add(const struct rules *rules, struct bytes tenant, struct buf *body)
{
    buf_add(body, BYTES("{\"counters\":["));
    for (unsigned i = 0; i < rules->definitions_count; i++) {
        if (i) buf_add_char(body, ',');
        add_counter(body, &rules->definitions[i]);
    }
    buf_add_char(body, ']');
    add_reconciles(body, rules, tenant);
    buf_add_char(body, '}');
}
