/* calls.c -- the route table joined with openapi.def, as the document's paths.
 *
 * The route says method, path, token and scope; the lines after its CALL say the rest. Failures are
 * gathered by status: one response each, which lists its codes. */
#include <stdio.h>
#include <string.h>

#include "api/openapi/parts.h"
#include "api/route.h"

enum line_kind {
    LINE_TAG,
    LINE_CALL,
    LINE_PATH,
    LINE_QUERY,
    LINE_DIMENSIONS,
    LINE_HEADER,
    LINE_BODY,
    LINE_REPLY,
    LINE_REPLY_AS,
    LINE_SENDS,
    LINE_FAILS,
};
enum { MAY, NEED };

struct line {
    enum line_kind kind;
    const char *name; /* or a media type, or a summary */
    const char *type; /* or a tag */
    const char *example;
    const char *text;
    int need;
    int status; /* or an enum err */
};

static const struct line lines[] = {
#define TAG(name, text) {LINE_TAG, name, NULL, NULL, text, 0, 0},
#define CALL(route, tag, summary, text) {LINE_CALL, #route, tag, summary, text, 0, 0},
#define PATH(name, type, example, text) {LINE_PATH, name, type, example, text, NEED, 0},
#define QUERY(name, type, need, example, text) {LINE_QUERY, name, type, example, text, need, 0},
#define DIMENSIONS(example, text) {LINE_DIMENSIONS, NULL, NULL, example, text, MAY, 0},
#define HEADER(name, type, example, text) {LINE_HEADER, name, type, example, text, MAY, 0},
#define BODY(need, media, type, example) {LINE_BODY, media, type, example, NULL, need, 0},
#define REPLY(status, type, text) {LINE_REPLY, NULL, type, NULL, text, 0, status},
#define REPLY_AS(status, media, text) {LINE_REPLY_AS, media, NULL, NULL, text, 0, status},
#define SENDS(header) {LINE_SENDS, header, NULL, NULL, NULL, 0, 0},
#define FAILS(error) {LINE_FAILS, NULL, NULL, NULL, NULL, 0, ERR_##error},
#include "api/openapi/openapi.def"
};

/* One call: its route, and the lines from its CALL up to the next. */
struct call_doc {
    const struct route *route;
    const struct line *call;
    const struct line *end;
};

static bool find_call(const struct route *route, struct call_doc *doc_out)
{
    for (unsigned i = 0; i < ARRAY_COUNT(lines); i++) {
        if (lines[i].kind != LINE_CALL || strcmp(lines[i].name, route->name) != 0) continue;
        const struct line *end = &lines[i] + 1;
        while (end < lines + ARRAY_COUNT(lines) && end->kind != LINE_CALL && end->kind != LINE_TAG)
            end++;
        *doc_out = (struct call_doc){route, &lines[i], end};
        return true;
    }
    return false;
}

static const struct line *find_line(const struct call_doc *call, enum line_kind kind)
{
    for (const struct line *line = call->call + 1; line < call->end; line++)
        if (line->kind == kind) return line;
    return NULL;
}

/* -- Failures ---------------------------------------------------------------------------------- */

/* Every read of a tenant knows how far it is (api/position.h). */
static bool is_positioned(const struct route *route)
{
    return (route->flags & ROUTE_READ) && strstr(route->path, "{tenant}");
}

/* The failures that follow from the route alone: SPEC 3, "order of checks". Any body may be in a
 * coding that is not taken; see call_fails. */
static bool route_fails(const struct route *route, enum err e)
{
    bool has_token = !(route->flags & ROUTE_PUBLIC);
    switch (e) {
    case ERR_UNAUTHORIZED:
    case ERR_FORBIDDEN:
    case ERR_BUSY:
        return has_token;
    case ERR_UNKNOWN_FIELD:
        return !(route->flags & ROUTE_ANY_QUERY);
    case ERR_NOT_FOUND:
        return strstr(route->path, "{tenant}") != NULL;
    case ERR_INVALID:
    case ERR_POSITION:
        return is_positioned(route);
    default:
        return false;
    }
}

