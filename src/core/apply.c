/* apply.c -- decides a batch, op by op, in arrival order.
 *
 * (1) Each op is judged alone on the value the one before it left; a refused op changes nothing.
 * (2) An atomic bundle changes all its objects or none, and so does an event (apply_event.c).
 * (3) Whatever changes state gets the next sequence number and is a cause in the write set.
 * (4) A cell belongs to a series; a series that was unmapped takes its cells with it, so a cell is
 *     only as alive as its counter says. */
#include "core/apply.h"

#include "core/prefetch.h"
#include "core/apply_event.h"
#include "core/apply_import.h"
#include "core/apply_mark.h"
#include "core/cell.h"
#include "core/counter.h"
#include "core/name.h"
#include "core/object.h"
#include "core/outcome.h"
#include "core/undo.h"

static void bury_series(struct apply *apply, uint64_t id)
{
    if (apply->dead_count % 16 == 0) {
        uint64_t *more = arena_alloc(apply->arena, (apply->dead_count + 16) * sizeof *more);
        if (apply->dead_count) memcpy(more, apply->dead, apply->dead_count * sizeof *more);
        apply->dead = more;
    }
    apply->dead[apply->dead_count++] = id;
}

static enum err change_value(struct op *op, struct cell *cell)
{
    switch (op->kind) {
    case OP_INCREMENT:
        return cell_increment(cell, op->amount, op->max);
    case OP_DECREMENT:
        return cell_decrement(cell, op->amount);
    case OP_SET:
        return cell_set(cell, op->amount);
    case OP_MOVE:
        op->was = cell->added - cell->subbed;
        return cell_move(cell, op->amount, op->bounds);
    default:
        unreachable_state(op->kind);
    }
}

/* True for a counter that rules keep, or kept: only events change it. The rules are those of the
 * batch, under which the counter may have come or gone since the op was sent. They are asked once
 * for each counter of a batch. */
static bool is_managed(struct apply *apply, const struct op *op)
{
    struct read_counter *counter = &apply->reads.counters[op->counter_index];
    if (!apply->rules || apply->rules->definitions_count == 0) return false;
    if (counter->kept == KEPT_UNKNOWN) {
        struct bytes name = counter_key_name(op->counter);
        bool by_rules = name.size > 0 && rules_find(apply->rules, name);
        counter->kept = by_rules ? KEPT_BY_RULES : KEPT_DIRECTLY;
    }
    return counter->kept == KEPT_BY_RULES;
}

/* Whether the condition of an OP_SET holds, which also says what it finds. */
static bool set_applies(struct op *op, const struct cell *before)
{
    op->was = before->added - before->subbed;
    if (op->when == WHEN_ANY) return true;
    op->unmet = before->exists != (op->when == WHEN_PRESENT);
    return !op->unmet;
}

/* A counter in force is not removed: the proposal took it for one that had left the config. */
static bool is_in_force(const struct apply *apply, struct bytes name, uint32_t generation)
{
    const struct definition *definition = apply->rules ? rules_find(apply->rules, name) : NULL;
    return definition && !definition->frozen && definition->generation == generation;
}

static enum err decide_delete(struct apply *apply, struct op *op, bool *changed_out)
{
    struct read_counter *counter = &apply->reads.counters[op->counter_index];
    struct bytes tenant, name, dimensions;
    uint32_t generation;
    if (is_managed(apply, op)) return ERR_MANAGED;
    if (!counter->value) return ERR_NOT_FOUND;
    if (rule_key_split(op->counter, &tenant, &name, &generation, &dimensions) &&
        is_in_force(apply, name, generation))
        return ERR_MANAGED;
    change_tenant(apply, counter->tenant_index)->cells -= counter_cells(counter->value);
    for (uint32_t i = 0; i < counter->value->count; i++)
        bury_series(apply, counter->value->series[i].id);
    change_counter(apply, op->counter_index)->value = NULL;
    *changed_out = true;
    return ERR_OK;
}

static enum err decide_read(struct apply *apply, struct op *op)
{
    if (is_managed(apply, op)) return ERR_MANAGED;
    struct cell cell = cell_now(apply, op->cell_index);
    op->left_ms = cell_left(&cell, apply->moment.now_ms);
    op->existed = cell.exists;
    op->after = cell_triple(&cell);
    return ERR_OK;
}

/* A series goes with its last cell, so that a counter without any leaves no trace in listings. */
static void remove_cell(struct apply *apply, const struct op *op)
{
    change_tenant(apply, apply->reads.counters[op->counter_index].tenant_index)->cells--;
    change_cell(apply, op->cell_index)->value = cell_absent();
    struct series *series = own_series(apply, op->counter_index, op->duration);
    series->cells--;
    if (series->cells == 0) {
        bury_series(apply, series->id);
        struct read_counter *counter = &apply->reads.counters[op->counter_index];
        counter->value = counter_without(apply->arena, counter->value, op->duration);
    }
}

