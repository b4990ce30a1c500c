/* test_fault.c -- every store call fails once in turn: what failed says so, nothing acknowledged is
 * lost, nothing is counted twice, and everything works afterwards. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "core/name.h"
#include "support/heart.h"

/* ---- the wrapper itself ---- */

static struct heart *wrapped(const char *store)
{
    return heart_new((struct heart_config){.store = store, .simulated_disk = true});
}

static enum err try_get(struct heart *heart)
{
    struct cell cell;
    return heart_get(heart, "n", 0, 0, &cell);
}

static bool visit_cell(void *context, int64_t bucket, const struct cell *cell)
{
    (void)bucket;
    *(int64_t *)context += cell_triple(cell).net;
    return true;
}

static enum err try_range(struct heart *heart, int64_t *sum_out)
{
    struct cell_ref ref = heart_ref(heart, "n", 60);
    *sum_out = 0;
    return view_range(&heart->store->view, &ref, 0, 1000, NULL, visit_cell, sum_out);
}

static enum err try_sum(struct heart *heart)
{
    struct range_sum sum;
    struct cell_ref ref = heart_ref(heart, "n", 60);
    return view_sum(&heart->store->view, &ref, 0, 1000, UINT32_MAX, &sum);
}

static bool visit_counter(void *context, struct bytes key, const struct counter *counter)
{
    (void)key, (void)counter;
    ++*(int64_t *)context;
    return true;
}

static enum err try_list(struct heart *heart, int64_t *count_out)
{
    char room[COUNTER_KEY_SIZE_MAX];
    struct bytes prefix = counter_key_prefix(room, bytes_str(heart->asks.tenant), BYTES_NONE);
    *count_out = 0;
    return view_list(&heart->store->view, prefix, BYTES_NONE, visit_counter, count_out);
}

static bool visit_due(void *context, struct bytes counter, int32_t duration, int64_t bucket)
{
    (void)counter, (void)duration, (void)bucket;
    ++*(int64_t *)context;
    return true;
}

static enum err try_due(struct heart *heart, int64_t *count_out)
{
    *count_out = 0;
    return store_due(heart->store, 1000, visit_due, count_out);
}

static enum err try_object(struct heart *heart, int64_t *size_out)
{
    struct buf value;
    buf_init(&value, 100);
    enum err e = view_object(&heart->store->view, bytes_str(heart->asks.tenant), &value);
    *size_out = (int64_t)value.size;
    buf_release(&value);
    return e;
}

static bool visit_event(void *context, const struct stored_event *event)
{
    *(int64_t *)context += !event->duplicate;
    return true;
}

/* How many of the tenant's events there are; dropped deliveries do not count. */
static enum err try_events(struct heart *heart, int64_t *count_out)
{
    const struct event_query query = {.tenant = bytes_str(heart->asks.tenant),
                                      .upto = UINT64_MAX,
                                      .arrived_from = INT64_MIN,
                                      .events = true,
                                      .duplicates = true,
                                      .budget = SIZE_MAX};
    uint64_t next;
    *count_out = 0;
    return view_events(&heart->store->view, &query, visit_event, count_out, &next);
}

static void the_nth_call_of_a_kind_fails_once(void **state)
{
    struct heart *heart = wrapped("fault memory");
    int64_t ignored;
    heart_do(heart, ask(&heart->asks, OP_INCREMENT, "n", 1));
    fault_fail(heart->store, FAULT_GET, 3);
    assert_int_equal(try_get(heart), ERR_OK);
    assert_int_equal(try_range(heart, &ignored), ERR_OK); /* other kinds do not count */
    assert_int_equal(try_list(heart, &ignored), ERR_OK);
    assert_int_equal(try_get(heart), ERR_OK);
    assert_int_equal(try_get(heart), ERR_STORAGE);
    assert_int_equal(try_get(heart), ERR_OK);
    assert_false(fault_heal(heart->store));
    fault_fail(heart->store, FAULT_RANGE | FAULT_DUE, 2);
    assert_int_equal(try_range(heart, &ignored), ERR_OK);
    assert_int_equal(try_due(heart, &ignored), ERR_STORAGE);
    fault_fail(heart->store, FAULT_RANGE, 2);
    assert_int_equal(try_sum(heart), ERR_OK);
    assert_int_equal(try_sum(heart), ERR_STORAGE);
    assert_int_equal(try_sum(heart), ERR_OK);
    fault_fail(heart->store, FAULT_LIST, 1);
    assert_int_equal(try_list(heart, &ignored), ERR_STORAGE);
    fault_fail(heart->store, FAULT_EVENTS, 1);
    assert_int_equal(try_events(heart, &ignored), ERR_STORAGE);
    fault_fail(heart->store, FAULT_OBJECT, 1);
    assert_int_equal(try_object(heart, &ignored), ERR_STORAGE);
    fault_fail(heart->store, FAULT_BEGIN, 1);
    assert_int_equal(heart_do(heart, ask(&heart->asks, OP_INCREMENT, "n", 1)).err, ERR_STORAGE);
    fault_fail(heart->store, FAULT_READS, 9);
    assert_true(fault_heal(heart->store)); /* it had not happened */
    assert_int_equal(try_get(heart), ERR_OK);
    heart_free(heart);
}

