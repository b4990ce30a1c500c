/* test_apply_bundles.c -- all-or-nothing bundles, idempotency keys, and a plain model that the
 * decision must agree with over thousands of random batches. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/counter.h"
#include "core/object.h"
#include "store/embedded/journal/block.h"
#include "support/decider.h"

static struct decider decider;

static int setup(void **state)
{
    decider_init(&decider);
    return 0;
}

static int teardown(void **state)
{
    decider_release(&decider);
    return 0;
}

static struct op make(enum op_kind kind, const char *name, int64_t amount)
{
    return ask(&decider.asks, kind, name, amount);
}

static struct op make_at(enum op_kind kind, const char *name, int64_t amount, int32_t duration,
                         int64_t bucket)
{
    struct op op = make(kind, name, amount);
    op.duration = duration;
    op.bucket = bucket;
    return op;
}

static struct op keyed(struct op op, const char *key, uint64_t digest)
{
    return ask_keyed(&decider.asks, op, key, digest);
}

static int64_t stored(const char *name)
{
    struct bytes key = ask_counter(&decider.asks, name);
    struct cell_ref ref = {key, fingerprint_of(decider.asks.secret, key), 0, 0};
    struct cell cell;
    if (view_get(&decider.store->view, &ref, 0, READ_ALL, &cell) != ERR_OK) return -1;
    return cell_triple(&cell).net;
}

static const struct bundle *atomically(const struct op *ops, uint32_t count)
{
    decider_bundle(&decider, (struct bundle){.atomic = true}, ops, count);
    decider_decide(&decider);
    return &decider.bundles[0];
}

/* ---- all or nothing ---- */

static void an_atomic_bundle_changes_everything(void **state)
{
    const struct op ops[] = {make(OP_INCREMENT, "a", 3), make(OP_INCREMENT, "b", 4),
                             make(OP_DECREMENT, "a", 1)};
    const struct bundle *bundle = atomically(ops, 3);
    assert_int_equal(bundle->err, ERR_OK);
    assert_int_equal(bundle->sequence, 3);
    assert_int_equal(bundle->ops[2].after.net, 2);
    decider_keep(&decider);
    assert_int_equal(stored("a"), 2);
    assert_int_equal(stored("b"), 4);
}

static void an_atomic_bundle_that_fails_says_where_and_why(void **state)
{
    const struct op ops[] = {make(OP_INCREMENT, "a", 1), make(OP_DECREMENT, "b", 1),
                             make(OP_INCREMENT, "a", INT64_MAX)};
    const struct bundle *bundle = atomically(ops, 3);
    assert_int_equal(bundle->err, ERR_NEGATIVE);
    assert_int_equal(bundle->failed_index, 1);
    struct op bad = make(OP_INCREMENT, "a", 1);
    bad.err = ERR_INVALID;
    decider_give_up(&decider);
    bundle = atomically(&bad, 1);
    assert_int_equal(bundle->err, ERR_INVALID);
}

