/* position.c -- reads and writes positions. */
#include "api/position.h"

#include "api/call.h"

#define LINE_START "Tally-Sequence: 0-"
#define DIGITS_MAX 20u /* a 64-bit number has no more */
#define EPOCH_ID_SIZE_MAX 32u

/* -- In ---------------------------------------------------------------------------------------- */

static bool parse_digits(struct bytes text, uint64_t *number_out)
{
    uint64_t number = 0;
    if (text.size == 0 || text.size > DIGITS_MAX) return false;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        if (__builtin_mul_overflow(number, 10, &number)) return false;
        if (__builtin_add_overflow(number, (uint64_t)(text.data[i] - '0'), &number)) return false;
    }
    *number_out = number;
    return true;
}

static bool is_epoch_id(struct bytes text)
{
    if (text.size == 0 || text.size > EPOCH_ID_SIZE_MAX) return false;
    for (size_t i = 0; i < text.size; i++) {
        char byte = text.data[i];
        if (!(byte >= '0' && byte <= '9') && !(byte >= 'a' && byte <= 'f')) return false;
    }
    return true;
}

bool position_parse(struct bytes text, struct position *position_out)
{
    uint64_t epoch;
    const char *dash = text.size ? memchr(text.data, '-', text.size) : NULL;
    if (!dash) return false;
    size_t head_size = (size_t)(dash - text.data);
    struct bytes head = bytes_of(text.data, head_size);
    struct bytes rest = bytes_of(dash + 1, text.size - head_size - 1);
    if (!parse_digits(rest, &position_out->sequence)) return false;
    position_out->here = bytes_equal(head, BYTES("0"));
    if (position_out->here) return true;
    const char *dot = memchr(head.data, '.', head.size);
    if (!dot) return false;
    size_t epoch_size = (size_t)(dot - head.data);
    return parse_digits(bytes_of(head.data, epoch_size), &epoch) &&
           is_epoch_id(bytes_of(dot + 1, head.size - epoch_size - 1));
}

static const struct field consistency_field = {
    BYTES("consistency"), FIELD_CHOICE,
    .choices = (const char *const[]){"session", "any", "primary", NULL}};
enum { CONSISTENCY_SESSION, CONSISTENCY_ANY, CONSISTENCY_PRIMARY };

/* The view is the newest or, where a copy may answer, has what this process has acknowledged. False
 * after refusing. */
static bool choose_view(struct call *call, enum request_verdict *verdict_out)
{
    struct field_value consistency = {0};
    struct reason why;
    enum err e = ERR_OK;
    if (call->params.count > 0)
        e = fields_from_params(&call->params, &consistency_field, 1, &consistency, &why);
    if (e != ERR_OK) {
        *verdict_out = call_refuse(call, e, why.text);
        return false;
    }
    bool copied = (call->route->flags & ROUTE_COPIED) != 0;
    call->age = (struct view_age){.reached = UINT64_MAX};
    call->age.newest = !copied || consistency.integer == CONSISTENCY_PRIMARY;
    call->age.least = consistency.integer == CONSISTENCY_ANY ? 0 : call->position;
    call->view = view_aged(&call->lane->store->view, &call->age);
    return true;
}

/* A follower's history goes on: the wish is looked at again while there is time. The connection
 * waits meanwhile, and no thread does. */
static bool wait_for_more(struct call *call, enum request_verdict *verdict_out)
{
    const struct api_config *config = &call->api->config;
    int64_t waited_ns = clock_mono_ns(config->machine) - call->exchange->started_ns;
    if (waited_ns < config->config->follow_wait * INT64_C(1000000) && !api_is_over(call->api)) {
        arena_back(&call->exchange->arena, call->mark); /* the query is read again, too */
        *verdict_out = REQUEST_HOLD;
    } else {
        *verdict_out = call_refuse(call, ERR_BEHIND, NULL);
    }
    return false;
}

bool position_begin(struct call *call, enum request_verdict *verdict_out)
{
    struct position wanted;
    call->position = view_sequence(&call->lane->store->view);
    if (!choose_view(call, verdict_out)) return false;
    if (call->params.count == 0) return true;
    struct bytes text = params_get(&call->params, BYTES("minSequence"));
    if (!text.data) return true;
    if (!position_parse(text, &wanted)) {
        *verdict_out = call_refuse(call, ERR_INVALID, "minSequence must be a Tally-Sequence.");
        return false;
    }
    bool beyond = wanted.sequence > call->position;
    if (wanted.here && beyond && call->api->config.follow) return wait_for_more(call, verdict_out);
    bool others = call->lane->store->remote; /* write it too, so it may have more than is known */
    call->lost = !wanted.here || (beyond && !others);
    if (beyond && !call->lost) call->wanted = wanted.sequence;
    if (!call->lost) call->age.least = wanted.sequence;
    return true;
}

enum err position_settle(struct call *call)
{
    uint64_t wanted = call->wanted;
    if (wanted == 0) return ERR_OK;
    enum err e = call->task.looked ? call->newest_err : view_newest(&call->view, &call->newest);
    if (e != ERR_OK) return e;
    call->position = call->newest;
    call->wanted = 0;
    if (wanted > call->position) return ERR_POSITION;
    call->age.least = call->age.reached = call->newest; /* what is read then is no older */
    return ERR_OK;
}

/* -- Out --------------------------------------------------------------------------------------- */

void reply_sequence(struct reply *reply, uint64_t sequence)
{
    buf_add(&reply->headers, BYTES(LINE_START));
    buf_add_u64(&reply->headers, sequence);
    buf_add(&reply->headers, BYTES("\r\n"));
}

static void write_line(struct position_line *line, uint64_t sequence)
{
    struct buf text = {.data = line->text, .capacity = sizeof line->text, .max = sizeof line->text};
    buf_add(&text, BYTES(LINE_START));
    buf_add_u64(&text, sequence);
    buf_add(&text, BYTES("\r\n"));
    line->sequence = sequence;
    line->size = text.size;
}

void position_end(struct call *call)
{
    struct reply *reply = &call->exchange->reply;
    struct position_line *line = &call_loop(call)->position;
    if (reply->status != 200) return;
    if (call->lost) {
        exchange_error(call->exchange, ERR_POSITION, NULL);
        return;
    }
    if (call->age.reached != UINT64_MAX) call->position = call->age.reached;
    if (line->sequence != call->position || line->size == 0) write_line(line, call->position);
    buf_add(&reply->headers, bytes_of(line->text, line->size));
}

static void read_nothing(struct call *call)
{
    (void)call; /* the reply is filled, and stays if the position was reached */
}

enum request_verdict position_answered(struct call *call)
{
    if (call->wanted && call->exchange->reply.status == 200)
        return call_look(call, 0, NULL, read_nothing);
    position_end(call);
    return REQUEST_ANSWERED;
}
