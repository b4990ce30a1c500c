/* test_totals.c -- a total never falls, and an id is never forgotten, whatever is done to what lies
 * around them: every act of caretaking after every other (S1-02, S1-14, S1-50, X-09). And a total
 * never rises without its event: whatever fails, both are there or neither (S0-19, S1-16). */
#include "support/rebuild_world.h"
#include "tend/tend.h"

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define FOR_EVER_MS (INT64_C(100000) * DAY_MS)
#define ROUNDS 4 /* of tending: propose, decide, carry out, and once more */

#define UP "  rules: [{on: up, op: increment, amount: payload.n}]\n"
#define TOTAL "- counterName: total\n  dimensions: [room]\n  rollups: [[]]\n" UP
#define TOTAL_TOO "- counterName: total\n  rollups: [[room]]\n" UP /* the same sets */
#define SUMS "- counterName: sums\n  mode: series\n  granularities: [0, 60]\n  keep: 1m\n" UP
#define WINDOW "- counterName: window\n  mode: windowed\n  window: 1m\n  trailing: true\n" UP

#define FORMER "- counterName: former\n" UP

static struct tend *tend;
static int64_t retention_ms;
static int64_t sent; /* events, each of which counts 1 */
static bool other_rules;

static void tend_start(void)
{
    tend = tend_new(&(struct tend_config){
        .lanes = &heart->lanes, .sweep_ms = 1000, .retention_ms = retention_ms});
}

static void begin(int64_t retention)
{
    retention_ms = retention;
    sent = 0;
    other_rules = false;
    tend_start();
}

/* ---- what is to stay ---- */

static struct op try_to_deliver(int64_t number)
{
    char id[32];
    snprintf(id, sizeof id, "E%lld", (long long)number);
    heart->asks.occurred_ms = heart->time->wall_ms;
    return heart_do(heart, ask_event(&heart->asks, id, "up", "room=a", "{\"n\":1}"));
}

static const struct event *deliver(int64_t number)
{
    struct op op = try_to_deliver(number);
    assert_int_equal(op.err, ERR_OK);
    return op.event;
}

static int64_t net_of(const char *name, const char *dimensions)
{
    struct bytes key = rule_key(&heart->asks.arena, BYTES("acme"), bytes_str(name),
                                generation(name), bytes_str(dimensions));
    struct cell_ref ref = {key, fingerprint_of(heart->asks.secret, key), 0, 0};
    struct cell cell;
    enum err e = view_get(&heart->store->view, &ref, 0, READ_ALL, &cell);
    return e == ERR_OK ? cell_triple(&cell).net : -1;
}

static void expect_totals(void)
{
    assert_int_equal(net_of("total", "{}"), sent);
    assert_int_equal(net_of("total", "{\"room\":\"a\"}"), sent);
    assert_int_equal(net_of("sums", "{}"), sent);
    assert_int_equal(net_of("former", "{}"), 1);
}

static void expect_ids(void)
{
    const int64_t numbers[] = {0, sent / 2, sent - 1};
    for (unsigned i = 0; i < ARRAY_COUNT(numbers); i++)
        assert_int_equal(deliver(numbers[i])->result, EVENT_DUPLICATE);
}

static void count_one(void)
{
    assert_int_equal(deliver(sent)->result, EVENT_APPLIED);
    sent++;
    expect_totals();
}

/* ---- what is done ---- */

/* Buckets and windows expire, and with a short retention events go. */
static void time_passes(void)
{
    heart_wait_ms(heart, 30 * DAY_MS);
    for (unsigned i = 0; i < ROUNDS; i++) {
        tend_round(tend);
        heart_run(heart);
        heart_wait_ms(heart, 3600 * 1000);
    }
    heart_checkpoint(heart);
}

/* Around what ends the store. */
static void pause_care(void)
{
    tend_free(tend);
    rebuilds_free(rebuilds);
}

static void resume_care(void)
{
    rebuilds_start();
    tend_start();
}

static void the_server_restarts(void)
{
    pause_care();
    heart_reopen(heart);
    resume_care();
}

static void the_power_goes(void)
{
    pause_care();
    heart_crash(heart, (uint64_t)sent);
    resume_care();
}

static void a_checkpoint_is_made(void)
{
    heart_checkpoint(heart);
}

static void the_rules_change(void)
{
    other_rules = !other_rules;
    enact(other_rules ? "counters:\n" TOTAL_TOO SUMS : "counters:\n" TOTAL SUMS WINDOW);
}

static void the_counters_leave_and_come_back(void)
{
    enact("counters:\n" WINDOW);
    expect_totals(); /* frozen */
    time_passes();
    expect_totals();
    enact("counters:\n" TOTAL SUMS WINDOW);
}

