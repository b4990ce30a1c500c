/* traffic.c -- clients: what they ask, what they hear, what they ask again.
 *
 * A client that was not answered, or was answered 503, does not know what became of its request.
 * If the request has a key it is sent again, and the key must make it count once. */
#include "sim.h"

#include <stdlib.h>

#include "base/table.h"
#include "core/bucket.h"
#include "core/name.h"

/* Turns that a bundle may be passed over: for a sweep of six, one by one, and a few more. */
#define TURNS_MAX 16

/* ---- making requests ---- */

static int64_t pick_amount(struct sim *sim)
{
    static const int64_t extremes[] = {INT64_MAX,         INT64_MAX - 1, INT64_MAX / 2,
                                       INT64_MAX / 2 + 1, INT64_MAX - 5, 1};
    if (sim->plan.extremes && dice_chance(sim->dice, 40)) return DICE_PICK(sim->dice, extremes);
    return dice_between(sim->dice, 1, 10);
}

static int64_t pick_expiry(struct sim *sim)
{
    if (!dice_chance(sim->dice, sim->plan.expiring ? 70 : 5)) return TIME_NONE;
    switch (dice_below(sim->dice, 4)) {
    case 0:
        return sim->fleet->wall_ms + dice_between(sim->dice, -5, 5);
    case 1:
        return sim->fleet->wall_ms - dice_between(sim->dice, 1, 86400000);
    case 2:
        return sim->fleet->wall_ms + dice_between(sim->dice, 1, 86400000);
    default:
        return sim->fleet->wall_ms + dice_between(sim->dice, 1, 10000);
    }
}

static int64_t pick_cap(struct sim *sim)
{
    if (!dice_chance(sim->dice, 25)) return MODEL_NO_CAP;
    if (dice_chance(sim->dice, 10)) return dice_chance(sim->dice, 50) ? INT64_MAX : 0;
    return dice_between(sim->dice, 1, 30);
}

static struct model_key pick_key(struct sim *sim, bool used)
{
    if (!used) return (struct model_key){0};
    return (struct model_key){dice_below(sim->dice, sim->plan.keys), ++sim->checks, true};
}

static enum model_kind pick_kind(struct sim *sim, bool alone)
{
    unsigned throw = dice_below(sim->dice, 100);
    if (alone && throw < 4) return MODEL_DELETE; /* a batch has no such operation */
    return throw < 60 ? MODEL_INCREMENT : throw < 85 ? MODEL_DECREMENT : MODEL_SET;
}

/* What only Redis's protocol can ask: an exact expiry, a condition, a move within bounds. */
static void make_exact(struct sim *sim, struct model_op *op)
{
    static const enum model_kind kinds[] = {MODEL_INCREMENT, MODEL_SET,   MODEL_DEADLINE,
                                            MODEL_DEADLINE,  MODEL_MOVE,  MODEL_READ,
                                            MODEL_READ,      MODEL_REMOVE};
    struct dice *dice = sim->dice;
    op->kind = DICE_PICK(dice, kinds);
    op->expiry = (enum model_expiry)dice_below(dice, 4);
    if (op->expiry == MODEL_AFTER) op->expires_ms = dice_between(dice, -5, 20000);
    if (op->expiry == MODEL_AT && op->expires_ms == TIME_NONE)
        op->expires_ms = sim->fleet->wall_ms + dice_between(dice, -5, 20000);
    if (op->expiry < MODEL_AT && op->kind == MODEL_DEADLINE) op->expires_ms = TIME_NONE;
    if (op->kind == MODEL_SET && dice_chance(dice, 40)) op->when = 1 + dice_below(dice, 2);
    if (op->kind == MODEL_DEADLINE && dice_chance(dice, 50)) op->unless = dice_below(dice, 16);
    if (op->kind == MODEL_DEADLINE && op->expiry == MODEL_LATER) op->expiry = MODEL_CLEAR;
    if (op->kind != MODEL_MOVE) return;
    op->most = dice_chance(dice, 40) ? INT64_MAX : dice_between(dice, 0, 30);
    op->least = dice_between(dice, 0, op->most < 20 ? op->most : 20);
    op->saturate = dice_chance(dice, 50);
    if (dice_chance(dice, 40)) op->amount = -op->amount;
    if (dice_chance(dice, 20)) op->unless = MODEL_IF_THERE;
}

