/* test_reconcile.c -- reconciled counters are right in the end, whatever happens during a pass, and
 * what the originals got wrong stays right. */
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"
#include "support/reconcile_world.h"

/* -- Marks ------------------------------------------------------------------------------------- */

/* S2-01, S2-02. S2-08: pending. S2-09: never counted yet. */
static void a_change_marks_its_entity_in_the_same_commit(void **state)
{
    struct op op = heart_do(heart, event("voted", "c1"));
    struct mark mark = row("c1");
    assert_true(mark.pending);
    assert_int_equal(mark.version, op.sequence);
    assert_int_equal(mark.updated_ms, TIME_NONE);
    assert_false(row("c2").pending);
}

/* S2-03, S2-04: the row of many writes is one, and grows. */
static void many_changes_are_one_row_whose_version_grows(void **state)
{
    post("voted", "c1");
    struct mark first = row("c1");
    heart_wait_ms(heart, 5 * SECONDS);
    post("said", "c1");
    struct mark second = row("c1");
    assert_true(second.version > first.version);
    assert_int_equal(second.marked_ms, first.marked_ms); /* waiting since then */
    assert_int_equal(second.cause_ms, first.cause_ms + 5 * SECONDS);
    conv("c1")->votes = conv("c1")->opinions = 1;
    assert_int_equal(pass(), 1);
}

static void a_duplicate_marks_nobody(void **state)
{
    struct op op = event("voted", "c1");
    heart_do(heart, op);
    uint64_t version = row("c1").version;
    event_ids--;
    heart_do(heart, event("voted", "c1"));
    assert_int_equal(row("c1").version, version);
}

/* A floor that held something back is a sign of drift. */
static void a_clamped_decrement_marks_its_entity(void **state)
{
    conv("c1")->opinions = 4;
    post("unsaid", "c1");
    assert_int_equal(net("opinions", "c1"), 0);
    assert_true(row("c1").pending);
    pass();
    expect_right("c1");
}

/* S2-46, E2-09, defect 12: a mark that was acknowledged is on disk, not in a buffer. */
static void marks_survive_a_crash(void **state)
{
    if (strcmp(*state, "embedded") != 0) return;
    conv("c1")->votes = 7;
    post("voted", "c1");
    assert_int_equal(request("c2"), ERR_OK);
    uint64_t version = row("c1").version;
    reconciler_free(reconciler);
    heart_crash(heart, 1);
    start_reconciler();
    assert_int_equal(row("c1").version, version);
    assert_true(row("c2").pending);
    assert_int_equal(pass(), 2);
    expect_right("c1");
}

/* limits.tenantMarks: refused whole, like an event that would need a cell too many. */
static void a_tenant_has_so_many_marks_and_no_more(void **state)
{
    char name[16];
    for (int i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "c%d", i);
        assert_int_equal(request(name), ERR_OK);
    }
    assert_int_equal(request("more"), ERR_MARK_LIMIT);
    assert_int_equal(heart_do(heart, event("voted", "more")).err, ERR_MARK_LIMIT);
    assert_int_equal(net("votes", "more"), 0);
    assert_int_equal(request("c3"), ERR_OK); /* has its row already */
    heart->asks.tenant = "other";
    assert_int_equal(request("more"), ERR_OK);
}

static void rows_that_were_counted_long_ago_are_forgotten(void **state)
{
    assert_int_equal(request("c1"), ERR_OK);
    pass();
    assert_false(row("c1").pending);
    assert_true(row("c1").version > 0); /* it remembers when */
    heart_wait_ms(heart, 120 * SECONDS);
    reconciler_scan(reconciler);
    assert_int_equal(row("c1").version, 0);
    assert_int_equal(request("c1"), ERR_OK);
    assert_true(row("c1").pending);
}

