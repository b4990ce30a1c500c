/* reconcile_world.h -- an application with a database, and a tally that reconciles with it, in one
 * thread: the heart (heart.h), a reconciler, and a truth that is an array. A test says what happens
 * at each step of a pass. */
#ifndef TALLY_TESTS_SUPPORT_RECONCILE_WORLD_H
#define TALLY_TESTS_SUPPORT_RECONCILE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "rules/enact.h"
#include "core/event.h"
#include "core/name.h"
#include "core/object.h"
#include "reconcile/reconciler.h"
#include "support/heart.h"
#include "support/rules_text.h"

#define SECONDS 1000
#define INTERVAL (20 * SECONDS)
#define RECORDS_MAX 64

#define COUNTERS                                                            \
    "counters:\n"                                                           \
    "- counterName: votes\n"                                                \
    "  dimensions: [user]\n"                                                \
    "  rollups: [[conv]]\n"                                                 \
    "  rules: [{on: voted, op: increment}, {on: unvoted, op: decrement}]\n" \
    "- counterName: opinions\n"                                             \
    "  dimensions: [conv]\n"                                                \
    "  floorAtZero: true\n"                                                 \
    "  rules: [{on: said, op: increment}, {on: unsaid, op: decrement}]\n"
#define ENTRY(tenants)                     \
    "reconcile:\n"                         \
    "- name: convs\n"                      \
    "  tenants: " tenants "\n"             \
    "  entity: [conv]\n"                   \
    "  source: {postgres: host=nowhere}\n" \
    "  counters: {votes: 'SELECT $1, $2', opinions: 'SELECT $1, $2'}\n"

/* Where in a pass something can happen. */
enum step {
    BEFORE_SCAN,
    BEFORE_BEGIN,    /* taken up, not yet looked at */
    BEFORE_SNAPSHOT, /* the counters were read, the records not */
    AFTER_SNAPSHOT,  /* both were */
    BEFORE_COMMIT,   /* the record is about to be proposed */
    AFTER_COMMIT,
    STEPS,
    AFTER_REFUSAL, /* not of every pass: some counter must first be said to be adjusted */
};

struct record_counts {
    char tenant[16];
    char entity[16];
    int64_t votes;
    int64_t opinions;
};

static struct heart *heart;
static struct reconciler *reconciler;
static pthread_mutex_t enacting = PTHREAD_MUTEX_INITIALIZER;
static struct record_counts records[RECORDS_MAX];
static unsigned records_count;
static unsigned asked;     /* times the truth was */
static enum err truth_err; /* what it says instead of a count */
static void (*at_step)(enum step step);
static unsigned event_ids;
static bool in_pass;
static bool dead; /* the worker is: nothing it does happens */

/* ---- the application ---- */

static inline struct record_counts *records_of(const char *tenant, const char *entity)
{
    for (unsigned i = 0; i < records_count; i++)
        if (!strcmp(records[i].entity, entity) && !strcmp(records[i].tenant, tenant))
            return &records[i];
    assert_true(records_count < RECORDS_MAX);
    struct record_counts *made = &records[records_count++];
    *made = (struct record_counts){0};
    snprintf(made->tenant, sizeof made->tenant, "%s", tenant);
    snprintf(made->entity, sizeof made->entity, "%s", entity);
    return made;
}

static inline struct record_counts *conv(const char *entity)
{
    return records_of(heart->asks.tenant, entity);
}

static inline struct op event(const char *type, const char *entity)
{
    char id[32], dimensions[64];
    snprintf(id, sizeof id, "e%u", event_ids++);
    snprintf(dimensions, sizeof dimensions, "conv=%s user=u", entity);
    return ask_event(&heart->asks, id, type, dimensions, NULL);
}

static inline void post(const char *type, const char *entity)
{
    assert_int_equal(heart_do(heart, event(type, entity)).err, ERR_OK);
}

static inline struct bytes entity_json(const char *entity)
{
    char text[64];
    int size = snprintf(text, sizeof text, "{\"conv\":\"%s\"}", entity);
    return arena_copy(&heart->asks.arena, bytes_of(text, (size_t)size));
}

