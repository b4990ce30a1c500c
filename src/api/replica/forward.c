/* forward.c -- writes that reach a follower: handed on to the primary, or refused with its address
 * (SPEC 13).
 *
 * The answer is given to the client only once what it says is in the history here, or follow.wait
 * is over: so a read that follows on any connection sees the write. */
#include <time.h>

#include "api/call.h"
#include "api/replica/forward.h"
#include "replica/forward.h"

#define LOOK_MS 1

/* The primary's bytes, as they were sent here. */
struct forward_plan {
    struct forward_request request;
    struct buf content_type;
};

bool forward_concerns(const struct call *call)
{
    const unsigned here =
        ROUTE_READ | ROUTE_PUBLIC | ROUTE_LOCAL | ROUTE_ADMIN_UNLESS_PUBLIC_METRICS;
    return call->api->config.follow && !(call->route->flags & here);
}

void reply_not_primary(struct exchange *exchange, const char *primary)
{
    struct buf *body = &exchange->reply.body;
    exchange_error(exchange, ERR_NOT_PRIMARY, NULL);
    must(body->size > 0 && body->data[body->size - 1] == '}');
    body->size--;
    buf_add(body, BYTES(",\"primary\":"));
    buf_add_json(body, bytes_str(primary));
    buf_add_char(body, '}');
}

static const char *method_of(const struct request *request)
{
    static const char *const names[] = {
        [HTTP_POST] = "POST", [HTTP_PUT] = "PUT", [HTTP_DELETE] = "DELETE"};
    return request->method < ARRAY_COUNT(names) ? names[request->method] : NULL;
}

/* What the follower has does not reach the write yet: nobody is to read before it does. */
static void wait_for(const struct call *call, uint64_t sequence)
{
    const struct api *api = call->api;
    const struct view *view = &call->lane->store->view;
    const struct clock *clock = api->config.machine;
    int64_t until_ns = clock_mono_ns(clock) + api->config.config->follow_wait * INT64_C(1000000);
    while (view_sequence((struct view *)view) < sequence && clock_mono_ns(clock) < until_ns)
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
}

/* With a NUL behind it. */
static const char *text_of(struct arena *arena, struct bytes bytes)
{
    char *text = arena_alloc(arena, bytes.size + 1);
    memcpy(text, bytes.data, bytes.size);
    text[bytes.size] = '\0';
    return text;
}

static void run_forward(struct call *call)
{
    struct forward_plan *plan = call->plan;
    struct reply *reply = &call->exchange->reply;
    struct forward_reply answer = {
        .headers = &reply->headers, .content_type = &plan->content_type, .body = &reply->body};
    buf_init(&plan->content_type, 1024);
    enum err e = forward_send(call->api->config.forward, &plan->request, &answer);
    if (e == ERR_OK) {
        struct bytes type = buf_bytes(&plan->content_type);
        reply->status = answer.status;
        if (type.size) reply->content_type = text_of(&call->exchange->arena, type);
        wait_for(call, answer.sequence);
    } else {
        buf_reset(&reply->headers);
        exchange_error(call->exchange, e, NULL);
    }
    buf_release(&plan->content_type);
}

enum request_verdict forward_request(struct call *call)
{
    const struct request *request = &call->exchange->request;
    struct arena *arena = &call->exchange->arena;
    bool came = request_field(request, BYTES(FORWARDED_HEADER)).data != NULL;
    const char *method = method_of(request);
    bool errand = call->route->scope == SCOPE_ADMIN;
    if (came || errand || !method || !call->api->config.forward) {
        reply_not_primary(call->exchange, call->api->config.primary);
        return REQUEST_ANSWERED;
    }
    struct forward_plan *plan = arena_zalloc(arena, sizeof *plan);
    plan->request = (struct forward_request){.method = method,
                                             .path = arena_copy(arena, request->path),
                                             .query = arena_copy(arena, request->query),
                                             .fields = arena_copy(arena, request->fields),
                                             .body = arena_copy(arena, request->body)};
    call->plan = plan;
    return call_read_forward(call, run_forward);
}
