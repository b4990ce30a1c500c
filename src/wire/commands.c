/* commands.c -- a connection on which Redis's protocol is spoken.
 *
 * What one read of the socket brought goes to the handler at once: the whole commands in it are one
 * exchange, a train. So a pipeline of a hundred commands costs one ticket, one push into the queue
 * and one reply, and none of its commands allocates anything. */
#include "wire/conn_internal.h"

/* Nobody who has shown no token makes the server keep more than this, as Redis has it. */
#define STRANGER_BYTES_MAX (16u << 10)
#define STRANGER_ARGUMENTS_MAX 10u

/* A connection whose slot the handler has filled has shown a token. */
static struct resp_limits limits_of(const struct conn *conn)
{
    const struct wire_config *config = &conn->worker->wire->config;
    struct resp_limits limits = {.bytes_max = config->body_bytes_max,
                                 .arguments_max = config->resp.arguments_max,
                                 .commands_max = config->resp.commands_max};
    if (conn->slot) return limits;
    if (limits.bytes_max > STRANGER_BYTES_MAX) limits.bytes_max = STRANGER_BYTES_MAX;
    limits.arguments_max = STRANGER_ARGUMENTS_MAX;
    limits.stranger = true;
    return limits;
}

/* Empty lines between commands are nobody's. */
static void skip_blanks(struct conn *conn)
{
    conn->input.at += conn->frames.whole;
    conn->frames.at -= conn->frames.whole;
    conn->frames.whole = 0;
    if (conn->frames.need) conn->frames.need = 0;
    if (input_bytes(&conn->input).size == 0) conn->request_ns = 0;
}

enum step commands_read(struct conn *conn)
{
    const struct wire_config *config = &conn->worker->wire->config;
    if (conn->unanswered >= config->pipeline_max) return conn_block(conn, BLOCK_PIPELINE);
    if (conn->output_bytes > config->output_bytes_max) return conn_block(conn, BLOCK_OUTPUT);
    struct bytes here = input_bytes(&conn->input);
    if (here.size == 0) return STEP_MORE;
    if (!conn_may_hold_another(conn)) return conn_block(conn, BLOCK_SHARE);
    if (!conn->request_ns) conn->request_ns = conn->worker->now_ns;

    struct resp_limits limits = limits_of(conn);
    enum fault fault = resp_frame(&conn->frames, here, &limits);
    if (conn->frames.commands == 0) {
        if (fault != FAULT_NONE) return conn_refuse(conn, fault);
        if (conn->frames.whole > 0) skip_blanks(conn);
        return STEP_MORE;
    }
    conn->current = conn_ticket_new(conn); /* what is wrong behind these is found again */
    conn->current->seen = true;
    conn->current->state = TICKET_READY;
    conn->current->exchange.session = &conn->session;
    conn->state = CONN_TRAIN;
    stat_add(&conn->worker->stats.requests_total, conn->frames.commands);
    return STEP_ON;
}

/* What the handler left of the train is looked at anew: it ended it for a reason that is rare. */
static void take_off(struct conn *conn, size_t taken)
{
    struct resp_frames *frames = &conn->frames;
    must(taken > 0 && taken <= frames->whole);
    bool all = taken == frames->whole;
    size_t at = frames->at - taken;
    uint32_t arguments_left = frames->arguments_left;
    size_t need = frames->need ? frames->need - taken : 0;
    *frames = (struct resp_frames){0};
    if (all)
        *frames = (struct resp_frames){.at = at, .arguments_left = arguments_left, .need = need};
    conn->input.at += taken;
    bool any = input_bytes(&conn->input).size > 0;
    conn->request_ns = any ? conn->worker->now_ns : 0;
}

enum step commands_dispatch(struct conn *conn)
{
    const struct wire_handler *handler = conn_handler(conn);
    struct ticket *ticket = conn->current;
    struct exchange *exchange = &ticket->exchange;
    if (exchange->barrier && conn->unanswered > 1) return conn_block(conn, BLOCK_BARRIER);
    exchange->request = (struct request){.method = HTTP_OTHER};
    exchange->request.body = bytes_of(conn->input.data + conn->input.at, conn->frames.whole);
    exchange->taken = conn->frames.whole;
    switch (handler->request(handler->context, exchange)) {
    case REQUEST_HOLD:
        return conn_block(conn,
                          exchange->barrier && conn->unanswered > 1 ? BLOCK_BARRIER : BLOCK_HOLD);
    case REQUEST_KEPT:
        ticket->state = TICKET_KEPT;
        conn->worker->kept++;
        if (exchange->reply.close) conn->closing = true;
        break;
    case REQUEST_ANSWERED:
        conn_answered(ticket);
        break;
    }
    take_off(conn, exchange->taken);
    conn->current = NULL;
    if (conn->closing || conn->worker->stopping) return conn_finish_reading(conn);
    conn->state = CONN_COMMANDS;
    return STEP_ON;
}

void commands_refuse(const struct conn *conn, enum fault fault, struct exchange *exchange)
{
    struct buf *body = &exchange->reply.body;
    buf_reset(body);
    buf_add(body, BYTES("-ERR "));
    if (fault == FAULT_RESP_EXPECTED)
        buf_addf(body, "Protocol error: expected '$', got '%c'", conn->frames.got);
    else if (fault == FAULT_CONNECTIONS)
        buf_add(body, BYTES("max number of clients reached"));
    else
        buf_add(body, bytes_str(faults_sentence(fault)));
    buf_add(body, BYTES("\r\n"));
    exchange->reply.close = true;
}

int64_t commands_idle_ms(const struct conn *conn, int64_t idle_ms)
{
    bool known = conn_speaks_resp(conn) && conn->slot;
    return known ? conn->worker->wire->config.resp.idle_ms : idle_ms;
}

/* A reply too large for its buffer is our limit; where the ones behind it begin, no client could
 * tell. */
void commands_check_reply(struct ticket *ticket)
{
    struct conn *conn = ticket->conn;
    struct reply *reply = &ticket->exchange.reply;
    if (reply->body.failed) {
        size_t counted = reply->body.size;
        buf_reset(&reply->body);
        buf_add(&reply->body, BYTES("-ERR the reply would be too large\r\n"));
        reply->close = true;
        conn->closing = true;
        conn->output_bytes += reply->body.size - counted;
    }
    must(reply->body.size > 0);
    if (reply->close || (conn->state == CONN_DONE && !ticket->next)) conn->last_is_out = true;
}
