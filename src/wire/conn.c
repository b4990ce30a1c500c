/* conn.c -- the reading half of a connection; conn.h shows its states.
 *
 * Sockets are watched edge-triggered and registered once, so a connection costs no epoll_ctl
 * however often it waits; `readable` and `writable` remember the edges. One read a turn keeps a
 * client that floods from holding up the others. */
#include "wire/conn_internal.h"
#include "wire/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MS INT64_C(1000000)
#define LINGER_MS 3000
#define LINGER_STOPPING_MS 200
#define LINGER_READ_BYTES (16u << 10)
#define NOT_GZIP "The body is not one whole gzip member."

struct conn *conn_new(int fd, const struct wire_listener *listener)
{
    struct conn *conn = must_calloc(1, sizeof *conn);
    conn->magic = CONN_MAGIC;
    conn->fd = fd;
    conn->listener = listener;
    conn->state = conn_speaks_resp(conn) ? CONN_COMMANDS : CONN_HEAD;
    conn->writable = true;
    return conn;
}

bool conn_attach(struct worker *worker, struct conn *conn)
{
    conn->worker = worker;
    conn->quiet_ns = worker->now_ns;
    conn->open_next = worker->open;
    if (worker->open) worker->open->open_previous = conn;
    worker->open = conn;
    worker->conns_count++;
    stat_add(&worker->stats.connections_total, 1);

    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = conn};
    if (epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) == 0) return true;
    conn_close(conn);
    return false;
}

void conn_close(struct conn *conn)
{
    struct worker *worker = conn->worker;
    if (conn->fd < 0) return;
    close(conn->fd);
    conn->fd = -1;
    input_release(&worker->inputs, &conn->input);
    if (conn->open_next) conn->open_next->open_previous = conn->open_previous;
    if (conn->open_previous)
        conn->open_previous->open_next = conn->open_next;
    else
        worker->open = conn->open_next;
    atomic_fetch_sub(&worker->conns_assigned, 1);
    atomic_fetch_sub(&worker->wire->conns_count, 1);
    conn_drop_tickets(conn);
    worker_push(worker, QUEUE_DEAD, conn);
}

void conn_reap(struct conn *conn)
{
    must(conn->magic == CONN_MAGIC && conn->fd < 0);
    if (conn->tickets) return; /* its last ticket brings it back */
    for (int queue = 0; queue < QUEUE_COUNT; queue++) {
        if (!conn->queued[queue]) continue;
        worker_push(conn->worker, QUEUE_DEAD, conn);
        return;
    }
    const struct wire_handler *handler = conn_handler(conn);
    if (conn->session) handler->left(handler->context, conn->session);
    if (conn->kept_bytes) budget_give(&conn->worker->wire->budget, conn->slot, conn->kept_bytes);
    if (conn->slot && handler->closed) handler->closed(handler->context, conn->slot);
    conn->worker->conns_count--;
    free(conn->habit);
    conn->magic = 0;
    free(conn);
}

/* The size of the request being read, if its head said it. */
static size_t conn_need(const struct conn *conn)
{
    if (conn->state == CONN_PACKED || conn->state == CONN_READY) return conn->request_size;
    if (conn->state == CONN_COMMANDS) return conn->frames.need;
    if (conn->state != CONN_LENGTH) return 0;
    return conn->head.size + (size_t)conn->head.content_length;
}

/* Where room is scarce a connection goes on one request at a time, as its own answers make room. */
bool conn_pay_ahead(struct conn *conn)
{
    struct wire_budget *budget = &conn->worker->wire->budget;
    struct wire_share *share = conn->payer ? conn->payer : conn_share(conn);
    if (!budget_is_half_free(budget, share)) return false;
    if (!budget_take(budget, share, CONN_PAID_AT_ONCE * TICKET_ORDINARY_BYTES)) return false;
    conn->payer = share;
    conn->paid += CONN_PAID_AT_ONCE;
    return true;
}

enum step conn_block(struct conn *conn, enum conn_block block)
{
    conn->block = block;
    if (block == BLOCK_HOLD || block == BLOCK_MEMORY) worker_push(conn->worker, QUEUE_RETRY, conn);
    return STEP_WAIT;
}

/* A wait that was not the client's doing is not counted against it. */
static void conn_unblock(struct conn *conn)
{
    if (conn->request_ns && conn->block != BLOCK_MEMORY && conn->block != BLOCK_NONE)
        conn->request_ns = conn->worker->now_ns;
    conn->block = BLOCK_NONE;
}

