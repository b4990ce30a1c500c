/* limit.c -- the bare limit: what this machine allows a server that answers only what is durable.
 *
 * One thread, one epoll loop. It finds the ends of HTTP/1.1 requests and nothing more, puts every
 * request read in one turn into one 4 KiB-aligned O_DIRECT write to a file that was zero-written
 * before, syncs it, and then answers them all. So it does the group commit that tally does and none
 * of the counting: no routing, no token, no JSON, no cells, no recovery. The bench says how near
 * tally comes to it.
 *
 *     limit FILE [PORT]        prints "limit ready on http://127.0.0.1:PORT"; ends on SIGTERM
 *
 * It is a measuring tool: whatever goes wrong ends it with a sentence. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILE_SIZE (64 << 20) /* the journal; the write position wraps around */
#define BLOCK 4096
#define TURN_BYTES_MAX (8 << 20)
#define READ_SIZE (64 << 10)
#define EVENTS_MAX 256

static const char REPLY[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                            "Cache-Control: no-store\r\nTally-Sequence: 0-1000000\r\n"
                            "Content-Length: 45\r\n\r\n"
                            "{\"net\":\"1000\",\"added\":\"1000\",\"subbed\":\"0000\"}";
#define REPLY_SIZE (sizeof(REPLY) - 1)

struct conn {
    int fd;
    unsigned answers; /* requests of this turn */
    bool ended;
    size_t used;
    char in[2 * READ_SIZE];
};

struct limit {
    int epoll;
    int listener;
    int file;
    off_t offset;
    size_t used;
    char *block; /* what this turn will write */
    struct conn *turn[EVENTS_MAX];
    unsigned turn_count;
};

static char replies[REPLY_SIZE * 1024];

static void die(const char *what)
{
    fprintf(stderr, "limit: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Zero-written, not only allocated: a sync must not have to change the file's metadata. */
static int file_make(const char *path, char *zeros, size_t zeros_size)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600);
    if (fd < 0) die(path);
    for (size_t done = 0; done < FILE_SIZE; done += zeros_size)
        if (write(fd, zeros, zeros_size) != (ssize_t)zeros_size) die("write");
    if (fsync(fd)) die("fsync");
    return fd;
}

static int listen_on(unsigned port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, 1024)) die("listen");
    if (getsockname(fd, (struct sockaddr *)&address, &size)) die("getsockname");
    printf("limit ready on http://127.0.0.1:%u\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

static void watch(struct limit *limit, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    if (epoll_ctl(limit->epoll, EPOLL_CTL_ADD, fd, &event)) die("epoll_ctl");
}

static void accept_all(struct limit *limit)
{
    int fd, yes = 1;
    while ((fd = accept4(limit->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        struct conn *conn = malloc(sizeof *conn);
        if (!conn) die("malloc");
        conn->fd = fd;
        conn->used = 0;
        conn->ended = false;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        watch(limit, fd, conn);
    }
}

/* The size of the first whole request in `in`, or 0 if it is not all there. */
static size_t request_size(const char *in, size_t size)
{
    const char *end = memmem(in, size, "\r\n\r\n", 4);
    if (!end) return 0;
    size_t head = (size_t)(end - in) + 4, body = 0;
    for (const char *line = in; (line = memchr(line, '\n', (size_t)(end - line)));) {
        line++;
        if (strncasecmp(line, "content-length:", 15) == 0) body = strtoul(line + 15, NULL, 10);
    }
    return head + body <= size ? head + body : 0;
}

/* Keeps the request line and the body; the headers in between change nothing. */
static void take_request(struct limit *limit, const char *request, size_t size)
{
    const char *body = (const char *)memmem(request, size, "\r\n\r\n", 4) + 4;
    size_t line_size = (size_t)((const char *)memchr(request, '\n', size) - request);
    size_t body_size = size - (size_t)(body - request);
    if (limit->used + line_size + body_size > TURN_BYTES_MAX) die("a turn is too large");
    memcpy(limit->block + limit->used, request, line_size);
    memcpy(limit->block + limit->used + line_size, body, body_size);
    limit->used += line_size + body_size;
}

static void read_requests(struct limit *limit, struct conn *conn)
{
    ssize_t got = recv(conn->fd, conn->in + conn->used, sizeof conn->in - 1 - conn->used, 0);
    if (got < 0 && errno == EAGAIN) return;
    conn->ended = got <= 0;
    conn->used += got > 0 ? (size_t)got : 0;
    conn->in[conn->used] = '\0';
    size_t at = 0, size;
    conn->answers = 0;
    while ((size = request_size(conn->in + at, conn->used - at))) {
        take_request(limit, conn->in + at, size);
        conn->answers++;
        at += size;
    }
    memmove(conn->in, conn->in + at, conn->used - at);
    conn->used -= at;
    if (conn->used == sizeof conn->in - 1) die("a request is too large");
    limit->turn[limit->turn_count++] = conn;
}

static void make_durable(struct limit *limit)
{
    size_t size = (limit->used + BLOCK - 1) / BLOCK * BLOCK;
    if (limit->offset + (off_t)size > FILE_SIZE) limit->offset = 0;
    memset(limit->block + limit->used, 0, size - limit->used);
    if (pwrite(limit->file, limit->block, size, limit->offset) != (ssize_t)size) die("pwrite");
    if (fdatasync(limit->file)) die("fdatasync");
    limit->offset += (off_t)size;
    limit->used = 0;
}

static void answer(struct conn *conn)
{
    size_t size = conn->answers * REPLY_SIZE;
    if (size > sizeof replies) die("too many requests on one connection");
    if (size && send(conn->fd, replies, size, MSG_NOSIGNAL) != (ssize_t)size) conn->ended = true;
    if (!conn->ended) return;
    close(conn->fd);
    free(conn);
}

static void turn(struct limit *limit)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait(limit->epoll, events, EVENTS_MAX, -1);
    limit->turn_count = 0;
    for (int i = 0; i < count; i++) {
        if (events[i].data.ptr)
            read_requests(limit, events[i].data.ptr);
        else
            accept_all(limit);
    }
    if (limit->used) make_durable(limit);
    for (unsigned i = 0; i < limit->turn_count; i++)
        answer(limit->turn[i]);
}

int main(int argc, char **argv)
{
    struct limit limit = {0};
    if (argc < 2) {
        fprintf(stderr, "usage: limit FILE [PORT]\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof replies; i += REPLY_SIZE)
        memcpy(replies + i, REPLY, REPLY_SIZE);
    limit.block = aligned_alloc(BLOCK, TURN_BYTES_MAX + BLOCK);
    if (!limit.block) die("aligned_alloc");
    memset(limit.block, 0, TURN_BYTES_MAX + BLOCK);
    limit.file = file_make(argv[1], limit.block, 1 << 20);
    limit.epoll = epoll_create1(EPOLL_CLOEXEC);
    limit.listener = listen_on(argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0);
    watch(&limit, limit.listener, NULL);
    for (;;)
        turn(&limit);
}