static void only_a_sync_of_something_counts(void **state)
{
    struct heart *heart = wrapped("fault memory");
    fault_fail(heart->store, FAULT_SYNC, 2);
    for (unsigned i = 0; i < 5; i++)
        assert_false(commit_sync_now(heart->commit));
    struct op op = ask(&heart->asks, OP_INCREMENT, "n", 1);
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
    assert_int_equal(heart_do(heart, op).err, ERR_STORAGE);
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
    heart_free(heart);
}

/* ---- every call in turn ---- */

struct script {
    struct heart *heart;
    unsigned failures;
    unsigned keys;
    int64_t unknown; /* of "loose", counted without a key */
    int64_t known;
};

/* With a key, a caller repeats what it got no answer to, until it does. */
static struct op insist(struct script *script, struct op op)
{
    char key[16];
    snprintf(key, sizeof key, "k%u", script->keys++);
    op = ask_keyed(&script->heart->asks, op, key, 1);
    struct op done = heart_do(script->heart, op);
    for (unsigned tries = 0; done.err == ERR_STORAGE && tries < 3; tries++) {
        script->failures++;
        heart_tend(script->heart);
        done = heart_do(script->heart, op);
    }
    return done;
}

static void loose(struct script *script)
{
    struct heart *heart = script->heart;
    enum err e = heart_do(heart, ask(&heart->asks, OP_INCREMENT, "loose", 1)).err;
    if (e == ERR_OK) {
        script->known++;
        return;
    }
    assert_int_equal(e, ERR_STORAGE);
    script->failures++;
    script->unknown++;
    heart_tend(heart);
}

/* An event's id is its key: it may be sent until there is an answer. */
static void insist_event(struct script *script, const char *id)
{
    struct heart *heart = script->heart;
    struct op done = heart_do(heart, ask_event(&heart->asks, id, "type", "k=v", NULL));
    for (unsigned tries = 0; done.err == ERR_STORAGE && tries < 3; tries++) {
        script->failures++;
        heart_tend(heart);
        done = heart_do(heart, ask_event(&heart->asks, id, "type", "k=v", NULL));
    }
    assert_int_equal(done.err, ERR_OK);
}

static void note(struct script *script, enum err e)
{
    if (e == ERR_OK) return;
    assert_int_equal(e, ERR_STORAGE);
    script->failures++;
}

/* A read that fails is made again. */
static void read_all(struct script *script, int64_t net, int64_t sum, int64_t counters)
{
    struct heart *heart = script->heart;
    struct cell cell;
    int64_t got;
    enum err e = heart_get(heart, "n", 0, 0, &cell);
    note(script, e);
    if (e != ERR_OK) assert_int_equal(heart_get(heart, "n", 0, 0, &cell), ERR_OK);
    assert_int_equal(cell_triple(&cell).net, net);
    note(script, e = try_range(heart, &got));
    if (e != ERR_OK) assert_int_equal(try_range(heart, &got), ERR_OK);
    assert_int_equal(got, sum);
    note(script, e = try_list(heart, &got));
    if (e != ERR_OK) assert_int_equal(try_list(heart, &got), ERR_OK);
    assert_int_equal(got, counters);
}

static void run_script(struct script *script)
{
    struct heart *heart = script->heart;
    struct asks *asks = &heart->asks;
    int64_t got;
    insist(script, ask(asks, OP_INCREMENT, "n", 5));
    loose(script);
    insist(script, ask(asks, OP_DECREMENT, "n", 2));
    struct op minute = ask(asks, OP_INCREMENT, "n", 7);
    minute.duration = 60;
    minute.bucket = 120;
    minute.expires_ms = 500;
    insist(script, minute);
    loose(script);
    heart_checkpoint(heart);
    assert_int_equal(insist(script, ask(asks, OP_DECREMENT, "n", 9)).err, ERR_NEGATIVE);
    read_all(script, 3, 7, 2); /* one of the two loose ones was known */
    insist(script, ask(asks, OP_INCREMENT, "gone", 1));
    assert_int_equal(insist(script, ask(asks, OP_DELETE, "gone", 0)).err, ERR_OK);
    insist_event(script, "E1");
    insist_event(script, "E2");
    insist_event(script, "E1");
    insist(script, ask_object(asks, asks->tenant, "object"));
    enum err e = try_events(heart, &got);
    note(script, e);
    if (e != ERR_OK) assert_int_equal(try_events(heart, &got), ERR_OK);
    assert_int_equal(got, 2);
    note(script, e = try_object(heart, &got));
    if (e != ERR_OK) assert_int_equal(try_object(heart, &got), ERR_OK);
    assert_int_equal(got, 6);
    e = try_due(heart, &got);
    note(script, e);
    if (e != ERR_OK) assert_int_equal(try_due(heart, &got), ERR_OK);
    assert_int_equal(got, 1);
    minute.kind = OP_EXPIRE;
    insist(script, minute);
    insist(script, ask(asks, OP_SET, "n", 10));
    loose(script);
}

