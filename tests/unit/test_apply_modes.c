/* test_apply_modes.c -- what events do to entities, windows and series. */
#include "core/timefmt.h"
#include "support/event_world.h"

/* ---- transition-safe ---- */

#define SAFE(dimensions)                  \
    "counters:\n"                         \
    "- counterName: safe\n"               \
    "  dimensions: [" dimensions "]\n"    \
    "  rollups: [[]]\n"                   \
    "  transition: {entity: [entry]}\n"   \
    "  rules:\n"                          \
    "  - {on: created, op: increment}\n"  \
    "  - {on: archived, op: decrement}\n" \
    "  - {on: deleted, op: decrement}\n"

static void S1_34_only_real_changes_of_state_count(void **state)
{
    use(SAFE("kind"));
    struct op early = event("E0", "deleted", "entry=1 kind=a"); /* S1-49 */
    assert_int_equal(send(early)->counters, 0);
    assert_int_equal(early.event->projection->changes[0].result, CHANGE_IGNORED);
    assert_int_equal(net("safe", "{}"), ABSENT);
    sent("E1", "created", "entry=1 kind=a");
    struct op twice = event("E2", "created", "entry=1 kind=a");
    assert_int_equal(send(twice)->result, EVENT_APPLIED);
    assert_int_equal(twice.event->projection->changes[0].result, CHANGE_IGNORED);
    assert_int_equal(net("safe", "{}"), 1);
    sent("E3", "created", "entry=2 kind=a");
    assert_int_equal(net("safe", "{\"kind\":\"a\"}"), 2);
}

/* A-32 and S4-21: archived, then deleted, subtracts once. */
static void A_32_archived_then_deleted_subtracts_once(void **state)
{
    use(SAFE("kind"));
    sent("E1", "created", "entry=1 kind=a");
    sent("E2", "archived", "entry=1 kind=a");
    sent("E3", "deleted", "entry=1 kind=a");
    assert_int_equal(net("safe", "{}"), 0);
    sent("E4", "created", "entry=1 kind=a");
    assert_int_equal(net("safe", "{}"), 1);
}

static void put_state(const char *entity, const char *value)
{
    struct op op = ask_object(&decider.asks, "", value);
    op.object->key = object_state_key(&decider.asks.arena, bytes_str(decider.asks.tenant),
                                      BYTES("safe"), GENERATION, bytes_str(entity));
    op.object->print = fingerprint_of(decider.asks.secret, op.object->key);
    assert_int_equal(decider_do(&decider, op).err, ERR_OK);
}

/* It was once passed over in silence: the decrement then took nothing away and was answered 200. */
static void a_damaged_state_refuses_its_event_and_is_said(void **state)
{
    static const char *const damaged[] = {"\x02\x01{", "\x11", "\xff\xff", "\x01\x02{}x"};
    use(SAFE("kind"));
    sent("E1", "created", "entry=1 kind=a");
    for (size_t i = 0; i < ARRAY_COUNT(damaged); i++) {
        put_state("{\"entry\":\"1\"}", damaged[i]);
        assert_int_equal(refused(event("E2", "deleted", "entry=1 kind=a")), ERR_CORRUPT);
        assert_int_equal(decider.apply.damage.count, 1);
        assert_string_equal(decider.apply.damage.what, "an entity's state");
        assert_int_equal(net("safe", "{}"), 1);
    }
    sent("E3", "created", "entry=1 kind=a"); /* it is on, whatever under */
    assert_int_equal(decider.apply.damage.count, 0);
    put_state("{\"entry\":\"1\"}", "\x01\x02{}");
    assert_int_equal(sent("E2", "deleted", "entry=1 kind=a")->result, EVENT_APPLIED);
    assert_int_equal(net("safe", "{}"), 0);
}

static void a_decrement_goes_where_its_entity_was_switched_on(void **state)
{
    use(SAFE("kind"));
    sent("E1", "created", "entry=1 kind=a");
    sent("E2", "deleted", "entry=1 kind=b"); /* it says another kind by now */
    assert_int_equal(net("safe", "{\"kind\":\"a\"}"), 0);
    assert_int_equal(net("safe", "{\"kind\":\"b\"}"), ABSENT);
    sent("E3", "created", "entry=1 kind=b");
    sent("E4", "deleted", "entry=1"); /* it says none */
    assert_int_equal(net("safe", "{\"kind\":\"b\"}"), 0);
    assert_int_equal(net("safe", "{}"), 0);
}

