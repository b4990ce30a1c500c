/* gzip_reply.c -- packs replies. */
#include "api/gzip_reply.h"

#include <stdlib.h>

#include "base/gzip.h"

#define GZIP_REPLY_BYTES_MIN 1024u /* a smaller one leaves in the same packet either way */

static void say_packed(struct exchange *exchange)
{
    exchange_header(exchange, "Content-Encoding", BYTES("gzip"));
}

static void say_varies(struct exchange *exchange)
{
    exchange_header(exchange, "Vary", BYTES("Accept-Encoding"));
}

void gzip_reply(struct exchange *exchange)
{
    struct reply *reply = &exchange->reply;
    if (reply->body.size <= GZIP_REPLY_BYTES_MIN) return;
    if (reply->fixed.data || reply->stream || reply->body.failed) return;
    say_varies(exchange);
    if (!exchange->request.takes_gzip) return;
    struct buf packed;
    buf_init(&packed, reply->body.max);
    if (!pack(buf_bytes(&reply->body), &packed)) {
        buf_release(&packed);
        return;
    }
    buf_release(&reply->body);
    buf_fit(&packed);
    reply->body = packed;
    say_packed(exchange);
}

/* Two threads may pack the same text at once; the result of the first one stays. */
static struct bytes packed_once(struct gzip_once *once, struct bytes text)
{
    struct buf *packed = atomic_load(&once->packed), *other = NULL;
    if (packed) return buf_bytes(packed);
    packed = must_calloc(1, sizeof *packed);
    buf_init(packed, text.size);
    if (!pack(text, packed)) buf_reset(packed);
    buf_fit(packed);
    if (atomic_compare_exchange_strong(&once->packed, &other, packed)) return buf_bytes(packed);
    buf_release(packed);
    free(packed);
    return buf_bytes(other);
}

void gzip_reply_fixed(struct exchange *exchange, struct bytes text, struct gzip_once *once)
{
    struct reply *reply = &exchange->reply;
    struct bytes packed = BYTES_NONE;
    reply->fixed = text;
    if (text.size <= GZIP_REPLY_BYTES_MIN) return;
    say_varies(exchange);
    if (exchange->request.takes_gzip) packed = packed_once(once, text);
    if (packed.size == 0) return;
    reply->fixed = packed;
    say_packed(exchange);
}

void gzip_reply_packed(struct exchange *exchange, struct bytes packed)
{
    struct reply *reply = &exchange->reply;
    if (exchange->request.takes_gzip) {
        reply->fixed = packed;
        say_varies(exchange);
        say_packed(exchange);
        return;
    }
    /* From here on it is a body like any other, and gzip_reply adds the headers. */
    struct unpacker unpacker = {0};
    size_t size;
    bool good = unpack_size(packed, &size);
    must(good);
    char *out = buf_reserve(&reply->body, size);
    good = out && unpack(&unpacker, packed, out, size);
    unpacker_release(&unpacker);
    must(good); /* it was compiled in */
    reply->body.size += size;
}
