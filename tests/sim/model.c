/* model.c -- SPEC 5 in plain C; events are in model_events.c. See model.h. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "base/must.h"

#define MOST INT64_MAX /* 9223372036854775807 */

void model_init(struct model *model)
{
    memset(model, 0, sizeof *model);
    model->time_ms = INT64_MIN;
    for (unsigned i = 0; i < RULESET_COUNTERS; i++)
        model->counters[i].first_ms = INT64_MAX;
}

void model_copy(struct model *to, const struct model *from)
{
    to->sequence = from->sequence;
    to->time_ms = from->time_ms;
    to->cells_count = from->cells_count;
    to->events_count = from->events_count;
    to->events = from->events;
    memcpy(to->keys, from->keys, sizeof to->keys);
    memcpy(to->ids, from->ids, sizeof to->ids);
    memcpy(to->rows, from->rows, sizeof to->rows);
    memcpy(to->marks, from->marks, sizeof to->marks);
    memcpy(to->counters, from->counters, sizeof to->counters);
    to->generation = from->generation;
    to->retained_ms = from->retained_ms;
    to->gone = from->gone;
    to->rebuilds_count = from->rebuilds_count;
    memcpy(to->rebuilds, from->rebuilds, sizeof to->rebuilds);
    to->garbage_count = from->garbage_count;
    memcpy(to->garbage, from->garbage, sizeof to->garbage);
    to->entities_count = from->entities_count;
    memcpy(to->entities, from->entities, from->entities_count * sizeof *to->entities);
    memcpy(to->cells, from->cells, from->cells_count * sizeof *to->cells);
}

int64_t model_bucket(int64_t time_ms, int32_t duration)
{
    if (duration == 0) return 0;
    int64_t width_ms = (int64_t)duration * 1000;
    int64_t past = time_ms % width_ms;
    if (past < 0) past += width_ms;
    return (time_ms - past) / 1000;
}

int64_t model_age(const struct moment *moment, int64_t then_ms)
{
    if (then_ms > moment->now_ms) {
        then_ms -= moment->back_ms;
        if (moment->back_since_ms && then_ms < moment->back_since_ms)
            then_ms = moment->back_since_ms;
    }
    int64_t age_ms = moment->now_ms - then_ms;
    if (then_ms < moment->since_ms)
        age_ms = moment->held_ms == HELD_ALL ? 0 : age_ms - moment->held_ms;
    return age_ms > 0 ? age_ms : 0;
}

/* ---- cells ---- */

static bool is_of(const struct model_cell *cell, unsigned tenant, unsigned name,
                  uint32_t generation)
{
    return cell->tenant == tenant && cell->name == name && cell->generation == generation;
}

const struct model_cell *model_find(const struct model *model, unsigned tenant, unsigned name,
                                    uint32_t generation, int32_t duration, int64_t bucket)
{
    for (unsigned i = 0; i < model->cells_count; i++) {
        const struct model_cell *cell = &model->cells[i];
        if (is_of(cell, tenant, name, generation) && cell->duration == duration &&
            cell->bucket == bucket)
            return cell;
    }
    return NULL;
}

unsigned model_cells(const struct model *model, unsigned tenant, unsigned name, uint32_t generation,
                     int32_t duration)
{
    unsigned count = 0;
    for (unsigned i = 0; i < model->cells_count; i++)
        count += is_of(&model->cells[i], tenant, name, generation) &&
                 model->cells[i].duration == duration;
    return count;
}

static unsigned tenant_cells(const struct model *model, unsigned tenant)
{
    unsigned count = 0;
    for (unsigned i = 0; i < model->cells_count; i++)
        count += model->cells[i].tenant == tenant;
    return count;
}

/* Different durations of a counter: each counted at its first cell. */
static unsigned granularities(const struct model *model, const struct model_cell *of)
{
    unsigned count = 0;
    for (unsigned i = 0; i < model->cells_count; i++) {
        const struct model_cell *cell = &model->cells[i];
        if (!is_of(cell, of->tenant, of->name, of->generation)) continue;
        bool seen = false;
        for (unsigned j = 0; j < i; j++)
            seen |= is_of(&model->cells[j], of->tenant, of->name, of->generation) &&
                    model->cells[j].duration == cell->duration;
        count += !seen;
    }
    return count;
}

