/* exchange.c -- what the API does to an exchange besides filling in its fields. */
#include "wire/exchange.h"

#include "base/json_write.h"
#include "wire/conn.h"

void exchange_post(struct exchange *exchange)
{
    struct ticket *ticket = ticket_of(exchange);
    inbox_push(ticket->inbox, ticket);
}

/* Pooled tickets keep as much, so what is below costs nothing to hold. */
static size_t held_bytes(const struct ticket *ticket, size_t more)
{
    const struct exchange *exchange = &ticket->exchange;
    size_t held = exchange->arena.total + exchange->reply.headers.capacity +
                  exchange->reply.body.capacity + ticket->out.capacity + more;
    return held <= TICKET_ORDINARY_BYTES ? 0 : held;
}

static struct wire_budget *budget_of(const struct ticket *ticket)
{
    return &ticket->conn->worker->wire->budget;
}

bool exchange_reserve(struct exchange *exchange, size_t more)
{
    struct ticket *ticket = ticket_of(exchange);
    size_t held = held_bytes(ticket, more);
    if (held <= exchange->charged) return true;
    if (!budget_take(budget_of(ticket), exchange->share, held - exchange->charged)) return false;
    exchange->charged = held;
    return true;
}

void exchange_settle(struct exchange *exchange)
{
    struct ticket *ticket = ticket_of(exchange);
    size_t held = held_bytes(ticket, 0);
    if (held == exchange->charged) return;
    if (held > exchange->charged)
        budget_take_anyway(budget_of(ticket), exchange->share, held - exchange->charged);
    else
        budget_give(budget_of(ticket), exchange->share, exchange->charged - held);
    exchange->charged = held;
}

bool exchange_keep(struct exchange *exchange, size_t bytes)
{
    struct conn *conn = ticket_of(exchange)->conn;
    struct wire_budget *budget = &conn->worker->wire->budget;
    must(conn->slot != NULL);
    if (bytes > conn->kept_bytes) {
        if (!budget_take(budget, conn->slot, bytes - conn->kept_bytes)) return false;
    } else {
        budget_give(budget, conn->slot, conn->kept_bytes - bytes);
    }
    conn->kept_bytes = bytes;
    return true;
}

void exchange_error(struct exchange *exchange, enum err e, const char *sentence)
{
    struct reply *reply = &exchange->reply;
    reply->status = err_status(e);
    reply->content_type = NULL;
    reply->stream = false;
    reply->fixed = BYTES_NONE;
    buf_reset(&reply->body);
    json_open(&reply->body, JSON_ITEM, '{');
    json_add_error(&reply->body, e, sentence);
    json_close(&reply->body, '}');
    if (e == ERR_QUEUE_FULL || e == ERR_BUSY) exchange_header(exchange, "Retry-After", BYTES("1"));
}

void exchange_header(struct exchange *exchange, const char *name, struct bytes value)
{
    struct buf *headers = &exchange->reply.headers;
    buf_add(headers, bytes_str(name));
    buf_add(headers, BYTES(": "));
    for (size_t i = 0; i < value.size; i++) {
        unsigned char byte = (unsigned char)value.data[i];
        buf_add_char(headers, byte < 0x20 || byte == 0x7f ? ' ' : (char)byte);
    }
    buf_add(headers, BYTES("\r\n"));
}
