/* truth_events.c -- a recount of one entity, by the decision that counted it the first time.
 *
 * Replayed events go through core/apply.h into a store of their own in memory, which holds the
 * entity's cells and the states that transition-safe counters have of the tenant's entities. */
#include "reconcile/truth_events.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "core/apply.h"
#include "core/name.h"
#include "core/object.h"
#include "core/project.h"
#include "store/memory.h"

#define PAGE_BYTES (4u << 20) /* history looked through at a time */
#define PAGE_CHUNK (256u << 10)

struct events_truth {
    struct truth truth;
    const struct lanes *lanes;
    atomic_bool cancelled;
};

/* One recount under way. */
struct recount {
    struct events_truth *truth;
    const struct truth_query *query;
    struct store *store; /* the tenant's lane's */
    struct store *scratch;
    struct json_parser *parser;
    struct arena arena;                        /* one page's */
    struct bytes keys[RECONCILE_COUNTERS_MAX]; /* the entity's cells' */
    const struct definition *definitions[RECONCILE_COUNTERS_MAX];
    struct arena keys_arena;
    struct op *ops;
    uint32_t count;
    uint32_t capacity;
    enum err err;
};

/* -- Whether history is whole ------------------------------------------------------------------ */

/* It is asked before the recount and after it: retention goes on meanwhile, and says so first. */
static enum err check_history(struct recount *recount, struct buf *why)
{
    uint64_t retained_ms;
    const struct reconcile *reconcile = recount->query->reconcile;
    enum err e = store_number(recount->store, META_RETAINED, &retained_ms);
    for (unsigned i = 0; i < reconcile->counters_count && e == ERR_OK; i++) {
        const struct definition *definition = recount->definitions[i];
        const char *wrong = NULL;
        if (definition->adjusted)
            wrong = "was adjusted, so its events do not explain it";
        else if (retained_ms > definition->since)
            wrong = "counted events that are no longer retained";
        if (!wrong) continue;
        buf_addf(why, "counter %.*s %s", (int)definition->name.size, definition->name.data, wrong);
        e = ERR_HISTORY;
    }
    return e;
}

/* -- A page ------------------------------------------------------------------------------------ */

/* Keeps only the targets that are the entity's own cell. */
static void keep_own(struct change *change, struct bytes key)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < change->targets_count; i++)
        if (bytes_equal(change->targets[i].key, key)) change->targets[kept++] = change->targets[i];
    change->targets_count = kept;
}

/* A change of a transition-safe counter is kept even without such a target: it switches a state. */
static void keep_changes(struct projection *projection, struct bytes key)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < projection->changes_count; i++) {
        struct change *change = &projection->changes[i];
        keep_own(change, key);
        if (change->targets_count == 0 && !change->entity) continue;
        projection->changes[kept++] = *change;
    }
    projection->changes_count = kept;
}

static struct op *add_op(struct recount *recount)
{
    if (recount->count == recount->capacity) {
        recount->capacity = recount->capacity * 2 + 256;
        recount->ops = must_realloc(recount->ops, recount->capacity * sizeof *recount->ops);
    }
    return &recount->ops[recount->count++];
}

static void project_counter(struct recount *recount, const struct event *event,
                            const struct json_value *payload, unsigned i)
{
    const struct definition *definition = recount->definitions[i];
    if ((uint64_t)event->arrived_ms < definition->since) return;
    const struct project_input input = {.rules = recount->query->rules,
                                        .secret = &recount->scratch->secret,
                                        .tenant = recount->query->tenant,
                                        .only = definition,
                                        .generation = definition->generation,
                                        .payload = payload,
                                        .arena = &recount->arena};
    struct event *own = arena_alloc(&recount->arena, sizeof *own);
    *own = *event;
    own->projection = project(&input, own);
    keep_changes(own->projection, recount->keys[i]);
    if (own->projection->changes_count == 0) return;
    *add_op(recount) =
        (struct op){.kind = OP_REPLAY, .tenant = recount->query->tenant, .event = own};
}

static bool take_event(void *context, const struct stored_event *stored)
{
    struct recount *recount = context;
    struct event event = {0};
    struct json_value payload;
    if (!event_of_stored(stored, recount->parser, &recount->arena, &event, &payload)) {
        recount->err = ERR_CORRUPT;
        return false;
    }
    event.arrived_ms = stored->arrived_ms;
    for (unsigned i = 0; i < recount->query->reconcile->counters_count; i++)
        project_counter(recount, &event, &payload, i);
    return true;
}

static void ignore_durable(void *context, void *batch, enum err e)
{
    (void)context;
    (void)batch;
    (void)e;
}

static enum err first_refusal(const struct recount *recount)
{
    for (uint32_t i = 0; i < recount->count; i++)
        if (recount->ops[i].err != ERR_OK) return recount->ops[i].err;
    return ERR_OK;
}

