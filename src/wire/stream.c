/* stream.c -- the pieces of a reply that goes on. */
#include "wire/stream.h"

static const struct wire_handler *handler_of(const struct ticket *ticket)
{
    return conn_handler(ticket->conn);
}

/* A piece that outgrew its buffer cannot become an error any more, since the head is out; the
 * client sees the end and comes again. */
void stream_check_piece(struct ticket *ticket)
{
    struct reply *reply = &ticket->exchange.reply;
    must(ticket->streaming && ticket->out.size == 0);
    if (reply->body.failed) {
        ticket->conn->output_bytes -= reply->body.size;
        buf_reset(&reply->body);
        reply->stream = false;
    }
}

void stream_drained(struct ticket *ticket)
{
    struct conn *conn = ticket->conn;
    must(ticket->streaming && ticket->state == TICKET_ANSWERED);
    must(ticket == conn->first);
    buf_reset(&ticket->out);
    buf_reset(&ticket->exchange.reply.body);
    ticket->rendered = false;
    ticket->state = TICKET_KEPT;
    conn->unanswered++;
    handler_of(ticket)->drained(handler_of(ticket)->context, &ticket->exchange);
    if (conn->hung_up) conn_close(conn);
}

void stream_lost(struct ticket *ticket)
{
    must(ticket->orphaned);
    handler_of(ticket)->lost(handler_of(ticket)->context, &ticket->exchange);
}