/* What a database of a newer version keeps from being done is what a database that is away does. */
static bool call_fails(const struct call_doc *call, enum err e)
{
    if (e == ERR_SCHEMA_NEWER || e == ERR_FEW_FOLLOWERS) e = ERR_STORAGE;
    for (const struct line *line = call->call + 1; line < call->end; line++)
        if (line->kind == LINE_FAILS && line->status == (int)e) return true;
    if (e == ERR_CODING) return find_line(call, LINE_BODY) != NULL;
    return route_fails(call->route, e);
}

static const char *status_text(int status, char text[4])
{
    text[0] = (char)('0' + status / 100);
    text[1] = (char)('0' + status / 10 % 10);
    text[2] = (char)('0' + status % 10);
    text[3] = '\0';
    return text;
}

static void write_codes(struct doc *doc, const struct call_doc *call, int status)
{
    doc_open(doc, "properties", '{');
    doc_open(doc, "code", '{');
    doc_open(doc, "enum", '[');
    for (enum err e = ERR_OK + 1; e < ERR_COUNT; e++)
        if (err_status(e) == status && call_fails(call, e)) doc_text(doc, NULL, err_code(e));
    doc_close(doc, ']');
    doc_close(doc, '}');
    doc_close(doc, '}');
}

/* Like "not found", or where several share the status: "`a`: .. `b`: ..". */
static void write_sentences(struct doc *doc, const struct call_doc *call, int status)
{
    struct buf text;
    buf_init(&text, 4096);
    for (enum err e = ERR_OK + 1; e < ERR_COUNT; e++)
        if (err_status(e) == status && call_fails(call, e))
            buf_addf(&text, "%s`%s`: %s", text.size ? "\n\n" : "", err_code(e), err_sentence(e));
    buf_add_char(&text, '\0');
    must(!text.failed);
    doc_text(doc, "description", text.data);
    buf_release(&text);
}

static void write_failure(struct doc *doc, const struct call_doc *call, int status)
{
    char key[4];
    doc_open(doc, status_text(status, key), '{');
    write_sentences(doc, call, status);
    if (status == err_status(ERR_QUEUE_FULL) || status == err_status(ERR_BUSY))
        doc_json(doc, "headers", "{'Retry-After':{'$ref':'#/components/headers/Retry-After'}}");
    if (status == err_status(ERR_UNAUTHORIZED))
        doc_json(doc, "headers",
                 "{'WWW-Authenticate':{'$ref':'#/components/headers/WWW-Authenticate'}}");
    doc_open(doc, "content", '{');
    doc_open(doc, "application/json", '{');
    doc_open(doc, "schema", '{');
    doc_text(doc, "$ref", "#/components/schemas/Error");
    write_codes(doc, call, status);
    doc_close(doc, '}');
    doc_close(doc, '}');
    doc_close(doc, '}');
    doc_close(doc, '}');
}

static void write_failures(struct doc *doc, const struct call_doc *call)
{
    for (int status = 400; status < 600; status++) {
        bool happens = false;
        for (enum err e = ERR_OK + 1; e < ERR_COUNT; e++)
            happens = happens || (err_status(e) == status && call_fails(call, e));
        if (happens) write_failure(doc, call, status);
    }
}

/* -- Replies ----------------------------------------------------------------------------------- */

static void write_sent_headers(struct doc *doc, const struct call_doc *call,
                               const struct line *reply)
{
    const struct line *line = reply + 1;
    bool sends = line < call->end && line->kind == LINE_SENDS;
    if (!sends && !is_positioned(call->route)) return;
    doc_open(doc, "headers", '{');
    if (is_positioned(call->route))
        doc_json(doc, "Tally-Sequence", "{'$ref':'#/components/headers/Tally-Sequence'}");
    for (; line < call->end && line->kind == LINE_SENDS; line++) {
        char reference[96];
        snprintf(reference, sizeof reference, "{'$ref':'#/components/headers/%s'}", line->name);
        doc_json(doc, line->name, reference);
    }
    doc_close(doc, '}');
}

