/* reconcile.c -- records elsewhere that change behind the counters' back, and the counters of an
 * entity counted anew from them, by the real scans and passes, while the world goes on.
 *
 * What a pass found when it began and what it counted is noted here from the model, not taken from
 * what it proposes; so a pass that looked at something else is found out. */
#include "sim.h"

#include <stdlib.h>

#include "base/table.h"
#include "core/object.h"

#define PASSES_MAX 3
#define MEANWHILE_MAX 6
#define ROUNDS_MAX 500

struct records_source {
    struct truth truth;
    struct sim *sim;
};

static bool in_force(const struct sim *sim)
{
    return sim->plan.events && sim->rules_current != SIM_NO_RULES;
}

static bool find_tenant(const struct sim *sim, struct bytes name, unsigned *tenant_out)
{
    for (*tenant_out = 0; *tenant_out < MODEL_TENANTS; ++*tenant_out)
        if (bytes_equal(name, bytes_str(plan_tenant(sim, *tenant_out)))) return true;
    return false;
}

static void split_row(struct sim *sim, struct bytes key, unsigned *tenant_out, unsigned *code_out)
{
    struct bytes name, tenant, json;
    if (!mark_key_split(key, &name, &tenant, &json) ||
        !bytes_equal(name, BYTES(RULESET_RECONCILE)) || !find_tenant(sim, tenant, tenant_out) ||
        !ruleset_code(json, code_out))
        sim_fail(sim, "a mark of an entity that never was");
}

/* ---- the records ---- */

static enum err request(struct sim *sim, unsigned tenant, unsigned code)
{
    struct arena arena;
    arena_init(&arena, 1024);
    struct bytes owner = bytes_str(plan_tenant(sim, tenant));
    struct mark_change change = {.step = MARK_REQUEST,
                                 .place = mark_place_of(&arena, &sim->probe.store.secret,
                                                        BYTES(RULESET_RECONCILE), owner,
                                                        bytes_str(ruleset_json(code)))};
    struct op op = propose_mark(owner, &change);
    struct bundle bundle = {.ops = &op,
                            .count = 1,
                            .urgency = URGENCY_BATCHED,
                            .tenant = BYTES(" requests"),
                            .weighty = true};
    sim->errand_kind = ERRAND_MARK;
    enum err e = errand_propose(sim, &bundle);
    arena_release(&arena);
    return e == ERR_OK ? op.err : e;
}

/* Whoever changes them may forget to say so. */
static void change_records(struct sim *sim, unsigned tenant, unsigned code)
{
    static const int64_t most[] = {3, 3, 100, INT64_MAX};
    struct dice *dice = sim->dice;
    for (unsigned i = 0; i < RULESET_COUNTERS; i++)
        if (dice_chance(dice, 50))
            sim->records[tenant][i][code] = dice_between(dice, 0, DICE_PICK(dice, most));
    if (dice_chance(dice, 30)) return;
    enum err e = request(sim, tenant, code);
    sim_say(sim, "a pass of tenant %u, code %u is asked for: %s", tenant, code, err_code(e));
}

/* ---- the source ---- */

static int64_t net_of(const struct model *model, unsigned tenant, unsigned code,
                      const struct model_count *count)
{
    const struct model_cell *cell =
        model_find(model, tenant, MODEL_RULE_NAME(count->counter, code), count->generation, 0, 0);
    return cell ? cell->added - cell->subbed : 0;
}

static unsigned find_counter(struct sim *sim, struct bytes name)
{
    for (unsigned i = 0; i < RULESET_COUNTERS; i++)
        if (bytes_equal(name, bytes_str(ruleset_counter_name(i)))) return i;
    sim_fail(sim, "a counter is reconciled that never was");
}

static bool fits(const struct reconcile *reconcile, unsigned code)
{
    unsigned parts = 0;
    for (unsigned i = 0; i < reconcile->entity.count; i++) {
        struct bytes name = reconcile->entity.sources[i].name;
        parts |= bytes_equal(name, BYTES("a"))   ? RULESET_A
                 : bytes_equal(name, BYTES("b")) ? RULESET_B
                                                 : RULESET_P;
    }
    return ruleset_code_is(code, parts);
}

static void note_row(struct model_pass *pass, const struct model_mark *mark)
{
    pass->version = mark->version;
    pass->updated_ms = mark->version ? mark->updated_ms : MODEL_NEVER;
}

