/* model_marks.c -- SPEC 9 in plain C: which entities are to be counted anew, and what a
 * pass that counted one does.
 *
 * If nothing came since the pass began its counters become the truth and the mark goes. Otherwise
 * they move by what was wrong then, and the mark stays. A pass of before a reload that wants
 * something else counted does nothing. */
#include <stdlib.h>

#include "base/must.h"
#include "model.h"

unsigned model_marks_count(const struct model *model, unsigned tenant)
{
    unsigned count = 0;
    for (unsigned code = 0; code < RULESET_CODES; code++)
        count += model->marks[tenant][code].version > 0;
    return count;
}

static bool is_full(const struct model *model, const struct model_limits *limits, unsigned tenant)
{
    return limits->tenant_marks && model_marks_count(model, tenant) >= limits->tenant_marks;
}

static struct model_mark new_mark(uint64_t version, int64_t time_ms)
{
    return (struct model_mark){.version = version,
                               .marked_ms = time_ms,
                               .cause_ms = time_ms,
                               .updated_ms = MODEL_NEVER,
                               .retry_ms = MODEL_NEVER};
}

enum err model_touch(struct model *model, const struct model_limits *limits, int64_t time_ms,
                     unsigned tenant, unsigned code)
{
    struct model_mark *mark = &model->marks[tenant][code];
    if (mark->version == 0) {
        if (is_full(model, limits, tenant)) return ERR_MARK_LIMIT;
        *mark = new_mark(0, time_ms);
    }
    if (!mark->pending) mark->marked_ms = time_ms;
    mark->pending = true;
    mark->version = model->sequence + 1;
    mark->cause_ms = time_ms;
    return ERR_OK;
}

/* ---- a pass ---- */

/* As `set` does it: what was counted only ever grows. */
static enum err move_to(struct model_cell *cell, __int128 net)
{
    __int128 by = net - (cell->added - cell->subbed);
    int64_t *side = by > 0 ? &cell->added : &cell->subbed;
    if (by < 0) by = -by;
    if (net > INT64_MAX || net < INT64_MIN || by > INT64_MAX - *side) return ERR_OVERFLOW;
    *side += (int64_t)by;
    return ERR_OK;
}

static enum err adjust(struct model *model, const struct model_limits *limits, int64_t time_ms,
                       struct model_pass *pass, const struct model_count *count)
{
    const struct ruleset *rules = limits->rules;
    const struct model_counter *counter = &model->counters[count->counter];
    unsigned name = MODEL_RULE_NAME(count->counter, pass->code);
    if (!rules || !rules->counters[count->counter].there ||
        counter->generation != count->generation)
        return ERR_CONFLICT;
    struct model_cell *old =
        (struct model_cell *)model_find(model, pass->tenant, name, count->generation, 0, 0);
    struct model_cell cell = {.tenant = pass->tenant,
                              .name = name,
                              .generation = count->generation,
                              .expires_ms = MODEL_NEVER,
                              .start_ms = MODEL_NEVER};
    if (old) cell = *old;
    int64_t now = cell.added - cell.subbed;
    __int128 net = count->truth;
    if (!pass->cleared) net += (__int128)now - count->then;
    if (!pass->cleared && rules->counters[count->counter].floor_at_zero && net < 0) net = 0;
    if (net == now) return ERR_OK;
    pass->unadjusted |= !counter->adjusted;
    enum err e = move_to(&cell, net);
    if (e == ERR_OK && !old) e = model_room(model, limits, &cell, false);
    if (e != ERR_OK) return e;
    cell.updated_ms = time_ms;
    must(old || model->cells_count < MODEL_CELLS_MAX);
    *(old ? old : &model->cells[model->cells_count++]) = cell;
    return ERR_OK;
}

static enum err adjust_all(struct model *model, const struct model_limits *limits, int64_t time_ms,
                           struct model_pass *pass)
{
    for (unsigned i = 0; i < pass->count; i++) {
        enum err e = adjust(model, limits, time_ms, pass, &pass->counts[i]);
        if (e != ERR_OK) return e;
    }
    return pass->unadjusted ? ERR_CONFLICT : ERR_OK;
}

/* Whether the rules in force want just this counted: others may have come since the pass began. */
static bool is_wanted(const struct ruleset *rules, const struct model_pass *pass)
{
    unsigned wanted = 0;
    if (!rules || !rules->entity || !ruleset_code_is(pass->code, rules->entity)) return false;
    for (unsigned i = 0; i < RULESET_COUNTERS; i++)
        wanted += ruleset_reconciles(rules, i);
    for (unsigned i = 0; i < pass->count; i++)
        if (!ruleset_reconciles(rules, pass->counts[i].counter)) return false;
    return wanted == pass->count;
}

enum err model_settle(struct model *model, const struct model_limits *limits, int64_t time_ms,
                      struct model_pass *pass)
{
    struct model_mark *mark = &model->marks[pass->tenant][pass->code];
    pass->unadjusted = false;
    if ((mark->version ? mark->updated_ms : MODEL_NEVER) != pass->updated_ms) return ERR_CONFLICT;
    if (!is_wanted(limits->rules, pass)) return ERR_CONFLICT;
    struct model *before = must_alloc(sizeof *before);
    model_copy(before, model);
    pass->cleared = mark->version == pass->version;
    enum err e = adjust_all(model, limits, time_ms, pass);
    if (e != ERR_OK) model_copy(model, before);
    free(before);
    if (e != ERR_OK) return e;
    if (mark->version == 0) { /* counted without having been marked */
        if (is_full(model, limits, pass->tenant)) return ERR_OK;
        *mark = new_mark(model->sequence + 1, time_ms);
    }
    if (pass->cleared) mark->pending = false;
    mark->updated_ms = time_ms > mark->updated_ms ? time_ms : mark->updated_ms + 1;
    mark->retry_ms = MODEL_NEVER;
    mark->failures = 0;
    return ERR_OK;
}

/* ---- the rest ---- */

enum err model_hold_back(struct model_mark *mark, int64_t retry_ms)
{
    if (mark->version == 0) return ERR_NOT_FOUND;
    mark->failures++;
    mark->retry_ms = retry_ms;
    return ERR_OK;
}

enum err model_forget(struct model_mark *mark, uint64_t version)
{
    if (mark->version == 0 || mark->version != version) return ERR_CONFLICT;
    *mark = (struct model_mark){0};
    return ERR_OK;
}
