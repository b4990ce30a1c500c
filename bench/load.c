/* load.c -- one load generator for all: the same loop speaks HTTP to tally and to the bare limit,
 * and RESP to Redis.
 *
 *     load http|redis HOST PORT WHAT TOKEN CONNECTIONS DEPTH KEYS SECONDS
 *
 * WHAT is `increment` or `get` of random keys or, for http, `event`, each with a fresh random UUID, or
 * a path to GET again and again. Each
 * connection has DEPTH requests under way, sent together; the next ones follow when all of them are
 * answered. Client and server share the machine's cores, so a client that costs more makes its
 * server look slower: everything is formatted before the clock starts, replies are only measured
 * out, and whoever is driven, the client does the same work around it. Prints one JSON line:
 *     {"ops":..,"seconds":..,"failed":..,"p50Ms":..,"p99Ms":..,"p999Ms":..,"maxMs":..,"clientCpuSeconds":..}
 * Times are of whole groups of DEPTH. A reply that is not 200, or an error of Redis, is `failed`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "event_id.h"

#define CONNECTIONS_MAX 4096
#define DEPTH_MAX 64
#define BODY_SIZE 256
#define GROUPS 2048 /* different ones, taken in turn */
#define IN_SIZE (32 << 10)
#define EVENTS 256
#define SAMPLES_MAX (4 << 20)

struct group {
    char *data;
    size_t size;
    size_t ids_at[DEPTH_MAX]; /* of events: where their ids stand */
};

struct conn {
    int fd;
    unsigned waiting; /* replies still to come */
    int64_t started_ns;
    size_t used;
    char in[IN_SIZE];
};

struct load {
    bool redis;
    bool events;
    const char *host, *port, *what, *token;
    unsigned connections, depth, keys;
    int epoll;
    int64_t now_ns, end_ns;
    struct group groups[GROUPS];
    uint64_t next, ops, failed;
    unsigned busy; /* connections with a group under way */
    size_t samples_count;
    int64_t *samples_ns;
};

static void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, errno ? strerror(errno) : "unexpected");
    exit(1);
}

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* -- Requests ---------------------------------------------------------------------------------- */

/* xorshift64: any keys will do, as long as they are spread and the same in every run. */
static unsigned draw(unsigned below)
{
    static uint64_t state = 88172645463325252ULL;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)(state % below);
}

#define BODY "{\"durationSeconds\":3600,\"timestamp\":\"2026-01-01T00:00:00Z\"}"
#define HOUR "durationSeconds=3600&timestamp=2026-01-01T00:00:00Z"

#define ID_MARK "\"eventId\":\""
#define EVENT                                                                             \
    "{\"eventId\":\"%0*d\",\"type\":\"page.viewed\",\"dimensions\":{\"page\":\"p%06u\"}," \
    "\"payload\":{\"ms\":%04u}}"

/* The request's body, or nothing. */
static void format_body(const struct load *load, char body[static BODY_SIZE])
{
    body[0] = '\0';
    if (load->events)
        snprintf(body, BODY_SIZE, EVENT, ID_SIZE, 0, draw(load->keys), 1000 + draw(9000));
    else if (strcmp(load->what, "increment") == 0)
        snprintf(body, BODY_SIZE, "%s", BODY);
}

static void format_http(const struct load *load, FILE *out)
{
    char body[BODY_SIZE];
    unsigned key = draw(load->keys);
    format_body(load, body);
    if (load->events)
        fprintf(out, "POST /api/events/bench HTTP/1.1\r\n");
    else if (body[0])
        fprintf(out, "POST /api/counters/bench/k%u/increment HTTP/1.1\r\n", key);
    else if (strcmp(load->what, "get") == 0)
        fprintf(out, "GET /api/counters/bench/k%u/get?" HOUR " HTTP/1.1\r\n", key);
    else
        fprintf(out, "GET %s HTTP/1.1\r\n", load->what);
    fprintf(out, "Host: %s:%s\r\nAuthorization: Bearer %s\r\n", load->host, load->port,
            load->token);
    if (body[0])
        fprintf(out, "Content-Type: application/json\r\nContent-Length: %zu\r\n", strlen(body));
    fprintf(out, "\r\n%s", body);
}