/* When the op would have its cell end. */
static int64_t end_asked(const struct apply *apply, const struct op *op)
{
    int64_t end_ms = op->expires_ms;
    if (op->expiry != EXPIRY_AFTER) return end_ms;
    return __builtin_add_overflow(end_ms, apply->moment.now_ms, &end_ms) ? INT64_MAX : end_ms;
}

static bool expiry_is_kept(const struct op *op, const struct cell *cell, int64_t end_ms)
{
    bool expires = cell->expires_ms != TIME_NONE;
    if ((op->unless & UNLESS_THERE) && expires) return true;
    if ((op->unless & UNLESS_NONE) && !expires) return true;
    if ((op->unless & UNLESS_NO_LATER) && (!expires || end_ms <= cell->expires_ms)) return true;
    return (op->unless & UNLESS_NO_SOONER) && expires && end_ms >= cell->expires_ms;
}

/* False: the op leaves the expiry as it is, for one of its conditions does not hold. */
static bool change_expiry(const struct apply *apply, const struct op *op, struct cell *cell)
{
    int64_t end_ms = end_asked(apply, op);
    if (expiry_is_kept(op, cell, end_ms)) return false;
    if (op->expiry == EXPIRY_LATER) {
        cell_extend(cell, end_ms);
        return true;
    }
    cell->exact = op->expiry != EXPIRY_NONE;
    cell->expires_ms = cell->exact ? end_ms : TIME_NONE;
    return true;
}

/* A cell that is given an end which has come is no more. */
static enum err keep_cell(struct apply *apply, const struct op *op, const struct cell *kept,
                          const struct cell *after, bool *changed_out)
{
    bool over = cell_is_over(after, apply->moment.now_ms);
    if (over && kept->exists) remove_cell(apply, op);
    enum err e = over ? ERR_OK : cell_put(apply, op->cell_index, kept, *after);
    *changed_out = e == ERR_OK && (kept->exists || !over);
    return e;
}

/* What stands of what is kept. */
static struct cell standing(const struct apply *apply, const struct cell *kept)
{
    return cell_is_over(kept, apply->moment.now_ms) ? cell_absent() : *kept;
}

static enum err decide_change(struct apply *apply, struct op *op, bool *changed_out)
{
    if (is_managed(apply, op)) return ERR_MANAGED;
    const struct cell kept = cell_kept(apply, op->cell_index);
    const struct cell before = standing(apply, &kept);
    struct cell after = before;
    op->existed = before.exists;
    if (op->kind == OP_SET && !set_applies(op, &before)) {
        op->after = cell_triple(&before);
        return ERR_OK;
    }
    enum err e = change_value(op, &after);
    op->unmet = op->kind == OP_MOVE && e == ERR_LIMIT;
    if (e == ERR_OK && op->kind != OP_DECREMENT) change_expiry(apply, op, &after);
    op->after = cell_triple(e == ERR_OK ? &after : &before);
    if (op->unmet) return ERR_OK;
    if (e != ERR_OK || cell_equal(&before, &after)) return e;
    return keep_cell(apply, op, &kept, &after, changed_out);
}

static enum err decide_deadline(struct apply *apply, struct op *op, bool *changed_out)
{
    if (is_managed(apply, op)) return ERR_MANAGED;
    const struct cell kept = cell_kept(apply, op->cell_index);
    const struct cell before = standing(apply, &kept);
    struct cell after = before;
    op->existed = before.exists;
    op->after = cell_triple(&before);
    op->unmet = !before.exists || !change_expiry(apply, op, &after);
    if (op->unmet || cell_equal(&before, &after)) return ERR_OK;
    return keep_cell(apply, op, &kept, &after, changed_out);
}

/* Decides the sweep's proposal again: only a cell that is still due goes. */
static enum err decide_expire(struct apply *apply, struct op *op, bool *changed_out)
{
    struct cell cell = cell_kept(apply, op->cell_index);
    if (!cell.exists || cell.expires_ms == TIME_NONE ||
        !moment_due(&apply->moment, cell.expires_ms))
        return ERR_NOT_FOUND;
    remove_cell(apply, op);
    *changed_out = true;
    return ERR_OK;
}

static enum err decide_remove(struct apply *apply, struct op *op, bool *changed_out)
{
    if (is_managed(apply, op)) return ERR_MANAGED;
    op->existed = cell_now(apply, op->cell_index).exists;
    if (op->existed) remove_cell(apply, op);
    *changed_out = op->existed;
    return ERR_OK;
}

