/* api.c -- the way of a request through the API.
 *
 *   head      route -> 404, 405 -> token -> 401 -> tenant -> 404 -> scope -> 403   (SPEC 3)
 *   request   the endpoint: validate -> 400; change -> queue; read -> memory or a reader
 *   turn_end  everything collected in this turn goes into the queue under one lock
 *   complete  the bundle is durable, or the reader is done: the reply is written
 *
 * Whatever is refused in `head` is refused before the body is read, so an unauthenticated caller
 * learns nothing from validation and costs no parsing. */
#include "api/api.h"

#include <stdlib.h>

#include "api/call.h"
#include "api/auth/cors.h"
#include "api/gzip_reply.h"
#include "api/replica/forward.h"
#include "api/resp/cursors.h"
#include "api/resp/resp.h"
#include "base/metrics.h"
#include "commit/pace.h"
#include "core/name.h"
#include "base/json.h"

/* Each thread holds a connection to a source, beside those of the reconciler's passes. */
#define SOURCE_THREADS 2u
#define SOURCE_TASKS 64u
#define PACKING_TASKS 256u
#define LENDERS 1u
#define LENDING_TASKS 16u
#define FORWARDERS 16u /* writes that are at the primary at the same time */
#define FORWARD_TASKS 4096u

#define MS INT64_C(1000000)
#define FIT_BYTES (64u << 10) /* replies that may be larger are cut to what they are */

static bool decode_segment(struct call *call, struct bytes raw, struct bytes *out)
{
    char *text = arena_alloc(&call->exchange->arena, raw.size + 1);
    size_t size;
    if (!percent_decode(raw, false, text, &size)) return false;
    *out = bytes_of(text, size);
    return true;
}

/* A connection counts for the tenant of its first request, bytes count for the tenant that the
 * request is about: so a proxy's or an administrator's connections make no tenant pay for
 * another. */
static enum err take_share(struct call *call, struct bytes tenant)
{
    struct wire_share **slot = call->exchange->slot;
    struct bytes payer = call->tenant.size ? call->tenant : tenant;
    if (!*slot) *slot = shares_take(call->api->shares, tenant);
    if (!*slot) return ERR_BUSY;
    if (!shares_is_of(*slot, payer)) call->held = shares_hold(call->api->shares, payer);
    call->exchange->share = call->held ? call->held : *slot;
    return ERR_OK;
}

int64_t loop_wall_ms(struct api *api, struct loop_state *loop, int64_t turn_ns)
{
    if (loop->turn_ns != turn_ns) {
        loop->turn_ns = turn_ns;
        loop->wall_ms = clock_wall_ms(api->config.machine);
    }
    return loop->wall_ms;
}

/* The body is the same whatever is wrong with the token (SPEC 3). RFC 6750, 3 has a place for the
 * reason. */
static enum err refuse_token(struct exchange *exchange, enum bearer_flaw flaw)
{
    metric_add(METRIC_AUTH_REFUSED, 1);
    buf_addf(&exchange->reply.headers,
             "WWW-Authenticate: Bearer error=\"invalid_token\", error_description=\"%s\"\r\n",
             bearer_flaw_text(flaw));
    return ERR_UNAUTHORIZED;
}

static enum err check_caller(struct call *call, const struct route_match *match)
{
    struct identity identity;
    struct exchange *exchange = call->exchange;
    call->auth_generation = auth_generation(call->api->config.auth);
    int64_t wall_ms = loop_wall_ms(call->api, call_loop(call), exchange->turn_ns);
    enum bearer_flaw flaw = auth_check(call->api->config.auth, call_loop(call)->tokens,
                                       exchange->request.authorization, wall_ms, &identity);
    if (flaw) return refuse_token(exchange, flaw);
    call->admin = auth_allows(&identity, SCOPE_ADMIN);
    call->expires_ms = identity.expires_ms;
    if (match->tenant.data) {
        if (!decode_segment(call, match->tenant, &call->tenant)) return ERR_NOT_FOUND;
        if (!name_valid(call->tenant)) return ERR_NOT_FOUND;
        if (!auth_may_act_for(&identity, call->tenant)) return ERR_NOT_FOUND;
        call->lane = lanes_of(call->api->config.lanes, call->tenant);
        call->place.lane = call->lane->index;
    }
    if (!auth_allows(&identity, call->route->scope)) return ERR_FORBIDDEN;
    return take_share(call, identity_tenant(&identity));
}

