/* bulk.c -- sends NDJSON batches of increments, or of events, as fast as the server takes them.
 *
 *     bulk HOST PORT PATH[,PATH..] TOKEN CONNECTIONS OPS KEYS SECONDS [RATE]
 *
 * A PATH below /api/events/ gets events, each with a fresh random UUID; any other gets increments.
 * Of several paths, which belong to several tenants, the requests have one each, in turn.
 * Every request is formatted before the clock starts, so that the client costs next to nothing; of
 * events only the ids are written anew for each sending.
 * Each connection has one request under way; with a RATE, of operations a second over all, it is
 * sent no sooner than that rate allows. Prints one JSON line:
 *     {"ops":..,"seconds":..,"requests":..,"failed":..,"p50Ms":..,"p99Ms":..}
 * A reply counts as failed if it is not 200 or reports any refused operation. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "event_id.h"

#define REQUESTS 16 /* different ones, taken in turn */
#define CONNECTIONS_MAX 64
#define SAMPLES_MAX (1 << 20)

struct request {
    char *data;
    size_t size;
    size_t ids_at;    /* of events: where the first id stands, */
    size_t line_size; /* and how far it is to the next */
};

struct conn {
    int fd;
    const struct request *sending;
    size_t sent;
    int64_t started_ns;
    size_t used;
    char in[8192]; /* the head of a reply and, as ?results=errors has it, a short body */
};

struct bulk {
    const char *host, *port, *token;
    const char *paths[REQUESTS];
    unsigned paths_count;
    unsigned connections, ops, keys;
    int64_t started_ns, end_ns;
    double rate; /* 0: as fast as it goes */
    struct request requests[REQUESTS];
    struct conn conns[CONNECTIONS_MAX];
    uint64_t done, failed, next;
    int64_t *samples_ns;
};

