/* conn_check.c -- the laws of conn.h, executed. */
#include "wire/conn.h"

#define BIT(block) (1u << (block))

/* What a connection may have while it rests in a state, that is whenever its loop is elsewhere. */
static const struct rest {
    unsigned blocks; /* what it may wait for */
    bool has_current;
    enum ticket_state current; /* the state of the ticket being read */
    bool reads;                /* it may hold input */
    bool timed;                /* a request has begun, and its time runs */
} rests[] = {
    [CONN_HEAD] = {BIT(BLOCK_NONE) | BIT(BLOCK_PIPELINE) | BIT(BLOCK_OUTPUT) | BIT(BLOCK_SHARE) |
                       BIT(BLOCK_MEMORY),
                   .reads = true},
    [CONN_LENGTH] = {BIT(BLOCK_NONE) | BIT(BLOCK_MEMORY), true, TICKET_READING, true, true},
    [CONN_CHUNKS] = {BIT(BLOCK_NONE) | BIT(BLOCK_MEMORY), true, TICKET_READING, true, true},
    [CONN_PACKED] = {BIT(BLOCK_MEMORY), true, TICKET_READY, true, true},
    [CONN_READY] = {BIT(BLOCK_BARRIER) | BIT(BLOCK_HOLD), true, TICKET_READY, true, true},
    [CONN_SWALLOW_LENGTH] = {.blocks = BIT(BLOCK_NONE) | BIT(BLOCK_MEMORY),
                             .reads = true,
                             .timed = true},
    [CONN_SWALLOW_CHUNKS] = {.blocks = BIT(BLOCK_NONE) | BIT(BLOCK_MEMORY),
                             .reads = true,
                             .timed = true},
    [CONN_COMMANDS] = {.blocks = BIT(BLOCK_NONE) | BIT(BLOCK_PIPELINE) | BIT(BLOCK_OUTPUT) |
                                 BIT(BLOCK_SHARE) | BIT(BLOCK_MEMORY),
                       .reads = true},
    [CONN_TRAIN] = {BIT(BLOCK_BARRIER) | BIT(BLOCK_HOLD), true, TICKET_READY, true, true},
    [CONN_DONE] = {.blocks = BIT(BLOCK_NONE)},
    [CONN_LINGER] = {.blocks = BIT(BLOCK_NONE)},
};

static void check_dead(const struct conn *conn)
{
    must(!conn->first);
    must(!conn->current);
    must(!conn->input.data);
    must(conn->tickets > 0 || conn->queued[QUEUE_DEAD]);
}

/* (6), ticket by ticket. */
static void count_tickets(const struct conn *conn)
{
    unsigned count = 0, unanswered = 0;
    size_t output_bytes = 0;
    for (const struct ticket *ticket = conn->first; ticket; ticket = ticket->next) {
        bool read = ticket->state == TICKET_READING || ticket->state == TICKET_READY;
        must(ticket->conn == conn);
        must(!ticket->orphaned);
        must(read == (ticket == conn->current));
        must(!ticket->rendered || ticket->state == TICKET_ANSWERED);
        must(!ticket->streaming || ticket == conn->first);
        must(ticket->next || ticket == conn->last);
        count++;
        unanswered += ticket->state != TICKET_ANSWERED;
        if (ticket->state == TICKET_ANSWERED)
            output_bytes += ticket->exchange.reply.body.size + CONN_TICKET_BYTES;
    }
    must(count <= conn->tickets);
    must(unanswered == conn->unanswered);
    must(output_bytes == conn->output_bytes);
}

void conn_check(const struct conn *conn)
{
    must(conn->magic == CONN_MAGIC);
    must(conn->unanswered <= conn->tickets);
    must((conn->paid > 0) == (conn->payer != NULL));
    must(conn->paid == 0 || conn->tickets > 0);
    if (conn->fd < 0) return check_dead(conn);

    const struct rest *rest = &rests[conn->state];
    must(rest->blocks & BIT(conn->block));
    must(rest->has_current == (conn->current != NULL));
    must(!conn->current || conn->current == conn->last);
    must(!conn->current || conn->current->state == rest->current);
    must(rest->reads || !conn->input.data);
    must(conn->input.at <= conn->input.size);
    must(!rest->timed || conn->request_ns != 0);
    must(rest->reads || conn->request_ns == 0);
    must(!conn->ended || !rest->reads);
    must(conn->state != CONN_LINGER || !conn->first);
    must((conn->first == NULL) == (conn->last == NULL));
    must(conn->first || (conn->unanswered == 0 && conn->output_bytes == 0 && conn->sent == 0));
    if (SLOW_CHECKS) count_tickets(conn);
}

static bool waits_in_vain(const struct conn *conn)
{
    const struct wire_config *config = &conn->worker->wire->config;
    switch (conn->block) {
    case BLOCK_NONE:
        return conn->readable && conn->state != CONN_DONE;
    case BLOCK_BARRIER:
        return conn->unanswered <= 1;
    case BLOCK_PIPELINE:
        return conn->unanswered < config->pipeline_max;
    case BLOCK_OUTPUT:
        return conn->output_bytes <= config->output_bytes_max;
    case BLOCK_SHARE:
        return !conn->first;
    case BLOCK_HOLD:
    case BLOCK_MEMORY:
        return !conn->queued[QUEUE_RETRY];
    }
    unreachable_state(conn->block);
}

void conn_check_rest(const struct conn *conn)
{
    if (!SLOW_CHECKS) return;
    conn_check(conn);
    if (conn->fd < 0) return;
    must(!waits_in_vain(conn) || conn->queued[QUEUE_WORK]);
    bool leaves = conn->first && conn->first->state == TICKET_ANSWERED && conn->writable;
    must(!leaves || conn->queued[QUEUE_FLUSH]);
    must(!conn->input.data || conn->input.data != conn->worker->inputs.scratch);
}
