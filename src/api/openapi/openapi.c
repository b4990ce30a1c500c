/* openapi.c -- the document as a whole, and the call that serves it. */
#include "api/openapi/openapi.h"

#include <pthread.h>

#include "api/call.h"
#include "api/endpoints.h"
#include "api/gzip_reply.h"
#include "api/openapi/parts.h"
#include "base/version.h"

#define TEXT_SIZE_MAX (1u << 20)

static struct buf text;

static const char about[] =
    "tally counts things exactly once and never loses a count.\n\n"
    "A reply with status 200 means: durable on disk, visible to every later read, and it survives "
    "`kill -9` and a power cut. 503 `storage_unavailable` means the outcome is unknown: send it again "
    "with the same key or event id. 64-bit values leave as decimal strings and are accepted as JSON "
    "integers or decimal strings. A field or "
    "query parameter that a call does not know is 400 `unknown_field`, and the sentence says what was "
    "probably meant; fields that begin with `x-` and parameters that begin with `_` are ignored, and "
    "`minSequence` and `consistency` are known everywhere and used by reads of a tenant. Lists are paged: `next` of one "
    "page is `after` of the next.\n\n"
    "A request's body may be gzipped (`Content-Encoding: gzip`), as one member; `limits.bodyBytes` "
    "holds for what is unpacked, and a retry with the same `Idempotency-Key` is the same request "
    "whether it is gzipped or not. Replies above 1 KiB are gzipped where `Accept-Encoding` asks for "
    "it, streams excepted.";

static void write_info(struct doc *doc)
{
    doc_text(doc, "openapi", "3.1.0");
    doc_open(doc, "info", '{');
    doc_text(doc, "title", "tally");
    doc_text(doc, "version", TALLY_VERSION);
    doc_text(doc, "description", about);
    doc_json(doc, "license", "{'name':'Apache-2.0','identifier':'Apache-2.0'}");
    doc_close(doc, '}');
    doc_json(doc, "servers", "[{'url':'/'}]");
    doc_json(doc, "security", "[{'bearer':[]}]");
}

static void write_text(void)
{
    struct doc doc = {.out = &text};
    buf_init(&text, TEXT_SIZE_MAX);
    doc_open(&doc, NULL, '{');
    write_info(&doc);
    openapi_write_calls(&doc);
    openapi_write_components(&doc);
    doc_close(&doc, '}');
    buf_add_char(&text, '\n');
    must(!text.failed);
}

struct bytes openapi_text(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, write_text);
    return buf_bytes(&text);
}

enum request_verdict openapi_get(struct call *call)
{
    call->exchange->reply.status = 200;
    static struct gzip_once packed;
    gzip_reply_fixed(call->exchange, openapi_text(), &packed);
    return REQUEST_ANSWERED;
}