/* The pass has just read its row and its counters, which is what readers see now. */
static void note_beginning(struct sim *sim, const struct truth_query *query)
{
    struct model_pass *pass = &sim->pass;
    *pass = (struct model_pass){.count = query->reconcile->counters_count};
    if (!find_tenant(sim, query->tenant, &pass->tenant) ||
        !ruleset_code(query->entity_json, &pass->code) || !fits(query->reconcile, pass->code))
        sim_fail(sim, "something is counted that is no entity: %.*s", (int)query->entity_json.size,
                 query->entity_json.data);
    note_row(pass, &sim->chain.shown.marks[pass->tenant][pass->code]);
    for (unsigned i = 0; i < pass->count; i++) {
        struct model_count *count = &pass->counts[i];
        struct bytes name = query->reconcile->counters[i].name;
        count->counter = find_counter(sim, name);
        count->generation = rules_find(query->rules, name)->generation;
        count->then = net_of(&sim->chain.shown, pass->tenant, pass->code, count);
    }
}

/* A pass waits for its source as it waits for a commit; some of what comes is about its entity. */
static void meanwhile(struct sim *sim)
{
    unsigned steps = sim->calm ? 0 : dice_below(sim->dice, MEANWHILE_MAX);
    sim->errands_depth++;
    for (unsigned i = 0; i < steps && !sim->probe.dead; i++)
        if (dice_chance(sim->dice, 15))
            change_records(sim, sim->pass.tenant, sim->pass.code);
        else
            step_meanwhile(sim);
    sim->errands_depth--;
    sim->errand_kind = ERRAND_MARK;
}

static enum err count_records(struct truth *truth, const struct truth_query *query,
                              int64_t *counts_out, struct buf *why_out)
{
    struct sim *sim = ((struct records_source *)truth)->sim;
    struct model_pass *pass = &sim->pass;
    (void)why_out;
    note_beginning(sim, query);
    meanwhile(sim);
    if (!sim->calm && dice_chance(sim->dice, 5))
        return dice_chance(sim->dice, 50) ? ERR_SOURCE_DOWN : ERR_SOURCE_ANSWER;
    for (unsigned i = 0; i < pass->count; i++)
        counts_out[i] = pass->counts[i].truth =
            sim->records[pass->tenant][pass->counts[i].counter][pass->code];
    meanwhile(sim);
    return ERR_OK;
}

static void ignore(struct truth *truth)
{
    (void)truth;
}

static void close_source(struct truth *truth)
{
    free(truth);
}

static struct truth *open_source(void *context, const struct reconcile *reconcile)
{
    static const struct truth_ops ops = {count_records, ignore, close_source};
    struct records_source *source = must_calloc(1, sizeof *source);
    (void)reconcile;
    *source = (struct records_source){.truth = {&ops}, .sim = context};
    return &source->truth;
}

/* ---- doing it ---- */

/* What is refused may be followed by a wait for whoever changes rules, and there is one thread. */
static enum err propose(void *context, struct bundle *bundle)
{
    struct sim *sim = context;
    sim->errand_kind = ERRAND_MARK;
    enum err e = errand_propose(sim, bundle);
    if (e == ERR_OK && bundle->ops[0].err == ERR_CONFLICT) life_drain(sim);
    return e;
}

struct reconciler *reconcile_begin(struct sim *sim)
{
    sim->reconciled = sim->lane;
    sim->reconciled.caretaker.propose = propose;
    sim->reconciled_lanes = (struct lanes){1, &sim->reconciled};
    return reconciler_new(&(struct reconciler_config){
        .lanes = &sim->reconciled_lanes, .open = open_source, .open_context = sim});
}

void reconcile_some(struct sim *sim)
{
    if (!in_force(sim)) return;
    if (dice_chance(sim->dice, 50)) step_wait(sim, dice_between(sim->dice, 0, 10000));
    if (dice_chance(sim->dice, 70)) reconciler_scan(sim->reconciler);
    for (unsigned i = dice_below(sim->dice, PASSES_MAX + 1); i > 0 && !sim->probe.dead; i--)
        if (!reconciler_pass(sim->reconciler)) return;
}

static unsigned pick_entity(struct sim *sim)
{
    unsigned parts = sim->plan.rulesets[sim->rules_current].entity;
    struct dice *dice = sim->dice;
    return (parts & RULESET_A ? 1 + dice_below(dice, RULESET_VALUES) : 0) +
           (parts & RULESET_B ? 3 + 3 * dice_below(dice, RULESET_VALUES) : 0) +
           (parts & RULESET_P ? 9 + 9 * dice_below(dice, RULESET_VALUES) : 0);
}

void reconcile_ask_some(struct sim *sim)
{
    if (!in_force(sim) || !sim->plan.rulesets[sim->rules_current].entity) return;
    unsigned tenant = dice_below(sim->dice, sim->plan.tenants);
    change_records(sim, tenant, pick_entity(sim));
}

/* ---- as batches show it ---- */

