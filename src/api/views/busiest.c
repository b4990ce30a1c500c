/* busiest.c -- GET /api/busiest/{tenant}: which counters change most just now. */
#include "api/call.h"
#include "api/endpoints.h"
#include "api/params.h"

enum request_verdict busiest_get(struct call *call)
{
    static const struct field fields[] = {{FIELD_PAGE_LIMIT}};
    struct field_value limit;
    struct reason why;
    struct api *api = call->api;
    struct reply *reply = &call->exchange->reply;
    if (fields_from_params(&call->params, fields, ARRAY_COUNT(fields), &limit, &why) != ERR_OK)
        return call_refuse(call, ERR_INVALID, why.text);
    if (!activity_busiest(api->activity, call->tenant, clock_now_ms(call->lane->clock),
                          clock_mono_ns(api->config.machine), (size_t)limit.integer, &reply->body))
        return call_refuse(call, ERR_BUSY,
                           "The busiest counters of too many tenants are looked at. Please retry "
                           "later.");
    reply->status = 200;
    return REQUEST_ANSWERED;
}