bool model_has_due(const struct model *model, int64_t now_ms)
{
    for (unsigned i = 0; i < model->cells_count; i++) {
        int64_t expires_ms = model->cells[i].expires_ms;
        if (expires_ms != MODEL_NEVER && expires_ms <= now_ms) return true;
    }
    return false;
}

/* ---- one operation ---- */

static enum err increment(struct model_cell *cell, const struct model_op *op)
{
    int64_t net = cell->added - cell->subbed;
    /* net + amount > max, without the sum that may not fit. */
    if (op->max != MODEL_NO_CAP && (net > op->max || op->amount > op->max - net)) return ERR_LIMIT;
    if (op->amount > MOST - cell->added) return ERR_OVERFLOW;
    cell->added += op->amount;
    return ERR_OK;
}

static enum err decrement(struct model_cell *cell, const struct model_op *op, bool exists)
{
    if (!exists || cell->added - cell->subbed < op->amount) return ERR_NEGATIVE;
    cell->subbed += op->amount;
    return ERR_OK;
}

static enum err set(struct model_cell *cell, const struct model_op *op)
{
    int64_t net = cell->added - cell->subbed;
    if (op->amount > net) {
        if (op->amount - net > MOST - cell->added) return ERR_OVERFLOW;
        cell->added += op->amount - net;
    } else {
        cell->subbed += net - op->amount;
    }
    return ERR_OK;
}

static enum err move(struct model_cell *cell, const struct model_op *op)
{
    int64_t net = cell->added - cell->subbed;
    bool above = op->amount > 0 ? net > op->most - op->amount || net > op->most
                                : net + op->amount > op->most;
    bool below = !above && net + op->amount < op->least;
    if ((above || below) && !op->saturate) return ERR_LIMIT;
    struct model_op target = {.amount = above ? op->most : below ? op->least : net + op->amount};
    return set(cell, &target);
}

static enum err change_value(struct model_cell *cell, const struct model_op *op, bool exists)
{
    switch (op->kind) {
    case MODEL_INCREMENT:
        return increment(cell, op);
    case MODEL_DECREMENT:
        return decrement(cell, op, exists);
    case MODEL_MOVE:
        return move(cell, op);
    case MODEL_DEADLINE:
        return ERR_OK;
    default:
        return set(cell, op);
    }
}

bool model_over(const struct model_cell *cell, int64_t now_ms)
{
    return cell->exact && cell->expires_ms <= now_ms;
}

/* False: it stays as it is. MODEL_NEVER is the least of all times, and no expiry is the latest. */
static bool change_expiry(struct model_cell *cell, const struct model_op *op, int64_t time_ms)
{
    int64_t old_ms = cell->expires_ms;
    int64_t new_ms = op->expires_ms + (op->expiry == MODEL_AFTER ? time_ms : 0);
    bool has = old_ms != MODEL_NEVER;
    if (op->kind == MODEL_DECREMENT) return false;
    if ((op->unless & MODEL_IF_THERE) && has) return false;
    if ((op->unless & MODEL_IF_NONE) && !has) return false;
    if ((op->unless & MODEL_IF_NO_LATER) && !(has && new_ms > old_ms)) return false;
    if ((op->unless & MODEL_IF_NO_SOONER) && !(!has || new_ms < old_ms)) return false;
    if (op->expiry == MODEL_LATER && new_ms <= old_ms) return true;
    cell->exact = op->expiry == MODEL_AT || op->expiry == MODEL_AFTER;
    cell->expires_ms = op->expiry == MODEL_CLEAR ? MODEL_NEVER : new_ms;
    return true;
}

