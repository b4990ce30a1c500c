/* test_store_history.c -- objects, events and dropped duplicates: store.h's laws for them, on every
 * store there is. */
#include "support/store_expect.h"

#include "core/project.h"

/* ---- objects ---- */

static void put(struct heart *heart, const char *key, const char *value)
{
    done_ok(heart, ask_object(&heart->asks, key, value));
}

static const char *get(struct heart *heart, const char *key)
{
    struct buf value;
    buf_init(&value, 1000);
    enum err e = view_object(&heart->store->view, bytes_str(key), &value);
    assert_true(e == ERR_OK || e == ERR_NOT_FOUND);
    snprintf(found, sizeof found, "%.*s", (int)value.size, value.data ? value.data : "");
    buf_release(&value);
    return e == ERR_OK ? found : "-";
}

static bool found_object(void *context, struct bytes key, struct bytes value)
{
    unsigned *left = context;
    size_t used = strlen(found);
    snprintf(found + used, sizeof found - used, "%.*s=%.*s ", (int)key.size, key.data,
             (int)value.size, value.data);
    return --*left > 0;
}

static const char *objects(struct heart *heart, const char *prefix, const char *after,
                           unsigned most)
{
    found[0] = 0;
    assert_int_equal(
        view_objects(&heart->store->view, bytes_str(prefix), bytes_str(after), found_object, &most),
        ERR_OK);
    return found;
}

static void objects_are_put_and_removed(void **state)
{
    struct heart *heart = *state;
    assert_string_equal(get(heart, "u1"), "-");
    put(heart, "u1", "one");
    assert_string_equal(get(heart, "u1"), "one");
    put(heart, "u1", "two");
    assert_string_equal(get(heart, "u1"), "two");
    put(heart, "u1", NULL);
    assert_string_equal(get(heart, "u1"), "-");
    assert_string_equal(objects(heart, "u", "", EVERY), "");
}

static void objects_are_listed_in_order(void **state)
{
    struct heart *heart = *state;
    static const char *const keys[] = {"ub", "ua", "c", "uc", "u", "v", "uab"};
    for (unsigned i = 0; i < ARRAY_COUNT(keys); i++) {
        put(heart, keys[i], "1");
        if (i == 3) heart_checkpoint(heart); /* some in the state, some in memory */
    }
    put(heart, "ub", NULL);
    assert_string_equal(objects(heart, "u", "", EVERY), "u=1 ua=1 uab=1 uc=1 ");
    assert_string_equal(objects(heart, "u", "ua", EVERY), "uab=1 uc=1 ");
    assert_string_equal(objects(heart, "u", "ua", 1), "uab=1 ");
    assert_string_equal(objects(heart, "ua", "u", EVERY), "ua=1 uab=1 ");
    assert_string_equal(objects(heart, "", "", EVERY), "c=1 u=1 ua=1 uab=1 uc=1 v=1 ");
    heart_crash(heart, 1);
    heart_checkpoint(heart);
    assert_string_equal(objects(heart, "u", "", EVERY), "u=1 ua=1 uab=1 uc=1 ");
}

static void objects_are_seen_when_they_are_durable(void **state)
{
    struct heart *heart = *state;
    put(heart, "u1", "old");
    submit(heart, ask_object(&heart->asks, "u1", "new"));
    submit(heart, ask_object(&heart->asks, "u2", "two"));
    assert_string_equal(get(heart, "u1"), "old");
    assert_string_equal(objects(heart, "u", "", EVERY), "u1=old ");
    commit_sync_now(heart->commit);
    assert_string_equal(objects(heart, "u", "", EVERY), "u1=new u2=two ");
    submit(heart, ask_object(&heart->asks, "u1", NULL));
    assert_string_equal(get(heart, "u1"), "new");
    commit_sync_now(heart->commit);
    assert_string_equal(get(heart, "u1"), "-");
}

/* What a batch finds is the newest, durable or not. */
static void load_sees_an_object_that_is_not_yet_durable(void **state)
{
    struct heart *heart = *state;
    struct op first = ask_object(&heart->asks, "u1", "one");
    struct op second = ask_object(&heart->asks, "u1", "two");
    struct op wrong = ask_object(&heart->asks, "u1", "three");
    second.object->conditional = wrong.object->conditional = true;
    second.object->expected = wrong.object->expected = BYTES("one");
    submit(heart, first);
    struct sent *taken = submit(heart, second);
    struct sent *refused = submit(heart, wrong);
    heart_run(heart);
    assert_int_equal(taken->bundle.ops[0].err, ERR_OK);
    assert_int_equal(refused->bundle.ops[0].err, ERR_CONFLICT);
    assert_string_equal(get(heart, "u1"), "two");
}

