/* apply.c -- decides a batch, op by op, in arrival order.
 *
 * (1) Each op is judged alone on the value the one before it left; a refused op changes nothing.
 * (2) An atomic job changes all its objects or none: everything it touches is saved first and put
 *     back when one op fails.
 * (3) Whatever changes state gets the next sequence number and is a cause in the write set.
 * (4) A cell belongs to a series; a series that was unmapped takes its cells with it, so a cell is
 *     only as alive as its counter says. */
#include "core/apply.h"

#include "core/cell.h"
#include "core/counter.h"
#include "core/outcome.h"

/* What an all-or-nothing part had before it changed something. `index` says which entry. */
struct undo {
    enum { UNDO_COUNTER, UNDO_CELL, UNDO_TENANT, UNDO_KEY } kind;
    uint32_t index;
    union {
        struct read_counter counter;
        struct read_cell cell;
        struct read_tenant tenant;
        struct read_key key;
    };
    struct undo *next;
};

/* The state of the numbers when an all-or-nothing part began. */
struct mark {
    uint64_t sequence;
    uint64_t next_series;
    uint32_t causes_count;
    uint32_t dead_count;
};

static const struct undo undo_end;

static struct undo *undo_push(struct apply *apply, uint32_t index)
{
    struct undo *undo = arena_alloc(apply->arena, sizeof *undo);
    undo->index = index;
    undo->next = apply->undo;
    apply->undo = undo;
    return undo;
}

static struct read_counter *change_counter(struct apply *apply, uint32_t index)
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

static struct read_cell *change_cell(struct apply *apply, uint32_t index)
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

static struct read_tenant *change_tenant(struct apply *apply, uint32_t index)
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

static struct read_key *change_key(struct apply *apply, uint32_t index)
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

static void undo_all(struct apply *apply)
{
    for (struct undo *undo = apply->undo; undo != &undo_end; undo = undo->next) {
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
        }
    }
}

static void add_cause(struct apply *apply, struct op *op)
{
    must(apply->writes.count < apply->ops_count + apply->slices_count);
    op->sequence = ++apply->sequence;
    apply->writes.causes[apply->writes.count++] = op;
}

static void bury_series(struct apply *apply, uint64_t id)
{
    if (apply->dead_count % 16 == 0) {
        uint64_t *more = arena_alloc(apply->arena, (apply->dead_count + 16) * sizeof *more);
        if (apply->dead_count) memcpy(more, apply->dead, apply->dead_count * sizeof *more);
        apply->dead = more;
    }
    apply->dead[apply->dead_count++] = id;
}

/* The cell as it stands, absent if its series is not (or no longer) the counter's. */
static struct cell cell_now(const struct apply *apply, const struct op *op)
{
    const struct read_cell *cell = &apply->reads.cells[op->cell_index];
    const struct series *series =
        counter_find(apply->reads.counters[op->counter_index].value, op->duration);
    if (!series || series->id != cell->series) return cell_absent();
    return cell->value;
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

static struct series *own_series(struct apply *apply, const struct op *op)
{
    struct counter *counter = own_counter(apply, op->counter_index);
    return (struct series *)counter_find(counter, op->duration);
}

/* Whether one more cell fits, and of a new series, whether one more granularity does. */
static enum err room_for_cell(const struct apply *apply, const struct op *op)
{
    const struct read_counter *counter = &apply->reads.counters[op->counter_index];
    if (apply->reads.tenants[counter->tenant_index].cells >= apply->limits->tenant_cells)
        return ERR_CELL_LIMIT;
    if (!counter_find(counter->value, op->duration) && counter->value &&
        counter->value->count >= apply->limits->granularities)
        return ERR_GRANULARITY_LIMIT;
    return ERR_OK;
}

/* Counts a new cell in its series, which it makes if need be, and in its tenant. */
static uint64_t count_new_cell(struct apply *apply, const struct op *op)
{
    struct read_counter *counter = &apply->reads.counters[op->counter_index];
    change_tenant(apply, counter->tenant_index)->cells++;
    if (counter_find(counter->value, op->duration)) {
        struct series *series = own_series(apply, op);
        series->cells++;
        return series->id;
    }
    struct series fresh = {apply->next_series++, 1, op->duration};
    counter = change_counter(apply, op->counter_index);
    counter->value = counter_with(apply->arena, counter->value, fresh);
    counter->owner = apply->part;
    return fresh.id;
}

static enum err change_value(const struct op *op, struct cell *cell)
{
    enum err e = ERR_OK;
    switch (op->kind) {
    case OP_INCREMENT:
        e = cell_increment(cell, op->amount, op->max);
        break;
    case OP_DECREMENT:
        return cell_decrement(cell, op->amount);
    case OP_SET:
        e = cell_set(cell, op->amount);
        break;
    default:
        unreachable_state(op->kind);
    }
    if (e == ERR_OK) cell_extend(cell, op->expires_ms);
    return e;
}

static enum err decide_change(struct apply *apply, struct op *op, bool *changed_out)
{
    struct cell before = cell_now(apply, op);
    struct cell after = before;
    enum err e = change_value(op, &after);
    op->after = cell_triple(e == ERR_OK ? &after : &before);
    if (e != ERR_OK || cell_equal(&before, &after)) return e;

