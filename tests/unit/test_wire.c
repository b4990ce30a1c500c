/* test_wire.c -- a real wire on a free port of 127.0.0.1, with a toy handler and plain sockets.
 *
 * The handler answers some paths at once and gives others to a thread that answers them later and
 * out of order. What must hold whatever the path: replies in the order of requests, one `ended` for
 * every `head`, one `complete` for every kept exchange, and a stop that returns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/table.h"
#include "commit/pace.h"
#include "wire/loop.h"

#define LOOPS 2
#define KEPT_MAX 4096
#define REPLIES_MAX 600
#define H " HTTP/1.1\r\nHost: a\r\n"
#define END "\r\n"
#define LAST "GET /now HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

struct world {
    struct wire *wire;
    pthread_t threads[LOOPS];
    pthread_t poster;
    pthread_mutex_t lock;
    struct exchange *kept[KEPT_MAX]; /* for the poster */
    size_t kept_count;
    struct exchange *turn_kept[LOOPS][KEPT_MAX]; /* posted by turn_end on the loop itself */
    size_t turn_kept_count[LOOPS];
    bool poster_stops;
    atomic_bool poster_waits; /* keeps everything until let go */
    struct exchange *parked;  /* posted from `ended` of a reply with status 202 */
    atomic_int holds;         /* how often /hold says there is no room */
    atomic_int heads, requests, kept_total, completes, ended, closed;
};

static struct world *world;

static bool path_is(const struct exchange *exchange, const char *path)
{
    return bytes_equal(exchange->request.path, bytes_str(path));
}

static void answer(struct exchange *exchange, struct bytes body)
{
    exchange->reply.status = 200;
    exchange->reply.content_type = "text/plain";
    buf_add(&exchange->reply.body, body);
}

/* The slot counts a connection's kept exchanges, one allocation for its life. */
struct slot {
    struct wire_share share;
    int kept;
};

static int *slot_of(struct exchange *exchange)
{
    if (!*exchange->slot) {
        struct slot *slot = must_calloc(1, sizeof *slot);
        *exchange->slot = &slot->share;
    }
    return &CONTAINER_OF(*exchange->slot, struct slot, share)->kept;
}

static enum head_verdict toy_head(void *context, struct exchange *exchange)
{
    (void)context;
    atomic_fetch_add(&world->heads, 1);
    assert_null(exchange->state);
    assert_null(exchange->request.body.data);
    assert_int_equal(exchange->reply.body.size, 0);
    exchange->state = world;
    exchange->barrier = path_is(exchange, "/barrier");
    if (!path_is(exchange, "/refuse")) return HEAD_GO_ON;
    exchange_error(exchange, ERR_UNAUTHORIZED, NULL);
    return HEAD_REPLY;
}

static enum request_verdict toy_keep(struct exchange *exchange, bool by_turn)
{
    (*slot_of(exchange))++;
    atomic_fetch_add(&world->kept_total, 1);
    struct bytes query = arena_copy(&exchange->arena, exchange->request.query);
    buf_add(&exchange->reply.headers, BYTES("X-Kept: "));
    buf_add(&exchange->reply.headers, query);
    buf_add(&exchange->reply.headers, BYTES("\r\n"));
    if (by_turn) {
        unsigned loop = exchange->loop_index;
        world->turn_kept[loop][world->turn_kept_count[loop]++] = exchange;
        return REQUEST_KEPT;
    }
    pthread_mutex_lock(&world->lock);
    world->kept[world->kept_count++] = exchange;
    pthread_mutex_unlock(&world->lock);
    return REQUEST_KEPT;
}

static void toy_echo(struct exchange *exchange)
{
    struct bytes body = exchange->request.body;
    volatile char padding = 0;
    for (size_t i = 0; i < WIRE_BODY_PADDING; i++)
        padding = (char)(padding ^ body.data[body.size + i]);
    answer(exchange, body);
}

static enum request_verdict toy_request(void *context, struct exchange *exchange)
{
    (void)context;
    atomic_fetch_add(&world->requests, 1);
    if (path_is(exchange, "/late")) return toy_keep(exchange, false);
    if (path_is(exchange, "/turn")) return toy_keep(exchange, true);
    if (path_is(exchange, "/lateclose")) {
        exchange->reply.close = true;
        return toy_keep(exchange, false);
    }
    if (path_is(exchange, "/parked")) {
        (*slot_of(exchange))++;
        atomic_fetch_add(&world->kept_total, 1);
        world->parked = exchange;
        return REQUEST_KEPT;
    }
    if (path_is(exchange, "/hold") && atomic_fetch_sub(&world->holds, 1) > 0) return REQUEST_HOLD;
    if (path_is(exchange, "/echo") || path_is(exchange, "/hold")) {
        toy_echo(exchange);
    } else if (path_is(exchange, "/big")) {
        exchange->reply.status = 200;
        size_t size = (size_t)atol(arena_copy(&exchange->arena, exchange->request.query).data);
        memset(buf_reserve(&exchange->reply.body, size), 'b', size);
        exchange->reply.body.size = size;
    } else if (path_is(exchange, "/barrier")) {
        answer(exchange, *slot_of(exchange) == 0 ? BYTES("clear") : BYTES("pending"));
    } else if (path_is(exchange, "/close")) {
        answer(exchange, BYTES("bye"));
        exchange->reply.close = true;
    } else if (path_is(exchange, "/trigger")) {
        answer(exchange, BYTES("t"));
        exchange->reply.status = 202;
    } else if (path_is(exchange, "/empty")) {
        exchange->reply.status = 204;
    } else if (path_is(exchange, "/header")) {
        answer(exchange, BYTES("h"));
        exchange_header(exchange, "X-A", BYTES("b\r\nX-Evil: c"));
    } else if (path_is(exchange, "/toolarge")) {
        answer(exchange, BYTES("x"));
        exchange->reply.body.failed = true;
    } else {
        answer(exchange, BYTES("now"));
    }
    return REQUEST_ANSWERED;
}