static void a_failed_sync_drops_objects(void **state)
{
    struct heart *heart = *state;
    put(heart, "u1", "old");
    submit(heart, ask_object(&heart->asks, "u1", NULL));
    submit(heart, ask_object(&heart->asks, "u2", "two"));
    break_next_sync(heart);
    commit_sync_now(heart->commit);
    heart_tend(heart);
    assert_string_equal(objects(heart, "u", "", EVERY), "u1=old ");
    struct op op = ask_object(&heart->asks, "u1", "new");
    op.object->conditional = true;
    op.object->expected = BYTES("old");
    done_ok(heart, op);
    assert_string_equal(get(heart, "u1"), "new");
}

static void objects_survive_crashes_and_checkpoints(void **state)
{
    struct heart *heart = *state;
    for (unsigned way = 0; way < 8; way++) {
        put(heart, "u1", "one");
        put(heart, "u2", "two");
        if (way & 1) heart_checkpoint(heart);
        put(heart, "u1", NULL);
        if (way & 2) heart_crash(heart, way);
        if (way & 4) heart_checkpoint(heart);
        assert_string_equal(objects(heart, "u", "", EVERY), "u2=two ");
        put(heart, "u2", NULL);
        heart_crash(heart, way);
        assert_string_equal(get(heart, "u2"), "-");
    }
}

/* ---- one instant ---- */

struct instant {
    struct heart *heart;
    unsigned runs;
    int64_t net;
    char object[100];
};

static void read_instant(void *context, struct view *moment)
{
    struct instant *instant = context;
    instant->runs++;
    instant->net = heart_net(instant->heart, "views");
    snprintf(instant->object, sizeof instant->object, "%s", get(instant->heart, "u1"));
}

static void an_instant_reads_cells_and_objects(void **state)
{
    struct heart *heart = *state;
    struct instant instant = {.heart = heart};
    const struct op ops[] = {increment(heart, "views", 5), ask_object(&heart->asks, "u1", "one")};
    heart_send(heart, (struct bundle){0}, ops, 2);
    commit_turn(heart->commit);
    view_instant(&heart->store->view, read_instant, &instant);
    assert_true(instant.runs >= 1);
    assert_int_equal(instant.net, -1);
    assert_string_equal(instant.object, "-");
    heart_run(heart);
    view_instant(&heart->store->view, read_instant, &instant);
    assert_int_equal(instant.net, 5);
    assert_string_equal(instant.object, "one");
}

/* ---- events ---- */

static struct op event(struct heart *heart, const char *id)
{
    heart->asks.occurred_ms = HEART_START_MS - 1;
    return ask_event(&heart->asks, id, "type", "k=v", "{\"n\":1}");
}

static bool found_event(void *context, const struct stored_event *event)
{
    unsigned *left = context;
    size_t used = strlen(found);
    snprintf(found + used, sizeof found - used, "%s%.*s ", event->duplicate ? "!" : "",
             (int)event->id.size, event->id.data);
    return --*left > 0;
}

static struct event_query all_events(void)
{
    return (struct event_query){.upto = UINT64_MAX,
                                .arrived_from = INT64_MIN,
                                .events = true,
                                .duplicates = true,
                                .budget = SIZE_MAX};
}

static uint64_t next;

static const char *events(struct heart *heart, struct event_query query, unsigned most)
{
    found[0] = 0;
    assert_int_equal(view_events(&heart->store->view, &query, found_event, &most, &next), ERR_OK);
    return found;
}

static const char *every_event(struct heart *heart)
{
    return events(heart, all_events(), EVERY);
}

static void events_are_seen_when_they_are_durable(void **state)
{
    struct heart *heart = *state;
    submit(heart, event(heart, "E1"));
    submit(heart, event(heart, "E1"));
    assert_string_equal(every_event(heart), "");
    commit_sync_now(heart->commit);
    assert_string_equal(every_event(heart), "E1 !E1 ");
    assert_int_equal(next, 0);
}

