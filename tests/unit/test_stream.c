/* test_stream.c -- replies that go on: a real wire, a handler that counts, plain sockets.
 *
 * GET /count?N says a number, as soon as the one before it is written, N times. A ticker thread
 * posts, so that pieces come from another thread, as they do in the daemon. What must hold: one
 * `ended` for every stream, whoever ends it, and never more than one piece under way. */
#include <setjmp.h>
#include <stdarg.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "commit/pace.h"
#include "wire/loop.h"

#define STREAMS_MAX 64
#define PIECE_BYTES (256u << 10) /* larger than what the kernel takes unread, after a few */

enum place { PLACE_NONE, PLACE_MINE, PLACE_POSTED };

static struct world {
    struct wire *wire;
    pthread_t loop;
    pthread_t ticker;
    pthread_mutex_t lock;
    struct exchange *streams[STREAMS_MAX];
    enum place places[STREAMS_MAX];
    bool lost[STREAMS_MAX];
    long left[STREAMS_MAX];
    atomic_bool quiet; /* the ticker posts only what is lost */
    atomic_bool stops;
    atomic_int heads, ended, lost_total, pieces;
} world;

static unsigned index_of(const struct exchange *exchange)
{
    return (unsigned)((struct exchange *const *)exchange->state - world.streams);
}

static enum head_verdict toy_head(void *context, struct exchange *exchange)
{
    (void)context;
    unsigned i = (unsigned)atomic_fetch_add(&world.heads, 1);
    assert_true(i < STREAMS_MAX);
    exchange->state = &world.streams[i];
    return HEAD_GO_ON;
}

static void say(struct exchange *exchange, bool large)
{
    buf_addf(&exchange->reply.body, "piece %d\n", atomic_fetch_add(&world.pieces, 1));
    if (!large) return;
    memset(buf_reserve(&exchange->reply.body, PIECE_BYTES), 'x', PIECE_BYTES);
    exchange->reply.body.size += PIECE_BYTES;
}

static enum request_verdict toy_request(void *context, struct exchange *exchange)
{
    (void)context;
    unsigned i = index_of(exchange);
    bool large = bytes_equal(exchange->request.path, BYTES("/large"));
    char count[16];
    snprintf(count, sizeof count, "%.*s", (int)exchange->request.query.size,
             exchange->request.query.data);
    world.left[i] = large ? LONG_MAX : atol(count);
    exchange->reply.status = 200;
    exchange->reply.content_type = "text/event-stream";
    exchange->reply.cache_control = "no-store, no-transform";
    exchange->reply.stream = exchange->reply.close = true;
    say(exchange, large);
    return REQUEST_ANSWERED;
}

static void toy_drained(void *context, struct exchange *exchange)
{
    (void)context;
    assert_int_equal(exchange->reply.body.size, 0);
    pthread_mutex_lock(&world.lock);
    world.streams[index_of(exchange)] = exchange;
    world.places[index_of(exchange)] = PLACE_MINE;
    pthread_mutex_unlock(&world.lock);
}

static void toy_lost(void *context, struct exchange *exchange)
{
    (void)context;
    pthread_mutex_lock(&world.lock);
    world.lost[index_of(exchange)] = true;
    pthread_mutex_unlock(&world.lock);
    atomic_fetch_add(&world.lost_total, 1);
}

static bool toy_complete(void *context, struct exchange *exchange)
{
    (void)context;
    long left = --world.left[index_of(exchange)];
    exchange->reply.stream = left > 0;
    if (left > 0) say(exchange, left > 1000000); /* the last piece is empty */
    return true;
}

static void toy_ended(void *context, struct exchange *exchange)
{
    (void)context;
    pthread_mutex_lock(&world.lock);
    world.places[index_of(exchange)] = PLACE_NONE;
    pthread_mutex_unlock(&world.lock);
    atomic_fetch_add(&world.ended, 1);
}

static void nap(void)
{
    nanosleep(&(struct timespec){0, 1000000}, NULL);
}

static void *ticker_run(void *unused)
{
    (void)unused;
    while (!atomic_load(&world.stops)) {
        pthread_mutex_lock(&world.lock);
        for (unsigned i = 0; i < STREAMS_MAX; i++) {
            if (world.places[i] != PLACE_MINE) continue;
            if (atomic_load(&world.quiet) && !world.lost[i]) continue;
            world.places[i] = PLACE_POSTED;
            exchange_post(world.streams[i]);
        }
        pthread_mutex_unlock(&world.lock);
        wire_wake(world.wire);
        nap();
    }
    return NULL;
}

static void *loop_run(void *unused)
{
    (void)unused;
    wire_run(world.wire, 0);
    return NULL;
}

static void world_start(void)
{
    memset(&world, 0, sizeof world);
    pthread_mutex_init(&world.lock, NULL);
    const struct wire_config config = {.address = "127.0.0.1",
                                       .loops = 1,
                                       .connections_max = 100,
                                       .body_bytes_max = 1 << 20,
                                       .buffers_bytes_max = 1 << 20,
                                       .pipeline_max = 32,
                                       .output_bytes_max = 256 << 10,
                                       .idle_ms = 20000,
                                       .request_ms = 20000,
                                       .write_ms = 20000,
                                       .retry_ms = PACE_RETRY_MS,
                                       .look = pace_net_look};
    const struct wire_handler handler = {.head = toy_head,
                                         .request = toy_request,
                                         .complete = toy_complete,
                                         .ended = toy_ended,
                                         .drained = toy_drained,
                                         .lost = toy_lost};
    char error[200] = "";
    assert_int_equal(wire_open(&world.wire, &config, &handler, error, sizeof error), ERR_OK);
    assert_int_equal(pthread_create(&world.loop, NULL, loop_run, NULL), 0);
    assert_int_equal(pthread_create(&world.ticker, NULL, ticker_run, NULL), 0);
}