static struct model_op make_op(struct sim *sim, unsigned tenant, bool alone)
{
    struct plan *plan = &sim->plan;
    struct dice *dice = sim->dice;
    struct model_op op = {.kind = pick_kind(sim, alone), .tenant = tenant};
    op.name = dice_below(dice, plan->names);
    if (op.kind == MODEL_DELETE) return op;
    op.duration = plan->durations[dice_below(dice, plan->durations_count)];
    op.bucket = model_bucket(plan->times_ms[dice_below(dice, plan->times_count)], op.duration);
    op.amount = pick_amount(sim);
    if (op.kind == MODEL_SET && dice_chance(dice, 30)) op.amount = 0;
    op.max = op.kind == MODEL_INCREMENT ? pick_cap(sim) : MODEL_NO_CAP;
    op.expires_ms = pick_expiry(sim);
    if (dice_chance(dice, sim->plan.expiring ? 50 : 15)) make_exact(sim, &op);
    return op;
}

/* As the API makes them: single operations of either urgency, with or without a key; batches, cut
 * into as many commits as it takes; atomic or keyed batches, which are not. */
static void make_request(struct sim *sim, struct request *request)
{
    struct dice *dice = sim->dice;
    struct model_bundle *bundle = &request->asked;
    *request = (struct request){.bytes = 100 + dice_below(dice, 400)};
    bundle->tenant = dice_below(dice, sim->plan.tenants);
    bundle->count = 1;
    if (dice_chance(dice, 30)) {
        bundle->atomic = dice_chance(dice, 40);
        bundle->key = pick_key(sim, dice_chance(dice, 30));
        bool whole = bundle->atomic || bundle->key.used;
        unsigned most = whole ? sim->plan.batch_ops_max : MODEL_OPS_MAX;
        bundle->count = 1 + dice_below(dice, dice_chance(dice, 70) && most > 6 ? 6 : most);
    } else {
        request->urgency = dice_chance(dice, 30) ? URGENCY_URGENT : URGENCY_BATCHED;
    }
    if (sim->plan.events && dice_chance(dice, 45)) {
        events_ask(sim, bundle);
        return;
    }
    for (unsigned i = 0; i < bundle->count; i++) {
        bundle->ops[i] = make_op(sim, bundle->tenant,
                                 bundle->count == 1 && !bundle->atomic && !bundle->key.used);
        bundle->ops[i].key = pick_key(sim, bundle->ops[i].kind <= MODEL_SET &&
                                               bundle->ops[i].when == 0 && dice_chance(dice, 35));
        bundle->ops[i].malformed = bundle->count > 1 && !bundle->atomic && dice_chance(dice, 3);
        if (i && dice_chance(dice, 5))
            bundle->ops[i] = bundle->ops[i - 1]; /* the same, key and all */
    }
}

static bool has_key(const struct request *request)
{
    if (request->asked.key.used) return true;
    for (unsigned i = 0; i < request->asked.count; i++)
        if (request->asked.ops[i].key.used || request->asked.ops[i].kind == MODEL_EVENT)
            return true;
    return false;
}

/* Keeps some of the requests with keys; the oldest give way at random. */
static void keep_request(struct sim *sim, struct request *list, unsigned *count,
                         const struct request *request)
{
    if (!has_key(request)) return;
    list[*count < SIM_REQUESTS_MAX ? (*count)++ : dice_below(sim->dice, SIM_REQUESTS_MAX)] =
        *request;
}

/* ---- flights ---- */

static void flight_done(struct bundle *bundle);

struct flight *traffic_flight(struct bundle *bundle)
{
    return bundle->done == flight_done ? CONTAINER_OF(bundle, struct flight, bundle) : NULL;
}