/* In the journal, in the archive, and on both sides of where one ends and the other begins. */
static void events_are_read_in_order_from_wherever_they_lie(void **state)
{
    struct heart *heart = *state;
    char expected[500] = "";
    for (unsigned i = 0; i < 24; i++) {
        char id[20];
        snprintf(id, sizeof id, "E%u", i - i % 4 / 3); /* every fourth is a duplicate */
        done_ok(heart, event(heart, id));
        done_ok(heart, increment(heart, "views", 1));
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%s%s ",
                 i % 4 == 3 ? "!" : "", id);
        if (i % 8 == 5) heart_tend(heart);
        if (i % 8 == 6) heart_crash(heart, i);
        assert_string_equal(every_event(heart), expected);
    }
    heart_checkpoint(heart);
    assert_string_equal(every_event(heart), expected);
}

static void pages_of_events_join_without_a_gap(void **state)
{
    struct heart *heart = *state;
    for (unsigned i = 0; i < 12; i++) {
        char id[20];
        snprintf(id, sizeof id, "E%u", i);
        done_ok(heart, event(heart, id));
        if (i == 5) heart_tend(heart);
    }
    char whole[500];
    snprintf(whole, sizeof whole, "%s", every_event(heart));
    for (unsigned most = 1; most < 5; most++) {
        char joined[500] = "";
        struct event_query query = all_events();
        do {
            strcat(joined, events(heart, query, most));
            query.after = next;
        } while (next);
        assert_string_equal(joined, whole);
    }
    char joined[500] = "";
    struct event_query query = all_events();
    query.budget = 1; /* a page may end anywhere, but each goes on */
    unsigned pages = 0;
    do {
        strcat(joined, events(heart, query, EVERY));
        query.after = next;
        assert_true(++pages < 100);
    } while (next);
    assert_string_equal(joined, whole);
}

static void queries_find_what_they_ask_for(void **state)
{
    struct heart *heart = *state;
    for (unsigned where = 0; where < 2; where++) {
        done_ok(heart, event(heart, where ? "B1" : "A1"));
        heart_wait_ms(heart, 1000);
        done_ok(heart, event(heart, where ? "B1" : "A1"));
        heart->asks.tenant = "beta";
        done_ok(heart, event(heart, where ? "B2" : "A2"));
        heart->asks.tenant = "acme";
        if (where == 0) heart_tend(heart);
    }
    struct event_query query = all_events();
    assert_string_equal(events(heart, query, EVERY), "A1 !A1 A2 B1 !B1 B2 ");
    query.duplicates = false;
    assert_string_equal(events(heart, query, EVERY), "A1 A2 B1 B2 ");
    query.tenant = BYTES("beta");
    assert_string_equal(events(heart, query, EVERY), "A2 B2 ");
    query.tenant = BYTES("acme");
    query.duplicates = true;
    query.events = false;
    assert_string_equal(events(heart, query, EVERY), "!A1 !B1 ");
    query.tenant = BYTES("acm"); /* nobody */
    assert_string_equal(events(heart, query, EVERY), "");
    query = all_events();
    query.after = 1;
    query.upto = 4;
    assert_string_equal(events(heart, query, EVERY), "!A1 A2 B1 ");
    query = all_events();
    query.arrived_from = HEART_START_MS + 2000;
    assert_string_equal(events(heart, query, EVERY), "!B1 B2 ");
}

static const char *same;

static bool compare_event(void *context, const struct stored_event *event)
{
    (void)context;
    bool is = bytes_equal(event->tenant, BYTES("acme")) && bytes_equal(event->id, BYTES("E1")) &&
              bytes_equal(event->type, BYTES("type")) &&
              bytes_equal(event->dimensions_json, BYTES("{\"k\":\"v\"}")) &&
              bytes_equal(event->payload, BYTES("{\"n\":1}")) &&
              event->occurred_ms == HEART_START_MS - 1 &&
              event->arrived_ms == HEART_START_MS + (event->duplicate ? 1000 : 0) &&
              event->sequence == (event->duplicate ? 2u : 1u);
    if (event->duplicate)
        is = is && event->first_sequence == 1 && event->first_seen_ms == HEART_START_MS;
    if (!is) same = "something of an event is not as it was";
    return true;
}

static void events_come_back_whole(void **state)
{
    struct heart *heart = *state;
    const struct event_query query = all_events();
    done_ok(heart, event(heart, "E1"));
    heart_wait_ms(heart, 1000);
    done_ok(heart, event(heart, "E1"));
    for (unsigned way = 0; way < 3; way++) {
        same = NULL;
        assert_int_equal(view_events(&heart->store->view, &query, compare_event, NULL, &next),
                         ERR_OK);
        assert_null(same);
        if (way == 0) heart_crash(heart, 1);
        if (way == 1) heart_checkpoint(heart);
    }
}