enum err model_room(const struct model *model, const struct model_limits *limits,
                    const struct model_cell *cell, bool recount)
{
    if (!recount && tenant_cells(model, cell->tenant) >= limits->tenant_cells)
        return ERR_CELL_LIMIT;
    if (model_cells(model, cell->tenant, cell->name, cell->generation, cell->duration) == 0 &&
        granularities(model, cell) >= limits->granularities)
        return ERR_GRANULARITY_LIMIT;
    return ERR_OK;
}

static void remove_at(struct model *model, unsigned index)
{
    model->cells[index] = model->cells[--model->cells_count];
}

/* A cell that is over takes up its place until it is swept; who changes it begins afresh there. */
static enum err change(struct model *model, const struct model_limits *limits, int64_t time_ms,
                       const struct model_op *op, struct model_answer *answer, bool *changed)
{
    struct model_cell *old =
        (struct model_cell *)model_find(model, op->tenant, op->name, 0, op->duration, op->bucket);
    const struct model_cell *seen = old && !model_over(old, time_ms) ? old : NULL;
    struct model_cell cell = {.tenant = op->tenant,
                              .name = op->name,
                              .duration = op->duration,
                              .bucket = op->bucket,
                              .expires_ms = MODEL_NEVER,
                              .start_ms = MODEL_NEVER};
    if (seen) cell = *seen;
    answer->existed = seen != NULL;
    answer->was = cell.added - cell.subbed;
    answer->unmet = op->when && (seen != NULL) != (op->when == 2);
    answer->unmet |= op->kind == MODEL_DEADLINE && !seen;
    enum err e = answer->unmet ? ERR_OK : change_value(&cell, op, seen != NULL);
    if (op->kind == MODEL_MOVE && e == ERR_LIMIT) {
        answer->unmet = true;
        e = ERR_OK;
    }
    if (e == ERR_OK && !answer->unmet) {
        bool moved = change_expiry(&cell, op, time_ms);
        if (op->kind == MODEL_DEADLINE) answer->unmet = !moved;
    }
    const struct model_cell *shown = e == ERR_OK ? &cell : seen;
    answer->added = shown ? shown->added : 0;
    answer->subbed = shown ? shown->subbed : 0;
    if (e != ERR_OK || answer->unmet) return e;
    if (model_over(&cell, time_ms)) { /* it has ended already */
        *changed = old != NULL;
        if (old) remove_at(model, (unsigned)(old - model->cells));
        return ERR_OK;
    }
    if (!old) e = model_room(model, limits, &cell, false);
    if (e != ERR_OK) return e;
    *changed = !seen || seen->added != cell.added || seen->subbed != cell.subbed ||
               seen->expires_ms != cell.expires_ms || seen->exact != cell.exact;
    if (!*changed) return ERR_OK;
    cell.updated_ms = time_ms;
    must(old || model->cells_count < MODEL_CELLS_MAX);
    *(old ? old : &model->cells[model->cells_count++]) = cell;
    return ERR_OK;
}

static void look_or_remove(struct model *model, int64_t time_ms, const struct model_op *op,
                           struct model_answer *answer, bool *changed)
{
    const struct model_cell *cell =
        model_find(model, op->tenant, op->name, 0, op->duration, op->bucket);
    if (cell && model_over(cell, time_ms)) cell = NULL;
    answer->err = ERR_OK;
    answer->existed = cell != NULL;
    answer->left_ms = MODEL_NEVER;
    if (!cell) return;
    if (op->kind == MODEL_REMOVE) {
        remove_at(model, (unsigned)(cell - model->cells));
        *changed = true;
        return;
    }
    answer->added = cell->added;
    answer->subbed = cell->subbed;
    if (cell->expires_ms == MODEL_NEVER) return;
    answer->left_ms = cell->expires_ms > time_ms ? cell->expires_ms - time_ms : 0;
}

static enum err remove_counter(struct model *model, const struct model_op *op)
{
    bool any = false;
    for (unsigned i = 0; i < model->cells_count;) {
        if (is_of(&model->cells[i], op->tenant, op->name, op->generation)) {
            remove_at(model, i);
            any = true;
        } else {
            i++;
        }
    }
    return any ? ERR_OK : ERR_NOT_FOUND;
}

