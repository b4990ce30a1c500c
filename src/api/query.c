/* query.c -- many reads in one call: one result each, in order. */
#include "api/call.h"
#include "api/endpoints.h"
#include "api/reads.h"

#define QUERIES_MAX 1000u /* of one request: bounded work for one reader */

static const struct bytes kind_names[] = {
    [READ_GET] = BYTES("get"), [READ_SUM] = BYTES("sumRange"), [READ_SERIES] = BYTES("series")};

struct query {
    struct read_plan plan;
    enum err err; /* malformed: the result is known */
    struct sentence why;
};

struct query_plan {
    struct query *queries;
    uint32_t count;
};

static enum err no_dimensions(const struct json_value *read, struct sentence *why)
{
    static const struct bytes name = BYTES("dimensions");
    struct json_value value;
    struct json_iter iter;
    json_pick(read, &name, 1, &value);
    if (value.type == JSON_ABSENT || value.type == JSON_NULL) return ERR_OK;
    json_each(&value, &iter);
    if (value.type == JSON_OBJECT && !json_next(&iter)) return ERR_OK;
    snprintf(why->text, sizeof why->text, "%s", err_sentence(ERR_UNKNOWN_DIMENSIONS));
    return ERR_UNKNOWN_DIMENSIONS;
}

static enum err read_one(struct call *call, const struct json_value *read, struct query *query)
{
    static const struct field name_field = {BYTES("name"), FIELD_NAME, .required = true};
    struct field_value name;
    struct field_value values[FIELDS_MAX];
    unsigned count;
    const struct field *fields = read_fields(query->plan.kind, &count);
    enum err e = fields_from_json(read, &name_field, 1, &name, &query->why);
    if (e == ERR_OK) e = no_dimensions(read, &query->why);
    if (e == ERR_OK) e = fields_from_json(read, fields, count, values, &query->why);
    if (e == ERR_OK) e = read_plan_fill(&query->plan, call, name.text, values, &query->why);
    return e;
}

static enum err read_query(struct call *call, const struct json_value *object, struct query *query)
{
    struct json_value values[ARRAY_COUNT(kind_names)];
    unsigned found = 0;
    unsigned kind = 0;
    if (object->type == JSON_OBJECT) {
        json_pick(object, kind_names, ARRAY_COUNT(kind_names), values);
        for (unsigned i = 0; i < ARRAY_COUNT(kind_names); i++) {
            if (values[i].type != JSON_OBJECT) continue;
            kind = i;
            found++;
        }
    }
    if (found != 1) {
        snprintf(query->why.text, sizeof query->why.text,
                 "A query must be an object with one of get, sumRange or series.");
        return ERR_INVALID;
    }
    query->plan.kind = (enum read_kind)kind;
    return read_one(call, &values[kind], query);
}

static void add_failure(struct buf *body, enum err e, const char *sentence)
{
    buf_addf(body, "{\"status\":%d,\"error\":", err_status(e));
    buf_add_json(body, bytes_str(sentence ? sentence : err_sentence(e)));
    buf_addf(body, ",\"code\":\"%s\"}", err_code(e));
}

static void add_answer(struct store *store, struct buf *body, const struct query *query)
{
    size_t start = body->size;
    const char *why = query->why.text;
    enum err e = query->err;
    if (e == ERR_OK) {
        buf_add(body, BYTES("{\"status\":200,"));
        e = read_answer(store, &query->plan, body, &why);
    }
    if (e == ERR_OK) {
        buf_add_char(body, '}');
        return;
    }
    body->size = start;
    add_failure(body, e, why);
}

static void run_query(struct call *call)
{
    const struct query_plan *plan = call->plan;
    struct reply *reply = &call->exchange->reply;
    reply->status = 200;
    buf_add(&reply->body, BYTES("{\"results\":["));
    for (uint32_t i = 0; i < plan->count; i++) {
        if (i) buf_add_char(&reply->body, ',');
        add_answer(call->api->config.store, &reply->body, &plan->queries[i]);
    }
    buf_add(&reply->body, BYTES("]}"));
}

enum request_verdict query_post(struct call *call)
{
    static const struct bytes name = BYTES("queries");
    struct arena *arena = &call->exchange->arena;
    struct json_value body;
    struct json_value list;
    struct json_iter iter;
    if (!json_parse(call_loop(call)->parser, call->exchange->request.body, &body) ||
        body.type != JSON_OBJECT)
        return call_refuse(call, ERR_INVALID, "The body must be one JSON object.");
    json_pick(&body, &name, 1, &list);
    if (list.type != JSON_ARRAY) return call_refuse(call, ERR_INVALID, "queries must be an array.");
    struct query_plan *plan = arena_zalloc(arena, sizeof *plan);
    plan->queries = arena_alloc(arena, QUERIES_MAX * sizeof *plan->queries);
    for (json_each(&list, &iter); json_next(&iter);) {
        if (plan->count == QUERIES_MAX) return call_refuse(call, ERR_TOO_MANY_OPS, NULL);
        struct query *query = &plan->queries[plan->count++];
        *query = (struct query){0};
        query->err = read_query(call, &iter.value, query);
    }
    call->plan = plan;
    return call_read(call, run_query);
}
