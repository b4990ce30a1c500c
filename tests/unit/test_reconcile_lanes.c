/* test_reconcile_lanes.c -- one reconciler over several lanes (SPEC 11): each entity is counted in
 * its tenant's lane, by that lane's rules and time, and what an entry allows holds over all. */
#include "reconcile/ask.h"
#include "reconcile/truth_events.h"
#include "support/reconcile_world.h"

#define LANES 3
#define TENANTS 6 /* two in each lane */

static struct heart *hearts[LANES];
static struct lane wards[LANES];
static struct lanes lanes = {LANES, wards};
static char tenants[TENANTS][8];

/* What follows is this tenant's. */
static void be(const char *tenant)
{
    heart = hearts[lanes_index(LANES, bytes_str(tenant))];
    heart->asks.tenant = tenant;
}

static enum err propose_there(void *context, struct bundle *bundle)
{
    const struct lane *lane = context;
    heart = hearts[lane->index];
    return propose_here(NULL, bundle);
}

static void make_lane(unsigned index)
{
    hearts[index] = heart =
        heart_new((struct heart_config){.store = "fault memory", .limits = {.tenant_marks = 30}});
    struct lane *lane = &wards[index];
    *lane = heart->lane;
    lane->index = index;
    lane->caretaker = (struct caretaker){.store = heart->store,
                                         .rulebook = heart->rulebook,
                                         .clock = heart->clock,
                                         .enacting = &enacting,
                                         .batch_ops = 100,
                                         .propose = propose_there,
                                         .context = lane};
}

/* So many for each lane, lane by lane. */
static void name_tenants(void)
{
    unsigned found[LANES] = {0};
    for (unsigned i = 0, count = 0; count < TENANTS; i++) {
        char name[8];
        snprintf(name, sizeof name, "t%03u", i);
        unsigned lane = lanes_index(LANES, bytes_str(name));
        if (found[lane] == TENANTS / LANES) continue;
        memcpy(tenants[lane * TENANTS / LANES + found[lane]++], name, sizeof name);
        count++;
    }
}

static struct truth *open_truth(void *context, const struct reconcile *reconcile)
{
    return reconcile->truth == TRUTH_EVENTS ? truth_events_open(&lanes)
                                            : truth_open(context, reconcile);
}

static void use_everywhere(const char *text)
{
    for (unsigned i = 0; i < LANES; i++) {
        heart = hearts[i];
        use(text);
    }
}

/* The second lane has given out a generation already, so its counters have others. */
static int lanes_setup(void **state)
{
    records_count = asked = event_ids = 0;
    truth_err = ERR_OK;
    at_step = NULL;
    in_pass = dead = false;
    for (unsigned i = 0; i < LANES; i++)
        make_lane(i);
    name_tenants();
    heart = hearts[1];
    use("counters: [{counterName: former, rules: [{on: voted, op: increment}]}]\n");
    use_everywhere(COUNTERS ENTRY("all"));
    reconciler = reconciler_new(&(struct reconciler_config){.lanes = &lanes, .open = open_truth});
    return 0;
}

static int lanes_teardown(void **state)
{
    reconciler_free(reconciler);
    for (unsigned i = 0; i < LANES; i++)
        heart_free(hearts[i]);
    return 0;
}

/* Every tenant's entity is marked, and wrong. */
static void mark_all(const char *entity)
{
    for (unsigned i = 0; i < TENANTS; i++) {
        be(tenants[i]);
        post("voted", entity);
        conv(entity)->votes = 10 + i;
    }
}

static unsigned count_right(const char *entity)
{
    unsigned right = 0;
    for (unsigned i = 0; i < TENANTS; i++) {
        be(tenants[i]);
        right += net("votes", entity) == conv(entity)->votes;
    }
    return right;
}

static void every_entity_is_counted_in_its_tenants_lane(void **state)
{
    mark_all("c1");
    assert_int_equal(pass(), TENANTS);
    assert_int_equal(count_right("c1"), TENANTS);
    for (unsigned i = 0; i < TENANTS; i++) {
        be(tenants[i]);
        assert_false(row("c1").pending);
        expect_right("c1");
    }
}

#define TWO_A_SCAN COUNTERS ENTRY("all") "  scanLimit: 2\n"

