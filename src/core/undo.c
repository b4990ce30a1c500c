/* undo.c -- an entry's value is saved each time a part changes it. Putting the values back from the
 * newest to the oldest leaves the oldest. */
#include "core/undo.h"

#include "core/cell.h"
#include "core/counter.h"

/* What an entry held before an all-or-nothing part changed it. `index` says which entry. */
struct undo {
    enum { UNDO_COUNTER, UNDO_CELL, UNDO_TENANT, UNDO_KEY, UNDO_OBJECT } kind;
    uint32_t index;
    union {
        struct read_counter counter;
        struct read_cell cell;
        struct read_tenant tenant;
        struct read_key key;
        struct read_object object;
    };
    struct undo *next;
};

static const struct undo undo_end;

static struct undo *undo_push(struct apply *apply, uint32_t index)
{
    struct undo *undo = apply->undo_spare;
    if (undo)
        apply->undo_spare = undo->next;
    else
        undo = arena_alloc(apply->arena, sizeof *undo);
    undo->index = index;
    undo->next = apply->undo;
    apply->undo = undo;
    return undo;
}

struct read_counter *change_counter(struct apply *apply, uint32_t index)
{
    struct read_counter *counter = &apply->reads.counters[index];
    if (apply->undo) {
        struct undo *undo = undo_push(apply, index);
        undo->kind = UNDO_COUNTER;
        undo->counter = *counter;
    }
    counter->changed = true;
    return counter;
}

struct read_cell *change_cell(struct apply *apply, uint32_t index)
{
    struct read_cell *cell = &apply->reads.cells[index];
    if (apply->undo) {
        struct undo *undo = undo_push(apply, index);
        undo->kind = UNDO_CELL;
        undo->cell = *cell;
    }
    cell->changed = true;
    return cell;
}

struct read_tenant *change_tenant(struct apply *apply, uint32_t index)
{
    struct read_tenant *tenant = &apply->reads.tenants[index];
    if (apply->undo) {
        struct undo *undo = undo_push(apply, index);
        undo->kind = UNDO_TENANT;
        undo->tenant = *tenant;
    }
    tenant->changed = true;
    return tenant;
}

struct read_key *change_key(struct apply *apply, uint32_t index)
{
    struct read_key *key = &apply->reads.keys[index];
    if (apply->undo) {
        struct undo *undo = undo_push(apply, index);
        undo->kind = UNDO_KEY;
        undo->key = *key;
    }
    key->changed = true;
    return key;
}

struct read_object *change_object(struct apply *apply, uint32_t index)
{
    struct read_object *object = &apply->reads.objects[index];
    if (apply->undo) {
        struct undo *undo = undo_push(apply, index);
        undo->kind = UNDO_OBJECT;
        undo->object = *object;
    }
    object->changed = true;
    return object;
}

static void put_back(struct apply *apply, const struct undo *undo)
{
    switch (undo->kind) {
    case UNDO_COUNTER:
        apply->reads.counters[undo->index] = undo->counter;
        break;
    case UNDO_CELL:
        apply->reads.cells[undo->index] = undo->cell;
        break;
    case UNDO_TENANT:
        apply->reads.tenants[undo->index] = undo->tenant;
        break;
    case UNDO_KEY:
        apply->reads.keys[undo->index] = undo->key;
        break;
    case UNDO_OBJECT:
        apply->reads.objects[undo->index] = undo->object;
        break;
    }
}

struct part_mark part_begin(struct apply *apply)
{
    must(!apply->undo);
    apply->undo = (struct undo *)&undo_end;
    apply->part++;
    return (struct part_mark){apply->sequence, apply->next_series, apply->writes.count,
                              apply->dead_count};
}

void part_end(struct apply *apply, const struct part_mark *mark, bool keep)
{
    if (!keep) {
        for (const struct undo *undo = apply->undo; undo != &undo_end; undo = undo->next)
            put_back(apply, undo);
        apply->sequence = mark->sequence;
        apply->next_series = mark->next_series;
        apply->writes.count = mark->causes_count;
        apply->dead_count = mark->dead_count;
    }
    while (apply->undo != &undo_end) { /* the next part finds them warm */
        struct undo *undo = apply->undo;
        apply->undo = undo->next;
        undo->next = apply->undo_spare;
        apply->undo_spare = undo;
    }
    apply->undo = NULL;
    apply->part++;
}

void add_cause(struct apply *apply, struct op *op)
{
    must(apply->writes.count < apply->causes_max);
    op->sequence = ++apply->sequence;
    apply->writes.causes[apply->writes.count++] = op;
}