static enum err expire(struct model *model, const struct moment *moment, const struct model_op *op)
{
    const struct model_cell *cell =
        model_find(model, op->tenant, op->name, op->generation, op->duration, op->bucket);
    bool sure = moment->held_ms != HELD_ALL;
    if (!cell || cell->expires_ms == MODEL_NEVER || !sure ||
        cell->expires_ms > moment->now_ms - moment->held_ms)
        return ERR_NOT_FOUND;
    remove_at(model, (unsigned)(cell - model->cells));
    return ERR_OK;
}

/* ---- keys ---- */

static struct model_record *record_of(struct model *model, unsigned tenant,
                                      const struct model_key *key)
{
    must(key->number < MODEL_KEYS);
    return &model->keys[tenant][key->number];
}

static bool remembered(const struct model_record *record, struct model_limits *limits)
{
    if (!record->outcome) return false;
    if (model_age(&limits->moment, record->first_seen_ms) < limits->key_keep_ms) return true;
    int64_t behind_ms = record->first_true_ms - record->first_seen_ms;
    int64_t really_ms = limits->true_ms - record->first_true_ms + (behind_ms > 0 ? behind_ms : 0);
    limits->early |= really_ms < limits->key_keep_ms - limits->early_ms;
    return false;
}

static bool is_stored(enum err e)
{
    return e == ERR_OK || e == ERR_NEGATIVE || e == ERR_LIMIT || e == ERR_OVERFLOW;
}

static void remember(struct model *model, struct model_limits *limits, int64_t time_ms,
                     unsigned tenant, const struct model_key *key, struct model_outcome *outcome)
{
    outcome->next = limits->outcomes;
    limits->outcomes = outcome;
    *record_of(model, tenant, key) = (struct model_record){.outcome = outcome,
                                                           .digest = key->digest,
                                                           .sequence = model->sequence,
                                                           .first_seen_ms = time_ms,
                                                           .first_true_ms = limits->true_ms};
}

static struct model_outcome *outcome_new(const struct model_answer *answers, unsigned count)
{
    struct model_outcome *outcome =
        must_calloc(1, sizeof *outcome + count * sizeof *outcome->answers);
    outcome->count = count;
    memcpy(outcome->answers, answers, count * sizeof *answers);
    return outcome;
}

static bool replay_op(struct model *model, struct model_limits *limits, const struct model_op *op,
                      struct model_answer *answer)
{
    const struct model_record *record = record_of(model, op->tenant, &op->key);
    if (!remembered(record, limits)) return false;
    if (record->digest == op->key.digest && !record->outcome->of_bundle) {
        *answer = record->outcome->answers[0];
        answer->replayed = true;
    } else {
        *answer = (struct model_answer){.err = ERR_KEY_CONFLICT};
    }
    answer->sequence = record->sequence;
    return true;
}

/* Kept by rules, or frozen since they went: only events change it. */
static bool is_managed(const struct model *model, const struct model_limits *limits,
                       const struct model_op *op)
{
    return limits->rules && op->kind != MODEL_EXPIRE && op->generation == 0 &&
           op->name == MODEL_SHADOWED && model->counters[0].known;
}

static void decide_op(struct model *model, struct model_limits *limits, int64_t time_ms,
                      const struct model_op *op, struct model_answer *answer)
{
    *answer = (struct model_answer){.err = ERR_INVALID};
    if (op->malformed) return;
    if (op->kind == MODEL_EVENT) {
        model_decide_event(model, limits, time_ms, op, answer);
        return;
    }
    if (op->key.used && replay_op(model, limits, op, answer)) return;
    bool changed = false;
    if (is_managed(model, limits, op)) {
        answer->err = ERR_MANAGED;
    } else if (op->kind == MODEL_DELETE || op->kind == MODEL_EXPIRE) {
        answer->err = op->kind == MODEL_DELETE ? remove_counter(model, op)
                                               : expire(model, &limits->moment, op);
        changed = answer->err == ERR_OK;
    } else if (op->kind == MODEL_READ || op->kind == MODEL_REMOVE) {
        look_or_remove(model, time_ms, op, answer, &changed);
    } else {
        answer->err = change(model, limits, time_ms, op, answer, &changed);
    }
    bool stored = op->key.used && is_stored(answer->err);
    if (changed || stored) model->sequence++;
    answer->sequence = model->sequence;
    if (stored) remember(model, limits, time_ms, op->tenant, &op->key, outcome_new(answer, 1));
}

