/* load.c -- one poll loop over all connections. Replies are taken by their Content-Length; tally
 * and the servers that it is compared with always send one. */
#include "cli/load.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

#define DEPTH_MAX 1024u
#define EVENTS 256
#define BODY_MAX (64u << 20)
#define NS 1000000000.0
#define WAIT_NS_MAX 100000000

struct load_client {
    int fd;
    bool watching_write;
    struct buf out;
    size_t sent;
    struct buf in;
    int64_t *due_ns; /* when the requests under way were due, oldest first */
    unsigned first;
    unsigned under_way;
};

struct load {
    const struct load_config *config;
    struct load_report *report;
    int epoll_fd;
    struct load_client *clients;
    unsigned turn; /* whose turn it is in the open loop */
    int64_t start_ns;
    int64_t end_ns;
    uint64_t sent; /* requests */
    unsigned under_way;
    char *error;
    size_t error_size;
    bool broken;
};

static int64_t now_ns(void)
{
    return clock_mono_ns(&clock_system);
}

static void fail(struct load *load, const char *what, const char *why)
{
    if (!load->broken) snprintf(load->error, load->error_size, "%s: %s", what, why);
    load->broken = true;
}

/* -- Connections ------------------------------------------------------------------------------- */

static int connect_one(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;
    if (fd < 0) return -1;
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static bool clients_open(struct load *load)
{
    const struct load_config *config = load->config;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *address = NULL;
    int code = getaddrinfo(config->host, config->port, &hints, &address);
    if (code) {
        fail(load, config->host, gai_strerror(code));
        return false;
    }
    for (unsigned i = 0; i < config->connections && !load->broken; i++) {
        struct load_client *client = &load->clients[i];
        client->fd = connect_one(address);
        if (client->fd < 0) fail(load, "cannot connect", strerror(errno));
        client->due_ns = must_calloc(config->depth, sizeof *client->due_ns);
        buf_init(&client->out, SIZE_MAX / 2);
        buf_init(&client->in, BODY_MAX);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
        if (client->fd >= 0) epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, client->fd, &event);
    }
    freeaddrinfo(address);
    return !load->broken;
}

static void clients_close(struct load *load)
{
    for (unsigned i = 0; i < load->config->connections; i++) {
        struct load_client *client = &load->clients[i];
        if (!client->due_ns) continue;
        if (client->fd >= 0) close(client->fd);
        buf_release(&client->out);
        buf_release(&client->in);
        free(client->due_ns);
    }
    free(load->clients);
}

/* -- Sending ----------------------------------------------------------------------------------- */

static void watch_write(struct load *load, struct load_client *client, bool wanted)
{
    if (client->watching_write == wanted) return;
    struct epoll_event event = {.events = EPOLLIN | (wanted ? (uint32_t)EPOLLOUT : 0),
                                .data.ptr = client};
    epoll_ctl(load->epoll_fd, EPOLL_CTL_MOD, client->fd, &event);
    client->watching_write = wanted;
}

static void client_flush(struct load *load, struct load_client *client)
{
    while (client->sent < client->out.size) {
        ssize_t n = send(client->fd, (const char *)client->out.data + client->sent,
                         client->out.size - client->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) {
            fail(load, "cannot send", strerror(errno));
            return;
        }
        client->sent += (size_t)n;
    }
    bool all = client->sent == client->out.size;
    if (all) {
        buf_reset(&client->out);
        client->sent = 0;
    }
    watch_write(load, client, !all);
}

static void client_ask(struct load *load, struct load_client *client, int64_t due_ns)
{
    unsigned depth = load->config->depth;
    load->config->request(load->config->context, &client->out);
    client->due_ns[(client->first + client->under_way) % depth] = due_ns;
    client->under_way++;
    load->under_way++;
    load->sent++;
}

/* Closed loop: sends as many as there is room for. */
static void client_fill(struct load *load, struct load_client *client)
{
    int64_t now = now_ns();
    if (load->config->rate > 0 || now >= load->end_ns) return;
    while (client->under_way < load->config->depth)
        client_ask(load, client, now);
    client_flush(load, client);
}

static int64_t next_due_ns(const struct load *load)
{
    return load->start_ns + (int64_t)((double)load->sent / load->config->rate * NS);
}

/* The next connection with room; NULL: what is due waits, and its clock runs. */
static struct load_client *client_with_room(struct load *load)
{
    for (unsigned i = 0; i < load->config->connections; i++) {
        struct load_client *client = &load->clients[load->turn++ % load->config->connections];
        if (client->under_way < load->config->depth) return client;
    }
    return NULL;
}

/* Open loop: sends everything that is due by now. Returns when the next one will be. */
static int64_t send_due(struct load *load)
{
    int64_t due = next_due_ns(load);
    while (due <= now_ns() && due < load->end_ns && !load->broken) {
        struct load_client *client = client_with_room(load);
        if (!client) return INT64_MAX;
        client_ask(load, client, due);
        client_flush(load, client);
        due = next_due_ns(load);
    }
    return due;
}

