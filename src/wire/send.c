/* send.c -- the writing half of a connection.
 *
 * The queue of tickets is the output buffer: replies are written straight from the tickets, as many
 * as are ready with one system call, and a ticket leaves the queue when its last byte is in the
 * kernel. So a client that does not read holds its own replies and nothing else. */
#include "wire/conn_internal.h"
#include "wire/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define SEND_BODY_BYTES_COPIED 2048u /* up to here a body is copied behind its head */
#ifdef TALLY_SMALL_WORLD
#define SEND_PIECES_MAX 4u
#else
#define SEND_PIECES_MAX 64u
#endif

struct ticket *conn_ticket_new(struct conn *conn)
{
    struct worker *worker = conn->worker;
    struct ticket *ticket = ticket_take(&worker->tickets, &worker->inbox);
    ticket->conn = conn;
    ticket->exchange.loop_index = worker->index;
    ticket->exchange.started_ns = conn->request_ns ? conn->request_ns : worker->now_ns;
    ticket->exchange.turn_ns = worker->now_ns;
    ticket->exchange.slot = &conn->slot;
    ticket->exchange.share = conn_share(conn);
    if (conn->last)
        conn->last->next = ticket;
    else
        conn->first = ticket;
    conn->last = ticket;
    conn->tickets++;
    conn->unanswered++;
    return ticket;
}

static void conn_pay_back(struct conn *conn)
{
    budget_give(&conn->worker->wire->budget, conn->payer, conn->paid * TICKET_ORDINARY_BYTES);
    conn->paid = 0;
    conn->payer = NULL;
}

/* A reply that never left ends in its turn, which may be long after the last writing. */
static void ticket_end(struct ticket *ticket)
{
    struct conn *conn = ticket->conn;
    const struct worker *worker = conn->worker;
    const struct wire_handler *handler = conn_handler(conn);
    if (ticket->exchange.charged) {
        budget_give(&conn->worker->wire->budget, ticket->exchange.share, ticket->exchange.charged);
        ticket->exchange.charged = 0;
    }
    ticket->exchange.ended_ns = worker->sent_ns > worker->now_ns ? worker->sent_ns : worker->now_ns;
    if (ticket->seen && handler->ended) handler->ended(handler->context, &ticket->exchange);
    if (!ticket->seen && handler->refused) handler->refused(handler->context, &ticket->exchange);
    ticket_give(&conn->worker->tickets, ticket);
    conn->tickets--;
    if (conn->tickets == 0 && conn->paid) conn_pay_back(conn);
    if (conn->tickets == 0 && conn->fd < 0) worker_push(conn->worker, QUEUE_DEAD, conn);
}

void conn_answered(struct ticket *ticket)
{
    struct conn *conn = ticket->conn;
    must(ticket->state != TICKET_ANSWERED);
    ticket->state = TICKET_ANSWERED;
    conn->unanswered--;
    if (ticket->exchange.reply.close) conn->closing = true;
    conn->output_bytes += ticket->exchange.reply.body.size + CONN_TICKET_BYTES;
    exchange_settle(&ticket->exchange);
    if (ticket == conn->first) worker_push(conn->worker, QUEUE_FLUSH, conn);
    if (conn->block == BLOCK_BARRIER || conn->block == BLOCK_PIPELINE)
        worker_push(conn->worker, QUEUE_WORK, conn);
}

void conn_completed(struct ticket *ticket)
{
    struct conn *conn = ticket->conn;
    const struct wire_handler *handler = conn_handler(conn);
    if (SLOW_CHECKS) conn_check(conn);
    must(ticket->state == TICKET_KEPT);
    if (!handler->complete(handler->context, &ticket->exchange)) {
        if (!ticket->streaming) conn->worker->kept++;
        return;
    }
    if (ticket->orphaned)
        ticket_end(ticket);
    else
        conn_answered(ticket);
    conn_check_rest(conn);
}