static void ids_survive_whatever_events_do_not(void **state)
{
    struct heart *heart = *state;
    done_ok(heart, event(heart, "E1"));
    heart_wait_ms(heart, 10 * 24 * 3600 * 1000);
    heart_checkpoint(heart);
    struct event_query query = all_events();
    query.arrived_from = heart->time->wall_ms; /* as readers ask: the journal may have it yet */
    store_forget(heart->store, query.arrived_from);
    heart_crash(heart, 1);
    assert_string_equal(events(heart, query, EVERY), "");
    struct op again = done_ok(heart, event(heart, "E1"));
    assert_int_equal(again.event->result, EVENT_DUPLICATE);
    assert_int_equal(again.event->first_seen_ms, HEART_START_MS);
    assert_string_equal(events(heart, query, EVERY), "!E1 ");
}

/* Some in memory, some in sorted files, some in both kinds at once. Fingerprints of 20 bits would
 * already let two of these meet, and one of them would never be counted. */
static void many_ids_stay_distinct_wherever_they_lie(void **state)
{
    struct heart *heart = *state;
    enum { IDS = 3000, IN_A_JOB = 500 };
    static uint64_t sequences[IDS];
    struct op ops[IN_A_JOB];
    for (unsigned n = 0; n < 2 * IDS; n++) {
        char id[20];
        snprintf(id, sizeof id, "%u", n % IDS);
        ops[n % IN_A_JOB] = event(heart, id);
        if (n % IN_A_JOB < IN_A_JOB - 1) continue;
        struct sent *sent = heart_send(heart, (struct bundle){0}, ops, IN_A_JOB);
        heart_run(heart);
        for (unsigned i = 0; i < IN_A_JOB; i++) {
            uint64_t *sequence = &sequences[(n - (IN_A_JOB - 1) + i) % IDS];
            const struct event *done = sent->bundle.ops[i].event;
            assert_int_equal(done->result, n < IDS ? EVENT_APPLIED : EVENT_DUPLICATE);
            if (n < IDS) *sequence = done->first_sequence;
            assert_int_equal(done->first_sequence, *sequence);
        }
        if (n < IDS && n / IN_A_JOB % 2) heart_checkpoint(heart);
    }
}

static void nothing_that_came_later_is_forgotten(void **state)
{
    struct heart *heart = *state;
    done_ok(heart, event(heart, "E1"));
    heart_checkpoint(heart);
    heart_wait_ms(heart, 1000);
    int64_t from_ms = heart->time->wall_ms;
    done_ok(heart, event(heart, "E2"));
    heart_checkpoint(heart);
    done_ok(heart, event(heart, "E3"));
    store_forget(heart->store, from_ms);
    assert_string_equal(every_event(heart), "E2 E3 ");
    store_forget(heart->store, from_ms - 5000); /* an older bound brings nothing back */
    assert_string_equal(every_event(heart), "E2 E3 ");
}

static void a_failed_sync_drops_events_and_their_ids(void **state)
{
    struct heart *heart = *state;
    done_ok(heart, event(heart, "E1"));
    submit(heart, event(heart, "E1"));
    submit(heart, event(heart, "E2"));
    break_next_sync(heart);
    commit_sync_now(heart->commit);
    heart_tend(heart);
    assert_string_equal(every_event(heart), "E1 ");
    assert_int_equal(done_ok(heart, event(heart, "E2")).event->result, EVENT_APPLIED);
    assert_string_equal(every_event(heart), "E1 E2 ");
    heart_crash(heart, 1);
    assert_string_equal(every_event(heart), "E1 E2 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(objects_are_put_and_removed),
        LAW(objects_are_listed_in_order),
        LAW(objects_are_seen_when_they_are_durable),
        LAW(load_sees_an_object_that_is_not_yet_durable),
        LAW(a_failed_sync_drops_objects),
        LAW(objects_survive_crashes_and_checkpoints),
        LAW(an_instant_reads_cells_and_objects),
        LAW(events_are_seen_when_they_are_durable),
        LAW(events_are_read_in_order_from_wherever_they_lie),
        LAW(pages_of_events_join_without_a_gap),
        LAW(queries_find_what_they_ask_for),
        LAW(events_come_back_whole),
        LAW(ids_survive_whatever_events_do_not),
        LAW(many_ids_stay_distinct_wherever_they_lie),
        LAW(nothing_that_came_later_is_forgotten),
        LAW(a_failed_sync_drops_events_and_their_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
