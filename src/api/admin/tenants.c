/* tenants.c -- the tenants by status, those of all lanes in one order.
 *
 * A lane has the rows of its own tenants, in the order of their ids. The lanes are walked one after
 * the other and what is found is merged:
 *
 * (1) The page keeps the first `limit` wanted tenants after the cursor. Once it is full, its last
 *     one is its horizon, and no lane is walked beyond it.
 * (2) A lane in which much was looked through for little is left early. Then the horizon is where
 *     that lane was left, for what lies behind is not known: the page may be short while `next` is
 *     there.
 * (3) A cursor is a tenant's id, so it means the same after a restart, and in every lane. */
#include "api/call.h"
#include "api/endpoints.h"
#include "api/views/usage.h"
#include "core/name.h"
#include "core/object.h"
#include "core/timefmt.h"

#ifdef TALLY_SMALL_WORLD
#define ROWS_MAX 16u
#else
#define ROWS_MAX 100000u /* looked through for one page, in all lanes together */
#endif
#define TENANT_CHUNK (16u << 10)

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
    struct bytes prefix; /* the rows' keys' */
    struct bytes after;  /* key */
    struct bytes status; /* data NULL: any */
    int64_t limit;
    struct listed *first; /* in order, at most `limit` of them */
    struct bytes horizon; /* tenant that the page ends with; data NULL: there are no more */
    unsigned scanned_max; /* in one lane */
};

/* A lane being walked. Its rows come in order, so the place on the page only moves on. */
struct tenants_walk {
    struct tenants_plan *plan;
    struct listed **place; /* where the lane's next tenant goes, */
    int64_t before;        /* and so many are listed before it */
    unsigned scanned;
    struct bytes last; /* the tenant looked at last; its bytes are in `last_text` */
    char last_text[NAME_SIZE_MAX];
    bool full; /* a wanted tenant was found that has no place on the page */
    bool corrupt;
};

static bool beyond_horizon(const struct tenants_plan *plan, struct bytes tenant)
{
    return plan->horizon.data && bytes_compare(tenant, plan->horizon) > 0;
}

static void find_place(struct tenants_walk *walk, struct bytes tenant)
{
    while (*walk->place && bytes_compare((*walk->place)->tenant, tenant) < 0) {
        walk->place = &(*walk->place)->next;
        walk->before++;
    }
}

static void list_tenant(struct tenants_walk *walk, struct bytes tenant, const struct usage_row *row)
{
    struct arena *arena = walk->plan->arena;
    struct listed *listed = arena_alloc(arena, sizeof *listed);
    *listed = (struct listed){.tenant = arena_copy(arena, tenant),
                              .status = arena_copy(arena, row->status),
                              .updated_ms = row->updated_ms,
                              .next = *walk->place};
    *walk->place = listed;
}

static bool visit_row(void *context, struct bytes key, struct bytes value)
{
    struct tenants_walk *walk = context;
    struct tenants_plan *plan = walk->plan;
    struct usage_row row;
    struct bytes tenant = bytes_of(key.data + plan->prefix.size, key.size - plan->prefix.size);
    walk->corrupt = !usage_row_decode(value, &row) || !name_valid(tenant);
    if (walk->corrupt || beyond_horizon(plan, tenant)) return false;
    if (walk->scanned++ == plan->scanned_max) {
        plan->horizon = arena_copy(plan->arena, walk->last);
        return false;
    }
    memcpy(walk->last_text, tenant.data, tenant.size);
    walk->last = bytes_of(walk->last_text, tenant.size);
    if (plan->status.data && !bytes_equal(row.status, plan->status)) return true;
    find_place(walk, tenant);
    walk->full = walk->before >= plan->limit;
    if (!walk->full) list_tenant(walk, tenant, &row);
    return !walk->full;
}

/* After a walk: cuts what has no place on the page or lies beyond its horizon. */
static void end_page(struct tenants_plan *plan, const struct tenants_walk *walk)
{
    struct listed **end = &plan->first;
    const struct listed *last = NULL;
    int64_t count = 0;
    for (; *end && count < plan->limit && !beyond_horizon(plan, (*end)->tenant); count++) {
        last = *end;
        end = &(*end)->next;
    }
    bool more = *end || walk->full;
    *end = NULL;
    if (last && count == plan->limit && more) plan->horizon = last->tenant;
}

static enum err walk_lane(struct tenants_plan *plan, struct store *store)
{
    struct tenants_walk walk = {.plan = plan, .place = &plan->first};
    enum err e = view_objects(&store->view, plan->prefix, plan->after, visit_row, &walk);
    end_page(plan, &walk);
    return e == ERR_OK && walk.corrupt ? ERR_CORRUPT : e;
}

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
        e = usage_updated(lanes_of(call->api->config.lanes, listed->tenant), listed->tenant, &arena,
                          &updated_ms);
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
    const struct lanes *lanes = call->api->config.lanes;
    enum err e = ERR_OK;
    plan->scanned_max = ROWS_MAX / lanes->count + 1;
    for (unsigned i = 0; i < lanes->count && e == ERR_OK; i++)
        e = walk_lane(plan, lanes->items[i].store);
    reply->status = 200;
    buf_add(&reply->body, BYTES("{\"tenants\":["));
    if (e == ERR_OK) e = add_tenants(call, plan);
    if (e == ERR_OK)
        reply_page_end(&reply->body, plan->horizon);
    else
        exchange_error(call->exchange, e, NULL);
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
    call->plan = plan;
    return call_read(call, run_tenants);
}
