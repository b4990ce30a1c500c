/* frozen.c -- deleting what is left of a rule counter that is no longer in the config.
 *
 * Its rows are found on a reader thread, which then sends them on as one bundle of deletes. Nothing
 * adds rows to a frozen counter, so a caller that repeats the call while it says "more" comes to
 * an end. */
#include "api/counters/frozen.h"

#include "api/call.h"
#include "commit/propose.h"
#include "core/name.h"
#include "core/object.h"

struct frozen_plan {
    const struct definition *definition;
    uint32_t count_max;
    uint32_t capacity;
    bool more;
};

/* A reload may have brought the counter back since its rows were found. */
static enum err outcome_of(const struct bundle *bundle)
{
    for (uint32_t i = 0; i < bundle->count; i++)
        if (bundle->err == ERR_OK && bundle->ops[i].err == ERR_MANAGED) return ERR_MANAGED;
    return bundle->err;
}

static void finish_frozen(struct call *call)
{
    const struct frozen_plan *plan = call->plan;
    struct reply *reply = &call->exchange->reply;
    enum err e = outcome_of(&call->bundle);
    if (e != ERR_OK) {
        exchange_error(call->exchange, e, NULL);
        return;
    }
    reply->status = 200;
    buf_add(&reply->body, BYTES("{\"deleted\":true"));
    if (plan->more) buf_add(&reply->body, BYTES(",\"more\":true"));
    buf_add_char(&reply->body, '}');
    reply_sequence(reply, call->bundle.sequence);
}

static struct op *next_op(struct call *call, struct frozen_plan *plan)
{
    struct bundle *bundle = &call->bundle;
    if (bundle->count == plan->capacity) {
        uint32_t capacity = plan->capacity ? plan->capacity * 2 : 64;
        struct op *ops = arena_alloc(&call->exchange->arena, capacity * sizeof *ops);
        if (bundle->count) memcpy(ops, bundle->ops, bundle->count * sizeof *ops);
        bundle->ops = ops;
        plan->capacity = capacity;
    }
    return &bundle->ops[bundle->count++];
}

static bool delete_row(void *context, struct bytes key, const struct counter *counter)
{
    struct call *call = context;
    struct frozen_plan *plan = call->plan;
    (void)counter;
    plan->more = call->bundle.count == plan->count_max;
    if (plan->more) return false;
    *next_op(call, plan) = propose_delete(&call->exchange->arena, &call->lane->store->secret, key);
    return true;
}

/* An entity that was on is off again, or its next real change would be ignored. */
static bool delete_state(void *context, struct bytes key, struct bytes value)
{
    struct call *call = context;
    struct frozen_plan *plan = call->plan;
    struct arena *arena = &call->exchange->arena;
    (void)value;
    plan->more = call->bundle.count == plan->count_max;
    if (plan->more) return false;
    *next_op(call, plan) =
        propose_object(arena, &call->lane->store->secret, arena_copy(arena, key), BYTES_NONE);
    return true;
}

static enum err collect_deletes(struct call *call)
{
    const struct frozen_plan *plan = call->plan;
    const struct definition *definition = plan->definition;
    struct store *store = call->lane->store;
    struct arena *arena = &call->exchange->arena;
    struct bytes rows =
        rule_key_prefix(arena, call->tenant, definition->name, definition->generation);
    struct bytes states =
        object_state_key(arena, call->tenant, definition->name, definition->generation, BYTES_NONE);
    enum err e = view_list(&store->view, rows, BYTES_NONE, delete_row, call);
    if (e == ERR_OK && !plan->more)
        e = view_objects(&store->view, states, BYTES_NONE, delete_state, call);
    return e;
}

/* Leaves the call with the queue (true), or answered with an error. */
static bool send_deletes(struct call *call)
{
    enum err e = collect_deletes(call);
    if (e == ERR_OK && call->bundle.count == 0) e = ERR_NOT_FOUND;
    if (e == ERR_OK) {
        call_prepare(call, finish_frozen);
        call->bundle.weighty = true;
        e = queue_push(call->lane->queue, &call->bundle);
    }
    if (e != ERR_OK) {
        call->finish = NULL;
        exchange_error(call->exchange, e, NULL);
    }
    return e == ERR_OK;
}

static bool run_frozen(void *context)
{
    struct call *call = context;
    struct api *api = call->api; /* the call may be gone once it is sent or posted */
    if (send_deletes(call)) return false;
    exchange_post(call->exchange);
    api->config.wake(api->config.wake_context);
    return false;
}

enum request_verdict frozen_delete(struct call *call, const struct definition *definition)
{
    struct frozen_plan *plan = arena_zalloc(&call->exchange->arena, sizeof *plan);
    plan->definition = definition;
    plan->count_max = (uint32_t)call->api->config.config->limits_request_ops;
    call->plan = plan;
    call->task = (struct read_task){.tenant = call->tenant, .run = run_frozen, .context = call};
    enum err e = readers_push(api_readers(call->api, call->lane), &call->task);
    return e == ERR_OK ? REQUEST_KEPT : call_refuse(call, e, NULL);
}
