/* conn.h -- one client's connection: requests in, replies out, in order.
 *
 *     HEAD -> LENGTH or CHUNKS -> READY -> HEAD          a request, with its body, to the handler
 *             LENGTH or CHUNKS -> PACKED -> READY        the same of a gzipped body
 *     HEAD -> SWALLOW_LENGTH or SWALLOW_CHUNKS -> HEAD   refused at its head; the body is dropped
 *     COMMANDS -> TRAIN -> COMMANDS                      Redis's protocol, in commands.c
 *     any  -> DONE -> LINGER                             no more requests; replies still leave
 *     any  -> dead                                       no socket; waits for kept exchanges
 *
 * (1) A connection belongs to one loop thread; nothing here is called from another.
 * (2) Bytes are read only when they can be used: a connection that waits (for its barrier, for the
 *     handler's room, for its own replies to be read) leaves them in the kernel, and its client
 *     feels it.
 * (3) After a fault nothing more is parsed: the fault is answered and the connection closes.
 * (4) A connection is freed only between turns, without a socket, without a ticket, in no queue.
 * (5) What it may wait for, whether it holds input, whether a request's time runs and how far the
 *     ticket being read is, depends on its state: the table in conn_check.c. That ticket is the
 *     last one in the queue.
 * (6) What it counts is what is in its queue: tickets that are not answered, and bytes of replies
 *     that are. Several tickets are paid for together and by one payer, until none is left.
 * (7) It does not wait in vain: what it waits for is still to come, or a queue of its loop will
 *     bring it to work. A reply that may leave is on its way, or the socket is full.
 *
 * conn_check asserts (5) and (6) whenever a loop goes on reading a connection, and in slow builds
 * before it writes to one, too; conn_check_rest, in slow builds only, asserts all of them whenever
 * it leaves one. */
#ifndef TALLY_WIRE_CONN_H
#define TALLY_WIRE_CONN_H

#include "wire/chunks.h"
#include "wire/habit.h"
#include "wire/resp.h"
#include "wire/worker.h"

#define CONN_MAGIC 0x7a11c044u
#define CONN_PAID_AT_ONCE 16u  /* tickets */
#define CONN_TICKET_BYTES 512u /* what a waiting reply costs besides its body, about */

enum conn_state {
    CONN_HEAD,
    CONN_LENGTH,
    CONN_CHUNKS,
    CONN_PACKED,
    CONN_READY,
    CONN_SWALLOW_LENGTH,
    CONN_SWALLOW_CHUNKS,
    CONN_COMMANDS, /* where Redis's protocol is spoken: commands are being read */
    CONN_TRAIN,    /* several of them are whole and go to the handler together */
    CONN_DONE,
    CONN_LINGER, /* all is written and our side shut; drop what the client still sends */
};

enum conn_block {
    BLOCK_NONE,
    BLOCK_BARRIER,  /* until earlier tickets are answered */
    BLOCK_PIPELINE, /* until fewer tickets are unanswered */
    BLOCK_OUTPUT,   /* until the client has read its replies */
    BLOCK_SHARE,    /* until its replies are out: its share has no room for more requests */
    BLOCK_HOLD,     /* until the handler has room */
    BLOCK_MEMORY,   /* until there is budget for a large body */
};

struct conn {
    unsigned magic;
    int fd;                               /* -1: dead */
    const struct wire_listener *listener; /* where it came from, and so what it speaks */
    struct worker *worker;
    struct conn *open_next;
    struct conn *open_previous;
    struct conn *queue_next[QUEUE_COUNT];
    bool queued[QUEUE_COUNT];
    struct wire_share *slot; /* the API's */
    void *session;           /* the API's; only where Redis's protocol is spoken */
    size_t kept_bytes;       /* charged for it */

    enum conn_state state;
    enum conn_block block;
    bool readable;    /* the kernel may have bytes */
    bool hung_up;     /* ... and after them the end */
    bool ended;       /* the end was read */
    bool writable;    /* false: the socket was full; epoll will tell */
    bool refused;     /* one too many: it is told so and closed */
    bool closing;     /* a reply asked for the end: take no further request */
    bool last_is_out; /* a reply that says "close" was rendered */
    struct input input;
    struct http_head head;
    struct habit *habit; /* the header lines of the request before; NULL: this is the first */
    struct chunks chunks;
    struct resp_frames frames;
    size_t body_size;       /* decoded so far, if chunked; once READY, of what is unpacked */
    size_t request_size;    /* bytes of the request in `input`, once PACKED or READY */
    uint64_t swallow_left;  /* what is still to come of a body of known length */
    struct ticket *current; /* the ticket being read */
    int64_t request_ns;     /* when the first byte of the request being read came; 0: none did */

    struct ticket *first; /* the tickets in the order of their requests */
    struct ticket *last;
    unsigned tickets;    /* in the queue, and kept ones that left it */
    unsigned unanswered; /* those in the queue */
    unsigned paid; /* so many tickets are charged to `payer`; 0: none but the first is there */
    struct wire_share *payer;
    size_t sent;         /* bytes of `first` already written */
    size_t output_bytes; /* replies filled but not yet written */
    int64_t quiet_ns;    /* since when nothing was asked, or nothing could be written */
};

/* The share to which what the connection reads is charged. The slot's share lasts as long as the
 * connection does, however often the tenant of its requests changes. */
static inline struct wire_share *conn_share(const struct conn *conn)
{
    return conn->slot ? conn->slot : &conn->worker->wire->budget.nobody;
}

static inline const struct wire_handler *conn_handler(const struct conn *conn)
{
    return &conn->listener->handler;
}

static inline bool conn_speaks_resp(const struct conn *conn)
{
    return conn->listener->protocol == WIRE_RESP;
}

/* A connection for `fd` that belongs to no loop yet. */
struct conn *conn_new(int fd, const struct wire_listener *listener);
/* Takes it onto the calling loop. False: the loop could not watch it, and it is gone. */
bool conn_attach(struct worker *worker, struct conn *conn);
/* Something is to be read or may be written: `events` as epoll has them. */
void conn_event(struct conn *conn, uint32_t events);
/* Goes on after a wait. */
void conn_work(struct conn *conn);
/* Answers the request at hand with a fault, and reads no further. */
void conn_fail(struct conn *conn, enum fault fault);
/* Closes it if one of its timeouts has passed. */
void conn_check_time(struct conn *conn);
/* The server stops: no further request is taken. */
void conn_stop(struct conn *conn);
/* Ends it now, whatever is under way. */
void conn_close(struct conn *conn);
/* Frees a dead one that nothing holds any more. */
void conn_reap(struct conn *conn);

/* The laws above, in conn_check.c. */
void conn_check(const struct conn *conn);
void conn_check_rest(const struct conn *conn);

/* The writing half, in send.c. */

/* Puts a new ticket at the end of the queue. */
struct ticket *conn_ticket_new(struct conn *conn);
/* The ticket's reply is filled. It leaves at the end of the turn, if it is its turn. */
void conn_answered(struct ticket *ticket);
/* A kept ticket came back: lets the handler fill its reply. */
void conn_completed(struct ticket *ticket);
/* Writes what is ready. */
void conn_flush(struct conn *conn);
/* Lets go of every ticket; kept ones follow when they are posted. */
void conn_drop_tickets(struct conn *conn);

#endif
