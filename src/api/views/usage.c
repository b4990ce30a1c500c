/* usage.c -- a tenant's counters of group `usage` as one row, and how near they are to their
 * limits.
 *
 * The row object has the status and when it changed; the numbers are the counters' own, of the
 * whole tenant (the set without dimensions), all read in one instant. Frozen counters, those that
 * do not keep that set, and series without granularity 0 are not in the row. Numbers leave as
 * decimal strings, `usage_pct` as a number. */
#include "api/views/usage.h"

#include "api/counters/dims.h"
#include "api/endpoints.h"
#include "api/counters/present.h"
#include "core/object.h"
#include "core/project.h"
#include "core/timefmt.h"

#define WARNING_PERCENT 80
#define ROW_SIZE_MAX 4096u

struct figure {
    const struct definition *definition;
    struct cell_ref ref;
    struct cell cell;
};

struct usage_plan {
    struct store *store;
    struct view *view;
    struct bytes tenant;
    struct bytes key; /* the row's */
    struct buf value;
    struct usage_row row;
    bool exists;
    struct moment moment;
    int64_t updated_ms; /* TIME_NONE: never */
    enum err err;
    unsigned count;
    struct figure *figures;
};

static void later(int64_t *time_ms, int64_t other_ms)
{
    if (other_ms > *time_ms) *time_ms = other_ms;
}

static enum err read_status(struct usage_plan *plan, struct view *moment)
{
    buf_reset(&plan->value);
    enum err e = view_object(moment, plan->key, &plan->value);
    plan->exists = e == ERR_OK;
    if (e == ERR_NOT_FOUND) return ERR_OK;
    if (e != ERR_OK) return e;
    if (!usage_row_decode(buf_bytes(&plan->value), &plan->row)) return ERR_CORRUPT;
    later(&plan->updated_ms, plan->row.updated_ms);
    return ERR_OK;
}

/* May be run again from its start. */
static void read_usage(void *context, struct view *moment)
{
    struct usage_plan *plan = context;
    plan->updated_ms = TIME_NONE;
    plan->err = read_status(plan, moment);
    for (unsigned i = 0; i < plan->count && plan->err == ERR_OK; i++) {
        struct figure *figure = &plan->figures[i];
        plan->err = present_read(moment, figure->definition, &figure->ref, 0, &plan->moment,
                                 READ_ALL, &figure->cell);
        if (plan->err == ERR_OK && figure->cell.exists)
            later(&plan->updated_ms, figure->cell.updated_ms);
    }
}

static void run_plan(struct usage_plan *plan)
{
    view_instant(plan->view, read_usage, plan);
}

static int64_t figure_value(const struct figure *figure)
{
    return figure->cell.added - figure->cell.subbed;
}

/* The row's own fields are not to be hidden by a counter of that name. */
static bool is_own_field(struct bytes name)
{
    return bytes_equal(name, BYTES("tenant_id")) || bytes_equal(name, BYTES("status")) ||
           bytes_equal(name, BYTES("last_updated_at"));
}

static void add_row(struct buf *body, const struct usage_plan *plan)
{
    buf_add(body, BYTES(",\"status\":"));
    if (plan->exists)
        buf_add_json(body, plan->row.status);
    else
        buf_add(body, BYTES("null"));
    buf_add(body, BYTES(",\"last_updated_at\":"));
    if (plan->updated_ms == TIME_NONE) {
        buf_add(body, BYTES("null"));
    } else {
        time_format_json(body, plan->updated_ms);
    }
    for (unsigned i = 0; i < plan->count; i++) {
        const struct figure *figure = &plan->figures[i];
        if (is_own_field(figure->definition->name)) continue;
        buf_add_char(body, ',');
        buf_add_json(body, figure->definition->name);
        buf_addf(body, ":\"%lld\"", (long long)figure_value(figure));
    }
}

enum level { LEVEL_OK, LEVEL_WARNING, LEVEL_AT_LIMIT };
static const char *const level_names[] = {"ok", "warning", "at_limit"};
static const char *const health_names[] = {"healthy", "warning", "critical"};

/* A limit of 0 is reached by anything at all (E4-02). */
static enum level figure_level(int64_t value, int64_t limit)
{
    if (limit == LIMIT_NONE || value <= 0) return LEVEL_OK;
    if (value >= limit) return LEVEL_AT_LIMIT;
    return (__int128)value * 100 >= (__int128)limit * WARNING_PERCENT ? LEVEL_WARNING : LEVEL_OK;
}

/* Tenths of a percent, rounded half away from zero, in exact arithmetic. */
static __int128 figure_tenths(int64_t value, int64_t limit)
{
    if (limit == 0) return value > 0 ? 1000 : 0;
    __int128 half = value < 0 ? -(__int128)limit / 2 : (__int128)limit / 2;
    return ((__int128)value * 1000 + half) / limit;
}