/* No further request is taken; the connection ends when the replies are out. */
enum step conn_finish_reading(struct conn *conn)
{
    conn->state = CONN_DONE;
    conn->block = BLOCK_NONE;
    conn->current = NULL;
    conn->request_ns = 0;
    input_release(&conn->worker->inputs, &conn->input);
    worker_push(conn->worker, QUEUE_FLUSH, conn);
    return STEP_WAIT;
}

enum step conn_refuse(struct conn *conn, enum fault fault)
{
    struct ticket *ticket = conn->current ? conn->current : conn_ticket_new(conn);
    ticket->interim = false;
    if (conn_speaks_resp(conn))
        commands_refuse(conn, fault, &ticket->exchange);
    else
        faults_reply(fault, &ticket->exchange);
    enum step step = conn_finish_reading(conn);
    conn_answered(ticket);
    return step;
}

void conn_fail(struct conn *conn, enum fault fault)
{
    (void)conn_refuse(conn, fault);
}

/* The request is done with; the next one begins behind it. */
static enum step conn_next(struct conn *conn, size_t request_size)
{
    bool last = conn->head.close || conn->closing || conn->worker->stopping;
    conn->input.at += request_size;
    must(conn->input.at <= conn->input.size);
    conn->head = (struct http_head){.habit = conn->habit};
    conn->current = NULL;
    conn->request_ns = 0;
    if (last) return conn_finish_reading(conn);
    conn->state = CONN_HEAD;
    return STEP_ON;
}

static bool conn_has_body(const struct conn *conn)
{
    return conn->head.chunked || conn->head.content_length > 0;
}

/* The handler answered on seeing the head. The body is dropped as it arrives. The connection ends
 * instead where waiting for the body costs more than that: it is too large, or the client waits for
 * a 100 Continue and may or may not send it now. */
static enum step conn_swallow(struct conn *conn)
{
    const struct http_head *head = &conn->head;
    uint64_t length = head->content_length;
    uint64_t length_max = conn->worker->wire->config.body_bytes_max;

    conn_answered(conn->current);
    conn->current = NULL;
    if (!conn_has_body(conn)) return conn_next(conn, head->size);
    if (head->close || head->expect_continue || length > length_max)
        return conn_finish_reading(conn);
    conn->input.at += head->size;
    conn->chunks = (struct chunks){.body_bytes_max = length_max};
    conn->swallow_left = length;
    conn->state = head->chunked ? CONN_SWALLOW_CHUNKS : CONN_SWALLOW_LENGTH;
    return STEP_ON;
}

/* The client may send it again in a coding that we know, which RFC 9110, 15.5.16 has us name. */
static enum step conn_refuse_coding(struct conn *conn)
{
    exchange_error(&conn->current->exchange, ERR_CODING, NULL);
    exchange_header(&conn->current->exchange, "Accept-Encoding", BYTES("gzip"));
    return conn_swallow(conn);
}

static void conn_expect_body(struct conn *conn, size_t here)
{
    const struct http_head *head = &conn->head;
    conn->current->interim = head->expect_continue && conn_has_body(conn) && here == head->size;
    if (conn->current->interim) worker_push(conn->worker, QUEUE_FLUSH, conn);
    conn->body_size = 0;
    conn->chunks = (struct chunks){.body_bytes_max = conn->worker->wire->config.body_bytes_max};
    conn->state = head->chunked ? CONN_CHUNKS : CONN_LENGTH;
}

static enum step conn_head_done(struct conn *conn, struct bytes here)
{
    const struct wire *wire = conn->worker->wire;
    const struct wire_handler *handler = conn_handler(conn);
    struct ticket *ticket = conn_ticket_new(conn);
    conn->current = ticket;
    ticket->seen = true;
    ticket->head_only = conn->head.method == HTTP_HEAD;
    ticket->keep_alive_named = conn->head.minor_zero && conn->head.keep_alive;
    http_head_request(&conn->head, here.data, &ticket->exchange.request);
    if (!conn->head.recalled) habit_learn(&conn->habit, &conn->head, here.data);
    stat_add(&conn->worker->stats.requests_total, 1);

    if (handler->head(handler->context, &ticket->exchange) == HEAD_REPLY) return conn_swallow(conn);
    if (conn->head.coding == CODING_OTHER && conn_has_body(conn)) return conn_refuse_coding(conn);
    if (conn->head.content_length > wire->config.body_bytes_max)
        return conn_refuse(conn, FAULT_BODY_SIZE);
    conn_expect_body(conn, here.size);
    return STEP_ON;
}

