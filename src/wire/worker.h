/* worker.h -- what one loop thread owns, and what all of them share. Internal to the wire. */
#ifndef TALLY_WIRE_WORKER_H
#define TALLY_WIRE_WORKER_H

#include "wire/ticket.h"
#include "wire/input.h"
#include "wire/loop.h"
#include "wire/reply.h"
#include "base/gzip.h"

struct conn;

/* Lists of connections that need something done. A connection is at most once in each, and is
 * freed only when it is in none, so a list never holds a dangling one. */
enum worker_queue {
    QUEUE_WORK,  /* go on parsing or reading, this turn or the next */
    QUEUE_FLUSH, /* write replies at the end of the turn */
    QUEUE_RETRY, /* blocked for want of room somewhere: try again when something was completed */
    QUEUE_DEAD,  /* free at the end of the turn, if nothing holds it any more */
    QUEUE_COUNT,
};

struct conn_list {
    struct conn *first;
    struct conn *last;
};

struct worker_stats { /* written by the owner only, read by any thread */
    atomic_ulong connections_total;
    atomic_ulong requests_total;
    atomic_ulong bytes_in;
    atomic_ulong bytes_out;
};

struct worker {
    struct inbox inbox; /* first, for its alignment */
    struct wire *wire;
    unsigned index;
    int epoll_fd;
    int64_t now_ns;  /* the turn's time */
    int64_t sent_ns; /* when it began to write replies */
    int64_t sweep_ns;
    int64_t retry_ns;
    unsigned kept; /* exchanges that are with the handler now */
    struct look look;
    bool stopping;
    struct reply_date date;
    struct ticket_pool tickets;
    struct input_pool inputs;
    struct unpacker unpacker;
    struct conn *open; /* every connection with a socket */
    struct conn_list queues[QUEUE_COUNT];
    unsigned conns_count;            /* structs alive, those without a socket included */
    atomic_uint conns_assigned;      /* open, and on their way here */
    _Atomic(struct conn *) arrivals; /* accepted by the listening loop for this one */
    struct worker_stats stats;
};

struct wire_listener {
    struct wire *wire;
    enum wire_protocol protocol;
    struct wire_handler handler;
    int fd; /* -1: closed, or never opened */
    unsigned port;
    bool watched; /* the accepting loop's own: false while out of file descriptors */
};

struct wire {
    struct wire_config config;
    struct wire_listener listeners[WIRE_PROTOCOLS]; /* by protocol */
    unsigned next_worker;
    atomic_uint conns_count;
    struct wire_budget budget;
    atomic_bool stop;
    _Atomic int64_t stop_deadline_ns;
    unsigned workers_count;
    struct worker *workers;
};

static inline void stat_add(atomic_ulong *stat, unsigned long value)
{
    unsigned long old = atomic_load_explicit(stat, memory_order_relaxed);
    atomic_store_explicit(stat, old + value, memory_order_relaxed);
}

void worker_push(struct worker *worker, enum worker_queue queue, struct conn *conn);
/* Empties a queue and calls `each` for what was in it. */
void worker_drain(struct worker *worker, enum worker_queue queue, void (*each)(struct conn *conn));

#endif