static void write_reply(struct doc *doc, const struct call_doc *call, const struct line *reply)
{
    char key[4];
    bool json = reply->kind == LINE_REPLY;
    doc_open(doc, status_text(reply->status, key), '{');
    doc_text(doc, "description", reply->text);
    write_sent_headers(doc, call, reply);
    doc_open(doc, "content", '{');
    doc_open(doc, json ? "application/json" : reply->name, '{');
    doc_type(doc, "schema", json ? bytes_str(reply->type) : BYTES("string"));
    doc_close(doc, '}');
    doc_close(doc, '}');
    doc_close(doc, '}');
}

static void write_replies(struct doc *doc, const struct call_doc *call)
{
    doc_open(doc, "responses", '{');
    for (const struct line *line = call->call + 1; line < call->end; line++)
        if (line->kind == LINE_REPLY || line->kind == LINE_REPLY_AS) write_reply(doc, call, line);
    write_failures(doc, call);
    doc_json(doc, "default",
             "{'description':'Anything that can go wrong with any request: framing, size of the "
             "headers, time, an error inside the server.',"
             "'content':{'application/json':{'schema':{'$ref':'#/components/schemas/Error'}}}}");
    doc_close(doc, '}');
}

/* -- What is sent ------------------------------------------------------------------------------ */

static void write_parameter(struct doc *doc, const char *place, const struct line *line)
{
    doc_open(doc, NULL, '{');
    doc_text(doc, "name", line->name);
    doc_text(doc, "in", place);
    doc_bool(doc, "required", line->need == NEED);
    doc_text(doc, "description", line->text);
    doc_type(doc, "schema", bytes_str(line->type));
    if (line->example) doc_json(doc, "example", line->example);
    doc_close(doc, '}');
}

/* OpenAPI has no word for "any parameter that begins so": an object whose members are parameters of
 * their own comes closest, and says it exactly. */
static void write_dimensions(struct doc *doc, const struct line *line)
{
    doc_open(doc, NULL, '{');
    doc_text(doc, "name", "dimensions");
    doc_text(doc, "in", "query");
    doc_text(doc, "description", line->text);
    doc_json(doc, "style", "'form'");
    doc_bool(doc, "explode", true);
    doc_json(doc, "schema",
             "{'type':'object','propertyNames':{'pattern':'^dim[.].+'},"
             "'additionalProperties':{'type':'string'}}");
    if (line->example) doc_json(doc, "example", line->example);
    doc_close(doc, '}');
}

static void write_path_parameters(struct doc *doc, const struct call_doc *call)
{
    static const struct line tenant = {
        LINE_PATH, "tenantId", "TenantId", NULL, "The token's tenant.", NEED, 0};
    static const struct line name = {LINE_PATH,      "name", "Name", "'visits'",
                                     "The counter.", NEED,   0};
    if (strstr(call->route->path, "{tenant}")) write_parameter(doc, "path", &tenant);
    const struct line *own = find_line(call, LINE_PATH);
    if (strstr(call->route->path, "{name}") && !own) write_parameter(doc, "path", &name);
    if (own) write_parameter(doc, "path", own);
}

static void write_position_parameter(struct doc *doc)
{
    static const struct line position = {
        LINE_QUERY,
        "minSequence",
        "Position",
        "'0-0'",
        "A `Tally-Sequence`: the answer has everything up to there, or is refused.",
        MAY,
        0};
    write_parameter(doc, "query", &position);
}

static void write_consistency_parameter(struct doc *doc)
{
    static const struct line consistency = {
        LINE_QUERY,
        "consistency",
        "Consistency",
        "'session'",
        "How new the answer has to be where a database's standbys answer reads.",
        MAY,
        0};
    write_parameter(doc, "query", &consistency);
}

static void write_parameters(struct doc *doc, const struct call_doc *call)
{
    doc_open(doc, "parameters", '[');
    write_path_parameters(doc, call);
    for (const struct line *line = call->call + 1; line < call->end; line++) {
        if (line->kind == LINE_QUERY) write_parameter(doc, "query", line);
        if (line->kind == LINE_HEADER) write_parameter(doc, "header", line);
        if (line->kind == LINE_DIMENSIONS) write_dimensions(doc, line);
    }
    if (is_positioned(call->route)) write_position_parameter(doc);
    if (call->route->flags & ROUTE_COPIED) write_consistency_parameter(doc);
    doc_close(doc, ']');
}

