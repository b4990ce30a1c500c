/* apply_event.c -- decides one event: its id, its counters, its tenant's row, all or none.
 *
 * (1) An id that is remembered changes nothing: the delivery is a duplicate, and a cause of its own
 *     for the audit.
 * (2) Otherwise every change the rules ask for is made, and the id remembered, or, if one of them
 *     cannot be made (overflow, no room for a cell), nothing is: the event is refused whole.
 * (3) A transition-safe counter changes only when its entity's state does, and goes down under the
 *     dimensions it went up under.
 * (4) Windows go by batch time, and end no earlier than what of it is sure (base/moment.h): a clock
 *     that steps can neither shrink one nor keep it open. */
#include "core/apply_event.h"

#include "core/apply_mark.h"
#include "core/bucket.h"
#include "core/cell.h"
#include "core/event_id.h"
#include "core/name.h"
#include "core/object.h"
#include "core/undo.h"

int64_t event_time(const struct apply *apply, const struct op *op)
{
    return op->kind == OP_REPLAY ? op->event->arrived_ms : apply->moment.now_ms;
}

/* A retained event happened when it arrived, and that time is not in doubt any more. */
static struct moment event_moment(const struct apply *apply, const struct op *op)
{
    if (op->kind != OP_REPLAY) return apply->moment;
    return (struct moment){.now_ms = event_time(apply, op),
                           .back_ms = apply->moment.back_ms,
                           .back_since_ms = apply->moment.back_since_ms};
}

int32_t event_cell(const struct definition *definition, unsigned index, const struct event *event,
                   int64_t now_ms, int64_t *bucket_out)
{
    *bucket_out = 0;
    switch (definition->mode) {
    case MODE_PERSISTENT:
        return 0;
    case MODE_WINDOWED:
        if (index == 0) return WINDOW_DURATION;
        *bucket_out = bucket_start(now_ms, definition->trailing_seconds);
        return definition->trailing_seconds;
    case MODE_SERIES:
        if (!bucket_around(event->occurred_ms, definition->granularities[index], bucket_out))
            *bucket_out = INT64_MIN; /* has no name: the event will be refused */
        return definition->granularities[index];
    }
    unreachable_state(definition->mode);
}

bool event_id_known(const struct apply *apply, const struct op *op)
{
    const struct key_record *record = &apply->reads.keys[op->key_index].value;
    int64_t keep_ms = apply->limits->id_keep_ms;
    return record->exists &&
           (keep_ms == 0 || moment_age(&apply->moment, record->first_seen_ms) < keep_ms);
}

void event_project_again(struct apply *apply, struct op *op)
{
    struct event *event = op->event;
    if (event->projection && event->projection->rules == apply->rules) return;
    if (!rules_type_known(apply->rules, event->type)) {
        op->err = ERR_EVENT_TYPE;
        return;
    }
    struct json_value payload = {.type = JSON_ABSENT};
    if (event->payload.size) {
        char *text = arena_zalloc(apply->arena, event->payload.size + JSON_PADDING);
        memcpy(text, event->payload.data, event->payload.size);
        bool parsed = json_parse(apply->parser, bytes_of(text, event->payload.size), &payload);
        must(parsed); /* it was read once before */
    }
    const struct project_input input = {.rules = apply->rules,
                                        .secret = apply->secret,
                                        .tenant = op->tenant,
                                        .payload = &payload,
                                        .arena = apply->arena};
    event->projection = project(&input, event);
    if (event->projection->too_large) op->err = ERR_EVENT_SIZE;
}

/* -- The state of an entity: the dimension sets it was switched on under ----------------------- */

static struct bytes state_of(struct apply *apply, const struct change *change)
{
    struct bytes sets[RULES_SETS_MAX];
    must(change->targets_count <= RULES_SETS_MAX);
    for (uint32_t i = 0; i < change->targets_count; i++) {
        struct bytes tenant, name;
        uint32_t generation;
        bool whole = rule_key_split(change->targets[i].key, &tenant, &name, &generation, &sets[i]);
        must(whole);
    }
    return object_state_encode(apply->arena, sets, change->targets_count);
}

