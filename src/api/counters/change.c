/* change.c -- increment, decrement, set and delete: one operation, one reply. */
#include "api/call.h"
#include "api/counters/change.h"
#include "api/counters/granularity.h"
#include "api/endpoints.h"
#include "api/counters/frozen.h"
#include "base/json_flat.h"
#include "base/metrics.h"

/* A single request's body and each op of a batch have the same fields. The operation decides which
 * of the last three apply, and whether an expiry means anything. */
static const struct field change_fields[CHANGE_FIELD_COUNT] = {
    [CHANGE_DURATION] = {FIELD_DURATION},
    [CHANGE_BUCKET] = {FIELD_BUCKET},
    [CHANGE_ZONE] = {FIELD_ZONE},
    [CHANGE_TIMESTAMP] = {BYTES("timestamp"), FIELD_TIME, .required = true},
    [CHANGE_EXPIRES] = {BYTES("expiresAt"), FIELD_TIME, .fallback = TIME_NONE},
    [CHANGE_AMOUNT] = {BYTES("amount"), FIELD_I64, .min = 1, .max = INT64_MAX, .fallback = 1},
    [CHANGE_TARGET] = {BYTES("targetValue"), FIELD_I64, .required = true, .max = INT64_MAX},
    [CHANGE_CAP] = {BYTES("max"), FIELD_I64, .max = INT64_MAX, .fallback = MAX_NONE},
};

static const struct bytes change_names[] = {CHANGE_FIELD_NAMES};
_Static_assert(ARRAY_COUNT(change_names) == CHANGE_FIELD_COUNT,
               "the names are in the order of the enum");

/* Which of the fields above belong to another kind of operation. A decrement may name an expiry,
 * and ignores it. */
static const uint32_t elsewhere[] = {
    [OP_INCREMENT] = 1u << CHANGE_TARGET,
    [OP_DECREMENT] = 1u << CHANGE_TARGET | 1u << CHANGE_CAP,
    [OP_SET] = 1u << CHANGE_AMOUNT | 1u << CHANGE_CAP,
};

bool change_strays(enum op_kind kind, const struct json_value *values, uint32_t *elsewhere_out)
{
    uint32_t there = 0;
    for (unsigned i = CHANGE_AMOUNT; i < CHANGE_FIELD_COUNT; i++)
        there |= (uint32_t)(values[i].type > JSON_NULL) << i;
    *elsewhere_out = elsewhere[kind];
    return (there & elsewhere[kind]) != 0;
}

static enum err read_granularity(const struct json_value *values, int32_t *granularity_out,
                                 struct reason *why)
{
    struct field_value read[CHANGE_ZONE + 1];
    enum err e = fields_from_picked(values, change_fields, ARRAY_COUNT(read), read, why);
    if (e != ERR_OK) return e;
    const struct granularity_values given = {&read[CHANGE_DURATION], &read[CHANGE_BUCKET],
                                             &read[CHANGE_ZONE], .required = true};
    return granularity_read(&given, granularity_out, why);
}

static enum err read_fields(enum op_kind kind, const struct json_value *values, struct op *op,
                            int64_t *time_out, struct reason *why)
{
    struct field_value value;
    enum err e = read_granularity(values, &op->duration, why);
    if (e != ERR_OK) return e;
    e = field_from_json(&values[CHANGE_TIMESTAMP], &change_fields[CHANGE_TIMESTAMP], &value, why);
    if (e != ERR_OK) return e;
    *time_out = value.integer;
    e = field_from_json(&values[CHANGE_EXPIRES], &change_fields[CHANGE_EXPIRES], &value, why);
    if (e != ERR_OK) return e;
    op->expires_ms = value.integer;
    unsigned amount = kind == OP_SET ? CHANGE_TARGET : CHANGE_AMOUNT;
    e = field_from_json(&values[amount], &change_fields[amount], &value, why);
    if (e != ERR_OK) return e;
    op->amount = value.integer;
    op->max = MAX_NONE;
    if (kind != OP_INCREMENT) return ERR_OK;
    e = field_from_json(&values[CHANGE_CAP], &change_fields[CHANGE_CAP], &value, why);
    op->max = value.integer;
    return e;
}

enum err change_read(enum op_kind kind, const struct json_value *values, struct op *op,
                     int64_t *time_out, struct reason *why)
{
    op->kind = kind;
    enum err e = read_fields(kind, values, op, time_out, why);
    return e != ERR_OK ? e : params_bucket(*time_out, op->duration, "timestamp", &op->bucket, why);
}

enum err change_fill(struct call *call, enum op_kind kind, struct bytes name,
                     const struct json_value *values, struct op *op, int64_t *time_out,
                     struct reason *why)
{
    enum err e = change_read(kind, values, op, time_out, why);
    if (e == ERR_OK) call_address(call, op, name, op->duration, op->bucket);
    return e;
}