static bool is_public(const struct call *call)
{
    if (call->route->flags & ROUTE_PUBLIC) return true;
    return (call->route->flags & ROUTE_ADMIN_UNLESS_PUBLIC_METRICS) &&
           call->api->config.config->metrics_public;
}

static enum head_verdict refuse_head(struct call *call, enum err e)
{
    exchange_error(call->exchange, e, NULL);
    if (e == ERR_BUSY) call->exchange->reply.close = true;
    return HEAD_REPLY;
}

static enum head_verdict api_head(void *context, struct exchange *exchange)
{
    struct route_match match;
    struct call *call = arena_zalloc(&exchange->arena, sizeof *call);
    call->api = context;
    call->lane = call->api->config.lanes->items;
    call->exchange = exchange;
    exchange->state = call;
    cors_begin(&call->api->config.config->cors_origins, exchange);
    route_find(exchange->request.method, exchange->request.path, &match);
    call->route = match.route;
    if (match.err == ERR_METHOD) buf_addf(&exchange->reply.headers, "Allow: %s\r\n", match.allow);
    if (cors_preflight(&call->api->config.config->cors_origins, exchange, &match))
        return HEAD_REPLY;
    if (!match.route) return refuse_head(call, match.err);
    call->place.state = match.route->name;
    exchange->barrier = (match.route->flags & ROUTE_READ) != 0;
    call->positioned = exchange->barrier && match.tenant.data;
    if (exchange->barrier) call_loop(call)->read_ns = exchange->turn_ns;
    enum err e = is_public(call) ? ERR_OK : check_caller(call, &match);
    if (e != ERR_OK) return refuse_head(call, e);
    if (match.name.data) call->name_malformed = !decode_segment(call, match.name, &call->name);
    call->mark = arena_mark(&exchange->arena);
    return HEAD_GO_ON;
}

static enum request_verdict api_request(void *context, struct exchange *exchange)
{
    (void)context;
    struct call *call = call_of(exchange);
    enum request_verdict verdict;
    if (forward_concerns(call)) return forward_request(call);
    if (call_awaits_followers(call)) return call_refuse(call, ERR_FEW_FOLLOWERS, NULL);
    bool asks = exchange->request.query.size && !(call->route->flags & ROUTE_ANY_QUERY);
    if (asks && !call_params(call, &verdict)) return verdict;
    bool says = exchange->request.body.size && !known_body(route_index(call->route));
    if (says && !call_bare(call, &verdict)) return verdict;
    must_at = &call->place;
    if (call->positioned && !position_begin(call, &verdict)) return verdict;
    verdict = call->route->handle(call);
    if (call->positioned && verdict == REQUEST_ANSWERED) verdict = position_answered(call);
    must_at = NULL;
    /* The arena of a refused request is emptied now and not with the reply: a turn may refuse
     * many. */
    if (verdict == REQUEST_ANSWERED && exchange->reply.status >= 400)
        arena_back(&exchange->arena, call->mark);
    if (verdict == REQUEST_ANSWERED) gzip_reply(exchange);
    return verdict;
}

static bool pack_run(void *context)
{
    struct call *call = context;
    struct api *api = call->api; /* the call may be gone once it is posted */
    must_at = &call->place;
    gzip_reply(call->exchange);
    must_at = NULL;
    exchange_post(call->exchange);
    api->config.wake(api->config.wake_context);
    return false;
}

/* False: the reply is packed, or is not going to be, because the packer has too much to do or has
 * gone. */