static void check_script(struct script *script)
{
    struct heart *heart = script->heart;
    assert_int_equal(heart_net(heart, "n"), 10); /* exactly once, whatever failed */
    assert_int_equal(heart_net(heart, "gone"), -1);
    int64_t events;
    assert_int_equal(try_events(heart, &events), ERR_OK);
    assert_int_equal(events, 2);
    assert_in_range(heart_net(heart, "loose"), script->known, script->known + script->unknown);
    const char *broken = heart_broken(heart);
    if (broken) fail_msg("%s", broken);
}

/* Opening a store takes far longer than the script, so one store sees all rounds, each for a tenant
 * of its own, and not every round ends with a crash. */
#define ROUNDS_PER_CRASH 6

static void round_end(struct script *script, uint64_t nth)
{
    check_script(script);
    if (nth % ROUNDS_PER_CRASH) return;
    heart_crash(script->heart, nth);
    check_script(script);
}

static void round_begin(struct script *script, struct heart *heart, uint64_t nth)
{
    static char tenant[16];
    snprintf(tenant, sizeof tenant, "t%llu", (unsigned long long)nth);
    heart->asks.tenant = tenant;
    *script = (struct script){.heart = heart};
}

static void each_call_in_turn(const char *store, bool keeps)
{
    struct heart *heart = heart_new(
        (struct heart_config){.store = store, .simulated_disk = true, .break_keeps = keeps});
    uint64_t nth = 1;
    for (bool happened = true; happened; nth++) {
        struct script script;
        round_begin(&script, heart, nth);
        fault_fail(heart->store, FAULT_ALL, nth);
        run_script(&script);
        happened = !fault_heal(heart->store);
        if (happened) assert_true(script.failures > 0);
        if (!happened) assert_int_equal(script.failures, 0);
        round_end(&script, nth);
    }
    assert_true(nth > 25); /* so many calls the script makes at least */
    heart_free(heart);
}

static void every_call_of_a_memory_store_fails_in_turn(void **state)
{
    each_call_in_turn("fault memory", false);
}

static void every_call_of_a_memory_store_fails_in_turn_and_syncs_happen(void **state)
{
    each_call_in_turn("fault memory", true);
}

static void every_call_of_an_embedded_store_fails_in_turn(void **state)
{
    each_call_in_turn("fault embedded", false);
}

static void every_call_of_an_embedded_store_fails_in_turn_and_syncs_happen(void **state)
{
    each_call_in_turn("fault embedded", true);
}

/* One level lower: every write, sync, create and rename of the journal's disk. */
static void every_call_of_the_disk_below_fails_in_turn(void **state)
{
    for (unsigned loss = 0; loss < IO_SIM_LOSSES; loss++) {
        struct heart *heart = heart_new((struct heart_config){
            .store = "embedded", .simulated_disk = true, .segment_bytes = 32768});
        uint64_t nth = 1;
        for (bool happened = true; happened; nth++) {
            struct script script;
            round_begin(&script, heart, nth);
            uint64_t before = io_sim_calls(heart->sim);
            io_sim_fail(heart->sim, nth, ENOSPC, (enum io_sim_loss)loss);
            run_script(&script);
            io_sim_heal(heart->sim);
            happened = io_sim_calls(heart->sim) - before >= nth;
            heart_tend(heart);
            round_end(&script, nth);
        }
        assert_true(nth > 20);
        heart_free(heart);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nth_call_of_a_kind_fails_once),
        cmocka_unit_test(only_a_sync_of_something_counts),
        cmocka_unit_test(every_call_of_a_memory_store_fails_in_turn),
        cmocka_unit_test(every_call_of_a_memory_store_fails_in_turn_and_syncs_happen),
        cmocka_unit_test(every_call_of_an_embedded_store_fails_in_turn),
        cmocka_unit_test(every_call_of_an_embedded_store_fails_in_turn_and_syncs_happen),
        cmocka_unit_test(every_call_of_the_disk_below_fails_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
