/* nodes.c -- the processes that share a store. */
#include "api/call.h"
#include "api/endpoints.h"

static void run_nodes(struct call *call)
{
    const struct api_config *config = &call->api->config;
    struct reply *reply = &call->exchange->reply;
    enum err e = ERR_OK;
    reply->status = 200;
    buf_add(&reply->body, BYTES("{\"nodes\":["));
    if (config->nodes)
        e = config->nodes(config->nodes_context, &call->exchange->arena, &reply->body);
    buf_add(&reply->body, BYTES("]}"));
    if (e != ERR_OK) exchange_error(call->exchange, e, NULL);
}

enum request_verdict admin_nodes(struct call *call)
{
    return call_read(call, run_nodes);
}