static struct fingerprint key_print(struct sim *sim, unsigned tenant, unsigned number)
{
    char text[NAME_SIZE_MAX + 16];
    int size = snprintf(text, sizeof text, "k%s/%u", plan_tenant(sim, tenant), number);
    must(size > 0 && (size_t)size < sizeof text);
    return fingerprint_of(&sim->probe.store.secret, bytes_of(text, (size_t)size));
}

static void fill_op(struct sim *sim, struct flight *flight, unsigned index)
{
    static const enum op_kind kinds[] = {[MODEL_INCREMENT] = OP_INCREMENT,
                                         [MODEL_DECREMENT] = OP_DECREMENT,
                                         [MODEL_SET] = OP_SET,
                                         [MODEL_DELETE] = OP_DELETE,
                                         [MODEL_READ] = OP_READ,
                                         [MODEL_REMOVE] = OP_REMOVE,
                                         [MODEL_DEADLINE] = OP_DEADLINE,
                                         [MODEL_MOVE] = OP_MOVE};
    static const enum op_when whens[] = {WHEN_ANY, WHEN_ABSENT, WHEN_PRESENT};
    static const enum op_expiry expiries[] = {[MODEL_LATER] = EXPIRY_LATER,
                                              [MODEL_CLEAR] = EXPIRY_NONE,
                                              [MODEL_AT] = EXPIRY_AT,
                                              [MODEL_AFTER] = EXPIRY_AFTER};
    const struct model_op *asked = &flight->request.asked.ops[index];
    struct op *op = &flight->ops[index];
    struct bytes tenant = bytes_str(plan_tenant(sim, asked->tenant));
    *op = (struct op){.kind = kinds[asked->kind],
                      .err = asked->malformed ? ERR_INVALID : ERR_OK,
                      .bucket = asked->bucket,
                      .amount = asked->amount,
                      .max = asked->max,
                      .expires_ms = asked->expires_ms,
                      .expiry = expiries[asked->expiry],
                      .unless = asked->unless,
                      .when = whens[asked->when],
                      .bounds = &flight->bounds[index],
                      .duration = asked->duration,
                      .keyed = asked->key.used,
                      .key_digest = asked->key.digest};
    flight->bounds[index] = (struct op_bounds){asked->least, asked->most, asked->saturate};
    op->counter = counter_key(flight->keys[index], tenant, bytes_str(plan_name(asked->name)));
    op->tenant = bytes_of(op->counter.data, tenant.size);
    op->counter_print = fingerprint_of(&sim->probe.store.secret, op->counter);
    if (op->keyed) op->key = key_print(sim, asked->tenant, asked->key.number);
    int64_t inside_ms = asked->bucket * 1000 + (asked->duration ? 999 : 123456789);
    if (asked->kind != MODEL_DELETE && bucket_start(inside_ms, op->duration) != op->bucket)
        sim_fail(sim, "the bucket of %lld at duration %d is not %lld", (long long)inside_ms,
                 op->duration, (long long)op->bucket);
}

static struct flight *make_flight(struct sim *sim, const struct request *request)
{
    struct flight *flight = must_calloc(1, sizeof *flight);
    const struct model_bundle *asked = &request->asked;
    flight->request = *request;
    flight->expected = *asked;
    flight->bundle = (struct bundle){.ops = flight->ops,
                                     .count = asked->count,
                                     .urgency = request->urgency,
                                     .atomic = asked->atomic,
                                     .whole = asked->atomic || asked->key.used,
                                     .keyed = asked->key.used,
                                     .key_digest = asked->key.digest,
                                     .bytes = request->bytes,
                                     .tenant = bytes_str(plan_tenant(sim, asked->tenant)),
                                     .done = flight_done,
                                     .owner = sim};
    if (flight->bundle.keyed) flight->bundle.key = key_print(sim, asked->tenant, asked->key.number);
    asks_init(&flight->asks, &sim->probe.store.secret);
    for (unsigned i = 0; i < asked->count; i++) {
        if (asked->ops[i].kind == MODEL_EVENT)
            events_fill(sim, flight, i);
        else
            fill_op(sim, flight, i);
    }
    return flight;
}