/* ---- bundles ---- */

static bool replay_bundle(struct model *model, struct model_limits *limits,
                          struct model_bundle *bundle)
{
    const struct model_record *record = record_of(model, bundle->tenant, &bundle->key);
    if (!remembered(record, limits)) return false;
    const struct model_outcome *outcome = record->outcome;
    bundle->replayed = record->digest == bundle->key.digest && outcome->of_bundle;
    bundle->err = bundle->replayed ? outcome->err : ERR_KEY_CONFLICT;
    bundle->failed_index = outcome->failed_index;
    bundle->sequence = record->sequence;
    if (bundle->replayed)
        memcpy(bundle->answers, outcome->answers, bundle->count * sizeof *bundle->answers);
    return true;
}

static void decide_atomic(struct model *model, struct model_limits *limits, int64_t time_ms,
                          struct model_bundle *bundle)
{
    struct model *before = must_alloc(sizeof *before);
    model_copy(before, model);
    for (unsigned i = 0; i < bundle->count && bundle->err == ERR_OK; i++) {
        decide_op(model, limits, time_ms, &bundle->ops[i], &bundle->answers[i]);
        bundle->err = bundle->answers[i].err;
        bundle->failed_index = i;
    }
    if (bundle->err != ERR_OK) model_copy(model, before);
    free(before);
    bundle->sequence = model->sequence;
}

static void decide_each(struct model *model, struct model_limits *limits, int64_t time_ms,
                        struct model_bundle *bundle, unsigned first, unsigned count)
{
    for (unsigned i = first; i < first + count; i++) {
        decide_op(model, limits, time_ms, &bundle->ops[i], &bundle->answers[i]);
        if (bundle->answers[i].sequence > bundle->sequence)
            bundle->sequence = bundle->answers[i].sequence;
    }
}

static void remember_bundle(struct model *model, struct model_limits *limits, int64_t time_ms,
                            struct model_bundle *bundle)
{
    struct model_outcome *outcome = outcome_new(bundle->answers, bundle->count);
    outcome->of_bundle = true;
    outcome->err = bundle->err;
    outcome->failed_index = bundle->failed_index;
    remember(model, limits, time_ms, bundle->tenant, &bundle->key, outcome);
    bundle->sequence = model->sequence;
}

void model_decide(struct model *model, struct model_limits *limits, int64_t time_ms,
                  struct model_bundle *bundle, unsigned first, unsigned count)
{
    uint64_t before = model->sequence;
    if (bundle->key.used && replay_bundle(model, limits, bundle)) return;
    if (bundle->atomic)
        decide_atomic(model, limits, time_ms, bundle);
    else
        decide_each(model, limits, time_ms, bundle, first, count);
    if (bundle->key.used && is_stored(bundle->err)) {
        if (model->sequence == before) model->sequence++; /* the key alone is a change */
        remember_bundle(model, limits, time_ms, bundle);
    }
    if (model->sequence != before) model->time_ms = time_ms;
}

void model_limits_release(struct model_limits *limits)
{
    for (struct model_outcome *outcome = limits->outcomes, *next; outcome; outcome = next) {
        next = outcome->next;
        free(outcome);
    }
    limits->outcomes = NULL;
    for (struct model_past *past = limits->pasts, *next; past; past = next) {
        next = past->next;
        free(past);
    }
    limits->pasts = NULL;
}