/* Everything a failed part can have touched: compared before and after. */
static void a_failed_atomic_bundle_leaves_every_object_as_it_was(void **state)
{
    decider_do(&decider, make(OP_INCREMENT, "old", 10));
    decider_do(&decider, make_at(OP_INCREMENT, "old", 10, 60, 0));
    decider_do(&decider, make(OP_INCREMENT, "gone", 10));
    struct op due = make_at(OP_INCREMENT, "due", 1, 60, 0);
    due.expires_ms = 1;
    decider_do(&decider, due);
    const struct op ops[] = {
        make(OP_INCREMENT, "new", 1),                /* a counter */
        make(OP_INCREMENT, "old", 1),                /* a cell's value */
        make(OP_INCREMENT, "old", 1),                /* twice */
        make_at(OP_INCREMENT, "old", 1, 60, 60),     /* a cell of a series */
        make_at(OP_INCREMENT, "old", 1, 60, 120),    /* twice */
        make_at(OP_INCREMENT, "old", 1, 3600, 0),    /* a series of a counter */
        keyed(make(OP_INCREMENT, "old", 1), "k", 1), /* a key */
        make(OP_DELETE, "gone", 0),                  /* a dead series */
        make(OP_INCREMENT, "gone", 1),               /* and its successor */
        make_at(OP_EXPIRE, "due", 0, 60, 0),         /* a counter's end */
        make(OP_DECREMENT, "nothing", 1),            /* and why it all fails */
    };
    const struct bundle *bundle = atomically(ops, ARRAY_COUNT(ops));
    assert_int_equal(bundle->err, ERR_NEGATIVE);
    assert_int_equal(bundle->failed_index, ARRAY_COUNT(ops) - 1);
    assert_int_equal(bundle->sequence, 4);
    const struct apply *apply = &decider.apply;
    assert_int_equal(apply->writes.count, 0);
    assert_int_equal(apply->writes.dead_count, 0);
    assert_int_equal(apply->writes.next_series, 5);
    assert_int_equal(apply->sequence, 4);
    const struct read_set *reads = &apply->reads;
    for (uint32_t i = 0; i < reads->counters_count; i++)
        assert_false(reads->counters[i].changed);
    for (uint32_t i = 0; i < reads->cells_count; i++)
        assert_false(reads->cells[i].changed);
    assert_false(reads->tenants[0].changed);
    assert_int_equal(reads->tenants[0].cells, 4);
    assert_false(reads->keys[0].changed);
    assert_false(reads->keys[0].value.exists);
    assert_null(reads->counters[0].value);
    const struct counter *old = reads->counters[1].value;
    assert_int_equal(old->count, 2);
    assert_int_equal(counter_find(old, 60)->cells, 1);
    assert_int_equal(reads->cells[1].value.added, 10);
    assert_non_null(reads->counters[2].value);
    assert_non_null(reads->counters[3].value);
}

static void a_failed_atomic_bundle_disturbs_neither_those_before_nor_those_after(void **state)
{
    const struct op before[] = {make_at(OP_INCREMENT, "n", 1, 60, 0), make(OP_INCREMENT, "n", 5)};
    const struct op failing[] = {make_at(OP_INCREMENT, "n", 1, 60, 60),
                                 make(OP_INCREMENT, "n", 100), make(OP_DELETE, "n", 0),
                                 make(OP_DECREMENT, "n", 1)};
    const struct op after[] = {make_at(OP_INCREMENT, "n", 1, 60, 120), make(OP_INCREMENT, "n", 2)};
    decider_bundle(&decider, (struct bundle){0}, before, 2);
    decider_bundle(&decider, (struct bundle){.atomic = true}, failing, 4);
    const struct op *last = decider_bundle(&decider, (struct bundle){0}, after, 2);
    decider_decide(&decider);
    assert_int_equal(decider.bundles[1].err, ERR_NEGATIVE);
    assert_int_equal(last[1].after.net, 7);
    assert_int_equal(last[1].sequence, 4);
    assert_int_equal(decider.apply.writes.count, 4);
    const struct counter *counter = decider.apply.reads.counters[0].value;
    assert_int_equal(counter_find(counter, 60)->cells, 2);
    assert_int_equal(decider.apply.reads.tenants[0].cells, 3);
    decider_keep(&decider);
    assert_int_equal(stored("n"), 7);
}

static void a_good_atomic_bundle_after_a_failed_one_takes_its_numbers(void **state)
{
    const struct op failing[] = {make(OP_INCREMENT, "a", 1), make(OP_DECREMENT, "b", 1)};
    const struct op good[] = {make(OP_INCREMENT, "b", 1), make(OP_INCREMENT, "c", 1)};
    decider_bundle(&decider, (struct bundle){.atomic = true}, failing, 2);
    decider_bundle(&decider, (struct bundle){.atomic = true}, good, 2);
    decider_decide(&decider);
    assert_int_equal(decider.bundles[1].sequence, 2);
    assert_int_equal(decider.apply.writes.next_series, 3);
    decider_keep(&decider);
    assert_int_equal(stored("a"), -1);
    assert_int_equal(stored("b"), 1);
}

/* ---- keys of single ops ---- */