static void free_flight(struct flight *flight)
{
    asks_release(&flight->asks);
    rules_release(flight->rules);
    free(flight);
}

bool traffic_sync_room(const struct sim *sim, uint32_t count)
{
    uint32_t used = fleet_urgent_ops(sim->fleet);
    return used == 0 || used + count <= sim->plan.queue.urgent_ops_max;
}

/* What the queue has to say. */
static enum err room_for(const struct sim *sim, const struct flight *flight)
{
    const struct queue_limits *limits = &sim->plan.queue;
    uint32_t count = flight->bundle.count;
    if (flight->bundle.urgency == URGENCY_URGENT)
        return traffic_sync_room(sim, count) ? ERR_OK : ERR_BUSY;
    if (fleet_queue_ops(sim->fleet) + count > limits->ops_max) return ERR_QUEUE_FULL;
    unsigned tenant = flight->request.asked.tenant;
    if (sim->tenant_ops[tenant] + count > limits->tenant_ops_max) return ERR_QUEUE_FULL;
    if (limits->tenant_bytes_max &&
        sim->tenant_bytes[tenant] + flight->bundle.bytes > limits->tenant_bytes_max)
        return ERR_QUEUE_FULL;
    size_t bytes = fleet_queue_bytes(sim->fleet) + flight->bundle.bytes;
    return bytes > limits->bytes_max ? ERR_QUEUE_FULL : ERR_OK;
}

static void note_queued(struct sim *sim, struct flight *flight)
{
    struct flight **end = &sim->flights;
    while (*end)
        end = &(*end)->next;
    *end = flight;
    sim->queue_bytes += flight->bundle.bytes;
    if (flight->bundle.urgency == URGENCY_URGENT) {
        sim->urgent_ops += flight->bundle.count;
    } else {
        sim->queue_ops += flight->bundle.count;
        sim->tenant_ops[flight->request.asked.tenant] += flight->bundle.count;
        sim->tenant_bytes[flight->request.asked.tenant] += flight->bundle.bytes;
    }
}

static void note_answered(struct sim *sim, struct flight *flight)
{
    struct flight **place = &sim->flights;
    while (*place && *place != flight)
        place = &(*place)->next;
    if (!*place) sim_fail(sim, "a bundle was answered twice");
    *place = flight->next;
    sim->queue_bytes -= flight->bundle.bytes;
    if (flight->bundle.urgency == URGENCY_URGENT) {
        sim->urgent_ops -= flight->bundle.count;
    } else {
        sim->queue_ops -= flight->bundle.count;
        sim->tenant_ops[flight->request.asked.tenant] -= flight->bundle.count;
        sim->tenant_bytes[flight->request.asked.tenant] -= flight->bundle.bytes;
    }
}

static void check_push(struct sim *sim, struct flight *flight, enum err said, enum err expected)
{
    if (said != expected)
        sim_fail(sim, "a push of %u operations was answered %s, expected %s", flight->bundle.count,
                 err_code(said), err_code(expected));
    if (said != ERR_OK) free_flight(flight);
}

static void push_one(struct sim *sim, const struct request *request)
{
    struct flight *flight = make_flight(sim, request);
    enum err expected = room_for(sim, flight);
    sim_say(sim, "push %u op(s) of tenant %u%s%s", request->asked.count, request->asked.tenant,
            request->asked.atomic ? ", atomic" : "", request->asked.key.used ? ", keyed" : "");
    keep_request(sim, sim->sent, &sim->sent_count, request);
    if (expected == ERR_OK) note_queued(sim, flight);
    check_push(sim, flight, queue_push(sim->queue, &flight->bundle), expected);
}