void conn_drop_tickets(struct conn *conn)
{
    struct ticket *ticket = conn->first;
    conn->first = conn->last = conn->current = NULL;
    conn->unanswered = 0;
    conn->output_bytes = conn->sent = 0;
    while (ticket) {
        struct ticket *next = ticket->next;
        ticket->next = NULL;
        if (ticket->state == TICKET_KEPT) {
            ticket->orphaned = true;
            if (ticket->streaming) stream_lost(ticket);
        } else {
            ticket_end(ticket);
        }
        ticket = next;
    }
}

static bool reply_has_body(const struct ticket *ticket)
{
    int status = ticket->exchange.reply.status;
    return !ticket->head_only && status != 204 && status != 304;
}

/* The body, if it is written from where it is. The body of a reply that is not rendered may be
 * another thread's: a stream's next piece. */
static struct bytes ticket_large_body(const struct ticket *ticket)
{
    if (!ticket->rendered || !reply_has_body(ticket)) return BYTES_NONE;
    struct bytes body = reply_body(&ticket->exchange.reply);
    return body.size > SEND_BODY_BYTES_COPIED ? body : BYTES_NONE;
}

/* A reply too large for its buffer is our limit, not the client's fault. */
static void ticket_check_reply(struct ticket *ticket)
{
    struct reply *reply = &ticket->exchange.reply;
    if (!reply->headers.failed && !reply->body.failed) return;
    size_t counted = reply->body.size;
    buf_reset(&reply->headers);
    exchange_error(&ticket->exchange, ERR_INTERNAL, NULL);
    ticket->conn->output_bytes += reply->body.size - counted;
}

static void ticket_render_head(struct ticket *ticket)
{
    struct conn *conn = ticket->conn;
    struct reply *reply = &ticket->exchange.reply;
    ticket_check_reply(ticket);
    bool closes = reply->close || (conn->state == CONN_DONE && !ticket->next);
    reply_render(&ticket->out, reply, &conn->worker->date,
                 closes                     ? REPLY_CLOSES
                 : ticket->keep_alive_named ? REPLY_STAYS_SAYING_SO
                                            : REPLY_STAYS);
    ticket->streaming = reply->stream;
    if (closes) conn->last_is_out = true;
}

static void ticket_render(struct ticket *ticket)
{
    if (ticket->streaming)
        stream_check_piece(ticket);
    else if (conn_speaks_resp(ticket->conn))
        commands_check_reply(ticket);
    else
        ticket_render_head(ticket);
    struct bytes body = reply_body(&ticket->exchange.reply);
    if (reply_has_body(ticket) && body.size <= SEND_BODY_BYTES_COPIED) buf_add(&ticket->out, body);
    must(!ticket->out.failed);
    exchange_settle(&ticket->exchange);
    ticket->rendered = true;
}

/* Makes the ticket's bytes as far as they can be made. False: nothing behind it may be sent. */
static bool ticket_prepare(struct ticket *ticket)
{
    if (ticket->rendered) return true;
    if (ticket->state == TICKET_ANSWERED) {
        ticket_render(ticket);
        return true;
    }
    if (ticket->interim) {
        ticket->interim = false;
        buf_add(&ticket->out, BYTES("HTTP/1.1 100 Continue\r\n\r\n"));
    }
    return false;
}

static void piece_add(struct iovec *pieces, size_t *count, struct bytes bytes, size_t *skip)
{
    size_t skipped = *skip < bytes.size ? *skip : bytes.size;
    *skip -= skipped;
    if (skipped == bytes.size) return;
    pieces[(*count)++] =
        (struct iovec){(char *)(uintptr_t)bytes.data + skipped, bytes.size - skipped};
}

