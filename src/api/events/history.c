/* history.c -- what is retained: events, one event, dropped duplicates. All on reader threads.
 *
 * A page ends when it has its limit of records, or has grown large, or a bounded part of history
 * has been looked through; `next` is then the sequence to go on after, so it stays good across
 * restarts. There is no index by event id or type: they are compared while walking. */
#include "api/call.h"
#include "api/endpoints.h"
#include "api/events/events.h"
#include "base/codec.h"
#include "config/config.h"
#include "core/timefmt.h"

#define PAGE_BYTES_MAX ((size_t)8 << 20) /* in a reply */
#define LOOK_BYTES_MAX ((size_t)8 << 20) /* history looked through for a page */
#define CURSOR_SIZE 8

struct history_plan {
    struct event_query query;
    struct bytes id;   /* size 0: any */
    struct bytes type; /* size 0: any */
    int64_t from;
    int64_t to;
    int64_t limit;
    struct buf *body;
    int64_t count;
    uint64_t last; /* sequence shown last */
    bool full;
};

/* -- Records as JSON --------------------------------------------------------------------------- */

static void add_value(struct buf *body, struct bytes json, struct bytes absent)
{
    buf_add(body, json.size ? json : absent);
}

static void add_event(struct buf *body, const struct stored_event *event)
{
    buf_add(body, BYTES("{\"id\":\""));
    buf_add_u64(body, stored_event_number(event));
    buf_add(body, BYTES("\",\"eventId\":"));
    buf_add_json(body, event->id);
    buf_add(body, BYTES(",\"type\":"));
    buf_add_json(body, event->type);
    buf_add(body, BYTES(",\"occurredAt\":"));
    time_format_json(body, event->occurred_ms);
    buf_add(body, BYTES(",\"receivedAt\":"));
    time_format_json(body, event->arrived_ms);
    buf_add(body, BYTES(",\"dimensions\":"));
    add_value(body, event->dimensions_json, BYTES("{}"));
    buf_add(body, BYTES(",\"payload\":"));
    add_value(body, event->payload, BYTES("null"));
    buf_add_char(body, '}');
}

static void add_duplicate(struct buf *body, const struct stored_event *event)
{
    buf_add(body, BYTES("{\"event_id\":"));
    buf_add_json(body, event->id);
    buf_add(body, BYTES(",\"first_seen_at\":"));
    if (event->first_sequence)
        time_format_json(body, event->first_seen_ms);
    else
        buf_add(body, BYTES("null")); /* another tenant's: not this one's to know */
    buf_add(body, BYTES(",\"duplicate_seen_at\":"));
    time_format_json(body, event->arrived_ms);
    buf_add(body, BYTES(",\"event_type\":"));
    buf_add_json(body, event->type);
    buf_add(body, BYTES(",\"dimensions_json\":"));
    add_value(body, event->dimensions_json, BYTES("{}"));
    buf_add(body, BYTES(",\"payload_json\":"));
    add_value(body, event->payload, BYTES("null"));
    buf_add_char(body, '}');
}

/* -- Pages ------------------------------------------------------------------------------------- */

static bool is_wanted(const struct history_plan *plan, const struct stored_event *event)
{
    int64_t time_ms = event->duplicate ? event->arrived_ms : event->occurred_ms;
    if (plan->id.size && !bytes_equal(plan->id, event->id)) return false;
    if (plan->type.size && !bytes_equal(plan->type, event->type)) return false;
    return time_ms >= plan->from && time_ms <= plan->to;
}

static bool show(void *context, const struct stored_event *event)
{
    struct history_plan *plan = context;
    if (!is_wanted(plan, event)) return true;
    if (plan->count == plan->limit || plan->body->size >= PAGE_BYTES_MAX) {
        plan->full = true;
        return false;
    }
    if (plan->count++) buf_add_char(plan->body, ',');
    if (event->duplicate)
        add_duplicate(plan->body, event);
    else
        add_event(plan->body, event);
    plan->last = event->sequence;
    return true;
}

static void add_next(struct buf *body, uint64_t next)
{
    char cursor[CURSOR_SIZE];
    put_ordered_u64(cursor, next);
    reply_page_end(body, next ? bytes_of(cursor, sizeof cursor) : BYTES_NONE);
}

static void run_page(struct call *call)
{
    struct history_plan *plan = call->plan;
    struct reply *reply = &call->exchange->reply;
    uint64_t next = 0;
    reply->status = 200;
    buf_add(&reply->body, plan->query.events ? BYTES("{\"events\":[") : BYTES("{\"duplicates\":["));
    enum err e = view_events(&call->view, &plan->query, show, plan, &next);
    if (e != ERR_OK) {
        exchange_error(call->exchange, e, NULL);
        return;
    }
    add_next(&reply->body, plan->full ? plan->last : next);
}