static void push_list(struct sim *sim, unsigned count)
{
    struct bundle *first = NULL, **end = &first, *refused;
    enum err expected[8];
    must(count <= ARRAY_COUNT(expected));
    for (unsigned i = 0; i < count; i++) {
        struct request request;
        make_request(sim, &request);
        struct flight *flight = make_flight(sim, &request);
        flight->bundle.next = NULL;
        *end = &flight->bundle;
        end = &flight->bundle.next;
        expected[i] = room_for(sim, flight);
        if (expected[i] == ERR_OK) note_queued(sim, flight);
    }
    sim_say(sim, "push a list of %u", count);
    struct bundle *bundles[8];
    for (unsigned i = 0; i < count; i++, first = first->next)
        bundles[i] = first;
    queue_push_all(sim->queue, bundles[0], &refused);
    for (unsigned i = 0; i < count; i++) {
        if (expected[i] == ERR_OK) continue;
        if (refused != bundles[i]) sim_fail(sim, "the list of refused bundles is not as expected");
        refused = refused->next;
        check_push(sim, traffic_flight(bundles[i]), bundles[i]->err, expected[i]);
    }
    if (refused) sim_fail(sim, "more bundles were refused than expected");
}

void traffic_push(struct sim *sim)
{
    struct dice *dice = sim->dice;
    if (sim->sent_count && dice_chance(dice, 20)) {
        struct request again = sim->sent[dice_below(dice, sim->sent_count)];
        if (dice_chance(dice, 10))
            again.asked.key.digest = again.asked.ops[0].key.digest =
                ++sim->checks; /* the same key with another request */
        push_one(sim, &again);
    } else if (dice_chance(dice, 20)) {
        push_list(sim, 1 + dice_below(dice, 5));
    } else {
        struct request request;
        make_request(sim, &request);
        push_one(sim, &request);
    }
}

void traffic_renew(struct sim *sim)
{
    unsigned tenant = dice_below(sim->dice, sim->plan.tenants);
    for (unsigned name = 0; name < sim->plan.names; name++) {
        struct request request = {.bytes = 1};
        request.asked.count = 1;
        request.asked.tenant = tenant;
        request.asked.ops[0] =
            (struct model_op){.kind = MODEL_DELETE, .tenant = tenant, .name = name};
        push_one(sim, &request);
        request.asked.ops[0] = make_op(sim, tenant, false);
        request.asked.ops[0].name = name;
        push_one(sim, &request);
    }
}

void traffic_retry(struct sim *sim)
{
    if (!sim->unheard_count) return;
    unsigned index = dice_below(sim->dice, sim->unheard_count);
    struct request request = sim->unheard[index];
    sim->unheard[index] = sim->unheard[--sim->unheard_count];
    push_one(sim, &request);
}

/* Deleting what never was is 404, which no key remembers; a key that is known is a conflict. */
void traffic_ask_keys(struct sim *sim)
{
    for (unsigned tenant = 0; tenant < sim->plan.tenants; tenant++)
        for (unsigned number = 0; number < sim->plan.keys; number++) {
            struct request request = {.urgency = URGENCY_URGENT};
            request.asked.count = 1;
            request.asked.tenant = tenant;
            request.asked.ops[0] = (struct model_op){.kind = MODEL_DELETE,
                                                     .tenant = tenant,
                                                     .name = MODEL_NAMES,
                                                     .key = {number, ++sim->checks, true}};
            struct flight *flight = make_flight(sim, &request);
            while (room_for(sim, flight) != ERR_OK)
                if (!fleet_move(sim->fleet)) sim_fail(sim, "the queue stays full");
            note_queued(sim, flight);
            check_push(sim, flight, queue_push(sim->queue, &flight->bundle), ERR_OK);
        }
    life_drain(sim);
}

/* ---- answers ---- */