static void check_pass(struct sim *sim, const struct mark_change *change)
{
    const struct model_pass *pass = &sim->pass;
    if (change->version != pass->version || change->updated_ms != pass->updated_ms ||
        change->adjustments_count != pass->count)
        sim_fail(sim, "a pass began at version %llu, expected %llu",
                 (unsigned long long)change->version, (unsigned long long)pass->version);
    for (unsigned i = 0; i < pass->count; i++)
        if (change->adjustments[i].then != pass->counts[i].then ||
            change->adjustments[i].truth != pass->counts[i].truth)
            sim_fail(sim, "a pass found %lld and counted %lld, expected %lld and %lld",
                     (long long)change->adjustments[i].then,
                     (long long)change->adjustments[i].truth, (long long)pass->counts[i].then,
                     (long long)pass->counts[i].truth);
}

static enum err follow_pass(struct sim *sim, struct model *model, int64_t time_ms,
                            const struct mark_change *change)
{
    check_pass(sim, change);
    enum err e = model_settle(model, &sim->plan.limits, time_ms, &sim->pass);
    if (e != ERR_OK) return e;
    if (change->cleared != sim->pass.cleared)
        sim_fail(sim, "a pass %s its mark", change->cleared ? "cleared" : "kept");
    sim->passes++;
    sim->overtaken += !sim->pass.cleared;
    return ERR_OK;
}

/* By the rules that the batch goes by. */
static bool is_wanted(const struct sim *sim, unsigned code)
{
    const struct ruleset *rules = sim->plan.limits.rules;
    return rules && rules->entity && ruleset_code_is(code, rules->entity);
}

static enum err follow_forget(struct sim *sim, struct model_mark *mark, unsigned code,
                              uint64_t version)
{
    return mark->pending && is_wanted(sim, code) ? ERR_CONFLICT : model_forget(mark, version);
}

void reconcile_decided(struct sim *sim, struct model *model, const struct apply *apply,
                       const struct op *op)
{
    const struct mark_change *change = op->mark;
    unsigned tenant, code;
    split_row(sim, change->place.key, &tenant, &code);
    struct model_mark *mark = &model->marks[tenant][code];
    enum err expected = ERR_OK;
    switch (change->step) {
    case MARK_REQUEST:
        expected = is_wanted(sim, code)
                       ? model_touch(model, &sim->plan.limits, apply->moment.now_ms, tenant, code)
                       : ERR_NOT_FOUND;
        break;
    case MARK_PASS:
        expected = follow_pass(sim, model, apply->moment.now_ms, change);
        break;
    case MARK_FAIL:
        expected = model_hold_back(mark, apply->moment.now_ms + change->retry_ms);
        break;
    case MARK_FORGET:
        expected = follow_forget(sim, mark, code, change->version);
        break;
    }
    if (op->err != expected)
        sim_fail(sim, "step %d of tenant %u, code %u is answered %s, expected %s", change->step,
                 tenant, code, err_code(op->err), err_code(expected));
}

/* ---- as readers see it ---- */

struct rows {
    struct sim *sim;
    unsigned found;
};

static bool compare_row(void *context, struct bytes key, struct bytes value)
{
    struct rows *rows = context;
    struct mark mark;
    unsigned tenant, code;
    split_row(rows->sim, key, &tenant, &code);
    const struct model_mark *expected = &rows->sim->chain.shown.marks[tenant][code];
    rows->found++;
    if (!mark_decode(value, &mark) || mark.version != expected->version ||
        mark.pending != expected->pending || mark.marked_ms != expected->marked_ms ||
        mark.cause_ms != expected->cause_ms || mark.updated_ms != expected->updated_ms ||
        mark.retry_ms != expected->retry_ms || mark.failures != expected->failures)
        sim_fail(rows->sim,
                 "the mark of tenant %u, code %u has version %llu%s, updated %lld, %u failures; "
                 "expected %llu%s, %lld, %u",
                 tenant, code, (unsigned long long)mark.version, mark.pending ? ", pending" : "",
                 (long long)mark.updated_ms, mark.failures, (unsigned long long)expected->version,
                 expected->pending ? ", pending" : "", (long long)expected->updated_ms,
                 expected->failures);
    return true;
}

static void compare_count(struct sim *sim, struct arena *arena, unsigned tenant, unsigned expected)
{
    struct store *store = &sim->probe.store;
    struct buf value;
    uint64_t count = 0;
    buf_init(&value, 100);
    enum err e = view_object(&store->view,
                             mark_count_key(arena, bytes_str(plan_tenant(sim, tenant))), &value);
    bool right = e == ERR_NOT_FOUND ? expected == 0
                 : e == ERR_OK
                     ? object_number_decode(buf_bytes(&value), &count) && count == expected
                     : sim->state_faulty;
    if (!right)
        sim_fail(sim, "tenant %u is said to have %llu marks, expected %u", tenant,
                 (unsigned long long)count, expected);
    buf_release(&value);
}

