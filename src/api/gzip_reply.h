/* gzip_reply.h -- replies above 1 KiB leave gzipped where the client asks for it (SPEC 3).
 *
 * A reply is packed by the thread that made it, large ones by a thread of their own. Every reply
 * that could have been packed says `Vary: Accept-Encoding`, packed or not. HEAD says what GET
 * would. */
#ifndef TALLY_API_GZIP_REPLY_H
#define TALLY_API_GZIP_REPLY_H

#include <stdatomic.h>

#include "wire/exchange.h"

/* Packs the body of a finished reply, or leaves it: a small one, a fixed one, a stream's, one whose
 * client did not ask, or one that would come out no smaller. */
void gzip_reply(struct exchange *exchange);

/* A text that lasts as long as the process, all zero at first: it is packed at its first use, and
 * both forms are kept. */
struct gzip_once {
    _Atomic(struct buf *) packed;
};

/* Makes `text` the reply's fixed body, packed or as it is. */
void gzip_reply_fixed(struct exchange *exchange, struct bytes text, struct gzip_once *once);

/* The same of a text that there is only packed. */
void gzip_reply_packed(struct exchange *exchange, struct bytes packed);

#endif
