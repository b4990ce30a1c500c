/* tally.c -- what Redis has not: buckets, caps, and counting once.
 *
 * The options of TALLY.INCR and TALLY.DECR are the fields of an operation over HTTP under other
 * names, and are read by the same functions. Under the same ONCE key the same op is the same
 * request, also as an op of a batch over HTTP, if it says its time. */
#include "api/resp/train.h"

#include "api/counters/change.h"
#include "api/counters/dims.h"
#include "api/counters/reads.h"
#include "config/config.h"
#include "core/name.h"

/* An option and the value that is to be had of it. */
struct option {
    struct bytes name;
    struct json_value *value;
};

/* Every option once, each with a value, from the argument `from` on. False, after refusing. */
static bool read_options(struct train *train, const struct resp_command *command, uint32_t from,
                         const struct option *options, unsigned count)
{
    for (uint32_t i = from; i < command->count; i += 2) {
        unsigned found = 0;
        while (found < count && !bytes_equal_nocase(command->items[i], options[found].name))
            found++;
        if (found == count || i + 1 == command->count ||
            options[found].value->type != JSON_ABSENT) {
            train_refuse_syntax(train);
            return false;
        }
        *options[found].value =
            (struct json_value){.type = JSON_STRING, .string = command->items[i + 1]};
    }
    return true;
}

static void refuse_reason(struct train *train, const struct reason *why)
{
    char line[sizeof why->text + 8];
    struct buf text = {.data = line, .capacity = sizeof line, .max = sizeof line};
    buf_add(&text, BYTES("ERR "));
    buf_add(&text, bytes_str(why->text));
    char *end = text.data + text.size;
    *end = '\0';
    train_refuse(train, line);
}

/* Without BUCKET it is the counter without a duration; without AT it is now, by batch time. */
struct moment_text {
    char digits[24];
};

/* BUCKET is a number of seconds, or a word of the calendar. */
static void tell_bucket(struct json_value *seconds, struct json_value *calendar)
{
    char first = seconds->type == JSON_STRING && seconds->string.size ? seconds->string.data[0] : 0;
    char lower = (char)(first | 0x20);
    if (lower < 'a' || lower > 'z') return;
    *calendar = *seconds;
    seconds->type = JSON_ABSENT;
}

static void fill_place(const struct train *train, struct json_value *values,
                       struct moment_text *text)
{
    struct json_value *seconds = &values[CHANGE_DURATION], *at = &values[CHANGE_TIMESTAMP];
    tell_bucket(seconds, &values[CHANGE_BUCKET]);
    if (seconds->type == JSON_ABSENT && values[CHANGE_BUCKET].type == JSON_ABSENT)
        *seconds = (struct json_value){.type = JSON_STRING, .string = BYTES("0")};
    if (at->type != JSON_ABSENT) return;
    struct buf buf = {
        .data = text->digits, .capacity = sizeof text->digits, .max = sizeof text->digits};
    buf_add_i64(&buf, clock_moment(train->lane->clock).now_ms);
    *at = (struct json_value){.type = JSON_STRING, .string = buf_bytes(&buf)};
}

/* -- TALLY.INCR, TALLY.DECR -------------------------------------------------------------------- */

static void reply_change(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct op *op = &train->ops[promise->first];
    char line[96];
    struct buf text = {.data = line, .capacity = sizeof line, .max = sizeof line};
    if (op->err == ERR_OK) {
        resp_add_integer(out, op->after.net);
    } else if (op->err == ERR_LIMIT) {
        buf_add(&text, BYTES("LIMIT the increment would pass MAX; the counter is "));
        buf_add_i64(&text, op->after.net);
        resp_add_error(out, buf_bytes(&text));
    } else {
        train_add_err(out, op->err);
    }
}

/* False, after refusing. A time that was not said is no part of the request, for a retry comes
 * later. */
