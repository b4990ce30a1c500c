/* query.c -- many reads in one call: one result each, in order. */
#include "api/call.h"
#include "api/endpoints.h"
#include "api/counters/reads.h"

#define QUERIES_MAX 10000u /* in one request: bounded work for one reader */

static const struct bytes kind_names[] = {
    [READ_GET] = BYTES("get"), [READ_SUM] = BYTES("sumRange"), [READ_SERIES] = BYTES("series")};

struct query {
    struct read_plan plan;
    enum err err;    /* malformed: the result is known */
    const char *why; /* the reason, if it is malformed */
    struct query *next;
};

struct query_plan {
    struct query *first;
    struct query **end;
    uint32_t count;
    unsigned values;  /* for call_look */
    struct query *at; /* whose answer is being made */
    size_t start;     /* where the answer begins in the body */
    bool begun;
};

enum { NAME, DIMENSIONS, ADDRESS_FIELDS };
static const struct bytes address_names[ADDRESS_FIELDS] = {BYTES("name"), BYTES("dimensions")};

/* The fields that a read of this kind may have: the address first, then read_fields. */
static enum err pick_read(struct call *call, const struct json_value *read, enum read_kind kind,
                          struct json_value *values, struct reason *why)
{
    struct bytes names[ADDRESS_FIELDS + FIELDS_MAX];
    unsigned count;
    const struct field *fields = read_fields_known(kind, &count);
    memcpy(names, address_names, sizeof address_names);
    for (unsigned i = 0; i < count; i++)
        names[ADDRESS_FIELDS + i] = fields[i].name;
    struct known known = {.names = names, .count = ADDRESS_FIELDS + count};
    bool others = json_pick(read, names, known.count, values) > 0;
    return others ? call_unknown(call, read, &known, why) : ERR_OK;
}

/* Which counter, and which of its dimension sets. */
static enum err read_address(struct call *call, const struct json_value *values,
                             struct read_plan *plan, struct reason *why)
{
    static const struct field name_field = {BYTES("name"), FIELD_NAME, .required = true};
    struct field_value name;
    struct dims dims;
    enum err e = field_from_json(&values[NAME], &name_field, &name, why);
    if (e == ERR_OK) e = dims_from_json(&values[DIMENSIONS], &call->exchange->arena, &dims, why);
    if (e != ERR_OK) return e;
    e = read_plan_address(plan, call, name.text, &dims);
    return e == ERR_OK ? e : reason_err(why, e, "%s", err_sentence(e));
}

static enum err read_one(struct call *call, const struct json_value *read, struct read_plan *plan,
                         struct reason *why)
{
    struct json_value picked[ADDRESS_FIELDS + FIELDS_MAX];
    struct field_value values[FIELDS_MAX];
    unsigned count;
    enum err e = pick_read(call, read, plan->kind, picked, why);
    if (e == ERR_OK) e = read_address(call, picked, plan, why);
    if (e != ERR_OK) return e;
    const struct field *fields = read_fields(plan, &count);
    e = fields_from_picked(picked + ADDRESS_FIELDS, fields, count, values, why);
    if (e == ERR_OK) e = read_plan_fill(plan, values, why);
    return e;
}

static enum err read_query(struct call *call, const struct json_value *object,
                           struct read_plan *plan, struct reason *why)
{
    struct json_value values[ARRAY_COUNT(kind_names)];
    unsigned found = 0;
    unsigned kind = 0;
    static const struct known known = {.names = kind_names, .count = ARRAY_COUNT(kind_names)};
    if (json_pick(object, kind_names, ARRAY_COUNT(kind_names), values)) {
        enum err e = call_unknown(call, object, &known, why);
        if (e != ERR_OK) return e;
    }
    for (unsigned i = 0; i < ARRAY_COUNT(kind_names); i++) {
        if (values[i].type == JSON_ABSENT || values[i].type == JSON_NULL) continue;
        kind = i;
        found++;
    }
    if (found != 1 || values[kind].type != JSON_OBJECT)
        return reason_err(why, ERR_INVALID,
                          "A query must be an object with one of get, sumRange or series.");
    plan->kind = (enum read_kind)kind;
    return read_one(call, &values[kind], plan, why);
}