static void a_reload_forgets_the_marks_of_entries_that_left(void **state)
{
    post("voted", "c1");
    use(COUNTERS);
    heart_wait_ms(heart, 120 * SECONDS);
    reconciler_scan(reconciler);
    assert_int_equal(row("c1").version, 0);
    post("voted", "c1");
    assert_int_equal(row("c1").version, 0); /* nobody reconciles it any more */
}

/* Whoever proposes it may go by rules of before a reload. */
static void a_wanted_mark_is_not_forgotten_by_older_rules(void **state)
{
    post("voted", "c1");
    struct mark_change change = {
        .step = MARK_FORGET, .place = place("c1"), .version = row("c1").version};
    struct op op = propose_mark(bytes_str(heart->asks.tenant), &change);
    assert_int_equal(heart_do(heart, op).err, ERR_CONFLICT);
    assert_true(row("c1").pending);
    use(COUNTERS);
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
    assert_int_equal(row("c1").version, 0);
}

#define PAIRS(entity, last)                   \
    "counters:\n"                             \
    "- counterName: votes\n"                  \
    "  dimensions: [conv, user]\n"            \
    "  rollups: [[conv]]\n"                   \
    "  rules: [{on: voted, op: increment}]\n" \
    "reconcile:\n"                            \
    "- name: convs\n"                         \
    "  tenants: all\n"                        \
    "  entity: [" entity "]\n"                \
    "  source: {postgres: host=nowhere}\n"    \
    "  counters: {votes: 'SELECT $" last "'}\n"

static bool count_row(void *context, struct bytes key, struct bytes value)
{
    ++*(unsigned *)context;
    return true;
}

/* Its keys are those of the new entity and one more: the truth of the one is not of the other. */
static void a_reload_to_a_coarser_entity_counts_nothing_for_the_finer_rows(void **state)
{
    unsigned rows = 0, before = asked;
    use(PAIRS("conv, user", "3"));
    post("voted", "c1");
    use(PAIRS("conv", "2"));
    conv("c1")->votes = 7;
    pass();
    assert_int_equal(asked, before);
    struct bytes prefix = mark_prefix(&heart->asks.arena, BYTES("convs"), BYTES_NONE);
    enum err e = view_objects(&heart->store->view, prefix, BYTES_NONE, count_row, &rows);
    assert_int_equal(e, ERR_OK);
    assert_int_equal(rows, 0);
}

/* -- Passes ------------------------------------------------------------------------------------ */

/* S2-24. */
static void any_corruption_is_restored_and_a_second_pass_changes_nothing(void **state)
{
    static const int64_t wrong[] = {0, 1, 999, INT64_MAX};
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        char name[16];
        snprintf(name, sizeof name, "c%zu", i);
        conv(name)->votes = 41;
        conv(name)->opinions = 2;
        corrupt("votes", name, wrong[i]);
        corrupt("opinions", name, wrong[i]);
        assert_int_equal(request(name), ERR_OK);
    }
    assert_int_equal(pass(), 4);
    for (size_t i = 0; i < ARRAY_COUNT(wrong); i++) {
        char name[16];
        snprintf(name, sizeof name, "c%zu", i);
        expect_right(name);
        request(name);
    }
    int64_t updated_ms = updated("votes", "c1");
    heart_wait_ms(heart, INTERVAL);
    assert_int_equal(pass(), 4);
    expect_right("c1");
    assert_int_equal(updated("votes", "c1"), updated_ms); /* S2-25: only the rows moved on */
}

/* A-16e, defect 10: a reconciler that marks what it changes never rests. */
static void a_pass_never_marks_its_own_entity(void **state)
{
    conv("c1")->votes = 100;
    post("voted", "c1");
    assert_int_equal(pass(), 1);
    assert_false(row("c1").pending);
    for (int i = 0; i < 30; i++)
        assert_int_equal(pass(), 0); /* S2-19 */
}

/* A-13, defect 8: the last-update time advances even where the mark stays. S2-13, S2-16, A-16b: not
 * more often than every 20 s. S2-26: and right within that and a scan of the last write. */