static void the_same_within_one_batch(void **state)
{
    use(SAFE("kind"));
    sent("E1", "created", "entry=1 kind=a");
    const struct op ops[] = {
        event("E2", "deleted", "entry=1 kind=x"), event("E3", "created", "entry=1 kind=b"),
        event("E4", "created", "entry=1 kind=c"), event("E5", "deleted", "entry=1 kind=d"),
        event("E6", "deleted", "entry=1 kind=e"), event("E7", "created", "entry=1 kind=f"),
        event("E8", "created", "entry=2 kind=g"), event("E9", "archived", "entry=2"),
    };
    decider_bundle(&decider, (struct bundle){0}, ops, 8);
    decider_decide(&decider);
    decider_keep(&decider);
    assert_int_equal(net("safe", "{\"kind\":\"a\"}"), 0);
    assert_int_equal(net("safe", "{\"kind\":\"b\"}"), 0);
    assert_int_equal(net("safe", "{\"kind\":\"f\"}"), 1);
    assert_int_equal(net("safe", "{\"kind\":\"g\"}"), 0);
    assert_int_equal(net("safe", "{}"), 1);
    static const char *const never[] = {"c", "d", "e", "x"};
    for (unsigned i = 0; i < ARRAY_COUNT(never); i++) {
        char dimensions[32];
        snprintf(dimensions, sizeof dimensions, "{\"kind\":\"%s\"}", never[i]);
        assert_int_equal(net("safe", dimensions), ABSENT);
    }
    sent("E10", "deleted", "entry=1 kind=z"); /* what the batch left is known to the next */
    assert_int_equal(net("safe", "{\"kind\":\"f\"}"), 0);
}

static void the_same_after_the_rules_changed(void **state)
{
    use(SAFE("kind"));
    sent("E1", "created", "color=red entry=1 kind=a");
    use(SAFE("color"));
    sent("E2", "deleted", "color=red entry=1 kind=a");
    assert_int_equal(net("safe", "{\"kind\":\"a\"}"), 0);
    assert_int_equal(net("safe", "{\"color\":\"red\"}"), ABSENT);
    assert_int_equal(net("safe", "{}"), 0);
}

/* Its entity was switched on by an event that was refused: it was not. */
static void a_refused_event_switches_nothing(void **state)
{
    use(SAFE("kind") "- counterName: all\n"
                     "  rules: [{on: created, op: increment, amount: payload.n}]\n");
    const char *most = "{\"n\":" MOST "}";
    const struct op ops[] = {
        ask_event(&decider.asks, "E1", "created", "entry=1 kind=a", most),
        ask_event(&decider.asks, "E2", "created", "entry=2 kind=b", most),
        event("E3", "deleted", "entry=2 kind=b"),
    };
    struct op *done = decider_bundle(&decider, (struct bundle){0}, ops, 3);
    decider_decide(&decider);
    assert_int_equal(done[1].err, ERR_OVERFLOW);
    assert_int_equal(done[2].event->counters, 0);
    decider_keep(&decider);
    assert_int_equal(net("safe", "{}"), 1);
    assert_int_equal(sent("E4", "deleted", "entry=1")->counters, 2);
}

static void without_its_entity_a_counter_is_skipped(void **state)
{
    use(SAFE("kind"));
    struct op op = event("E1", "created", "kind=a");
    assert_int_equal(send(op)->counters, 0);
    assert_int_equal(op.event->projection->missing_entity, 1);
}

static void an_event_that_new_rules_make_too_large_is_refused(void **state)
{
    use(CONNECTIONS(""));
    char dimensions[8000];
    snprintf(dimensions, sizeof dimensions, "entry=1 kind=%06000d", 1);
    struct op op = event("E1", "created", dimensions);
    assert_int_equal(send(event("E0", "created", dimensions))->result, EVENT_APPLIED);
    use(SAFE("kind"));
    assert_int_equal(refused(op), ERR_EVENT_SIZE);
    expect_history(1, 0);
}

/* ---- windows ---- */

#define WINDOW(more)                                  \
    "counters:\n- counterName: w\n  mode: windowed\n" \
    "  window: 1h\n" more "  rules:\n"                \
    "  - {on: up, op: increment}\n"                   \
    "  - {on: down, op: decrement, amount: 2}\n"

