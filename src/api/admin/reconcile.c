/* reconcile.c -- reconciled counters over HTTP: ask for an entity, count one now, see what is
 * wrong, see how things stand.
 *
 * A request is a change like any other and goes through the queue. Counting asks the database of a
 * source and may take seconds: it has threads of its own, so that reads of counters never wait for
 * it. The message of a source that fails is for the log, never for a tenant. */
#include "api/call.h"
#include "api/endpoints.h"
#include "core/event.h"
#include "core/mark.h"
#include "core/reconcile.h"

#define CURSOR_SIZE_MAX (64u << 10)
#define UNCOUNTED_SIZE_MAX (16u << 20) /* a page of entities */

/* The entry in the path. An entry that is not for this tenant is none (SPEC 9). */
static const struct reconcile *find_entry(struct call *call, enum request_verdict *verdict_out)
{
    const struct reconcile *reconcile =
        call->name_malformed ? NULL : reconcile_find(call_rules(call), call->name);
    if (reconcile && reconcile_has_tenant(reconcile, call->tenant)) return reconcile;
    *verdict_out = call_refuse(call, ERR_NOT_FOUND, NULL);
    return NULL;
}

/* {"conversationId":"c1"}, or for an entry without dimensions, {}: canonical. */
static enum err read_entity(struct call *call, const struct reconcile *reconcile,
                            struct bytes *json_out, struct reason *why)
{
    const struct dimension_set *set = &reconcile->entity;
    struct arena *arena = &call->exchange->arena;
    struct bytes keys[RULES_DIMENSIONS_MAX];
    struct dimension pairs[RULES_DIMENSIONS_MAX];
    struct json_value body, found[RULES_DIMENSIONS_MAX];
    if (!json_parse(call_loop(call)->parser, call->exchange->request.body, &body) ||
        body.type != JSON_OBJECT)
        return reason_err(why, ERR_INVALID, "The body must be one JSON object: the entity.");
    for (unsigned i = 0; i < set->count; i++)
        keys[i] = set->sources[i].name;
    if (json_pick(&body, keys, set->count, found)) {
        enum err e = call_unknown(call, &body, &(struct known){keys, set->count, 0, false}, why);
        if (e != ERR_OK) return e;
    }
    for (unsigned i = 0; i < set->count; i++) {
        pairs[i].key = keys[i];
        if (dimension_text(&found[i], arena, &pairs[i].value)) continue;
        return reason_err(why, ERR_INVALID, "%.*s must be a string, an integer or a boolean.",
                          (int)(keys[i].size < 100 ? keys[i].size : 100), keys[i].data);
    }
    size_t size = dimensions_size(pairs, set->count);
    if (size > EVENT_SIZE_MAX) return reason_err(why, ERR_INVALID, "The entity is over 16 KiB.");
    struct buf json = {.data = arena_alloc(arena, size), .capacity = size, .max = size};
    dimensions_write(&json, pairs, set->count);
    *json_out = buf_bytes(&json);
    return ERR_OK;
}

/* -- Asking for an entity ---------------------------------------------------------------------- */

static void finish_request(struct call *call)
{
    struct exchange *exchange = call->exchange;
    enum err e = call->bundle.err != ERR_OK ? call->bundle.err : call->op.err;
    if (e != ERR_OK) {
        exchange_error(exchange, e, NULL);
        return;
    }
    exchange->reply.status = 200;
    reply_sequence(&exchange->reply, call->op.sequence);
    buf_add(&exchange->reply.body, BYTES("{\"requested\":true}"));
}