static void a_repeated_key_gets_the_first_answer(void **state)
{
    struct op op = keyed(make(OP_INCREMENT, "n", 5), "k", 1);
    struct op first = decider_do(&decider, op);
    decider_do(&decider, make(OP_INCREMENT, "n", 100));
    struct op again = decider_do(&decider, op);
    assert_false(first.replayed);
    assert_true(again.replayed);
    assert_int_equal(again.err, ERR_OK);
    assert_int_equal(again.after.net, 5);
    assert_int_equal(again.sequence, first.sequence);
    assert_int_equal(stored("n"), 105);
}

static void a_key_is_known_within_its_own_batch(void **state)
{
    const struct op op = keyed(make(OP_INCREMENT, "n", 5), "k", 1);
    const struct op ops[] = {op, make(OP_INCREMENT, "n", 1), op};
    const struct op *done = decider_bundle(&decider, (struct bundle){0}, ops, 3);
    decider_decide(&decider);
    assert_true(done[2].replayed);
    assert_int_equal(done[2].after.net, 5);
    assert_int_equal(done[2].sequence, done[0].sequence);
    assert_int_equal(decider.apply.writes.count, 2);
}

static void a_key_with_another_request_is_a_conflict(void **state)
{
    decider_do(&decider, keyed(make(OP_INCREMENT, "n", 5), "k", 1));
    struct op other = decider_do(&decider, keyed(make(OP_INCREMENT, "n", 6), "k", 2));
    assert_int_equal(other.err, ERR_KEY_CONFLICT);
    assert_false(other.replayed);
    assert_int_equal(stored("n"), 5);
    decider.asks.tenant = "other"; /* keys are each tenant's own */
    assert_int_equal(decider_do(&decider, keyed(make(OP_INCREMENT, "n", 6), "k", 2)).err, ERR_OK);
}

static void refusals_are_remembered_and_are_causes(void **state)
{
    struct op capped = make(OP_INCREMENT, "n", 9);
    capped.max = 8;
    const struct {
        struct op op;
        enum err err;
    } cases[] = {{keyed(make(OP_DECREMENT, "n", 9), "k1", 1), ERR_NEGATIVE},
                 {keyed(make(OP_INCREMENT, "n", INT64_MAX), "k2", 1), ERR_OVERFLOW},
                 {keyed(capped, "k3", 1), ERR_LIMIT}};
    decider_do(&decider, make(OP_INCREMENT, "n", 1));
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct op first = decider_do(&decider, cases[i].op);
        assert_int_equal(first.err, cases[i].err);
        assert_int_equal(first.sequence, 2 + i);
    }
    decider_do(&decider, make(OP_SET, "n", 0)); /* now they would all be judged otherwise */
    for (unsigned i = 0; i < ARRAY_COUNT(cases); i++) {
        struct op again = decider_do(&decider, cases[i].op);
        assert_true(again.replayed);
        assert_int_equal(again.err, cases[i].err);
        assert_int_equal(again.sequence, 2 + i);
        if (again.err == ERR_LIMIT) assert_int_equal(again.after.net, 1);
    }
}

static void what_is_not_decided_is_not_remembered(void **state)
{
    decider.limits.tenant_cells = 1;
    decider_do(&decider, make(OP_INCREMENT, "m", 1));
    struct op op = keyed(make(OP_INCREMENT, "n", 5), "k", 1);
    struct op refused = decider_do(&decider, op);
    assert_int_equal(refused.err, ERR_CELL_LIMIT);
    decider.limits.tenant_cells = 2;
    struct op done = decider_do(&decider, op);
    assert_int_equal(done.err, ERR_OK);
    assert_false(done.replayed);
}

static void a_key_is_forgotten_after_its_time(void **state)
{
    struct op op = keyed(make(OP_INCREMENT, "n", 5), "k", 1);
    decider_do(&decider, op);
    decider.moment.now_ms += decider.limits.key_keep_ms - 1;
    assert_true(decider_do(&decider, op).replayed);
    decider.moment.now_ms += 1;
    struct op anew = decider_do(&decider, op);
    assert_false(anew.replayed);
    assert_int_equal(anew.after.net, 10);
    decider.moment.now_ms += decider.limits.key_keep_ms - 1; /* and remembered anew */
    assert_true(decider_do(&decider, op).replayed);
}