static bool fill_once(struct train *train, struct op *op, const struct json_value *once,
                      int64_t said_ms)
{
    if (once->type == JSON_ABSENT) return true;
    if (!key_valid(once->string)) {
        train_refuse(train, "ERR ONCE must be 1 to 255 printable ASCII characters.");
        return false;
    }
    op->keyed = true;
    op->key = lane_key_print(train->lane, train->tenant, once->string);
    op->key_digest = change_digest(op, said_ms);
    return true;
}

static void change(struct train *train, const struct resp_command *command, enum op_kind kind)
{
    struct json_value values[CHANGE_FIELD_COUNT] = {0};
    struct json_value once = {0};
    const struct option options[] = {
        {BYTES("BUCKET"), &values[CHANGE_DURATION]}, {BYTES("AT"), &values[CHANGE_TIMESTAMP]},
        {BYTES("ZONE"), &values[CHANGE_ZONE]},       {BYTES("ONCE"), &once},
        {BYTES("MAX"), &values[CHANGE_CAP]},         {BYTES("EXPIREAT"), &values[CHANGE_EXPIRES]}};
    unsigned count = kind == OP_INCREMENT ? 6 : 4;
    struct reason why;
    struct moment_text now;
    int64_t time_ms;
    if (!read_options(train, command, 3, options, count)) return;
    bool said = values[CHANGE_TIMESTAMP].type != JSON_ABSENT;
    fill_place(train, values, &now);
    values[CHANGE_AMOUNT] = (struct json_value){.type = JSON_STRING, .string = command->items[2]};
    struct op *op = train_op(train, kind, command->items[1]);
    if (!op) return;
    enum err e = change_read(kind, values, op, &time_ms, &why);
    if (op->expires_ms != TIME_NONE) op->expiry = EXPIRY_AT;
    if (e != ERR_OK) refuse_reason(train, &why);
    if (e == ERR_OK && fill_once(train, op, &once, said ? time_ms : 0))
        train_promise(train, reply_change, 1, false);
    else
        train->ops_count--;
}

void resp_tally_incr(struct train *train, const struct resp_command *command)
{
    change(train, command, OP_INCREMENT);
}

void resp_tally_decr(struct train *train, const struct resp_command *command)
{
    change(train, command, OP_DECREMENT);
}

/* -- TALLY.GET --------------------------------------------------------------------------------- */

static void reply_triple_of(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct op *op = &train->ops[promise->first];
    if (op->err != ERR_OK) {
        train_add_err(out, op->err);
    } else if (!op->existed) {
        resp_add_null(out, promise->version);
    } else {
        resp_add_array(out, 3);
        resp_add_integer(out, op->after.net);
        resp_add_integer(out, op->after.added);
        resp_add_integer(out, op->after.subbed);
    }
}

void resp_tally_get(struct train *train, const struct resp_command *command)
{
    struct json_value values[CHANGE_FIELD_COUNT] = {0};
    const struct option options[] = {{BYTES("BUCKET"), &values[CHANGE_DURATION]},
                                     {BYTES("ZONE"), &values[CHANGE_ZONE]},
                                     {BYTES("AT"), &values[CHANGE_TIMESTAMP]}};
    struct reason why;
    struct moment_text now;
    int64_t time_ms;
    if (!read_options(train, command, 2, options, ARRAY_COUNT(options))) return;
    fill_place(train, values, &now);
    struct op *op = train_op(train, OP_READ, command->items[1]);
    if (!op) return;
    if (change_read(OP_DECREMENT, values, op, &time_ms, &why) != ERR_OK) {
        train->ops_count--;
        refuse_reason(train, &why);
        return;
    }
    op->kind = OP_READ;
    train_promise(train, reply_triple_of, 1, false);
}

/* -- TALLY.SUM --------------------------------------------------------------------------------- */

struct sum_asked {
    struct read_plan plan;
    struct call call; /* as reads over HTTP have one */
    enum err err;
    const char *why; /* or NULL: what is said of the error anyway */
};