/* -- One event --------------------------------------------------------------------------------- */

static bool show_one(void *context, const struct stored_event *event)
{
    struct history_plan *plan = context;
    if (!bytes_equal(plan->id, event->id)) return true;
    add_event(plan->body, event);
    plan->count = 1;
    return false;
}

/* The registry knows where it lies, however long ago it came. */
static void run_one(struct call *call)
{
    struct history_plan *plan = call->plan;
    struct key_record record;
    uint64_t next;
    enum err e = view_lookup(&call->view, event_print(call, plan->id), &record);
    if (e == ERR_OK) {
        plan->query.after = record.sequence - 1;
        plan->query.upto = record.sequence;
        call->exchange->reply.status = 200;
        e = view_events(&call->view, &plan->query, show_one, plan, &next);
    }
    if (e == ERR_OK && plan->count == 0) e = ERR_NOT_FOUND; /* no longer retained */
    if (e != ERR_OK) exchange_error(call->exchange, e, NULL);
}

/* -- Asking ------------------------------------------------------------------------------------ */

static struct history_plan *new_plan(struct call *call)
{
    const struct api_config *config = &call->api->config;
    const struct moment moment = clock_moment(call->lane->clock);
    struct history_plan *plan = arena_zalloc(&call->exchange->arena, sizeof *plan);
    plan->query =
        (struct event_query){.tenant = call->tenant,
                             .upto = UINT64_MAX,
                             .arrived_from = moment_ago(&moment, config->config->events_retention),
                             .budget = LOOK_BYTES_MAX};
    plan->body = &call->exchange->reply.body;
    call->plan = plan;
    return plan;
}

static bool cursor_read(struct bytes raw, uint64_t *after_out)
{
    *after_out = 0;
    if (!raw.data) return true;
    if (raw.size != CURSOR_SIZE) return false;
    *after_out = get_ordered_u64(raw.data);
    return true;
}

enum { LIMIT, FROM, TO, FILTER, PAGE_FIELDS };

/* Reads the query into a plan whose `filter` goes where the kind of record wants it. */
static bool read_page(struct call *call, struct bytes filter, struct history_plan **plan_out,
                      struct bytes *filter_out, enum request_verdict *verdict_out)
{
    const struct field fields[PAGE_FIELDS] = {
        [LIMIT] = {FIELD_PAGE_LIMIT},
        [FROM] = {BYTES("from"), FIELD_TIME, .fallback = INT64_MIN},
        [TO] = {BYTES("to"), FIELD_TIME, .fallback = INT64_MAX},
        [FILTER] = {filter, FIELD_TEXT, .min = 1, .max = EVENT_ID_SIZE_MAX},
    };
    struct field_value values[PAGE_FIELDS];
    struct reason why;
    struct bytes cursor;
    enum err e = fields_from_params(&call->params, fields, PAGE_FIELDS, values, &why);
    if (e == ERR_OK) e = params_cursor(&call->params, &call->exchange->arena, &cursor, &why);
    if (e != ERR_OK) {
        *verdict_out = call_refuse(call, e, why.text);
        return false;
    }
    struct history_plan *plan = new_plan(call);
    plan->limit = values[LIMIT].integer;
    plan->from = values[FROM].integer;
    plan->to = values[TO].integer;
    *filter_out = values[FILTER].text;
    *plan_out = plan;
    if (cursor_read(cursor, &plan->query.after)) return true;
    *verdict_out = call_refuse(call, ERR_INVALID, "after is not a cursor of this listing.");
    return false;
}

enum request_verdict history_events(struct call *call)
{
    enum request_verdict verdict;
    struct history_plan *plan;
    struct bytes type;
    if (!read_page(call, BYTES("type"), &plan, &type, &verdict)) return verdict;
    plan->type = type;
    plan->query.events = true;
    return call_read(call, run_page);
}

enum request_verdict history_duplicates(struct call *call)
{
    enum request_verdict verdict;
    struct history_plan *plan;
    struct bytes id;
    if (!read_page(call, BYTES("eventId"), &plan, &id, &verdict)) return verdict;
    plan->id = id;
    plan->query.duplicates = true;
    return call_read(call, run_page);
}

enum request_verdict history_event(struct call *call)
{
    if (call->name_malformed)
        return call_refuse(call, ERR_INVALID,
                           "The event id has a '%' without two hex digits after it.");
    if (call->name.size < 1 || call->name.size > EVENT_ID_SIZE_MAX)
        return call_refuse(call, ERR_NOT_FOUND, NULL);
    struct history_plan *plan = new_plan(call);
    plan->id = call->name;
    plan->query.events = true;
    return call_read(call, run_one);
}
