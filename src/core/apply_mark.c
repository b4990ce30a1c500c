/* apply_mark.c -- decides what marks, passes and failures do to the dirty queue and its counters.
 *
 * (1) A row's version is the sequence of its newest cause; nothing but a cause changes it, so a
 *     pass never marks its own entity (A-16e).
 * (2) A pass clears the mark only if the version is what it was when the pass began. Then
 *     nothing has changed the counters since, and they are set to the truth.
 * (3) Otherwise something came meanwhile, which the truth may or may not include. The counters move
 *     by what was wrong when the pass began, so that nothing that came is lost, and the mark stays:
 *     the next pass settles what may have been counted twice.
 * (4) Either way the time of the last pass advances, or a hot entity would be counted with every
 *     scan. A failed pass advances nothing but its back-off.
 * (5) A pass that counted by an entry which has changed since, by a reload, does nothing: it may
 *     have left out a counter, so the mark is for the next pass.
 * (6) Nor does a pass during which another one was decided: it would put right once more what the
 *     other one put right, or set it back to a truth that is older. */
#include "core/apply_mark.h"

#include "core/cell.h"
#include "core/name.h"
#include "core/object.h"
#include "core/reconcile.h"
#include "core/undo.h"

/* -- Rows -------------------------------------------------------------------------------------- */

/* A damaged row is reported, and taken as one that was never counted: the next cause writes it
 * anew, and its entity is counted, which is all that the row is for. */
static struct mark row_now(struct apply *apply, const struct mark_place *place)
{
    struct mark mark;
    if (!mark_decode(apply->reads.objects[place->index].value, &mark)) {
        (void)damage_note(apply, "a mark", place->key);
        mark = (struct mark){.updated_ms = TIME_NONE, .retry_ms = TIME_NONE};
    }
    return mark;
}

static bool has_row(const struct apply *apply, const struct mark_place *place)
{
    return apply->reads.objects[place->index].value.size > 0;
}

static void row_put(struct apply *apply, const struct mark_place *place, const struct mark *mark)
{
    change_object(apply, place->index)->value = mark_encode(apply->arena, mark);
}

/* Counts one row more, or one less, for its tenant. */
static enum err count_move(struct apply *apply, const struct mark_place *place, bool more)
{
    uint64_t count = 0;
    struct bytes value = apply->reads.objects[place->count_index].value;
    if (value.size > 0 && !object_number_decode(value, &count))
        return damage_note(apply, "a tenant's number of marks", place->count_key);
    if (more && apply->limits->tenant_marks > 0 && count >= (uint64_t)apply->limits->tenant_marks)
        return ERR_MARK_LIMIT;
    if (!more && count == 0) return ERR_OK;
    count = more ? count + 1 : count - 1;
    change_object(apply, place->count_index)->value =
        count ? object_number(apply->arena, count) : BYTES_NONE;
    return ERR_OK;
}

/* The entry that wants this entity counted, by the batch's rules, which may be newer than those by
 * which the op was proposed; NULL: none does. */
static const struct reconcile *wanted_by(const struct apply *apply, const struct mark_place *place)
{
    struct bytes name, tenant, entity_json;
    bool whole = mark_key_split(place->key, &name, &tenant, &entity_json);
    must(whole);
    const struct reconcile *reconcile = apply->rules ? reconcile_find(apply->rules, name) : NULL;
    bool wanted = reconcile && reconcile_has_tenant(reconcile, tenant) &&
                  mark_is_entity(entity_json, reconcile);
    return wanted ? reconcile : NULL;
}

enum err mark_touch(struct apply *apply, const struct mark_place *place)
{
    struct mark mark = row_now(apply, place);
    uint64_t version = apply->sequence + 1; /* the op's sequence once it is a cause */
    if (mark.pending && mark.version == version) return ERR_OK;
    if (!has_row(apply, place)) {
        enum err e = count_move(apply, place, true);
        if (e != ERR_OK) return e;
    }
    must(mark.version < version);
    if (!mark.pending) mark.marked_ms = apply->moment.now_ms;
    mark.pending = true;
    mark.version = version;
    mark.cause_ms = apply->moment.now_ms;
    row_put(apply, place, &mark);
    return ERR_OK;
}

/* -- A pass ------------------------------------------------------------------------------------ */

/* Whether the counter still is what the pass read, and may be changed by it. */
static enum err check_definition(const struct apply *apply, const struct mark_change *change,
                                 const struct adjustment *adjustment,
                                 const struct definition **definition_out)
{
    const struct definition *definition =
        apply->rules ? rules_find(apply->rules, adjustment->counter) : NULL;
    struct bytes tenant, name, dimensions;
    uint32_t generation;
    bool whole = rule_key_split(adjustment->key, &tenant, &name, &generation, &dimensions);
    must(whole);
    *definition_out = definition;
    if (!definition || definition->frozen || definition->generation != generation)
        return ERR_CONFLICT;
    return change->recounted && definition->adjusted ? ERR_HISTORY : ERR_OK;
}

/* What the counter is to be: the truth, or, if something came meanwhile, its value moved by the
 * drift. */