/* Replays the page's events as one batch of the scratch store. */
static enum err replay(struct recount *recount)
{
    static const struct apply_limits limits = {.tenant_cells = INT64_MAX, .granularities = 4096};
    struct store *scratch = recount->scratch;
    struct bundle bundle = {.ops = recount->ops, .count = recount->count};
    struct slice slice = {&bundle, 0, recount->count};
    if (recount->count == 0) return ERR_OK;
    enum err e = writer_begin(&scratch->writer);
    if (e != ERR_OK) return e;
    struct apply apply = {.arena = &recount->arena,
                          .limits = &limits,
                          .slices = &slice,
                          .slices_count = 1,
                          .rules = recount->query->rules,
                          .secret = &scratch->secret,
                          .moment = {.now_ms = scratch->writer.position.time_ms},
                          .sequence = scratch->writer.position.last_sequence,
                          .next_series = scratch->writer.position.next_series};
    apply_identify(&apply);
    e = writer_load(&scratch->writer, &apply.reads, &recount->arena);
    if (e == ERR_OK) {
        apply_needs(&apply);
        e = writer_load(&scratch->writer, &apply.reads, &recount->arena);
    }
    if (e != ERR_OK) {
        writer_abandon(&scratch->writer, &apply.reads);
        return e;
    }
    apply_decide(&apply);
    writer_submit(&scratch->writer, &apply.writes);
    writer_sync(&scratch->writer);
    return first_refusal(recount);
}

/* -- All pages --------------------------------------------------------------------------------- */

static enum err replay_page(struct recount *recount, struct event_query *history)
{
    struct store *store = recount->store;
    uint64_t next;
    arena_reset(&recount->arena);
    recount->count = 0;
    enum err e = view_events(&store->view, history, take_event, recount, &next);
    if (e == ERR_OK) e = recount->err;
    if (e == ERR_OK) e = replay(recount);
    history->after = next;
    return e;
}

static enum err replay_all(struct recount *recount)
{
    struct store *store = recount->store;
    struct store_stats stats;
    store_stats(store, &stats);
    struct event_query history = {.tenant = recount->query->tenant,
                                  .upto = stats.durable_sequence,
                                  .arrived_from = INT64_MIN,
                                  .events = true,
                                  .budget = PAGE_BYTES};
    enum err e = ERR_OK;
    do {
        e = recount->truth->cancelled ? ERR_BUSY : replay_page(recount, &history);
    } while (e == ERR_OK && history.after > 0);
    return e;
}

/* Refuses a value below zero, which the counter's rules may allow: a count cannot be set to it. */
static enum err read_counts(struct recount *recount, int64_t *counts_out, struct buf *why)
{
    struct store *scratch = recount->scratch;
    for (unsigned i = 0; i < recount->query->reconcile->counters_count; i++) {
        struct bytes key = recount->keys[i];
        const struct cell_ref ref = {key, fingerprint_of(&scratch->secret, key), 0, 0};
        struct cell cell = {0};
        enum err e = view_get(&scratch->view, &ref, 0, READ_ALL, &cell);
        if (e != ERR_OK && e != ERR_NOT_FOUND) return e;
        counts_out[i] = cell_triple(&cell).net;
        if (counts_out[i] >= 0) continue;
        buf_addf(why, "the events of counter %.*s add up to less than 0",
                 (int)recount->definitions[i]->name.size, recount->definitions[i]->name.data);
        return ERR_SOURCE_ANSWER;
    }
    return ERR_OK;
}

static bool name_counters(struct recount *recount)
{
    const struct truth_query *query = recount->query;
    for (unsigned i = 0; i < query->reconcile->counters_count; i++) {
        const struct definition *definition =
            rules_find(query->rules, query->reconcile->counters[i].name);
        if (!definition || definition->frozen) return false;
        recount->definitions[i] = definition;
        recount->keys[i] = rule_key(&recount->keys_arena, query->tenant, definition->name,
                                    definition->generation, query->entity_json);
    }
    return true;
}

static enum err recount_run(struct recount *recount, int64_t *counts_out, struct buf *why)
{
    if (!name_counters(recount)) return ERR_CONFLICT;
    enum err e = check_history(recount, why);
    if (e == ERR_OK) e = memory_open(&recount->scratch);
    if (e != ERR_OK) return e;
    recount->scratch->writer.durable = ignore_durable;
    e = replay_all(recount);
    if (e == ERR_OK) e = check_history(recount, why);
    if (e == ERR_OK) e = read_counts(recount, counts_out, why);
    store_close(recount->scratch);
    return e;
}

static enum err events_count(struct truth *truth, const struct truth_query *query,
                             int64_t *counts_out, struct buf *why_out)
{
    struct events_truth *events = (struct events_truth *)truth;
    struct recount recount = {
        .truth = events, .query = query, .store = lanes_of(events->lanes, query->tenant)->store};
    arena_init(&recount.arena, PAGE_CHUNK);
    arena_init(&recount.keys_arena, 4096);
    recount.parser = json_parser_new(EVENT_SIZE_MAX);
    enum err e = recount_run(&recount, counts_out, why_out);
    json_parser_free(recount.parser);
    free(recount.ops);
    arena_release(&recount.keys_arena);
    arena_release(&recount.arena);
    return e;
}

static void events_cancel(struct truth *truth)
{
    ((struct events_truth *)truth)->cancelled = true;
}

static void events_free(struct truth *truth)
{
    free(truth);
}

struct truth *truth_events_open(const struct lanes *lanes)
{
    static const struct truth_ops ops = {events_count, events_cancel, events_free};
    struct events_truth *truth = must_calloc(1, sizeof *truth);
    truth->truth.ops = &ops;
    truth->lanes = lanes;
    return &truth->truth;
}
