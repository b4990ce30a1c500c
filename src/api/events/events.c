/* events.c -- POST /api/events/{tenant}: one event, an array, NDJSON or CloudEvents in any mode.
 *
 * Every event is read and projected here, on the loop's thread, by the rules in force when the
 * request came; the commit thread only decides. Bad ones have their error set before the bundle is
 * sent, so results are in order by construction. The rules are held until the exchange ends, and so
 * outlive the bundle, whatever becomes of the client. An Idempotency-Key means nothing here: every
 * event carries its own id. */
#include "api/events/events.h"

#include "api/counters/batch.h"
#include "api/call.h"
#include "api/endpoints.h"
#include "api/events/headers.h"
#include "api/events/read.h"
#include "base/log.h"
#include "config/config.h"
#include "core/event_id.h"

#define EVENT_JSON_SIZE 160 /* a common size, to guess how many there are */

enum body_form { BODY_JSON, BODY_LINES, BODY_CLOUD, BODY_CLOUD_BATCH, BODY_CLOUD_DATA };

/* Where events are collected. */
struct events_reading {
    struct call *call;
    struct event_reader reader;
    struct batch_plan *plan;
    const struct rules *rules;
    struct project_memo memo;
    uint32_t capacity;
    uint32_t count_max;
    size_t bytes_max; /* what they, their projections and their results may take in memory */
    size_t id_bytes;  /* their ids, which the results repeat */
    bool too_large;
    const struct event_attributes *attributes; /* the one event's in binary mode; else NULL */
};

/* Without its parameters; compare without case. */
static struct bytes media_type(struct bytes content_type)
{
    struct bytes rest = content_type;
    return bytes_trim(bytes_split(&rest, ';'));
}

/* An event whose content type says that it is whole may repeat its attributes in headers (HTTP
 * binding, 3.2.3); the type decides. */
static enum body_form body_form(const struct request *request)
{
    static const struct bytes types[] = {
        [BODY_LINES] = BYTES("application/x-ndjson"),
        [BODY_CLOUD] = BYTES("application/cloudevents+json"),
        [BODY_CLOUD_BATCH] = BYTES("application/cloudevents-batch+json"),
    };
    struct bytes type = media_type(request->content_type);
    unsigned first = request->cloud_event ? BODY_CLOUD : BODY_LINES;
    for (unsigned i = first; i < ARRAY_COUNT(types); i++)
        if (bytes_equal_nocase(type, types[i])) return (enum body_form)i;
    return request->cloud_event ? BODY_CLOUD_DATA : BODY_JSON;
}

/* Ids have a namespace of their own, away from idempotency keys and counters: for each tenant, or
 * one for all. */
struct fingerprint event_print(const struct call *call, struct bytes id)
{
    bool shared = call->api->config.config->events_id_scope == CONFIG_IDS_INSTALLATION;
    return event_id_print(&call->lane->store->secret, shared, call->tenant, id);
}

static enum err project_event(struct events_reading *reading, struct sent_event *sent,
                              const struct json_value *payload, struct op *op, struct reason *why)
{
    struct call *call = reading->call;
    struct project_input input = {.rules = reading->rules,
                                  .secret = &call->lane->store->secret,
                                  .tenant = call->tenant,
                                  .payload = payload,
                                  .arena = &call->exchange->arena,
                                  .tell = log_enabled(LOG_DEBUG),
                                  .memo = &reading->memo};
    sent->projection = project(&input, &sent->event);
    sent->event.projection = sent->projection;
    op->event = &sent->event;
    op->weight = sent->projection->weight;
    op->key = event_print(call, sent->event.id);
    bool too_large = sent->projection->too_large;
    if (!too_large && op->weight <= config_batch_weight(call->api->config.config)) return ERR_OK;
    return reason_err(why, ERR_EVENT_SIZE,
                      "The event changes more counters than one commit holds.");
}

static enum err read_event(struct events_reading *reading, const struct json_value *object,
                           struct op *op, struct reason *why)
{
    struct call *call = reading->call;
    struct sent_event *sent = arena_zalloc(&call->exchange->arena, sizeof *sent);
    struct json_value payload;
    op->kind = OP_EVENT;
    op->tenant = call->tenant;
    enum err e = reading->attributes
                     ? event_read_binary(&reading->reader, reading->attributes, object,
                                         &sent->event, &payload, why)
                     : event_read(&reading->reader, object, &sent->event, &payload, why);
    if (e != ERR_OK) return e;
    if (!rules_type_known(reading->rules, sent->event.type))
        return reason_err(why, ERR_EVENT_TYPE, "%s", err_sentence(ERR_EVENT_TYPE));
    return project_event(reading, sent, &payload, op, why);
}