static void expect_window(int64_t value, int64_t start_ms)
{
    struct cell cell;
    assert_true(find("w", "{}", WINDOW_DURATION, 0, &cell));
    assert_int_equal(cell_triple(&cell).net, value);
    assert_int_equal(cell.start_ms, start_ms);
    assert_int_equal(cell.expires_ms - WINDOW_IDLE_MS, start_ms + HOUR);
}

static void S0_20_to_S0_23_a_window_starts_grows_and_restarts(void **state)
{
    use(WINDOW(""));
    int64_t start_ms = decider.moment.now_ms;
    sent("E1", "up", "");
    expect_window(1, start_ms);
    decider.moment.now_ms = start_ms + HOUR - 1;
    sent("E2", "up", "");
    expect_window(2, start_ms);
    decider.moment.now_ms = start_ms + HOUR; /* S0-23: not in the old one any more */
    sent("E3", "up", "");
    expect_window(1, start_ms + HOUR);
}

/* SPEC 10, "Clocks": a restart of a window cannot be undone. */
static void a_window_restarts_only_when_it_is_surely_over(void **state)
{
    use(WINDOW(""));
    int64_t start_ms = decider.moment.now_ms;
    sent("E1", "up", "");
    decider.moment = (struct moment){
        .now_ms = start_ms + 2 * HOUR, .held_ms = 2 * HOUR, .since_ms = start_ms + 2 * HOUR};
    sent("E2", "up", "");
    expect_window(2, start_ms);
    decider.moment.now_ms += HOUR;
    sent("E3", "up", "");
    expect_window(1, start_ms + 3 * HOUR);
    decider.moment.now_ms += HOUR; /* begun when all was known that passed since */
    sent("E4", "up", "");
    expect_window(1, start_ms + 4 * HOUR);
}

static void a_window_of_before_time_was_set_back_goes_on_and_ends(void **state)
{
    use(WINDOW(""));
    int64_t start_ms = decider.moment.now_ms;
    sent("E1", "up", "");
    decider.moment.back_ms = 744 * HOUR;
    decider.moment.now_ms += HOUR - 1 - 744 * HOUR;
    sent("E2", "up", "");
    expect_window(2, start_ms);
    decider.moment.now_ms += 1;
    sent("E3", "up", "");
    expect_window(1, start_ms + HOUR - 744 * HOUR);
}

/* S0-26: one of them restarts it, the others add. */
static void S0_26_a_batch_on_an_expired_window_is_counted_whole(void **state)
{
    use(WINDOW(""));
    sent("E1", "up", "");
    sent("E2", "up", "");
    decider.moment.now_ms += 3 * HOUR;
    const struct op ops[] = {event("E3", "up", ""), event("E4", "up", ""), event("E5", "up", "")};
    decider_bundle(&decider, (struct bundle){0}, ops, 3);
    decider_decide(&decider);
    decider_keep(&decider);
    expect_window(3, decider.moment.now_ms);
}

/* S0-35: the stored record stays as it is; whoever reads sees that it is over. */
static void S0_35_a_duplicate_does_not_restart_a_window(void **state)
{
    use(WINDOW(""));
    int64_t start_ms = decider.moment.now_ms;
    sent("E1", "up", "");
    decider.moment.now_ms += 2 * HOUR;
    sent("E1", "up", "");
    expect_window(1, start_ms);
}

/* S0-44: batch time never runs back (commit.c); occurredAt is nothing a window goes by. */
static void S0_44_an_events_own_time_moves_no_window(void **state)
{
    use(WINDOW("  trailing: true\n"));
    decider.asks.occurred_ms = -HOUR;
    sent("E1", "up", "");
    decider.asks.occurred_ms = 100 * HOUR;
    sent("E2", "up", "");
    expect_window(2, decider.moment.now_ms);
}

static void a_window_has_its_floor(void **state)
{
    use(WINDOW("  floorAtZero: true\n  trailing: true\n"));
    int64_t bucket = decider.moment.now_ms / MINUTE * 60;
    sent("E1", "down", "");
    assert_int_equal(net_at("w", "{}", WINDOW_DURATION, 0), ABSENT);
    assert_int_equal(net_at("w", "{}", 60, bucket), ABSENT);
    sent("E2", "up", "");
    sent("E3", "down", "");
    expect_window(0, decider.moment.now_ms);
    assert_int_equal(net_at("w", "{}", 60, bucket), 0); /* it follows its window */
}

