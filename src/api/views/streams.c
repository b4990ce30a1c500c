/* streams.c -- the streams there are, and the thread that has them speak.
 *
 *   WRITING    with the wire, until the last byte said is written
 *   IDLE       with this file, with nothing new to say
 *   SPEAKING   with the thread, which puts a state together without the lock
 *
 * Any -> ended: from the wire, when its exchange is recycled. A stream whose client is gone is
 * posted once more, so that the wire can let go of its exchange.
 *
 * (1) Only an IDLE stream is picked, and only the thread picks: so an exchange is posted once for
 *     each time it was drained.
 * (2) Everything of a stream but its `view` is under the lock, or the thread's own.
 * (3) The list is linked both ways and has as many streams as are counted. Between two rounds none
 *     is SPEAKING.
 *
 * streams_check asserts (3) for the thread that has the lock, stream by stream in slow builds. */
#include "api/views/streams.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "api/call.h"
#include "api/endpoints.h"
#include "api/views/stream_state.h"
#include "base/hash.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "core/timefmt.h"

#define MS INT64_C(1000000)
#define TICK_NS (250 * MS)         /* how soon after a change it is told */
#define LOOK_NS (1000 * MS)        /* windows end and sums trail without any request */
#define KEEP_ALIVE_NS (10000 * MS) /* proxies close what is silent, often after a minute */
#define STATE_BYTES_MAX (16u << 20)
#define ARENA_CHUNK (64u << 10)

enum place { PLACE_WRITING, PLACE_IDLE, PLACE_SPEAKING };

struct stream { /* in its exchange's arena */
    struct streams *streams;
    struct call *call;
    struct stream *next;
    struct stream *previous;
    struct stream *picked_next;
    enum place place;
    bool gone; /* its client */
    struct stream_view view;
    struct watched *watched;
    /* The thread's own. */
    uint64_t version; /* the figures' last looked at */
    int64_t looked_ns;
    int64_t said_ns;
    uint64_t state_hash;
    uint64_t rules_hash;
};

struct streams {
    struct api *api;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* by the monotonic clock */
    struct stream *first;
    unsigned count;
    bool hurry; /* a stream began or lost its client: no tick is waited for */
    bool stops;
    /* The thread's own. */
    struct arena arena;
    struct buf state;
    struct buf rules;
    int64_t gauges_ns;
};

static int64_t now_ns(const struct streams *streams)
{
    return clock_mono_ns(streams->api->config.machine);
}

/* -- What is said ------------------------------------------------------------------------------ */

/* The reason for which a stream has to end, as JSON; BYTES_NONE: it goes on. */
static struct bytes over(const struct stream *stream)
{
    const struct api_config *config = &stream->streams->api->config;
    if (stream->view.expires_ms <= clock_wall_ms(config->machine))
        return BYTES("{\"reason\":\"expired\"}");
    if (stream->call->auth_generation != auth_generation(config->auth))
        return BYTES("{\"reason\":\"reloaded\"}");
    return BYTES_NONE;
}

static void say(struct stream *stream, const char *event, struct bytes data)
{
    struct buf *body = &stream->call->exchange->reply.body;
    buf_addf(body, "event: %s\ndata: ", event);
    buf_add(body, data);
    buf_add(body, BYTES("\n\n"));
}

static void say_rules(struct stream *stream, const struct rules *rules)
{
    struct buf *text = &stream->streams->rules;
    buf_reset(text);
    stream_rules_add(rules, stream->view.tenant, text);
    uint64_t hash = hash_checksum(buf_bytes(text));
    if (text->failed || hash == stream->rules_hash) return;
    stream->rules_hash = hash;
    say(stream, "rules", buf_bytes(text));
}

/* The time is put in front only when there is something to say at it. */
static void say_state(struct stream *stream, const struct activity_figures *figures,
                      const struct rules *rules)
{
    struct streams *streams = stream->streams;
    struct buf *text = &streams->state;
    buf_reset(text);
    arena_reset(&streams->arena);
    enum err e = stream_state_add(streams->api, stream->call->lane, &stream->view, figures, rules,
                                  &streams->arena, text);
    uint64_t hash = hash_checksum(buf_bytes(text));
    if (e != ERR_OK || text->failed || hash == stream->state_hash) return;
    stream->state_hash = hash;
    struct buf *body = &stream->call->exchange->reply.body;
    buf_add(body, BYTES("event: state\ndata: {\"at\":"));
    time_format_json(body, clock_now_ms(stream->call->lane->clock));
    buf_add_char(body, ',');
    buf_add(body, buf_bytes(text));
    buf_add(body, BYTES("}\n\n"));
}

static void refresh_gauges(struct streams *streams, int64_t now)
{
    if (now < streams->gauges_ns) return;
    streams->gauges_ns = now + TICK_NS / 2; /* once a round */
    streams->api->config.gauges(streams->api->config.gauges_context);
}

