/* model_events.c -- SPEC 6 and 7 in plain C: an id counts once, for ever; an event
 * changes every counter that the rules say, or nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "model.h"

#define MOST INT64_MAX

/* One event on its way through the rules. */
struct passage {
    struct model *model;
    const struct model_limits *limits;
    int64_t time_ms;      /* windows go by it */
    struct moment moment; /* as far as that is sure */
    int64_t stamp_ms;     /* of the batch */
    unsigned tenant;
    const struct model_event *event;
    const struct model_rebuild *rebuild; /* NULL: every counter's shown generation */
    uint32_t generation;                 /* of the counter being changed */
    unsigned changed;                    /* cells */
    unsigned usage_changed;              /* of them, of counters of group usage */
};

/* ---- cells ---- */

struct spot {
    unsigned name;
    int32_t duration;
    int64_t bucket;
    bool floor;
    int64_t expires_ms; /* MODEL_NEVER: it does not */
};

/* Adds, or takes away as much as may be taken; `*moved` says how much that was. */
static enum err move(struct model_cell *cell, bool down, bool floor, int64_t amount, int64_t *moved)
{
    int64_t net = cell->added - cell->subbed;
    int64_t *side = down ? &cell->subbed : &cell->added;
    *moved = amount;
    if (down && floor && net < amount) *moved = net > 0 ? net : 0;
    if (*moved > MOST - *side) return ERR_OVERFLOW;
    *side += *moved;
    return ERR_OK;
}

static bool window_over(const struct passage *passage, const struct model_cell *cell)
{
    int64_t length_ms = cell->expires_ms - MODEL_WINDOW_IDLE_MS - cell->start_ms;
    return model_age(&passage->moment, cell->start_ms) >= length_ms;
}

/* The cell as the event finds it: a window that is over is a new one. */
static struct model_cell cell_before(const struct passage *passage, const struct model_cell *old,
                                     const struct spot *spot, const struct ruleset_counter *counter)
{
    bool window = spot->duration == MODEL_WINDOW;
    if (old && (!window || !window_over(passage, old))) return *old;
    struct model_cell cell = {.tenant = passage->tenant,
                              .name = spot->name,
                              .generation = passage->generation,
                              .duration = spot->duration,
                              .bucket = spot->bucket,
                              .expires_ms = MODEL_NEVER,
                              .start_ms = MODEL_NEVER};
    if (!window) return cell;
    cell.start_ms = passage->time_ms;
    cell.expires_ms = passage->time_ms + counter->window_ms + MODEL_WINDOW_IDLE_MS;
    return cell;
}

static enum err change_spot(struct passage *passage, const struct ruleset_counter *counter,
                            const struct spot *spot, bool down, int64_t amount, int64_t *moved)
{
    struct model *model = passage->model;
    if (spot->bucket < MODEL_FIRST_SECOND) return ERR_BUCKET;
    struct model_cell *old = (struct model_cell *)model_find(
        model, passage->tenant, spot->name, passage->generation, spot->duration, spot->bucket);
    struct model_cell cell = cell_before(passage, old, spot, counter);
    enum err e = move(&cell, down, spot->floor, amount, moved);
    if (e != ERR_OK || *moved == 0) return e;
    if (spot->expires_ms > cell.expires_ms) cell.expires_ms = spot->expires_ms;
    cell.updated_ms = passage->stamp_ms;
    if (!old) e = model_room(model, passage->limits, &cell, passage->rebuild != NULL);
    if (e != ERR_OK) return e;
    must(old || model->cells_count < MODEL_CELLS_MAX);
    *(old ? old : &model->cells[model->cells_count++]) = cell;
    passage->changed++;
    passage->usage_changed += counter->usage;
    return ERR_OK;
}

static enum err change_series(struct passage *passage, const struct ruleset_counter *counter,
                              unsigned name, bool down, int64_t amount)
{
    for (unsigned i = 0; i < counter->granularities_count; i++) {
        int32_t duration = counter->granularities[i];
        struct spot spot = {.name = name,
                            .duration = duration,
                            .bucket = model_bucket(passage->event->occurred_ms, duration),
                            .floor = counter->floor_at_zero,
                            .expires_ms = MODEL_NEVER};
        if (counter->keep_ms && duration)
            spot.expires_ms = (spot.bucket + duration) * 1000 + counter->keep_ms;
        int64_t moved;
        enum err e = change_spot(passage, counter, &spot, down, amount, &moved);
        if (e != ERR_OK) return e;
    }
    return ERR_OK;
}

/* The trailing count follows what the window did, and is only of use as a sum. */
static enum err change_window(struct passage *passage, const struct ruleset_counter *counter,
                              unsigned name, bool down, int64_t amount)
{
    int32_t seconds = counter->trailing_seconds;
    struct spot window = {.name = name,
                          .duration = MODEL_WINDOW,
                          .floor = counter->floor_at_zero,
                          .expires_ms = MODEL_NEVER};
    int64_t moved, ignored;
    enum err e = change_spot(passage, counter, &window, down, amount, &moved);
    if (e != ERR_OK || !counter->trailing || moved == 0) return e;
    struct spot trailing = {
        .name = name, .duration = seconds, .bucket = model_bucket(passage->time_ms, seconds)};
    trailing.expires_ms = (trailing.bucket + seconds) * 1000 + counter->window_ms;
    return change_spot(passage, counter, &trailing, down, moved, &ignored);
}