static struct target *former_add(struct apply *apply, const struct change *change)
{
    struct target *target = &change->entity->former[change->entity->former_count++];
    unsigned cells = definition_cells(change->definition);
    target->cells = arena_alloc(apply->arena, cells * sizeof *target->cells);
    target->mark = NULL;
    return target;
}

static void former_room(struct apply *apply, struct entity_state *entity, uint64_t count)
{
    entity->former_count = 0;
    entity->former = arena_alloc(apply->arena, (count + 1) * sizeof *entity->former);
}

/* Bytes that are no state are noticed here and reported when the state is needed (apply_change). */
static void recall_stored(struct apply *apply, struct bytes tenant, const struct change *change)
{
    struct entity_state *entity = change->entity;
    struct bytes value = apply->reads.objects[entity->index].value;
    struct bytes sets[RULES_SETS_MAX];
    unsigned count;
    if (value.size == 0) return;
    entity->unreadable = !object_state_decode(value, sets, &count);
    if (entity->unreadable) return;
    former_room(apply, entity, count);
    for (unsigned i = 0; i < count; i++) {
        struct target *target = former_add(apply, change);
        target->key =
            rule_key(apply->arena, tenant, change->definition->name, change->generation, sets[i]);
        target->print = fingerprint_of(apply->secret, target->key);
        if (change->marks)
            target->mark =
                mark_of_set(apply->arena, apply->secret, change->definition, tenant, sets[i]);
    }
}

/* Takes the same sets as the change that is foreseen, but at the places of this event's own
 * time. */
static void recall_foreseen(struct apply *apply, const struct change *change)
{
    const struct change *foreseen = change->entity->foreseen;
    change->entity->unreadable = false;
    former_room(apply, change->entity, foreseen->targets_count);
    for (uint32_t i = 0; i < foreseen->targets_count; i++) {
        struct target *target = former_add(apply, change);
        target->key = foreseen->targets[i].key;
        target->print = foreseen->targets[i].print;
        target->mark = foreseen->targets[i].mark;
    }
}

void change_recall(struct apply *apply, struct bytes tenant, struct change *change, bool repeat)
{
    struct entity_state *entity = change->entity;
    struct read_object *state = &apply->reads.objects[entity->index];
    bool turns_on = change->op == OP_INCREMENT;
    entity->former_count = 0;
    entity->foreseen = NULL;
    entity->unreadable = false;
    if (!turns_on) recall_stored(apply, tenant, change);
    if (repeat) return;
    if (!state->is_foreseen) state->foreseen_on = state->value.size > 0;
    state->is_foreseen = true;
    if (state->foreseen_on == turns_on) return;
    entity->foreseen = turns_on ? NULL : state->foreseen;
    if (entity->foreseen) recall_foreseen(apply, change);
    state->foreseen_on = turns_on;
    state->foreseen = turns_on ? change : NULL;
}

/* -- Changing cells ---------------------------------------------------------------------------- */

/* One change on its way: what is the same for all of its cells. */
struct cell_step {
    struct apply *apply;
    const struct op *op;
    struct change *change;
    struct moment moment;
    int64_t amount; /* what is left to add or take away */
};

/* The window that is open now, which may be a new one. */
static struct cell window_open(const struct cell_step *step, const struct cell *before)
{
    if (before->exists && !window_over(before, &step->moment)) return *before;
    struct cell window = cell_absent();
    window.start_ms = step->moment.now_ms;
    window.expires_ms = window.start_ms + step->change->definition->window_ms + WINDOW_IDLE_MS;
    return window;
}

static int64_t bucket_end_ms(int64_t bucket, int32_t granularity)
{
    int64_t seconds;
    bool known = bucket_begins(bucket + bucket_step(granularity), granularity, &seconds);
    must(known); /* a bucket without a name was refused before */
    return seconds * 1000;
}

/* When a cell of this place is no longer of use; TIME_NONE: never. */
static int64_t cell_expiry(const struct definition *definition, const struct read_cell *cell)
{
    if (definition->mode == MODE_WINDOWED && cell->duration != WINDOW_DURATION)
        return bucket_end_ms(cell->bucket, cell->duration) + definition->window_ms;
    if (definition->mode == MODE_SERIES && definition->keep_ms && cell->duration != 0)
        return bucket_end_ms(cell->bucket, cell->duration) + definition->keep_ms;
    return TIME_NONE;
}

