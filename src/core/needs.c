/* needs.c -- lists what a batch could touch, each object once.
 *
 * A batch often hits the same few counters thousands of times, so ops are pointed at shared
 * entries through small open-addressing tables. The tables live in the batch's arena and are as
 * large as the batch: a lone increment pays for a handful of slots, not for five thousand. */
#include "core/prefetch.h"
#include "core/apply.h"
#include "core/apply_event.h"
#include "core/bucket.h"
#include "core/mark.h"

struct index {
    uint32_t *slots; /* entry number + 1; 0: free */
    uint32_t mask;
};

static struct index index_new(struct arena *arena, uint32_t entries_max)
{
    uint32_t size = 8;
    while (size < entries_max * 2)
        size *= 2;
    return (struct index){arena_zalloc(arena, size * sizeof(uint32_t)), size - 1};
}

static void *entries_new(struct arena *arena, uint32_t count, size_t size)
{
    return count ? arena_alloc(arena, count * size) : NULL;
}

struct needs {
    struct apply *apply;
    struct index counters;
    struct index cells;
    struct index tenants;
    struct index keys;
    struct index objects;
};

/* One cell of one counter. */
struct place {
    uint32_t counter;
    int32_t duration;
    int64_t bucket;
};

/* -- Each kind of object, once ----------------------------------------------------------------- */

static uint32_t need_tenant(struct needs *needs, struct bytes tenant)
{
    struct read_set *reads = &needs->apply->reads;
    uint32_t at = (uint32_t)hash_keyed(needs->apply->secret, tenant) & needs->tenants.mask;
    for (; needs->tenants.slots[at]; at = (at + 1) & needs->tenants.mask) {
        uint32_t found = needs->tenants.slots[at] - 1;
        if (bytes_equal(reads->tenants[found].tenant, tenant)) return found;
    }
    needs->tenants.slots[at] = ++reads->tenants_count;
    reads->tenants[reads->tenants_count - 1] = (struct read_tenant){.tenant = tenant};
    return reads->tenants_count - 1;
}

static uint32_t need_counter(struct needs *needs, struct bytes tenant, struct bytes key,
                             struct fingerprint print)
{
    struct read_set *reads = &needs->apply->reads;
    uint32_t at = (uint32_t)print.low & needs->counters.mask;
    for (; needs->counters.slots[at]; at = (at + 1) & needs->counters.mask) {
        uint32_t found = needs->counters.slots[at] - 1;
        if (fingerprint_equal(reads->counters[found].print, print)) return found;
    }
    needs->counters.slots[at] = ++reads->counters_count;
    reads->counters[reads->counters_count - 1] = (struct read_counter){
        .print = print, .key = key, .tenant_index = need_tenant(needs, tenant)};
    return reads->counters_count - 1;
}

static uint32_t need_cell(struct needs *needs, const struct place *place)
{
    struct read_set *reads = &needs->apply->reads;
    uint64_t which = (uint64_t)place->counter << 32 | (uint32_t)place->duration;
    uint64_t hash = hash_keyed_pair(needs->apply->secret, which, (uint64_t)place->bucket);
    uint32_t at = (uint32_t)hash & needs->cells.mask;
    for (; needs->cells.slots[at]; at = (at + 1) & needs->cells.mask) {
        uint32_t found = needs->cells.slots[at] - 1;
        const struct read_cell *cell = &reads->cells[found];
        if (cell->counter_index == place->counter && cell->duration == place->duration &&
            cell->bucket == place->bucket)
            return found;
    }
    needs->cells.slots[at] = ++reads->cells_count;
    reads->cells[reads->cells_count - 1] = (struct read_cell){
        .counter_index = place->counter, .duration = place->duration, .bucket = place->bucket};
    return reads->cells_count - 1;
}

