/* batch.c -- many operations in one request: {"ops":[...]} or one JSON object a line.
 *
 * Each op is read into its place in one array, impossible ones with their error already set, so the
 * results are in order by construction. The whole array travels as one bundle; the queue cuts it
 * into batches unless it is atomic or has a key of its own. */
#include "api/counters/batch.h"

#include "api/call.h"
#include "api/counters/change.h"
#include "api/endpoints.h"
#include "core/name.h"

/* Three values of 20 bytes, the longest sentence with its code, the field names and the index. */
#define RESULT_BYTES 256u

enum { OP = CHANGE_FIELD_COUNT, NAME, KEY, OP_FIELDS };

static const char *const op_choices[] = {"increment", "decrement", "set", NULL};
static const struct field op_field = {BYTES("op"), FIELD_CHOICE, .required = true,
                                      .choices = op_choices};
static const enum op_kind op_kinds[] = {OP_INCREMENT, OP_DECREMENT, OP_SET};
static const struct field name_field = {BYTES("name"), FIELD_NAME, .required = true};
static const struct field key_field = {BYTES("idempotencyKey"), FIELD_KEY, .required = false};

/* The change's fields first, then those that only an op of a batch has. */
static const struct bytes op_names[OP_FIELDS] = {CHANGE_FIELD_NAMES, BYTES("op"), BYTES("name"),
                                                 BYTES("idempotencyKey")};

/* Where ops are collected. */
struct ops_reading {
    struct call *call;
    struct batch_plan *plan;
    uint32_t capacity;
    uint32_t count_max;
};

/* Picks the fields of an op and says of which kind it is. An unknown name is reported before any
 * other mistake, because it may be the cause. */
static enum err pick_op(struct call *call, const struct json_value *object,
                        struct json_value *values, struct field_value *kind_out, struct reason *why)
{
    struct reason unknown_why;
    struct known known = {.names = op_names, .count = OP_FIELDS};
    size_t others = json_pick(object, op_names, OP_FIELDS, values);
    enum err e = field_from_json(&values[OP], &op_field, kind_out, why);
    bool strays =
        e == ERR_OK && change_strays(op_kinds[kind_out->integer], values, &known.elsewhere);
    if (!others && !strays) return e;
    enum err unknown = call_unknown(call, object, &known, &unknown_why);
    if (unknown != ERR_OK) *why = unknown_why;
    return unknown != ERR_OK ? unknown : e;
}

static enum err read_op(struct call *call, const struct json_value *object, struct op *op,
                        struct reason *why)
{
    struct json_value values[OP_FIELDS];
    struct field_value kind;
    struct field_value name;
    struct field_value key;
    int64_t time_ms;
    if (object->type != JSON_OBJECT)
        return reason_err(why, ERR_INVALID, "An operation must be a JSON object.");
    enum err e = pick_op(call, object, values, &kind, why);
    if (e == ERR_OK) e = field_from_json(&values[NAME], &name_field, &name, why);
    if (e == ERR_OK) e = field_from_json(&values[KEY], &key_field, &key, why);
    if (e == ERR_OK)
        e = change_fill(call, op_kinds[kind.integer], name.text, values, op, &time_ms, why);
    if (e != ERR_OK) return e;
    op->keyed = key.present;
    if (op->keyed) {
        op->key = call_key_print(call, key.text);
        op->key_digest = change_digest(op, time_ms);
    }
    return ERR_OK;
}

struct batch_plan *batch_plan_new(struct arena *arena)
{
    struct batch_plan *plan = arena_zalloc(arena, sizeof *plan);
    plan->bad_end = &plan->bad;
    return plan;
}

size_t batch_reply_bytes(const struct batch_plan *plan, uint32_t count)
{
    return (size_t)count * RESULT_BYTES + 2 * plan->why_bytes; /* quotes in it are escaped */
}

void batch_plan_refuse(struct batch_plan *plan, uint32_t index, struct arena *arena,
                       const struct reason *why)
{
    struct bad_op *bad = arena_alloc(arena, sizeof *bad);
    *bad = (struct bad_op){.index = index, .why = arena_copy(arena, bytes_str(why->text)).data};
    plan->why_bytes += strlen(bad->why);
    *plan->bad_end = bad;
    plan->bad_end = &bad->next;
}