/* What the window has left may have been added minutes ago: a bucket that stopped at 0 of its own
 * would leave the sum of all too high. */
static void the_floor_is_the_windows_not_each_minutes(void **state)
{
    use(WINDOW("  floorAtZero: true\n  trailing: true\n"));
    decider.moment.now_ms = 10 * HOUR;
    sent("E1", "up", "");
    decider.moment.now_ms += MINUTE;
    sent("E2", "down", "");
    expect_window(0, 10 * HOUR);
    assert_int_equal(net_at("w", "{}", 60, 36000), 1);
    assert_int_equal(net_at("w", "{}", 60, 36060), -1);
}

static void trailing_counts_by_the_minute_and_may_pass_below_zero(void **state)
{
    struct cell cell;
    use(WINDOW("  trailing: true\n"));
    decider.moment.now_ms = 10 * HOUR;
    sent("E1", "up", "");
    sent("E2", "up", "");
    decider.moment.now_ms += MINUTE - 1;
    sent("E3", "up", "");
    assert_int_equal(net_at("w", "{}", 60, 36000), 3);
    decider.moment.now_ms += 1;
    sent("E4", "down", "");
    assert_int_equal(net_at("w", "{}", 60, 36060), -2);
    expect_window(1, 10 * HOUR);
    assert_true(find("w", "{}", 60, 36060, &cell)); /* of no use an hour after its end */
    assert_int_equal(cell.expires_ms, 10 * HOUR + 2 * MINUTE + HOUR);
}

/* ---- series ---- */

static void series_go_by_the_events_own_time(void **state)
{
    struct cell cell;
    use("counters:\n- counterName: s\n  mode: series\n  granularities: [0, 60, 3600]\n"
        "  keep: 1d\n  rules: [{on: up, op: increment, amount: 2}]\n");
    decider.asks.occurred_ms = -1; /* before 1970, still in its bucket */
    assert_int_equal(sent("E1", "up", "")->counters, 3);
    decider.asks.occurred_ms = 59999;
    sent("E2", "up", "");
    assert_int_equal(net_at("s", "{}", 0, 0), 4);
    assert_int_equal(net_at("s", "{}", 60, -60), 2);
    assert_int_equal(net_at("s", "{}", 3600, -3600), 2);
    assert_int_equal(net_at("s", "{}", 60, 0), 2);
    assert_true(find("s", "{}", 60, 0, &cell));
    assert_int_equal(cell.expires_ms, 60000 + 24 * HOUR); /* this long after its end */
    assert_true(find("s", "{}", 0, 0, &cell));
    assert_int_equal(cell.expires_ms, TIME_NONE); /* granularity 0 never */
}

static void buckets_of_a_series_are_clamped_each_on_its_own(void **state)
{
    use("counters:\n- counterName: s\n  mode: series\n  granularities: [0, 60]\n"
        "  floorAtZero: true\n  rules:\n"
        "  - {on: up, op: increment, amount: 2}\n  - {on: down, op: decrement}\n");
    sent("E1", "up", "");
    decider.asks.occurred_ms = HOUR;
    sent("E2", "down", "");
    assert_int_equal(net_at("s", "{}", 0, 0), 1);
    assert_int_equal(net_at("s", "{}", 60, 3600), ABSENT);
}

/* A decrement goes to the buckets of its own time, whether the increment came in its batch or in
 * one before it. */
static void an_event_of_a_bucket_without_a_name_is_refused_whole(void **state)
{
    use("counters:\n- counterName: all\n  rules: [{on: up, op: increment}]\n"
        "- counterName: long\n  mode: series\n  granularities: [60, 2147483647]\n"
        "  rules: [{on: up, op: increment}]\n");
    decider.asks.occurred_ms = TIME_MS_MIN;
    assert_int_equal(refused(event("E1", "up", "")), ERR_BUCKET);
    assert_int_equal(net("all", "{}"), ABSENT);
    expect_history(0, 0);
    decider.asks.occurred_ms = -28 * INT64_C(2147483647) * 1000 - 1;
    assert_int_equal(refused(event("E1", "up", "")), ERR_BUCKET);
    decider.asks.occurred_ms++; /* of the first one with a name */
    assert_int_equal(sent("E1", "up", "")->counters, 3);
}

