/* exchange.h -- one request and its reply, as the API sees them. It shows nothing of sockets.
 *
 * The wire calls the handler on the loop thread that owns the connection:
 *
 *     head      the header block is here, the body is not: route, authenticate, refuse early
 *     request   the whole request is here; answer now, or keep the exchange and answer later
 *     complete  an exchange kept earlier was posted back: fill its reply
 *     turn_end  everything readable has been read: a good moment to hand over what was collected
 *     ended     the exchange is about to be recycled
 *     refused   the same, for an exchange that the wire answered by itself
 *     closed    the connection is gone, and all its exchanges with it
 *     drained   what a stream has said so far is written: it may say more (see reply.stream)
 *     lost      the client of a stream that is with the handler is gone: post it, so that it ends
 *
 * Replies leave in the order of their requests, however they finish. An exchange lives until its
 * reply is written; if its connection dies first, it lives until it is finished or posted, and
 * `complete` is called for it all the same.
 *
 * Where Redis's protocol is spoken (wire/resp.h) an exchange is a train: all commands that one read
 * of the socket brought, as the body. `head` is not called. The reply's body is sent as it is, and
 * must not be empty. Requests that are not valid HTTP are answered by the
 * wire, and only `refused` sees them. */
#ifndef TALLY_WIRE_EXCHANGE_H
#define TALLY_WIRE_EXCHANGE_H

#include <stdatomic.h>

#include "base/arena.h"
#include "base/err.h"

#define WIRE_BODY_PADDING 64 /* readable bytes after every body, for the JSON parser */

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_POST,
    HTTP_PUT,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_PATCH,
    HTTP_OTHER, /* a valid token that is none of the above */
};

/* Views into the connection's buffer: valid until `request` returns (head's: until `head` does,
 * and again in `request`). Absent headers are BYTES_NONE (data NULL); empty ones have data. */
struct request {
    enum http_method method;
    struct bytes path;  /* as sent, not decoded, without the query; "*" only with OPTIONS */
    struct bytes query; /* as sent, without the '?' */
    struct bytes authorization;
    struct bytes content_type;
    struct bytes idempotency_key;
    struct bytes accept; /* the first one, if there are several */
    struct bytes fields; /* the header lines as sent, up to the empty one: request_field_next */
    bool takes_gzip;     /* Accept-Encoding asks for it */
    bool cloud_event;    /* `ce-specversion` is among them: a CloudEvent in binary mode */
    struct bytes body;
    uint64_t content_length; /* if known at `head`; 0 when chunked */
};

/* Takes the next header line off `*fields`, which is a request's at first. False: there is none.
 * For lines that few requests have; the others are in struct request. */
bool request_field_next(struct bytes *fields, struct bytes *name_out, struct bytes *value_out);
/* The value of the first line of the wanted name, whatever its case, or BYTES_NONE. */
struct bytes request_field(const struct request *request, struct bytes wanted);

/* Given to the handler empty. A body or header block that outgrew its buffer (`failed`) leaves as
 * 500 `internal` instead. HEAD is answered like GET; the wire leaves the body out. */
struct reply {
    int status;
    const char *content_type; /* static; NULL: application/json */
    struct buf headers;       /* whole further lines, each ending in CRLF: exchange_header */
    struct buf body;
    struct bytes fixed; /* if it has data: sent instead of `body`, never copied; lasts for ever */
    bool close;         /* end the connection after this reply */
    /* The reply goes on: `body` is its first piece. Once that is written, `drained` gives the
     * exchange back to the handler as if it were kept; when it is posted, `complete` puts the next
     * piece into the (empty) body, and so on until `stream` is false there. So a slow reader holds
     * one piece and never a backlog. It has no length and ends with its connection, so `close`
     * must be set too. Timeouts hold for writing it, not for its silence; a stop ends it. */
    bool stream;
    const char *cache_control; /* static; NULL: no-store */
};

struct input;

/* What the API puts into a connection's slot begins with this, all zero at first. Everything held
 * for the requests of the connections that have the same one is charged to it (wire/budget.h). The
 * fields are the wire's own. */
struct wire_share {
    atomic_size_t bytes;
    _Atomic(struct input *) beyond; /* the one that may grow as it needs */
};