static bool is_retained(const struct object_change *change)
{
    struct bytes name = bytes_of(change->key.data + 1, change->key.size - 1);
    return change->key.data[0] == OBJECT_META && bytes_equal(name, META_RETAINED);
}

/* The time from which on events are retained only grows, and is never ahead of the batch's own
 * time: a clock that has gone back since the proposal would else make events that are yet to come
 * count as gone. Where time is set back it goes back too, as far as it was ahead. */
static enum err judge_retained(const struct apply *apply, const struct object_change *change,
                               struct bytes now, bool *moves_out)
{
    uint64_t before = 0, after;
    if (now.size > 0 && !object_number_decode(now, &before)) return ERR_CONFLICT;
    if (!object_number_decode(change->value, &after)) return ERR_CONFLICT;
    if ((int64_t)after > apply->moment.now_ms) return ERR_CONFLICT;
    if (after < before && !apply->set_back) return ERR_CONFLICT;
    *moves_out = apply->set_back ? after < before : after > before;
    return ERR_OK;
}

/* A caretaker proposes by what it has read; if that is no longer so, nothing happens. */
static enum err decide_object(struct apply *apply, struct op *op, bool *changed_out)
{
    const struct object_change *change = op->object;
    struct bytes now = apply->reads.objects[change->index].value;
    struct bytes name;
    uint32_t generation;
    if (change->value.size == 0 && object_state_split(change->key, &name, &generation) &&
        is_in_force(apply, name, generation))
        return ERR_MANAGED;
    if (change->conditional && !bytes_equal(now, change->expected)) return ERR_CONFLICT;
    bool moves = !bytes_equal(now, change->value);
    enum err e = is_retained(change) ? judge_retained(apply, change, now, &moves) : ERR_OK;
    if (e != ERR_OK || !moves) return e;
    change_object(apply, change->index)->value = change->value;
    *changed_out = true;
    return ERR_OK;
}

static bool key_remembered(const struct apply *apply, const struct key_record *record)
{
    int64_t keep_ms = apply->limits->key_keep_ms;
    return record->exists && moment_age(&apply->moment, record->first_seen_ms) < keep_ms;
}

#define OP_OUTCOME_SIZE_MAX 32

static void remember_op(struct apply *apply, const struct op *op)
{
    struct buf buf = {.data = arena_alloc(apply->arena, OP_OUTCOME_SIZE_MAX),
                      .capacity = OP_OUTCOME_SIZE_MAX,
                      .max = OP_OUTCOME_SIZE_MAX};
    outcome_encode_op(&buf, op);
    must(!buf.failed);
    struct key_record record = {
        .sequence = op->sequence, .digest = op->key_digest, .outcome = buf_bytes(&buf)};
    key_remember(apply, op->key_index, &record);
}

/* The error of a repeat that is not answered from its key's record: another request came under the
 * key, if only in its form (a batch's key, used for a single op), or the record is damaged. */
static enum err no_replay(struct apply *apply, const struct key_record *record, bool same,
                          struct bytes tenant)
{
    if (!same || outcome_is_any(record->outcome)) return ERR_KEY_CONFLICT;
    return damage_note(apply, "a key's outcome", tenant);
}

/* Answers from the key's record. True: nothing is left to decide. */
static bool replay_op(struct apply *apply, struct op *op)
{
    const struct key_record *record = &apply->reads.keys[op->key_index].value;
    if (!key_remembered(apply, record)) return false;
    op->sequence = record->sequence;
    bool same = record->digest == op->key_digest;
    op->replayed = same && outcome_decode_op(record->outcome, op);
    if (!op->replayed) op->err = no_replay(apply, record, same, op->tenant);
    return true;
}

static void decide_op(struct apply *apply, struct op *op)
{
    bool changed = false;
    op->sequence = apply->sequence;
    if (op->keyed && replay_op(apply, op)) return;
    switch (op->kind) {
    case OP_EVENT:
        decide_event(apply, op);
        return;
    case OP_MARK:
        decide_mark(apply, op);
        return;
    case OP_IMPORT_ID:
        decide_import_id(apply, op);
        return;
    case OP_IMPORT_EVENT:
        decide_import_event(apply, op);
        return;
    case OP_IMPORT:
        op->err = decide_import(apply, op, &changed);
        break;
    case OP_REPLAY:
        op->err = decide_replay(apply, op, &changed);
        break;
    case OP_OBJECT:
        op->err = decide_object(apply, op, &changed);
        break;
    case OP_DELETE:
        op->err = decide_delete(apply, op, &changed);
        break;
    case OP_EXPIRE:
        op->err = decide_expire(apply, op, &changed);
        break;
    case OP_READ:
        op->err = decide_read(apply, op);
        break;
    case OP_REMOVE:
        op->err = decide_remove(apply, op, &changed);
        break;
    case OP_DEADLINE:
        op->err = decide_deadline(apply, op, &changed);
        break;
    default:
        op->err = decide_change(apply, op, &changed);
    }
    bool remembered = op->keyed && outcome_is_final(op->err);
    if (changed || remembered) add_cause(apply, op);
    if (remembered) remember_op(apply, op);
}