static inline struct mark_place place(const char *entity)
{
    return mark_place_of(&heart->asks.arena, &heart->store->secret, BYTES("convs"),
                         bytes_str(heart->asks.tenant), entity_json(entity));
}

static inline struct op request_op(const char *entity)
{
    struct mark_change *change = arena_zalloc(&heart->asks.arena, sizeof *change);
    change->step = MARK_REQUEST;
    change->place = place(entity);
    return propose_mark(bytes_str(heart->asks.tenant), change);
}

static inline enum err request(const char *entity)
{
    return heart_do(heart, request_op(entity)).err;
}

/* ---- what tally shows ---- */

static inline struct mark row(const char *entity)
{
    struct buf value;
    struct mark mark;
    buf_init(&value, 1000);
    enum err e = view_object(&heart->store->view, place(entity).key, &value);
    assert_true(e == ERR_OK || e == ERR_NOT_FOUND);
    assert_true(mark_decode(buf_bytes(&value), &mark));
    buf_release(&value);
    return mark;
}

static inline struct op raw_op(enum op_kind kind, const char *counter, const char *entity,
                               int64_t amount)
{
    struct rules *rules = rulebook_hold(heart->rulebook);
    uint32_t generation = rules_find(rules, bytes_str(counter))->generation;
    rules_release(rules);
    struct bytes key = rule_key(&heart->asks.arena, bytes_str(heart->asks.tenant),
                                bytes_str(counter), generation, entity_json(entity));
    return (struct op){.kind = kind,
                       .counter = key,
                       .tenant = bytes_of(key.data, strlen(heart->asks.tenant)),
                       .counter_print = fingerprint_of(&heart->store->secret, key),
                       .amount = amount,
                       .max = MAX_NONE,
                       .expires_ms = TIME_NONE};
}

static inline struct cell cell_of(const char *counter, const char *entity)
{
    struct op op = raw_op(OP_SET, counter, entity, 0);
    const struct cell_ref ref = {op.counter, op.counter_print, 0, 0};
    struct cell cell = {0};
    enum err e = view_get(&heart->store->view, &ref, 0, READ_ALL, &cell);
    assert_true(e == ERR_OK || e == ERR_NOT_FOUND);
    return cell;
}

static inline int64_t net(const char *counter, const char *entity)
{
    struct cell cell = cell_of(counter, entity);
    return cell_triple(&cell).net;
}

static inline int64_t updated(const char *counter, const char *entity)
{
    return cell_of(counter, entity).updated_ms;
}

/* No event and no mark: what a fault would do. */
static inline void corrupt(const char *counter, const char *entity, int64_t value)
{
    assert_int_equal(heart_do(heart, raw_op(OP_SET, counter, entity, value)).err, ERR_OK);
}

static inline void expect_right(const char *entity)
{
    assert_int_equal(net("votes", entity), conv(entity)->votes);
    assert_int_equal(net("opinions", entity), conv(entity)->opinions);
}

/* ---- the truth, and the way to the commit thread ---- */

static inline void step(enum step which)
{
    if (at_step && in_pass) at_step(which);
}

static enum err truth_count(struct truth *truth, const struct truth_query *query,
                            int64_t *counts_out, struct buf *why_out)
{
    char tenant[16], entity[16];
    asked++;
    step(BEFORE_SNAPSHOT);
    if (truth_err != ERR_OK) {
        buf_add(why_out, BYTES("as the test wants it"));
        return truth_err;
    }
    snprintf(tenant, sizeof tenant, "%.*s", (int)query->tenant.size, query->tenant.data);
    snprintf(entity, sizeof entity, "%.*s", (int)query->values[0].size, query->values[0].data);
    const struct record_counts *found = records_of(tenant, entity);
    for (unsigned i = 0; i < query->reconcile->counters_count; i++) {
        bool votes = bytes_equal(query->reconcile->counters[i].name, BYTES("votes"));
        counts_out[i] = votes ? found->votes : found->opinions;
    }
    step(AFTER_SNAPSHOT);
    return ERR_OK;
}