static void a_keyed_change_of_nothing_is_remembered(void **state)
{
    decider_do(&decider, make(OP_SET, "n", 5));
    struct op op = keyed(make(OP_SET, "n", 5), "k", 1);
    assert_int_equal(decider_do(&decider, op).sequence, 2);
    decider_do(&decider, make(OP_SET, "n", 9));
    struct op again = decider_do(&decider, op);
    assert_true(again.replayed);
    assert_int_equal(again.after.net, 5);
}

static void a_keyed_delete_is_remembered(void **state)
{
    struct op op = keyed(make(OP_DELETE, "n", 0), "k", 1);
    assert_int_equal(decider_do(&decider, op).err, ERR_NOT_FOUND); /* not a decision */
    decider_do(&decider, make(OP_INCREMENT, "n", 5));
    assert_int_equal(decider_do(&decider, op).err, ERR_OK);
    decider_do(&decider, make(OP_INCREMENT, "n", 6));
    struct op again = decider_do(&decider, op);
    assert_true(again.replayed);
    assert_int_equal(stored("n"), 6);
}

/* ---- keys of bundles ---- */

static struct bundle keyed_bundle(bool atomic, uint64_t digest)
{
    return (struct bundle){.atomic = atomic,
                           .keyed = true,
                           .key = ask_key(&decider.asks, "bundle"),
                           .key_digest = digest};
}

static const struct bundle *send(struct bundle shape, const struct op *ops, uint32_t count)
{
    decider_bundle(&decider, shape, ops, count);
    decider_decide(&decider);
    decider_keep(&decider);
    return &decider.bundles[0];
}

static void a_repeated_bundle_gets_every_first_answer(void **state)
{
    const struct op ops[] = {make(OP_INCREMENT, "a", 5), make(OP_DECREMENT, "b", 1),
                             make(OP_INCREMENT, "a", 1)};
    const struct bundle *bundle = send(keyed_bundle(false, 1), ops, 3);
    assert_false(bundle->replayed);
    assert_int_equal(bundle->sequence, 2);
    decider_do(&decider, make(OP_INCREMENT, "b", 1));
    bundle = send(keyed_bundle(false, 1), ops, 3);
    assert_true(bundle->replayed);
    assert_int_equal(bundle->err, ERR_OK);
    assert_int_equal(bundle->sequence, 2);
    assert_int_equal(bundle->ops[0].after.net, 5);
    assert_int_equal(bundle->ops[1].err, ERR_NEGATIVE);
    assert_int_equal(bundle->ops[2].after.net, 6);
    assert_int_equal(stored("a"), 6);
    assert_int_equal(decider.apply.writes.count, 0);
}

static void a_bundle_under_anothers_key_is_a_conflict(void **state)
{
    const struct op ops[] = {make(OP_INCREMENT, "a", 5), make(OP_INCREMENT, "b", 5)};
    send(keyed_bundle(false, 1), ops, 1);
    const struct bundle *bundle = send(keyed_bundle(false, 2), ops, 1);
    assert_int_equal(bundle->err, ERR_KEY_CONFLICT);
    assert_false(bundle->replayed);
    bundle = send(keyed_bundle(false, 1), ops,
                  2); /* the same digest, but it cannot be the same bundle */
    assert_int_equal(bundle->err, ERR_KEY_CONFLICT);
    assert_false(bundle->replayed);
    struct op single = keyed(make(OP_INCREMENT, "a", 5), "bundle", 1);
    struct op done = decider_do(&decider, single); /* nor the same op */
    assert_int_equal(done.err, ERR_KEY_CONFLICT);
    assert_false(done.replayed);
    assert_int_equal(stored("a"), 5);
    assert_int_equal(stored("b"), -1);
}

static enum err retain_from(int64_t ms)
{
    struct arena *arena = &decider.asks.arena;
    struct op op = ask_object(&decider.asks, "mretained", "");
    op.object->value = object_number(arena, (uint64_t)ms);
    return decider_do(&decider, op).err;
}

/* Proposed by a clock that has gone back since: events to come would be older than what is gone. */
static void events_to_come_are_never_older_than_what_is_retained(void **state)
{
    assert_int_equal(retain_from(decider.moment.now_ms + 1), ERR_CONFLICT);
    assert_int_equal(retain_from(decider.moment.now_ms), ERR_OK);
    assert_int_equal(retain_from(decider.moment.now_ms - 1), ERR_CONFLICT);
    assert_int_equal(retain_from(decider.moment.now_ms), ERR_OK);
}