/* A line without text before a request is not yet the request's beginning: a client that ends its
 * requests with one empty line too many is idle, not slow. */
static bool is_blank(struct bytes here)
{
    return here.size <= 2 && bytes_starts(BYTES("\r\n"), here);
}

static enum step conn_read_head(struct conn *conn)
{
    const struct wire_config *config = &conn->worker->wire->config;
    if (conn->unanswered >= config->pipeline_max) return conn_block(conn, BLOCK_PIPELINE);
    if (conn->output_bytes > config->output_bytes_max) return conn_block(conn, BLOCK_OUTPUT);
    struct bytes here = input_bytes(&conn->input);
    if (here.size == 0) return STEP_MORE;
    if (!conn_may_hold_another(conn)) return conn_block(conn, BLOCK_SHARE);
    if (!conn->request_ns && !is_blank(here)) conn->request_ns = conn->worker->now_ns;

    switch (http_head_read(&conn->head, here.data, here.size)) {
    case HTTP_MORE:
        return STEP_MORE;
    case HTTP_FAULT:
        return conn_refuse(conn, conn->head.fault);
    case HTTP_DONE:
        return conn_head_done(conn, here);
    }
    unreachable_state(conn->state);
}

static enum step conn_ready(struct conn *conn, size_t request_size)
{
    conn->request_size = request_size;
    conn->current->state = TICKET_READY;
    conn->current->interim = false;
    conn->state = conn->head.coding == CODING_GZIP && conn->body_size ? CONN_PACKED : CONN_READY;
    return STEP_ON;
}

/* The whole request is here, so the connection can go on behind it. */
static enum step conn_refuse_body(struct conn *conn, enum err e, const char *sentence)
{
    exchange_error(&conn->current->exchange, e, sentence);
    conn_answered(conn->current);
    return conn_next(conn, conn->request_size);
}

/* Puts `own` in the place of the input: it has the unpacked body of `size` bytes where the packed
 * one stood, and gets the head and what came behind the request. */
static void conn_take_unpacked(struct conn *conn, struct input *own, size_t size)
{
    struct bytes here = input_bytes(&conn->input);
    size_t head_size = conn->head.size, behind = here.size - conn->request_size;
    memcpy(own->data, here.data, head_size);
    if (behind) memcpy(own->data + head_size + size, here.data + conn->request_size, behind);
    own->size = head_size + size + behind;
    input_release(&conn->worker->inputs, &conn->input);
    conn->input = *own;
    conn->body_size = size;
    conn->request_size = head_size + size;
    conn->state = CONN_READY;
}

/* The code that comes after this knows nothing of gzip. */
static enum step conn_unpack(struct conn *conn)
{
    struct worker *worker = conn->worker;
    struct bytes here = input_bytes(&conn->input);
    struct bytes packed = bytes_of(here.data + conn->head.size, conn->body_size);
    struct input own;
    size_t size, rest = here.size - (conn->request_size - conn->head.size);

    if (!unpack_size(packed, &size)) return conn_refuse_body(conn, ERR_INVALID, NOT_GZIP);
    if (size > worker->wire->config.body_bytes_max)
        return conn_refuse_body(conn, ERR_BODY_SIZE, NULL);
    if (!input_begin(&worker->inputs, &conn->input, conn_share(conn), rest + size, &own))
        return conn_block(conn, BLOCK_MEMORY);
    bool good = unpack(&worker->unpacker, packed, own.data + conn->head.size, size);
    conn_take_unpacked(conn, &own, size);
    return good ? STEP_ON : conn_refuse_body(conn, ERR_INVALID, NOT_GZIP);
}

static enum step conn_read_length(struct conn *conn)
{
    size_t need = conn_need(conn);
    struct bytes here = input_bytes(&conn->input);
    if (here.size > conn->head.size) conn->current->interim = false;
    if (here.size < need) return STEP_MORE;
    conn->body_size = (size_t)conn->head.content_length;
    return conn_ready(conn, need);
}

/* The decoded body stands right behind the head, the raw bytes right behind that. */
static enum step conn_read_chunks(struct conn *conn)
{
    struct input *input = &conn->input;
    size_t body_end = conn->head.size + conn->body_size;
    size_t raw_size = input->size - input->at - body_end;
    if (raw_size == 0) return STEP_MORE;
    conn->current->interim = false;

