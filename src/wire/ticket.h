/* ticket.h -- an exchange together with what only the wire needs to know of it.
 *
 *     READING -> READY -> KEPT -> ANSWERED     one way only; any step may be skipped
 *                          \_________/          ... but a stream goes back to KEPT, wire/stream.h
 *
 * A ticket is born when its head is complete (or broken) and stands in its connection's queue, in
 * the order of requests, until its reply is written. Tickets are pooled per loop thread, with the
 * memory they have grown, so a steady state allocates nothing. */
#ifndef TALLY_WIRE_TICKET_H
#define TALLY_WIRE_TICKET_H

#include <stdatomic.h>

#include "wire/exchange.h"

#define TICKET_MAGIC 0x7a11ca11u
#define TICKET_ORDINARY_BYTES (5u << 10) /* what it may keep in the pool; more is charged */

struct conn;
struct ticket;

enum ticket_state {
    TICKET_READING,  /* its body is still arriving */
    TICKET_READY,    /* complete, but held back by its barrier or by the handler */
    TICKET_KEPT,     /* with the handler, until it is posted */
    TICKET_ANSWERED, /* its reply is filled */
};

/* Where other threads leave finished tickets for one loop. `asleep` spares the system call for a
 * loop that is going to look anyway. */
struct inbox {
    _Alignas(64) _Atomic(struct ticket *) newest;
    atomic_bool asleep;
    int event_fd;
};

struct ticket {
    struct exchange exchange;   /* first, so that an exchange is its ticket */
    struct ticket *next;        /* in the connection's queue, or in the pool */
    struct ticket *posted_next; /* in the inbox */
    struct inbox *inbox;
    struct conn *conn;
    enum ticket_state state;
    bool seen;             /* the handler knows it: `ended` is due */
    bool head_only;        /* the reply's body is not sent */
    bool keep_alive_named; /* an HTTP/1.0 client wants to read "keep-alive" */
    bool interim;          /* a 100 Continue is due, once it is this ticket's turn */
    bool rendered;         /* `out` holds the final head */
    bool streaming;        /* its reply's head is made, and it has no end yet */
    bool orphaned;         /* kept when its connection went: it ends when it comes back */
    struct buf out;        /* what goes before the body, and a small body too */
};

struct ticket_pool {
    struct ticket *free;
    unsigned count;
};

static inline struct ticket *ticket_of(struct exchange *exchange)
{
    must(exchange->magic == TICKET_MAGIC);
    return (struct ticket *)exchange;
}

/* A ticket with nothing in it; `inbox` is where exchange_post will bring it. */
struct ticket *ticket_take(struct ticket_pool *pool, struct inbox *inbox);
/* Empties it and puts it back. Memory for unusually large replies is let go. */
void ticket_give(struct ticket_pool *pool, struct ticket *ticket);
void ticket_pool_release(struct ticket_pool *pool);

void inbox_init(struct inbox *inbox, int event_fd);
void inbox_push(struct inbox *inbox, struct ticket *ticket); /* any thread */
struct ticket *inbox_take(struct inbox *inbox);              /* all of them, oldest first */
bool inbox_is_empty(struct inbox *inbox);
void inbox_wake(struct inbox *inbox); /* wakes the loop if something is in it and the loop sleeps */
void inbox_poke(struct inbox *inbox); /* wakes the loop in any case */

#endif
