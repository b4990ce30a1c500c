/* errands.c -- backups, exports and imports: asked for, listed, removed. route->detail says which.
 *
 * The work is done elsewhere and takes its time; a reply here is 202 with the job to look at. */
#include "api/call.h"
#include "api/endpoints.h"
#include "base/json.h"
#include "core/op.h"

#define JOB_ID_SIZE_MAX 32
#define NEXT_SIZE_MAX 1024

static const struct bytes list_names[] = {
    [API_BACKUP] = BYTES("{\"backups\":["),
    [API_EXPORT] = BYTES("{\"exports\":["),
};

static enum api_errand kind_of(const struct call *call)
{
    return (enum api_errand)call->route->detail;
}

/* -- Asking ------------------------------------------------------------------------------------ */

static void reply_asked(struct call *call, const struct buf *id, const struct buf *name)
{
    struct reply *reply = &call->exchange->reply;
    reply->status = 202;
    buf_addf(&reply->body, "{\"job\":\"%.*s\",\"name\":", (int)id->size, id->data);
    buf_add_json(&reply->body, buf_bytes(name));
    buf_add_char(&reply->body, '}');
}

static void run_ask(struct call *call)
{
    const struct api_config *config = &call->api->config;
    struct buf id;
    struct buf name;
    struct reason why;
    buf_init(&id, JOB_ID_SIZE_MAX);
    buf_init(&name, NAME_SIZE_MAX + 1);
    enum err e = config->errands.ask(config->errands.context, call->plan, &id, &name, &why);
    if (e == ERR_OK)
        reply_asked(call, &id, &name);
    else
        exchange_error(call->exchange, e, reason_text(&why));
    buf_release(&id);
    buf_release(&name);
}

/* Only an export asks for more than its name. */
static enum err read_ask(struct call *call, struct api_errand_ask *ask, struct reason *why)
{
    enum { NAME, IDS, EVENTS, FIELDS };
    struct field fields[FIELDS] = {
        [NAME] = {BYTES("name"), FIELD_TEXT, .min = 1, .max = NAME_SIZE_MAX},
        [IDS] = {BYTES("ids"), FIELD_BOOL, .required = false},
        [EVENTS] = {BYTES("events"), FIELD_BOOL, .required = false},
    };
    struct field_value values[FIELDS];
    fields[NAME].required = ask->kind == API_IMPORT;
    unsigned count = ask->kind == API_EXPORT ? FIELDS : NAME + 1;
    values[IDS] = values[EVENTS] = (struct field_value){0};
    enum err e = call_fields(call, fields, count, values, why);
    if (e != ERR_OK) return e;
    ask->name = arena_copy(&call->exchange->arena, values[NAME].text);
    ask->ids = values[IDS].integer != 0;
    ask->events = values[EVENTS].integer != 0;
    return ERR_OK;
}

enum request_verdict errands_ask(struct call *call)
{
    struct reason why;
    struct api_errand_ask *ask = arena_zalloc(&call->exchange->arena, sizeof *ask);
    ask->kind = kind_of(call);
    enum err e = read_ask(call, ask, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    call->plan = ask;
    return call_read(call, run_ask);
}

/* -- Listing and removing ---------------------------------------------------------------------- */

static void run_list(struct call *call)
{
    const struct api_config *config = &call->api->config;
    struct reply *reply = &call->exchange->reply;
    struct buf next;
    buf_init(&next, NEXT_SIZE_MAX);
    reply->status = 200;
    buf_add(&reply->body, list_names[kind_of(call)]);
    enum err e = config->errands.list(config->errands.context, call->plan, &reply->body, &next);
    if (e == ERR_OK)
        reply_page_end(&reply->body, next.size ? buf_bytes(&next) : BYTES_NONE);
    else
        exchange_error(call->exchange, e, NULL);
    buf_release(&next);
}

enum request_verdict errands_list(struct call *call)
{
    static const struct field limit_field = {FIELD_PAGE_LIMIT};
    struct field_value limit;
    struct reason why;
    struct arena *arena = &call->exchange->arena;
    struct api_errand_page *page = arena_zalloc(arena, sizeof *page);
    enum err e = fields_from_params(&call->params, &limit_field, 1, &limit, &why);
    if (e == ERR_OK) e = params_cursor(&call->params, arena, &page->after, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    page->kind = kind_of(call);
    page->limit = (uint64_t)limit.integer;
    call->plan = page;
    return call_read(call, run_list);
}

static void run_remove(struct call *call)
{
    const struct api_config *config = &call->api->config;
    enum err e = config->errands.remove(config->errands.context, kind_of(call), call->name);
    if (e != ERR_OK) {
        exchange_error(call->exchange, e, NULL);
        return;
    }
    call->exchange->reply.status = 200;
    buf_add(&call->exchange->reply.body, BYTES("{\"deleted\":true}"));
}

enum request_verdict errands_remove(struct call *call)
{
    if (call->name_malformed) return call_refuse(call, ERR_NOT_FOUND, NULL);
    return call_read(call, run_remove);
}