static enum err adjusted_net(const struct adjustment *adjustment, bool same, int64_t now,
                             bool floor_at_zero, int64_t *net_out)
{
    int64_t drift;
    *net_out = adjustment->truth;
    if (same) return ERR_OK;
    if (__builtin_sub_overflow(adjustment->truth, adjustment->then, &drift)) return ERR_OVERFLOW;
    if (__builtin_add_overflow(now, drift, net_out)) return ERR_OVERFLOW;
    if (floor_at_zero && *net_out < 0) *net_out = 0;
    return ERR_OK;
}

static enum err move_cell(struct cell *cell, int64_t from, int64_t to)
{
    int64_t difference, removed;
    if (__builtin_sub_overflow(to, from, &difference)) return ERR_OVERFLOW;
    if (difference > 0) return cell_raise(cell, difference);
    if (difference == INT64_MIN) return ERR_OVERFLOW;
    return cell_lower(cell, -difference, false, &removed);
}

static enum err adjust(struct apply *apply, struct mark_change *change, bool same,
                       struct adjustment *adjustment)
{
    const struct definition *definition;
    enum err e = check_definition(apply, change, adjustment, &definition);
    if (e != ERR_OK) return e;
    adjustment->unadjusted = false;
    struct cell before = cell_now(apply, adjustment->cell_index);
    adjustment->before = cell_triple(&before).net;
    e = adjusted_net(adjustment, same, adjustment->before, definition->floor_at_zero,
                     &adjustment->after);
    if (e != ERR_OK || adjustment->after == adjustment->before) return e;
    adjustment->unadjusted = !change->recounted && !definition->adjusted;
    change->unadjusted |= adjustment->unadjusted;
    struct cell after = before;
    e = move_cell(&after, adjustment->before, adjustment->after);
    return e == ERR_OK ? cell_put(apply, adjustment->cell_index, &before, after) : e;
}

/* Each pass has a time of its own, so that it can be told from any before it. */
static int64_t pass_time(const struct apply *apply, const struct mark *mark)
{
    return apply->moment.now_ms > mark->updated_ms ? apply->moment.now_ms : mark->updated_ms + 1;
}

static enum err decide_pass(struct apply *apply, struct mark_change *change)
{
    struct mark mark = row_now(apply, &change->place);
    const struct reconcile *reconcile = wanted_by(apply, &change->place);
    bool same = mark.version == change->version;
    change->unadjusted = false;
    if (mark.updated_ms != change->updated_ms) return ERR_CONFLICT;
    if (!reconcile || reconcile_digest(reconcile) != change->digest) return ERR_CONFLICT;
    for (uint32_t i = 0; i < change->adjustments_count; i++) {
        enum err e = adjust(apply, change, same, &change->adjustments[i]);
        if (e != ERR_OK) return e;
    }
    /* A rebuild must know that events alone no longer explain the counter before that is so: the
     * pass makes the definition say it first (`adjusted`) and comes again. An adjustment that
     * cannot be made needs no such note, so all of them have been tried by now. */
    if (change->unadjusted) return ERR_CONFLICT;
    change->cleared = same;
    if (mark.version == 0) {
        /* The entity was counted without having been marked: the row only remembers when. */
        if (count_move(apply, &change->place, true) != ERR_OK) return ERR_OK;
        mark.version = apply->sequence + 1;
        mark.marked_ms = mark.cause_ms = apply->moment.now_ms;
    }
    if (same) mark.pending = false;
    mark.updated_ms = pass_time(apply, &mark);
    mark.retry_ms = TIME_NONE;
    mark.failures = 0;
    row_put(apply, &change->place, &mark);
    return ERR_OK;
}

/* -- The rest ---------------------------------------------------------------------------------- */

static enum err decide_fail(struct apply *apply, const struct mark_change *change)
{
    struct mark mark = row_now(apply, &change->place);
    if (mark.version == 0) return ERR_NOT_FOUND;
    mark.failures++;
    mark.retry_ms = apply->moment.now_ms + change->retry_ms;
    row_put(apply, &change->place, &mark);
    return ERR_OK;
}

static enum err decide_forget(struct apply *apply, const struct mark_change *change)
{
    struct mark mark = row_now(apply, &change->place);
    if (mark.version == 0 || mark.version != change->version) return ERR_CONFLICT;
    if (mark.pending && wanted_by(apply, &change->place)) return ERR_CONFLICT;
    change_object(apply, change->place.index)->value = BYTES_NONE;
    return count_move(apply, &change->place, false);
}

static enum err decide_step(struct apply *apply, struct mark_change *change)
{
    switch (change->step) {
    case MARK_REQUEST: /* the batch's rules may want it no longer: nobody would ever count it */
        return wanted_by(apply, &change->place) ? mark_touch(apply, &change->place) : ERR_NOT_FOUND;
    case MARK_PASS:
        return decide_pass(apply, change);
    case MARK_FAIL:
        return decide_fail(apply, change);
    case MARK_FORGET:
        return decide_forget(apply, change);
    }
    unreachable_state(change->step);
}

static void decide_whole(struct apply *apply, struct op *op)
{
    op->err = decide_step(apply, op->mark);
    if (op->err == ERR_OK) add_cause(apply, op);
}

/* In an atomic bundle, as an import's, the bundle is what happens whole or not at all. */
void decide_mark(struct apply *apply, struct op *op)
{
    if (apply->undo) {
        decide_whole(apply, op);
        return;
    }
    struct part_mark part = part_begin(apply);
    decide_whole(apply, op);
    part_end(apply, &part, op->err == ERR_OK);
}
