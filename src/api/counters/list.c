/* list.c -- the counters of a tenant, by name, a page at a time. The cursor is the last name
 * shown, so it stays good across restarts and changes.
 *
 * Rule counters that have counted something for the tenant stand among the direct ones, and hide
 * those of the same name. Their granularities are what their rules say: [0] of a persistent one,
 * none of a windowed one. */
#include <stdlib.h>

#include "api/call.h"
#include "api/counters/granularity.h"
#include "api/endpoints.h"
#include "core/counter.h"
#include "core/name.h"

enum { LIMIT, PREFIX, LIST_FIELDS };
static const struct field list_fields[LIST_FIELDS] = {
    [LIMIT] = {FIELD_PAGE_LIMIT},
    [PREFIX] = {BYTES("prefix"), FIELD_TEXT, .max = NAME_SIZE_MAX},
};

struct list_plan {
    const struct rules *rules;
    const struct definition **kept; /* rule counters that may be on this page, by name */
    unsigned kept_count;
    unsigned kept_next; /* the first that is not shown yet */
    struct bytes tenant;
    struct bytes name_prefix;
    struct bytes name_after;
    struct bytes prefix; /* the direct counters' keys' */
    struct bytes after;  /* key */
    int64_t limit;
    struct buf *body;
    struct bytes last; /* name shown last */
    int64_t count;
    bool more;
    int64_t now_ms;
    struct arena *arena;
};

/* False: the page is full. */
static bool begin_counter(struct list_plan *plan, struct bytes name)
{
    plan->more = plan->count == plan->limit;
    if (plan->more) return false;
    if (plan->count++) buf_add_char(plan->body, ',');
    buf_add(plan->body, BYTES("{\"name\":"));
    buf_add_json(plan->body, name);
    buf_add(plan->body, BYTES(",\"granularities\":["));
    if (plan->count == plan->limit) plan->last = arena_copy(plan->arena, name);
    return true;
}

static void add_granularity(struct list_plan *plan, unsigned index, int32_t duration)
{
    if (index) buf_add_char(plan->body, ',');
    granularity_write(plan->body, duration);
}

static bool list_kept(struct list_plan *plan, const struct definition *definition)
{
    if (!begin_counter(plan, definition->name)) return false;
    if (definition->mode == MODE_PERSISTENT) add_granularity(plan, 0, 0);
    for (unsigned i = 0; i < definition->granularities_count; i++)
        add_granularity(plan, i, definition->granularities[i]);
    buf_add(plan->body, BYTES("]}"));
    return true;
}

/* Shows the rule counters that come before `name`; all that are left if it is BYTES_NONE. */
static bool list_kept_before(struct list_plan *plan, struct bytes name)
{
    for (; plan->kept_next < plan->kept_count; plan->kept_next++) {
        const struct definition *definition = plan->kept[plan->kept_next];
        if (name.data && bytes_compare(definition->name, name) > 0) return true;
        if (!list_kept(plan, definition)) return false;
    }
    return true;
}

static bool list_counter(void *context, struct bytes key, const struct counter *counter)
{
    struct list_plan *plan = context;
    struct bytes tenant;
    struct bytes name;
    char kind;
    if (!counter_key_split(key, &tenant, &kind, &name)) return true;
    if (rules_find(plan->rules, name)) return true;
    if (!list_kept_before(plan, name)) return false;
    unsigned shown = 0;
    for (uint32_t i = 0; i < counter->count; i++) {
        if (!series_shows(&counter->series[i], plan->now_ms)) continue;
        if (shown == 0 && !begin_counter(plan, name)) return false;
        add_granularity(plan, shown++, counter->series[i].duration);
    }
    if (shown == 0) return true;
    buf_add(plan->body, BYTES("]}"));
    return true;
}

static bool found_row(void *context, struct bytes key, const struct counter *counter)
{
    (void)key;
    (void)counter;
    *(bool *)context = true;
    return false;
}

static int compare_definitions(const void *a, const void *b)
{
    const struct definition *const *x = a;
    const struct definition *const *y = b;
    return bytes_compare((*x)->name, (*y)->name);
}