static void a_hot_entity_keeps_the_minimum_interval(void **state)
{
    conv("c1")->votes = 0;
    unsigned passes = 0;
    for (int i = 0; i < 60; i++) { /* two minutes, written to all the time */
        post("voted", "c1");
        conv("c1")->votes++;
        passes += pass();
        post("voted", "c1");
        conv("c1")->votes++;
    }
    assert_in_range(passes, 6, 7);
    heart_wait_ms(heart, INTERVAL);
    pass();
    expect_right("c1");
}

static void write_during_the_pass(enum step which)
{
    if (which != AFTER_SNAPSHOT) return;
    conv("c1")->votes++;
    post("voted", "c1");
}

/* S2-23, S2-29, S2-30. */
static void a_pass_that_was_overtaken_advances_its_time_and_keeps_the_mark(void **state)
{
    post("voted", "c1");
    conv("c1")->votes = 1;
    pass_with(write_during_the_pass);
    assert_true(row("c1").pending);
    assert_int_equal(row("c1").updated_ms, heart->time->wall_ms);
    expect_right("c1");
}

/* A-12, S2-31, defect 7: the originals compared seconds, and lost the second of two requests in
 * one. The clock here does not move at all between the two. */
static void request_during_the_pass(enum step which)
{
    if (which != AFTER_SNAPSHOT) return;
    conv("c1")->votes = 12;
    assert_int_equal(request("c1"), ERR_OK);
}

static void two_requests_within_one_tick_are_both_reflected(void **state)
{
    conv("c1")->votes = 5;
    heart_wait_ms(heart, 2 * SECONDS);
    assert_int_equal(request("c1"), ERR_OK);
    int64_t then = row("c1").cause_ms;
    at_step = request_during_the_pass;
    in_pass = true;
    reconciler_scan(reconciler);
    work();
    in_pass = false;
    assert_int_equal(row("c1").cause_ms, then); /* the same tick */
    assert_int_equal(net("votes", "c1"), 5);
    assert_true(row("c1").pending);
    heart_wait_ms(heart, INTERVAL);
    pass();
    assert_int_equal(net("votes", "c1"), 12);
    assert_false(row("c1").pending);
}

/* -- Every interleaving ------------------------------------------------------------------------ */

static enum step record_at, event_at;

/* The application commits its record, then posts the event. */
static void write_at(enum step which)
{
    if (which == record_at) conv("c1")->votes++;
    if (which == event_at) post("voted", "c1");
}

static void neither_lost_nor_double(int64_t stored, int64_t truth)
{
    conv("c1")->votes = truth;
    conv("c1")->opinions = 3;
    corrupt("votes", "c1", stored);
    assert_int_equal(request("c1"), ERR_OK);
    pass_with(write_at);
    bool overtaken = event_at > BEFORE_BEGIN;
    assert_int_equal(row("c1").pending, overtaken);
    heart_wait_ms(heart, INTERVAL);
    assert_int_equal(pass(), overtaken ? 1 : 0);
    assert_int_equal(net("votes", "c1"), truth + 1);
    assert_int_equal(net("opinions", "c1"), 3);
    assert_false(row("c1").pending);
    heart_wait_ms(heart, INTERVAL);
    assert_int_equal(pass(), 0);
}

/* S2-20, S2-28, S2-29, S2-30. */
static void an_increment_at_any_pair_of_steps_is_neither_lost_nor_counted_twice(void **state)
{
    static const int64_t drift[] = {0, 4, 11};
    for (record_at = BEFORE_SCAN; record_at < STEPS; record_at++)
        for (event_at = record_at; event_at < STEPS; event_at++)
            for (size_t i = 0; i < ARRAY_COUNT(drift); i++) {
                neither_lost_nor_double(drift[i], 7);
                heart_wait_ms(heart, INTERVAL);
            }
}

/* -- A worker that dies ------------------------------------------------------------------------ */