enum request_verdict reconcile_post_request(struct call *call)
{
    enum request_verdict verdict;
    struct reason why;
    struct bytes entity_json;
    struct arena *arena = &call->exchange->arena;
    const struct reconcile *reconcile = find_entry(call, &verdict);
    if (!reconcile) return verdict;
    enum err e = read_entity(call, reconcile, &entity_json, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    struct mark_change *change = arena_zalloc(arena, sizeof *change);
    change->step = MARK_REQUEST;
    change->place = mark_place_of(arena, &call->lane->store->secret, reconcile->name, call->tenant,
                                  entity_json);
    call->op = (struct op){
        .kind = OP_MARK, .tenant = call->tenant, .mark = change, .weight = mark_weight(change)};
    call->bundle =
        (struct bundle){.ops = &call->op, .count = 1, .urgency = URGENCY_BATCHED, .weighty = true};
    return call_change(call, finish_request);
}

/* -- One entity now ---------------------------------------------------------------------------- */

static void run_now(struct call *call)
{
    const struct api_config *config = &call->api->config;
    const struct bytes *entity_json = call->plan;
    struct reply *reply = &call->exchange->reply;
    reply->status = 200;
    enum err e = config->reconcile.run(config->reconcile.context, call->name, call->tenant,
                                       *entity_json, &reply->body);
    if (e == ERR_BUSY)
        exchange_error(call->exchange, e, "The entity is being counted. Please retry later.");
    else if (e != ERR_OK)
        exchange_error(call->exchange, e, NULL);
}

enum request_verdict reconcile_post_run(struct call *call)
{
    enum request_verdict verdict;
    struct reason why;
    struct bytes *entity_json = arena_alloc(&call->exchange->arena, sizeof *entity_json);
    const struct reconcile *reconcile = find_entry(call, &verdict);
    if (!reconcile) return verdict;
    enum err e = read_entity(call, reconcile, entity_json, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    call->plan = entity_json;
    return call_read_source(call, run_now);
}

/* -- What is wrong ----------------------------------------------------------------------------- */

struct drift_plan {
    struct bytes after;
    int64_t limit;
};

static void run_drift(struct call *call)
{
    const struct api_config *config = &call->api->config;
    const struct drift_plan *plan = call->plan;
    struct reply *reply = &call->exchange->reply;
    struct buf after, uncounted;
    buf_init(&after, CURSOR_SIZE_MAX);
    buf_init(&uncounted, UNCOUNTED_SIZE_MAX);
    reply->status = 200;
    buf_add(&reply->body, BYTES("{\"drift\":["));
    enum err e =
        config->reconcile.drift(config->reconcile.context, call->name, call->tenant, plan->after,
                                plan->limit, &reply->body, &uncounted, &after);
    buf_add(&reply->body, BYTES("],\"uncounted\":["));
    buf_add(&reply->body, buf_bytes(&uncounted));
    if (e == ERR_OK)
        reply_page_end(&reply->body, after.size ? buf_bytes(&after) : BYTES_NONE);
    else
        exchange_error(call->exchange, e, NULL);
    buf_release(&uncounted);
    buf_release(&after);
}

enum request_verdict reconcile_get_drift(struct call *call)
{
    static const struct field limit = {FIELD_PAGE_LIMIT};
    enum request_verdict verdict;
    struct field_value value;
    struct reason why;
    struct drift_plan *plan = arena_zalloc(&call->exchange->arena, sizeof *plan);
    if (!find_entry(call, &verdict)) return verdict;
    enum err e = fields_from_params(&call->params, &limit, 1, &value, &why);
    if (e == ERR_OK) e = params_cursor(&call->params, &call->exchange->arena, &plan->after, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    plan->limit = value.integer;
    call->plan = plan;
    return call_read_source(call, run_drift);
}

/* -- How things stand -------------------------------------------------------------------------- */

static void run_status(struct call *call)
{
    const struct api_config *config = &call->api->config;
    struct reply *reply = &call->exchange->reply;
    reply->status = 200;
    enum err e =
        config->reconcile.status(config->reconcile.context, call->name, call->tenant, &reply->body);
    if (e != ERR_OK) exchange_error(call->exchange, e, NULL);
}

enum request_verdict reconcile_get_status(struct call *call)
{
    enum request_verdict verdict;
    if (!find_entry(call, &verdict)) return verdict;
    return call_read(call, run_status);
}