uint64_t change_digest(const struct op *op, int64_t time_ms)
{
    int64_t parts[] = {op->kind,
                       op->duration,
                       time_ms,
                       op->amount,
                       op->max,
                       op->expires_ms,
                       (int64_t)op->counter_print.low,
                       (int64_t)op->counter_print.high};
    return hash_checksum(bytes_of(parts, sizeof parts));
}

static const struct {
    enum op_kind kind;
    enum urgency urgency;
} changes[] = {
    [CHANGE_INCREMENT] = {OP_INCREMENT, URGENCY_BATCHED},
    [CHANGE_DECREMENT] = {OP_DECREMENT, URGENCY_BATCHED},
    [CHANGE_INCREMENT_SYNC] = {OP_INCREMENT, URGENCY_URGENT},
    [CHANGE_DECREMENT_SYNC] = {OP_DECREMENT, URGENCY_URGENT},
    [CHANGE_SET] = {OP_SET, URGENCY_URGENT},
};

static void finish_one(struct call *call)
{
    const struct op *op = &call->op;
    struct reply *reply = &call->exchange->reply;
    if (call_came_to_nothing(call)) {
        exchange_error(call->exchange, call->bundle.err, NULL);
        return;
    }
    if (!op->replayed) change_count(op);
    if (op->err != ERR_OK && op->err != ERR_LIMIT) {
        exchange_error(call->exchange, op->err, NULL);
    } else {
        reply->status = err_status(op->err);
        buf_add_char(&reply->body, '{');
        if (op->err == ERR_LIMIT) {
            reply_error_fields(&reply->body, op->err);
            buf_add_char(&reply->body, ',');
        }
        reply_triple(&reply->body, op->after.net, op->after.added, op->after.subbed);
        buf_add_char(&reply->body, '}');
    }
    reply_sequence(reply, op->sequence);
    if (op->replayed) reply_replayed(reply);
}

void change_count(const struct op *op)
{
    if (op->err == ERR_OK) metric_add(METRIC_UPDATE_SUCCESS, 1);
    if (op->err == ERR_NEGATIVE || op->err == ERR_LIMIT) metric_add(METRIC_CONSTRAINT_REFUSED, 1);
}

static enum request_verdict send_one(struct call *call, enum urgency urgency,
                                     void (*finish)(struct call *call))
{
    enum request_verdict verdict;
    struct op *op = &call->op;
    if (!call_key(call, &op->keyed, &op->key, &op->key_digest, &verdict)) return verdict;
    call->bundle.ops = op;
    call->bundle.count = 1;
    call->bundle.urgency = urgency;
    return call_change(call, finish);
}

/* A body of plain known fields costs one look at it and nothing else. */
static enum err pick_values(struct call *call, enum op_kind kind, struct json_value *values,
                            struct reason *why)
{
    struct json_value body;
    struct known known = {.names = change_names, .count = CHANGE_FIELD_COUNT};
    struct bytes text = call->exchange->request.body;
    if (json_flat_pick(text, change_names, CHANGE_FIELD_COUNT, values) &&
        !change_strays(kind, values, &known.elsewhere))
        return ERR_OK;
    if (!json_parse(call_loop(call)->parser, text, &body) || body.type != JSON_OBJECT)
        return reason_err(why, ERR_INVALID, "The body must be one JSON object.");
    size_t others = json_pick(&body, change_names, CHANGE_FIELD_COUNT, values);
    if (change_strays(kind, values, &known.elsewhere)) others++;
    return others ? call_unknown(call, &body, &known, why) : ERR_OK;
}

enum request_verdict change_one(struct call *call)
{
    enum request_verdict verdict;
    struct json_value values[CHANGE_FIELD_COUNT];
    struct reason why;
    int64_t time_ms;
    int change = call->route->detail;
    enum op_kind kind = changes[change].kind;
    if (!call_name(call, &verdict)) return verdict;
    enum err e = pick_values(call, kind, values, &why);
    if (e == ERR_OK) e = change_fill(call, kind, call->name, values, &call->op, &time_ms, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    return send_one(call, changes[change].urgency, finish_one);
}

static void finish_delete(struct call *call)
{
    struct reply *reply = &call->exchange->reply;
    if (call_came_to_nothing(call) || call->op.err != ERR_OK) {
        exchange_error(call->exchange, call->bundle.err != ERR_OK ? call->bundle.err : call->op.err,
                       NULL);
    } else {
        reply->status = 200;
        buf_add(&reply->body, BYTES("{\"deleted\":true}"));
    }
    if (call->bundle.err == ERR_OK) reply_sequence(reply, call->op.sequence);
    if (call->op.replayed) reply_replayed(reply);
}

enum request_verdict change_delete(struct call *call)
{
    enum request_verdict verdict;
    if (!call_name(call, &verdict)) return verdict;
    const struct definition *definition = call_definition(call, call->name);
    if (definition && definition->frozen && call->admin) return frozen_delete(call, definition);
    call->op.kind = OP_DELETE;
    call_address(call, &call->op, call->name, 0, 0);
    return send_one(call, URGENCY_BATCHED, finish_delete);
}