/* Refused once history is incomplete. What the old generation leaves is removed behind. */
static void they_are_rebuilt(void)
{
    static const char *const names[] = {"total", "sums"};
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        uint32_t before = generation(names[i]);
        enum err e = ask_for(names[i]);
        assert_true(e == ERR_OK || e == ERR_HISTORY);
        while (rebuild_step(rebuilds) == DESK_AGAIN)
            ;
        assert_true((generation(names[i]) > before) == (e == ERR_OK));
    }
    expect_totals();
    heart_wait_ms(heart, 10 * 1000);
    clean();
}

static void (*const acts[])(void) = {
    time_passes,      the_server_restarts,  the_power_goes,
    they_are_rebuilt, a_checkpoint_is_made, the_counters_leave_and_come_back,
    the_rules_change,
};

static void act_and_look(void (*act)(void))
{
    act();
    expect_totals();
    expect_ids();
    count_one();
}

/* 0 01 02 03 .. 1 12 13 .. 2 23 ..: the shortest walk in which each follows each. */
static void every_act_after_every_other(void)
{
    enact("counters:\n" TOTAL SUMS WINDOW FORMER);
    count_one();
    enact("counters:\n" TOTAL SUMS WINDOW); /* one is frozen from here on */
    for (unsigned one = 0; one < ARRAY_COUNT(acts); one++) {
        act_and_look(acts[one]);
        for (unsigned other = one + 1; other < ARRAY_COUNT(acts); other++) {
            act_and_look(acts[one]);
            act_and_look(acts[other]);
        }
    }
    act_and_look(acts[0]);
    assert_null(heart_broken(heart));
    tend_free(tend);
}

static void X_09_a_total_never_falls_while_history_is_complete(void **state)
{
    (void)state;
    begin(FOR_EVER_MS);
    every_act_after_every_other();
    assert_int_equal(ask_for("total"), ERR_OK);
}

static void S1_02_X_09_a_total_never_falls_when_events_go(void **state)
{
    (void)state;
    begin(DAY_MS);
    every_act_after_every_other();
    assert_int_equal(ask_for("total"), ERR_HISTORY);
}

/* ---- together or not at all ---- */

static bool count_event(void *context, const struct stored_event *stored)
{
    *(int64_t *)context += !stored->duplicate;
    return true;
}

static int64_t stored_events(void)
{
    const struct event_query query = {
        .upto = UINT64_MAX, .arrived_from = INT64_MIN, .events = true, .budget = SIZE_MAX};
    int64_t count = 0;
    uint64_t next;
    assert_int_equal(view_events(&heart->store->view, &query, count_event, &count, &next), ERR_OK);
    return count;
}

/* Sends an event while the nth call of the store fails. False: it did not make so many. */
static bool send_while_failing(uint64_t nth)
{
    fault_fail(heart->store, FAULT_BEGIN | FAULT_LOAD | FAULT_SYNC, nth);
    enum err e = try_to_deliver(sent).err;
    bool failed = !fault_heal(heart->store);
    assert_int_equal(e, failed ? ERR_STORAGE : ERR_OK);
    heart_tend(heart);
    return failed;
}

static void S0_19_S1_16_defect_1_an_event_is_stored_and_counted_or_neither(void **state)
{
    (void)state;
    enact("counters:\n" TOTAL SUMS FORMER);
    sent = 0;
    assert_int_equal(deliver(sent++)->result, EVENT_APPLIED);
    enact("counters:\n" TOTAL SUMS);
    for (unsigned keeps = 0; keeps < 2; keeps++) {
        heart->config.break_keeps = keeps; /* a sync that failed may have happened */
        bool failed = true;
        for (uint64_t nth = 1; failed; nth++) {
            failed = send_while_failing(nth);
            bool there = stored_events() > sent;
            assert_int_equal(net_of("total", "{}"), sent + there);
            assert_int_equal(net_of("sums", "{}"), sent + there);
            assert_int_equal(deliver(sent)->result, there ? EVENT_DUPLICATE : EVENT_APPLIED);
            sent++;
            expect_totals();
            assert_int_equal(stored_events(), sent);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON("embedded", X_09_a_total_never_falls_while_history_is_complete),
        ON("embedded", S1_02_X_09_a_total_never_falls_when_events_go),
        ON("fault memory", S0_19_S1_16_defect_1_an_event_is_stored_and_counted_or_neither),
        ON("fault embedded", S0_19_S1_16_defect_1_an_event_is_stored_and_counted_or_neither),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