static enum step die_at;

/* From here on nothing of what the worker does reaches the store. */
static void die(enum step which)
{
    if (which == die_at) dead = true;
}

/* S2-32, E2-05, defect 11: what the old process had taken up, the new one takes up again. */
static void a_worker_killed_at_any_step_leaves_nothing_stuck(void **state)
{
    if (strcmp(*state, "embedded") != 0) return;
    for (die_at = BEFORE_SCAN; die_at < STEPS; die_at++) {
        conv("c1")->votes = 50 + (int64_t)die_at;
        assert_int_equal(request("c1"), ERR_OK);
        heart_wait_ms(heart, INTERVAL);
        pass_with(die);
        assert_int_equal(row("c1").pending, die_at < AFTER_COMMIT);
        reconciler_free(reconciler);
        heart_crash(heart, die_at);
        dead = false;
        start_reconciler();
        assert_int_equal(pass(), die_at < AFTER_COMMIT ? 1 : 0); /* at once */
        expect_right("c1");
        assert_false(row("c1").pending);
    }
}

/* -- A source in trouble ----------------------------------------------------------------------- */

static void a_source_that_is_down_keeps_the_marks_and_is_asked_less_and_less(void **state)
{
    conv("c1")->votes = 9;
    post("voted", "c1");
    post("voted", "c2");
    struct mark before = row("c1");
    truth_err = ERR_SOURCE_DOWN;
    unsigned tries = 0;
    for (int i = 0; i < 60; i++)
        tries += pass();
    assert_in_range(tries, 4, 9); /* of two minutes: 1, 2, 4, .. seconds apart */
    struct mark after = row("c1");
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(net("votes", "c1"), 1);
    truth_err = ERR_OK;
    heart_wait_ms(heart, 64 * SECONDS);
    pass();
    pass();
    expect_right("c1");
}

static void an_answer_that_is_no_count_changes_nothing_but_the_back_off(void **state)
{
    conv("c1")->votes = 9;
    post("voted", "c1");
    struct mark before = row("c1");
    truth_err = ERR_SOURCE_ANSWER;
    assert_int_equal(pass(), 1);
    struct mark after = row("c1");
    assert_true(after.pending);
    assert_int_equal(after.version, before.version);
    assert_int_equal(after.updated_ms, TIME_NONE);
    assert_int_equal(after.failures, 1);
    assert_true(after.retry_ms > (int64_t)heart->time->wall_ms);
    assert_int_equal(net("votes", "c1"), 1);
    unsigned tries = 0;
    for (int i = 0; i < 30; i++)
        tries += pass();
    assert_in_range(tries, 3, 7);
    truth_err = ERR_OK;
    heart_wait_ms(heart, 300 * SECONDS);
    pass();
    expect_right("c1");
    assert_int_equal(row("c1").failures, 0);
}

/* -- The order of things ----------------------------------------------------------------------- */

/* S2-14, S2-15, A-16c. */
static void the_never_counted_come_first_then_the_longest_ago_and_twenty_at_once(void **state)
{
    char name[16];
    request("old");
    assert_int_equal(pass(), 1);
    request("older-by-name");
    assert_int_equal(pass(), 1);
    heart_wait_ms(heart, INTERVAL);
    request("older-by-name");
    request("old");
    for (int i = 0; i < 19; i++) {
        snprintf(name, sizeof name, "new%d", i);
        request(name);
    }
    scan();
    assert_int_equal(work(), 20);
    assert_false(row("new18").pending);
    assert_false(row("old").pending);
    assert_true(row("older-by-name").pending);
    assert_int_equal(pass(), 1);
    assert_false(row("older-by-name").pending);
}

static void tenants_take_turns(void **state)
{
    char name[16];
    for (int i = 0; i < 25; i++) {
        snprintf(name, sizeof name, "c%d", i);
        heart->asks.tenant = "acme";
        request(name);
    }
    heart->asks.tenant = "zeta";
    request("mine");
    scan();
    assert_int_equal(work(), 20);
    assert_false(row("mine").pending);
}