static struct op *next_op(struct events_reading *reading)
{
    struct call *call = reading->call;
    struct bundle *bundle = &call->bundle;
    if (bundle->count == reading->capacity) {
        size_t guess = 1 + call->exchange->request.body.size / EVENT_JSON_SIZE;
        uint32_t capacity = bundle->count ? 2 * bundle->count : (uint32_t)guess;
        struct op *more = arena_alloc(&call->exchange->arena, capacity * sizeof *more);
        if (bundle->count) memcpy(more, bundle->ops, bundle->count * sizeof *more);
        bundle->ops = more;
        reading->capacity = capacity;
    }
    struct op *op = &bundle->ops[bundle->count];
    memset(op, 0, sizeof *op);
    return op;
}

/* `object` NULL: a line that is no JSON. False: more than one request may carry. */
static bool add_event(struct events_reading *reading, const struct json_value *object)
{
    struct call *call = reading->call;
    struct reason why;
    if (call->bundle.count >= reading->count_max) return false;
    struct op *op = next_op(reading);
    op->err = object ? read_event(reading, object, op, &why)
                     : reason_err(&why, ERR_INVALID, "The line is not JSON.");
    if (op->err != ERR_OK)
        batch_plan_refuse(reading->plan, call->bundle.count, &call->exchange->arena, &why);
    call->bundle.count++;
    if (op->err == ERR_OK) reading->id_bytes += op->event->id.size;
    call->reply_bytes = batch_reply_bytes(reading->plan, call->bundle.count) + reading->id_bytes;
    reading->too_large = call->exchange->arena.total + call->reply_bytes > reading->bytes_max;
    return !reading->too_large;
}

static bool is_blank(struct bytes line)
{
    for (size_t i = 0; i < line.size; i++)
        if (line.data[i] != ' ' && line.data[i] != '\t' && line.data[i] != '\r') return false;
    return true;
}

static bool add_lines(struct events_reading *reading)
{
    struct bytes rest = reading->call->exchange->request.body;
    struct json_parser *parser = call_loop(reading->call)->parser;
    while (rest.data) {
        struct bytes line = bytes_split(&rest, '\n');
        struct json_value object;
        if (is_blank(line)) continue;
        bool parsed = json_parse(parser, line, &object);
        if (!add_event(reading, parsed ? &object : NULL)) return false;
    }
    return true;
}

static bool add_array(struct events_reading *reading, const struct json_value *array)
{
    struct json_iter iter;
    for (json_each(array, &iter); json_next(&iter);)
        if (!add_event(reading, &iter.value)) return false;
    return true;
}

static enum request_verdict send_many(struct events_reading *reading, bool fits)
{
    struct call *call = reading->call;
    if (reading->too_large)
        return call_refuse(call, ERR_BODY_SIZE,
                           "The events and what they change take more memory than one request may "
                           "have (limits.inflightBytes): send fewer at a time.");
    if (!fits) return call_refuse(call, ERR_TOO_MANY_OPS, NULL);
    if (call->bundle.count) return call_change(call, events_finish_many);
    call->bundle.sequence = view_sequence(&call->lane->store->view);
    events_finish_many(call);
    return REQUEST_ANSWERED;
}

static enum request_verdict send_one(struct events_reading *reading,
                                     const struct json_value *object)
{
    struct call *call = reading->call;
    struct reason why;
    struct op *op = &call->op;
    op->err = read_event(reading, object, op, &why);
    if (op->err != ERR_OK) {
        events_count(op, reading->reader.now_ms);
        return call_refuse(call, op->err, why.text);
    }
    call->bundle.ops = op;
    call->bundle.count = 1;
    return call_change(call, events_finish_one);
}

