/* forward.h -- a follower hands a request on to its primary, and the answer back (SPEC 13).
 *
 * Every request has a connection of its own: libcurl sends again what got no answer on one that was
 * used before, and a change must never be sent twice by anybody but its client. Any thread; each
 * waits for its answer. */
#ifndef TALLY_REPLICA_FORWARD_H
#define TALLY_REPLICA_FORWARD_H

#include <stdatomic.h>

#include "base/bytes.h"
#include "base/err.h"

/* Says that a follower has handed the request on; a follower that gets one does not. */
#define FORWARDED_HEADER "Tally-Forwarded"

struct forward;

/* `url` has no path, and outlives it. */
struct forward *forward_new(const char *url, int64_t timeout_ms);
void forward_stop(struct forward *forward); /* what is under way ends soon, with ERR_PRIMARY_DOWN */
void forward_free(struct forward *forward);

struct forward_request {
    const char *method;
    struct bytes path;   /* as sent */
    struct bytes query;  /* size 0: none */
    struct bytes fields; /* its header lines, as sent; those about its connection are left out */
    struct bytes body;
};

struct forward_reply {
    int status;
    struct buf *headers; /* whole lines, those about the connection left out */
    struct buf *content_type;
    struct buf *body;
    uint64_t sequence; /* in its Tally-Sequence; 0: it has none */
};

/* ERR_PRIMARY_DOWN: there is no answer, and what became of the request is not known. */
MUST_USE enum err forward_send(struct forward *forward, const struct forward_request *request,
                               struct forward_reply *reply);

#endif
