/* call.c -- what every endpoint needs: refusing, reading its input, sending itself on. */
#include "api/call.h"

#include "api/gzip_reply.h"

#include "base/metrics.h"
#include "commit/pace.h"
#include "config/config.h"
#include "core/bucket.h"
#include "core/name.h"
#include "replica/ship.h"

enum request_verdict call_refuse(struct call *call, enum err e, const char *sentence)
{
    exchange_error(call->exchange, e, sentence);
    return REQUEST_ANSWERED;
}

bool call_name(struct call *call, enum request_verdict *verdict_out)
{
    if (!call->name_malformed && counter_name_valid(call->name)) return true;
    *verdict_out = call_refuse(call, ERR_INVALID,
                               "The counter's name must be 1 to 255 of A-Z a-z 0-9 _ . ~ - :.");
    return false;
}

enum err call_warn(struct call *call, const struct reason *why)
{
    metric_add(METRIC_UNKNOWN_FIELDS, 1);
    if (call->api->config.config->api_unknown_fields == CONFIG_UNKNOWN_REFUSE)
        return ERR_UNKNOWN_FIELD;
    if (!call->warned) exchange_header(call->exchange, "Tally-Warning", bytes_str(why->text));
    call->warned = true;
    return ERR_OK;
}

enum err call_unknown(struct call *call, const struct json_value *object, const struct known *known,
                      struct reason *why)
{
    return unknown_field(object, known, why) ? call_warn(call, why) : ERR_OK;
}

bool call_params(struct call *call, enum request_verdict *verdict_out)
{
    struct reason why;
    struct params *params = &call->params;
    enum err e = params_parse(call->exchange->request.query, &call->exchange->arena, params, &why);
    if (e == ERR_OK && unknown_param(params, known_params(route_index(call->route)), &why))
        e = call_warn(call, &why);
    if (e == ERR_OK) return true;
    *verdict_out = call_refuse(call, e, why.text);
    return false;
}

bool call_awaits_followers(const struct call *call)
{
    const unsigned always = ROUTE_PUBLIC | ROUTE_LOCAL | ROUTE_ADMIN_UNLESS_PUBLIC_METRICS;
    struct ship *ship = call->api->config.ship;
    return ship && !(call->route->flags & always) && !ship_is_settled(ship);
}

bool call_bare(struct call *call, enum request_verdict *verdict_out)
{
    struct json_value body;
    struct reason why;
    struct known none = {0};
    if (!json_parse(call_loop(call)->parser, call->exchange->request.body, &body)) return true;
    enum err e = call_unknown(call, &body, &none, &why);
    if (e == ERR_OK) return true;
    *verdict_out = call_refuse(call, e, why.text);
    return false;
}

enum err call_fields(struct call *call, const struct field *fields, unsigned count,
                     struct field_value *values_out, struct reason *why)
{
    struct json_value body;
    struct json_value values[FIELDS_MAX] = {0};
    struct bytes names[FIELDS_MAX];
    struct bytes text = call->exchange->request.body;
    must(count >= 1 && count <= FIELDS_MAX);
    for (unsigned i = 0; i < count; i++)
        names[i] = fields[i].name;
    if (text.size &&
        (!json_parse(call_loop(call)->parser, text, &body) || body.type != JSON_OBJECT))
        return reason_err(why, ERR_INVALID, "The body must be one JSON object.");
    enum err e = ERR_OK;
    if (text.size && json_pick(&body, names, count, values))
        e = call_unknown(call, &body, &(struct known){names, count, 0, false}, why);
    return e == ERR_OK ? fields_from_picked(values, fields, count, values_out, why) : e;
}

const struct rules *call_rules(struct call *call)
{
    if (!call->rules) call->rules = rulebook_hold(call->lane->rulebook);
    return call->rules;
}

const struct definition *call_definition(struct call *call, struct bytes name)
{
    if (rulebook_is_empty(call->lane->rulebook)) return NULL;
    return rules_find(call_rules(call), name);
}

static void bundle_done(struct bundle *bundle)
{
    struct call *call = bundle->owner;
    exchange_post(call->exchange);
}

void call_prepare(struct call *call, void (*finish)(struct call *call))
{
    struct bundle *bundle = &call->bundle;
    call->finish = finish;
    bundle->tenant = call->tenant;
    bundle->owner = call;
    bundle->done = bundle_done;
    bundle->queued_ns = call->exchange->started_ns;
    bundle->bytes = sizeof *call + bundle->count * sizeof(struct op) + call->exchange->arena.total;
}

void call_push_collected(struct lane *lane, struct collected *collected)
{
    struct bundle *refused;
    *collected->end = NULL;
    queue_push_all(lane->queue, collected->bundles, &refused);
    collected->bundles = NULL;
    collected->end = &collected->bundles;
    collected->ops = 0;
    while (refused) {
        struct bundle *bundle = refused;
        refused = bundle->next;
        bundle->done(bundle);
    }
}

