/* train.c -- from the commands of a train to its reply.
 *
 *     request    each command: refused, answered at once, or made into ops. A GET that stands
 *                behind nothing and that memory can answer is answered at once
 *                no ops: answered. Only reads and nothing before them: memory, or a reader.
 *                Else the ops go to the lane's queue, in order, in one or more bundles
 *     complete   the bundles are decided, or the reader is done: the reply is written
 *
 * (1) The commands of one connection take effect in the order in which they came, and are answered
 *     in it.
 * (2) A read stands in the queue like a write as long as the connection has a train under way.
 * (3) While a reader reads for a train nothing behind it is begun: it would not wait in the queue
 *     for what is not in it, and the read would see it. */
#include "api/resp/train.h"

#include <stdio.h>

#include "api/counters/change.h"
#include "api/events/events.h"
#include "api/resp/resp.h"
#include "base/metrics.h"
#include "config/config.h"
#include "core/name.h"
#include "replica/ship.h"

#define REPLY_BYTES 64u /* what an op adds to a reply, at most */
#define TEXT_BYTES_MAX (64u << 20)

/* -- Reading a train --------------------------------------------------------------------------- */

static bool arity_fits(const struct resp_entry *entry, uint32_t count)
{
    return entry->arity < 0 ? count >= (uint32_t)-entry->arity : count == (uint32_t)entry->arity;
}

/* Clients of clusters know READONLY, and look for the primary. */
static void refuse_at_follower(struct train *train)
{
    char sentence[512];
    snprintf(sentence, sizeof sentence, "READONLY this is a follower; the primary is %.400s",
             train->api->config.primary);
    train_refuse(train, sentence);
}

/* A transaction whose token is over ends with EXEC and DISCARD all the same: AUTH is refused inside
 * of one, so the connection could never show another token. */
static void refuse_stranger(struct train *train)
{
    bool ends =
        train->entry && (train->entry->run == resp_exec || train->entry->run == resp_discard);
    if (ends) multi_end(train);
    train_refuse(train, "NOAUTH Authentication required.");
}

/* Whether the caller may use it; false after refusing. */
static bool is_allowed(struct train *train)
{
    const struct resp_entry *entry = train->entry;
    const struct session *session = train->session;
    if (entry->flags & RESP_STRANGER) return true;
    if (!session->known) {
        refuse_stranger(train);
        return false;
    }
    bool may = entry->scope == 0 || (session->identity.scopes & entry->scope);
    if (may && entry->scope == SCOPE_WRITE && train->api->config.follow) {
        refuse_at_follower(train);
        return false;
    }
    bool waits =
        entry->scope && train->api->config.ship && !ship_is_settled(train->api->config.ship);
    if (may && waits) {
        train_refuse(train, "UNAVAILABLE not enough followers, nothing was done");
        return false;
    }
    if (may) return true;
    train_refuse(train, entry->scope == SCOPE_READ
                            ? "NOPERM the token's scope does not allow reading"
                            : "NOPERM the token's scope does not allow writing");
    return false;
}

/* Whether it is a command that the caller may use, in its form; false after refusing. */
static bool is_good(struct train *train, const struct resp_command *command)
{
    const struct resp_entry *entry = train->entry;
    if (entry && arity_fits(entry, command->count)) return is_allowed(train);
    if (entry)
        train_refuse_arity(train);
    else if (train->session->known)
        train_refuse_unknown(train, command);
    else
        refuse_stranger(train);
    return false;
}

/* Whether the command at hand goes into this train. */
static bool may_join(struct train *train, const struct resp_entry *entry)
{
    if (!entry) return true;
    bool begun = train->looked || train->promises_count > 0;
    if ((entry->flags & RESP_CUTS) && begun) return false;
    if (!(entry->flags & RESP_ALONE)) return true;
    train->waits = train->done == 0 && train->session->trains > 0;
    return train->done == 0 && !train->waits;
}

/* False: the command goes into another train. */
static bool run_command(struct train *train, const struct resp_command *command, unsigned index)
{
    train->entry = index < resp_entries_count() ? &resp_entries[index] : NULL;
    const struct resp_entry *entry = train->entry;
    if (!may_join(train, entry)) return false;
    if (!is_good(train, command) || !entry)
        multi_spoil(train->session);
    else if (train->session->multi.open && !(entry->flags & RESP_CONTROLS))
        multi_collect(train, command);
    else
        entry->run(train, command);
    return true;
}

/* Commands of a pipeline are often the same, so they are looked for once, and counted once. */
struct streak {
    struct bytes name;
    unsigned index;
    unsigned count;
};

static void streak_end(const struct streak *run)
{
    if (run->count) metrics_command(run->index, run->count);
}