static void answer_wrong(struct sim *sim, const struct flight *flight, unsigned index,
                         const char *what, long long said, long long expected)
{
    const struct model_op *op = &flight->request.asked.ops[index];
    sim_fail(sim,
             "op %u of %u (kind %d, tenant %u, name %u, duration %d, bucket %lld, amount %lld, "
             "max %lld%s): %s is %lld, expected %lld",
             index, flight->bundle.count, op->kind, op->tenant, op->name, op->duration,
             (long long)op->bucket, (long long)op->amount, (long long)op->max,
             op->key.used ? ", keyed" : "", what, said, expected);
}

/* An answer that a key gives again says no more than the value. */
static void check_found(struct sim *sim, const struct flight *flight, unsigned index)
{
    const struct op *said = &flight->ops[index];
    const struct model_answer *expected = &flight->expected.answers[index];
    if (said->replayed || flight->expected.replayed) return;
    if (said->existed != expected->existed)
        answer_wrong(sim, flight, index, "whether it was there", said->existed, expected->existed);
    if (said->unmet != expected->unmet)
        answer_wrong(sim, flight, index, "whether nothing was done", said->unmet, expected->unmet);
    if ((said->kind == OP_SET || said->kind == OP_MOVE) && said->was != expected->was)
        answer_wrong(sim, flight, index, "what was there", said->was, expected->was);
    if (said->kind == OP_READ && said->existed && said->left_ms != expected->left_ms)
        answer_wrong(sim, flight, index, "the time left", said->left_ms, expected->left_ms);
}

static void check_answer(struct sim *sim, const struct flight *flight, unsigned index)
{
    const struct op *said = &flight->ops[index];
    const struct model_answer *expected = &flight->expected.answers[index];
    if (said->err != expected->err)
        answer_wrong(sim, flight, index, "the outcome", said->err, expected->err);
    if (!flight->expected.replayed && said->replayed != expected->replayed)
        answer_wrong(sim, flight, index, "replayed", said->replayed, expected->replayed);
    if (flight->bundle.count == 1 && !flight->bundle.keyed && said->sequence != expected->sequence)
        answer_wrong(sim, flight, index, "the sequence", (long long)said->sequence,
                     (long long)expected->sequence);
    if (said->kind == OP_EVENT) {
        events_check(sim, flight, index);
        return;
    }
    bool shown = said->err == ERR_OK || said->err == ERR_LIMIT;
    if (!shown || said->kind == OP_DELETE) return;
    check_found(sim, flight, index);
    if (said->kind == OP_REMOVE) return;
    if (said->after.added != expected->added)
        answer_wrong(sim, flight, index, "added", said->after.added, expected->added);
    if (said->after.subbed != expected->subbed)
        answer_wrong(sim, flight, index, "subbed", said->after.subbed, expected->subbed);
    if (said->after.net != expected->added - expected->subbed)
        answer_wrong(sim, flight, index, "net", said->after.net,
                     expected->added - expected->subbed);
}

static void check_answers(struct sim *sim, const struct flight *flight)
{
    const struct bundle *bundle = &flight->bundle;
    const struct model_bundle *expected = &flight->expected;
    if (flight->taken != bundle->count)
        sim_fail(sim, "a bundle was answered before it was decided");
    if (bundle->err != expected->err)
        sim_fail(sim, "a bundle was answered %s, expected %s", err_code(bundle->err),
                 err_code(expected->err));
    if (bundle->err == ERR_KEY_CONFLICT && bundle->keyed) return;
    if (bundle->replayed != expected->replayed)
        sim_fail(sim, "a bundle's answer says replayed %d, expected %d", bundle->replayed,
                 expected->replayed);
    if (bundle->sequence != expected->sequence)
        sim_fail(sim, "a bundle of %u has sequence %llu, expected %llu", bundle->count,
                 (unsigned long long)bundle->sequence, (unsigned long long)expected->sequence);
    if (bundle->err != ERR_OK && bundle->failed_index != expected->failed_index)
        sim_fail(sim, "op %u is said to have stopped the bundle, expected %u", bundle->failed_index,
                 expected->failed_index);
    for (unsigned i = 0; i < bundle->count && bundle->err == ERR_OK; i++)
        check_answer(sim, flight, i);
}