static void push_early(struct lane *lane, struct collected *collected)
{
    call_push_collected(lane, collected);
    queue_wake(lane->queue);
}

/* What the loop has for a lane, in which `count` ops more are to be; the end of the turn looks at
 * the lanes that got bundles. */
static struct collected *collect_for(struct loop_state *loop, const struct lane *lane,
                                     uint32_t count)
{
    struct collected *collected = &loop->lanes[lane->index];
    if (collected->turn_ops == 0) loop->pushed[loop->pushed_count++] = lane->index;
    collected->turn_ops += count;
    return collected;
}

static void collect(struct lane *lane, struct collected *collected, struct bundle *bundle)
{
    *collected->end = bundle;
    collected->end = &bundle->next;
    collected->ops += bundle->count;
    if (pace_pushes_early(collected->ops)) push_early(lane, collected);
}

void loop_collect(struct loop_state *loop, struct lane *lane, struct bundle *bundle)
{
    must(bundle->count > 0 && bundle->urgency == URGENCY_BATCHED);
    collect(lane, collect_for(loop, lane, bundle->count), bundle);
}

size_t call_bytes_max(const struct call *call)
{
    size_t share = (size_t)call->api->config.config->limits_inflight_bytes / 5 * 4;
    size_t body =
        2 * call->exchange->request.body.size; /* a chunked body may lie in memory twice */
    return share > body ? share - body : 0;
}

static enum request_verdict refuse_room(struct call *call)
{
    if (call->exchange->arena.total + call->reply_bytes > call_bytes_max(call))
        return call_refuse(call, ERR_BODY_SIZE,
                           "The operations take more memory than one request may have "
                           "(limits.inflightBytes): send fewer at a time.");
    metric_add(METRIC_QUEUE_REFUSED, 1);
    return call_refuse(call, ERR_QUEUE_FULL, NULL);
}

enum request_verdict call_change(struct call *call, void (*finish)(struct call *call))
{
    struct bundle *bundle = &call->bundle;
    call_prepare(call, finish);
    if (!exchange_reserve(call->exchange, call->reply_bytes)) return refuse_room(call);
    must(bundle->count > 0);
    struct collected *collected = collect_for(call_loop(call), call->lane, bundle->count);
    if (bundle->urgency == URGENCY_URGENT) {
        struct bundle *refused;
        bundle->next = NULL;
        queue_push_all(call->lane->queue, bundle, &refused);
        return refused ? REQUEST_HOLD : REQUEST_KEPT;
    }
    collect(call->lane, collected, bundle);
    return REQUEST_KEPT;
}

static size_t reply_bytes_max(const struct call *call)
{
    return (size_t)call->api->config.config->limits_reply_bytes;
}

/* Whether a read may go on after a part of it. The reply made so far is charged, and after the last
 * part stays charged until the client has taken it. */
static enum err check_part(struct call *call)
{
    struct exchange *exchange = call->exchange;
    if (exchange->reply.body.failed) return ERR_REPLY_SIZE;
    if (call->cells > (uint64_t)call->api->config.config->limits_query_cells)
        return ERR_TOO_MANY_CELLS;
    if (!call->more) buf_fit(&exchange->reply.body);
    if (!exchange_reserve(exchange, 0)) return ERR_BUSY;
    if (!call->more) gzip_reply(exchange);
    return ERR_OK;
}

/* True: there is another part. */
static bool read_part(struct call *call)
{
    struct exchange *exchange = call->exchange;
    bool over = api_is_over(call->api);
    call->more = false;
    enum err e = over ? ERR_BUSY : position_settle(call);
    if (e == ERR_OK) {
        call->read(call);
        e = check_part(call);
    }
    if (e == ERR_OK) return call->more;
    buf_release(&exchange->reply.body);
    exchange_error(exchange, e, over ? "The server is stopping. Please retry later." : NULL);
    if (over) exchange->reply.close = true;
    return false;
}

static bool read_run(void *context)
{
    struct call *call = context;
    struct api *api = call->api; /* the call may be gone once it is posted */
    const struct clock *clock = api->config.machine;
    int64_t until_ns = clock_mono_ns(clock) + PACE_READ_TURN_NS;
    bool more;
    must_at = &call->place;
    do {
        more = read_part(call);
    } while (more && clock_mono_ns(clock) < until_ns);
    if (!more && call->read_done) call->read_done(call);
    must_at = NULL;
    if (more) return true;
    exchange_post(call->exchange);
    api->config.wake(api->config.wake_context);
    return false;
}

static void look_first(void *context, struct view *moment)
{
    struct call *call = context;
    if (call->wanted) call->newest_err = view_newest(moment, &call->newest);
    if (call->look) call->look(call, moment);
}

static enum request_verdict read_on(struct call *call, struct readers *readers,
                                    void (*read)(struct call *call))
{
    if (call->lost) return call_refuse(call, ERR_POSITION, NULL);
    call->read = read;
    call->task.tenant = call->tenant;
    call->task.run = read_run;
    call->task.context = call;
    call->exchange->reply.body.max = reply_bytes_max(call);
    enum err e =
        exchange_reserve(call->exchange, 0) ? readers_push(readers, &call->task) : ERR_BUSY;
    return e == ERR_OK ? REQUEST_KEPT : call_refuse(call, e, NULL);
}