/* -- Receiving --------------------------------------------------------------------------------- */

/* The whole reply at the start of `in`: its size, or 0 if it is not all there. */
static size_t reply_size(const struct load_client *client, struct bytes *body_out)
{
    const char *data = client->in.data;
    const char *end = memmem(data, client->in.size, "\r\n\r\n", 4);
    if (!end) return 0;
    size_t head = (size_t)(end - data) + 4;
    size_t length = 0;
    for (const char *at = data; at < end;) {
        const char *line = memchr(at, '\n', (size_t)(end + 2 - at));
        if (!line) break;
        at = line + 1;
        if (strncasecmp(at, "content-length:", 15) == 0) length = strtoul(at + 15, NULL, 10);
    }
    if (client->in.size < head + length) return 0;
    *body_out = bytes_of(data + head, length);
    return head + length;
}

static void take_reply(struct load *load, struct load_client *client, struct bytes body)
{
    struct load_report *report = load->report;
    bool good = memcmp(client->in.data, "HTTP/1.1 200", 12) == 0;
    if (good && load->config->check) good = load->config->check(load->config->context, body);
    int64_t took = now_ns() - client->due_ns[client->first];
    histogram_add(&report->latency_ns, took > 0 ? (uint64_t)took : 0);
    report->requests++;
    if (!good && report->failed++ == 0)
        snprintf(report->first_failure, sizeof report->first_failure, "%.*s", (int)body.size,
                 body.data);
    client->first = (client->first + 1) % load->config->depth;
    client->under_way--;
    load->under_way--;
}

static void client_receive(struct load *load, struct load_client *client)
{
    char room[64u << 10];
    ssize_t n = recv(client->fd, room, sizeof room, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
        fail(load, "the server closed a connection", n < 0 ? strerror(errno) : "no reason given");
        return;
    }
    buf_add(&client->in, bytes_of(room, (size_t)n));
    size_t used = 0;
    struct bytes body;
    for (size_t size;
         client->under_way > 0 && client->in.size > 12 && (size = reply_size(client, &body)) > 0;) {
        take_reply(load, client, body);
        memmove(client->in.data, (char *)client->in.data + size, client->in.size - size);
        client->in.size -= size;
        used += size;
    }
    if (used) client_fill(load, client);
}

/* -- The run ----------------------------------------------------------------------------------- */

/* Waits to the nanosecond: at ten thousand requests a second the next one is due within the
 * millisecond, and a generator that does not sleep until then takes a core from the server
 * that is measured. */
static int wait_for(const struct load *load, int64_t until_ns, struct epoll_event *events)
{
    int64_t left = (until_ns < load->end_ns ? until_ns : load->end_ns) - now_ns();
    if (until_ns == INT64_MAX || left > WAIT_NS_MAX) left = WAIT_NS_MAX;
    const struct timespec timeout = {.tv_nsec = left > 0 ? left : 0};
    return epoll_pwait2(load->epoll_fd, events, EVENTS, &timeout, NULL);
}

static void run(struct load *load)
{
    struct epoll_event events[EVENTS];
    int64_t patience_ns = load->end_ns + (int64_t)(10 * NS);
    for (unsigned i = 0; i < load->config->connections; i++)
        client_fill(load, &load->clients[i]);
    while (!load->broken && (now_ns() < load->end_ns || load->under_way > 0)) {
        int64_t due = load->config->rate > 0 ? send_due(load) : INT64_MAX;
        int count = wait_for(load, due, events);
        for (int i = 0; i < count && !load->broken; i++) {
            struct load_client *client = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) client_flush(load, client);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) client_receive(load, client);
        }
        if (now_ns() > patience_ns) fail(load, "no reply", "10 seconds after the end");
    }
}

bool load_run(const struct load_config *config, struct load_report *report_out, char *error_out,
              size_t error_size)
{
    must(config->connections > 0 && config->depth > 0 && config->depth <= DEPTH_MAX);
    struct load load = {.config = config,
                        .report = report_out,
                        .epoll_fd = epoll_create1(EPOLL_CLOEXEC),
                        .clients = must_calloc(config->connections, sizeof *load.clients),
                        .error = error_out,
                        .error_size = error_size};
    *report_out = (struct load_report){0};
    if (clients_open(&load)) {
        load.start_ns = now_ns();
        load.end_ns = load.start_ns + (int64_t)(config->seconds * NS);
        run(&load);
        report_out->seconds = (double)(now_ns() - load.start_ns) / NS;
        uint64_t due = (uint64_t)(config->rate * config->seconds);
        report_out->late = due > load.sent ? due - load.sent : 0;
    }
    clients_close(&load);
    close(load.epoll_fd);
    return !load.broken;
}
