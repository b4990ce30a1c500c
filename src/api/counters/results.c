/* results.c -- the results of a batch as JSON. */
#include "api/counters/batch.h"
#include "api/call.h"
#include "api/counters/change.h"
#include "base/metrics.h"

static void add_error(struct buf *body, const struct op *op, const struct bad_op *bad)
{
    buf_addf(body, "{\"status\":%d,", err_status(op->err));
    if (bad) {
        buf_add(body, BYTES("\"error\":"));
        buf_add_json(body, bytes_str(bad->why));
        buf_addf(body, ",\"code\":\"%s\"", err_code(op->err));
    } else {
        reply_error_fields(body, op->err);
    }
    if (op->err != ERR_LIMIT) return;
    buf_add_char(body, ',');
    reply_triple(body, op->after.net, op->after.added, op->after.subbed);
}

static void add_result(struct buf *body, const struct op *op, const struct bad_op *bad)
{
    if (op->err == ERR_OK) {
        buf_add(body, BYTES("{\"status\":200,"));
        reply_triple(body, op->after.net, op->after.added, op->after.subbed);
    } else {
        add_error(body, op, bad);
    }
    if (op->replayed) buf_add(body, BYTES(",\"replayed\":true"));
}

static void count(const struct op *op, bool bundle_replayed)
{
    if (op->replayed)
        metric_add(METRIC_KEYS_REPLAYED, 1);
    else if (!bundle_replayed)
        change_count(op);
}

void batch_results(struct call *call)
{
    const struct batch_plan *plan = call->plan;
    const struct bad_op *bad = plan->bad;
    struct buf *body = &call->exchange->reply.body;
    bool first = true;
    buf_add(body, BYTES("{\"results\":["));
    for (uint32_t i = 0; i < call->bundle.count; i++) {
        const struct op *op = &call->bundle.ops[i];
        const struct bad_op *mine = bad && bad->index == i ? bad : NULL;
        if (mine) bad = bad->next;
        count(op, call->bundle.replayed);
        if (call->errors_only && op->err == ERR_OK) continue;
        if (!first) buf_add_char(body, ',');
        first = false;
        add_result(body, op, mine);
        if (call->errors_only) buf_addf(body, ",\"index\":%u", i);
        buf_add_char(body, '}');
    }
    buf_add(body, BYTES("]}"));
}