static uint32_t need_key(struct needs *needs, struct bytes tenant, struct fingerprint print)
{
    struct read_set *reads = &needs->apply->reads;
    uint32_t at = (uint32_t)print.low & needs->keys.mask;
    for (; needs->keys.slots[at]; at = (at + 1) & needs->keys.mask) {
        uint32_t found = needs->keys.slots[at] - 1;
        if (fingerprint_equal(reads->keys[found].print, print)) return found;
    }
    needs->keys.slots[at] = ++reads->keys_count;
    reads->keys[reads->keys_count - 1] = (struct read_key){.print = print, .tenant = tenant};
    return reads->keys_count - 1;
}

static uint32_t need_object(struct needs *needs, struct bytes key, struct fingerprint print)
{
    struct read_set *reads = &needs->apply->reads;
    uint32_t at = (uint32_t)print.low & needs->objects.mask;
    for (; needs->objects.slots[at]; at = (at + 1) & needs->objects.mask) {
        uint32_t found = needs->objects.slots[at] - 1;
        if (fingerprint_equal(reads->objects[found].print, print)) return found;
    }
    needs->objects.slots[at] = ++reads->objects_count;
    reads->objects[reads->objects_count - 1] = (struct read_object){.print = print, .key = key};
    return reads->objects_count - 1;
}

/* -- Walking the batch ------------------------------------------------------------------------- */

typedef void op_fn(struct needs *needs, struct op *op);

/* Every op that came to be judged; those with an error already set are left alone. */
static void each_op(struct needs *needs, op_fn *visit)
{
    const struct apply *apply = needs->apply;
    for (uint32_t s = 0; s < apply->slices_count; s++) {
        const struct slice *slice = &apply->slices[s];
        must(slice->first + slice->count <= slice->bundle->count);
        for (uint32_t i = 0; i < slice->count; i++) {
            struct op *op = &slice->bundle->ops[slice->first + i];
            prefetch_ops(op, slice->count - i);
            if (op->err == ERR_OK) visit(needs, op);
        }
    }
}

/* True for ops that name an id or a key. */
static bool has_key(const struct op *op)
{
    return op->keyed || op->kind == OP_EVENT || op->kind == OP_IMPORT_ID ||
           (op->kind == OP_IMPORT_EVENT && op->event->result == EVENT_APPLIED);
}

/* True for ops that touch no cell. */
static bool has_no_cell(const struct op *op)
{
    return op->kind == OP_OBJECT || op->kind == OP_IMPORT_ID || op->kind == OP_IMPORT_EVENT;
}

static bool has_event(const struct op *op)
{
    return op->kind == OP_EVENT || op->kind == OP_REPLAY;
}

/* -- Step 1: ids, keys and objects ------------------------------------------------------------- */

struct first_counts {
    uint32_t ops;
    uint32_t keys;
    uint32_t objects;
    bool marks; /* some marks are found out in the second step */
    size_t weight;
};

/* A batch reserves room for every mark that a change might set: which sets a decrement goes to is
 * known only once the entities' states are. */
static uint32_t change_marks(const struct change *change)
{
    uint32_t former = change->entity && change->op == OP_DECREMENT ? RULES_SETS_MAX : 0;
    return change->marks ? change->targets_count + former + 1 : 0;
}

static void count_objects(const struct projection *projection, struct first_counts *counts)
{
    counts->objects += projection->row != NULL;
    for (uint32_t i = 0; i < projection->changes_count; i++) {
        const struct change *change = &projection->changes[i];
        counts->objects += (change->entity != NULL) + change_marks(change);
        counts->marks |= change->marks;
    }
}

/* The queue weighed an event by the rules under which it came. If those in force make it heavier,
 * the batch might no longer fit a journal segment: the events that are too much are to be sent
 * again. */
static void weigh_event(const struct apply *apply, struct op *op, struct first_counts *counts)
{
    size_t most = apply->limits ? apply->limits->batch_weight : 0;
    size_t weight = op->event->projection->weight;
    if (most && weight > most)
        op->err = ERR_EVENT_SIZE;
    else if (most && counts->weight + weight > most)
        op->err = ERR_BUSY;
    else
        counts->weight += weight;
}