static void add_failure(struct buf *body, const struct query *query, enum err e,
                        const char *sentence)
{
    buf_addf(body, "{\"status\":%d,\"error\":", err_status(e));
    buf_add_json(body, bytes_str(sentence ? sentence : err_sentence(e)));
    buf_addf(body, ",\"code\":\"%s\"}", err_code(e));
    read_show_kept(&query->plan, e, sentence, body);
}

static void begin_answer(struct query_plan *plan, struct buf *body)
{
    if (plan->at != plan->first) buf_add_char(body, ',');
    plan->start = body->size;
    plan->begun = true;
    if (plan->at->err == ERR_OK) buf_add(body, BYTES("{\"status\":200,"));
}

/* A part of it, if it is long. */
static void add_answer(struct call *call, struct query_plan *plan)
{
    struct buf *body = &call->exchange->reply.body;
    struct query *query = plan->at;
    const char *why = query->why;
    enum err e = query->err;
    if (!plan->begun) begin_answer(plan, body);
    if (e == ERR_OK) e = read_answer(call, &query->plan, &why);
    if (e == ERR_OK && call->more) return;
    if (e == ERR_OK) {
        buf_add_char(body, '}');
    } else {
        body->size = plan->start;
        add_failure(body, query, e, why);
    }
    plan->at = query->next;
    plan->begun = false;
}

static void run_query(struct call *call)
{
    struct query_plan *plan = call->plan;
    struct reply *reply = &call->exchange->reply;
    if (reply->status == 0) {
        reply->status = 200;
        plan->at = plan->first;
        buf_add(&reply->body, BYTES("{\"results\":["));
    }
    if (plan->at) add_answer(call, plan);
    call->more = plan->at != NULL;
    if (!call->more) buf_add(&reply->body, BYTES("]}"));
}

static void look_query(struct call *call, struct view *moment)
{
    struct query_plan *plan = call->plan;
    for (struct query *query = plan->first; query; query = query->next)
        if (query->err == ERR_OK) read_look(&query->plan, moment);
}

static void add_query(struct call *call, struct query_plan *plan, const struct json_value *object)
{
    struct arena *arena = &call->exchange->arena;
    struct query *query = arena_zalloc(arena, sizeof *query);
    struct reason why;
    query->err = read_query(call, object, &query->plan, &why);
    if (query->err != ERR_OK)
        query->why = arena_copy(arena, bytes_str(why.text)).data;
    else
        plan->values += read_values(&query->plan);
    *plan->end = query;
    plan->end = &query->next;
    plan->count++;
}

enum request_verdict query_post(struct call *call)
{
    static const struct bytes name = BYTES("queries");
    struct arena *arena = &call->exchange->arena;
    struct json_value body;
    struct json_value list;
    struct json_iter iter;
    struct reason why;
    if (!json_parse(call_loop(call)->parser, call->exchange->request.body, &body) ||
        body.type != JSON_OBJECT)
        return call_refuse(call, ERR_INVALID, "The body must be one JSON object.");
    if (json_pick(&body, &name, 1, &list)) {
        enum err e = call_unknown(call, &body, &(struct known){&name, 1, 0, false}, &why);
        if (e != ERR_OK) return call_refuse(call, e, why.text);
    }
    if (list.type != JSON_ARRAY) return call_refuse(call, ERR_INVALID, "queries must be an array.");
    struct query_plan *plan = arena_zalloc(arena, sizeof *plan);
    plan->end = &plan->first;
    for (json_each(&list, &iter); json_next(&iter);) {
        if (plan->count == QUERIES_MAX) return call_refuse(call, ERR_TOO_MANY_OPS, NULL);
        add_query(call, plan, &iter.value);
    }
    call->plan = plan;
    if (plan->values == 0) return call_read(call, run_query);
    return call_look(call, plan->values, look_query, run_query);
}
