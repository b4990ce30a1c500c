/* events.c -- events as requests carry them and as history shows them. */
#include "sim.h"

#include <stdlib.h>

#include "base/table.h"
#include "core/project.h"

#define TEXT_SIZE 200

/* ---- the same event in every form ---- */

static void id_text(const struct model_event *event, char out[TEXT_SIZE])
{
    snprintf(out, TEXT_SIZE, "id %u", event->id);
}

/* As ask_event reads it, and as canonical JSON. */
static void dimensions_text(const struct model_event *event, char out[TEXT_SIZE], bool json)
{
    const unsigned values[] = {event->a, event->b, event->e};
    size_t used = 0;
    out[0] = 0;
    if (json) used += (size_t)snprintf(out, TEXT_SIZE, "{");
    size_t start = used;
    for (unsigned i = 0; i < ARRAY_COUNT(values); i++)
        if (values[i])
            used +=
                (size_t)snprintf(out + used, TEXT_SIZE - used, json ? "%s\"%c\":\"%u\"" : "%s%c=%u",
                                 used == start ? ""
                                 : json        ? ","
                                               : " ",
                                 "abe"[i], values[i]);
    if (json) snprintf(out + used, TEXT_SIZE - used, "}");
}

/* One value as a number, the other as a string: compared by their string form. */
static void payload_text(const struct model_event *event, char out[TEXT_SIZE])
{
    char n[40] = "", p[20] = "";
    if (event->has_n) snprintf(n, sizeof n, "\"n\":%lld", (long long)event->n);
    if (event->p) snprintf(p, sizeof p, event->p == 1 ? "\"p\":%u" : "\"p\":\"%u\"", event->p);
    out[0] = 0;
    if (event->has_n || event->p)
        snprintf(out, TEXT_SIZE, "{%s%s%s}", n, event->has_n && event->p ? "," : "", p);
}

/* ---- sending ---- */

static int64_t pick_amount(struct sim *sim)
{
    static const int64_t extremes[] = {INT64_MAX, INT64_MAX / 2, INT64_MAX - 3};
    if (sim->plan.extremes && dice_chance(sim->dice, 20)) return DICE_PICK(sim->dice, extremes);
    return dice_between(sim->dice, -1, 5);
}

static int64_t pick_time(struct sim *sim)
{
    struct dice *dice = sim->dice;
    if (dice_chance(dice, 50)) return sim->fleet->wall_ms - dice_between(dice, 0, 5000);
    return sim->plan.times_ms[dice_below(dice, sim->plan.times_count)];
}

static struct model_event make_event(struct sim *sim, unsigned tenant)
{
    struct dice *dice = sim->dice;
    struct model_event event = {.id = dice_below(dice, sim->plan.ids)};
    const struct model_id *known =
        &chain_head(&sim->chain)->ids[sim->plan.limits.ids_shared ? 0 : tenant][event.id];
    if (known->known && dice_chance(dice, 70)) { /* mostly a true repeat */
        event = known->event;
        event.occurred_ms = pick_time(sim);
        return event;
    }
    event.type = dice_below(dice, RULESET_TYPES);
    event.a = dice_below(dice, RULESET_VALUES + 1);
    event.b = dice_below(dice, RULESET_VALUES + 1);
    event.p = dice_below(dice, RULESET_VALUES + 1);
    event.e = dice_below(dice, RULESET_ENTITIES + 1);
    event.has_n = dice_chance(dice, 70);
    if (event.has_n) event.n = pick_amount(sim);
    event.occurred_ms = pick_time(sim);
    return event;
}

/* An event's id is its key, and a request of events has no other. */
void events_ask(struct sim *sim, struct model_bundle *bundle)
{
    bundle->atomic = false;
    bundle->key = (struct model_key){0};
    for (unsigned i = 0; i < bundle->count; i++) {
        bundle->ops[i] = (struct model_op){.kind = MODEL_EVENT, .tenant = bundle->tenant};
        bundle->ops[i].event = make_event(sim, bundle->tenant);
        bundle->ops[i].malformed = bundle->count > 1 && dice_chance(sim->dice, 3);
        if (i && dice_chance(sim->dice, 10)) bundle->ops[i] = bundle->ops[i - 1];
    }
}