static bool toy_complete(void *context, struct exchange *exchange)
{
    (void)context;
    atomic_fetch_add(&world->completes, 1);
    (*slot_of(exchange))--;
    answer(exchange, BYTES("late"));
    return true;
}

static void toy_turn_end(void *context, unsigned loop)
{
    (void)context;
    for (size_t i = world->turn_kept_count[loop]; i > 0; i--)
        exchange_post(world->turn_kept[loop][i - 1]);
    world->turn_kept_count[loop] = 0;
}

static void toy_ended(void *context, struct exchange *exchange)
{
    (void)context;
    assert_ptr_equal(exchange->state, world);
    /* Answered or not: a duration below zero would make a sum in the metrics go down. */
    assert_true(exchange->ended_ns >= exchange->started_ns);
    atomic_fetch_add(&world->ended, 1);
    if (exchange->reply.status != 202) return;
    exchange_post(world->parked);
    wire_wake(world->wire);
}

static void toy_closed(void *context, struct wire_share *share)
{
    struct slot *slot = CONTAINER_OF(share, struct slot, share);
    (void)context;
    assert_int_equal(slot->kept, 0);
    assert_int_equal(atomic_load(&share->bytes), 0);
    free(slot);
    atomic_fetch_add(&world->closed, 1);
}

static void nap_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

/* Newest first: the opposite of the order in which replies must leave. */
static void *poster_run(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&world->lock);
        bool stops = world->poster_stops;
        size_t count = atomic_load(&world->poster_waits) && !stops ? 0 : world->kept_count;
        for (size_t i = count; i > 0; i--)
            exchange_post(world->kept[i - 1]);
        if (count) world->kept_count = 0;
        pthread_mutex_unlock(&world->lock);
        if (count) wire_wake(world->wire);
        if (stops && !count) return NULL;
        nap_ms(1);
    }
}

static void *loop_run(void *index)
{
    wire_run(world->wire, (unsigned)(uintptr_t)index);
    return NULL;
}

static struct wire_config toy_config(void)
{
    return (struct wire_config){
        .address = "127.0.0.1",
        .loops = LOOPS,
        .connections_max = 100,
        .body_bytes_max = 1 << 20,
        .buffers_bytes_max = 64 << 20,
        .pipeline_max = 32,
        .output_bytes_max = 256 << 10,
        .idle_ms = 20000,
        .request_ms = 20000,
        .write_ms = 20000,
        .retry_ms = PACE_RETRY_MS,
        .look = pace_net_look,
    };
}

static void world_start(struct wire_config config)
{
    world = must_calloc(1, sizeof *world);
    pthread_mutex_init(&world->lock, NULL);
    const struct wire_handler handler = {.head = toy_head,
                                         .request = toy_request,
                                         .complete = toy_complete,
                                         .turn_end = toy_turn_end,
                                         .ended = toy_ended,
                                         .closed = toy_closed};
    char error[200] = "";
    assert_int_equal(wire_open(&world->wire, &config, &handler, error, sizeof error), ERR_OK);
    for (uintptr_t i = 0; i < LOOPS; i++)
        assert_int_equal(pthread_create(&world->threads[i], NULL, loop_run, (void *)i), 0);
    assert_int_equal(pthread_create(&world->poster, NULL, poster_run, NULL), 0);
}

static void world_join(void)
{
    for (int i = 0; i < LOOPS; i++)
        pthread_join(world->threads[i], NULL);
}

/* The books must balance at the end of every test. */
static void world_end(void)
{
    wire_stop(world->wire, 5000);
    world_join();
    pthread_mutex_lock(&world->lock);
    world->poster_stops = true;
    pthread_mutex_unlock(&world->lock);
    pthread_join(world->poster, NULL);
    struct wire_stats stats;
    wire_stats(world->wire, &stats);
    assert_int_equal(stats.connections_open, 0);
    wire_free(world->wire);
    assert_int_equal(atomic_load(&world->ended), atomic_load(&world->heads));
    assert_int_equal(atomic_load(&world->completes), atomic_load(&world->kept_total));
    free(world);
    world = NULL;
}

static int client_open(void)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)wire_port(world->wire, WIRE_HTTP)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 10};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void client_send(int fd, const char *text)
{
    size_t size = strlen(text);
    while (size) {
        ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
        assert_true(sent > 0);
        text += sent;
        size -= (size_t)sent;
    }
}

struct replies {
    char *text;
    size_t size;
    size_t count;
    int status[REPLIES_MAX];
    struct bytes head[REPLIES_MAX];
    struct bytes body[REPLIES_MAX];
};

static bool head_has(struct bytes head, const char *line)
{
    return memmem(head.data, head.size, line, strlen(line)) != NULL;
}