static void streak_next(struct streak *run, struct bytes name)
{
    if (!bytes_equal(run->name, name)) {
        streak_end(run);
        *run = (struct streak){name, resp_find(name), 0};
    }
    run->count++;
}

static void read_commands(struct train *train)
{
    struct exchange *exchange = train->exchange;
    struct resp_reader reader = {.rest = exchange->request.body};
    struct resp_command command;
    struct streak run = {.name = BYTES_NONE, .index = resp_entries_count()};
    size_t whole = reader.rest.size, before = whole;
    while (!exchange->reply.close && !train->work &&
           resp_next(&reader, &exchange->arena, &command)) {
        streak_next(&run, command.items[0]);
        if (!run_command(train, &command, run.index)) {
            run.count--;
            break;
        }
        before = reader.rest.size;
        train->done++;
    }
    exchange->taken = whole - before;
    streak_end(&run);
}

/* Bytes are charged to the tenant that the session is about, which need not be the one that the
 * connection counts for. */
void train_take_share(struct train *train)
{
    struct exchange *exchange = train->exchange;
    struct session *session = train->session;
    struct bytes tenant = session_tenant(session);
    train->lane = session->lane;
    train->tenant = arena_copy(&exchange->arena, tenant);
    if (exchange->charged) return;
    if (train->held) shares_let_go(train->api->shares, train->held);
    train->held = NULL;
    if (!shares_is_of(*exchange->slot, tenant))
        train->held = shares_hold(train->api->shares, tenant);
    exchange->share = train->held ? train->held : *exchange->slot;
}

/* -- The reply --------------------------------------------------------------------------------- */

static void train_end(struct train *train)
{
    buf_release(&train->text);
    if (train->rules) rules_release(train->rules);
    train->rules = NULL;
}

static void add_piece(struct train *train, uint32_t i, struct buf *out)
{
    const struct promise *promise = &train->promises[i];
    size_t end = train->text.size;
    for (uint32_t next = i + 1; next < train->promises_count; next++) {
        if (train->promises[next].reply) continue;
        end = train->promises[next].first;
        break;
    }
    buf_add(out, bytes_of(train->text.data + promise->first, end - promise->first));
}

static void train_reply(struct train *train)
{
    train->failed = false; /* EXEC's promise sets it where those inside of it are void */
    struct buf *out = &train->exchange->reply.body;
    for (uint32_t i = 0; i < train->promises_count; i++) {
        const struct promise *promise = &train->promises[i];
        if (promise->reply)
            promise->reply(train, promise, out);
        else
            add_piece(train, i, out);
        if (promise->inside && train->failed) i += promise->inside;
        train->failed = false;
    }
    train_end(train);
}

static void fail_ops(struct train *train, uint32_t first, uint32_t count, enum err e)
{
    for (uint32_t i = first; i < first + count; i++)
        train->ops[i].err = e;
}

/* What happened to a bundle as a whole happened to each of its ops. */
static void spread_errors(struct train *train)
{
    for (uint32_t i = 0; i < train->stretches_count; i++) {
        const struct stretch *stretch = &train->stretches[i];
        enum err e = train->bundles[i].err;
        if (e != ERR_OK) fail_ops(train, stretch->first, stretch->count, e);
        if (e == ERR_QUEUE_FULL) metric_add(METRIC_QUEUE_REFUSED, 1);
    }
    for (uint32_t i = 0; i < train->ops_count; i++) {
        const struct op *op = &train->ops[i];
        if (op->replayed)
            metric_add(METRIC_KEYS_REPLAYED, 1);
        else if (op->kind == OP_EVENT)
            events_count(op, clock_now_ms(train->lane->clock));
        else if (op->kind != OP_READ)
            change_count(op);
    }
}

/* -- Writes, and reads behind them ------------------------------------------------------------- */

static void stretch_done(struct bundle *bundle)
{
    struct train *train = bundle->owner;
    if (atomic_fetch_sub(&train->left, 1) == 1) exchange_post(train->exchange);
}

static void fill_bundle(struct train *train, const struct stretch *stretch, struct bundle *bundle)
{
    *bundle = (struct bundle){.ops = train->ops + stretch->first,
                              .count = stretch->count,
                              .urgency = URGENCY_BATCHED,
                              .whole = stretch->atomic,
                              .atomic = stretch->atomic,
                              .weighty = train->weighty,
                              .tenant = train->tenant,
                              .owner = train,
                              .done = stretch_done,
                              .queued_ns = train->exchange->started_ns};
    bundle->bytes = sizeof *bundle + stretch->count * sizeof(struct op);
}

/* The train is not this thread's until it completes; the session is. */
static void go_away(struct train *train)
{
    train->session->trains++;
    train->session->commands += train->done;
}