static int compare_names(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void tenants_of_all_lanes_take_turns_in_one_order(void **state)
{
    char sorted[TENANTS][8];
    use_everywhere(TWO_A_SCAN);
    mark_all("c1");
    memcpy(sorted, tenants, sizeof sorted);
    qsort(sorted, TENANTS, sizeof *sorted, compare_names);
    for (unsigned i = 0; i < TENANTS; i += 2) {
        assert_int_equal(pass(), 2); /* scanLimit is the entry's, not a lane's */
        assert_int_equal(count_right("c1"), i + 2);
        for (unsigned j = 0; j < TENANTS; j++) {
            be(sorted[j]);
            assert_int_equal(row("c1").pending, j >= i + 2);
        }
    }
}

static void a_lane_that_cannot_be_read_holds_up_no_other(void **state)
{
    mark_all("c1");
    fault_fail(hearts[1]->store, FAULT_OBJECT, 1);
    assert_int_equal(pass(), TENANTS - TENANTS / LANES);
    fault_heal(hearts[1]->store);
    heart_wait_ms(heart, INTERVAL);
    assert_int_equal(pass(), TENANTS / LANES);
    assert_int_equal(count_right("c1"), TENANTS);
}

static void an_entity_is_counted_now_in_its_tenants_lane(void **state)
{
    struct buf json;
    buf_init(&json, 10000);
    for (unsigned i = 0; i < TENANTS; i++) {
        be(tenants[i]);
        corrupt("votes", "c1", 5);
        conv("c1")->votes = i;
        assert_int_equal(reconcile_now(reconciler, BYTES("convs"), bytes_str(tenants[i]),
                                       BYTES("{\"conv\":\"c1\"}"), &json),
                         ERR_OK);
        be(tenants[i]);
        assert_int_equal(net("votes", "c1"), i);
    }
    buf_release(&json);
}

static void drift_and_status_are_the_tenants(void **state)
{
    struct buf json, uncounted, after;
    buf_init(&json, 10000);
    buf_init(&uncounted, 10000);
    buf_init(&after, 1000);
    be(tenants[TENANTS - 1]);
    post("voted", "c1");
    conv("c1")->votes = 7;
    for (unsigned i = 0; i < TENANTS; i++) {
        bool wrong = i == TENANTS - 1;
        buf_reset(&json);
        assert_int_equal(reconcile_drift(reconciler, BYTES("convs"), bytes_str(tenants[i]),
                                         BYTES_NONE, 10, &json, &uncounted, &after),
                         ERR_OK);
        assert_int_equal(json.size > 0, wrong);
        buf_reset(&json);
        assert_int_equal(reconcile_status(reconciler, BYTES("convs"), bytes_str(tenants[i]), &json),
                         ERR_OK);
        buf_add_char(&json, '\0');
        assert_non_null(strstr(json.data, wrong ? "\"pending\":1" : "\"pending\":0"));
    }
    buf_release(&after);
    buf_release(&uncounted);
    buf_release(&json);
}

static void events_are_replayed_from_the_tenants_lane(void **state)
{
    use_everywhere(COUNTERS "reconcile: [{name: convs, tenants: all, entity: [conv], "
                            "source: {events: true}, counters: [votes, opinions]}]\n");
    for (unsigned i = 0; i < TENANTS; i++) {
        be(tenants[i]);
        for (unsigned votes = 0; votes <= i; votes++)
            post("voted", "c1");
        corrupt("votes", "c1", 77);
        conv("c1")->votes = i + 1;
    }
    pass();
    assert_int_equal(count_right("c1"), TENANTS);
}

static void rows_of_no_more_use_are_dropped_in_every_lane(void **state)
{
    mark_all("c1");
    assert_int_equal(pass(), TENANTS);
    use_everywhere("counters: []\n");
    heart_wait_ms(heart, 2 * 60 * SECONDS);
    reconciler_scan(reconciler);
    for (unsigned i = 0; i < TENANTS; i++) {
        be(tenants[i]);
        assert_int_equal(row("c1").version, 0);
    }
}

/* Rules come into force lane by lane: between two of them an entry may be another one in a lane. */
static void an_entry_that_a_lane_does_not_have_yet_waits_there(void **state)
{
    mark_all("c1");
    heart = hearts[2];
    use(COUNTERS "reconcile: [{name: convs, tenants: all, entity: [user], "
                 "source: {postgres: host=nowhere}, counters: {votes: 'SELECT $1, $2'}}]\n");
    assert_int_equal(pass(), TENANTS - TENANTS / LANES);
    heart = hearts[2];
    use(COUNTERS ENTRY("all"));
    heart_wait_ms(heart, INTERVAL);
    assert_int_equal(pass(), TENANTS / LANES);
    assert_int_equal(count_right("c1"), TENANTS);
}

#define LANE(name) cmocka_unit_test_setup_teardown(name, lanes_setup, lanes_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LANE(every_entity_is_counted_in_its_tenants_lane),
        LANE(tenants_of_all_lanes_take_turns_in_one_order),
        LANE(a_lane_that_cannot_be_read_holds_up_no_other),
        LANE(an_entity_is_counted_now_in_its_tenants_lane),
        LANE(drift_and_status_are_the_tenants),
        LANE(events_are_replayed_from_the_tenants_lane),
        LANE(rows_of_no_more_use_are_dropped_in_every_lane),
        LANE(an_entry_that_a_lane_does_not_have_yet_waits_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