static bool pack_elsewhere(struct call *call)
{
    struct exchange *exchange = call->exchange;
    if (pace_packs_here(exchange->reply.body.size) || !exchange->request.takes_gzip) {
        gzip_reply(exchange);
        return false;
    }
    call->task = (struct read_task){.tenant = call->tenant, .run = pack_run, .context = call};
    return call->api->packers && readers_push(call->api->packers, &call->task) == ERR_OK;
}

/* Whatever could not be done then: no repetition helps, but another node does. */
static void say_outdated(struct call *call)
{
    struct exchange *exchange = call->exchange;
    if (exchange->reply.status == err_status(ERR_STORAGE) &&
        atomic_load(&call->lane->store->outdated))
        exchange_error(exchange, ERR_SCHEMA_NEWER, NULL);
}

static bool api_complete(void *context, struct exchange *exchange)
{
    (void)context;
    struct call *call = call_of(exchange);
    void (*finish)(struct call * call) = call->finish;
    call->finish = NULL; /* what comes back from the packer is complete */
    if (call->positioned && !call->stream) position_end(call);
    if (call->bundle.err == ERR_QUEUE_FULL) {
        metric_add(METRIC_QUEUE_REFUSED, 1);
        exchange_error(exchange, ERR_QUEUE_FULL, NULL);
    } else if (finish) {
        must_at = &call->place;
        finish(call);
        must_at = NULL;
        say_outdated(call);
        if (call->reply_bytes > FIT_BYTES) buf_fit(&exchange->reply.body);
        return !pack_elsewhere(call);
    }
    say_outdated(call);
    return true;
}

/* Every lane has its bundles before the loop helps one: the others' commit threads work
 * meanwhile. */
static void api_turn_end(void *context, unsigned loop_index)
{
    struct api *api = context;
    struct loop_state *loop = &api->loops[loop_index];
    uint32_t turn_ops = 0;
    for (unsigned i = 0; i < loop->pushed_count; i++) {
        struct collected *collected = &loop->lanes[loop->pushed[i]];
        struct lane *lane = &api->config.lanes->items[loop->pushed[i]];
        turn_ops += collected->turn_ops;
        collected->turn_ops = 0;
        call_push_collected(lane, collected);
        if (loop->pushed_count > 1) queue_wake(lane->queue);
    }
    for (unsigned i = 0; i < loop->pushed_count; i++) {
        struct lane *lane = &api->config.lanes->items[loop->pushed[i]];
        if (pace_spares_reads(loop->turn_ns - loop->read_ns, turn_ops))
            queue_wake(lane->queue);
        else
            commit_help(lane->commit);
    }
    loop->pushed_count = 0;
}

static int64_t took_ns(const struct exchange *exchange)
{
    return exchange->ended_ns - exchange->started_ns;
}

static void count_http(unsigned route, const struct exchange *exchange)
{
    metrics_http(route, exchange->reply.status, (double)took_ns(exchange) * 1e-9);
}

static void api_refused(void *context, struct exchange *exchange)
{
    (void)context;
    count_http(route_index_other(), exchange);
}

static void api_ended(void *context, struct exchange *exchange)
{
    struct api *api = context;
    struct call *call = call_of(exchange);
    count_http(call->route ? route_index(call->route) : route_index_other(), exchange);
    if (!call->route) return;
    if (call->stream) streams_ended(call->stream);
    if (activity_is_watched(api->activity)) activity_count(api->activity, call, took_ns(exchange));
    rules_release(call->rules);
    if (call->held) shares_let_go(api->shares, call->held);
}

static void api_closed(void *context, struct wire_share *slot)
{
    struct api *api = context;
    shares_return(api->shares, slot);
}

static void api_drained(void *context, struct exchange *exchange)
{
    (void)context;
    streams_drained(call_of(exchange)->stream);
}

static void api_lost(void *context, struct exchange *exchange)
{
    (void)context;
    streams_lost(call_of(exchange)->stream);
}

struct wire_handler api_handler(struct api *api)
{
    return (struct wire_handler){.context = api,
                                 .head = api_head,
                                 .request = api_request,
                                 .complete = api_complete,
                                 .turn_end = api_turn_end,
                                 .ended = api_ended,
                                 .refused = api_refused,
                                 .closed = api_closed,
                                 .drained = api_drained,
                                 .lost = api_lost};
}