static void truth_cancel(struct truth *truth)
{
}

static void truth_free(struct truth *truth)
{
    free(truth);
}

static struct truth *truth_open(void *context, const struct reconcile *reconcile)
{
    static const struct truth_ops ops = {truth_count, truth_cancel, truth_free};
    struct truth *truth = must_calloc(1, sizeof *truth);
    truth->ops = &ops;
    return truth;
}

static truth_open_fn *opener = truth_open;

static void note_done(struct bundle *bundle)
{
    *(bool *)bundle->owner = true;
}

/* One thread: the wheels are turned here instead of being waited for. */
static enum err propose_here(void *context, struct bundle *bundle)
{
    bool done = false;
    bool is_pass = bundle->ops[0].kind == OP_MARK && bundle->ops[0].mark->step == MARK_PASS;
    if (is_pass) step(BEFORE_COMMIT);
    if (dead) return ERR_STORAGE;
    bundle->done = note_done;
    bundle->owner = &done;
    assert_int_equal(queue_push(heart->queue, bundle), ERR_OK);
    heart_run(heart);
    assert_true(done);
    if (is_pass && bundle->ops[0].mark->unadjusted) step(AFTER_REFUSAL);
    return bundle->err;
}

/* ---- beginning and end ---- */

static inline void start_reconciler(void)
{
    heart->lane.caretaker = (struct caretaker){.store = heart->store,
                                               .rulebook = heart->rulebook,
                                               .clock = heart->clock,
                                               .enacting = &enacting,
                                               .batch_ops = 100,
                                               .propose = propose_here};
    const struct reconciler_config config = {.lanes = &heart->lanes, .open = opener};
    reconciler = reconciler_new(&config);
}

static inline void use(const char *text)
{
    struct enactment enactment;
    struct buf why;
    bool done = false;
    struct rules *rules = rules_of_text(text, 0);
    buf_init(&why, 1000);
    assert_int_equal(enact_plan(&enactment, heart->store, rules, bytes_str(text), &why), ERR_OK);
    enactment.bundle.done = note_done;
    enactment.bundle.owner = &done;
    assert_int_equal(queue_push(heart->queue, &enactment.bundle), ERR_OK);
    heart_run(heart);
    assert_true(done);
    enact_release(&enactment);
    rules_release(rules);
    buf_release(&why);
}

static inline int setup(void **state)
{
    heart = heart_new((struct heart_config){
        .store = *state, .simulated_disk = true, .limits = {.tenant_marks = 30}});
    records_count = asked = event_ids = 0;
    truth_err = ERR_OK;
    at_step = NULL;
    in_pass = dead = false;
    use(COUNTERS ENTRY("all"));
    start_reconciler();
    return 0;
}

static inline int teardown(void **state)
{
    reconciler_free(reconciler);
    heart_free(heart);
    return 0;
}

/* ---- passes ---- */

/* Time goes by until the next scan is due. */
static inline void scan(void)
{
    heart_wait_ms(heart, 2 * SECONDS);
    reconciler_scan(reconciler);
}

static inline unsigned work(void)
{
    unsigned passes = 0;
    while (reconciler_pass(reconciler))
        passes++;
    return passes;
}

/* A scan and everything it found; returns how many were counted. */
static inline unsigned pass(void)
{
    unsigned before = asked;
    scan();
    work();
    return asked - before;
}

/* The same with `hook` called at each step, once. */
static inline void pass_with(void (*hook)(enum step step))
{
    at_step = hook;
    in_pass = true;
    step(BEFORE_SCAN);
    scan();
    step(BEFORE_BEGIN);
    work();
    step(AFTER_COMMIT);
    in_pass = false;
    at_step = NULL;
}

#define RECONCILE(name)                                        \
    {#name " (memory)", name, setup, teardown, "memory"},      \
    {                                                          \
#name " (embedded)", name, setup, teardown, "embedded" \
    }

#endif