/* Everything logged while `act` runs. */
static void expect_logged(void (*act)(void), const char *const *texts, unsigned count)
{
    char said[8192];
    FILE *file = tmpfile();
    assert_non_null(file);
    log_set_fd(fileno(file));
    act();
    log_set_fd(STDERR_FILENO);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    for (unsigned i = 0; i < count; i++)
        if (!strstr(said, texts[i])) fail_msg("\"%s\" is not in:\n%s", texts[i], said);
}

static void scan_twice(void)
{
    scan();
    scan(); /* their passes have not begun yet */
    conv("c1")->votes = 2;
    assert_int_equal(work(), 2);
}

/* S2-18: one pass of an entity at a time, and none within its single-flight time. S2-36 to S2-39:
 * the exact lines. */
static void an_entity_in_flight_is_skipped_and_it_is_said_so(void **state)
{
    static const char *const texts[] = {
        "\"msg\":\"[Scan] Found 2 convs(s) needing math updates: [acme:c1, acme:c2]\"",
        "\"msg\":\"[Scan] Successfully enqueued 2 convs(s): [acme:c1, acme:c2]\"",
        "\"msg\":\"[Scan] Skipped 2 convs(s) due to existing singleton jobs: [acme:c1, acme:c2]\"",
        "\"msg\":\"[Counter Reconciliation] Fixing counters for convs c1\","
        "\"before\":{\"votes\":0,\"opinions\":0},\"after\":{\"votes\":2,\"opinions\":0},"
        "\"diff\":{\"votes\":2,\"opinions\":0}",
    };
    request("c1");
    request("c2");
    expect_logged(scan_twice, texts, ARRAY_COUNT(texts));
}

static void pass_thrice(void)
{
    for (unsigned i = 0; i < 3; i++)
        pass();
}

/* This happened: the row ended the scan, and every entity after it was never counted. */
static void a_row_that_cannot_be_read_is_named_and_holds_up_no_other(void **state)
{
    static const char *const texts[] = {
        "\"msg\":\"reconcile: marks that cannot be read are passed over\","
        "\"reconcile\":\"convs\",\"marks\":1,\"first\":\"qconvs\\u0000acme\\u0000{",
    };
    struct op damage = ask_object(&heart->asks, "", "damaged");
    damage.object->key = place("a").key;
    damage.object->print = place("a").print;
    assert_int_equal(heart_do(heart, damage).err, ERR_OK);
    conv("b")->votes = 7;
    assert_int_equal(request("b"), ERR_OK);
    double damaged = metric_value(METRIC_DAMAGED_VALUES);
    expect_logged(pass_thrice, texts, ARRAY_COUNT(texts));
    assert_true(metric_value(METRIC_DAMAGED_VALUES) > damaged);
    expect_right("b");
    conv("a")->votes = 3;
    assert_int_equal(request("a"), ERR_OK);
    pass_thrice();
    expect_right("a");
}

static void a_large_entity_is_left_alone_for_its_tier(void **state)
{
    use(COUNTERS ENTRY("all") "  sizeBy: votes\n  minInterval: 0s\n  scanEvery: 1s\n");
    static const struct {
        int64_t size;
        int64_t seconds;
    } tiers[] = {{999, 2}, {1000, 8}, {999999, 8}, {1000000, 28}}; /* S2-17 */
    for (size_t i = 0; i < ARRAY_COUNT(tiers); i++) {
        char name[16];
        snprintf(name, sizeof name, "c%zu", i);
        conv(name)->votes = tiers[i].size;
        corrupt("votes", name, tiers[i].size);
        heart_wait_ms(heart, 30 * SECONDS);
        request(name);
        reconciler_scan(reconciler);
        assert_int_equal(work(), 1);
        request(name);
        heart_wait_ms(heart, tiers[i].seconds * SECONDS - 1);
        reconciler_scan(reconciler);
        assert_int_equal(work(), 0);
        heart_wait_ms(heart, 1 * SECONDS);
        reconciler_scan(reconciler);
        assert_int_equal(work(), 1);
    }
}