static void make_collected(struct loop_state *loop, unsigned lanes)
{
    loop->lanes = must_calloc(lanes, sizeof *loop->lanes);
    loop->pushed = must_calloc(lanes, sizeof *loop->pushed);
    for (unsigned i = 0; i < lanes; i++)
        loop->lanes[i].end = &loop->lanes[i].bundles;
}

static void make_readers(struct api *api)
{
    const struct config *config = api->config.config;
    const struct lanes *lanes = api->config.lanes;
    unsigned places = 1;
    for (unsigned i = 0; i < lanes->count; i++)
        if (lanes->items[i].store->place >= places) places = lanes->items[i].store->place + 1;
    api->readers_count = places > 1 ? places + 1 : 1;
    api->readers = must_calloc(api->readers_count, sizeof(struct readers *));
    for (unsigned i = 0; i < api->readers_count; i++)
        api->readers[i] = readers_new("reader", (unsigned)config->limits_readers,
                                      (unsigned)config->limits_read_queue);
}

struct api *api_new(const struct api_config *config)
{
    struct api *api = must_calloc(1, sizeof *api);
    api->config = *config;
    api->loops = must_calloc(config->loops, sizeof *api->loops);
    for (unsigned i = 0; i < config->loops; i++) {
        api->loops[i].parser = json_parser_new((size_t)config->config->limits_body_bytes);
        api->loops[i].tokens = auth_cache_new();
        make_collected(&api->loops[i], config->lanes->count);
    }
    make_readers(api);
    api->source_readers = readers_new("source", SOURCE_THREADS, SOURCE_TASKS);
    if (config->lend) api->lenders = readers_new("lender", LENDERS, LENDING_TASKS);
    if (config->forward) api->forwarders = readers_new("forward", FORWARDERS, FORWARD_TASKS);
    api->packers = readers_new("packer", 1, PACKING_TASKS);
    api->shares = shares_new((unsigned)config->config->limits_tenant_connections,
                             (unsigned)config->config->limits_tenant_streams);
    api->cursors = cursors_new();
    api->activity = activity_new();
    api->streams = streams_new(api);
    metrics_routes(route_names(), route_count() + 1);
    unsigned commands;
    const char *const *names = resp_command_names(&commands);
    metrics_commands(names, commands);
    return api;
}

void api_stop_reads(struct api *api, int64_t grace_ms)
{
    int64_t now_ns = clock_mono_ns(api->config.machine);
    atomic_store(&api->over_ns, now_ns + grace_ms * MS / 2);
}

struct readers *api_readers(const struct api *api, const struct lane *lane)
{
    return api->readers[lane->store->place];
}

bool api_is_over(struct api *api)
{
    int64_t over_ns = atomic_load_explicit(&api->over_ns, memory_order_relaxed);
    return over_ns && clock_mono_ns(api->config.machine) >= over_ns;
}

void api_stop(struct api *api)
{
    streams_stop(api->streams);
    for (unsigned i = 0; i < api->readers_count; i++)
        readers_free(api->readers[i]);
    free(api->readers);
    readers_free(api->source_readers);
    readers_free(api->packers);
    if (api->lenders) readers_free(api->lenders);
    if (api->forwarders) readers_free(api->forwarders);
    api->readers = NULL;
    api->packers = NULL;
}

void api_free(struct api *api)
{
    if (api->readers) api_stop(api);
    streams_free(api->streams);
    activity_free(api->activity);
    shares_free(api->shares);
    cursors_free(api->cursors);
    for (unsigned i = 0; i < api->config.loops; i++) {
        json_parser_free(api->loops[i].parser);
        auth_cache_free(api->loops[i].tokens);
        free(api->loops[i].lanes);
        free(api->loops[i].pushed);
    }
    free(api->loops);
    free(api);
}

const char *api_role(const struct api *api)
{
    return api->config.follow ? "follower" : "primary";
}

void api_set_ready(struct api *api, bool ready)
{
    api->ready = ready;
}