static void write_body(struct doc *doc, const struct call_doc *call)
{
    const struct line *first = find_line(call, LINE_BODY);
    if (!first) return;
    doc_open(doc, "requestBody", '{');
    doc_bool(doc, "required", first->need == NEED);
    doc_open(doc, "content", '{');
    for (const struct line *line = first; line < call->end; line++) {
        if (line->kind != LINE_BODY) continue;
        doc_open(doc, line->name, '{');
        doc_type(doc, "schema", bytes_str(line->type));
        doc_json(doc, "example", line->example);
        doc_close(doc, '}');
    }
    doc_close(doc, '}');
    doc_close(doc, '}');
}

/* -- Calls ------------------------------------------------------------------------------------- */

static const char *scope_name(const struct route *route)
{
    if (route->flags & ROUTE_PUBLIC) return "none";
    if (route->scope == SCOPE_REPLICA) return "replica";
    return route->scope == SCOPE_ADMIN ? "admin" : route->scope == SCOPE_WRITE ? "write" : "read";
}

/* OpenAPI writes them small. */
static const char *const method_keys[] = {
    [HTTP_GET] = "get",
    [HTTP_POST] = "post",
    [HTTP_PUT] = "put",
    [HTTP_DELETE] = "delete",
};

static void write_call(struct doc *doc, const struct call_doc *call)
{
    must(call->route->method < ARRAY_COUNT(method_keys) && method_keys[call->route->method]);
    doc_open(doc, method_keys[call->route->method], '{');
    doc_text(doc, "operationId", call->route->name);
    doc_open(doc, "tags", '[');
    doc_text(doc, NULL, call->call->type);
    doc_close(doc, ']');
    doc_text(doc, "summary", call->call->example);
    doc_text(doc, "description", call->call->text);
    doc_text(doc, "x-scope", scope_name(call->route));
    if (call->route->flags & ROUTE_PUBLIC) doc_json(doc, "security", "[]");
    write_parameters(doc, call);
    write_body(doc, call);
    write_replies(doc, call);
    doc_close(doc, '}');
}

/* The route's path as callers know it: {tenantId}, and {id} by its own name. */
static void add_path(struct buf *out, const struct call_doc *call)
{
    const struct line *id = find_line(call, LINE_PATH);
    for (const char *at = call->route->path; *at; at++) {
        if (strncmp(at, "{tenant}", 8) == 0) {
            buf_add(out, BYTES("{tenantId}"));
            at += 7;
        } else if (id && strncmp(at, "{id}", 4) == 0) {
            buf_addf(out, "{%s}", id->name);
            at += 3;
        } else {
            buf_add_char(out, *at);
        }
    }
}

static bool same_path(unsigned a, unsigned b)
{
    return strcmp(route_at(a)->path, route_at(b)->path) == 0;
}

/* Writes all calls of one path, at its first route. A route without a description is left out, and
 * a unit test says so. */
static void write_path(struct doc *doc, unsigned first)
{
    struct buf path;
    struct call_doc call;
    for (unsigned i = 0; i < first; i++)
        if (same_path(i, first)) return;
    if (!find_call(route_at(first), &call)) return;
    buf_init(&path, 256);
    add_path(&path, &call);
    buf_add_char(&path, '\0');
    doc_open(doc, path.data, '{');
    for (unsigned i = first; i < route_count(); i++)
        if (same_path(i, first) && find_call(route_at(i), &call)) write_call(doc, &call);
    doc_close(doc, '}');
    buf_release(&path);
}

void openapi_write_calls(struct doc *doc)
{
    doc_open(doc, "tags", '[');
    for (unsigned i = 0; i < ARRAY_COUNT(lines); i++) {
        if (lines[i].kind != LINE_TAG) continue;
        doc_open(doc, NULL, '{');
        doc_text(doc, "name", lines[i].name);
        doc_text(doc, "description", lines[i].text);
        doc_close(doc, '}');
    }
    doc_close(doc, ']');
    doc_open(doc, "paths", '{');
    for (unsigned i = 0; i < route_count(); i++)
        write_path(doc, i);
    doc_close(doc, '}');
}