static void say_news(struct stream *stream, int64_t now)
{
    struct streams *streams = stream->streams;
    struct activity_figures figures;
    activity_read(streams->api->activity, stream->watched, &figures);
    if (figures.version == stream->version && stream->looked_ns &&
        now - stream->looked_ns < LOOK_NS)
        return;
    stream->version = figures.version;
    stream->looked_ns = now;
    if (stream->view.server) refresh_gauges(streams, now);
    struct rules *rules = rulebook_hold(stream->call->lane->rulebook);
    say_rules(stream, rules);
    say_state(stream, &figures, rules);
    rules_release(rules);
}

/* True: the exchange goes back to the wire, with more to write or for good. */
static bool speak(struct stream *stream, bool gone, int64_t now)
{
    struct reply *reply = &stream->call->exchange->reply;
    struct bytes why = over(stream);
    if (gone || why.data) {
        if (!gone) say(stream, "end", why);
        reply->stream = false;
        return true;
    }
    say_news(stream, now);
    if (reply->body.size == 0 && now - stream->said_ns >= KEEP_ALIVE_NS)
        buf_add(&reply->body, BYTES(": still here\n\n"));
    if (reply->body.size == 0) return false;
    stream->said_ns = now;
    return true;
}

/* -- Laws -------------------------------------------------------------------------------------- */

/* `resting`: this is between two rounds. */
static void streams_check(const struct streams *streams, bool resting)
{
    unsigned count = 0;
    const struct stream *previous = NULL;
    must((streams->first == NULL) == (streams->count == 0));
    if (!SLOW_CHECKS) return;
    for (const struct stream *stream = streams->first; stream; stream = stream->next) {
        must(stream->streams == streams);
        must(stream->previous == previous);
        must(!resting || stream->place != PLACE_SPEAKING);
        previous = stream;
        count++;
    }
    must(count == streams->count);
}

/* -- The thread -------------------------------------------------------------------------------- */

static struct stream *pick(struct streams *streams)
{
    struct stream *picked = NULL;
    for (struct stream *stream = streams->first; stream; stream = stream->next) {
        if (stream->place != PLACE_IDLE) continue;
        stream->place = PLACE_SPEAKING;
        stream->picked_next = picked;
        picked = stream;
    }
    return picked;
}

/* A picked stream is with this thread alone and cannot end meanwhile. */
static void round_of(struct streams *streams)
{
    bool posted = false;
    streams_check(streams, true);
    struct stream *stream = pick(streams);
    while (stream) {
        struct stream *next = stream->picked_next;
        bool gone = stream->gone || streams->stops;
        pthread_mutex_unlock(&streams->lock);
        bool spoke = speak(stream, gone, now_ns(streams));
        pthread_mutex_lock(&streams->lock);
        stream->place = spoke ? PLACE_WRITING : PLACE_IDLE;
        if (spoke) exchange_post(stream->call->exchange);
        posted |= spoke;
        stream = next;
    }
    streams_check(streams, true);
    if (!posted) return;
    pthread_mutex_unlock(&streams->lock);
    streams->api->config.wake(streams->api->config.wake_context);
    pthread_mutex_lock(&streams->lock);
}

static void wait_for_tick(struct streams *streams, int64_t until_ns)
{
    const struct timespec until = {until_ns / 1000000000, until_ns % 1000000000};
    int late = 0;
    while (!streams->stops && !streams->hurry && late != ETIMEDOUT)
        late = streams->count ? pthread_cond_timedwait(&streams->changed, &streams->lock, &until)
                              : pthread_cond_wait(&streams->changed, &streams->lock);
    streams->hurry = false;
}

static void *streams_main(void *context)
{
    struct streams *streams = context;
    pthread_mutex_lock(&streams->lock);
    while (!streams->stops) {
        wait_for_tick(streams, clock_mono_ns(&clock_system) + TICK_NS);
        round_of(streams);
    }
    round_of(streams); /* streams that lost their client, or were told to stop, during the round */
    pthread_mutex_unlock(&streams->lock);
    return NULL;
}

static void hurry(struct streams *streams)
{
    streams->hurry = true;
    pthread_cond_signal(&streams->changed);
}