static void what_is_retained_begins_no_later_than_time_is_set_back_to(void **state)
{
    assert_int_equal(retain_from(decider.moment.now_ms), ERR_OK);
    decider.moment.now_ms -= 1000;
    decider.set_back = true;
    assert_int_equal(retain_from(decider.moment.now_ms), ERR_OK);
    assert_int_equal(decider.apply.writes.count, 1);
    assert_int_equal(retain_from(decider.moment.now_ms + 1), ERR_CONFLICT);
    decider.moment.now_ms += 500;
    assert_int_equal(retain_from(decider.moment.now_ms), ERR_OK); /* it does already */
    assert_int_equal(decider.apply.writes.count, 0);
}

/* It was once taken for another request's. */
static void a_damaged_outcome_is_no_conflict(void **state)
{
    const struct key_record damaged = {.exists = true,
                                       .digest = 1,
                                       .first_seen_ms = decider.moment.now_ms,
                                       .outcome = BYTES("\x77no outcome")};
    const struct op op = keyed(make(OP_INCREMENT, "a", 5), "bundle", 1);
    struct op known = {.kind = OP_IMPORT_ID, .key = op.key, .imported_id = &damaged};
    assert_int_equal(decider_do(&decider, known).err, ERR_OK);
    assert_int_equal(decider_do(&decider, op).err, ERR_CORRUPT);
    assert_int_equal(decider.apply.damage.count, 1);
    const struct bundle *bundle =
        send(keyed_bundle(false, 1), (struct op[]){make(OP_SET, "a", 1)}, 1);
    assert_int_equal(bundle->err, ERR_CORRUPT);
    assert_false(bundle->replayed);
    assert_int_equal(decider_do(&decider, keyed(op, "bundle", 2)).err, ERR_KEY_CONFLICT);
    assert_int_equal(stored("a"), -1);
}

static void a_bundle_of_refusals_is_remembered(void **state)
{
    const struct op ops[] = {make(OP_DECREMENT, "a", 5), make(OP_DECREMENT, "b", 1)};
    const struct bundle *bundle = send(keyed_bundle(false, 1), ops, 2);
    assert_int_equal(bundle->sequence, 1);
    assert_int_equal(decider.apply.writes.count, 1);
    decider_do(&decider, make(OP_INCREMENT, "a", 10));
    bundle = send(keyed_bundle(false, 1), ops, 2);
    assert_true(bundle->replayed);
    assert_int_equal(bundle->ops[0].err, ERR_NEGATIVE);
    assert_int_equal(stored("a"), 10);
}

static void a_failed_atomic_bundle_is_remembered_as_failed(void **state)
{
    const struct op ops[] = {make(OP_INCREMENT, "a", 5), make(OP_DECREMENT, "b", 1)};
    const struct bundle *bundle = send(keyed_bundle(true, 1), ops, 2);
    assert_int_equal(bundle->err, ERR_NEGATIVE);
    decider_do(&decider, make(OP_INCREMENT, "b", 1));
    bundle = send(keyed_bundle(true, 1), ops, 2);
    assert_true(bundle->replayed);
    assert_int_equal(bundle->err, ERR_NEGATIVE);
    assert_int_equal(bundle->failed_index, 1);
    assert_int_equal(stored("a"), -1);
    decider.limits.tenant_cells = 1;
    const struct op crowded[] = {make(OP_INCREMENT, "c", 1)};
    struct bundle shape = keyed_bundle(true, 7);
    shape.key = ask_key(&decider.asks, "crowded");
    assert_int_equal(send(shape, crowded, 1)->err, ERR_CELL_LIMIT);
    decider.limits.tenant_cells = 5;
    assert_int_equal(send(shape, crowded, 1)->err, ERR_OK); /* was no decision */
}

/* ---- the same in, the same out ---- */

#define NAMES 3
#define BUCKETS 3

static uint64_t dice_state;

