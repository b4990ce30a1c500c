/* reply.h -- a reply's status line and header block as bytes. */
#ifndef TALLY_WIRE_REPLY_H
#define TALLY_WIRE_REPLY_H

#include "wire/exchange.h"

static inline struct bytes reply_body(const struct reply *reply)
{
    return reply->fixed.data ? reply->fixed : buf_bytes(&reply->body);
}

enum reply_connection {
    REPLY_STAYS,           /* HTTP/1.1 says nothing when the connection stays */
    REPLY_STAYS_SAYING_SO, /* HTTP/1.0 with keep-alive */
    REPLY_CLOSES,
};

/* What does not change within a second, made once a second and used by every reply: the line
 * `Date: ...`, and the beginning of the usual reply, 200 with JSON, up to its length. */
struct reply_date {
    int64_t until_ns; /* by the monotonic clock; 0: never made */
    char line[40];
    char usual[128];
    size_t usual_size;
};

void reply_date_update(struct reply_date *date, int64_t mono_ns);

/* Appends the head, empty line included. 204 and 304 have no body and so no length, and a stream
 * (which has a content type) has none yet. A reply whose own buffers failed must have been replaced
 * before. */
void reply_render(struct buf *out, const struct reply *reply, const struct reply_date *date,
                  enum reply_connection connection);

#endif