struct streams *streams_new(struct api *api)
{
    struct streams *streams = must_calloc(1, sizeof *streams);
    pthread_condattr_t attributes;
    streams->api = api;
    pthread_mutex_init(&streams->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&streams->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    arena_init(&streams->arena, ARENA_CHUNK);
    buf_init(&streams->state, STATE_BYTES_MAX);
    buf_init(&streams->rules, STATE_BYTES_MAX);
    thread_start(&streams->thread, "streams", streams_main, streams);
    return streams;
}

void streams_stop(struct streams *streams)
{
    pthread_mutex_lock(&streams->lock);
    streams->stops = true;
    hurry(streams);
    pthread_mutex_unlock(&streams->lock);
    pthread_join(streams->thread, NULL);
}

void streams_free(struct streams *streams)
{
    must(streams->count == 0);
    arena_release(&streams->arena);
    buf_release(&streams->state);
    buf_release(&streams->rules);
    pthread_cond_destroy(&streams->changed);
    pthread_mutex_destroy(&streams->lock);
    free(streams);
}

/* -- From the wire ----------------------------------------------------------------------------- */

void streams_drained(struct stream *stream)
{
    struct streams *streams = stream->streams;
    pthread_mutex_lock(&streams->lock);
    must(stream->place == PLACE_WRITING);
    stream->place = PLACE_IDLE;
    if (stream->said_ns == 0) hurry(streams);
    pthread_mutex_unlock(&streams->lock);
}

void streams_lost(struct stream *stream)
{
    pthread_mutex_lock(&stream->streams->lock);
    stream->gone = true;
    hurry(stream->streams);
    pthread_mutex_unlock(&stream->streams->lock);
}

void streams_ended(struct stream *stream)
{
    struct streams *streams = stream->streams;
    struct call *call = stream->call;
    pthread_mutex_lock(&streams->lock);
    must(stream->place == PLACE_WRITING);
    if (stream->next) stream->next->previous = stream->previous;
    if (stream->previous)
        stream->previous->next = stream->next;
    else
        streams->first = stream->next;
    streams->count--;
    streams_check(streams, false);
    metric_set(METRIC_STREAMS, streams->count);
    pthread_mutex_unlock(&streams->lock);
    activity_unwatch(call->api->activity, stream->watched);
    shares_return_stream(call->api->shares, call->tenant);
}

/* -- The endpoint ------------------------------------------------------------------------------ */

static void stream_add(struct streams *streams, struct stream *stream)
{
    pthread_mutex_lock(&streams->lock);
    stream->next = streams->first;
    if (streams->first) streams->first->previous = stream;
    streams->first = stream;
    streams->count++;
    streams_check(streams, false);
    metric_set(METRIC_STREAMS, streams->count);
    pthread_mutex_unlock(&streams->lock);
}

/* The query's bytes are gone when the request is. */
static struct dims dims_copied(struct dims dims, struct arena *arena)
{
    for (uint32_t i = 0; i < dims.count; i++) {
        dims.items[i].key = arena_copy(arena, dims.items[i].key);
        dims.items[i].value = arena_copy(arena, dims.items[i].value);
    }
    return dims;
}

static void stream_begin(struct call *call, struct dims dims)
{
    struct api *api = call->api;
    struct arena *arena = &call->exchange->arena;
    struct stream *stream = arena_zalloc(arena, sizeof *stream);
    stream->streams = api->streams;
    stream->call = call;
    stream->view = (struct stream_view){.tenant = call->tenant,
                                        .dims = dims_copied(dims, arena),
                                        .admin = call->admin,
                                        .server = call->admin || api->config.config->metrics_public,
                                        .expires_ms = call->expires_ms};
    int64_t now_ms = clock_now_ms(call->lane->clock);
    stream->watched = activity_watch(api->activity, call->tenant, now_ms);
    call->stream = stream;
    stream_add(api->streams, stream);
}

/* The first state may need the disk, so the thread makes it; the head leaves at once, with how long
 * to wait before coming again after an end. */
static void stream_answer(struct call *call, struct dims dims)
{
    struct reply *reply = &call->exchange->reply;
    if (call->exchange->request.method != HTTP_HEAD) {
        if (!shares_take_stream(call->api->shares, call->tenant)) {
            exchange_error(call->exchange, ERR_BUSY,
                           "The tenant has as many streams as it may have.");
            return;
        }
        stream_begin(call, dims);
    }
    reply->status = 200;
    reply->content_type = "text/event-stream; charset=utf-8";
    reply->cache_control = "no-store, no-transform";
    reply->stream = reply->close = true;
    buf_add(&reply->headers, BYTES("X-Accel-Buffering: no\r\n"));
    buf_add(&reply->body, BYTES("retry: 1000\n\n"));
}

static void read_nothing(struct call *call)
{
    (void)call; /* the position that it was asked for is reached */
}

static void stream_finish(struct call *call)
{
    const struct dims *dims = call->plan;
    if (call->exchange->reply.status != 0) return; /* it was lost, or could not be asked for */
    stream_answer(call, *dims);
    position_end(call);
}

/* A stream begins on its loop, once a reader has asked the store for the position. */
static enum request_verdict stream_later(struct call *call, struct dims dims)
{
    struct arena *arena = &call->exchange->arena;
    struct dims *kept = arena_alloc(arena, sizeof *kept);
    *kept = dims_copied(dims, arena);
    call->plan = kept;
    call->finish = stream_finish;
    return call_look(call, 0, NULL, read_nothing);
}

enum request_verdict stream_get(struct call *call)
{
    struct dims dims = dims_from_params(&call->params, &call->exchange->arena);
    if (call->lost) return call_refuse(call, ERR_POSITION, NULL);
    if (call->wanted) return stream_later(call, dims);
    stream_answer(call, dims);
    return REQUEST_ANSWERED;
}
