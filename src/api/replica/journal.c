/* journal.c -- a follower's questions: what comes next, and a snapshot to begin with (SPEC 13). */
#include "api/call.h"
#include "api/endpoints.h"
#include "replica/lend.h"
#include "replica/ship.h"

#define OCTETS "application/octet-stream"
#define HEX_SIZE 16

/* A number that may be any of 64 bits. */
static bool parse_hex(struct bytes text, uint64_t *number_out)
{
    uint64_t number = 0;
    if (text.size != HEX_SIZE) return false;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool digit = c >= '0' && c <= '9';
        if (!digit && (c < 'a' || c > 'f')) return false;
        number = number << 4 | (uint64_t)(digit ? c - '0' : c - 'a' + 10);
    }
    *number_out = number;
    return true;
}

/* It is in logs, and in what operators see. */
static bool is_name(struct bytes text)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && !strchr(".:-_/[]", c)) return false;
    }
    return text.size > 0;
}

/* Who may be followed: a store of its own on disk, with one lane, that decides itself. */
static enum err refuse_none(const struct call *call, struct reason *why)
{
    const struct api_config *config = &call->api->config;
    if (config->ship) return ERR_OK;
    if (config->follow)
        return reason_err(why, ERR_NOT_PRIMARY, "This server is a follower itself.");
    return reason_err(why, ERR_CONFLICT,
                      "Only a store of kind embedded with store.lanes 1 can be followed.");
}

/* -- The journal ------------------------------------------------------------------------------- */

struct journal_plan {
    struct ship_hello hello;
    struct ship_ask ask;
};

static void journal_finish(struct call *call)
{
    struct journal_plan *plan = call->plan;
    struct reply *reply = &call->exchange->reply;
    if (plan->ask.err != ERR_OK) {
        exchange_error(call->exchange, plan->ask.err, NULL);
        return;
    }
    reply->status = 200;
    reply->content_type = OCTETS;
}

static void journal_done(struct ship_ask *ask)
{
    struct call *call = ask->owner;
    struct api *api = call->api; /* the call may be gone once it is posted */
    exchange_post(call->exchange);
    api->config.wake(api->config.wake_context);
}

static enum err read_journal(struct call *call, struct journal_plan *plan, struct reason *why)
{
    enum { FORMAT, INSTALLATION, PROOF, NAME, AFTER, HASH, WAIT, FIELDS };
    static const struct field fields[FIELDS] = {
        [FORMAT] = {BYTES("format"), FIELD_I64, .required = true, .min = 1, .max = 1000000},
        [INSTALLATION] = {BYTES("installation"), FIELD_TEXT, .required = true, .min = 16,
                          .max = 16},
        [PROOF] = {BYTES("proof"), FIELD_TEXT, .required = true, .min = 16, .max = 16},
        [NAME] = {BYTES("name"), FIELD_TEXT, .required = true, .min = 1, .max = SHIP_NAME_SIZE - 1},
        [AFTER] = {BYTES("after"), FIELD_I64, .required = true, .max = INT64_MAX},
        [HASH] = {BYTES("hash"), FIELD_TEXT, .required = true, .min = 16, .max = 16},
        [WAIT] = {BYTES("wait"), FIELD_I64, .max = SHIP_WAIT_MS_MAX},
    };
    struct field_value values[FIELDS];
    enum err e = fields_from_params(&call->params, fields, FIELDS, values, why);
    if (e != ERR_OK) return e;
    plan->hello.format = (uint32_t)values[FORMAT].integer;
    plan->hello.name = values[NAME].text;
    plan->ask.after = (uint64_t)values[AFTER].integer;
    plan->ask.wait_ms = values[WAIT].integer;
    if (parse_hex(values[INSTALLATION].text, &plan->hello.installation) &&
        parse_hex(values[PROOF].text, &plan->hello.proof) &&
        parse_hex(values[HASH].text, &plan->ask.hash) && is_name(plan->hello.name))
        return ERR_OK;
    return reason_err(why, ERR_INVALID,
                      "installation, proof and hash must be 16 hex digits, and name an address.");
}