struct cell cell_kept(const struct apply *apply, uint32_t cell_index)
{
    const struct read_cell *cell = &apply->reads.cells[cell_index];
    const struct series *series =
        counter_find(apply->reads.counters[cell->counter_index].value, cell->duration);
    if (!series || series->id != cell->series) return cell_absent();
    return cell->value;
}

/* It goes by batch time, and not by how much of it is sure: who sets such an expiry goes by the
 * wall clock, as with Redis. What cannot be undone is left to the sweep. */
struct cell cell_now(const struct apply *apply, uint32_t cell_index)
{
    struct cell cell = cell_kept(apply, cell_index);
    return cell_is_over(&cell, apply->moment.now_ms) ? cell_absent() : cell;
}

/* Whether one more cell fits and, for the first cell of a new series, one more granularity. */
static enum err room_for_cell(const struct apply *apply, const struct read_cell *cell)
{
    const struct read_counter *counter = &apply->reads.counters[cell->counter_index];
    if (!apply->recounts &&
        apply->reads.tenants[counter->tenant_index].cells >= apply->limits->tenant_cells)
        return ERR_CELL_LIMIT;
    if (!counter_find(counter->value, cell->duration) && counter->value &&
        counter->value->count >= apply->limits->granularities)
        return ERR_GRANULARITY_LIMIT;
    return ERR_OK;
}

/* A copy of the counter's list that this part of the batch may change in place. */
static struct counter *own_counter(struct apply *apply, uint32_t index)
{
    struct read_counter *counter = change_counter(apply, index);
    if (counter->owner != apply->part) {
        counter->value = counter_copy(apply->arena, counter->value);
        counter->owner = apply->part;
    }
    return (struct counter *)counter->value;
}

struct series *own_series(struct apply *apply, uint32_t counter_index, int32_t duration)
{
    struct counter *counter = own_counter(apply, counter_index);
    return (struct series *)counter_find(counter, duration);
}

/* Counts a new cell in its tenant and in its series, which is made if need be. */
static uint64_t count_new_cell(struct apply *apply, const struct read_cell *cell)
{
    struct read_counter *counter = &apply->reads.counters[cell->counter_index];
    change_tenant(apply, counter->tenant_index)->cells++;
    if (counter_find(counter->value, cell->duration)) {
        struct series *series = own_series(apply, cell->counter_index, cell->duration);
        series->cells++;
        return series->id;
    }
    struct series fresh = {.id = apply->next_series++, .cells = 1, .duration = cell->duration};
    counter = change_counter(apply, cell->counter_index);
    counter->value = counter_with(apply->arena, counter->value, fresh);
    counter->owner = apply->part;
    return fresh.id;
}

/* Lists of counters show one that has a cell to be seen. They look at no cells, so the series says
 * until when it has one: exactly if it is alone, else no sooner than that. */
static void keep_until(struct apply *apply, const struct read_cell *place, const struct cell *cell)
{
    const struct series *series =
        counter_find(apply->reads.counters[place->counter_index].value, place->duration);
    int64_t until_ms = !cell->exact ? 0 : cell->expires_ms > 0 ? cell->expires_ms : 1;
    bool others = series->cells > 1;
    if (others && until_ms != 0 && (series->until_ms == 0 || series->until_ms > until_ms))
        until_ms = series->until_ms;
    if (until_ms == series->until_ms) return;
    own_series(apply, place->counter_index, place->duration)->until_ms = until_ms;
}

enum err cell_put(struct apply *apply, uint32_t cell_index, const struct cell *kept,
                  struct cell after)
{
    const struct read_cell *place = &apply->reads.cells[cell_index];
    uint64_t series = place->series;
    if (!kept->exists) {
        enum err e = room_for_cell(apply, place);
        if (e != ERR_OK) return e;
        series = count_new_cell(apply, place);
    }
    if (after.exact || kept->exact || !kept->exists) keep_until(apply, place, &after);
    struct read_cell *cell = change_cell(apply, cell_index);
    after.updated_ms = apply->moment.now_ms;
    cell->value = after;
    cell->series = series;
    return ERR_OK;
}

enum err damage_note(struct apply *apply, const char *what, struct bytes key)
{
    if (apply->damage.count++ == 0) apply->damage = (struct damage){1, what, key};
    return ERR_CORRUPT;
}

void key_remember(struct apply *apply, uint32_t index, const struct key_record *record)
{
    struct read_key *key = change_key(apply, index);
    key->value = *record;
    key->value.first_seen_ms = apply->moment.now_ms;
    key->value.exists = true;
}
