/* list.c -- the counters of a tenant, by name, a page at a time. The cursor is the last name
 * shown, so it stays good across restarts and changes. */
#include "api/call.h"
#include "api/endpoints.h"
#include "core/name.h"

enum { LIMIT, PREFIX, LIST_FIELDS };
static const struct field list_fields[LIST_FIELDS] = {
    [LIMIT] = {FIELD_PAGE_LIMIT},
    [PREFIX] = {BYTES("prefix"), FIELD_TEXT, .max = NAME_SIZE_MAX},
};

struct list_plan {
    struct bytes prefix; /* of the keys */
    struct bytes after;  /* key */
    int64_t limit;
    struct buf *body;
    struct bytes last; /* name shown last */
    int64_t count;
    bool more;
    struct arena *arena;
};

static bool list_counter(void *context, struct bytes key, const struct counter *counter)
{
    struct list_plan *plan = context;
    struct bytes tenant;
    struct bytes name;
    char kind;
    if (!counter_key_split(key, &tenant, &kind, &name)) return true;
    if (plan->count == plan->limit) {
        plan->more = true;
        return false;
    }
    if (plan->count++) buf_add_char(plan->body, ',');
    buf_add(plan->body, BYTES("{\"name\":"));
    buf_add_json(plan->body, name);
    buf_add(plan->body, BYTES(",\"granularities\":["));
    for (uint32_t i = 0; i < counter->count; i++) {
        if (i) buf_add_char(plan->body, ',');
        buf_add_i64(plan->body, counter->series[i].duration);
    }
    buf_add(plan->body, BYTES("]}"));
    if (plan->count == plan->limit) plan->last = arena_copy(plan->arena, name);
    return true;
}

static void run_list(struct call *call)
{
    struct list_plan *plan = call->plan;
    struct reply *reply = &call->exchange->reply;
    struct store *store = call->api->config.store;
    reply->status = 200;
    buf_add(&reply->body, BYTES("{\"counters\":["));
    enum err e = store->ops->list(store, plan->prefix, plan->after, list_counter, plan);
    if (e != ERR_OK) {
        exchange_error(call->exchange, e, NULL);
        return;
    }
    buf_add(&reply->body, BYTES("],\"next\":"));
    if (plan->more) {
        buf_add_char(&reply->body, '"');
        cursor_encode(&reply->body, plan->last);
        buf_add(&reply->body, BYTES("\"}"));
    } else {
        buf_add(&reply->body, BYTES("null}"));
    }
}

/* A prefix that no name can have lists nothing; it is not an error to ask. */
static bool is_prefix(struct bytes prefix)
{
    return prefix.size == 0 || name_valid(prefix);
}

enum request_verdict read_list(struct call *call)
{
    enum request_verdict verdict;
    struct params params;
    struct field_value values[LIST_FIELDS];
    struct sentence why;
    struct bytes cursor;
    struct arena *arena = &call->exchange->arena;
    if (!call_params(call, &params, &verdict)) return verdict;
    enum err e = fields_from_params(&params, list_fields, LIST_FIELDS, values, &why);
    if (e == ERR_OK) e = params_cursor(&params, arena, &cursor, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    if (cursor.data && !name_valid(cursor))
        return call_refuse(call, ERR_INVALID, "after is not a cursor of this listing.");
    if (!is_prefix(values[PREFIX].text)) {
        call->exchange->reply.status = 200;
        buf_add(&call->exchange->reply.body, BYTES("{\"counters\":[],\"next\":null}"));
        return REQUEST_ANSWERED;
    }
    char key[COUNTER_KEY_SIZE_MAX];
    struct list_plan *plan = arena_zalloc(arena, sizeof *plan);
    plan->prefix = arena_copy(arena, counter_key_prefix(key, call->tenant, values[PREFIX].text));
    if (cursor.data) plan->after = arena_copy(arena, counter_key(key, call->tenant, cursor));
    plan->limit = values[LIMIT].integer;
    plan->body = &call->exchange->reply.body;
    plan->arena = arena;
    call->plan = plan;
    return call_read(call, run_list);
}