enum request_verdict replica_journal(struct call *call)
{
    struct reason why;
    struct ship *ship = call->api->config.ship;
    struct journal_plan *plan = arena_zalloc(&call->exchange->arena, sizeof *plan);
    enum err e = refuse_none(call, &why);
    if (e == ERR_OK) e = read_journal(call, plan, &why);
    if (e == ERR_OK) e = ship_judge(ship, &plan->hello, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    call->plan = plan;
    call->finish = journal_finish;
    call->exchange->reply.body.max = SIZE_MAX / 2; /* a block is sent whole */
    plan->ask.out = &call->exchange->reply.body;
    plan->ask.done = journal_done;
    plan->ask.owner = call;
    e = exchange_reserve(call->exchange, SHIP_ANSWER_BYTES)
            ? ship_ask(ship, plan->hello.name, &plan->ask)
            : ERR_BUSY;
    return e == ERR_OK ? REQUEST_KEPT : call_refuse(call, e, NULL);
}

/* -- A snapshot -------------------------------------------------------------------------------- */

struct snapshot_plan {
    struct bytes name;
    int64_t number;
    int64_t file;
    int64_t offset;
};

static void end_snapshot(struct call *call, enum err e, const struct reason *why)
{
    struct reply *reply = &call->exchange->reply;
    if (e != ERR_OK) {
        exchange_error(call->exchange, e, why ? reason_text(why) : NULL);
        return;
    }
    reply->status = 200;
    reply->content_type = OCTETS;
}

static void run_begin(struct call *call)
{
    struct reason why;
    struct snapshot_plan *plan = call->plan;
    const struct api_config *config = &call->api->config;
    reason_clear(&why);
    enum err e = ship_copying(config->ship, plan->name);
    if (e == ERR_OK) e = lend_begin(config->lend, &call->exchange->reply.body, &why);
    end_snapshot(call, e, &why);
}

enum request_verdict replica_snapshot(struct call *call)
{
    enum { FORMAT, NAME, FIELDS };
    static const struct field fields[FIELDS] = {
        [FORMAT] = {BYTES("format"), FIELD_I64, .required = true, .min = 1, .max = 1000000},
        [NAME] = {BYTES("name"), FIELD_TEXT, .required = true, .min = 1, .max = SHIP_NAME_SIZE - 1},
    };
    struct field_value values[FIELDS];
    struct reason why;
    struct snapshot_plan *plan = arena_zalloc(&call->exchange->arena, sizeof *plan);
    enum err e = refuse_none(call, &why);
    if (e == ERR_OK) e = fields_from_params(&call->params, fields, FIELDS, values, &why);
    if (e == ERR_OK && !is_name(values[NAME].text))
        e = reason_err(&why, ERR_INVALID, "name must be an address.");
    if (e == ERR_OK) e = ship_judge_format((uint32_t)values[FORMAT].integer, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    plan->name = values[NAME].text;
    call->plan = plan;
    return call_read_lent(call, run_begin);
}

static void run_piece(struct call *call)
{
    const struct snapshot_plan *plan = call->plan;
    enum err e = lend_piece(call->api->config.lend, (uint64_t)plan->number, (uint64_t)plan->file,
                            (uint64_t)plan->offset, &call->exchange->reply.body);
    end_snapshot(call, e, NULL);
}

static enum err read_piece(struct call *call, bool all, struct snapshot_plan *plan,
                           struct reason *why)
{
    enum { NUMBER, FILE_NUMBER, OFFSET, FIELDS };
    static const struct field fields[FIELDS] = {
        [NUMBER] = {BYTES("number"), FIELD_I64, .required = true, .max = INT64_MAX},
        [FILE_NUMBER] = {BYTES("file"), FIELD_I64, .required = true, .max = INT64_MAX},
        [OFFSET] = {BYTES("offset"), FIELD_I64, .required = true, .max = INT64_MAX},
    };
    struct field_value values[FIELDS] = {0};
    enum err e = refuse_none(call, why);
    if (e == ERR_OK)
        e = fields_from_params(&call->params, fields, all ? FIELDS : NUMBER + 1, values, why);
    *plan = (struct snapshot_plan){.number = values[NUMBER].integer,
                                   .file = values[FILE_NUMBER].integer,
                                   .offset = values[OFFSET].integer};
    return e;
}

enum request_verdict replica_piece(struct call *call)
{
    struct reason why;
    struct snapshot_plan *plan = arena_zalloc(&call->exchange->arena, sizeof *plan);
    enum err e = read_piece(call, true, plan, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    call->plan = plan;
    if (!exchange_reserve(call->exchange, LEND_PIECE_BYTES))
        return call_refuse(call, ERR_BUSY, NULL);
    return call_read_lent(call, run_piece);
}

static void run_end(struct call *call)
{
    const struct snapshot_plan *plan = call->plan;
    lend_end(call->api->config.lend, (uint64_t)plan->number);
    call->exchange->reply.status = 200;
    buf_add(&call->exchange->reply.body, BYTES("{\"deleted\":true}"));
}

enum request_verdict replica_snapshot_end(struct call *call)
{
    struct reason why;
    struct snapshot_plan *plan = arena_zalloc(&call->exchange->arena, sizeof *plan);
    enum err e = read_piece(call, false, plan, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    call->plan = plan;
    return call_read_lent(call, run_end);
}
