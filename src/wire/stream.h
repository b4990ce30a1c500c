/* stream.h -- replies that go on, piece by piece, until their connection ends. Internal to the
 * wire; exchange.h says how a handler makes one.
 *
 *     KEPT -> ANSWERED -> KEPT -> ... -> ANSWERED, and the connection closes
 *       posted    written   posted
 *
 * (1) The bytes end with the connection (RFC 9112, 6.3): no length, no chunks, nothing to finish
 *     when a client, a proxy or the server itself goes away in the middle.
 * (2) One piece is under way at a time; what comes next is decided when the last byte has left.
 * (3) A client that hangs up is done listening: half-closed connections are closed. */
#ifndef TALLY_WIRE_STREAM_H
#define TALLY_WIRE_STREAM_H

#include "wire/conn.h"

static inline bool stream_is_open(const struct conn *conn)
{
    return conn->first && conn->first->streaming;
}

/* True once its last piece is empty, for no write will ever take that off the queue. */
static inline bool stream_ends_silently(const struct conn *conn)
{
    return stream_is_open(conn) && conn->first->rendered && conn->first->out.size == 0 &&
           conn->first->exchange.reply.body.size == 0;
}

/* Looks at the next piece before it is written. */
void stream_check_piece(struct ticket *ticket);
/* All of the piece is written: gives the exchange back to the handler. May close the connection. */
void stream_drained(struct ticket *ticket);
/* The connection went while the exchange was with the handler. */
void stream_lost(struct ticket *ticket);

#endif