/* A trailing bucket may go below zero where what is taken away was added in an earlier one: only
 * the sum of all of them means something. */
static bool has_floor(const struct definition *definition, const struct read_cell *cell)
{
    if (definition->mode == MODE_WINDOWED && cell->duration != WINDOW_DURATION) return false;
    return definition->floor_at_zero;
}

static enum err step_value(struct cell_step *step, const struct read_cell *place, struct cell *cell)
{
    const struct definition *definition = step->change->definition;
    int64_t removed;
    if (step->change->op == OP_INCREMENT) return cell_raise(cell, step->amount);
    enum err e = cell_lower(cell, step->amount, has_floor(definition, place), &removed);
    if (removed < step->amount) step->change->result = CHANGE_CLAMPED;
    /* The trailing bucket follows its window. Buckets of a series are clamped each on its own. */
    if (definition->mode == MODE_WINDOWED) step->amount = removed;
    return e;
}

static enum err step_cell(struct cell_step *step, uint32_t index)
{
    struct apply *apply = step->apply;
    const struct read_cell *place = &apply->reads.cells[index];
    if (!bucket_has_name(place->bucket, place->duration))
        return place->bucket == INT64_MIN ? ERR_OLD_TZDATA : ERR_BUCKET;
    struct cell before = cell_now(apply, index);
    struct cell base = before;
    if (place->duration == WINDOW_DURATION && step->change->definition->mode == MODE_WINDOWED)
        base = window_open(step, &before);
    struct cell after = base;
    enum err e = step_value(step, place, &after);
    if (e != ERR_OK || cell_equal(&base, &after)) return e;
    cell_extend(&after, cell_expiry(step->change->definition, place));
    step->op->event->counters++;
    return cell_put(apply, index, &before, after);
}

/* A decrement that was clamped marks its entity too: that there was nothing left to take away is a
 * sign of drift. */
static enum err step_target(struct cell_step *step, const struct target *target)
{
    unsigned count = definition_cells(step->change->definition);
    step->amount = step->change->amount;
    if (target->mark && step->amount > 0) {
        enum err e = mark_touch(step->apply, target->mark);
        if (e != ERR_OK) return e;
    }
    for (unsigned i = 0; i < count && step->amount > 0; i++) {
        enum err e = step_cell(step, target->cells[i]);
        if (e != ERR_OK) return e;
    }
    return ERR_OK;
}

/* -- Changes ----------------------------------------------------------------------------------- */

/* Changes the entity's state; false: it is that way already. */
static bool switch_entity(struct apply *apply, struct change *change)
{
    uint32_t index = change->entity->index;
    bool on = apply->reads.objects[index].value.size > 0;
    bool turns_on = change->op == OP_INCREMENT;
    if (on == turns_on) return false;
    struct read_object *object = change_object(apply, index);
    object->value = turns_on ? state_of(apply, change) : BYTES_NONE;
    object->switched = turns_on ? change : NULL;
    return true;
}

/* A decrement goes to the sets its entity was switched on under. Where an event before it in this
 * batch was refused, these may not be the ones that were foreseen: the event is then to be sent
 * again. */
static enum err find_targets(const struct apply *apply, const struct change *change,
                             const struct target **targets_out, uint32_t *count_out)
{
    const struct entity_state *entity = change->op == OP_DECREMENT ? change->entity : NULL;
    *targets_out = entity ? entity->former : change->targets;
    *count_out = entity ? entity->former_count : change->targets_count;
    if (!entity) return ERR_OK;
    return apply->reads.objects[entity->index].switched == entity->foreseen ? ERR_OK : ERR_BUSY;
}

/* The keys are copied, for the targets live in the batch's arena and the caller reads them
 * later. */
static void tell_former(const struct entity_state *entity)
{
    buf_reset(entity->told);
    for (uint32_t i = 0; i < entity->former_count; i++)
        buf_add_sized(entity->told, entity->former[i].key);
}