static bool sum(struct train *train)
{
    struct sum_asked *asked = train->plan;
    struct buf *body = &train->exchange->reply.body;
    size_t before = body->size;
    const char *why;
    asked->err = ERR_BUSY;
    if (api_is_over(train->api)) return false;
    asked->err = read_answer(&asked->call, &asked->plan, &why);
    body->size = before; /* it is for JSON */
    if (asked->call.cells > (uint64_t)train->api->config.config->limits_query_cells)
        asked->err = ERR_TOO_MANY_CELLS;
    return asked->err == ERR_OK && asked->call.more;
}

static void add_wide(struct buf *out, __int128 value)
{
    char digits[48];
    struct buf text = {.data = digits, .capacity = sizeof digits, .max = sizeof digits};
    buf_add_i128(&text, value);
    resp_add_bulk(out, buf_bytes(&text));
}

/* Sums may pass 64 bits, so they are strings. */
static void reply_sum(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct sum_asked *asked = train->plan;
    const struct range_sum *found = &asked->plan.walk.sum;
    (void)promise;
    enum err e = train->refused != ERR_OK ? train->refused : asked->err;
    if (e != ERR_OK) {
        train_add_err(out, e);
        return;
    }
    resp_add_array(out, 3);
    add_wide(out, found->added - found->subbed);
    add_wide(out, found->added);
    add_wide(out, found->subbed);
}

/* Says what is to be summed, or what is wrong with it. */
static enum err plan_sum(struct train *train, struct sum_asked *asked, struct bytes name,
                         const struct json_value *picked, struct reason *why)
{
    static const struct dims none;
    struct field_value values[FIELDS_MAX];
    unsigned count;
    const struct field *fields = read_fields_known(READ_SUM, &count);
    asked->call = (struct call){.api = train->api,
                                .exchange = train->exchange,
                                .tenant = train->tenant,
                                .lane = train->lane,
                                .view = train->lane->store->view};
    asked->plan.kind = READ_SUM;
    enum err e = fields_from_picked(picked, fields, count, values, why);
    if (e == ERR_OK) e = read_plan_address(&asked->plan, &asked->call, name, &none);
    if (e == ERR_OK) e = read_plan_fill(&asked->plan, values, why);
    train->rules = asked->call.rules; /* let go with the train */
    return e == ERR_OK && asked->plan.definition ? ERR_MANAGED : e;
}

/* Where the call over HTTP has the field of that name. */
static struct json_value *picked_as(struct json_value *picked, struct bytes name)
{
    unsigned count, at = 0;
    const struct field *fields = read_fields_known(READ_SUM, &count);
    must(count <= FIELDS_MAX);
    while (at < count && !bytes_equal(fields[at].name, name))
        at++;
    must(at < count);
    return &picked[at];
}

void resp_tally_sum(struct train *train, const struct resp_command *command)
{
    struct json_value picked[FIELDS_MAX] = {0};
    struct json_value *seconds = picked_as(picked, BYTES("durationSeconds"));
    const struct option options[] = {{BYTES("BUCKET"), seconds},
                                     {BYTES("ZONE"), picked_as(picked, BYTES("zone"))},
                                     {BYTES("FROM"), picked_as(picked, BYTES("startTime"))},
                                     {BYTES("TO"), picked_as(picked, BYTES("endTime"))}};
    struct reason why;
    reason_clear(&why);
    if (!read_options(train, command, 2, options, ARRAY_COUNT(options))) return;
    tell_bucket(seconds, picked_as(picked, BYTES("bucket")));
    if (!counter_name_valid(command->items[1])) {
        train_refuse(train, "ERR invalid counter name");
        return;
    }
    struct sum_asked *asked = arena_zalloc(&train->exchange->arena, sizeof *asked);
    enum err e = plan_sum(train, asked, command->items[1], picked, &why);
    if (e != ERR_OK && why.text[0] && e != ERR_MANAGED) {
        refuse_reason(train, &why);
    } else if (e != ERR_OK) {
        train_refuse_err(train, e);
    } else {
        train->plan = asked;
        train->work = sum;
        train_promise_new(train)->reply = reply_sum;
    }
}
