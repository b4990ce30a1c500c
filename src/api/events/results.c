/* results.c -- what became of events, as JSON (SPEC 6). */
#include "api/counters/batch.h"
#include "api/call.h"
#include "api/events/events.h"
#include "core/prefetch.h"
#include "core/timefmt.h"

struct totals {
    uint32_t applied;
    uint32_t duplicates;
    uint32_t rejected;
};

static void add_duplicate(struct buf *body, const struct event *event)
{
    buf_add(body, BYTES(",\"result\":\"DROPPED_DUPLICATE\""));
    if (event->foreign) return; /* when another tenant sent it is not this one's business */
    buf_add(body, BYTES(",\"firstSeenAt\":"));
    time_format_json(body, event->first_seen_ms);
    if (event->conflict) buf_add(body, BYTES(",\"conflict\":true"));
}

static void add_decided(struct buf *body, const struct event *event)
{
    buf_add(body, BYTES("{\"id\":\""));
    buf_add_u64(body, event->first_sequence);
    buf_add(body, BYTES("\",\"eventId\":"));
    buf_add_json(body, event->id);
    if (event->result == EVENT_DUPLICATE) {
        add_duplicate(body, event);
    } else {
        buf_add(body, BYTES(",\"result\":\"APPLIED\",\"counters\":"));
        buf_add_u64(body, event->counters);
    }
    buf_add_char(body, '}');
}

static void add_rejected(struct buf *body, uint32_t index, enum err e, const char *why)
{
    buf_addf(body, "{\"index\":%u,\"status\":%d,\"error\":", index, err_status(e));
    buf_add_json(body, bytes_str(why ? why : err_sentence(e)));
    buf_addf(body, ",\"code\":\"%s\"}", err_code(e));
}

static int64_t now_ms(const struct call *call)
{
    return clock_now_ms(call->lane->clock);
}

void events_finish_one(struct call *call)
{
    const struct op *op = &call->bundle.ops[0];
    struct reply *reply = &call->exchange->reply;
    enum err e = call->bundle.err != ERR_OK ? call->bundle.err : op->err;
    if (e == ERR_OK) {
        reply->status = 200;
        add_decided(&reply->body, op->event);
    } else {
        exchange_error(call->exchange, e, NULL);
    }
    if (call->bundle.err != ERR_OK) return;
    reply_sequence(reply, call->bundle.sequence);
    events_count(op, now_ms(call));
}

static void total_add(struct totals *totals, const struct op *op)
{
    if (op->err != ERR_OK)
        totals->rejected++;
    else if (op->event->result == EVENT_DUPLICATE)
        totals->duplicates++;
    else
        totals->applied++;
}

static struct totals bundle_totals(const struct bundle *bundle)
{
    struct totals totals = {0};
    for (uint32_t i = 0; i < bundle->count; i++) {
        prefetch_events(&bundle->ops[i], bundle->count - i);
        total_add(&totals, &bundle->ops[i]);
    }
    return totals;
}

static void add_results(struct buf *body, const struct call *call)
{
    const struct batch_plan *plan = call->plan;
    const struct bad_op *bad = plan->bad;
    bool first = true;
    for (uint32_t i = 0; i < call->bundle.count; i++) {
        const struct op *op = &call->bundle.ops[i];
        const struct bad_op *mine = bad && bad->index == i ? bad : NULL;
        if (mine) bad = bad->next;
        if (call->errors_only && op->err == ERR_OK) continue;
        if (!first) buf_add_char(body, ',');
        first = false;
        if (op->err == ERR_OK)
            add_decided(body, op->event);
        else
            add_rejected(body, i, op->err, mine ? mine->why : NULL);
    }
}

void events_finish_many(struct call *call)
{
    struct reply *reply = &call->exchange->reply;
    const struct bundle *bundle = &call->bundle;
    if (bundle->err != ERR_OK) {
        exchange_error(call->exchange, bundle->err, NULL);
        return;
    }
    struct totals totals = bundle_totals(bundle);
    reply->status = 200;
    buf_addf(&reply->body, "{\"applied\":%u,\"duplicates\":%u,\"rejected\":%u,\"results\":[",
             totals.applied, totals.duplicates, totals.rejected);
    add_results(&reply->body, call);
    buf_add(&reply->body, BYTES("]}"));
    reply_sequence(reply, bundle->sequence);
    int64_t now = now_ms(call);
    for (uint32_t i = 0; i < bundle->count; i++) {
        prefetch_events(&bundle->ops[i], bundle->count - i);
        events_count(&bundle->ops[i], now);
    }
}
