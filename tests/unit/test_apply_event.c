/* test_apply_event.c -- what events do to ids, all-time counters and tenants' rows: all or none. */
#include "support/event_world.h"

/* ---- ids ---- */

static void S1_10_an_id_takes_effect_once(void **state)
{
    use(CONNECTIONS(""));
    const struct event *first = sent("E1", "connected", "account=m1");
    assert_int_equal(first->result, EVENT_APPLIED);
    assert_int_equal(first->counters, 2); /* the one and the rollup; an amount of 0 is no change */
    assert_int_equal(first->first_seen_ms, decider.moment.now_ms);
    decider.moment.now_ms += 10;
    const struct event *again = sent("E1", "connected", "account=m1");
    assert_int_equal(again->result, EVENT_DUPLICATE);
    assert_int_equal(again->first_sequence, first->first_sequence);
    assert_int_equal(again->first_seen_ms, decider.moment.now_ms - 10);
    assert_false(again->conflict);
    assert_int_equal(again->counters, 0);
    assert_int_equal(net("connections", "{\"account\":\"m1\"}"), 1);
    assert_int_equal(net("connections", "{}"), 1);
    expect_history(1, 1);
}

static void S1_12_a_repeat_with_other_contents_changes_nothing(void **state)
{
    use(CONNECTIONS(""));
    sent("E1", "connected", "account=m1");
    assert_true(sent("E1", "disconnected", "account=m1")->conflict);
    assert_true(sent("E1", "connected", "account=m2")->conflict);
    assert_true(send(ask_event(&decider.asks, "E1", "connected", "account=m1", "1"))->conflict);
    assert_int_equal(net("connections", "{}"), 1);
    assert_int_equal(net("connections", "{\"account\":\"m2\"}"), ABSENT);
    expect_history(1, 3);
}

/* S1-13: one event, several counters; its repeat changes none of them. */
static void S1_13_dedupe_is_per_event(void **state)
{
    use(CONNECTIONS(""));
    const struct event *first =
        send(ask_event(&decider.asks, "E1", "connected", "account=m1", "{\"size\":7}"));
    assert_int_equal(first->counters, 3);
    send(ask_event(&decider.asks, "E1", "connected", "account=m1", "{\"size\":7}"));
    assert_int_equal(net("all", "{}"), 7);
    assert_int_equal(net("connections", "{}"), 1);
}

static void S1_17_deliveries_in_one_batch_apply_once(void **state)
{
    use(CONNECTIONS(""));
    enum { N = 50 };
    struct op ops[N];
    for (unsigned i = 0; i < N; i++)
        ops[i] = event("E1", "connected", "account=m1");
    struct op *done = decider_bundle(&decider, (struct bundle){0}, ops, N);
    decider_decide(&decider);
    assert_int_equal(done[0].event->result, EVENT_APPLIED);
    for (unsigned i = 1; i < N; i++) {
        assert_int_equal(done[i].event->result, EVENT_DUPLICATE);
        assert_int_equal(done[i].event->first_sequence, done[0].sequence);
        assert_int_equal(done[i].sequence, done[0].sequence + i);
    }
    decider_keep(&decider);
    assert_int_equal(net("connections", "{}"), 1);
    expect_history(1, N - 1);
}

static void tenants_have_their_own_ids(void **state)
{
    use(CONNECTIONS(""));
    sent("E1", "connected", "account=m1");
    decider.asks.tenant = "beta";
    assert_int_equal(sent("E1", "connected", "account=m1")->result, EVENT_APPLIED);
    assert_int_equal(net("connections", "{}"), 1);
}

static void shared_ids_say_when_they_are_anothers(void **state)
{
    use(CONNECTIONS(""));
    decider.limits.ids_shared = decider.asks.ids_shared = true;
    sent("E1", "connected", "account=m1");
    assert_false(sent("E1", "connected", "account=m1")->foreign);
    decider.asks.tenant = "beta";
    const struct event *foreign = sent("E1", "connected", "account=m1");
    assert_int_equal(foreign->result, EVENT_DUPLICATE);
    assert_true(foreign->foreign);
    assert_int_equal(net("connections", "{}"), ABSENT);
}

/* S1-15: what registryTtl does, and why it is off. */
static void an_id_past_its_keep_applies_again(void **state)
{
    use(CONNECTIONS(""));
    decider.limits.id_keep_ms = 1000;
    sent("E1", "connected", "account=m1");
    decider.moment.now_ms += 999;
    assert_int_equal(sent("E1", "connected", "account=m1")->result, EVENT_DUPLICATE);
    decider.moment.now_ms += 1;
    assert_int_equal(sent("E1", "connected", "account=m1")->result, EVENT_APPLIED);
    assert_int_equal(net("connections", "{}"), 2);
}

/* An event that no rule knows is kept and remembered all the same. */
static void an_event_without_rules_is_an_event(void **state)
{
    use(CONNECTIONS(""));
    assert_int_equal(sent("E1", "other", "")->counters, 0);
    assert_int_equal(sent("E1", "other", "")->result, EVENT_DUPLICATE);
    expect_history(1, 1);
}