/* False: more ops than one request may carry. */
static bool add_op(struct ops_reading *reading, const struct json_value *object)
{
    struct call *call = reading->call;
    struct bundle *bundle = &call->bundle;
    struct arena *arena = &call->exchange->arena;
    struct reason why;
    if (bundle->count >= reading->count_max) return false;
    if (bundle->count == reading->capacity) {
        uint32_t capacity = reading->capacity * 2;
        struct op *more = arena_alloc(arena, capacity * sizeof *more);
        memcpy(more, bundle->ops, bundle->count * sizeof *more);
        bundle->ops = more;
        reading->capacity = capacity;
    }
    struct op *op = &bundle->ops[bundle->count];
    memset(op, 0, sizeof *op);
    op->err = object ? read_op(call, object, op, &why)
                     : reason_err(&why, ERR_INVALID, "The line is not JSON.");
    if (op->err != ERR_OK) batch_plan_refuse(reading->plan, bundle->count, arena, &why);
    bundle->count++;
    return true;
}

static bool read_lines(struct ops_reading *reading)
{
    struct bytes rest = reading->call->exchange->request.body;
    struct json_parser *parser = call_loop(reading->call)->parser;
    while (rest.data) {
        struct bytes line = bytes_split(&rest, '\n');
        if (line.size && line.data[line.size - 1] == '\r') line.size--;
        if (line.size == 0) continue;
        struct json_value object;
        bool parsed = json_parse(parser, line, &object);
        if (!add_op(reading, parsed ? &object : NULL)) return false;
    }
    return true;
}

static bool read_array(struct ops_reading *reading, const struct json_value *array)
{
    struct json_iter iter;
    for (json_each(array, &iter); json_next(&iter);)
        if (!add_op(reading, &iter.value)) return false;
    return true;
}

static void finish_atomic(struct call *call)
{
    struct exchange *exchange = call->exchange;
    struct reply *reply = &exchange->reply;
    if (call_came_to_nothing(call) || call->bundle.err == ERR_KEY_CONFLICT) {
        exchange_error(exchange, call->bundle.err, NULL);
        return;
    }
    reply->status = err_status(call->bundle.err);
    if (call->bundle.err == ERR_OK) {
        batch_results(call);
    } else {
        buf_add_char(&reply->body, '{');
        reply_error_fields(&reply->body, call->bundle.err);
        buf_addf(&reply->body, ",\"index\":%u}", call->bundle.failed_index);
    }
    reply_sequence(reply, call->bundle.sequence);
    if (call->bundle.replayed) reply_replayed(reply);
}

static void finish_each(struct call *call)
{
    struct reply *reply = &call->exchange->reply;
    if (call->bundle.err != ERR_OK) {
        exchange_error(call->exchange, call->bundle.err, NULL);
        return;
    }
    reply->status = 200;
    batch_results(call);
    reply_sequence(reply, call->bundle.sequence);
    if (call->bundle.replayed) reply_replayed(reply);
}

/* An atomic batch with an op that cannot be is refused before anything is queued. */
static enum request_verdict refuse_bad_op(struct call *call, const struct bad_op *bad)
{
    struct reply *reply = &call->exchange->reply;
    enum err e = call->bundle.ops[bad->index].err;
    reply->status = err_status(e);
    buf_add(&reply->body, BYTES("{\"error\":"));
    buf_add_json(&reply->body, bytes_str(bad->why));
    buf_addf(&reply->body, ",\"code\":\"%s\",\"index\":%u}", err_code(e), bad->index);
    return REQUEST_ANSWERED;
}

static bool is_ndjson(struct bytes content_type)
{
    struct bytes rest = content_type;
    struct bytes type = bytes_split(&rest, ';');
    while (type.size && type.data[type.size - 1] == ' ')
        type.size--;
    return bytes_equal_nocase(type, BYTES("application/x-ndjson"));
}