static void format_redis(const struct load *load, FILE *out)
{
    const char *verb = strcmp(load->what, "increment") == 0 ? "$4\r\nINCR" : "$3\r\nGET";
    fprintf(out, "*2\r\n%s\r\n$16\r\nkey:%012u\r\n", verb, draw(load->keys));
}

static void group_make(const struct load *load, struct group *group)
{
    FILE *out = open_memstream(&group->data, &group->size);
    if (!out) die("open_memstream");
    for (unsigned d = 0; d < load->depth; d++)
        load->redis ? format_redis(load, out) : format_http(load, out);
    fclose(out);
    const char *at = group->data;
    for (unsigned d = 0; load->events && d < load->depth; d++) {
        at = strstr(at, ID_MARK);
        if (!at) die("an event without an id");
        at += strlen(ID_MARK);
        group->ids_at[d] = (size_t)(at - group->data);
    }
}

static void groups_make(struct load *load)
{
    for (unsigned i = 0; i < GROUPS; i++)
        group_make(load, &load->groups[i]);
}

/* No connection is still sending the group: it fits a socket's buffer. */
static void renew_ids(const struct load *load, struct group *group)
{
    for (unsigned d = 0; load->events && d < load->depth; d++)
        if (!id_write(group->data + group->ids_at[d])) die("getrandom");
}

/* -- Replies ----------------------------------------------------------------------------------- */

/* The size of the first whole reply, or 0 if it is not all there. */
static size_t reply_http(const char *in, size_t size, bool *good)
{
    const char *end = memmem(in, size, "\r\n\r\n", 4);
    if (!end) return 0;
    size_t head = (size_t)(end - in) + 4;
    const char *length = memmem(in, head, "Content-Length: ", 16);
    if (!length) die("a reply without a length");
    size_t whole = head + strtoul(length + 16, NULL, 10);
    *good = memcmp(in, "HTTP/1.1 200", 12) == 0;
    return whole <= size ? whole : 0;
}

static size_t reply_redis(const char *in, size_t size, bool *good)
{
    const char *end = memchr(in, '\n', size);
    if (!end) return 0;
    size_t line = (size_t)(end - in) + 1;
    *good = in[0] == ':' || in[0] == '$';
    if (in[0] != '$') return line;
    size_t whole = line + strtoul(in + 1, NULL, 10) + 2;
    return whole <= size ? whole : 0;
}

/* -- Connections ------------------------------------------------------------------------------- */

static void conn_open(struct load *load, struct conn *conn)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(load->port, NULL, 10))};
    int yes = 1;
    conn->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (inet_pton(AF_INET, load->host, &address.sin_addr) != 1) die("host");
    if (connect(conn->fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
    if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, conn->fd, &event)) die("epoll_ctl");
}

/* A group fits a socket's buffer, so that sending never waits for long. */
static void conn_send(struct load *load, struct conn *conn)
{
    struct group *group = &load->groups[load->next++ % GROUPS];
    renew_ids(load, group);
    conn->waiting = load->depth;
    conn->started_ns = load->now_ns;
    if (send(conn->fd, group->data, group->size, MSG_NOSIGNAL) != (ssize_t)group->size) die("send");
}

static void conn_answered(struct load *load, struct conn *conn)
{
    if (load->samples_count < SAMPLES_MAX)
        load->samples_ns[load->samples_count++] = load->now_ns - conn->started_ns;
    if (load->now_ns < load->end_ns)
        conn_send(load, conn);
    else
        load->busy--;
}

