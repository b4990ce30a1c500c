/* test_enact.c -- rules come into force between two batches, durably, with what the store knows of
 * their counters, or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "rules/enact.h"
#include "core/name.h"
#include "core/object.h"
#include "store/memory.h"
#include "support/heart.h"
#include "support/rules_text.h"

#define COUNTER(name, more) "- counterName: " name "\n" more "  rules: [{on: up, op: increment}]\n"

static struct heart *heart;
static struct enactment enactment;
static struct buf why;
static struct rules *planned; /* the test's reference */
static unsigned done;

static int setup(void **state)
{
    heart = heart_new((struct heart_config){.store = *state, .simulated_disk = true});
    buf_init(&why, 1000);
    return 0;
}

static int teardown(void **state)
{
    heart_free(heart);
    buf_release(&why);
    return 0;
}

static void count_done(struct bundle *bundle)
{
    (void)bundle;
    done++;
}

/* What is in force, read as a reader does; the caller releases it. */
static const struct definition *find(struct rules *rules, const char *name)
{
    return rules_find(rules, bytes_str(name));
}

static enum err plan(const char *text)
{
    planned = rules_of_text(text, 0);
    buf_reset(&why);
    enum err e = enact_plan(&enactment, heart->store, planned, bytes_str(text), &why);
    buf_add_char(&why, 0);
    enactment.bundle.done = count_done;
    done = 0;
    return e;
}

static void give_up(void)
{
    enact_release(&enactment);
    rules_release(planned);
}

/* Planned and pushed; it waits for its turn. */
static void push(const char *text)
{
    assert_int_equal(plan(text), ERR_OK);
    assert_int_equal(queue_push(heart->queue, &enactment.bundle), ERR_OK);
}

static void enact(const char *text)
{
    push(text);
    heart_run(heart);
    assert_int_equal(done, 1);
    assert_int_equal(enactment.bundle.err, ERR_OK);
    give_up();
}

static uint32_t generation(const char *name)
{
    struct rules *rules = rulebook_hold(heart->rulebook);
    const struct definition *definition = find(rules, name);
    uint32_t found = definition ? definition->generation : 0;
    rules_release(rules);
    return found;
}

static bool is_frozen(const char *name)
{
    struct rules *rules = rulebook_hold(heart->rulebook);
    const struct definition *definition = find(rules, name);
    bool frozen = definition && definition->frozen;
    rules_release(rules);
    return frozen;
}

static int64_t net(const char *name)
{
    return heart_rule_net(heart, name, generation(name));
}

static struct op up(const char *id)
{
    return ask_event(&heart->asks, id, "up", "", NULL);
}

static uint64_t last_sequence(void)
{
    return heart->store->writer.position.last_sequence;
}

/* ---- what the store adds ---- */

static void new_counters_get_generations_of_their_own(void **state)
{
    heart_wait_ms(heart, 5);
    enact("counters:\n" COUNTER("a", "") COUNTER("b", ""));
    assert_int_equal(generation("a"), 1);
    assert_int_equal(generation("b"), 2);
    enact("counters:\n" COUNTER("c", "") COUNTER("b", ""));
    assert_int_equal(generation("b"), 2);
    assert_int_equal(generation("c"), 3);
    struct rules *rules = rulebook_hold(heart->rulebook);
    assert_int_equal(find(rules, "b")->since, HEART_START_MS + 5);
    rules_release(rules);
    heart_do(heart, up("E1"));
    assert_int_equal(net("b"), 1);
    assert_int_equal(net("c"), 1);
}

/* The wall clock may be set back before they come into force: what is counted from then on would
 * lie before `since`, and retention could drop it unnoticed. */
static void a_new_counter_counts_since_its_batch(void **state)
{
    heart_wait_ms(heart, 5000);
    push("counters:\n" COUNTER("a", ""));
    heart->time->wall_ms -= 3000;
    heart_run(heart);
    give_up();
    struct rules *rules = rulebook_hold(heart->rulebook);
    assert_int_equal(find(rules, "a")->since, HEART_START_MS + 2000);
    rules_release(rules);
}

/* What was given out is known after a crash, so that no two counters ever share cells. */
static void generations_outlive_a_restart(void **state)
{
    enact("counters:\n" COUNTER("a", ""));
    heart_do(heart, up("E1"));
    heart_crash(heart, 1);
    enact("counters:\n" COUNTER("b", "") COUNTER("a", ""));
    assert_int_equal(generation("a"), 1);
    assert_int_equal(generation("b"), 2);
    assert_int_equal(net("a"), 1);
    assert_int_equal(net("b"), -1);
}

static void a_changed_mode_is_refused_with_its_place(void **state)
{
    enact("counters:\n" COUNTER("a", "") COUNTER("b", ""));
    uint64_t before = last_sequence();
    assert_int_equal(plan("counters:\n" COUNTER("a", "") COUNTER("b", "  mode: windowed\n"
                                                                      "  window: 1h\n")),
                     ERR_INVALID);
    if (!strstr(why.data, "test.yaml:4:") || !strstr(why.data, "counter b is windowed"))
        fail_msg("%s", why.data);
    give_up();
    assert_int_equal(last_sequence(), before);
    assert_false(is_frozen("b"));
}