static struct projection *project_now(struct sim *sim, struct flight *flight, const struct op *op)
{
    struct json_value payload = {.type = JSON_ABSENT};
    struct bytes text = op->event->payload;
    if (!flight->rules) flight->rules = rulebook_hold(sim->rulebook);
    if (text.size) {
        char *copy = arena_zalloc(&flight->asks.arena, text.size + JSON_PADDING);
        memcpy(copy, text.data, text.size);
        bool parsed = json_parse(sim->parser, bytes_of(copy, text.size), &payload);
        must(parsed);
    }
    const struct project_input input = {.rules = flight->rules,
                                        .secret = &sim->probe.store.secret,
                                        .tenant = op->tenant,
                                        .payload = &payload,
                                        .arena = &flight->asks.arena};
    return project(&input, op->event);
}

/* Projected where it is read, by the rules in force for readers then. */
void events_fill(struct sim *sim, struct flight *flight, unsigned index)
{
    const struct model_op *asked = &flight->request.asked.ops[index];
    char id[TEXT_SIZE], dimensions[TEXT_SIZE], payload[TEXT_SIZE];
    id_text(&asked->event, id);
    dimensions_text(&asked->event, dimensions, false);
    payload_text(&asked->event, payload);
    flight->asks.tenant = plan_tenant(sim, asked->tenant);
    flight->asks.ids_shared = sim->plan.limits.ids_shared;
    flight->asks.occurred_ms = asked->event.occurred_ms;
    struct op *op = &flight->ops[index];
    *op = ask_event(&flight->asks, id, ruleset_type(asked->event.type), dimensions,
                    payload[0] ? payload : NULL);
    op->event->projection = project_now(sim, flight, op);
    op->weight = op->event->projection->weight;
    if (asked->malformed) op->err = ERR_INVALID;
    flight->bundle.weighty = true;
}

/* ---- answers ---- */

void events_check(struct sim *sim, const struct flight *flight, unsigned index)
{
    const struct event *said = flight->ops[index].event;
    const struct model_answer *expected = &flight->expected.answers[index];
    if (flight->ops[index].err != ERR_OK) return;
    bool duplicate = said->result == EVENT_DUPLICATE;
    if (duplicate != expected->duplicate || said->first_sequence != expected->first_sequence ||
        said->first_seen_ms != expected->first_seen_ms || said->counters != expected->counters)
        sim_fail(sim,
                 "event %u of tenant %u is answered %s of %llu at %lld with %u cells, expected %s "
                 "of %llu at %lld with %u",
                 flight->request.asked.ops[index].event.id, flight->request.asked.tenant,
                 duplicate ? "duplicate" : "applied", (unsigned long long)said->first_sequence,
                 (long long)said->first_seen_ms, said->counters,
                 expected->duplicate ? "duplicate" : "applied",
                 (unsigned long long)expected->first_sequence, (long long)expected->first_seen_ms,
                 expected->counters);
    if (duplicate && (said->conflict != expected->conflict || said->foreign != expected->foreign))
        sim_fail(sim, "a duplicate's answer says conflict %d, foreign %d; expected %d, %d",
                 said->conflict, said->foreign, expected->conflict, expected->foreign);
}

/* ---- history ---- */

/* What a query has to find, and how far it was found. */
struct reading {
    struct sim *sim;
    const struct model_past **expected;
    unsigned count;
    unsigned at;
    unsigned left; /* in this page; 0: no bound */
};

static bool is(struct bytes said, const char *expected)
{
    return bytes_equal(said, bytes_str(expected));
}

static bool same_event(const struct sim *sim, const struct stored_event *said,
                       const struct model_past *expected)
{
    char id[TEXT_SIZE], dimensions[TEXT_SIZE], payload[TEXT_SIZE];
    id_text(&expected->event, id);
    dimensions_text(&expected->event, dimensions, true);
    payload_text(&expected->event, payload);
    if (expected->duplicate && (said->first_sequence != expected->first_sequence ||
                                said->first_seen_ms != expected->first_seen_ms))
        return false;
    return said->sequence == expected->sequence && said->arrived_ms == expected->arrived_ms &&
           said->duplicate == expected->duplicate &&
           said->occurred_ms == expected->event.occurred_ms &&
           is(said->tenant, plan_tenant(sim, expected->tenant)) && is(said->id, id) &&
           is(said->type, ruleset_type(expected->event.type)) &&
           is(said->dimensions_json, dimensions) && is(said->payload, payload);
}