/* ---- persistent counters ---- */

static void S1_31_the_first_event_makes_the_counter(void **state)
{
    use(CONNECTIONS(""));
    sent("E1", "disconnected", "account=m1");
    assert_int_equal(net("connections", "{\"account\":\"m1\"}"), -1); /* S1-33, S1-37 */
    sent("E2", "connected", "account=m2");
    assert_int_equal(net("connections", "{\"account\":\"m2\"}"), 1);
    assert_int_equal(net("connections", "{}"), 0);
}

/* also when it is the first. S1-36, S1-49. */
static void A_06_a_floor_holds_from_the_first_event_on(void **state)
{
    struct cell cell;
    use(CONNECTIONS("  floorAtZero: true\n"));
    struct op first = event("E1", "disconnected", "account=m1");
    assert_int_equal(send(first)->counters, 0);
    assert_int_equal(first.event->projection->changes[0].result, CHANGE_CLAMPED);
    assert_int_equal(net("connections", "{}"), ABSENT); /* reads as 0 */
    sent("E2", "connected", "account=m1");
    sent("E3", "disconnected", "account=m1");
    sent("E4", "disconnected", "account=m1");
    assert_true(find("connections", "{}", 0, 0, &cell));
    assert_int_equal(cell.added, 1);
    assert_int_equal(cell.subbed, 1); /* only what was removed */
}

static void a_decrement_is_clamped_in_part(void **state)
{
    use("counters:\n- counterName: bytes\n  floorAtZero: true\n  rules:\n"
        "  - {on: put, op: increment, amount: 5}\n"
        "  - {on: cut, op: decrement, amount: payload.n}\n");
    sent("E1", "put", "");
    struct op cut = ask_event(&decider.asks, "E2", "cut", "", "{\"n\":8}");
    assert_int_equal(send(cut)->counters, 1);
    assert_int_equal(cut.event->projection->changes[0].result, CHANGE_CLAMPED);
    struct cell cell;
    assert_true(find("bytes", "{}", 0, 0, &cell));
    assert_int_equal(cell.added, 5);
    assert_int_equal(cell.subbed, 5);
}

/* ---- all or nothing ---- */

static void A_10_an_overflow_refuses_the_whole_event(void **state)
{
    use(CONNECTIONS(""));
    const char *most = "{\"size\":" MOST "}";
    send(ask_event(&decider.asks, "E1", "connected", "account=m1", most));
    uint64_t sequence = decider.store->writer.position.last_sequence;
    assert_int_equal(
        refused(ask_event(&decider.asks, "E2", "connected", "account=m2", "{\"size\":1}")),
        ERR_OVERFLOW);
    assert_int_equal(decider.store->writer.position.last_sequence, sequence);
    assert_int_equal(net("connections", "{}"), 1);
    assert_int_equal(net("connections", "{\"account\":\"m2\"}"), ABSENT);
    expect_history(1, 0);
    /* Its id is free: the same event may come again, smaller. */
    assert_int_equal(sent("E2", "connected", "account=m2")->result, EVENT_APPLIED);
}

/* The refused one leaves no trace in the batch it was in, either. */
static void a_refused_event_leaves_its_neighbours_alone(void **state)
{
    use(CONNECTIONS(""));
    const char *most = "{\"size\":" MOST "}";
    const struct op ops[] = {
        ask_event(&decider.asks, "E1", "connected", "account=m1", most),
        ask_event(&decider.asks, "E2", "connected", "account=m2", most),
        ask_event(&decider.asks, "E2", "connected", "account=m2", NULL),
        ask_event(&decider.asks, "E2", "connected", "account=m2", NULL),
    };
    struct op *done = decider_bundle(&decider, (struct bundle){0}, ops, 4);
    decider_decide(&decider);
    assert_int_equal(done[1].err, ERR_OVERFLOW);
    assert_int_equal(done[2].event->result, EVENT_APPLIED);
    assert_int_equal(done[3].event->result, EVENT_DUPLICATE);
    assert_int_equal(done[2].sequence, done[0].sequence + 1);
    decider_keep(&decider);
    assert_int_equal(net("connections", "{}"), 2);
    assert_int_equal(net("connections", "{\"account\":\"m2\"}"), 1);
    expect_history(2, 1);
}

static void a_full_tenant_refuses_the_whole_event(void **state)
{
    use(CONNECTIONS(""));
    decider.limits.tenant_cells = 3;
    sent("E1", "connected", "account=m1");
    sent("E2", "connected", "account=m2");
    assert_int_equal(refused(event("E3", "connected", "account=m3")), ERR_CELL_LIMIT);
    assert_int_equal(net("connections", "{}"), 2);
    assert_int_equal(sent("E4", "connected", "account=m1")->counters, 2);
}

/* ---- the tenant's row ---- */

#define USAGE                                                                        \
    "counters:\n- counterName: entry_count\n  group: usage\n  floorAtZero: true\n"   \
    "  rules:\n  - {on: Created, op: increment}\n  - {on: Deleted, op: decrement}\n" \
    "statuses: {Provisioned: active, Gone: decommissioned}\n"