/* -- What else may happen to a counter --------------------------------------------------------- */

/* SPEC 7: a rebuild from events would undo it. */
static void adjusted_counters_say_so(void **state)
{
    struct rules *rules = rulebook_hold(heart->rulebook);
    assert_false(rules_find(rules, BYTES("votes"))->adjusted);
    rules_release(rules);
    post("voted", "c1");
    conv("c1")->votes = 1;
    pass(); /* nothing was wrong */
    rules = rulebook_hold(heart->rulebook);
    assert_false(rules_find(rules, BYTES("votes"))->adjusted);
    rules_release(rules);
    conv("c1")->votes = 2;
    request("c1");
    heart_wait_ms(heart, INTERVAL);
    pass();
    expect_right("c1");
    rules = rulebook_hold(heart->rulebook);
    assert_true(rules_find(rules, BYTES("votes"))->adjusted);
    assert_false(rules_find(rules, BYTES("opinions"))->adjusted); /* nothing was wrong with these */
    rules_release(rules);
}

/* As a pass that begins now would propose it. */
static struct op pass_op(const char *entity, int64_t votes)
{
    static const char *const names[] = {"votes", "opinions"};
    struct arena *arena = &heart->asks.arena;
    struct mark_change *change = arena_zalloc(arena, sizeof *change);
    struct rules *rules = rulebook_hold(heart->rulebook);
    change->step = MARK_PASS;
    change->place = place(entity);
    change->version = row(entity).version;
    change->updated_ms = row(entity).updated_ms;
    change->digest = reconcile_digest(reconcile_find(rules, BYTES("convs")));
    change->adjustments = arena_zalloc(arena, 2 * sizeof *change->adjustments);
    for (; change->adjustments_count < 2; change->adjustments_count++) {
        const char *name = names[change->adjustments_count];
        struct op cell = raw_op(OP_SET, name, entity, 0);
        int64_t then = net(name, entity);
        change->adjustments[change->adjustments_count] =
            (struct adjustment){.counter = bytes_str(name),
                                .key = cell.counter,
                                .print = cell.counter_print,
                                .then = then,
                                .truth = change->adjustments_count ? then : votes};
    }
    rules_release(rules);
    return propose_mark(bytes_str(heart->asks.tenant), change);
}

/* Two nodes, or a worker that was thought dead: both have seen the same drift. */
static void of_two_passes_at_once_the_second_does_nothing(void **state)
{
    corrupt("votes", "c1", 9);
    request("c1");
    pass(); /* the counter may be adjusted from now on */
    assert_int_equal(net("votes", "c1"), 0);
    for (unsigned overtaken = 0; overtaken < 2; overtaken++) {
        int64_t before = net("votes", "c1");
        struct op first = pass_op("c1", before + 2), second = pass_op("c1", before + 1);
        if (overtaken) post("voted", "c1"); /* neither has counted it */
        assert_int_equal(heart_do(heart, first).err, ERR_OK);
        assert_int_equal(net("votes", "c1"), before + 2 + overtaken);
        assert_int_equal(heart_do(heart, second).err, ERR_CONFLICT);
        assert_int_equal(net("votes", "c1"), before + 2 + overtaken);
    }
}

/* It would be barred from rebuilds for nothing. */
static void an_adjustment_that_cannot_be_made_leaves_its_counters_unadjusted(void **state)
{
    corrupt("opinions", "c1", INT64_MAX);
    corrupt("opinions", "c1", 0);
    conv("c1")->votes = 1; /* comes first, and could be made */
    conv("c1")->opinions = 2;
    request("c1");
    pass();
    assert_int_equal(net("votes", "c1"), 0);
    struct rules *rules = rulebook_hold(heart->rulebook);
    assert_false(rules_find(rules, BYTES("votes"))->adjusted);
    assert_false(rules_find(rules, BYTES("opinions"))->adjusted);
    rules_release(rules);
    assert_true(row("c1").pending);
}