static void flight_done(struct bundle *bundle)
{
    struct sim *sim = bundle->owner;
    struct flight *flight = traffic_flight(bundle);
    note_answered(sim, flight);
    sim->answers++;
    if (!sim->probe.dead) {
        if (!flight->failed)
            check_answers(sim, flight);
        else if (bundle->err != ERR_STORAGE)
            sim_fail(sim, "a bundle that could not be made durable was answered %s",
                     err_code(bundle->err));
    }
    sim->failures += flight->failed;
    /* After the picture there is no network any more: nobody heard this. */
    if (flight->failed || sim->probe.dead || sim->pictured)
        keep_request(sim, sim->unheard, &sim->unheard_count, &flight->request);
    free_flight(flight);
}

/* ---- what the queue promises ---- */

static bool same_line(const struct flight *a, const struct flight *b)
{
    if (a->bundle.urgency != b->bundle.urgency) return false;
    return a->bundle.urgency == URGENCY_URGENT ||
           a->request.asked.tenant == b->request.asked.tenant;
}

static void check_turn(struct sim *sim, const struct flight *flight, const struct slice *slice)
{
    if (slice->first != flight->taken)
        sim_fail(sim, "a bundle's operations are taken out of order");
    if (flight->bundle.whole && slice->count != flight->bundle.count)
        sim_fail(sim, "a bundle that must stay whole was cut");
    for (const struct flight *older = sim->flights; older != flight; older = older->next) {
        if (!older) sim_fail(sim, "a bundle was taken that had been answered");
        if (same_line(older, flight) && older->taken < older->bundle.count)
            sim_fail(sim, "a bundle overtook an older one of its urgency and tenant");
    }
}

static bool is_next(const struct sim *sim, const struct flight *flight)
{
    for (const struct flight *older = sim->flights; older != flight; older = older->next)
        if (same_line(older, flight) && older->taken < older->bundle.count) return false;
    return flight->taken < flight->bundle.count;
}

/* One by one, and every other turn: an errand that stood among the urgent bundles first. */
static unsigned patience_of(const struct sim *sim, const struct flight *flight)
{
    return TURNS_MAX + (flight->bundle.urgency == URGENCY_URGENT ? 2 * errands_waiting(sim) : 0);
}

/* Lanes and tenants take turns: nobody's next bundle waits for ever, however large. */
static void check_patience(struct sim *sim)
{
    for (struct flight *flight = sim->flights; flight; flight = flight->next) {
        if (!is_next(sim, flight)) continue;
        if (flight->passed_over == 0) flight->patience = patience_of(sim, flight);
        if (++flight->passed_over > flight->patience)
            sim_fail(
                sim,
                "tenant %u's bundle of %u operations%s%s was passed over %u times, batches of %u",
                flight->request.asked.tenant, flight->bundle.count,
                flight->bundle.whole ? ", whole," : "",
                flight->bundle.urgency == URGENCY_URGENT ? ", urgent," : "", flight->passed_over,
                sim->plan.batch_ops_max);
    }
}

static bool batched_waits(const struct sim *sim)
{
    for (const struct flight *flight = sim->flights; flight; flight = flight->next)
        if (flight->bundle.urgency == URGENCY_BATCHED && flight->taken < flight->bundle.count)
            return true;
    return false;
}

/* What is heavier than a batch goes as the only such one, with no more than its bundle's
 * objects. */
static void check_weight(struct sim *sim, const struct apply *apply)
{
    size_t weight = 0, objects = 0;
    unsigned weighty = 0;
    for (uint32_t s = 0; s < apply->slices_count; s++) {
        const struct slice *slice = &apply->slices[s];
        for (uint32_t i = 0; i < slice->count; i++) {
            const struct op *op = &slice->bundle->ops[slice->first + i];
            weight += op->weight;
            objects += op->kind == OP_OBJECT ? op->weight : 0;
            weighty += op->kind != OP_OBJECT && op->weight > 0;
        }
    }
    size_t most = sim->plan.queue.batch_weight_max;
    if (most && weight > most && (weighty > 1 || objects > most / 2))
        sim_fail(sim, "a batch of weight %zu, at most %zu", weight, most);
}