enum request_verdict call_read(struct call *call, void (*read)(struct call *call))
{
    struct api *api = call->api;
    bool of_tenant = call->tenant.data != NULL; /* others may look at every lane */
    struct readers *own = api_readers(api, call->lane);
    return read_on(call, of_tenant ? own : api->readers[api->readers_count - 1], read);
}

enum request_verdict call_look(struct call *call, unsigned values,
                               void (*look)(struct call *call, struct view *moment),
                               void (*read)(struct call *call))
{
    struct view *view = &call->view;
    must(call->positioned);
    call->look = look;
    if (view_gathers(view)) {
        call->task.look = (struct view_reading){.view = view, .read = look_first, .context = call};
        call->task.values = values + (call->wanted > 0);
    }
    return call_read(call, read);
}

enum request_verdict call_read_source(struct call *call, void (*read)(struct call *call))
{
    return read_on(call, call->api->source_readers, read);
}

enum request_verdict call_read_lent(struct call *call, void (*read)(struct call *call))
{
    return read_on(call, call->api->lenders, read);
}

enum request_verdict call_read_forward(struct call *call, void (*read)(struct call *call))
{
    return read_on(call, call->api->forwarders, read);
}

void call_address(struct call *call, struct op *op, struct bytes name, int32_t duration,
                  int64_t bucket)
{
    char key[COUNTER_KEY_SIZE_MAX];
    op->counter = arena_copy(&call->exchange->arena, counter_key(key, call->tenant, name));
    op->tenant = bytes_of(op->counter.data, call->tenant.size);
    op->counter_print = fingerprint_of(&call->lane->store->secret, op->counter);
    op->duration = duration;
    op->bucket = bucket;
}

/* Keys have a namespace of their own for each tenant: no counter and no event id meets them. */
struct fingerprint lane_key_print(const struct lane *lane, struct bytes tenant, struct bytes key)
{
    char text[2 * NAME_SIZE_MAX + 2];
    must(tenant.size <= NAME_SIZE_MAX && key.size <= NAME_SIZE_MAX);
    text[0] = 'k';
    memcpy(text + 1, tenant.data, tenant.size);
    text[1 + tenant.size] = 0;
    memcpy(text + 2 + tenant.size, key.data, key.size);
    return fingerprint_of(&lane->store->secret, bytes_of(text, 2 + tenant.size + key.size));
}

struct fingerprint call_key_print(struct call *call, struct bytes key)
{
    return lane_key_print(call->lane, call->tenant, key);
}

/* Everything that makes a request the same request: method, path, query, body. */
static uint64_t request_digest(const struct request *request)
{
    uint64_t parts[4] = {(uint64_t)request->method, hash_checksum(request->path),
                         hash_checksum(request->query), hash_checksum(request->body)};
    return hash_checksum(bytes_of(parts, sizeof parts));
}

bool call_key(struct call *call, bool *keyed_out, struct fingerprint *key_out, uint64_t *digest_out,
              enum request_verdict *verdict_out)
{
    struct bytes key = call->exchange->request.idempotency_key;
    *keyed_out = key.data != NULL;
    if (!key.data) return true;
    if (!key_valid(key)) {
        *verdict_out = call_refuse(call, ERR_INVALID,
                                   "Idempotency-Key must be 1 to 255 printable ASCII characters.");
        return false;
    }
    *key_out = call_key_print(call, key);
    *digest_out = request_digest(&call->exchange->request);
    return true;
}

void reply_replayed(struct reply *reply)
{
    metric_add(METRIC_KEYS_REPLAYED, 1);
    buf_add(&reply->headers, BYTES("Idempotent-Replayed: true\r\n"));
}

static void add_value(struct buf *body, struct bytes label, __int128 value)
{
    buf_add(body, label);
    buf_add_i128(body, value);
}

void reply_triple(struct buf *body, __int128 net, __int128 added, __int128 subbed)
{
    add_value(body, BYTES("\"net\":\""), net);
    add_value(body, BYTES("\",\"added\":\""), added);
    add_value(body, BYTES("\",\"subbed\":\""), subbed);
    buf_add_char(body, '"');
}

void reply_page_end(struct buf *body, struct bytes cursor)
{
    buf_add(body, BYTES("],\"next\":"));
    if (!cursor.data) {
        buf_add(body, BYTES("null}"));
        return;
    }
    buf_add_char(body, '"');
    cursor_encode(body, cursor);
    buf_add(body, BYTES("\"}"));
}

void reply_error_fields(struct buf *body, enum err e)
{
    buf_add(body, BYTES("\"error\":"));
    buf_add_json(body, bytes_str(err_sentence(e)));
    buf_addf(body, ",\"code\":\"%s\"", err_code(e));
}