static int client_open(const char *method, const char *target)
{
    char text[128];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)wire_port(world.wire, WIRE_HTTP)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = 30};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    int size = snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: a\r\n\r\n", method, target);
    assert_int_equal(send(fd, text, (size_t)size, MSG_NOSIGNAL), size);
    return fd;
}

/* Reads until the connection ends, or until `until` has come. */
static char *client_read(int fd, const char *until)
{
    size_t size = 0, room = 1 << 20;
    char *text = must_calloc(1, room + 1);
    for (;;) {
        if (until && strstr(text, until)) return text;
        assert_true(size < room);
        ssize_t got = recv(fd, text + size, room - size, 0);
        assert_true(got >= 0);
        if (got == 0) return text;
        size += (size_t)got;
    }
}

static void wait_ended(int count)
{
    for (int i = 0; i < 30000 && atomic_load(&world.ended) < count; i++)
        nap();
    assert_int_equal(atomic_load(&world.ended), count);
}

static void world_end(void)
{
    wire_stop(world.wire, 20000);
    pthread_join(world.loop, NULL);
    assert_int_equal(atomic_load(&world.ended), atomic_load(&world.heads));
    atomic_store(&world.stops, true);
    pthread_join(world.ticker, NULL);
    wire_free(world.wire);
}

static void pieces_leave_one_after_the_other_until_the_connection_ends(void **unused)
{
    (void)unused;
    world_start();
    int fd = client_open("GET", "/count?5");
    char *text = client_read(fd, NULL);
    assert_non_null(strstr(text, "HTTP/1.1 200 OK\r\n"));
    assert_non_null(strstr(text, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(text, "Connection: close\r\n"));
    assert_non_null(strstr(text, "Cache-Control: no-store, no-transform\r\n"));
    assert_null(strstr(text, "Content-Length"));
    assert_string_equal(strstr(text, "\r\n\r\n") + 4,
                        "piece 0\npiece 1\npiece 2\npiece 3\npiece 4\n");
    free(text);
    close(fd);
    world_end();
}

static void head_has_the_head_and_ends(void **unused)
{
    (void)unused;
    world_start();
    int fd = client_open("HEAD", "/count?5");
    char *text = client_read(fd, NULL);
    assert_null(strstr(text, "Content-Length"));
    assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
    free(text);
    close(fd);
    wait_ended(1);
    assert_int_equal(atomic_load(&world.lost_total), 0);
    world_end();
}

static void a_reader_that_does_not_read_holds_one_piece(void **unused)
{
    (void)unused;
    world_start();
    int fd = client_open("GET", "/large");
    int before = -1;
    for (int same = 0; same < 200; nap()) { /* until the kernel takes no more */
        int now = atomic_load(&world.pieces);
        same = now == before && now > 0 ? same + 1 : 0;
        before = now;
    }
    close(fd);
    wait_ended(1); /* with a piece half written: there is nothing to be lost but the connection */
    world_end();
}

static void a_client_that_hangs_up_ends_its_stream(void **unused)
{
    (void)unused;
    world_start();
    atomic_store(&world.quiet, true);
    int away = client_open("GET", "/count?1000000");
    int half = client_open("GET", "/count?1000000");
    free(client_read(away, "piece"));
    free(client_read(half, "piece"));
    close(away);
    shutdown(half, SHUT_WR);
    free(client_read(half, NULL));
    wait_ended(2);
    assert_int_equal(atomic_load(&world.lost_total), 2);
    close(half);
    world_end();
}

static void a_stop_ends_streams_at_once(void **unused)
{
    (void)unused;
    world_start();
    atomic_store(&world.quiet, true);
    int fds[8];
    for (int i = 0; i < 8; i++) {
        fds[i] = client_open("GET", "/count?1000000");
        free(client_read(fds[i], "piece"));
    }
    time_t before = time(NULL);
    world_end();
    assert_true(time(NULL) - before < 20); /* not by the grace of 20 s running out */
    for (int i = 0; i < 8; i++) {
        free(client_read(fds[i], NULL));
        close(fds[i]);
    }
}

static void requests_behind_a_stream_go_unanswered(void **unused)
{
    (void)unused;
    world_start();
    int fd = client_open("GET", "/count?3");
    const char *more = "GET /count?3 HTTP/1.1\r\nHost: a\r\n\r\n";
    send(fd, more, strlen(more), MSG_NOSIGNAL);
    char *text = client_read(fd, NULL);
    assert_null(strstr(strstr(text, "HTTP/1.1") + 1, "HTTP/1.1"));
    free(text);
    close(fd);
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_leave_one_after_the_other_until_the_connection_ends),
        cmocka_unit_test(head_has_the_head_and_ends),
        cmocka_unit_test(a_reader_that_does_not_read_holds_one_piece),
        cmocka_unit_test(a_client_that_hangs_up_ends_its_stream),
        cmocka_unit_test(a_stop_ends_streams_at_once),
        cmocka_unit_test(requests_behind_a_stream_go_unanswered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