static struct first_counts count_first(struct apply *apply)
{
    struct first_counts counts = {0};
    for (uint32_t s = 0; s < apply->slices_count; s++) {
        const struct slice *slice = &apply->slices[s];
        counts.ops += slice->count;
        counts.keys += slice->bundle->keyed;
        for (uint32_t i = 0; i < slice->count; i++) {
            struct op *op = &slice->bundle->ops[slice->first + i];
            prefetch_ops(op, slice->count - i);
            if (op->err != ERR_OK) continue;
            if (op->kind == OP_EVENT) event_project_again(apply, op);
            if (op->kind == OP_EVENT && op->err == ERR_OK) weigh_event(apply, op, &counts);
            if (op->err != ERR_OK) continue;
            counts.keys += has_key(op);
            if (op->kind == OP_OBJECT) counts.objects++;
            if (op->mark) counts.objects += 2;
            if (has_event(op)) count_objects(op->event->projection, &counts);
        }
    }
    return counts;
}

static void need_mark(struct needs *needs, struct mark_place *place)
{
    place->index = need_object(needs, place->key, place->print);
    place->count_index = need_object(needs, place->count_key, place->count_print);
}

static void identify_event(struct needs *needs, struct event *event)
{
    struct projection *projection = event->projection;
    struct row_change *row = projection->row;
    if (row) row->index = need_object(needs, row->key, row->print);
    for (uint32_t i = 0; i < projection->changes_count; i++) {
        struct entity_state *entity = projection->changes[i].entity;
        if (entity) entity->index = need_object(needs, entity->key, entity->print);
    }
}

static void identify_op(struct needs *needs, struct op *op)
{
    if (has_key(op)) op->key_index = need_key(needs, op->tenant, op->key);
    if (op->kind == OP_OBJECT)
        op->object->index = need_object(needs, op->object->key, op->object->print);
    if (op->mark) need_mark(needs, &op->mark->place);
    if (has_event(op)) identify_event(needs, op->event);
}

void apply_identify(struct apply *apply)
{
    struct first_counts counts = count_first(apply);
    struct arena *arena = apply->arena;
    apply->ops_count = counts.ops;
    apply->objects_max = counts.marks ? counts.objects : 0;
    apply->reads = (struct read_set){
        .keys = entries_new(arena, counts.keys, sizeof(struct read_key)),
        .objects = entries_new(arena, counts.objects, sizeof(struct read_object)),
    };
    struct needs needs = {.apply = apply,
                          .keys = index_new(arena, counts.keys),
                          .objects = index_new(arena, counts.objects)};
    for (uint32_t s = 0; s < apply->slices_count; s++) {
        struct bundle *bundle = apply->slices[s].bundle;
        if (bundle->keyed) bundle->key_index = need_key(&needs, bundle->tenant, bundle->key);
    }
    each_op(&needs, identify_op);
}

/* -- Step 2: counters and cells ---------------------------------------------------------------- */

struct second_counts {
    uint32_t counters;
    uint32_t cells;
};

/* A duplicate changes no counter. One whose first event is in this very batch is not known yet. */
static bool is_known(const struct apply *apply, const struct op *op)
{
    return op->kind == OP_EVENT && event_id_known(apply, op);
}

static struct second_counts count_event(struct apply *apply, const struct op *op)
{
    struct second_counts counts = {0};
    bool repeat = op->kind == OP_EVENT && apply->reads.keys[op->key_index].met;
    if (op->kind == OP_EVENT) apply->reads.keys[op->key_index].met = true;
    struct projection *projection = op->event->projection;
    for (uint32_t i = 0; i < projection->changes_count; i++) {
        struct change *change = &projection->changes[i];
        if (change->entity) change_recall(apply, op->tenant, change, repeat);
        uint32_t former = change->entity ? change->entity->former_count : 0;
        uint32_t targets = change->targets_count + former;
        counts.counters += targets;
        counts.cells += targets * definition_cells(change->definition);
    }
    return counts;
}