static uint64_t dice(uint64_t sides)
{
    dice_state += 0x9e3779b97f4a7c15u;
    return hash_mix(dice_state) % sides;
}

static struct op random_op(void)
{
    static const char *const names[NAMES] = {"a", "b", "c"};
    static const enum op_kind kinds[] = {OP_INCREMENT, OP_INCREMENT, OP_DECREMENT, OP_SET,
                                         OP_INCREMENT, OP_DECREMENT, OP_EXPIRE,    OP_DELETE};
    enum op_kind kind = kinds[dice(dice(4) ? 6 : 8)];
    struct op op =
        make_at(kind, names[dice(NAMES)], 1 + (int64_t)dice(20), 60, 60 * (int64_t)dice(BUCKETS));
    if (dice(40) == 0) op.amount = INT64_MAX - 5;
    if (kind == OP_SET) op.amount = (int64_t)dice(30);
    if (kind == OP_INCREMENT && dice(4) == 0) op.max = (int64_t)dice(60);
    if (dice(4) == 0) op.expires_ms = decider.moment.now_ms - 50 + (int64_t)dice(100);
    if (dice(10) == 0) op.err = ERR_INVALID;
    return op;
}

static void the_same_batches_give_the_same_bytes(void **state)
{
    struct buf bodies[2];
    for (unsigned round = 0; round < 2; round++) {
        dice_state = 7;
        buf_init(&bodies[round], 1u << 24);
        if (round) decider_release(&decider), decider_init(&decider);
        for (unsigned i = 0; i < 50; i++) {
            struct op ops[8];
            for (unsigned k = 0; k < 8; k++)
                ops[k] = random_op();
            if (i % 5 == 0) ops[0] = keyed(ops[0], "k", 1);
            const struct op *done =
                decider_bundle(&decider, (struct bundle){.atomic = i % 3 == 0}, ops, 8);
            decider_decide(&decider);
            block_encode(&bodies[round], &decider.apply.writes, 0);
            for (unsigned k = 0; k < 8; k++)
                buf_addf(&bodies[round], "%d %lld %llu ", done[k].err, (long long)done[k].after.net,
                         (unsigned long long)done[k].sequence);
            decider_keep(&decider);
            decider.moment.now_ms += 10;
        }
    }
    assert_int_equal(bodies[0].size, bodies[1].size);
    assert_memory_equal(bodies[0].data, bodies[1].data, bodies[0].size);
    for (unsigned round = 0; round < 2; round++)
        buf_release(&bodies[round]);
}

/* ---- a model of plain integers ---- */

struct model {
    struct cell cells[NAMES][BUCKETS];
};

static bool model_empty(const struct model *model, unsigned name)
{
    for (unsigned b = 0; b < BUCKETS; b++)
        if (model->cells[name][b].exists) return false;
    return true;
}

static enum err model_raise(struct cell *cell, __int128 target, bool up)
{
    if (target < 0) return ERR_NEGATIVE;
    __int128 by = up ? target - (cell->added - cell->subbed) : cell->added - cell->subbed - target;
    if (up && (__int128)cell->added + by > INT64_MAX) return ERR_OVERFLOW;
    *(up ? &cell->added : &cell->subbed) += (int64_t)by;
    return ERR_OK;
}

static enum err model_judge(struct model *model, const struct op *op)
{
    if (op->err != ERR_OK) return op->err;
    unsigned name = (unsigned)op->counter.data[op->counter.size - 2] - 'a';
    struct cell *cell = &model->cells[name][op->bucket / 60];
    struct cell after = *cell;
    __int128 net = (__int128)cell->added - cell->subbed;
    bool empty = model_empty(model, name);
    enum err e = ERR_OK;
    switch (op->kind) {
    case OP_DELETE:
        if (empty) return ERR_NOT_FOUND;
        memset(model->cells[name], 0, sizeof model->cells[name]);
        return ERR_OK;
    case OP_EXPIRE:
        if (!cell->exists || cell->expires_ms == 0 || cell->expires_ms > decider.moment.now_ms)
            return ERR_NOT_FOUND;
        *cell = (struct cell){0};
        return ERR_OK;
    case OP_INCREMENT:
        if (op->max != MAX_NONE && net + op->amount > op->max) return ERR_LIMIT;
        e = model_raise(&after, net + op->amount, true);
        break;
    case OP_DECREMENT:
        return model_raise(cell, cell->exists ? net - op->amount : -1, false);
    case OP_SET:
        e = model_raise(&after, op->amount, op->amount >= net);
        break;
    default:
        unreachable_state(op->kind);
    }
    if (e != ERR_OK) return e;
    after.exists = true;
    if (op->expires_ms > after.expires_ms) after.expires_ms = op->expires_ms;
    *cell = after;
    return ERR_OK;
}