struct exchange {
    unsigned magic;
    struct request request;
    struct reply reply;
    struct arena arena;  /* the request's memory; gone when the exchange ends */
    bool barrier;        /* set in `head`, or by a train with REQUEST_HOLD: hold `request` until
                            earlier exchanges are answered */
    unsigned loop_index; /* which loop owns it; 0 up to the configured count */
    int64_t started_ns;  /* when its first byte was parsed, by the monotonic clock */
    int64_t turn_ns;     /* when the turn began in which `head` was called */
    int64_t ended_ns;    /* when its reply left, or its connection; for `ended` */
    void *state;         /* the API's own; NULL when `head` is called */
    struct wire_share **slot; /* the connection's, for the API to fill once and for its life */
    void **session; /* the connection's, for the API's own use; only where Redis's protocol is
                       spoken, and only until `request` returns */
    size_t taken; /* set by `request` there: so many bytes of the body it took, and the rest, which
                       begins with a command, comes again with the next exchange */
    struct wire_share *share; /* whom its bytes are charged to: before `head` the slot's, which may
                                 give it another one that lasts until `ended` */
    size_t charged;           /* the wire's own */
};

enum head_verdict {
    HEAD_GO_ON, /* read the body, then call `request` */
    HEAD_REPLY, /* `reply` is filled: send it, swallow the body if there is one, keep the line */
};

enum request_verdict {
    REQUEST_ANSWERED, /* `reply` is filled */
    REQUEST_KEPT,     /* exchange_post will follow, from any thread, perhaps before this returns */
    REQUEST_HOLD,     /* no room: stop reading this connection, call `request` again soon */
};

struct wire_handler {
    void *context;
    enum head_verdict (*head)(void *context, struct exchange *exchange);
    enum request_verdict (*request)(void *context, struct exchange *exchange);
    /* False: it is not filled yet, but kept once more; exchange_post will follow again. */
    bool (*complete)(void *context, struct exchange *exchange);
    /* Once a turn, before the turn's replies are written: what is posted here leaves with them. */
    void (*turn_end)(void *context, unsigned loop_index);
    /* The exchange is about to be recycled; `state` may be let go. Called once for every exchange
     * that `head` saw, answered or not. */
    void (*ended)(void *context, struct exchange *exchange);
    /* For an exchange that `head` never saw. May be NULL. */
    void (*refused)(void *context, struct exchange *exchange);
    /* A connection with a non-NULL slot is gone, after the last of its exchanges has ended. */
    void (*closed)(void *context, struct wire_share *slot);
    /* A connection of Redis's protocol with a non-NULL session is gone, as for `closed`. */
    void (*left)(void *context, void *session);
    /* For streams; may be NULL if there are none. Not called for HEAD, whose reply just ends. */
    void (*drained)(void *context, struct exchange *exchange);
    void (*lost)(void *context, struct exchange *exchange);
};

/* Gives a kept exchange back to its loop. Any thread; wakes nobody by itself: call `wire_wake`
 * (wire/loop.h) once after posting a batch of them. */
void exchange_post(struct exchange *exchange);

/* Charges what the exchange holds now (arena and reply) and `more` bytes that it is going to hold.
 * False: its share, or the whole, has no room; then what was charged before stays charged. The
 * handler calls it before it holds memory for long: before it keeps the exchange, and while a reply
 * grows. Once answered, an exchange is charged what it really holds in any case, until that is let
 * go. */
MUST_USE bool exchange_reserve(struct exchange *exchange, size_t more);
/* The same without a bound: for what is held already. */
void exchange_settle(struct exchange *exchange);

/* Charges what the connection's session holds from now on, all of it together, until the connection
 * is gone. Only on its loop, and once its slot is filled. False: its share, or the whole, has no
 * room; then nothing was changed. */
MUST_USE bool exchange_keep(struct exchange *exchange, size_t bytes);

/* Fills the reply with {"error":..,"code":..}. `sentence` NULL: the table's. What was in the body
 * is dropped, header lines stay. Errors of overload bring `Retry-After: 1` along. */
void exchange_error(struct exchange *exchange, enum err e, const char *sentence);

/* Adds the line `name: value` to the reply. Control bytes in `value` become spaces, so no value
 * can smuggle in a line of its own. */
void exchange_header(struct exchange *exchange, const char *name, struct bytes value);

#endif