/* Splits what came into replies, as a client that trusts Content-Length would. */
static void replies_split(struct replies *replies, bool bodies)
{
    size_t at = 0;
    while (at < replies->size) {
        char *end = memmem(replies->text + at, replies->size - at, "\r\n\r\n", 4);
        assert_non_null(end);
        size_t i = replies->count++;
        assert_true(i < REPLIES_MAX);
        size_t head_size = (size_t)(end - (replies->text + at)) + 4;
        replies->head[i] = bytes_of(replies->text + at, head_size);
        replies->status[i] = atoi(replies->text + at + 9);
        char *length = memmem(replies->text + at, head_size, "Content-Length: ", 16);
        size_t body_size = length && bodies ? (size_t)atol(length + 16) : 0;
        assert_true(at + head_size + body_size <= replies->size);
        replies->body[i] = bytes_of(replies->text + at + head_size, body_size);
        at += head_size + body_size;
    }
}

/* Reads to the end of the connection. */
static struct replies *client_read(int fd, bool bodies)
{
    struct replies *replies = must_calloc(1, sizeof *replies);
    size_t capacity = 1 << 16;
    replies->text = must_alloc(capacity);
    ssize_t got;
    while ((got = recv(fd, replies->text + replies->size, capacity - replies->size - 1, 0)) > 0) {
        replies->size += (size_t)got;
        if (capacity - replies->size < 4096)
            replies->text = must_realloc(replies->text, capacity *= 2);
    }
    if (got < 0) print_error("the connection ended with %s\n", strerror(errno));
    assert_int_equal(got, 0);
    replies->text[replies->size] = 0;
    replies_split(replies, bodies);
    close(fd);
    return replies;
}

static void replies_free(struct replies *replies)
{
    free(replies->text);
    free(replies);
}

static struct replies *ask(const char *text)
{
    int fd = client_open();
    client_send(fd, text);
    return client_read(fd, true);
}

static void assert_reply(const struct replies *replies, size_t index, int status, const char *body)
{
    assert_true(index < replies->count);
    assert_int_equal(replies->status[index], status);
    assert_int_equal(replies->body[index].size, strlen(body));
    assert_memory_equal(replies->body[index].data, body, strlen(body));
}

/* Sends `text` and expects one last reply with this status and code, then the end. */
static void assert_refused(const char *text, int status, const char *code)
{
    struct replies *replies = ask(text);
    if (replies->count != 1 || replies->status[0] != status)
        print_error("%s\n->\n%s\n", text, replies->text);
    assert_int_equal(replies->count, 1);
    assert_int_equal(replies->status[0], status);
    assert_true(head_has(replies->head[0], "Connection: close\r\n"));
    assert_true(head_has(replies->head[0], "Content-Type: application/json\r\n"));
    char end[64];
    snprintf(end, sizeof end, ",\"code\":\"%s\"}", code);
    assert_true(bytes_starts(replies->body[0], BYTES("{\"error\":\"")));
    assert_true(head_has(replies->body[0], end));
    replies_free(replies);
}

static void a_reply_has_its_headers(void **unused)
{
    (void)unused;
    world_start(toy_config());
    struct replies *replies =
        ask("GET /header" H END "GET /empty" H END "GET /toolarge" H END LAST);
    assert_int_equal(replies->count, 4);
    assert_reply(replies, 0, 200, "h");
    assert_true(bytes_starts(replies->head[0], BYTES("HTTP/1.1 200 OK\r\nDate: ")));
    assert_true(head_has(replies->head[0], "Cache-Control: no-store\r\n"));
    assert_true(head_has(replies->head[0], "Content-Type: text/plain\r\n"));
    assert_true(head_has(replies->head[0], "X-A: b  X-Evil: c\r\n"));
    assert_false(head_has(replies->head[0], "Connection:"));
    assert_reply(replies, 1, 204, "");
    assert_false(head_has(replies->head[1], "Content-Length"));
    assert_int_equal(replies->status[2], 500);
    assert_reply(replies, 3, 200, "now");
    assert_true(head_has(replies->head[3], "Connection: close\r\n"));
    replies_free(replies);
    world_end();
}

static void replies_leave_in_the_order_of_requests(void **unused)
{
    (void)unused;
    world_start(toy_config());
    struct buf text;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < 300; i++)
        buf_addf(&text, "GET /%s?%d" H END, i % 7 == 3 ? "turn" : i % 3 ? "late" : "now", i);
    buf_addf(&text, "%s", LAST);
    buf_add_char(&text, 0);
    struct replies *replies = ask(text.data);
    assert_int_equal(replies->count, 301);
    for (int i = 0; i < 300; i++) {
        bool kept = i % 7 == 3 || i % 3;
        assert_reply(replies, (size_t)i, 200, kept ? "late" : "now");
        char line[32];
        snprintf(line, sizeof line, "X-Kept: %d\r\n", i);
        assert_int_equal(head_has(replies->head[i], line), kept);
    }
    replies_free(replies);
    buf_release(&text);
    world_end();
}

static void requests_may_come_in_pieces(void **unused)
{
    (void)unused;
    world_start(toy_config());
    const char *text = "POST /echo" H "Content-Length: 5\r\n\r\nhello"
                       "POST /echo" H "Transfer-Encoding: chunked\r\n\r\n"
                       "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n"
                       "GET /late?1" H END LAST;
    for (size_t step = 1; step < 60; step += 7) {
        int fd = client_open();
        for (size_t at = 0; at < strlen(text); at += step) {
            char piece[64];
            snprintf(piece, sizeof piece, "%.*s", (int)step, text + at);
            client_send(fd, piece);
            if (at % 3 == 0) nap_ms(1);
        }
        struct replies *replies = client_read(fd, true);
        assert_int_equal(replies->count, 4);
        assert_reply(replies, 0, 200, "hello");
        assert_reply(replies, 1, 200, "abcde");
        assert_reply(replies, 2, 200, "late");
        assert_reply(replies, 3, 200, "now");
        replies_free(replies);
    }
    world_end();
}