void reconcile_compare(struct sim *sim)
{
    struct store *store = &sim->probe.store;
    struct rows rows = {.sim = sim};
    struct arena arena;
    unsigned expected = 0;
    arena_init(&arena, 1024);
    enum err e =
        view_objects(&store->view, mark_prefix(&arena, BYTES(RULESET_RECONCILE), BYTES_NONE),
                     BYTES_NONE, compare_row, &rows);
    for (unsigned tenant = 0; tenant < sim->plan.tenants; tenant++) {
        unsigned count = model_marks_count(&sim->chain.shown, tenant);
        compare_count(sim, &arena, tenant, count);
        expected += count;
    }
    arena_release(&arena);
    if (e == ERR_OK ? rows.found != expected : !(e == ERR_STORAGE && sim->state_faulty))
        sim_fail(sim, "%u entities are marked, expected %u", rows.found, expected);
}

/* ---- the end ---- */

/* What a pass of the entity would do now, on a copy. */
static enum err try_pass(struct sim *sim, const struct ruleset *rules, unsigned tenant,
                         unsigned code)
{
    struct model *copy = must_alloc(sizeof *copy);
    struct model_pass pass = {.tenant = tenant, .code = code};
    model_copy(copy, &sim->chain.shown);
    note_row(&pass, &copy->marks[tenant][code]);
    for (unsigned i = 0; i < RULESET_COUNTERS; i++) {
        if (!ruleset_reconciles(rules, i)) continue;
        copy->counters[i].adjusted = true;
        pass.counts[pass.count++] = (struct model_count){.counter = i,
                                                         .generation = copy->counters[i].generation,
                                                         .truth = sim->records[tenant][i][code]};
    }
    sim->plan.limits.rules = rules;
    enum err e = model_settle(copy, &sim->plan.limits, copy->time_ms, &pass);
    free(copy);
    return e;
}

/* Right, or there is a reason why it cannot be. */
static bool is_settled(struct sim *sim, const struct ruleset *rules, unsigned tenant, unsigned code)
{
    const struct model_mark *mark = &sim->chain.shown.marks[tenant][code];
    return !mark->pending || try_pass(sim, rules, tenant, code) != ERR_OK;
}

static bool all_settled(struct sim *sim, const struct ruleset *rules)
{
    for (unsigned tenant = 0; tenant < sim->plan.tenants; tenant++)
        for (unsigned code = 0; code < RULESET_CODES; code++)
            if (ruleset_code_is(code, rules->entity) && !is_settled(sim, rules, tenant, code))
                return false;
    return true;
}

static void check_entity(struct sim *sim, const struct ruleset *rules, unsigned tenant,
                         unsigned code)
{
    const struct model *shown = &sim->chain.shown;
    for (unsigned i = 0; i < RULESET_COUNTERS; i++) {
        if (!ruleset_reconciles(rules, i) || shown->marks[tenant][code].pending) continue;
        const struct model_count count = {.counter = i,
                                          .generation = shown->counters[i].generation};
        int64_t net = net_of(shown, tenant, code, &count);
        if (net != sim->records[tenant][i][code])
            sim_fail(sim, "%s of tenant %u, code %u is %lld after a pass, the records say %lld",
                     ruleset_counter_name(i), tenant, code, (long long)net,
                     (long long)sim->records[tenant][i][code]);
    }
}

/* Nothing disturbs it: every entity is asked for once more, and then every counter is right. */
void reconcile_all(struct sim *sim)
{
    if (!sim->plan.reconcile_weight) return;
    const struct ruleset *rules = &sim->plan.rulesets[sim->rules_current];
    bool asked[MODEL_TENANTS][RULESET_CODES] = {0};
    if (!rules->entity) return;
    sim->calm = true;
    for (unsigned tenant = 0; tenant < sim->plan.tenants; tenant++)
        for (unsigned code = 0; code < RULESET_CODES; code++)
            if (ruleset_code_is(code, rules->entity))
                asked[tenant][code] = request(sim, tenant, code) == ERR_OK;
    for (unsigned i = 0; i < ROUNDS_MAX && !all_settled(sim, rules); i++) {
        step_wait(sim, 60000);
        reconciler_scan(sim->reconciler);
        while (reconciler_pass(sim->reconciler))
            ;
    }
    if (!all_settled(sim, rules)) sim_fail(sim, "a mark is stuck");
    for (unsigned tenant = 0; tenant < sim->plan.tenants; tenant++)
        for (unsigned code = 0; code < RULESET_CODES; code++)
            if (asked[tenant][code]) check_entity(sim, rules, tenant, code);
    sim->calm = false;
}
