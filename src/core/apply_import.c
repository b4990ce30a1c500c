/* apply_import.c -- decides what an import brings.
 *
 * (1) Importing twice is importing once: a cell is put as it is, an id is remembered once, an event
 *     kept once. A duplicate has no id of its own by which it could be told here: the importer
 *     knows how much of a history it has taken.
 * (2) What came here is never replaced by what came to another store.
 * (3) An event and its id keep the number by which clients know them (core/event_id.h). An event's
 *     sequence here is another one, for sequences grow by one with each cause. */
#include "core/apply_import.h"

#include "core/apply_mark.h"
#include "core/cell.h"
#include "core/event.h"
#include "core/event_id.h"
#include "core/undo.h"

/* The cell is put as it is, whatever stood there: importing twice is importing once. A counter that
 * is reconciled is then to be counted anew (SPEC 9). The bundle is atomic, so what fails here also
 * undoes its mark. */
enum err decide_import(struct apply *apply, struct op *op, bool *changed_out)
{
    struct cell before = cell_kept(apply, op->cell_index);
    const struct cell *after = op->imported;
    op->after = cell_triple(after);
    if (cell_equal(&before, after) && before.updated_ms == after->updated_ms) return ERR_OK;
    enum err e = op->mark ? mark_touch(apply, &op->mark->place) : ERR_OK;
    if (e == ERR_OK) e = cell_put(apply, op->cell_index, &before, *after);
    if (e != ERR_OK) return e;
    apply->reads.cells[op->cell_index].value.updated_ms = after->updated_ms;
    *changed_out = true;
    return ERR_OK;
}

/* -- Ids --------------------------------------------------------------------------------------- */

static void remember(struct apply *apply, const struct op *op, const struct key_record *record)
{
    key_remember(apply, op->key_index, record);
    apply->reads.keys[op->key_index].value.first_seen_ms = record->first_seen_ms;
}

/* Where the event of an id came from. Bytes that are no note are taken for an id that came here,
 * which nothing replaces. */
static struct event_id_note note_of(const struct key_record *record)
{
    struct event_id_note note;
    return event_id_note_decode(record->outcome, &note) ? note : (struct event_id_note){0};
}

/* An id or key that expired and came back has several records; the newest counts. An export of
 * several lanes may have an older one of it first, from a lane that only keeps it for others. */
static bool is_known_well(const struct key_record *known, int64_t first_seen_ms)
{
    if (!known->exists) return false;
    if (known->event && note_of(known).origin == 0) return true;
    return known->first_seen_ms >= first_seen_ms;
}

/* A sequence that this lane has not given out yet says nothing here, and may be given to another
 * event some day. */
static struct bytes id_outcome(struct apply *apply, const struct key_record *imported)
{
    if (!imported->event || imported->sequence > apply->sequence) return imported->outcome;
    const struct event_id_note note = {.owner = imported->outcome, .origin = imported->sequence};
    return event_id_note_encode(apply->arena, &note);
}

void decide_import_id(struct apply *apply, struct op *op)
{
    const struct key_record *imported = op->imported_id;
    if (is_known_well(&apply->reads.keys[op->key_index].value, imported->first_seen_ms)) return;
    struct key_record record = *imported;
    record.outcome = id_outcome(apply, imported);
    add_cause(apply, op);
    record.sequence = op->sequence;
    remember(apply, op, &record);
}

/* -- Events ------------------------------------------------------------------------------------ */

static bool has_come(const struct apply *apply, const struct op *op)
{
    const struct key_record *known = &apply->reads.keys[op->key_index].value;
    if (!known->exists) return false;
    struct event_id_note note = note_of(known);
    if (note.origin == 0) return true;
    if (note.origin == op->event->origin) return note.kept;
    return known->first_seen_ms >= op->event->arrived_ms;
}

void decide_import_event(struct apply *apply, struct op *op)
{
    const struct event *event = op->event;
    bool applied = event->result == EVENT_APPLIED;
    if (applied && has_come(apply, op)) return;
    add_cause(apply, op);
    if (!applied) return;
    struct event_id_note note = {.origin = event->origin, .kept = true};
    if (apply->limits->ids_shared)
        note.owner = event_id_owner(apply->arena, apply->secret, op->tenant);
    const struct key_record record = {.sequence = op->sequence,
                                      .first_seen_ms = event->arrived_ms,
                                      .digest = event->digest,
                                      .outcome = event_id_note_encode(apply->arena, &note),
                                      .event = true};
    remember(apply, op, &record);
}