static enum err change_name(struct passage *passage, const struct ruleset_counter *counter,
                            unsigned name, bool down, int64_t amount)
{
    if (counter->mode == RULESET_SERIES) return change_series(passage, counter, name, down, amount);
    if (counter->mode == RULESET_WINDOWED)
        return change_window(passage, counter, name, down, amount);
    struct spot spot = {.name = name, .floor = counter->floor_at_zero, .expires_ms = MODEL_NEVER};
    int64_t moved;
    return change_spot(passage, counter, &spot, down, amount, &moved);
}

/* ---- rules ---- */

/* What a cell of this set is kept for; false: the event lacks a part of it. */
static bool code_of(const struct model_event *event, unsigned parts, unsigned *code)
{
    if ((parts & RULESET_A && !event->a) || (parts & RULESET_B && !event->b) ||
        (parts & RULESET_P && !event->p))
        return false;
    *code = (parts & RULESET_A ? event->a : 0) + (parts & RULESET_B ? 3 * event->b : 0) +
            (parts & RULESET_P ? 9 * event->p : 0);
    return true;
}

static unsigned codes_of(const struct model_event *event, const struct ruleset_counter *counter,
                         unsigned codes[RULESET_SETS])
{
    unsigned count = 0;
    for (unsigned i = 0; i < counter->sets_count; i++)
        count += code_of(event, counter->sets[i], &codes[count]);
    return count;
}

static bool applies(const struct ruleset_rule *rule, const struct model_event *event)
{
    if (rule->type != event->type) return false;
    if (rule->where == RULESET_A) return event->a == 1;
    if (rule->where == RULESET_P) return event->p == 1;
    return true;
}

static struct model_entity *entity_of(struct passage *passage)
{
    struct model *model = passage->model;
    for (unsigned i = 0; i < model->entities_count; i++) {
        struct model_entity *entity = &model->entities[i];
        if (entity->tenant == passage->tenant && entity->generation == passage->generation &&
            entity->entity == passage->event->e)
            return entity;
    }
    return NULL;
}

/* False: no change of state, so nothing to count. */
static bool flip_entity(struct passage *passage, bool down, unsigned codes[RULESET_SETS],
                        unsigned *count)
{
    struct model *model = passage->model;
    struct model_entity *on = entity_of(passage);
    if ((on != NULL) == !down) return false;
    if (down) {
        memcpy(codes, on->codes, sizeof on->codes);
        *count = on->count;
        *on = model->entities[--model->entities_count];
        return true;
    }
    must(model->entities_count < MODEL_ENTITIES_MAX);
    on = &model->entities[model->entities_count++];
    *on =
        (struct model_entity){passage->tenant, passage->generation, passage->event->e, *count, {0}};
    memcpy(on->codes, codes, sizeof on->codes);
    return true;
}

/* Also if nothing was left to take away: that is a sign of drift. */
static enum err mark_entity(struct passage *passage, unsigned number, unsigned code)
{
    const struct ruleset *rules = passage->limits->rules;
    if (passage->rebuild || !ruleset_reconciles(rules, number)) return ERR_OK;
    if (!ruleset_code_is(code, rules->entity)) return ERR_OK;
    return model_touch(passage->model, passage->limits, passage->stamp_ms, passage->tenant, code);
}

static enum err follow_rule(struct passage *passage, unsigned number,
                            const struct ruleset_rule *rule)
{
    const struct ruleset_counter *counter = &passage->limits->rules->counters[number];
    const struct model_event *event = passage->event;
    unsigned codes[RULESET_SETS] = {0};
    unsigned count = codes_of(event, counter, codes);
    int64_t amount = rule->amount ? rule->amount : event->has_n && event->n > 0 ? event->n : 0;
    if (counter->safe) {
        if (!event->e) return ERR_OK;
        if (!flip_entity(passage, rule->down, codes, &count)) return ERR_OK;
    }
    enum err e = ERR_OK;
    for (unsigned i = 0; i < count && amount && e == ERR_OK; i++) {
        e = mark_entity(passage, number, codes[i]);
        if (e != ERR_OK) return e;
        e = change_name(passage, counter, MODEL_RULE_NAME(number, codes[i]), rule->down, amount);
    }
    return e;
}

bool model_touches(const struct ruleset_counter *counter, const struct model_event *event)
{
    unsigned codes[RULESET_SETS];
    bool any = false;
    for (unsigned i = 0; i < counter->rules_count; i++)
        any |= applies(&counter->rules[i], event);
    if (!any) return false;
    return counter->safe ? event->e > 0 : codes_of(event, counter, codes) > 0;
}

static void note_first(int64_t *first_ms, int64_t time_ms)
{
    if (time_ms < *first_ms) *first_ms = time_ms;
}