static void conn_receive(struct load *load, struct conn *conn)
{
    ssize_t got = recv(conn->fd, conn->in + conn->used, IN_SIZE - 1 - conn->used, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) die("the server closed the connection, or a reply is too long");
    conn->used += (size_t)got;
    conn->in[conn->used] = '\0';
    size_t at = 0, size;
    bool good = true;
    while (conn->waiting) {
        size = load->redis ? reply_redis(conn->in + at, conn->used - at, &good)
                           : reply_http(conn->in + at, conn->used - at, &good);
        if (!size) break;
        if (!good && load->failed++ == 0)
            fprintf(stderr, "load: a reply: %.*s\n", (int)(size < 300 ? size : 300), conn->in + at);
        at += size;
        load->ops++;
        if (--conn->waiting == 0) conn_answered(load, conn);
    }
    memmove(conn->in, conn->in + at, conn->used - at);
    conn->used -= at;
}

/* -- All of it --------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double sample_ms(const struct load *load, double part)
{
    if (load->samples_count == 0) return 0;
    return (double)load->samples_ns[(size_t)((double)(load->samples_count - 1) * part)] / 1e6;
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void report(struct load *load, double seconds, double client_seconds)
{
    qsort(load->samples_ns, load->samples_count, sizeof *load->samples_ns, by_value);
    printf("{\"ops\":%llu,\"seconds\":%.6f,\"failed\":%llu,\"p50Ms\":%.3f,\"p99Ms\":%.3f,"
           "\"p999Ms\":%.3f,\"maxMs\":%.3f,\"clientCpuSeconds\":%.3f}\n",
           (unsigned long long)load->ops, seconds, (unsigned long long)load->failed,
           sample_ms(load, 0.5), sample_ms(load, 0.99), sample_ms(load, 0.999), sample_ms(load, 1),
           client_seconds);
}

static void run(struct load *load, struct conn *conns, double seconds)
{
    struct epoll_event events[EVENTS];
    double client_seconds = cpu_seconds();
    int64_t started_ns = load->now_ns = clock_ns();
    load->end_ns = started_ns + (int64_t)(seconds * 1e9);
    load->busy = load->connections;
    for (unsigned i = 0; i < load->connections; i++)
        conn_send(load, &conns[i]);
    while (load->busy) {
        int count = epoll_wait(load->epoll, events, EVENTS, 10000);
        if (count == 0) die("no reply for 10 seconds");
        load->now_ns = clock_ns();
        for (int i = 0; i < count; i++)
            conn_receive(load, events[i].data.ptr);
    }
    report(load, (double)(load->now_ns - started_ns) / 1e9, cpu_seconds() - client_seconds);
}

int main(int argc, char **argv)
{
    static struct load load;
    if (argc != 10) {
        fprintf(stderr,
                "usage: load http|redis HOST PORT increment|get|event|PATH TOKEN CONNECTIONS "
                "DEPTH KEYS SECONDS\n");
        return 2;
    }
    load.redis = strcmp(argv[1], "redis") == 0;
    load.host = argv[2], load.port = argv[3], load.what = argv[4], load.token = argv[5];
    load.events = strcmp(load.what, "event") == 0;
    load.connections = (unsigned)strtoul(argv[6], NULL, 10);
    load.depth = (unsigned)strtoul(argv[7], NULL, 10);
    load.keys = (unsigned)strtoul(argv[8], NULL, 10);
    if (!load.connections || load.connections > CONNECTIONS_MAX || !load.depth ||
        load.depth > DEPTH_MAX || !load.keys)
        return fprintf(stderr, "load: 1 to %d connections, 1 to %d deep\n", CONNECTIONS_MAX,
                       DEPTH_MAX),
               2;
    load.samples_ns = calloc(SAMPLES_MAX, sizeof *load.samples_ns);
    struct conn *conns = calloc(load.connections, sizeof *conns);
    load.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!load.samples_ns || !conns || load.epoll < 0) die("start");
    groups_make(&load);
    for (unsigned i = 0; i < load.connections; i++)
        conn_open(&load, &conns[i]);
    run(&load, conns, strtod(argv[9], NULL));
    return load.failed ? 1 : 0;
}