/* The rule counters that could be on the page at all, in order. */
static void choose_kept(struct list_plan *plan)
{
    const struct rules *rules = plan->rules;
    plan->kept = arena_alloc(plan->arena, (rules->definitions_count + 1) * sizeof *plan->kept);
    for (unsigned i = 0; i < rules->definitions_count; i++) {
        const struct definition *definition = &rules->definitions[i];
        if (!bytes_starts(definition->name, plan->name_prefix)) continue;
        if (plan->name_after.data && bytes_compare(definition->name, plan->name_after) <= 0)
            continue;
        plan->kept[plan->kept_count++] = definition;
    }
    qsort(plan->kept, plan->kept_count, sizeof *plan->kept, compare_definitions);
}

/* Keeps of them those that have rows, at most one more than a page could show. */
static enum err find_kept(struct view *view, struct list_plan *plan)
{
    unsigned found_count = 0;
    for (unsigned i = 0; i < plan->kept_count && found_count <= plan->limit; i++) {
        const struct definition *definition = plan->kept[i];
        bool found = false;
        struct bytes prefix =
            rule_key_prefix(plan->arena, plan->tenant, definition->name, definition->generation);
        enum err e = view_list(view, prefix, BYTES_NONE, found_row, &found);
        if (e != ERR_OK) return e;
        if (found) plan->kept[found_count++] = definition;
    }
    plan->kept_count = found_count;
    return ERR_OK;
}

static enum err list_all(struct view *view, struct list_plan *plan)
{
    choose_kept(plan);
    enum err e = find_kept(view, plan);
    if (e == ERR_OK) e = view_list(view, plan->prefix, plan->after, list_counter, plan);
    if (e == ERR_OK && !plan->more) list_kept_before(plan, BYTES_NONE);
    return e;
}

static void run_list(struct call *call)
{
    struct list_plan *plan = call->plan;
    struct reply *reply = &call->exchange->reply;
    reply->status = 200;
    buf_add(&reply->body, BYTES("{\"counters\":["));
    enum err e = list_all(&call->view, plan);
    if (e != ERR_OK) {
        exchange_error(call->exchange, e, NULL);
        return;
    }
    reply_page_end(&reply->body, plan->more ? plan->last : BYTES_NONE);
}

/* A prefix that no name can have lists nothing; it is not an error to ask. */
static bool is_prefix(struct bytes prefix)
{
    return prefix.size == 0 || counter_name_valid(prefix);
}

enum request_verdict read_list(struct call *call)
{
    struct field_value values[LIST_FIELDS];
    struct reason why;
    struct bytes cursor;
    struct arena *arena = &call->exchange->arena;
    enum err e = fields_from_params(&call->params, list_fields, LIST_FIELDS, values, &why);
    if (e == ERR_OK) e = params_cursor(&call->params, arena, &cursor, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    if (cursor.data && !counter_name_valid(cursor))
        return call_refuse(call, ERR_INVALID, "after is not a cursor of this listing.");
    if (!is_prefix(values[PREFIX].text)) {
        call->exchange->reply.status = 200;
        buf_add(&call->exchange->reply.body, BYTES("{\"counters\":[],\"next\":null}"));
        return REQUEST_ANSWERED;
    }
    char key[COUNTER_KEY_SIZE_MAX];
    struct list_plan *plan = arena_zalloc(arena, sizeof *plan);
    plan->rules = call_rules(call);
    plan->tenant = call->tenant;
    plan->name_prefix = values[PREFIX].text;
    plan->name_after = cursor;
    plan->prefix = arena_copy(arena, counter_key_prefix(key, call->tenant, values[PREFIX].text));
    if (cursor.data) plan->after = arena_copy(arena, counter_key(key, call->tenant, cursor));
    plan->limit = values[LIMIT].integer;
    plan->body = &call->exchange->reply.body;
    plan->arena = arena;
    plan->now_ms = clock_now_ms(call->lane->clock);
    call->plan = plan;
    return call_read(call, run_list);
}