static void a_transition_safe_series_goes_by_each_events_own_time(void **state)
{
    use("counters:\n- counterName: s\n  mode: series\n  granularities: [60]\n"
        "  dimensions: [kind]\n  transition: {entity: [kind]}\n  rules:\n"
        "  - {on: up, op: increment}\n  - {on: down, op: decrement}\n");
    for (unsigned batches = 1; batches <= 2; batches++) {
        const char *kind = batches == 1 ? "kind=1" : "kind=2";
        decider.asks.occurred_ms = 0;
        struct op up = event(batches == 1 ? "E1" : "E3", "up", kind);
        decider.asks.occurred_ms = MINUTE;
        struct op down = event(batches == 1 ? "E2" : "E4", "down", kind);
        decider_bundle(&decider, (struct bundle){0}, &up, 1);
        if (batches == 2) {
            decider_decide(&decider);
            decider_keep(&decider);
        }
        decider_bundle(&decider, (struct bundle){0}, &down, 1);
        decider_decide(&decider);
        decider_keep(&decider);
        const char *dimensions = batches == 1 ? "{\"kind\":\"1\"}" : "{\"kind\":\"2\"}";
        assert_int_equal(net_at("s", dimensions, 60, 0), 1);
        assert_int_equal(net_at("s", dimensions, 60, 60), -1);
    }
}

/* The increment that was to switch it on was refused and a later one did: what the decrement would
 * change was not looked up. It is to be sent again, and then counts. */
static void a_decrement_that_was_not_foreseen_is_sent_again(void **state)
{
    use(SAFE("kind") "- counterName: all\n"
                     "  rules: [{on: created, op: increment, amount: payload.n}]\n");
    const char *most = "{\"n\":" MOST "}";
    send(ask_event(&decider.asks, "E0", "created", "entry=0 kind=z", most));
    const struct op ops[] = {
        ask_event(&decider.asks, "E1", "created", "entry=1 kind=a", most), /* refused */
        event("E2", "created", "entry=1 kind=b"),
        event("E3", "deleted", "entry=1"),
    };
    struct op *done = decider_bundle(&decider, (struct bundle){0}, ops, 3);
    decider_decide(&decider);
    assert_int_equal(done[0].err, ERR_OVERFLOW);
    assert_int_equal(done[1].err, ERR_OK);
    assert_int_equal(done[2].err, ERR_BUSY);
    decider_keep(&decider);
    assert_int_equal(net("safe", "{\"kind\":\"b\"}"), 1);
    sent("E3", "deleted", "entry=1");
    assert_int_equal(net("safe", "{\"kind\":\"b\"}"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EVENT(S1_34_only_real_changes_of_state_count),
        EVENT(A_32_archived_then_deleted_subtracts_once),
        EVENT(a_damaged_state_refuses_its_event_and_is_said),
        EVENT(a_decrement_goes_where_its_entity_was_switched_on),
        EVENT(the_same_within_one_batch),
        EVENT(the_same_after_the_rules_changed),
        EVENT(a_refused_event_switches_nothing),
        EVENT(without_its_entity_a_counter_is_skipped),
        EVENT(an_event_that_new_rules_make_too_large_is_refused),
        EVENT(S0_20_to_S0_23_a_window_starts_grows_and_restarts),
        EVENT(S0_26_a_batch_on_an_expired_window_is_counted_whole),
        EVENT(a_window_restarts_only_when_it_is_surely_over),
        EVENT(a_window_of_before_time_was_set_back_goes_on_and_ends),
        EVENT(S0_35_a_duplicate_does_not_restart_a_window),
        EVENT(S0_44_an_events_own_time_moves_no_window),
        EVENT(a_window_has_its_floor),
        EVENT(the_floor_is_the_windows_not_each_minutes),
        EVENT(trailing_counts_by_the_minute_and_may_pass_below_zero),
        EVENT(series_go_by_the_events_own_time),
        EVENT(an_event_of_a_bucket_without_a_name_is_refused_whole),
        EVENT(a_transition_safe_series_goes_by_each_events_own_time),
        EVENT(a_decrement_that_was_not_foreseen_is_sent_again),
        EVENT(buckets_of_a_series_are_clamped_each_on_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
