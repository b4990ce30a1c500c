/* acceptor.c -- binds, accepts, and hands connections out. */
#include "wire/acceptor.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/conn.h"

#define ACCEPTOR_BACKLOG 4096
#define ACCEPTOR_ACCEPTS_A_TURN 64

/* The sockets accepted inherit TCP_NODELAY, which saves a system call each. */
static bool acceptor_bind(int fd, const struct addrinfo *address)
{
    const int on = 1;
    return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
           bind(fd, address->ai_addr, address->ai_addrlen) == 0 &&
           listen(fd, ACCEPTOR_BACKLOG) == 0;
}

static unsigned acceptor_port(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = {0}};
    socklen_t size = sizeof address;
    must(getsockname(fd, &address.any, &size) == 0);
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port : address.v4.sin_port);
}

void acceptor_init(struct wire *wire, const struct wire_handler *http)
{
    const struct wire_handler *handlers[WIRE_PROTOCOLS] = {
        [WIRE_HTTP] = http, [WIRE_RESP] = wire->config.resp.handler};
    for (unsigned i = 0; i < WIRE_PROTOCOLS; i++) {
        struct wire_listener *listener = &wire->listeners[i];
        *listener =
            (struct wire_listener){.wire = wire, .protocol = (enum wire_protocol)i, .fd = -1};
        if (handlers[i]) listener->handler = *handlers[i];
    }
}

static enum err listener_open(struct wire_listener *listener, const char *host, unsigned number,
                              char *error_out, size_t error_size)
{
    char port[8];
    snprintf(port, sizeof port, "%u", number & 0xffffu);
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *address = NULL;
    if (number > 65535 || getaddrinfo(host, port, &hints, &address) != 0) {
        snprintf(error_out, error_size, "%s:%u is not a numeric address and port", host, number);
        return ERR_INVALID;
    }
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || !acceptor_bind(fd, address)) {
        snprintf(error_out, error_size, "cannot listen on %s:%u: %s", host, number,
                 strerror(errno));
        if (fd >= 0) close(fd);
        freeaddrinfo(address);
        return ERR_INTERNAL;
    }
    freeaddrinfo(address);
    listener->fd = fd;
    listener->port = acceptor_port(fd);
    return ERR_OK;
}

enum err acceptor_open(struct wire *wire, char *error_out, size_t error_size)
{
    const struct wire_config *config = &wire->config;
    enum err e = listener_open(&wire->listeners[WIRE_HTTP], config->address, config->port,
                               error_out, error_size);
    if (e != ERR_OK || !config->resp.address) return e;
    e = listener_open(&wire->listeners[WIRE_RESP], config->resp.address, config->resp.port,
                      error_out, error_size);
    return config->resp.if_free ? ERR_OK : e;
}

static void watch(struct wire_listener *listener, bool on)
{
    if (listener->watched == on || listener->fd < 0) return;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};
    int what = on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;
    int epoll_fd = listener->wire->workers[0].epoll_fd;
    listener->watched = epoll_ctl(epoll_fd, what, listener->fd, &event) == 0 && on;
}

void acceptor_watch_all(struct wire *wire)
{
    for (unsigned i = 0; i < WIRE_PROTOCOLS; i++)
        watch(&wire->listeners[i], true);
}

void acceptor_close(struct wire *wire)
{
    for (unsigned i = 0; i < WIRE_PROTOCOLS; i++) {
        struct wire_listener *listener = &wire->listeners[i];
        watch(listener, false);
        if (listener->fd >= 0) close(listener->fd);
        listener->fd = -1;
    }
}

/* Chooses the loop with fewest connections; among equals, each in its turn. */
static struct worker *acceptor_choose(struct wire *wire)
{
    unsigned start = wire->next_worker++ % wire->workers_count;
    struct worker *best = &wire->workers[start];
    for (unsigned i = 1; i < wire->workers_count; i++) {
        struct worker *worker = &wire->workers[(start + i) % wire->workers_count];
        if (atomic_load(&worker->conns_assigned) < atomic_load(&best->conns_assigned))
            best = worker;
    }
    return best;
}

unsigned wire_refusals_max(unsigned connections_max)
{
    unsigned some = connections_max / 4 + 4;
    return some < 64 ? some : 64;
}

static void acceptor_assign(const struct wire_listener *listener, int fd)
{
    struct wire *wire = listener->wire;
    struct conn *conn = conn_new(fd, listener);
    unsigned before = atomic_fetch_add(&wire->conns_count, 1);
    conn->refused = before >= wire->config.connections_max;
    struct worker *worker = acceptor_choose(wire);
    atomic_fetch_add(&worker->conns_assigned, 1);

    struct conn *newest = atomic_load(&worker->arrivals);
    do {
        conn->open_next = newest;
    } while (!atomic_compare_exchange_weak(&worker->arrivals, &newest, conn));
    if (worker->index != 0) inbox_poke(&worker->inbox);
}

void acceptor_accept(struct wire_listener *listener)
{
    struct wire *wire = listener->wire;
    for (int i = 0; i < ACCEPTOR_ACCEPTS_A_TURN; i++) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
        if (fd < 0) {
            bool later = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
            if (later) watch(listener, false);
            return;
        }
        unsigned count = atomic_load(&wire->conns_count);
        unsigned most = wire->config.connections_max;
        if (count >= most + wire_refusals_max(most))
            close(fd);
        else
            acceptor_assign(listener, fd);
    }
}

void acceptor_arrivals(struct worker *worker)
{
    if (!atomic_load_explicit(&worker->arrivals, memory_order_relaxed)) return;
    struct conn *conn = atomic_exchange(&worker->arrivals, NULL);
    while (conn) {
        struct conn *next = conn->open_next;
        conn->open_next = NULL;
        bool refused = conn->refused;
        if (conn_attach(worker, conn) && refused) conn_fail(conn, FAULT_CONNECTIONS);
        conn = next;
    }
}
