/* admin.c -- an operator's word that keys and rules be read again. */
#include "api/call.h"
#include "api/endpoints.h"

#define REPORT_SIZE_MAX (64u << 10)

static void run_reload(struct call *call)
{
    const struct api_config *config = &call->api->config;
    struct reply *reply = &call->exchange->reply;
    struct buf why;
    buf_init(&why, REPORT_SIZE_MAX);
    enum err e = config->reload(config->reload_context, &why);
    buf_add_char(&why, '\0');
    if (e == ERR_OK) {
        reply->status = 200;
        buf_add(&reply->body, BYTES("{\"reloaded\":true}"));
    } else {
        bool told = (e == ERR_INVALID || e == ERR_STORAGE) && why.size > 1 && !why.failed;
        exchange_error(call->exchange, e == ERR_INVALID ? ERR_CONFIG : e, told ? why.data : NULL);
    }
    buf_release(&why);
}

enum request_verdict admin_reload(struct call *call)
{
    return call_read(call, run_reload);
}
