/* loop.h -- the listening sockets and their epoll loops, one per thread.
 *
 *     wire_open, then on each of `loops` threads wire_run(wire, index)
 *     ... wire_stop from anywhere; join the threads; wire_free
 *
 * A turn of a loop: wait; read and parse what arrived, calling the handler; give posted exchanges
 * to `complete`; `turn_end`; write every reply that is ready, one system call a connection. */
#ifndef TALLY_WIRE_LOOP_H
#define TALLY_WIRE_LOOP_H

#include "base/clock.h"
#include "base/look.h"
#include "wire/exchange.h"

struct wire;

/* What is spoken on a listening socket. */
enum wire_protocol { WIRE_HTTP, WIRE_RESP };
#define WIRE_PROTOCOLS 2u

/* A second listening socket, for Redis's protocol. */
struct wire_resp_config {
    const char *address;                /* NULL: there is none */
    unsigned port;                      /* 0: any free one */
    bool if_free;                       /* a port that is taken is no error */
    const struct wire_handler *handler; /* its `turn_end` is not called: the other's is */
    unsigned commands_max;              /* in one exchange */
    unsigned arguments_max;             /* a command may have */
    int64_t idle_ms; /* a connection that has shown a token; 0: may be silent for ever */
};

struct wire_config {
    const char *address; /* numeric IPv4 or IPv6 */
    unsigned port;       /* 0: any free one */
    struct wire_resp_config resp;
    unsigned loops;           /* threads that will call wire_run */
    unsigned connections_max; /* further ones are answered 503 and closed */
    size_t body_bytes_max;    /* limits.bodyBytes: over it 413 */
    size_t buffers_bytes_max; /* all large read buffers together; past it reading waits */
    unsigned pipeline_max;    /* unanswered exchanges of one connection; past it reading waits */
    size_t output_bytes_max;  /* unread replies of one connection; past it reading waits */
    int64_t idle_ms;          /* keep-alive connection without a request */
    int64_t request_ms;       /* from a request's first byte to its last */
    int64_t write_ms;         /* a reply that makes no progress */
    int64_t retry_ms;         /* for what waits for room, if nothing is answered before */
    /* How a loop looks for answers before it sleeps; busy are the exchanges it has given away. */
    struct look_limits look;
};

struct wire_stats { /* since the start, over all loops */
    uint64_t connections_open;
    uint64_t connections_total;
    uint64_t requests_total; /* whose head was valid */
    uint64_t bytes_in;
    uint64_t bytes_out;
    uint64_t bytes_held; /* at this moment, for requests: wire/budget.h */
};

/* Binds and listens. Config and handler are copied; `address` is used only here. On failure
 * `error_out` says why in one sentence. `turn_end`, `ended` and `closed` may be NULL. */
MUST_USE enum err wire_open(struct wire **wire_out, const struct wire_config *config,
                            const struct wire_handler *handler, char *error_out, size_t error_size);
/* 0: nothing of that protocol is listened for. */
unsigned wire_port(const struct wire *wire, enum wire_protocol protocol);

/* Runs loop `index` until wire_stop; the caller owns the thread. */
void wire_run(struct wire *wire, unsigned index);

/* Wakes every loop that has posted exchanges waiting, with one write each, and none for a loop
 * that is awake and going to look anyway. Any thread. */
void wire_wake(struct wire *wire);

/* Stops accepting and reading; the loops return once every kept exchange is answered and written,
 * or after `grace_ms`. Requests half read are answered 503. Any thread, also a signal handler's
 * self-pipe reader. */
void wire_stop(struct wire *wire, int64_t grace_ms);

void wire_stats(const struct wire *wire, struct wire_stats *stats_out);

/* To be called after every wire_run has returned, and only once no thread will post any more:
 * exchanges that were still kept when the grace ran out belong to their handler until then. */
void wire_free(struct wire *wire);

/* How many connections above `connections_max` are held at the same time, to be told that they are
 * too many: they take file descriptors, too. */
unsigned wire_refusals_max(unsigned connections_max);

#endif
