/* exchange.c -- what the API does to an exchange besides filling in its fields. */
#include "wire/exchange.h"

#include "wire/ticket.h"

void exchange_post(struct exchange *exchange)
{
    struct ticket *ticket = ticket_of(exchange);
    inbox_push(ticket->inbox, ticket);
}

void exchange_error(struct exchange *exchange, enum err e, const char *sentence)
{
    struct reply *reply = &exchange->reply;
    reply->status = err_status(e);
    reply->content_type = NULL;
    reply->stream = false;
    buf_reset(&reply->body);
    buf_add(&reply->body, BYTES("{\"error\":"));
    buf_add_json(&reply->body, bytes_str(sentence ? sentence : err_sentence(e)));
    buf_add(&reply->body, BYTES(",\"code\":"));
    buf_add_json(&reply->body, bytes_str(err_code(e)));
    buf_add_char(&reply->body, '}');
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