static bool read_event(void *context, const struct stored_event *event)
{
    struct reading *reading = context;
    struct sim *sim = reading->sim;
    if (reading->at == reading->count)
        sim_fail(sim, "history shows sequence %llu, which is not to be there",
                 (unsigned long long)event->sequence);
    const struct model_past *expected = reading->expected[reading->at++];
    if (!same_event(sim, event, expected))
        sim_fail(sim, "history shows sequence %llu with id %.*s, expected %llu with id %u",
                 (unsigned long long)event->sequence, (int)event->id.size, event->id.data,
                 (unsigned long long)expected->sequence, expected->event.id);
    return reading->left == 0 || --reading->left > 0;
}

static bool is_asked_for(const struct sim *sim, const struct event_query *query,
                         const struct model_past *past)
{
    if (past->sequence <= query->after || past->sequence > query->upto) return false;
    if (past->arrived_ms < query->arrived_from) return false;
    if (!(past->duplicate ? query->duplicates : query->events)) return false;
    return query->tenant.size == 0 || is(query->tenant, plan_tenant(sim, past->tenant));
}

static void expect_events(struct reading *reading, const struct event_query *query)
{
    const struct model *model = &reading->sim->chain.shown;
    unsigned room = model->events_count;
    reading->expected = must_calloc(room + 1, sizeof(struct model_past *));
    for (const struct model_past *past = model->events; past; past = past->before)
        if (is_asked_for(reading->sim, query, past)) reading->expected[--room] = past;
    reading->count = model->events_count - room;
    memmove(reading->expected, reading->expected + room,
            reading->count * sizeof(struct model_past *));
}

/* In pages of `most`, or of what the store finds enough. */
static void compare_query(struct sim *sim, struct event_query query, unsigned most)
{
    struct store *store = &sim->probe.store;
    struct reading reading = {.sim = sim};
    uint64_t next = 0;
    expect_events(&reading, &query);
    for (bool more = true; more; query.after = next, more = next != 0) {
        reading.left = most;
        enum err e = view_events(&store->view, &query, read_event, &reading, &next);
        if (e == ERR_STORAGE && (sim->journal_faulty || sim->state_faulty)) break;
        if (e != ERR_OK) sim_fail(sim, "history cannot be read: %s", err_code(e));
        if (next && next <= query.after) sim_fail(sim, "history does not go on");
        if (next == 0 && reading.at != reading.count)
            sim_fail(sim, "history ends after %u of %u", reading.at, reading.count);
    }
    free(reading.expected);
}

static struct event_query query_all(const struct sim *sim)
{
    return (struct event_query){.after = sim->chain.shown.gone,
                                .upto = UINT64_MAX,
                                .arrived_from = sim->chain.shown.retained_ms,
                                .events = true,
                                .duplicates = true,
                                .budget = SIZE_MAX};
}

void events_compare_all(struct sim *sim)
{
    compare_query(sim, query_all(sim), 0);
}

void events_compare_some(struct sim *sim)
{
    struct dice *dice = sim->dice;
    uint64_t last = sim->chain.shown.sequence;
    struct event_query query = query_all(sim);
    if (dice_chance(dice, 50))
        query.tenant = bytes_str(plan_tenant(sim, dice_below(dice, sim->plan.tenants)));
    query.events = dice_chance(dice, 70);
    query.duplicates = dice_chance(dice, 70);
    if (dice_chance(dice, 40))
        query.after = (uint64_t)dice_between(dice, (int64_t)query.after, (int64_t)last);
    if (dice_chance(dice, 40)) query.upto = (uint64_t)dice_between(dice, 0, (int64_t)last);
    if (dice_chance(dice, 40)) query.budget = dice_below(dice, 5000);
    compare_query(sim, query, dice_below(dice, 6));
}