static enum request_verdict send_json(struct events_reading *reading, enum body_form form)
{
    struct call *call = reading->call;
    struct json_value body;
    if (!json_parse(call_loop(call)->parser, call->exchange->request.body, &body))
        return call_refuse(call, ERR_INVALID, "The body is not JSON.");
    if (body.type == JSON_OBJECT && form != BODY_CLOUD_BATCH) return send_one(reading, &body);
    if (body.type == JSON_ARRAY && form != BODY_CLOUD)
        return send_many(reading, add_array(reading, &body));
    if (form == BODY_CLOUD)
        return call_refuse(call, ERR_INVALID, "The body must be one CloudEvent, a JSON object.");
    if (form == BODY_CLOUD_BATCH)
        return call_refuse(call, ERR_INVALID, "The body must be an array of CloudEvents.");
    return call_refuse(call, ERR_INVALID, "The body must be an event or an array of events.");
}

/* A missing content type is taken for JSON, and so is the one that `curl -d` gives any body. */
static bool is_json_type(struct bytes content_type)
{
    static const struct bytes names[] = {{"", 0},
                                         BYTES("application/json"),
                                         BYTES("text/json"),
                                         BYTES("application/x-www-form-urlencoded")};
    static const struct bytes suffix = BYTES("+json");
    struct bytes type = media_type(content_type);
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++)
        if (bytes_equal_nocase(type, names[i])) return true;
    if (type.size < suffix.size) return false;
    return bytes_equal_nocase(bytes_of(type.data + type.size - suffix.size, suffix.size), suffix);
}

/* One CloudEvent in binary mode. Data that is no JSON is refused, as `data_base64` is: a rule could
 * see nothing in it, and nobody could read it back. */
static enum request_verdict send_data(struct events_reading *reading)
{
    struct call *call = reading->call;
    const struct request *request = &call->exchange->request;
    struct event_attributes attributes;
    struct json_value data = {.type = JSON_ABSENT};
    struct reason why;
    if (event_attributes_read(request->fields, &call->exchange->arena, &attributes, &why) != ERR_OK)
        return call_refuse(call, ERR_INVALID, why.text);
    if (request->body.size && !is_json_type(request->content_type))
        return call_refuse(call, ERR_INVALID,
                           "The data of an event must be JSON: send it as application/json.");
    if (request->body.size && !json_parse(call_loop(call)->parser, request->body, &data))
        return call_refuse(call, ERR_INVALID, "The body is not JSON.");
    reading->attributes = &attributes;
    enum request_verdict verdict = send_one(reading, &data);
    reading->attributes = NULL;
    return verdict;
}

static void begin(struct events_reading *reading, struct call *call, enum body_form form)
{
    const struct api_config *config = &call->api->config;
    struct arena *arena = &call->exchange->arena;
    bool cloud = form != BODY_JSON && form != BODY_LINES;
    *reading = (struct events_reading){.call = call,
                                       .plan = batch_plan_new(arena),
                                       .rules = call_rules(call),
                                       .count_max = (uint32_t)config->config->limits_request_ops,
                                       .bytes_max = call_bytes_max(call)};
    call->plan = reading->plan;
    call->bundle.urgency = URGENCY_BATCHED;
    call->bundle.weighty = true;
    event_reader_init(&reading->reader, cloud ? EVENT_CLOUD : EVENT_PLAIN, call_loop(call)->parser,
                      arena, clock_now_ms(call->lane->clock));
    reading->reader.call = call;
    reading->reader.generate_ids = config->config->events_generate_ids;
}

enum request_verdict events_post(struct call *call)
{
    enum request_verdict verdict;
    struct events_reading reading;
    enum body_form form = body_form(&call->exchange->request);
    if (!batch_options(call, &verdict)) return verdict;
    begin(&reading, call, form);
    if (form == BODY_LINES)
        verdict = send_many(&reading, add_lines(&reading));
    else if (form == BODY_CLOUD_DATA)
        verdict = send_data(&reading);
    else
        verdict = send_json(&reading, form);
    event_reader_release(&reading.reader);
    return verdict;
}

enum err events_make(struct call *call, struct bytes json, struct op *op, struct reason *why)
{
    struct events_reading reading;
    struct json_value object;
    begin(&reading, call, BODY_JSON);
    enum err e = json_parse(call_loop(call)->parser, json, &object)
                     ? read_event(&reading, &object, op, why)
                     : reason_err(why, ERR_INVALID, "The event is not UTF-8.");
    event_reader_release(&reading.reader);
    return e;
}