    size_t used, made;
    enum http_progress progress =
        chunks_decode(&conn->chunks, input->data + input->at + body_end, raw_size, &used, &made);
    conn->body_size += made;
    if (progress == HTTP_FAULT) return conn_refuse(conn, conn->chunks.fault);
    if (progress == HTTP_DONE) return conn_ready(conn, body_end + used);
    input->size = input->at + body_end + made;
    return STEP_MORE;
}

static enum step conn_dispatch(struct conn *conn)
{
    const struct wire_handler *handler = conn_handler(conn);
    struct ticket *ticket = conn->current;
    if (ticket->exchange.barrier && conn->unanswered > 1) return conn_block(conn, BLOCK_BARRIER);

    const char *data = conn->input.data + conn->input.at;
    http_head_request(&conn->head, data, &ticket->exchange.request);
    ticket->exchange.request.body = bytes_of(data + conn->head.size, conn->body_size);
    switch (handler->request(handler->context, &ticket->exchange)) {
    case REQUEST_HOLD:
        return conn_block(conn, BLOCK_HOLD);
    case REQUEST_KEPT:
        ticket->state = TICKET_KEPT;
        conn->worker->kept++;
        break;
    case REQUEST_ANSWERED:
        conn_answered(ticket);
        break;
    }
    return conn_next(conn, conn->request_size);
}

static enum step conn_swallow_length(struct conn *conn)
{
    size_t here = conn->input.size - conn->input.at;
    size_t take = conn->swallow_left < here ? (size_t)conn->swallow_left : here;
    conn->input.at += take;
    conn->swallow_left -= take;
    return conn->swallow_left ? STEP_MORE : conn_next(conn, 0);
}

static enum step conn_swallow_chunks(struct conn *conn)
{
    struct input *input = &conn->input;
    size_t used, made;
    enum http_progress progress = chunks_decode(&conn->chunks, input->data + input->at,
                                                input->size - input->at, &used, &made);
    input->at += used;
    if (progress == HTTP_DONE) return conn_next(conn, 0);
    /* The reply to this request is on its way already, so a fault can only end the connection. */
    return progress == HTTP_MORE ? STEP_MORE : conn_finish_reading(conn);
}

static enum step conn_step(struct conn *conn)
{
    switch (conn->state) {
    case CONN_HEAD:
        return conn_read_head(conn);
    case CONN_LENGTH:
        return conn_read_length(conn);
    case CONN_CHUNKS:
        return conn_read_chunks(conn);
    case CONN_PACKED:
        return conn_unpack(conn);
    case CONN_READY:
        return conn_dispatch(conn);
    case CONN_SWALLOW_LENGTH:
        return conn_swallow_length(conn);
    case CONN_SWALLOW_CHUNKS:
        return conn_swallow_chunks(conn);
    case CONN_COMMANDS:
        return commands_read(conn);
    case CONN_TRAIN:
        return commands_dispatch(conn);
    case CONN_DONE:
    case CONN_LINGER:
        return STEP_WAIT;
    }
    unreachable_state(conn->state);
}

/* Takes what is here as far as it goes. True: all of it was used, more may be read. */
static bool conn_advance(struct conn *conn)
{
    enum step step;
    do {
        step = conn_step(conn);
    } while (step == STEP_ON);
    return step == STEP_MORE;
}

/* The client will send nothing more; it may still be waiting for its replies. */
static void conn_input_ended(struct conn *conn)
{
    conn->ended = true;
    conn->readable = false;
    bool swallowing = conn->state == CONN_SWALLOW_LENGTH || conn->state == CONN_SWALLOW_CHUNKS;
    if (conn->request_ns && !swallowing && !conn_speaks_resp(conn))
        conn_fail(conn, FAULT_CUT_SHORT);
    else
        conn_finish_reading(conn);
}

static void conn_receive_failed(struct conn *conn)
{
    if (errno == EAGAIN || errno == EWOULDBLOCK)
        conn->readable = false;
    else if (errno == EINTR)
        worker_push(conn->worker, QUEUE_WORK, conn);
    else
        conn_close(conn);
}