/* New rules, what looks at everything before it, and what no batch has room for. */
static bool goes_alone(const struct bundle *bundle)
{
    return bundle->rules || bundle->prepare || bundle->alone;
}

static void check_alone(struct sim *sim, const struct apply *apply)
{
    const struct errand *errand = errand_of(apply->slices[0].bundle);
    if (apply->slices_count != 1) sim_fail(sim, "a bundle that goes alone came with others");
    if (apply->slices[0].bundle->retime)
        return; /* the timekeeper's, which may be nobody's errand */
    if (!errand) sim_fail(sim, "a request of a client goes alone");
}

void traffic_taken(struct sim *sim, const struct apply *apply)
{
    errands_taken(sim);
    check_weight(sim, apply);
    if (goes_alone(apply->slices[0].bundle)) {
        check_alone(sim, apply);
        return;
    }
    uint32_t ops = 0, urgent_ops = 0, urgent_slices = 0;
    bool waits = batched_waits(sim);
    uint32_t most = sim->plan.batch_ops_max;
    for (uint32_t s = 0; s < apply->slices_count; s++) {
        const struct slice *slice = &apply->slices[s];
        struct flight *flight = traffic_flight(slice->bundle);
        ops += slice->count;
        urgent_slices += slice->bundle->urgency == URGENCY_URGENT;
        urgent_ops += slice->bundle->urgency == URGENCY_URGENT ? slice->count : 0;
        if (!flight) continue;
        check_turn(sim, flight, slice);
        flight->taken += slice->count;
        flight->passed_over = 0;
    }
    check_patience(sim);
    if (ops == 0 || ops > most) sim_fail(sim, "a batch of %u operations, at most %u", ops, most);
    if (waits && most > 1 && urgent_ops > most / 2 && urgent_slices > 1)
        sim_fail(sim, "%u of %u urgent operations while others wait", urgent_ops, most);
}

/* Only the queue knows what it gave. */
void traffic_refused(struct sim *sim)
{
    for (struct flight *flight = sim->flights; flight; flight = flight->next) {
        if (flight->bundle.taken == flight->taken) continue;
        flight->failed = true;
        flight->taken = flight->bundle.taken;
        flight->passed_over = 0;
    }
    errands_refused(sim);
}

bool traffic_idle(const struct sim *sim)
{
    return sim->queue_ops == 0 && sim->urgent_ops == 0 && sim->tended_ops == 0 &&
           sim->tended_urgent_ops == 0;
}

/* `all`: what the model counts of it over all lanes, this lane's `ours` and `tended` among it. */
static uint32_t check_used(struct sim *sim, enum room_of which, uint32_t all, uint32_t ours,
                           uint32_t tended)
{
    uint64_t others = all - ours - tended;
    uint64_t used = room_used(&sim->fleet->room, which) - others;
    if (used < ours || used - ours > tended)
        sim_fail(sim, "the queue says %llu operations are unanswered, expected %u and up to %u",
                 (unsigned long long)used, ours, tended);
    return (uint32_t)used - ours;
}

/* What is not ours is of those who tend: it is answered whole, and nobody but them adds any. */
void traffic_check_depth(struct sim *sim)
{
    struct fleet *fleet = sim->fleet;
    sim->tended_ops =
        check_used(sim, ROOM_OPS, fleet_queue_ops(fleet), sim->queue_ops, sim->tended_ops);
    sim->tended_urgent_ops = check_used(sim, ROOM_URGENT_OPS, fleet_urgent_ops(fleet),
                                        sim->urgent_ops, sim->tended_urgent_ops);
    uint32_t all = sim->queue_ops + sim->urgent_ops + sim->tended_ops + sim->tended_urgent_ops;
    if (queue_depth(sim->queue) != all)
        sim_fail(sim, "the queue is %u deep, expected %u", queue_depth(sim->queue), all);
}