static char *large_request(size_t size, bool chunked)
{
    char *text = must_alloc(2 * size + 512);
    int at = chunked ? sprintf(text, "POST /echo" H "Transfer-Encoding: chunked\r\n\r\n")
                     : sprintf(text, "POST /echo" H "Content-Length: %zu\r\n\r\n", size);
    for (size_t i = 0; i < size; i++) {
        if (chunked && i % 1000 == 0)
            at +=
                sprintf(text + at, "%s%zx\r\n", i ? "\r\n" : "", size - i < 1000 ? size - i : 1000);
        text[at++] = (char)('a' + i % 26);
    }
    if (chunked) at += sprintf(text + at, "\r\n0\r\n\r\n");
    memcpy(text + at, LAST, sizeof LAST);
    return text;
}

static void large_bodies_arrive_whole(void **unused)
{
    (void)unused;
    world_start(toy_config());
    static const size_t sizes[] = {1, 4000, 5000, 70000, 200000, 1 << 20};
    for (size_t i = 0; i < ARRAY_COUNT(sizes) * 2; i++) {
        size_t size = sizes[i / 2];
        char *text = large_request(size, i % 2);
        struct replies *replies = ask(text);
        assert_int_equal(replies->count, 2);
        assert_int_equal(replies->body[0].size, size);
        for (size_t j = 0; j < size; j++)
            if (replies->body[0].data[j] != (char)('a' + j % 26)) fail();
        assert_reply(replies, 1, 200, "now");
        replies_free(replies);
        free(text);
    }
    world_end();
}

static void a_barrier_waits_for_earlier_exchanges(void **unused)
{
    (void)unused;
    world_start(toy_config());
    struct replies *replies = ask("GET /late?1" H END "GET /late?2" H END "GET /barrier" H END
                                  "GET /late?3" H END "GET /barrier" H END LAST);
    assert_int_equal(replies->count, 6);
    assert_reply(replies, 2, 200, "clear");
    assert_reply(replies, 4, 200, "clear");
    replies_free(replies);
    world_end();
}

static void a_held_request_is_tried_again_with_its_body(void **unused)
{
    (void)unused;
    world_start(toy_config());
    atomic_store(&world->holds, 5);
    struct replies *replies =
        ask("GET /now" H END "POST /hold" H "Content-Length: 4\r\n\r\nbody" LAST);
    assert_int_equal(replies->count, 3);
    assert_reply(replies, 1, 200, "body");
    assert_true(atomic_load(&world->requests) >= 8);
    replies_free(replies);
    world_end();
}

static void bad_framing_is_answered_and_ends_the_connection(void **unused)
{
    (void)unused;
    world_start(toy_config());
    static const char *const bad[] = {
        "GET /now HTTP/1.1\r\n\r\n" LAST,
        "GET /now\r\n\r\n" LAST,
        "GET /now" H "X : y\r\n\r\n" LAST,
        "POST /echo" H "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx" LAST,
        "POST /echo" H "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" LAST,
        "POST /echo" H "Transfer-Encoding: chunked\r\n\r\nzz\r\n" LAST,
        "GET /now" H "X: y\n\r\n" LAST,
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        assert_refused(bad[i], 400, "bad_request");
    assert_refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "bad_request");
    assert_refused("POST /echo" H "Expect: magic\r\nContent-Length: 1\r\n\r\nx", 417,
                   "bad_request");
    world_end();
}

static void earlier_replies_precede_the_refusal(void **unused)
{
    (void)unused;
    world_start(toy_config());
    struct replies *replies = ask("GET /late?1" H END "GET /now" H END "rubbish\r\n\r\n");
    assert_int_equal(replies->count, 3);
    assert_reply(replies, 0, 200, "late");
    assert_false(head_has(replies->head[0], "Connection: close"));
    assert_int_equal(replies->status[2], 400);
    replies_free(replies);
    world_end();
}

static void a_head_over_16_kib_is_431(void **unused)
{
    (void)unused;
    world_start(toy_config());
    static char text[40000];
    memset(text, 'a', sizeof text - 1);
    memcpy(text, "GET /now" H "X: ", sizeof "GET /now" H "X: " - 1);
    assert_refused(text, 431, "headers_too_large");
    memset(text, 'a', sizeof text - 1);
    memcpy(text, "GET /", 5);
    assert_refused(text, 431, "headers_too_large");
    world_end();
}

static void a_body_over_the_limit_is_413_after_the_head_was_judged(void **unused)
{
    (void)unused;
    world_start(toy_config());
    assert_refused("POST /echo" H "Content-Length: 1048577\r\n\r\n", 413, "body_too_large");
    assert_refused("POST /echo" H "Transfer-Encoding: chunked\r\n\r\n100001\r\n", 413,
                   "body_too_large");
    assert_refused("POST /refuse" H "Content-Length: 1048577\r\n\r\n", 401, "unauthorized");
    assert_int_equal(atomic_load(&world->requests), 0);
    world_end();
}

/* The client goes on sending while it is told to stop: the reply must still reach it. */
static void a_refused_upload_can_read_its_reply(void **unused)
{
    (void)unused;
    world_start(toy_config());
    char *text = large_request(6 << 20, false);
    assert_refused(text, 413, "body_too_large");
    free(text);
    world_end();
}