static void conn_receive(struct conn *conn)
{
    struct worker *worker = conn->worker;
    size_t room;
    char *to = input_room(&worker->inputs, &conn->input, conn_share(conn), conn_need(conn), &room);
    if (!to) {
        conn_block(conn, BLOCK_MEMORY);
        return;
    }
    ssize_t got = recv(conn->fd, to, room, 0);
    if (got < 0) {
        conn_receive_failed(conn);
    } else if (got == 0) {
        conn_input_ended(conn);
    } else {
        stat_add(&worker->stats.bytes_in, (unsigned long)got);
        conn->input.size += (size_t)got;
        /* A short read took all there was; the next byte is a new edge, but the end, if it has
         * come already, is not. */
        if ((size_t)got < room) conn->readable = conn->hung_up;
        if (conn_advance(conn) && conn->readable) worker_push(worker, QUEUE_WORK, conn);
    }
}

static void conn_discard(struct conn *conn)
{
    char scrap[LINGER_READ_BYTES];
    ssize_t got = recv(conn->fd, scrap, sizeof scrap, 0);
    if (got > 0 || (got < 0 && errno == EINTR))
        worker_push(conn->worker, QUEUE_WORK, conn);
    else if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        conn->readable = false;
    else
        conn_close(conn);
}

static void conn_read_on(struct conn *conn)
{
    conn_unblock(conn);
    if (conn_advance(conn) && conn->readable) conn_receive(conn);
    if (conn->fd >= 0)
        input_stash(&conn->worker->inputs, &conn->input, conn_share(conn), conn_need(conn));
}

void conn_work(struct conn *conn)
{
    conn_check(conn);
    if (conn->fd < 0) return;
    if (conn->state != CONN_LINGER)
        conn_read_on(conn);
    else if (conn->readable)
        conn_discard(conn);
    conn_check_rest(conn);
}

static void conn_turn_to(struct conn *conn, uint32_t events)
{
    if ((events & EPOLLOUT) && !conn->writable) {
        conn->writable = true;
        worker_push(conn->worker, QUEUE_FLUSH, conn);
    }
    if (!(events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))) return;
    conn->readable = true;
    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) conn->hung_up = true;
    if (conn->hung_up && stream_is_open(conn)) { /* no client is left to read more */
        conn_close(conn);
        return;
    }
    if (conn->block == BLOCK_NONE) conn_work(conn);
}

void conn_event(struct conn *conn, uint32_t events)
{
    must(conn->magic == CONN_MAGIC);
    if (conn->fd >= 0) conn_turn_to(conn, events);
    conn_check_rest(conn);
}

static bool passed(const struct conn *conn, int64_t since_ns, int64_t limit_ms)
{
    return conn->worker->now_ns - since_ns > limit_ms * MS;
}

static void conn_request_timeout(struct conn *conn)
{
    if (conn->state == CONN_SWALLOW_LENGTH || conn->state == CONN_SWALLOW_CHUNKS)
        conn_finish_reading(conn);
    else
        conn_fail(conn, conn->block == BLOCK_MEMORY ? FAULT_MEMORY : FAULT_TIMEOUT);
}

void conn_check_time(struct conn *conn)
{
    const struct wire_config *config = &conn->worker->wire->config;
    bool waits_for_client = conn->block == BLOCK_NONE || conn->block == BLOCK_MEMORY;

    conn_check(conn);
    if (conn->state == CONN_LINGER) {
        int64_t linger_ms = conn->worker->stopping ? LINGER_STOPPING_MS : LINGER_MS;
        if (passed(conn, conn->quiet_ns, linger_ms)) conn_close(conn);
    } else if (!conn->writable) {
        if (passed(conn, conn->quiet_ns, config->write_ms)) conn_close(conn);
    } else if (conn->request_ns && waits_for_client) {
        if (passed(conn, conn->request_ns, config->request_ms)) conn_request_timeout(conn);
    } else if (!conn->request_ns && !conn->first) {
        int64_t idle_ms = commands_idle_ms(conn, config->idle_ms);
        if (idle_ms && passed(conn, conn->quiet_ns, idle_ms)) conn_close(conn);
    }
}

void conn_stop(struct conn *conn)
{
    bool swallowing = conn->state == CONN_SWALLOW_LENGTH || conn->state == CONN_SWALLOW_CHUNKS;
    conn_check(conn);
    if (stream_is_open(conn)) {
        conn_close(conn);
        return;
    }
    bool whole =
        conn->state == CONN_PACKED || conn->state == CONN_READY || conn->state == CONN_TRAIN;
    if (whole || conn->state == CONN_DONE || conn->state == CONN_LINGER) return;
    if (!conn->request_ns && !conn->first)
        conn_close(conn);
    else if (!conn->request_ns || swallowing)
        conn_finish_reading(conn);
    else
        conn_fail(conn, FAULT_STOPPING);
}