static void an_adjustment_only_grows_added_and_subbed(void **state)
{
    corrupt("votes", "c1", 10);
    conv("c1")->votes = 4;
    request("c1");
    pass();
    struct cell cell = cell_of("votes", "c1");
    assert_int_equal(cell.added, 10);
    assert_int_equal(cell.subbed, 6);
}

/* Nobody would ever count it, or remove its mark. */
static void a_request_that_a_reload_overtook_is_not_found(void **state)
{
    struct op op = request_op("c1");
    struct sent *sent = heart_send(heart, (struct bundle){.weighty = true}, &op, 1);
    use(COUNTERS);
    assert_int_equal(sent->bundle.ops[0].err, ERR_NOT_FOUND);
    assert_int_equal(row("c1").version, 0);
}

static void reload_during_the_pass(enum step which)
{
    if (which == AFTER_SNAPSHOT) use(COUNTERS ENTRY("all") "  scanLimit: 5\n");
}

static void a_reload_during_a_pass_loses_nothing(void **state)
{
    conv("c1")->votes = 3;
    request("c1");
    pass_with(reload_during_the_pass);
    heart_wait_ms(heart, INTERVAL);
    pass();
    expect_right("c1");
}

#define ENTRY_OF_VOTES(query)              \
    "reconcile:\n"                         \
    "- name: convs\n"                      \
    "  tenants: all\n"                     \
    "  entity: [conv]\n"                   \
    "  source: {postgres: host=nowhere}\n" \
    "  counters: {votes: '" query "'}\n"

static bool stored_as_adjusted(const char *counter)
{
    struct definition definition;
    struct buf value;
    buf_init(&value, 4096);
    struct bytes key = object_key(&heart->asks.arena, OBJECT_DEFINITION, bytes_str(counter));
    assert_int_equal(view_object(&heart->store->view, key, &value), ERR_OK);
    assert_int_equal(definition_decode(buf_bytes(&value), &heart->asks.arena, &definition), ERR_OK);
    buf_release(&value);
    return definition.adjusted;
}

static void opinions_leave_after_the_refusal(enum step which)
{
    if (which == AFTER_REFUSAL)
        use("counters:\n- counterName: votes\n  dimensions: [conv]\n  rules: []\n" ENTRY_OF_VOTES(
            "SELECT $1, $2"));
}

/* Else it could not be forgotten: who asks for that compares it with the store. */
static void a_counter_that_left_meanwhile_is_in_force_as_it_is_stored(void **state)
{
    use(COUNTERS ENTRY("all"));
    conv("c1")->votes = 3;
    conv("c1")->opinions = 5;
    request("c1");
    pass_with(opinions_leave_after_the_refusal);
    struct rules *rules = rulebook_hold(heart->rulebook);
    assert_true(rules_find(rules, BYTES("votes"))->adjusted);
    assert_true(stored_as_adjusted("votes"));
    assert_true(rules_find(rules, BYTES("opinions"))->frozen);
    assert_false(rules_find(rules, BYTES("opinions"))->adjusted);
    assert_false(stored_as_adjusted("opinions"));
    rules_release(rules);
}

static void add_a_counter_during_the_pass(enum step which)
{
    if (which == AFTER_SNAPSHOT) use(COUNTERS ENTRY("all"));
}