static void add_percent(struct buf *body, __int128 tenths)
{
    if (tenths < 0) buf_add_char(body, '-');
    if (tenths < 0) tenths = -tenths;
    buf_add_i128(body, tenths / 10);
    buf_add_char(body, '.');
    buf_add_i128(body, tenths % 10);
}

static enum level add_figure(struct buf *body, const struct figure *figure)
{
    int64_t value = figure_value(figure);
    int64_t limit = figure->definition->limit;
    enum level level = figure_level(value, limit);
    buf_add_json(body, figure->definition->name);
    buf_addf(body, ":{\"current\":\"%lld\",", (long long)value);
    if (limit == LIMIT_NONE) {
        buf_add(body, BYTES("\"limit\":null,\"usage_pct\":null"));
    } else {
        buf_addf(body, "\"limit\":\"%lld\",\"usage_pct\":", (long long)limit);
        add_percent(body, figure_tenths(value, limit));
    }
    buf_addf(body, ",\"status\":\"%s\"}", level_names[level]);
    return level;
}

static void add_health(struct buf *body, const struct usage_plan *plan)
{
    enum level worst = LEVEL_OK;
    buf_add(body, BYTES(",\"queried_at\":"));
    time_format_json(body, plan->moment.now_ms);
    buf_add(body, BYTES(",\"metrics\":{"));
    for (unsigned i = 0; i < plan->count; i++) {
        if (i) buf_add_char(body, ',');
        enum level level = add_figure(body, &plan->figures[i]);
        if (level > worst) worst = level;
    }
    buf_addf(body, "},\"status\":\"%s\"", plan->exists ? health_names[worst] : "unknown");
}

static void run_usage(struct call *call, void (*add)(struct buf *, const struct usage_plan *))
{
    struct usage_plan *plan = call->plan;
    struct reply *reply = &call->exchange->reply;
    if (!call->task.looked) run_plan(plan);
    reply->status = 200;
    buf_add(&reply->body, BYTES("{\"tenant_id\":"));
    buf_add_json(&reply->body, plan->tenant);
    if (plan->err == ERR_OK) add(&reply->body, plan);
    buf_add_char(&reply->body, '}');
    buf_release(&plan->value);
    if (plan->err != ERR_OK) exchange_error(call->exchange, plan->err, NULL);
}

static void run_row(struct call *call)
{
    run_usage(call, add_row);
}

static void run_health(struct call *call)
{
    run_usage(call, add_health);
}

static const struct dims whole_tenant;

static bool is_figure(const struct definition *definition)
{
    return !definition->frozen && bytes_equal(definition->group, USAGE_GROUP) &&
           dims_kept(&whole_tenant, definition) &&
           present_kept(definition, present_duration(definition));
}

/* `value` is the caller's to release: the row has views of it. */
static struct usage_plan *plan_of(const struct lane *lane, const struct rules *rules,
                                  struct bytes tenant, struct arena *arena)
{
    struct usage_plan *plan = arena_zalloc(arena, sizeof *plan);
    struct bytes json = dims_json(&whole_tenant, arena);
    plan->store = lane->store;
    plan->view = &lane->store->view;
    plan->tenant = tenant;
    plan->key = object_key(arena, OBJECT_USAGE, tenant);
    plan->moment = clock_moment(lane->clock);
    buf_init(&plan->value, ROW_SIZE_MAX);
    plan->figures = arena_zalloc(arena, (rules->definitions_count + 1) * sizeof *plan->figures);
    for (unsigned i = 0; i < rules->definitions_count; i++) {
        const struct definition *definition = &rules->definitions[i];
        if (!is_figure(definition)) continue;
        struct figure *figure = &plan->figures[plan->count++];
        figure->definition = definition;
        figure->ref = dims_ref(plan->store, arena, tenant, definition, json);
        figure->ref.duration = present_duration(definition);
    }
    return plan;
}

enum err usage_updated(const struct lane *lane, struct bytes tenant, struct arena *arena,
                       int64_t *updated_ms_out)
{
    struct rules *rules = rulebook_hold(lane->rulebook);
    struct usage_plan *plan = plan_of(lane, rules, tenant, arena);
    run_plan(plan);
    buf_release(&plan->value);
    rules_release(rules);
    *updated_ms_out = plan->exists ? plan->updated_ms : TIME_NONE;
    return plan->err;
}

static void look_usage(struct call *call, struct view *moment)
{
    read_usage(call->plan, moment);
}

static enum request_verdict read_plan(struct call *call, void (*read)(struct call *call))
{
    struct usage_plan *plan =
        plan_of(call->lane, call_rules(call), call->tenant, &call->exchange->arena);
    plan->view = &call->view;
    call->plan = plan;
    return call_look(call, 1 + plan->count, look_usage, read);
}

enum request_verdict usage_get(struct call *call)
{
    return read_plan(call, run_row);
}

enum request_verdict usage_health(struct call *call)
{
    return read_plan(call, run_health);
}