static struct usage_row row(void)
{
    struct usage_row found = {0};
    struct bytes value = object(OBJECT_USAGE, "acme");
    if (value.size) assert_true(usage_row_decode(value, &found));
    return found;
}

static void expect_status(const char *status, int64_t updated_ms)
{
    struct usage_row found = row();
    assert_true(bytes_equal(found.status, bytes_str(status)));
    assert_int_equal(found.updated_ms, updated_ms);
}

static void a_status_comes_with_its_event(void **state)
{
    use(USAGE);
    int64_t start_ms = decider.moment.now_ms;
    sent("E1", "Provisioned", "");
    expect_status("active", start_ms);
    decider.moment.now_ms += 5;
    sent("E2", "Created", ""); /* the row is there already */
    expect_status("active", start_ms);
    sent("E3", "Gone", "");
    expect_status("decommissioned", start_ms + 5);
    sent("E1", "Provisioned", ""); /* a duplicate */
    expect_status("decommissioned", start_ms + 5);
    assert_int_equal(net("entry_count", "{}"), 1); /* counters stay */
}

static void S4_28_what_changes_nothing_makes_no_row(void **state)
{
    use(USAGE);
    sent("E1", "Deleted", "");
    assert_int_equal(object(OBJECT_USAGE, "acme").size, 0);
    assert_int_equal(net("entry_count", "{}"), ABSENT);
    sent("E2", "Created", "");
    expect_status("active", decider.moment.now_ms);
    sent("E3", "Deleted", "");
    sent("E4", "Deleted", ""); /* S4-21 */
    assert_int_equal(net("entry_count", "{}"), 0);
}

/* Nor does an event that changes something else. */
static void a_row_comes_with_its_own_counters_only(void **state)
{
    use("counters:\n"
        "- counterName: entry_count\n  group: usage\n  floorAtZero: true\n"
        "  rules: [{on: Deleted, op: decrement}]\n"
        "- counterName: deletions\n  rules: [{on: Deleted, op: increment}]\n");
    assert_int_equal(sent("E1", "Deleted", "")->counters, 1);
    assert_int_equal(object(OBJECT_USAGE, "acme").size, 0);
}

/* ---- other rules than it was projected by ---- */

static void an_event_whose_type_the_rules_of_its_batch_do_not_know_is_refused(void **state)
{
    use("events: {types: [connected, other]}\n");
    struct op known = ask_event(&decider.asks, "E1", "connected", "", NULL);
    struct op unknown = ask_event(&decider.asks, "E2", "other", "", NULL);
    use("events: {types: [connected]}\n");
    assert_int_equal(send(known)->result, EVENT_APPLIED);
    assert_int_equal(refused(unknown), ERR_EVENT_TYPE);
    use("");
    assert_int_equal(send(unknown)->result, EVENT_APPLIED); /* its id is free */
}

static void an_event_is_counted_by_the_rules_of_its_batch(void **state)
{
    use(CONNECTIONS(""));
    struct rules *old = rules_hold(decider.rules);
    struct op op = ask_event(&decider.asks, "E1", "connected", "account=m1", "{\"size\":7}");
    struct json_value payload = {.type = JSON_ABSENT};
    const struct project_input input = {.rules = old,
                                        .secret = decider.asks.secret,
                                        .tenant = op.tenant,
                                        .payload = &payload,
                                        .arena = &decider.asks.arena};
    op.event->projection = project(&input, op.event);
    use("counters:\n- counterName: sum\n  dimensions: [payload.size]\n"
        "  rules: [{on: connected, op: increment, amount: payload.size}]\n");
    assert_int_equal(send(op)->counters, 1);
    assert_int_equal(net("sum", "{\"payload.size\":\"7\"}"), 7);
    assert_int_equal(net("connections", "{}"), ABSENT);
    rules_release(old);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EVENT(S1_10_an_id_takes_effect_once),
        EVENT(S1_12_a_repeat_with_other_contents_changes_nothing),
        EVENT(S1_13_dedupe_is_per_event),
        EVENT(S1_17_deliveries_in_one_batch_apply_once),
        EVENT(tenants_have_their_own_ids),
        EVENT(shared_ids_say_when_they_are_anothers),
        EVENT(an_id_past_its_keep_applies_again),
        EVENT(an_event_without_rules_is_an_event),
        EVENT(S1_31_the_first_event_makes_the_counter),
        EVENT(A_06_a_floor_holds_from_the_first_event_on),
        EVENT(a_decrement_is_clamped_in_part),
        EVENT(A_10_an_overflow_refuses_the_whole_event),
        EVENT(a_refused_event_leaves_its_neighbours_alone),
        EVENT(a_full_tenant_refuses_the_whole_event),
        EVENT(a_status_comes_with_its_event),
        EVENT(S4_28_what_changes_nothing_makes_no_row),
        EVENT(a_row_comes_with_its_own_counters_only),
        EVENT(an_event_is_counted_by_the_rules_of_its_batch),
        EVENT(an_event_whose_type_the_rules_of_its_batch_do_not_know_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