static enum err apply_change(struct apply *apply, const struct op *op, struct change *change)
{
    struct cell_step step = {
        .apply = apply, .op = op, .change = change, .moment = event_moment(apply, op)};
    const struct target *targets;
    uint32_t count;
    enum err e = find_targets(apply, change, &targets, &count);
    change->result = CHANGE_APPLIED;
    if (change->entity && !switch_entity(apply, change)) {
        change->result = CHANGE_IGNORED;
        return ERR_OK;
    }
    if (change->entity && change->entity->unreadable)
        return damage_note(apply, "an entity's state", change->entity->key);
    if (change->entity && change->entity->told) tell_former(change->entity);
    for (uint32_t i = 0; i < count && e == ERR_OK; i++)
        e = step_target(&step, &targets[i]);
    return e;
}

static enum err apply_changes(struct apply *apply, const struct op *op)
{
    struct projection *projection = op->event->projection;
    op->event->counters = 0;
    projection->usage_changed = false;
    for (uint32_t i = 0; i < projection->changes_count; i++) {
        struct change *change = &projection->changes[i];
        uint32_t before = op->event->counters;
        enum err e = apply_change(apply, op, change);
        if (e != ERR_OK) return e;
        if (op->event->counters > before && bytes_equal(change->definition->group, USAGE_GROUP))
            projection->usage_changed = true;
    }
    return ERR_OK;
}

/* A tenant gets its usage row with its status, or with the first change to one of its usage
 * counters; what changes nothing makes no row (S4-28). */
static void keep_row(struct apply *apply, const struct event *event)
{
    const struct row_change *change = event->projection->row;
    if (!change) return;
    bool exists = apply->reads.objects[change->index].value.size > 0;
    bool first = event->projection->usage_changed && !exists;
    if (!change->status.size && !first) return;
    struct usage_row row = {.status = change->status.size ? change->status : BYTES("active"),
                            .updated_ms = apply->moment.now_ms};
    change_object(apply, change->index)->value = usage_row_encode(apply->arena, &row);
}

/* -- The event itself -------------------------------------------------------------------------- */

/* The owner that an id is kept with where ids are unique over all tenants. */
static struct bytes id_owner(struct apply *apply, const struct op *op)
{
    if (!apply->limits->ids_shared) return BYTES_NONE;
    return event_id_owner(apply->arena, apply->secret, op->tenant);
}

static void drop_duplicate(struct apply *apply, struct op *op)
{
    struct event *event = op->event;
    const struct key_record *record = &apply->reads.keys[op->key_index].value;
    struct event_id_note note;
    bool whole = event_id_note_decode(record->outcome, &note);
    event->result = EVENT_DUPLICATE;
    event->first_sequence = whole && note.origin ? note.origin : record->sequence;
    event->first_seen_ms = record->first_seen_ms;
    event->conflict = record->digest != event->digest;
    event->foreign = !whole || !bytes_equal(note.owner, id_owner(apply, op));
    event->counters = 0;
    add_cause(apply, op);
}

static void remember_event(struct apply *apply, struct op *op)
{
    struct event *event = op->event;
    add_cause(apply, op);
    struct key_record record = {.sequence = op->sequence,
                                .digest = event->digest,
                                .outcome = id_owner(apply, op),
                                .event = true};
    key_remember(apply, op->key_index, &record);
    event->result = EVENT_APPLIED;
    event->first_sequence = op->sequence;
    event->first_seen_ms = apply->moment.now_ms;
}

void decide_event(struct apply *apply, struct op *op)
{
    if (event_id_known(apply, op)) {
        drop_duplicate(apply, op);
        return;
    }
    struct part_mark mark = part_begin(apply);
    op->err = apply_changes(apply, op);
    if (op->err == ERR_OK) {
        keep_row(apply, op->event);
        remember_event(apply, op);
    }
    part_end(apply, &mark, op->err == ERR_OK);
}

enum err decide_replay(struct apply *apply, struct op *op, bool *changed_out)
{
    apply->recounts = true;
    enum err e = apply_changes(apply, op);
    apply->recounts = false;
    *changed_out = e == ERR_OK;
    return e;
}
