/* test_truth_events.c -- counters put right from the retained events: what they add up to by the
 * rules in force, and never from a part of them. */
#include "reconcile/truth_events.h"
#include "support/reconcile_world.h"

#define FROM_EVENTS                                                                              \
    COUNTERS "- counterName: present\n"                                                          \
             "  dimensions: [conv]\n"                                                            \
             "  transition: {entity: [user]}\n"                                                  \
             "  rules: [{on: came, op: increment}, {on: went, op: decrement}]\n"                 \
             "reconcile: [{name: convs, tenants: all, entity: [conv], source: {events: true},\n" \
             "  counters: [votes, opinions, present]}]\n"

static struct truth *open_events(void *context, const struct reconcile *reconcile)
{
    return truth_events_open(&heart->lanes);
}

static int begin(void **state)
{
    opener = open_events;
    setup(state);
    use(FROM_EVENTS);
    return 0;
}

static void a_corrupted_counter_is_recounted_with_floors_and_entities(void **state)
{
    post("unsaid", "c1"); /* at the floor: takes nothing away */
    post("said", "c1");
    post("said", "c1");
    post("unsaid", "c1");
    for (int i = 0; i < 3; i++)
        post("voted", "c1");
    post("voted", "c2");
    post("came", "c1");
    post("came", "c1"); /* is there already */
    corrupt("votes", "c1", 77);
    corrupt("opinions", "c1", 77);
    corrupt("present", "c1", 77);
    scan();
    work();
    assert_int_equal(net("votes", "c1"), 3);
    assert_int_equal(net("opinions", "c1"), 1);
    assert_int_equal(net("present", "c1"), 1);
    assert_int_equal(net("votes", "c2"), 1);
    assert_false(row("c1").pending);
}

/* One leaves where it came in, whatever the event says. */
static void an_entity_is_taken_away_where_it_was_counted(void **state)
{
    post("came", "c1");
    post("went", "c2");
    corrupt("present", "c1", 5);
    corrupt("present", "c2", 5);
    request("c1");
    request("c2");
    scan();
    work();
    assert_int_equal(net("present", "c1"), 0);
    assert_int_equal(net("present", "c2"), 0);
}

static void events_still_explain_the_counter_afterwards(void **state)
{
    post("voted", "c1");
    corrupt("votes", "c1", 9);
    scan();
    work();
    assert_int_equal(net("votes", "c1"), 1);
    struct rules *rules = rulebook_hold(heart->rulebook);
    assert_false(rules_find(rules, BYTES("votes"))->adjusted);
    rules_release(rules);
}

static void put_retained(uint64_t ms)
{
    struct arena *arena = &heart->asks.arena;
    struct op op =
        propose_object(arena, &heart->store->secret, object_key(arena, OBJECT_META, META_RETAINED),
                       object_number(arena, ms));
    op.tenant = bytes_str(heart->asks.tenant);
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
}

/* S1-50, X-11. */
static void nothing_is_repaired_from_incomplete_history(void **state)
{
    post("voted", "c1");
    heart_wait_ms(heart, 1);
    put_retained((uint64_t)heart->time->wall_ms);
    corrupt("votes", "c1", 9);
    scan();
    work();
    assert_int_equal(net("votes", "c1"), 9);
    assert_true(row("c1").pending);
    assert_int_equal(row("c1").failures, 1);
}

#define EVENTS(name)                                           \
    {#name " (memory)", name, begin, teardown, "memory"},      \
    {                                                          \
#name " (embedded)", name, begin, teardown, "embedded" \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        EVENTS(a_corrupted_counter_is_recounted_with_floors_and_entities),
        EVENTS(an_entity_is_taken_away_where_it_was_counted),
        EVENTS(events_still_explain_the_counter_afterwards),
        EVENTS(nothing_is_repaired_from_incomplete_history),
    };
    return cmocka_run_group_tests_name("truth_events", tests, NULL, NULL);
}