static void a_body_refused_at_its_head_is_swallowed(void **unused)
{
    (void)unused;
    world_start(toy_config());
    struct replies *replies = ask("POST /refuse" H "Content-Length: 5\r\n\r\nhello"
                                  "POST /refuse" H "Transfer-Encoding: chunked\r\n\r\n"
                                  "3\r\nGET\r\n0\r\n\r\n"
                                  "GET /refuse" H END LAST);
    assert_int_equal(replies->count, 4);
    for (size_t i = 0; i < 3; i++)
        assert_reply(replies, i, 401, "{\"error\":\"unauthorized\",\"code\":\"unauthorized\"}");
    assert_reply(replies, 3, 200, "now");
    replies_free(replies);
    world_end();
}

static void a_100_continue_is_sent_only_when_the_body_is_wanted(void **unused)
{
    (void)unused;
    world_start(toy_config());
    int fd = client_open();
    client_send(fd, "GET /late?1" H END "POST /echo" H
                    "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    nap_ms(100);
    client_send(fd, "ok" LAST);
    struct replies *replies = client_read(fd, true);
    assert_int_equal(replies->count, 4);
    assert_reply(replies, 0, 200, "late");
    assert_reply(replies, 1, 100, "");
    assert_reply(replies, 2, 200, "ok");
    replies_free(replies);

    replies = ask("POST /echo" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nok" LAST);
    assert_int_equal(replies->count, 2);
    assert_reply(replies, 0, 200, "ok");
    replies_free(replies);
    assert_refused("POST /refuse" H "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", 401,
                   "unauthorized");
    assert_refused("POST /echo" H "Expect: 100-continue\r\nContent-Length: 2000000\r\n\r\n", 413,
                   "body_too_large");
    world_end();
}

static void head_has_no_body_but_its_length(void **unused)
{
    (void)unused;
    world_start(toy_config());
    int fd = client_open();
    client_send(fd, "HEAD /now" H END
                    "HEAD /big?5000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    struct replies *replies = client_read(fd, false);
    assert_int_equal(replies->count, 2);
    assert_true(head_has(replies->head[0], "Content-Length: 3\r\n"));
    assert_true(head_has(replies->head[1], "Content-Length: 5000\r\n"));
    replies_free(replies);
    world_end();
}

static void http_1_0_closes_unless_asked_not_to(void **unused)
{
    (void)unused;
    world_start(toy_config());
    struct replies *replies = ask("GET /now HTTP/1.0\r\n\r\n");
    assert_int_equal(replies->count, 1);
    assert_true(head_has(replies->head[0], "Connection: close\r\n"));
    replies_free(replies);
    replies = ask("GET /now HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" LAST);
    assert_int_equal(replies->count, 2);
    assert_true(head_has(replies->head[0], "Connection: keep-alive\r\n"));
    replies_free(replies);
    world_end();
}

static void the_handler_can_close_and_later_requests_go_unanswered(void **unused)
{
    (void)unused;
    world_start(toy_config());
    struct replies *replies =
        ask("GET /now" H END "GET /close" H END "GET /late?1" H END "GET /now" H END);
    assert_int_equal(replies->count, 2);
    assert_reply(replies, 1, 200, "bye");
    assert_true(head_has(replies->head[1], "Connection: close\r\n"));
    replies_free(replies);
    replies = ask("GET /now" H END "GET /lateclose?1" H END "GET /now" H END "GET /late?2" H END);
    assert_int_equal(replies->count, 2);
    assert_true(head_has(replies->head[1], "Connection: close\r\n"));
    replies_free(replies);
    world_end();
}

static int64_t now_ms(void)
{
    return clock_mono_ns(&clock_system) / 1000000;
}

/* `ended` runs after the turn's last look into the inbox, while the loop is awake, so no wake-up is
 * written: the loop has to look once more before it sleeps, or this waits for the next sweep. */
static void what_is_posted_late_in_a_turn_is_not_slept_over(void **unused)
{
    (void)unused;
    world_start(toy_config());
    int64_t start_ms = now_ms();
    for (int i = 0; i < 8; i++) {
        int fd = client_open();
        client_send(fd, "GET /trigger" H END "GET /parked HTTP/1.1\r\nHost: a\r\n"
                        "Connection: close\r\n\r\n");
        struct replies *replies = client_read(fd, true);
        assert_int_equal(replies->count, 2);
        assert_reply(replies, 1, 200, "late");
        replies_free(replies);
    }
    assert_true(now_ms() - start_ms < 1500);
    world_end();
}

static void an_empty_line_between_requests_is_no_request(void **unused)
{
    (void)unused;
    struct wire_config config = toy_config();
    config.request_ms = 60;
    world_start(config);
    int fd = client_open();
    client_send(fd, "GET /now" H END "\r\n");
    nap_ms(200);
    client_send(fd, "GET /now" H END "\r\n");
    shutdown(fd, SHUT_WR);
    struct replies *replies = client_read(fd, true);
    assert_int_equal(replies->count, 2);
    assert_reply(replies, 1, 200, "now");
    replies_free(replies);
    world_end();
}

static void a_half_closed_client_gets_its_replies(void **unused)
{
    (void)unused;
    world_start(toy_config());
    int fd = client_open();
    client_send(fd, "GET /late?1" H END "GET /late?2" H END);
    shutdown(fd, SHUT_WR);
    struct replies *replies = client_read(fd, true);
    assert_int_equal(replies->count, 2);
    assert_reply(replies, 1, 200, "late");
    replies_free(replies);

    fd = client_open();
    client_send(fd, "POST /echo" H "Content-Length: 10\r\n\r\nshort");
    shutdown(fd, SHUT_WR);
    replies = client_read(fd, true);
    assert_int_equal(replies->count, 1);
    assert_int_equal(replies->status[0], 400);
    replies_free(replies);
    world_end();
}

static void a_connection_that_dies_leaves_its_kept_exchanges_to_finish(void **unused)
{
    (void)unused;
    world_start(toy_config());
    atomic_store(&world->poster_waits, true);
    int fds[20];
    for (int i = 0; i < 20; i++) {
        fds[i] = client_open();
        client_send(fds[i], "GET /late?1" H END "GET /late?2" H END "GET /now" H END "GET /now");
    }
    while (atomic_load(&world->kept_total) < 40)
        nap_ms(1);
    struct linger reset = {.l_onoff = 1};
    for (int i = 0; i < 20; i++) {
        setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fds[i]);
    }
    nap_ms(20);
    assert_int_equal(atomic_load(&world->closed), 0);
    atomic_store(&world->poster_waits, false);
    for (int i = 0; i < 5000 && atomic_load(&world->closed) < 20; i++)
        nap_ms(1);
    assert_int_equal(atomic_load(&world->closed), 20);
    assert_int_equal(atomic_load(&world->completes), 40);
    world_end();
}

static void a_slow_request_is_408_and_holds_nothing(void **unused)
{
    (void)unused;
    struct wire_config config = toy_config();
    config.request_ms = 60;
    world_start(config);
    assert_refused("GET /now HTTP/1.1\r\nHo", 408, "request_timeout");
    assert_refused("POST /echo" H "Content-Length: 10\r\n\r\nabc", 408, "request_timeout");
    assert_refused("POST /echo" H "Transfer-Encoding: chunked\r\n\r\n5\r\nab", 408,
                   "request_timeout");
    struct replies *replies = ask("POST /refuse" H "Content-Length: 10\r\n\r\nabc");
    assert_int_equal(replies->count, 1);
    assert_int_equal(replies->status[0], 401);
    replies_free(replies);
    world_end();
}

/* A client that trickles is timed from its first byte, not from its last. */
static void trickling_does_not_buy_time(void **unused)
{
    (void)unused;
    struct wire_config config = toy_config();
    config.request_ms = 100;
    world_start(config);
    int fd = client_open();
    for (int i = 0; i < 400; i++) {
        if (send(fd, "a", 1, MSG_NOSIGNAL) < 0) break;
        nap_ms(1);
    }
    char reply[64] = "";
    assert_true(recv(fd, reply, sizeof reply - 1, 0) > 0);
    assert_memory_equal(reply, "HTTP/1.1 408", 12);
    close(fd);
    world_end();
}

static void an_idle_connection_is_closed_without_a_word(void **unused)
{
    (void)unused;
    struct wire_config config = toy_config();
    config.idle_ms = 50;
    world_start(config);
    int fd = client_open();
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
    struct replies *replies = ask("GET /now" H END);
    assert_int_equal(replies->count, 1);
    replies_free(replies);
    world_end();
}

static void a_client_that_does_not_read_is_paused_and_then_dropped(void **unused)
{
    (void)unused;
    struct wire_config config = toy_config();
    config.write_ms = 100;
    world_start(config);
    int fd = client_open();
    for (int i = 0; i < 100; i++)
        client_send(fd, "GET /big?300000" H END);
    struct wire_stats stats = {.connections_open = 1};
    nap_ms(50);
    assert_true(atomic_load(&world->heads) < 60);
    for (int i = 0; i < 3000 && stats.connections_open; i++) {
        nap_ms(1);
        wire_stats(world->wire, &stats);
    }
    assert_int_equal(stats.connections_open, 0);
    close(fd);
    world_end();
}

static void a_slow_reader_gets_everything(void **unused)
{
    (void)unused;
    world_start(toy_config());
    int fd = client_open();
    for (int i = 0; i < 30; i++)
        client_send(fd, i % 2 ? "GET /big?700000" H END : "GET /late?1" H END);
    client_send(fd, LAST);
    nap_ms(50);
    struct replies *replies = client_read(fd, true);
    assert_int_equal(replies->count, 31);
    for (size_t i = 0; i < 30; i++)
        assert_int_equal(replies->body[i].size, i % 2 ? 700000 : 4);
    replies_free(replies);
    world_end();
}

static void a_pipeline_is_read_only_so_far(void **unused)
{
    (void)unused;
    struct wire_config config = toy_config();
    config.pipeline_max = 3;
    world_start(config);
    atomic_store(&world->poster_waits, true);
    int fd = client_open();
    for (int i = 0; i < 10; i++)
        client_send(fd, "GET /late?1" H END);
    client_send(fd, LAST);
    nap_ms(50);
    assert_int_equal(atomic_load(&world->heads), 3);
    atomic_store(&world->poster_waits, false);
    struct replies *replies = client_read(fd, true);
    assert_int_equal(replies->count, 11);
    replies_free(replies);
    world_end();
}

static void one_connection_too_many_is_503(void **unused)
{
    (void)unused;
    struct wire_config config = toy_config();
    config.connections_max = 2;
    world_start(config);
    int first = client_open(), second = client_open();
    nap_ms(50);
    assert_refused("GET /now" H END, 503, "overloaded");
    close(first);
    close(second);
    nap_ms(100);
    struct replies *replies = ask(LAST);
    assert_reply(replies, 0, 200, "now");
    replies_free(replies);
    world_end();
}

/* The budget fits one body; many come at once. All are served, or told that there is no room. */
static void large_bodies_share_a_budget(void **unused)
{
    (void)unused;
    struct wire_config config = toy_config();
    config.buffers_bytes_max = 1200000;
    config.request_ms = 500;
    world_start(config);
    char *text = large_request(1 << 20, false);
    size_t part = 700000;
    int fds[8];
    for (int i = 0; i < 8; i++) {
        fds[i] = client_open();
        struct timeval soon = {.tv_usec = 20000};
        setsockopt(fds[i], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
        (void)!send(fds[i], text, part, MSG_NOSIGNAL);
    }
    struct replies *replies = ask("POST /echo" H "Content-Length: 5\r\n\r\nhello" LAST);
    assert_int_equal(replies->count, 2); /* small requests do not need the budget */
    replies_free(replies);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    nap_ms(100);
    replies = ask(text);
    assert_int_equal(replies->count, 2);
    assert_int_equal(replies->body[0].size, 1 << 20);
    replies_free(replies);
    free(text);
    world_end();
}

/* `letter` that many times, gzipped, then LAST. */
static void send_gzipped(int fd, char letter, size_t size)
{
    char head[200];
    char *text = must_alloc(size), *packed = must_alloc(size + 1024);
    z_stream stream = {0};
    memset(text, letter, size);
    assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    stream.next_in = (Bytef *)text;
    stream.avail_in = (uInt)size;
    stream.next_out = (Bytef *)packed;
    stream.avail_out = (uInt)size + 1024;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    size_t packed_size = (size + 1024) - stream.avail_out;
    deflateEnd(&stream);
    snprintf(head, sizeof head,
             "POST /echo" H "Content-Encoding: gzip\r\nContent-Length: %zu\r\n\r\n", packed_size);
    client_send(fd, head);
    assert_int_equal(send(fd, packed, packed_size, MSG_NOSIGNAL), packed_size);
    client_send(fd, LAST);
    free(text);
    free(packed);
}

static void a_gzipped_body_is_charged_unpacked_and_waits_for_room(void **unused)
{
    (void)unused;
    struct wire_config config = toy_config();
    config.buffers_bytes_max = 1200000;
    world_start(config);
    char *text = large_request(1 << 20, false);
    int fds[2];
    for (int i = 0; i < 2; i++) {
        fds[i] = client_open();
        struct timeval soon = {.tv_usec = 20000};
        setsockopt(fds[i], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
        (void)!send(fds[i], text, 1000000, MSG_NOSIGNAL);
    }
    nap_ms(100);
    int fd = client_open();
    send_gzipped(fd, 'z', 700000); /* small as it comes, so it is read at once */
    nap_ms(100);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    for (int i = 0; i < 2; i++)
        close(fds[i]);
    struct replies *replies = client_read(fd, true);
    assert_int_equal(replies->count, 2);
    assert_int_equal(replies->body[0].size, 700000);
    assert_int_equal(replies->body[0].data[699999], 'z');
    replies_free(replies);
    free(text);
    world_end();
}

/* This happened: half-sent bodies of one tenant took all of the budget, and everybody else's
 * large ones waited for them. */
static void half_sent_bodies_leave_room_for_those_of_another_share(void **unused)
{
    (void)unused;
    struct wire_config config = toy_config();
    config.buffers_bytes_max = 4 << 20;
    world_start(config);
    char *text = large_request(512 << 10, false);
    int fds[16];
    for (int i = 0; i < 16; i++) {
        fds[i] = client_open();
        struct timeval soon = {.tv_usec = 20000};
        setsockopt(fds[i], SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
        (void)!send(fds[i], text, 500000, MSG_NOSIGNAL);
    }
    int fd = client_open();
    client_send(fd, "GET /late?1" H END); /* gives it a slot, and with it a share of its own */
    client_send(fd, text);
    struct replies *replies = client_read(fd, true);
    assert_int_equal(replies->count, 3);
    assert_int_equal(replies->body[1].size, 512 << 10);
    replies_free(replies);
    for (int i = 0; i < 16; i++)
        close(fds[i]);
    free(text);
    world_end();
}

static void running_out_of_descriptors_is_survived(void **unused)
{
    (void)unused;
    world_start(toy_config());
    int fd = client_open();
    client_send(fd, "GET /now" H END);
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    int waiting = socket(AF_INET, SOCK_STREAM, 0);
    struct rlimit before;
    getrlimit(RLIMIT_NOFILE, &before);
    struct rlimit none = {(rlim_t)waiting + 1, before.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)wire_port(world->wire, WIRE_HTTP)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(waiting, (struct sockaddr *)&address, sizeof address), 0);
    client_send(waiting, LAST);
    nap_ms(100);
    setrlimit(RLIMIT_NOFILE, &before);
    struct replies *replies = client_read(waiting, true);
    assert_reply(replies, 0, 200, "now");
    replies_free(replies);
    close(fd);
    world_end();
}

static void a_stop_finishes_what_was_kept(void **unused)
{
    (void)unused;
    world_start(toy_config());
    atomic_store(&world->poster_waits, true);
    int idle = client_open(), busy = client_open(), half = client_open();
    client_send(busy, "GET /late?1" H END "GET /late?2" H END);
    client_send(half, "POST /echo" H "Content-Length: 10\r\n\r\nabc");
    while (atomic_load(&world->kept_total) < 2 || atomic_load(&world->heads) < 3)
        nap_ms(1);
    wire_stop(world->wire, 5000);
    char byte;
    assert_int_equal(recv(idle, &byte, 1, 0), 0);
    close(idle);
    struct replies *replies = client_read(half, true);
    assert_int_equal(replies->status[0], 503);
    replies_free(replies);
    nap_ms(300); /* the other loop, which has the busy connection, has seen it too by then */
    atomic_store(&world->poster_waits, false);
    replies = client_read(busy, true);
    assert_int_equal(replies->count, 2);
    assert_reply(replies, 1, 200, "late");
    assert_true(head_has(replies->head[1], "Connection: close\r\n"));
    replies_free(replies);
    world_end();
}

static void a_stop_ends_after_its_grace(void **unused)
{
    (void)unused;
    world_start(toy_config());
    atomic_store(&world->poster_waits, true);
    int fd = client_open();
    client_send(fd, "GET /late?1" H END);
    while (atomic_load(&world->kept_total) < 1)
        nap_ms(1);
    wire_stop(world->wire, 50);
    world_join();
    char byte;
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
    atomic_store(&world->poster_waits, false);
    pthread_mutex_lock(&world->lock);
    world->poster_stops = true;
    pthread_mutex_unlock(&world->lock);
    pthread_join(world->poster, NULL);
    wire_free(world->wire);
    assert_int_equal(atomic_load(&world->ended), 1);
    assert_int_equal(atomic_load(&world->closed), 1);
    free(world);
}

static void an_address_that_cannot_be_had_is_explained(void **unused)
{
    (void)unused;
    struct wire_config config = toy_config();
    const struct wire_handler handler = {0};
    struct wire *wire;
    char error[200] = "";
    config.address = "not an address";
    assert_int_equal(wire_open(&wire, &config, &handler, error, sizeof error), ERR_INVALID);
    assert_non_null(strstr(error, "not an address"));
    assert_null(wire);
    world_start(toy_config());
    config.address = "127.0.0.1";
    config.port = wire_port(world->wire, WIRE_HTTP);
    assert_int_equal(wire_open(&wire, &config, &handler, error, sizeof error), ERR_INTERNAL);
    assert_non_null(strstr(error, "cannot listen"));
    world_end();
}

static void *busy_client(void *unused)
{
    (void)unused;
    for (int round = 0; round < 20; round++) {
        struct replies *replies = ask("GET /late?1" H END "GET /turn?2" H END "GET /barrier" H END
                                      "POST /echo" H "Content-Length: 2\r\n\r\nab"
                                      "GET /late?3" H END LAST);
        if (replies->count != 6) abort();
        replies_free(replies);
    }
    return NULL;
}

static void many_clients_at_once_get_what_they_asked_for(void **unused)
{
    (void)unused;
    world_start(toy_config());
    pthread_t clients[16];
    for (int i = 0; i < 16; i++)
        pthread_create(&clients[i], NULL, busy_client, NULL);
    for (int i = 0; i < 16; i++)
        pthread_join(clients[i], NULL);
    struct wire_stats stats;
    wire_stats(world->wire, &stats);
    assert_int_equal(stats.requests_total, 16 * 20 * 6);
    assert_int_equal(stats.connections_total, 16 * 20);
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_has_its_headers),
        cmocka_unit_test(replies_leave_in_the_order_of_requests),
        cmocka_unit_test(requests_may_come_in_pieces),
        cmocka_unit_test(large_bodies_arrive_whole),
        cmocka_unit_test(a_barrier_waits_for_earlier_exchanges),
        cmocka_unit_test(a_held_request_is_tried_again_with_its_body),
        cmocka_unit_test(bad_framing_is_answered_and_ends_the_connection),
        cmocka_unit_test(earlier_replies_precede_the_refusal),
        cmocka_unit_test(a_head_over_16_kib_is_431),
        cmocka_unit_test(a_body_over_the_limit_is_413_after_the_head_was_judged),
        cmocka_unit_test(a_refused_upload_can_read_its_reply),
        cmocka_unit_test(a_body_refused_at_its_head_is_swallowed),
        cmocka_unit_test(a_100_continue_is_sent_only_when_the_body_is_wanted),
        cmocka_unit_test(head_has_no_body_but_its_length),
        cmocka_unit_test(http_1_0_closes_unless_asked_not_to),
        cmocka_unit_test(the_handler_can_close_and_later_requests_go_unanswered),
        cmocka_unit_test(what_is_posted_late_in_a_turn_is_not_slept_over),
        cmocka_unit_test(an_empty_line_between_requests_is_no_request),
        cmocka_unit_test(a_half_closed_client_gets_its_replies),
        cmocka_unit_test(a_connection_that_dies_leaves_its_kept_exchanges_to_finish),
        cmocka_unit_test(a_slow_request_is_408_and_holds_nothing),
        cmocka_unit_test(trickling_does_not_buy_time),
        cmocka_unit_test(an_idle_connection_is_closed_without_a_word),
        cmocka_unit_test(a_client_that_does_not_read_is_paused_and_then_dropped),
        cmocka_unit_test(a_slow_reader_gets_everything),
        cmocka_unit_test(a_pipeline_is_read_only_so_far),
        cmocka_unit_test(one_connection_too_many_is_503),
        cmocka_unit_test(large_bodies_share_a_budget),
        cmocka_unit_test(a_gzipped_body_is_charged_unpacked_and_waits_for_room),
        cmocka_unit_test(half_sent_bodies_leave_room_for_those_of_another_share),
        cmocka_unit_test(running_out_of_descriptors_is_survived),
        cmocka_unit_test(a_stop_finishes_what_was_kept),
        cmocka_unit_test(a_stop_ends_after_its_grace),
        cmocka_unit_test(an_address_that_cannot_be_had_is_explained),
        cmocka_unit_test(many_clients_at_once_get_what_they_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