static void a_removed_counter_is_frozen_and_comes_back_with_its_cells(void **state)
{
    enact("counters:\n" COUNTER("a", "") COUNTER("b", ""));
    heart_do(heart, up("E1"));
    enact("counters:\n" COUNTER("a", ""));
    assert_true(is_frozen("b"));
    heart_do(heart, up("E2"));
    assert_int_equal(net("a"), 2);
    assert_int_equal(net("b"), 1); /* readable, and nothing changes it */
    heart_crash(heart, 1);
    enact("counters:\n" COUNTER("b", ""));
    assert_false(is_frozen("b"));
    assert_true(is_frozen("a"));
    heart_do(heart, up("E3"));
    assert_int_equal(net("a"), 2);
    assert_int_equal(net("b"), 2);
}

static void nothing_is_written_when_nothing_changed(void **state)
{
    enact("counters:\n" COUNTER("a", "") COUNTER("b", ""));
    uint64_t before = last_sequence();
    push("counters:\n" COUNTER("a", "") COUNTER("b", ""));
    heart_run(heart);
    assert_int_equal(done, 1);
    assert_int_equal(last_sequence(), before);
    struct rules *now = rulebook_hold(heart->rulebook);
    assert_ptr_equal(now, planned); /* in force all the same: conditions may differ */
    rules_release(now);
    give_up();
}

/* ---- when they come into force ---- */

static void rules_come_into_force_between_two_batches(void **state)
{
    enact("counters:\n" COUNTER("a", ""));
    struct op first = up("E1");
    struct op second = up("E2");
    heart_send(heart, (struct bundle){0}, &first, 1);
    assert_true(commit_turn(heart->commit));
    push("counters:\n" COUNTER("b", ""));
    assert_true(commit_turn(heart->commit)); /* the rules, alone */
    heart_send(heart, (struct bundle){0}, &second, 1);
    assert_true(commit_turn(heart->commit)); /* the next batch goes by them already */
    assert_int_equal(generation("b"), 0);    /* readers do not, as it is not durable */
    heart_run(heart);
    assert_int_equal(done, 1);
    assert_int_equal(generation("b"), 2);
    assert_int_equal(net("a"), 1);
    assert_int_equal(net("b"), 1);
    give_up();
}

static void break_sync(void)
{
    if (strstr(heart->config.store, "memory"))
        memory_break_sync(heart->inner, false);
    else
        io_sim_fail_sync(heart->sim, 1, IO_SIM_LOST);
}

static void a_failed_sync_leaves_the_old_rules_in_force(void **state)
{
    enact("counters:\n" COUNTER("a", ""));
    push("counters:\n" COUNTER("b", ""));
    assert_true(commit_turn(heart->commit));
    struct op event = up("E1");
    struct sent *sent = heart_send(heart, (struct bundle){0}, &event, 1);
    assert_true(commit_turn(heart->commit)); /* decided by rules that never came to be */
    break_sync();
    assert_true(commit_sync_now(heart->commit));
    assert_int_equal(done, 1);
    assert_int_equal(enactment.bundle.err, ERR_STORAGE);
    assert_int_equal(sent->bundle.err, ERR_STORAGE);
    heart_tend(heart);
    give_up();
    assert_int_equal(generation("b"), 0);
    assert_false(is_frozen("a"));
    heart_do(heart, up("E1")); /* the same again, by the old ones */
    assert_int_equal(net("a"), 1);
    enact("counters:\n" COUNTER("b", ""));
    assert_int_equal(generation("b"), 2); /* the number was not used up */
    assert_int_equal(net("b"), -1);
}

/* What waits was weighed by the rules it came under. */
static void events_that_new_rules_make_heavy_are_refused_not_written(void **state)
{
    enum { EVENTS = 60, WEIGHT = 8000 };
    heart_free(heart);
    heart = heart_new((struct heart_config){.store = *state,
                                            .simulated_disk = true,
                                            .segment_bytes = 64 << 10,
                                            .queue = {.batch_weight_max = WEIGHT},
                                            .limits = {.batch_weight = WEIGHT}});
    struct op ops[EVENTS];
    char id[16], dimensions[600];
    snprintf(dimensions, sizeof dimensions, "k=%0500d", 1);
    for (unsigned i = 0; i < EVENTS; i++) {
        snprintf(id, sizeof id, "E%u", i);
        ops[i] = ask_event(&heart->asks, id, "up", dimensions, NULL);
        ops[i].weight = 100;
    }
    struct sent *sent = heart_send(heart, (struct bundle){.weighty = true}, ops, EVENTS);
    push("counters:\n" COUNTER("a", "  dimensions: [k]\n  rollups: [[]]\n"));
    heart_run(heart);
    assert_int_equal(sent->bundle.err, ERR_OK);
    unsigned applied = 0;
    for (unsigned i = 0; i < EVENTS; i++) {
        enum err e = sent->bundle.ops[i].err;
        assert_true(e == ERR_OK || e == ERR_BUSY);
        applied += e == ERR_OK;
    }
    assert_true(applied > 1 && applied < EVENTS);
    assert_int_equal(net("a"), applied);
    give_up();
}