static enum request_verdict refuse_all(struct train *train, enum err e)
{
    fail_ops(train, 0, train->ops_count, e);
    train->refused = e;
    train_reply(train);
    return REQUEST_ANSWERED;
}

static enum request_verdict send(struct train *train)
{
    struct exchange *exchange = train->exchange;
    train->bundles = arena_alloc(&exchange->arena, train->stretches_count * sizeof *train->bundles);
    if (!exchange_reserve(exchange, train->text.size + train->ops_count * REPLY_BYTES)) {
        metric_add(METRIC_QUEUE_REFUSED, 1);
        return refuse_all(train, ERR_QUEUE_FULL);
    }
    struct loop_state *loop = &train->api->loops[exchange->loop_index];
    atomic_init(&train->left, train->stretches_count);
    for (uint32_t i = 0; i < train->stretches_count; i++)
        fill_bundle(train, &train->stretches[i], &train->bundles[i]);
    go_away(train);
    uint32_t count = train->stretches_count; /* the last one may end the train */
    struct bundle *bundles = train->bundles;
    struct lane *lane = train->lane;
    for (uint32_t i = 0; i < count; i++)
        loop_collect(loop, lane, &bundles[i]);
    return REQUEST_KEPT;
}

/* -- Reads alone ------------------------------------------------------------------------------- */

bool train_is_managed(struct train *train, struct bytes name)
{
    if (rulebook_is_empty(train->lane->rulebook)) return false;
    if (!train->rules) train->rules = rulebook_hold(train->lane->rulebook);
    return rules_find(train->rules, name) != NULL;
}

/* ERR_NOT_FOUND: there is no such cell, or its exact expiry has come. */
static enum err find_cell(struct train *train, struct view *view, const struct cell_ref *ref,
                          int64_t bucket, enum read_how how, struct cell *cell_out,
                          int64_t *now_ms_out)
{
    enum err e = view_get(view, ref, bucket, how, cell_out);
    /* To ask for the time costs as much as the cell. */
    if (e != ERR_OK || cell_out->expires_ms == TIME_NONE) return e;
    *now_ms_out = clock_now_ms(train->lane->clock);
    return cell_is_over(cell_out, *now_ms_out) ? ERR_NOT_FOUND : ERR_OK;
}

