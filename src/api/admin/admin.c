/* admin.c -- what only an operator may ask: the tenants by status, and a reload of the rules. */
#include "api/call.h"
#include "api/endpoints.h"
#include "api/views/usage.h"
#include "core/name.h"
#include "core/object.h"
#include "core/timefmt.h"

#define ROWS_MAX 100000u /* looked through for one page; then it is short */
#define TENANT_CHUNK (16u << 10)
#define REPORT_SIZE_MAX (64u << 10)

enum { LIMIT, STATUS, FIELDS };
static const struct field tenants_fields[FIELDS] = {
    [LIMIT] = {FIELD_PAGE_LIMIT},
    [STATUS] = {BYTES("status"), FIELD_TEXT, .min = 1, .max = NAME_SIZE_MAX},
};

/* A tenant of the page. */
struct listed {
    struct bytes tenant;
    struct bytes status;
    int64_t updated_ms;
    struct listed *next;
};

struct tenants_plan {
    struct arena *arena;
    struct bytes prefix; /* of the rows' keys */
    struct bytes after;  /* key */
    struct bytes status; /* data NULL: any */
    int64_t limit;
    int64_t count;
    struct listed *first;
    struct listed **end; /* where the next one goes */
    unsigned scanned;
    char last[NAME_SIZE_MAX]; /* tenant shown or looked at last */
    size_t last_size;
    bool more;
    bool corrupt;
};

static void add_tenant(struct buf *body, const struct listed *listed)
{
    buf_add(body, BYTES("{\"tenant_id\":"));
    buf_add_json(body, listed->tenant);
    buf_add(body, BYTES(",\"status\":"));
    buf_add_json(body, listed->status);
    buf_add(body, BYTES(",\"last_updated_at\":"));
    time_format_json(body, listed->updated_ms);
    buf_add_char(body, '}');
}

static void list_tenant(struct tenants_plan *plan, struct bytes tenant, const struct usage_row *row)
{
    struct listed *listed = arena_alloc(plan->arena, sizeof *listed);
    *listed = (struct listed){.tenant = arena_copy(plan->arena, tenant),
                              .status = arena_copy(plan->arena, row->status),
                              .updated_ms = row->updated_ms};
    *plan->end = listed;
    plan->end = &listed->next;
    plan->count++;
}

static bool visit_row(void *context, struct bytes key, struct bytes value)
{
    struct tenants_plan *plan = context;
    struct usage_row row;
    struct bytes tenant = bytes_of(key.data + plan->prefix.size, key.size - plan->prefix.size);
    plan->corrupt = !usage_row_decode(value, &row) || !name_valid(tenant);
    if (plan->corrupt) return false;
    bool wanted = !plan->status.data || bytes_equal(row.status, plan->status);
    plan->more = plan->scanned++ == ROWS_MAX || (wanted && plan->count == plan->limit);
    if (plan->more) return false;
    memcpy(plan->last, tenant.data, tenant.size);
    plan->last_size = tenant.size;
    if (wanted) list_tenant(plan, tenant, &row);
    return true;
}

/* The row object has the time when the status changed; the tenant's counters may have changed
 * later. */
static enum err add_tenants(struct call *call, const struct tenants_plan *plan)
{
    struct buf *body = &call->exchange->reply.body;
    struct arena arena;
    enum err e = ERR_OK;
    arena_init(&arena, TENANT_CHUNK);
    for (struct listed *listed = plan->first; listed && e == ERR_OK; listed = listed->next) {
        int64_t updated_ms;
        arena_reset(&arena);
        e = usage_updated(call, listed->tenant, &arena, &updated_ms);
        if (updated_ms > listed->updated_ms) listed->updated_ms = updated_ms;
        if (listed != plan->first) buf_add_char(body, ',');
        add_tenant(body, listed);
    }
    arena_release(&arena);
    return e;
}

static void run_tenants(struct call *call)
{
    struct tenants_plan *plan = call->plan;
    struct reply *reply = &call->exchange->reply;
    struct store *store = call->lane->store;
    reply->status = 200;
    buf_add(&reply->body, BYTES("{\"tenants\":["));
    enum err e = view_objects(&store->view, plan->prefix, plan->after, visit_row, plan);
    if (e == ERR_OK && plan->corrupt) e = ERR_CORRUPT;
    if (e == ERR_OK) e = add_tenants(call, plan);
    if (e != ERR_OK) {
        exchange_error(call->exchange, e, NULL);
        return;
    }
    reply_page_end(&reply->body, plan->more ? bytes_of(plan->last, plan->last_size) : BYTES_NONE);
}

enum request_verdict admin_tenants(struct call *call)
{
    struct field_value values[FIELDS];
    struct reason why;
    struct bytes cursor;
    struct arena *arena = &call->exchange->arena;
    enum err e = fields_from_params(&call->params, tenants_fields, FIELDS, values, &why);
    if (e == ERR_OK) e = params_cursor(&call->params, arena, &cursor, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    if (cursor.data && !name_valid(cursor))
        return call_refuse(call, ERR_INVALID, "after is not a cursor of this listing.");
    struct tenants_plan *plan = arena_zalloc(arena, sizeof *plan);
    plan->prefix = object_key(arena, OBJECT_USAGE, BYTES_NONE);
    if (cursor.data) plan->after = object_key(arena, OBJECT_USAGE, cursor);
    plan->status = values[STATUS].text;
    plan->limit = values[LIMIT].integer;
    plan->arena = arena;
    plan->end = &plan->first;
    call->plan = plan;
    return call_read(call, run_tenants);
}

static void run_reload(struct call *call)
{
    const struct api_config *config = &call->api->config;
    struct reply *reply = &call->exchange->reply;
    struct buf why;
    buf_init(&why, REPORT_SIZE_MAX);
    enum err e = config->reload(config->reload_context, &why);
    buf_add_char(&why, '\0');
    if (e == ERR_OK) {
        reply->status = 200;
        buf_add(&reply->body, BYTES("{\"reloaded\":true}"));
    } else {
        bool told = e == ERR_INVALID && why.size > 1 && !why.failed;
        exchange_error(call->exchange, e == ERR_INVALID ? ERR_CONFIG : e, told ? why.data : NULL);
    }
    buf_release(&why);
}

enum request_verdict admin_reload(struct call *call)
{
    return call_read(call, run_reload);
}