/* They were once judged when they came, and acknowledged into a counter that nobody could read. */
static void direct_operations_are_judged_by_the_rules_of_their_batch(void **state)
{
    (void)state;
    struct asks *asks = &heart->asks;
    assert_int_equal(heart_do(heart, ask(asks, OP_INCREMENT, "a", 5)).err, ERR_OK);
    struct op keyed = ask_keyed(asks, ask(asks, OP_INCREMENT, "a", 2), "K", 1);
    assert_int_equal(heart_do(heart, keyed).err, ERR_OK);
    const struct op ops[] = {
        ask(asks, OP_INCREMENT, "a", 1),
        ask(asks, OP_DECREMENT, "a", 1),
        ask(asks, OP_SET, "a", 9),
        ask(asks, OP_DELETE, "a", 0),
        keyed,
        ask_keyed(asks, ask(asks, OP_SET, "a", 9), "L", 2),
        ask(asks, OP_INCREMENT, "b", 1),
    };
    const struct op both[] = {ask(asks, OP_INCREMENT, "b", 1), ask(asks, OP_INCREMENT, "a", 1)};
    static const enum err expected[] = {ERR_MANAGED, ERR_MANAGED, ERR_MANAGED, ERR_MANAGED,
                                        ERR_OK,      ERR_MANAGED, ERR_OK};
    struct sent *each = heart_send(heart, (struct bundle){0}, ops, ARRAY_COUNT(ops));
    struct sent *atomic =
        heart_send(heart, (struct bundle){.atomic = true, .whole = true}, both, ARRAY_COUNT(both));
    enact("counters:\n" COUNTER("a", ""));
    for (size_t i = 0; i < ARRAY_COUNT(ops); i++)
        assert_int_equal(each->bundle.ops[i].err, expected[i]);
    assert_true(each->bundle.ops[4].replayed); /* the answer of the time before */
    assert_int_equal(atomic->bundle.err, ERR_MANAGED);
    assert_int_equal(atomic->bundle.failed_index, 1);
    assert_int_equal(heart_net(heart, "a"), 7);
    assert_int_equal(heart_net(heart, "b"), 1);
    enact("counters: []\n"); /* it is frozen, and still not a direct one */
    assert_int_equal(heart_do(heart, ask(asks, OP_INCREMENT, "a", 1)).err, ERR_MANAGED);
}

/* Two plans made on the same state: the second no longer fits. */
static void a_plan_that_was_overtaken_is_refused_whole(void **state)
{
    struct enactment other;
    struct rules *others = rules_of_text("counters:\n" COUNTER("a", "  dimensions: [k]\n"), 0);
    enact("counters:\n" COUNTER("a", ""));
    assert_int_equal(enact_plan(&other, heart->store, others, BYTES("x"), &why), ERR_OK);
    enact("counters:\n" COUNTER("a", "  dimensions: [other]\n"));
    other.bundle.done = count_done;
    assert_int_equal(queue_push(heart->queue, &other.bundle), ERR_OK);
    heart_run(heart);
    assert_int_equal(other.bundle.err, ERR_CONFLICT);
    struct rules *now = rulebook_hold(heart->rulebook);
    assert_ptr_not_equal(now, others);
    rules_release(now);
    enact_release(&other);
    rules_release(others);
}

/* The second plan was made before the first gave its generation out. */
static void two_plans_never_give_one_generation_to_two_counters(void **state)
{
    (void)state;
    struct enactment other;
    struct rules *others = rules_of_text("counters:\n" COUNTER("b", ""), 0);
    assert_int_equal(enact_plan(&other, heart->store, others, BYTES("x"), &why), ERR_OK);
    enact("counters:\n" COUNTER("a", ""));
    other.bundle.done = count_done;
    assert_int_equal(queue_push(heart->queue, &other.bundle), ERR_OK);
    heart_run(heart);
    assert_int_equal(other.bundle.err, ERR_CONFLICT);
    assert_int_equal(generation("a"), 1);
    assert_int_equal(generation("b"), 0);
    enact_release(&other);
    rules_release(others);
}

#define ON(store, name)                                      \
    {                                                        \
#name " (" store ")", name, setup, teardown, (store) \
    }
#define LAW(name) ON("memory", name), ON("embedded", name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(new_counters_get_generations_of_their_own),
        LAW(a_new_counter_counts_since_its_batch),
        LAW(generations_outlive_a_restart),
        LAW(a_changed_mode_is_refused_with_its_place),
        LAW(a_removed_counter_is_frozen_and_comes_back_with_its_cells),
        LAW(nothing_is_written_when_nothing_changed),
        LAW(rules_come_into_force_between_two_batches),
        LAW(a_failed_sync_leaves_the_old_rules_in_force),
        LAW(events_that_new_rules_make_heavy_are_refused_not_written),
        LAW(direct_operations_are_judged_by_the_rules_of_their_batch),
        LAW(two_plans_never_give_one_generation_to_two_counters),
        LAW(a_plan_that_was_overtaken_is_refused_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
