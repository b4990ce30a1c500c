/* jobs.c -- what an operator asks for: rebuilds, how far they are, and that a counter be forgotten.
 */
#include "api/call.h"
#include "api/endpoints.h"
#include "base/json.h"
#include "core/name.h"

#define JOB_ID_SIZE_MAX 32

/* -- Asking for a rebuild ---------------------------------------------------------------------- */

static void run_rebuild(struct call *call)
{
    const struct api_config *config = &call->api->config;
    struct reply *reply = &call->exchange->reply;
    struct buf id;
    struct reason why;
    buf_init(&id, JOB_ID_SIZE_MAX);
    enum err e = config->rebuild(config->jobs_context, call->plan, &id, &why);
    if (e == ERR_OK) {
        reply->status = 202;
        buf_add(&reply->body, BYTES("{\"job\":\""));
        buf_add(&reply->body, buf_bytes(&id));
        buf_add(&reply->body, BYTES("\"}"));
    } else {
        exchange_error(call->exchange, e, reason_text(&why));
    }
    buf_release(&id);
}

static enum err read_options(struct call *call, struct api_rebuild *wish, struct reason *why)
{
    enum { FORCE, FROM, FIELDS };
    static const struct field fields[FIELDS] = {
        [FORCE] = {BYTES("force"), FIELD_BOOL, .required = false},
        [FROM] = {BYTES("from"), FIELD_NAME, .required = false},
    };
    struct field_value values[FIELDS];
    enum err e = call_fields(call, fields, FIELDS, values, why);
    if (e != ERR_OK) return e;
    if (values[FROM].present) wish->from = arena_copy(&call->exchange->arena, values[FROM].text);
    wish->force = values[FORCE].integer != 0;
    return ERR_OK;
}

enum request_verdict jobs_rebuild(struct call *call)
{
    enum request_verdict verdict;
    struct reason why;
    struct api_rebuild *wish = arena_zalloc(&call->exchange->arena, sizeof *wish);
    if (!call_name(call, &verdict)) return verdict;
    enum err e = read_options(call, wish, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    wish->counter = call->name;
    call->plan = wish;
    return call_read(call, run_rebuild);
}

/* -- Forgetting a counter that left the config ------------------------------------------------- */

static void run_forget(struct call *call)
{
    const struct api_config *config = &call->api->config;
    enum err e = config->forget(config->jobs_context, call->name);
    if (e == ERR_MANAGED) {
        exchange_error(call->exchange, e, "The counter is in the config: take it out and reload.");
    } else if (e != ERR_OK) {
        exchange_error(call->exchange, e, NULL);
    } else {
        call->exchange->reply.status = 200;
        buf_add(&call->exchange->reply.body, BYTES("{\"deleted\":true}"));
    }
}

enum request_verdict jobs_forget(struct call *call)
{
    enum request_verdict verdict;
    if (!call_name(call, &verdict)) return verdict;
    return call_read(call, run_forget);
}

/* -- How far a job is -------------------------------------------------------------------------- */

static void run_get(struct call *call)
{
    const struct api_config *config = &call->api->config;
    struct reply *reply = &call->exchange->reply;
    reply->status = 200;
    enum err e = config->job(config->jobs_context, call->name, &reply->body);
    if (e != ERR_OK) exchange_error(call->exchange, e, NULL);
}

enum request_verdict jobs_get(struct call *call)
{
    if (call->name_malformed) return call_refuse(call, ERR_NOT_FOUND, NULL);
    return call_read(call, run_get);
}