static void die(const char *what)
{
    fprintf(stderr, "bulk: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* xorshift64: any keys will do, as long as they are spread and the same in every run. */
static uint64_t draw(void)
{
    static uint64_t state = 88172645463325252ULL;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

#define EVENT_LINE                                                                        \
    "{\"eventId\":\"%0*d\",\"type\":\"page.viewed\",\"dimensions\":{\"page\":\"p%06u\"}," \
    "\"payload\":{\"ms\":%04u}}\n"

static bool sends_events(const struct bulk *bulk)
{
    return strncmp(bulk->paths[0], "/api/events/", 12) == 0;
}

static void renew_ids(const struct bulk *bulk, struct request *request)
{
    for (unsigned i = 0; i < bulk->ops; i++)
        if (!id_write(request->data + request->ids_at + i * request->line_size)) die("getrandom");
}

static void events_format(const struct bulk *bulk, FILE *out)
{
    for (unsigned i = 0; i < bulk->ops; i++)
        fprintf(out, EVENT_LINE, ID_SIZE, 0, (unsigned)(draw() % bulk->keys),
                (unsigned)(1000 + draw() % 9000));
}

static void increments_format(const struct bulk *bulk, FILE *out)
{
    for (unsigned i = 0; i < bulk->ops; i++)
        fprintf(out,
                "{\"op\":\"increment\",\"name\":\"k%u\",\"durationSeconds\":3600,"
                "\"timestamp\":\"2026-01-01T00:00:00Z\"}\n",
                (unsigned)(draw() % bulk->keys));
}

static void request_format(const struct bulk *bulk, struct request *request, const char *path)
{
    char *body = NULL;
    size_t body_size = 0;
    FILE *out = open_memstream(&body, &body_size);
    if (!out) die("open_memstream");
    if (sends_events(bulk))
        events_format(bulk, out);
    else
        increments_format(bulk, out);
    fclose(out);
    out = open_memstream(&request->data, &request->size);
    if (!out) die("open_memstream");
    fprintf(out,
            "POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"
            "Content-Type: application/x-ndjson\r\nContent-Length: %zu\r\n\r\n",
            path, bulk->host, bulk->token, body_size);
    fwrite(body, 1, body_size, out);
    fclose(out);
    free(body);
    request->line_size = body_size / bulk->ops;
    request->ids_at = request->size - body_size + strlen("{\"eventId\":\"");
}

static int connect_to(const struct bulk *bulk)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(bulk->port, NULL, 10))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (inet_pton(AF_INET, bulk->host, &address.sin_addr) != 1) die("host");
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return fd;
}

/* Waits until the rate allows one more request. */
static void pace(const struct bulk *bulk)
{
    if (bulk->rate <= 0) return;
    double due_ns = (double)bulk->done * bulk->ops / bulk->rate * 1e9;
    int64_t early_ns = bulk->started_ns + (int64_t)due_ns - now_ns();
    struct timespec pause = {early_ns / 1000000000, early_ns % 1000000000};
    if (early_ns > 0) nanosleep(&pause, NULL);
}

static void send_next(struct bulk *bulk, struct conn *conn)
{
    pace(bulk);
    /* A connection has an event request of its own: nobody else is sending it. */
    size_t index = sends_events(bulk) ? (size_t)(conn - bulk->conns) : bulk->next++ % REQUESTS;
    if (sends_events(bulk)) renew_ids(bulk, &bulk->requests[index]);
    conn->sending = &bulk->requests[index];
    conn->sent = conn->used = 0;
    conn->started_ns = now_ns();
}

static void send_more(struct conn *conn)
{
    ssize_t n = send(conn->fd, conn->sending->data + conn->sent, conn->sending->size - conn->sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN) die("send");
    if (n > 0) conn->sent += (size_t)n;
}

/* True once the whole reply is there. */
static bool receive(struct conn *conn)
{
    ssize_t n =
        recv(conn->fd, conn->in + conn->used, sizeof conn->in - 1 - conn->used, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) return false;
    if (n <= 0) die("the server closed the connection, or a reply is too long");
    conn->used += (size_t)n;
    conn->in[conn->used] = '\0';
    const char *end = strstr(conn->in, "\r\n\r\n");
    const char *length = strcasestr(conn->in, "\r\ncontent-length:");
    if (!end || !length) return false;
    return conn->used >= (size_t)(end + 4 - conn->in) + strtoul(length + 17, NULL, 10);
}

static void finish(struct bulk *bulk, struct conn *conn)
{
    bool good = strncmp(conn->in, "HTTP/1.1 200 ", 13) == 0 && !strstr(conn->in, "\"status\"");
    if (!good && bulk->failed++ == 0) fprintf(stderr, "bulk: a reply: %.300s\n", conn->in);
    if (bulk->done < SAMPLES_MAX) bulk->samples_ns[bulk->done] = now_ns() - conn->started_ns;
    bulk->done++;
}

static unsigned step(struct bulk *bulk)
{
    struct pollfd polls[CONNECTIONS_MAX];
    unsigned busy = 0;
    for (unsigned i = 0; i < bulk->connections; i++) {
        struct conn *conn = &bulk->conns[i];
        bool unsent = conn->sending && conn->sent < conn->sending->size;
        polls[i] = (struct pollfd){.fd = conn->sending ? conn->fd : -1,
                                   .events = unsent ? POLLIN | POLLOUT : POLLIN};
    }
    if (poll(polls, bulk->connections, 10000) <= 0) die("no reply for 10 seconds");
    for (unsigned i = 0; i < bulk->connections; i++) {
        struct conn *conn = &bulk->conns[i];
        if (polls[i].revents & POLLOUT) send_more(conn);
        if (polls[i].revents & (POLLIN | POLLHUP | POLLERR) && receive(conn)) {
            finish(bulk, conn);
            conn->sending = NULL;
            if (now_ns() < bulk->end_ns) send_next(bulk, conn);
        }
        busy += conn->sending != NULL;
    }
    return busy;
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void report(struct bulk *bulk, double seconds)
{
    size_t n = bulk->done < SAMPLES_MAX ? bulk->done : SAMPLES_MAX;
    qsort(bulk->samples_ns, n, sizeof *bulk->samples_ns, by_value);
    printf("{\"ops\":%llu,\"seconds\":%.6f,\"requests\":%llu,\"failed\":%llu,"
           "\"p50Ms\":%.3f,\"p99Ms\":%.3f}\n",
           (unsigned long long)(bulk->done * bulk->ops), seconds, (unsigned long long)bulk->done,
           (unsigned long long)bulk->failed, (double)bulk->samples_ns[n / 2] / 1e6,
           (double)bulk->samples_ns[n * 99 / 100] / 1e6);
}

static void paths_split(struct bulk *bulk, char *text)
{
    for (char *path; (path = strsep(&text, ",")) && bulk->paths_count < REQUESTS;)
        bulk->paths[bulk->paths_count++] = path;
}

int main(int argc, char **argv)
{
    static struct bulk bulk;
    if (argc != 9 && argc != 10) {
        fprintf(stderr, "usage: bulk HOST PORT PATH TOKEN CONNECTIONS OPS KEYS SECONDS [RATE]\n");
        return 2;
    }
    bulk.host = argv[1], bulk.port = argv[2], bulk.token = argv[4];
    paths_split(&bulk, argv[3]);
    bulk.connections = (unsigned)strtoul(argv[5], NULL, 10);
    bulk.ops = (unsigned)strtoul(argv[6], NULL, 10);
    bulk.keys = (unsigned)strtoul(argv[7], NULL, 10);
    if (!bulk.connections || bulk.connections > CONNECTIONS_MAX || !bulk.ops || !bulk.keys)
        return fprintf(stderr, "bulk: counts must be positive, connections at most 64\n"), 2;
    if (sends_events(&bulk) && bulk.connections > REQUESTS)
        return fprintf(stderr, "bulk: at most %d connections for events\n", REQUESTS), 2;
    bulk.samples_ns = calloc(SAMPLES_MAX, sizeof *bulk.samples_ns);
    if (!bulk.samples_ns) die("calloc");
    for (unsigned i = 0; i < REQUESTS; i++)
        request_format(&bulk, &bulk.requests[i], bulk.paths[i % bulk.paths_count]);
    for (unsigned i = 0; i < bulk.connections; i++)
        bulk.conns[i].fd = connect_to(&bulk);

    bulk.rate = argc > 9 ? strtod(argv[9], NULL) : 0;
    bulk.started_ns = now_ns();
    bulk.end_ns = bulk.started_ns + (int64_t)(strtod(argv[8], NULL) * 1e9);
    for (unsigned i = 0; i < bulk.connections; i++)
        send_next(&bulk, &bulk.conns[i]);
    while (step(&bulk))
        continue;
    report(&bulk, (double)(now_ns() - bulk.started_ns) / 1e9);
    return bulk.failed ? 1 : 0;
}
