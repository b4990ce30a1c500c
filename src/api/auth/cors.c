/* cors.c -- the header lines of the Fetch standard, 3.2. */
#include "api/auth/cors.h"

/* Headers that a page's script may send and read besides those that every script may. */
#define REQUEST_HEADERS "Authorization, Content-Type, Content-Encoding, Idempotency-Key"
#define REPLY_HEADERS "Tally-Sequence, Idempotent-Replayed, Retry-After, WWW-Authenticate"
#define PREFLIGHT_SECONDS "3600"

static bool is_listed(const struct config_origins *origins, struct bytes origin)
{
    if (!origin.data) return false;
    for (unsigned i = 0; i < origins->count; i++)
        if (bytes_equal(bytes_str(origins->items[i]), origin)) return true;
    return origins->any;
}

void cors_begin(const struct config_origins *origins, struct exchange *exchange)
{
    if (!origins->any && origins->count == 0) return;
    struct bytes origin = request_field(&exchange->request, BYTES("Origin"));
    if (!origins->any) exchange_header(exchange, "Vary", BYTES("Origin"));
    if (!is_listed(origins, origin)) return;
    exchange_header(exchange, "Access-Control-Allow-Origin", origins->any ? BYTES("*") : origin);
    exchange_header(exchange, "Access-Control-Expose-Headers", BYTES(REPLY_HEADERS));
}

bool cors_preflight(const struct config_origins *origins, struct exchange *exchange,
                    const struct route_match *match)
{
    const struct request *request = &exchange->request;
    if (request->method != HTTP_OPTIONS || match->err != ERR_METHOD) return false;
    if (!is_listed(origins, request_field(request, BYTES("Origin")))) return false;
    if (!request_field(request, BYTES("Access-Control-Request-Method")).data) return false;
    exchange->reply.status = 204;
    exchange_header(exchange, "Access-Control-Allow-Methods", bytes_str(match->allow));
    exchange_header(exchange, "Access-Control-Allow-Headers", BYTES(REQUEST_HEADERS));
    exchange_header(exchange, "Access-Control-Max-Age", BYTES(PREFLIGHT_SECONDS));
    return true;
}