/* Collects everything that may leave now, in order, up to the room in `pieces`. */
static size_t conn_gather(struct conn *conn, struct iovec *pieces)
{
    size_t count = 0;
    size_t skip = conn->sent;
    for (struct ticket *ticket = conn->first; ticket && count + 2 <= SEND_PIECES_MAX;
         ticket = ticket->next) {
        bool on = ticket_prepare(ticket);
        piece_add(pieces, &count, buf_bytes(&ticket->out), &skip);
        piece_add(pieces, &count, ticket_large_body(ticket), &skip);
        if (!on || ticket->exchange.reply.close) break;
    }
    return count;
}

/* Takes the tickets off the queue whose last byte is out. */
static void conn_sent(struct conn *conn, size_t bytes)
{
    struct worker *worker = conn->worker;
    stat_add(&worker->stats.bytes_out, bytes);
    conn->quiet_ns = worker->now_ns;
    conn->sent += bytes;
    while (conn->first && conn->first->rendered) {
        struct ticket *ticket = conn->first;
        size_t size = ticket->out.size + ticket_large_body(ticket).size;
        if (conn->sent < size) break;
        conn->sent -= size;
        conn->output_bytes -= ticket->exchange.reply.body.size + CONN_TICKET_BYTES;
        if (ticket->exchange.reply.stream && !ticket->head_only) {
            stream_drained(ticket);
            break;
        }
        conn->first = ticket->next;
        if (!conn->first) conn->last = NULL;
        bool last = ticket->exchange.reply.close;
        ticket_end(ticket);
        if (last) conn_drop_tickets(conn);
    }
    if (conn->block == BLOCK_SHARE && !conn->first) worker_push(worker, QUEUE_WORK, conn);
    if (conn->block == BLOCK_OUTPUT && conn->output_bytes <= worker->wire->config.output_bytes_max)
        worker_push(worker, QUEUE_WORK, conn);
}

/* True: all of it went out, and there may be more. */
static bool conn_write(struct conn *conn, struct iovec *pieces, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++)
        total += pieces[i].iov_len;
    ssize_t wrote;
    if (count == 1) {
        wrote = send(conn->fd, pieces[0].iov_base, total, MSG_NOSIGNAL);
    } else {
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
        wrote = sendmsg(conn->fd, &message, MSG_NOSIGNAL);
    }
    if (wrote < 0 && errno == EINTR) return true;
    if (wrote < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
        conn_close(conn);
        return false;
    }
    if (wrote > 0) conn_sent(conn, (size_t)wrote);
    if ((size_t)(wrote > 0 ? wrote : 0) == total) return true;
    if (conn->writable) conn->quiet_ns = conn->worker->now_ns;
    conn->writable = false;
    return false;
}

/* All replies are out. Closing now could make the kernel reset the connection, if the client is
 * still sending, and a reset may overtake the last reply (RFC 9112, 9.6): so shut our side, and
 * drop what comes until the client closes too. */
static void conn_part(struct conn *conn)
{
    if (conn->ended || shutdown(conn->fd, SHUT_WR) != 0) {
        conn_close(conn);
        return;
    }
    input_release(&conn->worker->inputs, &conn->input);
    conn->state = CONN_LINGER;
    conn->block = BLOCK_NONE;
    conn->request_ns = 0;
    conn->quiet_ns = conn->worker->now_ns;
    worker_push(conn->worker, QUEUE_WORK, conn);
}

static void conn_write_on(struct conn *conn)
{
    struct iovec pieces[SEND_PIECES_MAX];
    while (conn->writable) {
        size_t count = conn_gather(conn, pieces);
        if (count == 0 || !conn_write(conn, pieces, count)) break;
    }
    if (stream_ends_silently(conn)) conn_sent(conn, 0);
    if (conn->fd < 0 || conn->first) return;
    if (conn->last_is_out || conn->state == CONN_DONE) conn_part(conn);
}

void conn_flush(struct conn *conn)
{
    if (SLOW_CHECKS) conn_check(conn);
    if (conn->fd >= 0 && conn->state != CONN_LINGER) conn_write_on(conn);
    conn_check_rest(conn);
}