static enum err follow_rules(struct passage *passage)
{
    const struct ruleset *rules = passage->limits->rules;
    for (unsigned number = 0; rules && number < RULESET_COUNTERS; number++) {
        const struct ruleset_counter *counter = &rules->counters[number];
        const struct model_rebuild *rebuild = passage->rebuild;
        struct model_counter *shown = &passage->model->counters[number];
        if (!counter->there || (rebuild && rebuild->counter != number)) continue;
        passage->generation = rebuild ? rebuild->generation : shown->generation;
        if (!rebuild && model_touches(counter, passage->event))
            note_first(&shown->first_ms, passage->time_ms);
        for (unsigned i = 0; i < counter->rules_count; i++) {
            if (!applies(&counter->rules[i], passage->event)) continue;
            enum err e = follow_rule(passage, number, &counter->rules[i]);
            if (e != ERR_OK) return e;
        }
    }
    return ERR_OK;
}

/* A row comes with a status, or with the first change to a usage counter. */
static void keep_row(const struct passage *passage)
{
    const struct ruleset *rules = passage->limits->rules;
    struct model_row *row = &passage->model->rows[passage->tenant];
    unsigned status = rules ? rules->statuses[passage->event->type] : 0;
    if (!status && !row->status && passage->usage_changed) status = 1;
    if (status) *row = (struct model_row){status, passage->time_ms};
}

/* ---- ids ---- */

static void add_past(struct model *model, struct model_limits *limits, int64_t time_ms,
                     const struct model_op *op, const struct model_answer *answer)
{
    struct model_past *past = must_calloc(1, sizeof *past);
    *past = (struct model_past){.before = model->events,
                                .next = limits->pasts,
                                .tenant = op->tenant,
                                .sequence = answer->sequence,
                                .arrived_ms = time_ms,
                                .event = op->event,
                                .duplicate = answer->duplicate,
                                .first_sequence = answer->foreign ? 0 : answer->first_sequence,
                                .first_seen_ms = answer->foreign ? 0 : answer->first_seen_ms};
    limits->pasts = past;
    model->events = past;
    model->events_count++;
}

static bool same_content(const struct model_event *x, const struct model_event *y)
{
    return x->type == y->type && x->a == y->a && x->b == y->b && x->e == y->e && x->p == y->p &&
           x->has_n == y->has_n && x->n == y->n;
}

static void drop_duplicate(const struct model_id *id, const struct model_op *op,
                           struct model_answer *answer)
{
    answer->duplicate = true;
    answer->first_sequence = id->sequence;
    answer->first_seen_ms = id->first_seen_ms;
    answer->conflict = !same_content(&id->event, &op->event);
    answer->foreign = id->tenant != op->tenant;
}

static enum err take_event(struct model *model, const struct model_limits *limits, int64_t time_ms,
                           const struct model_op *op, struct model_answer *answer)
{
    struct passage passage = {.model = model,
                              .limits = limits,
                              .time_ms = time_ms,
                              .moment = limits->moment,
                              .stamp_ms = time_ms,
                              .tenant = op->tenant,
                              .event = &op->event};
    struct model *before = must_alloc(sizeof *before);
    model_copy(before, model);
    enum err e = follow_rules(&passage);
    if (e != ERR_OK)
        model_copy(model, before);
    else
        keep_row(&passage);
    free(before);
    answer->counters = passage.changed;
    return e;
}

enum err model_replay(struct model *model, const struct model_limits *limits, int64_t time_ms,
                      struct model_rebuild *rebuild, const struct model_past *past)
{
    struct passage passage = {.model = model,
                              .limits = limits,
                              .time_ms = past->arrived_ms,
                              .moment = {.now_ms = past->arrived_ms,
                                         .back_ms = limits->moment.back_ms,
                                         .back_since_ms = limits->moment.back_since_ms},
                              .stamp_ms = time_ms,
                              .tenant = past->tenant,
                              .event = &past->event,
                              .rebuild = rebuild};
    note_first(&rebuild->first_ms, past->arrived_ms);
    return follow_rules(&passage);
}

void model_decide_event(struct model *model, struct model_limits *limits, int64_t time_ms,
                        const struct model_op *op, struct model_answer *answer)
{
    struct model_id *id = &model->ids[limits->ids_shared ? 0 : op->tenant][op->event.id];
    *answer = (struct model_answer){.err = ERR_BUSY, .sequence = model->sequence};
    if (op->put_off && limits->refusals) return;
    answer->err = ERR_OK;
    if (id->known)
        drop_duplicate(id, op, answer);
    else
        answer->err = take_event(model, limits, time_ms, op, answer);
    if (answer->err == ERR_OK) model->sequence++;
    answer->sequence = model->sequence;
    limits->refusals += answer->err != ERR_OK;
    if (answer->err != ERR_OK) return;
    if (!id->known) {
        *id = (struct model_id){true, op->tenant, model->sequence, time_ms, op->event};
        answer->first_sequence = model->sequence;
        answer->first_seen_ms = time_ms;
    }
    add_past(model, limits, time_ms, op, answer);
}
