/* event.c -- TALLY.EVENT: an event in a line of words.
 *
 * It is written as the JSON that a client of HTTP would send, and read by the same functions: two
 * readers of one thing would differ some day. */
#include "api/events/events.h"
#include "api/resp/train.h"
#include "base/json_write.h"

#define EVENT_BYTES_MAX (64u << 20) /* the argument's own bound is limits.bodyBytes */

/* An event changes all that its rules ask for or nothing, which inside of an all-or-nothing bundle
 * cannot be told apart from the bundle's own: so MULTI takes none. */

static void reply_event(struct train *train, const struct promise *promise, struct buf *out)
{
    const struct op *op = &train->ops[promise->first];
    if (op->err != ERR_OK) {
        train_add_err(out, op->err);
        return;
    }
    const struct event *event = op->event;
    bool applied = event->result == EVENT_APPLIED;
    char digits[24];
    struct buf id = {.data = digits, .capacity = sizeof digits, .max = sizeof digits};
    buf_add_u64(&id, event->first_sequence);
    resp_add_array(out, 3);
    resp_add_bulk(out, applied ? BYTES("APPLIED") : BYTES("DROPPED_DUPLICATE"));
    resp_add_bulk(out, buf_bytes(&id));
    resp_add_integer(out, applied ? event->counters : 0);
}

/* Adds the dimensions from argument `*at` on. False: a DIM without a key and a value. */
static bool write_dimensions(struct buf *json, const struct resp_command *command, uint32_t *at)
{
    unsigned count = 0;
    for (; *at < command->count && bytes_equal_nocase(command->items[*at], BYTES("DIM"));
         *at += 3) {
        if (command->count - *at < 3) return false;
        buf_add(json, count++ ? BYTES(",") : BYTES(",\"dimensions\":{"));
        buf_add_json(json, command->items[*at + 1]);
        buf_add_char(json, ':');
        buf_add_json(json, command->items[*at + 2]);
    }
    if (count) buf_add_char(json, '}');
    return true;
}

/* Only what is one JSON value by itself goes into the text of the event. It is copied, for the
 * parser reads behind the end. */
static bool is_json(struct train *train, struct bytes text)
{
    struct json_value value;
    struct arena *arena = &train->exchange->arena;
    struct arena_mark mark = arena_mark(arena);
    char *copy = arena_zalloc(arena, text.size + JSON_PADDING);
    if (text.size) memcpy(copy, text.data, text.size);
    bool good = json_parse(train->api->loops[train->exchange->loop_index].parser,
                           bytes_of(copy, text.size), &value);
    arena_back(arena, mark);
    return good;
}

/* False, after refusing. */
static bool write_event(struct train *train, const struct resp_command *command, struct buf *json)
{
    uint32_t at = 3;
    buf_add(json, BYTES("{\"eventId\":"));
    buf_add_json(json, command->items[1]);
    buf_add(json, BYTES(",\"type\":"));
    buf_add_json(json, command->items[2]);
    bool good = write_dimensions(json, command, &at);
    bool payload = good && at + 2 == command->count &&
                   bytes_equal_nocase(command->items[at], BYTES("PAYLOAD"));
    if (!good || (!payload && at != command->count)) {
        train_refuse_syntax(train);
        return false;
    }
    if (payload && !is_json(train, command->items[at + 1])) {
        train_refuse(train, "ERR PAYLOAD is not JSON");
        return false;
    }
    if (payload) {
        buf_add(json, BYTES(",\"payload\":"));
        buf_add(json, command->items[at + 1]);
    }
    buf_add_char(json, '}');
    static const char padding[JSON_PADDING];
    buf_add(json, bytes_of(padding, sizeof padding));
    if (json->failed) train_refuse(train, "ERR the event is too large");
    if (!json->failed) json->size -= sizeof padding;
    return !json->failed;
}

static void refuse_event(struct train *train, enum err e, const struct reason *why)
{
    char line[sizeof why->text + 8];
    struct buf text = {.data = line, .capacity = sizeof line, .max = sizeof line - 1};
    if (!why->text[0]) {
        train_refuse_err(train, e);
        return;
    }
    buf_add(&text, BYTES("ERR "));
    buf_add(&text, bytes_str(why->text));
    line[text.size] = '\0';
    train_refuse(train, line);
}

/* The rules are the train's: the first command that asks for them holds them for all. */
static struct call *call_for(struct train *train)
{
    struct call *call = arena_zalloc(&train->exchange->arena, sizeof *call);
    call->api = train->api;
    call->exchange = train->exchange;
    call->tenant = train->tenant;
    call->lane = train->lane;
    call->rules = train->rules;
    return call;
}

void resp_tally_event(struct train *train, const struct resp_command *command)
{
    struct buf json;
    struct op made;
    struct reason why;
    reason_clear(&why);
    memset(&made, 0, sizeof made);
    buf_init(&json, EVENT_BYTES_MAX);
    if (write_event(train, command, &json)) {
        struct call *call = call_for(train);
        made.err = events_make(call, buf_bytes(&json), &made, &why);
        train->rules = call->rules;
        if (made.err == ERR_OK) {
            *train_op_any(train) = made;
            train->writes = train->weighty = true;
            train_promise(train, reply_event, 1, false);
        } else {
            events_count(&made, 0);
            refuse_event(train, made.err, &why);
        }
    }
    buf_release(&json);
}