static void decide_each(struct apply *apply, const struct slice *slice)
{
    for (uint32_t i = 0; i < slice->count; i++) {
        struct op *op = &slice->bundle->ops[slice->first + i];
        prefetch_ops(op, slice->count - i);
        if (op->err == ERR_OK) decide_op(apply, op);
        if (op->sequence > slice->bundle->sequence) slice->bundle->sequence = op->sequence;
    }
}

static void decide_atomic(struct apply *apply, struct bundle *bundle)
{
    struct part_mark mark = part_begin(apply);
    for (uint32_t i = 0; i < bundle->count && bundle->err == ERR_OK; i++) {
        if (bundle->ops[i].err == ERR_OK) decide_op(apply, &bundle->ops[i]);
        bundle->err = bundle->ops[i].err;
        bundle->failed_index = i;
    }
    part_end(apply, &mark, bundle->err == ERR_OK);
    bundle->sequence = apply->sequence;
}

static bool replay_bundle(struct apply *apply, struct bundle *bundle)
{
    const struct key_record *record = &apply->reads.keys[bundle->key_index].value;
    if (!key_remembered(apply, record)) return false;
    bundle->sequence = record->sequence;
    bool same = record->digest == bundle->key_digest;
    bundle->replayed = same && outcome_decode_bundle(record->outcome, bundle);
    if (!bundle->replayed) bundle->err = no_replay(apply, record, same, bundle->tenant);
    return true;
}

/* `before` is the last sequence before the bundle. A bundle that changed nothing else (a batch of
 * refusals) is remembered too, so it needs a cause of its own. */
static void remember_bundle(struct apply *apply, struct bundle *bundle, uint64_t before)
{
    must(bundle->count > 0);
    if (apply->sequence == before) add_cause(apply, &bundle->ops[0]);
    bundle->sequence = apply->sequence;
    struct buf buf;
    buf_init(&buf, (size_t)bundle->count * OP_OUTCOME_SIZE_MAX + 64);
    outcome_encode_bundle(&buf, bundle);
    must(!buf.failed);
    struct key_record record = {.sequence = bundle->sequence,
                                .digest = bundle->key_digest,
                                .outcome = arena_copy(apply->arena, buf_bytes(&buf))};
    buf_release(&buf);
    key_remember(apply, bundle->key_index, &record);
}

static void decide_slice(struct apply *apply, const struct slice *slice)
{
    struct bundle *bundle = slice->bundle;
    uint64_t before = apply->sequence;
    if (bundle->keyed && replay_bundle(apply, bundle)) return;
    if (bundle->atomic)
        decide_atomic(apply, bundle);
    else
        decide_each(apply, slice);
    if (bundle->keyed && outcome_is_final(bundle->err)) remember_bundle(apply, bundle, before);
}

/* A cell whose series was unmapped later in the batch is garbage: it is not an after-image. */
static void drop_dead_cells(struct apply *apply)
{
    if (!apply->dead_count) return;
    for (uint32_t i = 0; i < apply->reads.cells_count; i++) {
        struct read_cell *cell = &apply->reads.cells[i];
        const struct series *series =
            counter_find(apply->reads.counters[cell->counter_index].value, cell->duration);
        if (!series || series->id != cell->series) cell->changed = false;
    }
}

void apply_decide(struct apply *apply)
{
    apply->part = 1; /* 0 owns nothing */
    apply->undo = apply->undo_spare = NULL;
    apply->dead_count = 0;
    apply->causes_max = apply->ops_count + apply->slices_count;
    apply->writes = (struct write_set){
        .first_sequence = apply->sequence + 1,
        .time_ms = apply->moment.now_ms,
        .sure_ms = moment_sure(&apply->moment),
        .set_back = apply->set_back,
        .reads = &apply->reads,
        .causes = arena_alloc(apply->arena, apply->causes_max * sizeof(struct op *)),
        .arena = apply->arena,
    };
    for (uint32_t s = 0; s < apply->slices_count; s++)
        decide_slice(apply, &apply->slices[s]);
    drop_dead_cells(apply);
    apply->writes.next_series = apply->next_series;
    apply->writes.dead = apply->dead;
    apply->writes.dead_count = apply->dead_count;
}