static struct second_counts count_second(struct apply *apply)
{
    struct second_counts counts = {0};
    for (uint32_t s = 0; s < apply->slices_count; s++) {
        const struct slice *slice = &apply->slices[s];
        for (uint32_t i = 0; i < slice->count; i++) {
            struct op *op = &slice->bundle->ops[slice->first + i];
            prefetch_ops(op, slice->count - i);
            if (op->err != ERR_OK || has_no_cell(op) || is_known(apply, op)) continue;
            struct second_counts one = {1, 1};
            if (has_event(op)) one = count_event(apply, op);
            if (op->kind == OP_MARK)
                one = (struct second_counts){op->mark->adjustments_count,
                                             op->mark->adjustments_count};
            counts.counters += one.counters;
            counts.cells += one.cells;
        }
    }
    return counts;
}

static void need_target(struct needs *needs, const struct op *op,
                        const struct definition *definition, struct target *target)
{
    target->counter_index = need_counter(needs, op->tenant, target->key, target->print);
    if (target->mark) need_mark(needs, target->mark);
    unsigned count = definition_cells(definition);
    int64_t now_ms = event_time(needs->apply, op);
    for (unsigned i = 0; i < count; i++) {
        struct place place = {.counter = target->counter_index};
        place.duration = event_cell(definition, i, op->event, now_ms, &place.bucket);
        target->cells[i] = need_cell(needs, &place);
    }
}

static void need_event(struct needs *needs, const struct op *op)
{
    struct projection *projection = op->event->projection;
    for (uint32_t i = 0; i < projection->changes_count; i++) {
        struct change *change = &projection->changes[i];
        for (uint32_t t = 0; t < change->targets_count; t++)
            need_target(needs, op, change->definition, &change->targets[t]);
        for (uint32_t t = 0; change->entity && t < change->entity->former_count; t++)
            need_target(needs, op, change->definition, &change->entity->former[t]);
    }
}

static void need_adjustments(struct needs *needs, const struct op *op)
{
    for (uint32_t i = 0; i < op->mark->adjustments_count; i++) {
        struct adjustment *adjustment = &op->mark->adjustments[i];
        adjustment->counter_index =
            need_counter(needs, op->tenant, adjustment->key, adjustment->print);
        struct place place = {.counter = adjustment->counter_index};
        adjustment->cell_index = need_cell(needs, &place);
    }
}

/* Finds the objects listed in the first step again: marks may be among them. */
static struct index objects_again(struct apply *apply)
{
    if (apply->objects_max == 0) return (struct index){0};
    struct index index = index_new(apply->arena, apply->objects_max);
    for (uint32_t i = 0; i < apply->reads.objects_count; i++) {
        uint32_t at = (uint32_t)apply->reads.objects[i].print.low & index.mask;
        while (index.slots[at])
            at = (at + 1) & index.mask;
        index.slots[at] = i + 1;
    }
    return index;
}

static void need_op(struct needs *needs, struct op *op)
{
    if (has_no_cell(op) || is_known(needs->apply, op)) return;
    if (has_event(op)) {
        need_event(needs, op);
        return;
    }
    if (op->kind == OP_MARK) {
        need_adjustments(needs, op);
        return;
    }
    op->counter_index = need_counter(needs, op->tenant, op->counter, op->counter_print);
    if (op->kind == OP_DELETE) return;
    struct place place = {op->counter_index, op->duration, op->bucket};
    op->cell_index = need_cell(needs, &place);
}

void apply_needs(struct apply *apply)
{
    struct second_counts counts = count_second(apply);
    struct arena *arena = apply->arena;
    struct read_set *reads = &apply->reads;
    reads->counters = entries_new(arena, counts.counters, sizeof *reads->counters);
    reads->cells = entries_new(arena, counts.cells, sizeof *reads->cells);
    reads->tenants = entries_new(arena, counts.counters, sizeof *reads->tenants);
    struct needs needs = {.apply = apply,
                          .counters = index_new(arena, counts.counters),
                          .cells = index_new(arena, counts.cells),
                          .tenants = index_new(arena, counts.counters),
                          .objects = objects_again(apply)};
    each_op(&needs, need_op);
}