static enum err read_op(struct train *train, struct view *view, struct op *op, enum read_how how)
{
    struct cell cell;
    int64_t now_ms = 0;
    const struct cell_ref ref = {
        .counter = op->counter, .print = op->counter_print, .duration = op->duration};
    if (train_is_managed(train, counter_key_name(op->counter))) return ERR_MANAGED;
    enum err e = find_cell(train, view, &ref, op->bucket, how, &cell, &now_ms);
    op->existed = e == ERR_OK;
    if (op->existed) op->after = cell_triple(&cell);
    if (op->existed) op->left_ms = cell_left(&cell, now_ms);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* Has pace_spares_reads know that reads are about. */
static void note_read(const struct train *train)
{
    train->api->loops[train->exchange->loop_index].read_ns = train->exchange->turn_ns;
}

bool train_look(struct train *train, struct bytes name, struct train_sight *sight_out)
{
    char key[COUNTER_KEY_SIZE_MAX];
    bool first = train->promises_count == 0 && !train->inside && train->session->trains == 0;
    if (!first || !counter_name_valid(name)) return false;
    struct store *store = train->lane->store;
    struct cell_ref ref = {.counter = counter_key(key, train->tenant, name)};
    ref.print = fingerprint_of(&store->secret, ref.counter);
    struct cell cell;
    int64_t now_ms;
    note_read(train);
    enum err e = ERR_MANAGED;
    if (!train_is_managed(train, name))
        e = find_cell(train, &store->view, &ref, 0, READ_MEMORY, &cell, &now_ms);
    if (e == ERR_BUSY) return false;
    *sight_out = (struct train_sight){.err = e == ERR_NOT_FOUND ? ERR_OK : e};
    sight_out->existed = e == ERR_OK;
    if (e == ERR_OK) sight_out->net = cell_triple(&cell).net;
    train->looked = true;
    return true;
}

/* May be run again from its start. */
static void look_all(void *context, struct view *view)
{
    struct train *train = context;
    for (uint32_t i = 0; i < train->ops_count; i++)
        train->ops[i].err = read_op(train, view, &train->ops[i], READ_ALL);
}

static bool read_all(struct train *train)
{
    if (api_is_over(train->api))
        fail_ops(train, 0, train->ops_count, ERR_BUSY);
    else if (!train->task.looked)
        look_all(train, &train->lane->store->view);
    return false;
}

static bool run_reads(void *context)
{
    struct train *train = context;
    struct api *api = train->api; /* the train may be gone once it is posted */
    must_at = &train->place;
    bool more = train->work(train);
    must_at = NULL;
    if (more) return true;
    exchange_post(train->exchange);
    api->config.wake(api->config.wake_context);
    return false;
}

static enum request_verdict read_elsewhere(struct train *train)
{
    struct exchange *exchange = train->exchange;
    train->task = (struct read_task){.tenant = train->tenant, .run = run_reads, .context = train};
    struct view *view = &train->lane->store->view;
    if (train->work == read_all && view_gathers(view)) {
        train->task.look = (struct view_reading){.view = view, .read = look_all, .context = train};
        train->task.values = train->ops_count;
    }
    bool room = exchange_reserve(exchange, train->text.size + train->ops_count * REPLY_BYTES);
    enum err e = room ? readers_push(api_readers(train->api, train->lane), &train->task) : ERR_BUSY;
    if (e != ERR_OK) return refuse_all(train, e);
    go_away(train);
    train->session->reading = true;
    return REQUEST_KEPT;
}

static enum request_verdict read_now(struct train *train)
{
    note_read(train);
    for (uint32_t i = 0; i < train->ops_count; i++) {
        struct op *op = &train->ops[i];
        op->err = read_op(train, &train->lane->store->view, op, READ_MEMORY);
        train->work = read_all;
        if (op->err == ERR_BUSY) return read_elsewhere(train);
    }
    train_reply(train);
    return REQUEST_ANSWERED;
}

/* -- The handler ------------------------------------------------------------------------------- */

static struct train *train_new(struct api *api, struct exchange *exchange)
{
    struct train *train = arena_zalloc(&exchange->arena, sizeof *train);
    if (!*exchange->session) *exchange->session = session_new();
    train->api = api;
    train->exchange = exchange;
    train->session = *exchange->session;
    train->place.state = "resp";
    buf_init(&train->text, TEXT_BYTES_MAX);
    exchange->state = train;
    if (session_is_known(train)) train_take_share(train);
    if (train->lane) train->place.lane = train->lane->index;
    return train;
}

/* Nothing was done, and nothing is kept. `for_all`: until what is before it is answered. */
static enum request_verdict wait(struct train *train, bool for_all)
{
    struct exchange *exchange = train->exchange;
    must(train->done == 0 && train->ops_count == 0);
    train_end(train);
    if (train->held) shares_let_go(train->api->shares, train->held);
    exchange->share = *exchange->slot;
    exchange->state = NULL;
    exchange->barrier = for_all;
    arena_reset(&exchange->arena);
    return REQUEST_HOLD;
}

static enum request_verdict handle(struct train *train)
{
    unsigned commands_max = (unsigned)train->api->config.config->limits_request_ops;
    if (train->session->commands > commands_max) return wait(train, false);
    if (train->session->reading) return wait(train, true); /* (3) */
    read_commands(train);
    if (train->waits) return wait(train, true);
    if (train->work) return read_elsewhere(train);
    if (train->ops_count == 0) {
        train_reply(train);
        return REQUEST_ANSWERED;
    }
    return train->writes || train->session->trains > 0 ? send(train) : read_now(train);
}

static enum request_verdict resp_request(void *context, struct exchange *exchange)
{
    struct train *train = train_new(context, exchange);
    must_at = &train->place;
    enum request_verdict verdict = handle(train);
    must_at = NULL;
    return verdict;
}

static bool resp_complete(void *context, struct exchange *exchange)
{
    struct train *train = exchange->state;
    (void)context;
    train->session->trains--;
    train->session->commands -= train->done;
    if (train->bundles)
        spread_errors(train);
    else
        train->session->reading = false;
    train_reply(train);
    return true;
}

static void count_activity(const struct train *train)
{
    const struct exchange *exchange = train->exchange;
    const struct activity_ops done = {.tenant = train->tenant,
                                      .ops = train->ops,
                                      .count = train->ops_count,
                                      .ended_ns = exchange->ended_ns,
                                      .took_ns = exchange->ended_ns - exchange->started_ns};
    activity_count_ops(train->api->activity, &done);
}

static void resp_ended(void *context, struct exchange *exchange)
{
    struct train *train = exchange->state;
    struct api *api = context;
    if (!train) return; /* its connection went before it was read */
    train_end(train);
    if (train->writes && activity_is_watched(api->activity)) count_activity(train);
    if (train->held) shares_let_go(api->shares, train->held);
}

static void resp_closed(void *context, struct wire_share *slot)
{
    struct api *api = context;
    shares_return(api->shares, slot);
}

static void resp_left(void *context, void *session)
{
    (void)context;
    session_free(session);
}

struct wire_handler resp_handler(struct api *api)
{
    return (struct wire_handler){.context = api,
                                 .request = resp_request,
                                 .complete = resp_complete,
                                 .ended = resp_ended,
                                 .closed = resp_closed,
                                 .left = resp_left};
}