/* The pass has not counted it, so it must not clear the mark. */
static void a_counter_that_a_reload_adds_during_a_pass_is_counted_by_the_next(void **state)
{
    use(COUNTERS ENTRY_OF_VOTES("SELECT $1, $2"));
    conv("c1")->votes = 3;
    conv("c1")->opinions = 5;
    request("c1");
    pass_with(add_a_counter_during_the_pass);
    assert_true(row("c1").pending);
    assert_int_equal(row("c1").updated_ms, TIME_NONE); /* it was not a pass */
    assert_int_equal(pass(), 1);
    expect_right("c1");
    assert_false(row("c1").pending);
}

static void ask_otherwise_during_the_pass(enum step which)
{
    if (which != AFTER_SNAPSHOT) return;
    conv("c1")->votes = 4; /* which is what the other query finds */
    use(COUNTERS ENTRY_OF_VOTES("SELECT $2, $1"));
}

static void a_pass_by_a_query_that_a_reload_changed_settles_nothing(void **state)
{
    use(COUNTERS ENTRY_OF_VOTES("SELECT $1, $2"));
    conv("c1")->votes = 3;
    request("c1");
    pass_with(ask_otherwise_during_the_pass);
    assert_int_equal(net("votes", "c1"), 0);
    assert_true(row("c1").pending);
    assert_int_equal(pass(), 1);
    assert_int_equal(net("votes", "c1"), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RECONCILE(a_change_marks_its_entity_in_the_same_commit),
        RECONCILE(many_changes_are_one_row_whose_version_grows),
        RECONCILE(a_duplicate_marks_nobody),
        RECONCILE(a_clamped_decrement_marks_its_entity),
        RECONCILE(marks_survive_a_crash),
        RECONCILE(a_tenant_has_so_many_marks_and_no_more),
        RECONCILE(rows_that_were_counted_long_ago_are_forgotten),
        RECONCILE(a_reload_forgets_the_marks_of_entries_that_left),
        RECONCILE(a_wanted_mark_is_not_forgotten_by_older_rules),
        RECONCILE(a_reload_to_a_coarser_entity_counts_nothing_for_the_finer_rows),
        RECONCILE(any_corruption_is_restored_and_a_second_pass_changes_nothing),
        RECONCILE(a_pass_never_marks_its_own_entity),
        RECONCILE(a_hot_entity_keeps_the_minimum_interval),
        RECONCILE(a_pass_that_was_overtaken_advances_its_time_and_keeps_the_mark),
        RECONCILE(two_requests_within_one_tick_are_both_reflected),
        RECONCILE(an_increment_at_any_pair_of_steps_is_neither_lost_nor_counted_twice),
        RECONCILE(a_worker_killed_at_any_step_leaves_nothing_stuck),
        RECONCILE(a_source_that_is_down_keeps_the_marks_and_is_asked_less_and_less),
        RECONCILE(an_answer_that_is_no_count_changes_nothing_but_the_back_off),
        RECONCILE(the_never_counted_come_first_then_the_longest_ago_and_twenty_at_once),
        RECONCILE(tenants_take_turns),
        RECONCILE(an_entity_in_flight_is_skipped_and_it_is_said_so),
        RECONCILE(a_row_that_cannot_be_read_is_named_and_holds_up_no_other),
        RECONCILE(a_large_entity_is_left_alone_for_its_tier),
        RECONCILE(adjusted_counters_say_so),
        RECONCILE(a_counter_that_left_meanwhile_is_in_force_as_it_is_stored),
        RECONCILE(of_two_passes_at_once_the_second_does_nothing),
        RECONCILE(a_request_that_a_reload_overtook_is_not_found),
        RECONCILE(an_adjustment_that_cannot_be_made_leaves_its_counters_unadjusted),
        RECONCILE(an_adjustment_only_grows_added_and_subbed),
        RECONCILE(a_reload_during_a_pass_loses_nothing),
        RECONCILE(a_counter_that_a_reload_adds_during_a_pass_is_counted_by_the_next),
        RECONCILE(a_pass_by_a_query_that_a_reload_changed_settles_nothing),
    };
    return cmocka_run_group_tests_name("reconcile", tests, NULL, NULL);
}
