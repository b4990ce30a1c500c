/* page.c -- the dashboard: one page and what it is made of.
 *
 * The page itself is small and asked for anew each time; it names its parts by their content, so
 * those may be kept for ever. Parts are compiled in compressed, and unpacked for the few clients
 * that do not take them so. */
#include "api/views/assets.h"
#include "api/call.h"
#include "api/endpoints.h"
#include "api/gzip_reply.h"

/* Nothing from elsewhere, nothing inline, no frame around it, no text that becomes markup. */
#define PAGE_POLICY                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "         \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " \
    "require-trusted-types-for 'script'; trusted-types 'none'"

static const struct asset *asset_find(struct bytes name)
{
    for (unsigned i = 0; i < assets_count; i++)
        if (bytes_equal(bytes_str(assets[i].name), name)) return &assets[i];
    return NULL;
}

/* Small files are compiled in unpacked, and so is the page, for which there is `packed`. */
static enum request_verdict answer(struct call *call, const struct asset *asset,
                                   struct gzip_once *packed)
{
    struct exchange *exchange = call->exchange;
    exchange->reply.status = 200;
    exchange->reply.content_type = asset->content_type;
    exchange_header(exchange, "X-Content-Type-Options", BYTES("nosniff"));
    exchange_header(exchange, "Referrer-Policy", BYTES("no-referrer"));
    exchange_header(exchange, "Cross-Origin-Resource-Policy", BYTES("same-origin"));
    if (asset->gzip)
        gzip_reply_packed(exchange, asset->body);
    else if (packed)
        gzip_reply_fixed(exchange, asset->body, packed);
    else
        exchange->reply.fixed = asset->body;
    return REQUEST_ANSWERED;
}

enum request_verdict page_get(struct call *call)
{
    const struct asset *page = asset_find(BYTES("index.html"));
    must(page != NULL && !page->gzip);
    exchange_header(call->exchange, "Content-Security-Policy", BYTES(PAGE_POLICY));
    exchange_header(call->exchange, "X-Frame-Options", BYTES("DENY"));
    exchange_header(call->exchange, "Cross-Origin-Opener-Policy", BYTES("same-origin"));
    static struct gzip_once packed;
    return answer(call, page, &packed);
}

/* The command that makes a token for this server, which the page shows to a person who has none.
 * Only `serve --dev` names paths of its own; elsewhere it is the command that works on every
 * installed server, so that the page tells strangers nothing. */
static enum request_verdict answer_command(struct call *call)
{
    const char *command = call->api->config.token_command;
    struct reply *reply = &call->exchange->reply;
    reply->status = 200;
    reply->content_type = "text/plain; charset=utf-8";
    exchange_header(call->exchange, "X-Content-Type-Options", BYTES("nosniff"));
    buf_addf(&reply->body, "%s\n", command ? command : "tally token --tenant NAME");
    return REQUEST_ANSWERED;
}

enum request_verdict page_asset(struct call *call)
{
    if (!call->name_malformed && bytes_equal(call->name, BYTES("token-command.txt")))
        return answer_command(call);
    const struct asset *asset = call->name_malformed ? NULL : asset_find(call->name);
    if (!asset || bytes_equal(call->name, BYTES("index.html")))
        return call_refuse(call, ERR_NOT_FOUND, NULL);
    call->exchange->reply.cache_control =
        asset->lasting ? "public, max-age=31536000, immutable" : "public, max-age=3600";
    return answer(call, asset, NULL);
}
