/* ops.c -- is it up, can it write, how is it doing. */
#include "api/call.h"
#include "api/endpoints.h"
#include "base/metrics.h"
#include "replica/ship.h"

#define METRICS_BYTES (256u << 10) /* more than there are with 16 lanes and every route asked */

enum request_verdict ops_health(struct call *call)
{
    call->exchange->reply.status = 200;
    buf_add(&call->exchange->reply.body, BYTES("{\"status\":\"ok\"}"));
    return REQUEST_ANSWERED;
}

/* A lane on a disk of our own that cannot write is a server that is down for its tenants: a load
 * balancer that asks sends them elsewhere. Where lanes lie in databases that every node asks, it is
 * no better elsewhere, and the tenants of the other databases must not be turned away with them.
 * What this program is too old for others may do. */
static bool is_writable(const struct lanes *lanes)
{
    unsigned writable = 0;
    for (unsigned i = 0; i < lanes->count; i++) {
        struct store_stats stats;
        if (atomic_load(&lanes->items[i].store->outdated)) return false;
        store_stats(lanes->items[i].store, &stats);
        writable += stats.writable;
    }
    return lanes->items[0].store->remote ? writable > 0 : writable == lanes->count;
}

enum request_verdict ops_ready(struct call *call)
{
    if (!call->api->ready || !is_writable(call->api->config.lanes))
        return call_refuse(call, ERR_STORAGE, "The store cannot write now.");
    if (call->api->config.ship && !ship_is_settled(call->api->config.ship))
        return call_refuse(call, ERR_FEW_FOLLOWERS, NULL);
    call->exchange->reply.status = 200;
    buf_addf(&call->exchange->reply.body, "{\"status\":\"ready\",\"role\":\"%s\"}",
             api_role(call->api));
    return REQUEST_ANSWERED;
}

enum request_verdict ops_metrics(struct call *call)
{
    struct reply *reply = &call->exchange->reply;
    if (!exchange_reserve(call->exchange, METRICS_BYTES)) return call_refuse(call, ERR_BUSY, NULL);
    call->api->config.gauges(call->api->config.gauges_context);
    reply->status = 200;
    reply->content_type = METRICS_CONTENT_TYPE;
    metrics_write(&reply->body);
    return REQUEST_ANSWERED;
}