static enum request_verdict read_json(struct ops_reading *reading, bool *fits_out,
                                      bool *refused_out)
{
    static const struct bytes names[] = {BYTES("ops"), BYTES("atomic")};
    static const struct field atomic_field = {BYTES("atomic"), FIELD_BOOL, .required = false};
    struct call *call = reading->call;
    struct json_value body;
    struct json_value values[2];
    struct field_value atomic;
    struct reason why;
    *refused_out = true;
    if (!json_parse(call_loop(call)->parser, call->exchange->request.body, &body) ||
        body.type != JSON_OBJECT)
        return call_refuse(call, ERR_INVALID, "The body must be one JSON object.");
    if (json_pick(&body, names, 2, values)) {
        enum err e = call_unknown(call, &body, &(struct known){names, 2, 0, false}, &why);
        if (e != ERR_OK) return call_refuse(call, e, why.text);
    }
    if (values[0].type != JSON_ARRAY)
        return call_refuse(call, ERR_INVALID, "ops must be an array of operations.");
    if (field_from_json(&values[1], &atomic_field, &atomic, &why) != ERR_OK)
        return call_refuse(call, ERR_INVALID, why.text);
    *refused_out = false;
    call->bundle.atomic = atomic.integer != 0;
    *fits_out = read_array(reading, &values[0]);
    return REQUEST_ANSWERED;
}

static enum request_verdict send_batch(struct call *call, const struct batch_plan *plan)
{
    const struct config *config = call->api->config.config;
    struct bundle *bundle = &call->bundle;
    bundle->urgency = URGENCY_BATCHED;
    bundle->whole = bundle->atomic || bundle->keyed;
    if (bundle->atomic && bundle->count > (uint32_t)config->limits_atomic_ops)
        return call_refuse(call, ERR_TOO_MANY_OPS, NULL);
    if (bundle->keyed && bundle->count > (uint32_t)config->limits_batch_ops)
        return call_refuse(call, ERR_TOO_MANY_OPS, NULL);
    if (bundle->atomic && plan->bad) return refuse_bad_op(call, plan->bad);
    if (bundle->count == 0) {
        bundle->sequence = view_sequence(&call->lane->store->view);
        finish_each(call);
        return REQUEST_ANSWERED;
    }
    call->reply_bytes = batch_reply_bytes(plan, bundle->count);
    return call_change(call, bundle->atomic ? finish_atomic : finish_each);
}

bool batch_options(struct call *call, enum request_verdict *verdict_out)
{
    static const char *const choices[] = {"all", "errors", NULL};
    static const struct field results_field = {BYTES("results"), FIELD_CHOICE, .choices = choices};
    struct field_value results;
    struct reason why;
    if (fields_from_params(&call->params, &results_field, 1, &results, &why) != ERR_OK) {
        *verdict_out = call_refuse(call, ERR_INVALID, why.text);
        return false;
    }
    call->errors_only = results.integer == 1;
    return true;
}

enum request_verdict batch_post(struct call *call)
{
    enum request_verdict verdict;
    struct bundle *bundle = &call->bundle;
    struct arena *arena = &call->exchange->arena;
    struct bytes body = call->exchange->request.body;
    if (!batch_options(call, &verdict)) return verdict;
    if (!call_key(call, &bundle->keyed, &bundle->key, &bundle->key_digest, &verdict))
        return verdict;

    struct batch_plan *plan = batch_plan_new(arena);
    call->plan = plan;
    struct ops_reading reading = {.call = call,
                                  .plan = plan,
                                  .capacity = 16 + (uint32_t)(body.size / 96),
                                  .count_max =
                                      (uint32_t)call->api->config.config->limits_request_ops};
    bundle->ops = arena_alloc(arena, reading.capacity * sizeof *bundle->ops);
    bool fits;
    bool refused = false;
    if (is_ndjson(call->exchange->request.content_type))
        fits = read_lines(&reading);
    else
        verdict = read_json(&reading, &fits, &refused);
    if (refused) return verdict;
    if (!fits) return call_refuse(call, ERR_TOO_MANY_OPS, NULL);
    return send_batch(call, plan);
}