    if (!before.exists && (e = room_for_cell(apply, op)) != ERR_OK) return e;
    uint64_t series =
        before.exists ? apply->reads.cells[op->cell_index].series : count_new_cell(apply, op);
    struct read_cell *cell = change_cell(apply, op->cell_index);
    after.updated_ms = apply->time_ms;
    cell->value = after;
    cell->series = series;
    *changed_out = true;
    return ERR_OK;
}

static enum err decide_delete(struct apply *apply, struct op *op, bool *changed_out)
{
    struct read_counter *counter = &apply->reads.counters[op->counter_index];
    if (!counter->value) return ERR_NOT_FOUND;
    change_tenant(apply, counter->tenant_index)->cells -= counter_cells(counter->value);
    for (uint32_t i = 0; i < counter->value->count; i++)
        bury_series(apply, counter->value->series[i].id);
    change_counter(apply, op->counter_index)->value = NULL;
    *changed_out = true;
    return ERR_OK;
}

/* The sweep's proposal, judged again: only a cell that is still due goes. Its series goes with the
 * last cell, so that an expired counter leaves no trace in listings. */
static enum err decide_expire(struct apply *apply, struct op *op, bool *changed_out)
{
    struct cell cell = cell_now(apply, op);
    if (!cell.exists || cell.expires_ms == TIME_NONE || cell.expires_ms > apply->time_ms)
        return ERR_NOT_FOUND;
    change_tenant(apply, apply->reads.counters[op->counter_index].tenant_index)->cells--;
    change_cell(apply, op->cell_index)->value = cell_absent();
    struct series *series = own_series(apply, op);
    series->cells--;
    if (series->cells == 0) {
        bury_series(apply, series->id);
        struct read_counter *counter = &apply->reads.counters[op->counter_index];
        counter->value = counter_without(apply->arena, counter->value, op->duration);
    }
    *changed_out = true;
    return ERR_OK;
}

static bool key_remembered(const struct apply *apply, const struct key_record *record)
{
    return record->exists && apply->time_ms - record->first_seen_ms < apply->limits->key_keep_ms;
}

static void remember_key(struct apply *apply, uint32_t index, uint64_t check, uint64_t sequence,
                         struct bytes outcome)
{
    change_key(apply, index)->value = (struct key_record){.sequence = sequence,
                                                          .first_seen_ms = apply->time_ms,
                                                          .check = check,
                                                          .outcome = outcome,
                                                          .exists = true};
}

#define OP_OUTCOME_SIZE_MAX 32

static void remember_op(struct apply *apply, const struct op *op)
{
    struct buf buf = {.data = arena_alloc(apply->arena, OP_OUTCOME_SIZE_MAX),
                      .capacity = OP_OUTCOME_SIZE_MAX,
                      .max = OP_OUTCOME_SIZE_MAX};
    outcome_encode_op(&buf, op);
    must(!buf.failed);
    remember_key(apply, op->key_index, op->key_check, op->sequence, buf_bytes(&buf));
}

/* Answers from the key's record. True: nothing is left to decide. */
static bool replay_op(const struct apply *apply, struct op *op)
{
    const struct key_record *record = &apply->reads.keys[op->key_index].value;
    if (!key_remembered(apply, record)) return false;
    op->sequence = record->sequence;
    /* What does not decode is a batch's outcome: its key, used for a single op. */
    op->replayed = record->check == op->key_check && outcome_decode_op(record->outcome, op);
    if (!op->replayed) op->err = ERR_KEY_CONFLICT;
    return true;
}

static void decide_op(struct apply *apply, struct op *op)
{
    bool changed = false;
    op->sequence = apply->sequence;
    if (op->keyed && replay_op(apply, op)) return;
    switch (op->kind) {
    case OP_DELETE:
        op->err = decide_delete(apply, op, &changed);
        break;
    case OP_EXPIRE:
        op->err = decide_expire(apply, op, &changed);
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
        struct op *op = &slice->job->ops[slice->first + i];
        if (op->err == ERR_OK) decide_op(apply, op);
        if (op->sequence > slice->job->sequence) slice->job->sequence = op->sequence;
    }
}

static void decide_atomic(struct apply *apply, struct job *job)
{
    struct mark mark = {apply->sequence, apply->next_series, apply->writes.count,
                        apply->dead_count};
    apply->undo = (struct undo *)&undo_end;
    apply->part++;
    for (uint32_t i = 0; i < job->count && job->err == ERR_OK; i++) {
        if (job->ops[i].err == ERR_OK) decide_op(apply, &job->ops[i]);
        job->err = job->ops[i].err;
        job->failed_index = i;
    }
    if (job->err != ERR_OK) {
        undo_all(apply);
        apply->sequence = mark.sequence;
        apply->next_series = mark.next_series;
        apply->writes.count = mark.causes_count;
        apply->dead_count = mark.dead_count;
    }
    apply->undo = NULL;
    apply->part++;
    job->sequence = apply->sequence;
}

static bool replay_job(const struct apply *apply, struct job *job)
{
    const struct key_record *record = &apply->reads.keys[job->key_index].value;
    if (!key_remembered(apply, record)) return false;
    job->sequence = record->sequence;
    job->replayed = record->check == job->key_check && outcome_decode_job(record->outcome, job);
    if (!job->replayed) job->err = ERR_KEY_CONFLICT;
    return true;
}

/* `before` is the last sequence before the job. A job that changed nothing else (a batch of
 * refusals) is remembered too, so it needs a cause of its own. */
static void remember_job(struct apply *apply, struct job *job, uint64_t before)
{
    must(job->count > 0);
    if (apply->sequence == before) add_cause(apply, &job->ops[0]);
    job->sequence = apply->sequence;
    struct buf buf;
    buf_init(&buf, (size_t)job->count * OP_OUTCOME_SIZE_MAX + 64);
    outcome_encode_job(&buf, job);
    must(!buf.failed);
    remember_key(apply, job->key_index, job->key_check, job->sequence,
                 arena_copy(apply->arena, buf_bytes(&buf)));
    buf_release(&buf);
}

static void decide_slice(struct apply *apply, const struct slice *slice)
{
    struct job *job = slice->job;
    uint64_t before = apply->sequence;
    if (job->keyed && replay_job(apply, job)) return;
    if (job->atomic)
        decide_atomic(apply, job);
    else
        decide_each(apply, slice);
    if (job->keyed && outcome_is_final(job->err)) remember_job(apply, job, before);
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
    apply->undo = NULL;
    apply->dead_count = 0;
    uint32_t causes_max = apply->ops_count + apply->slices_count;
    apply->writes = (struct write_set){
        .first_sequence = apply->sequence + 1,
        .time_ms = apply->time_ms,
        .reads = &apply->reads,
        .causes = arena_alloc(apply->arena, causes_max * sizeof(struct op *)),
        .arena = apply->arena,
    };
    for (uint32_t s = 0; s < apply->slices_count; s++)
        decide_slice(apply, &apply->slices[s]);
    drop_dead_cells(apply);
    apply->writes.next_series = apply->next_series;
    apply->writes.dead = apply->dead;
    apply->writes.dead_count = apply->dead_count;
}
