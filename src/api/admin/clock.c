/* clock.c -- what time the server goes by, and the operator's word about the wall clock. */
#include "api/call.h"
#include "api/endpoints.h"
#include "commit/timekeeper.h"
#include "core/timefmt.h"

enum { ACCEPT, RESET };

static void add_flag(struct buf *body, const char *label, bool value)
{
    buf_addf(body, "\"%s\":%s,", label, value ? "true" : "false");
}

static void add_time(struct buf *body, const char *label, int64_t time_ms)
{
    buf_addf(body, "\"%s\":", label);
    time_format_json(body, time_ms);
}

static int64_t lead_ms(const struct timekeeper_state *state)
{
    int64_t lead = state->moment.now_ms - state->wall_ms;
    return lead < 0 ? -lead : lead;
}

/* Lanes have a time each, and nearly always the same. Where they differ, what is shown is the one
 * that an operator has to do something about: that is furthest from the wall clock. What is said of
 * one lane is said of all. */
static void read_state(const struct lanes *lanes, struct timekeeper_state *worst_out)
{
    timekeeper_state(lanes->items[0].keeper, worst_out);
    for (unsigned i = 1; i < lanes->count; i++) {
        struct timekeeper_state state;
        timekeeper_state(lanes->items[i].keeper, &state);
        state.suspect |= worst_out->suspect;
        state.settling |= worst_out->settling;
        if (lead_ms(&state) > lead_ms(worst_out)) *worst_out = state;
        worst_out->suspect = state.suspect;
        worst_out->settling = state.settling;
    }
}

static void answer_state(struct call *call)
{
    struct timekeeper_state state;
    struct reply *reply = &call->exchange->reply;
    struct buf *body = &reply->body;
    read_state(call->api->config.lanes, &state);
    reply->status = 200;
    buf_add_char(body, '{');
    add_flag(body, "suspect", state.suspect);
    add_flag(body, "settling", state.settling);
    add_flag(body, "synchronised", state.synchronised);
    add_time(body, "time", state.moment.now_ms);
    buf_add_char(body, ',');
    add_time(body, "wall", state.wall_ms);
    buf_add(body, BYTES(",\"sure\":"));
    if (moment_sure(&state.moment) == INT64_MIN)
        buf_add(body, BYTES("null"));
    else
        time_format_json(body, moment_sure(&state.moment));
    buf_add_char(body, '}');
}

enum request_verdict clock_get(struct call *call)
{
    answer_state(call);
    return REQUEST_ANSWERED;
}

/* A lane that cannot be written does not keep the others from being set. Repeating a reset that
 * failed in some lanes does the rest. */
static void run_reset(struct call *call)
{
    const struct lanes *lanes = call->api->config.lanes;
    enum err e = ERR_OK;
    for (unsigned i = 0; i < lanes->count; i++) {
        enum err lane_e = timekeeper_note_now(lanes->items[i].keeper, lanes->items[i].queue, true);
        if (e == ERR_OK) e = lane_e;
    }
    if (e == ERR_OK)
        answer_state(call);
    else
        exchange_error(call->exchange, e, NULL);
}

enum request_verdict clock_post(struct call *call)
{
    static const char *const actions[] = {[ACCEPT] = "accept", [RESET] = "reset", NULL};
    static const struct field field = {BYTES("action"), FIELD_CHOICE, .required = true,
                                       .choices = actions};
    struct field_value action;
    struct reason why;
    enum err e = call_fields(call, &field, 1, &action, &why);
    if (e != ERR_OK) return call_refuse(call, e, why.text);
    if (!action.present) return call_refuse(call, ERR_INVALID, "action is required.");
    if (action.integer == RESET) return call_read(call, run_reset);
    const struct lanes *lanes = call->api->config.lanes;
    for (unsigned i = 0; i < lanes->count; i++)
        timekeeper_accept(lanes->items[i].keeper);
    return clock_get(call);
}