static void check_model(const struct model *model)
{
    char name[2] = "a";
    int64_t cells = 0;
    for (unsigned n = 0; n < NAMES; n++, name[0]++) {
        struct bytes key = ask_counter(&decider.asks, name);
        struct cell_ref ref = {key, fingerprint_of(decider.asks.secret, key), 60, 0};
        for (unsigned b = 0; b < BUCKETS; b++) {
            const struct cell *want = &model->cells[n][b];
            struct cell got;
            enum err e = view_get(&decider.store->view, &ref, 60 * b, READ_ALL, &got);
            assert_int_equal(e, want->exists ? ERR_OK : ERR_NOT_FOUND);
            cells += want->exists;
            if (!want->exists) continue;
            assert_int_equal(got.added, want->added);
            assert_int_equal(got.subbed, want->subbed);
            assert_int_equal(got.expires_ms, want->expires_ms ? want->expires_ms : TIME_NONE);
        }
    }
    if (decider.apply.reads.tenants_count)
        assert_int_equal(decider.apply.reads.tenants[0].cells, cells);
}

static void random_batches_agree_with_plain_integers(void **state)
{
    struct model model = {0};
    dice_state = 1;
    for (unsigned round = 0; round < 1500; round++) {
        struct op ops[6];
        uint32_t count = 1 + (uint32_t)dice(6);
        for (uint32_t i = 0; i < count; i++)
            ops[i] = random_op();
        bool atomic = dice(3) == 0;
        const struct op *done =
            decider_bundle(&decider, (struct bundle){.atomic = atomic}, ops, count);
        decider_decide(&decider);
        struct model tried = model;
        enum err e = ERR_OK;
        for (uint32_t i = 0; i < count && !(atomic && e != ERR_OK); i++) {
            e = model_judge(&tried, &ops[i]);
            assert_int_equal(done[i].err, e);
        }
        if (atomic) assert_int_equal(decider.bundles[0].err, e);
        if (!(atomic && e != ERR_OK)) model = tried;
        decider_keep(&decider);
        check_model(&model);
        decider.moment.now_ms += 3;
    }
}

#define DECISION(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DECISION(an_atomic_bundle_changes_everything),
        DECISION(an_atomic_bundle_that_fails_says_where_and_why),
        DECISION(a_failed_atomic_bundle_leaves_every_object_as_it_was),
        DECISION(a_failed_atomic_bundle_disturbs_neither_those_before_nor_those_after),
        DECISION(a_good_atomic_bundle_after_a_failed_one_takes_its_numbers),
        DECISION(a_repeated_key_gets_the_first_answer),
        DECISION(a_key_is_known_within_its_own_batch),
        DECISION(a_key_with_another_request_is_a_conflict),
        DECISION(refusals_are_remembered_and_are_causes),
        DECISION(what_is_not_decided_is_not_remembered),
        DECISION(a_key_is_forgotten_after_its_time),
        DECISION(a_keyed_change_of_nothing_is_remembered),
        DECISION(a_keyed_delete_is_remembered),
        DECISION(a_repeated_bundle_gets_every_first_answer),
        DECISION(a_bundle_under_anothers_key_is_a_conflict),
        DECISION(events_to_come_are_never_older_than_what_is_retained),
        DECISION(what_is_retained_begins_no_later_than_time_is_set_back_to),
        DECISION(a_damaged_outcome_is_no_conflict),
        DECISION(a_bundle_of_refusals_is_remembered),
        DECISION(a_failed_atomic_bundle_is_remembered_as_failed),
        DECISION(the_same_batches_give_the_same_bytes),
        DECISION(random_batches_agree_with_plain_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
