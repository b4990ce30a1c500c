/* test_store_imports.c -- SPEC 11: events of another store keep the number that clients know them by
 * and when they arrived, on every store there is, wherever they lie by then. */
#include "support/store_expect.h"

#include "core/event_id.h"

#define LONG_AGO_MS (HEART_START_MS - INT64_C(1000000))

static struct op own_event(struct heart *heart, const char *id)
{
    return ask_event(&heart->asks, id, "type", "k=v", "{\"n\":1}");
}

static struct op import_event(struct heart *heart, const char *id, uint64_t origin)
{
    struct op op = own_event(heart, id);
    op.kind = OP_IMPORT_EVENT;
    op.event->origin = origin;
    op.event->arrived_ms = LONG_AGO_MS + (int64_t)origin;
    op.event->result = EVENT_APPLIED;
    return op;
}

static struct op import_duplicate(struct heart *heart, const char *id, uint64_t origin,
                                  uint64_t first)
{
    struct op op = import_event(heart, id, origin);
    op.event->result = EVENT_DUPLICATE;
    op.event->first_sequence = first;
    op.event->first_seen_ms = LONG_AGO_MS + (int64_t)first;
    return op;
}

static struct op import_id(struct heart *heart, const char *id, struct key_record *record)
{
    struct op op = own_event(heart, id);
    record->exists = record->event = true;
    record->digest = op.event->digest;
    return (struct op){.kind = OP_IMPORT_ID, .key = op.key, .imported_id = record};
}

/* ---- what there is ---- */

static bool found_event(void *context, const struct stored_event *event)
{
    unsigned *left = context;
    size_t used = strlen(found);
    long long ago = (long long)(event->arrived_ms - LONG_AGO_MS);
    snprintf(found + used, sizeof found - used, "%s%.*s#%llu", event->duplicate ? "!" : "",
             (int)event->id.size, event->id.data, (unsigned long long)stored_event_number(event));
    used = strlen(found);
    if (ago < 1000) snprintf(found + used, sizeof found - used, "@%lld", ago);
    strcat(found, " ");
    return --*left > 0;
}

static const char *events(struct heart *heart, const char *tenant, int64_t arrived_from)
{
    unsigned most = EVERY;
    uint64_t next;
    const struct event_query query = {.tenant = tenant ? bytes_str(tenant) : BYTES_NONE,
                                      .upto = UINT64_MAX,
                                      .arrived_from = arrived_from,
                                      .events = true,
                                      .duplicates = true,
                                      .budget = SIZE_MAX};
    found[0] = 0;
    assert_int_equal(view_events(&heart->store->view, &query, found_event, &most, &next), ERR_OK);
    return found;
}

/* One event, found by where its id says that it lies. */
static const char *event_of_id(struct heart *heart, const char *id)
{
    struct key_record record;
    unsigned most = EVERY;
    uint64_t next;
    struct op op = own_event(heart, id);
    found[0] = 0;
    if (view_lookup(&heart->store->view, op.key, &record) != ERR_OK) return "unknown";
    const struct event_query query = {.after = record.sequence - 1,
                                      .upto = record.sequence,
                                      .arrived_from = INT64_MIN,
                                      .events = true,
                                      .budget = SIZE_MAX};
    assert_int_equal(view_events(&heart->store->view, &query, found_event, &most, &next), ERR_OK);
    return found;
}

/* ---- the laws ---- */

static void they_are_read_in_their_order_with_their_numbers_and_times(void **state)
{
    struct heart *heart = *state;
    for (int i = 0; i < 60; i++) /* so that the lane is past the numbers that come */
        done_ok(heart, increment(heart, "views", 1));
    done_ok(heart, import_event(heart, "A1", 3));
    done_ok(heart, import_event(heart, "A2", 7));
    heart_tend(heart); /* what comes is in the journal, what came in the archive */
    done_ok(heart, import_duplicate(heart, "A1", 9, 3));
    heart->asks.tenant = "beta"; /* of another lane there, where numbers are the same */
    done_ok(heart, import_event(heart, "B1", 3));
    done_ok(heart, import_event(heart, "B2", 9));
    heart->asks.tenant = "acme";
    struct op own = done_ok(heart, own_event(heart, "A3"));
    char expected[100];
    snprintf(expected, sizeof expected, "A1#3@3 A2#7@7 !A1#9@9 A3#%llu ",
             (unsigned long long)own.sequence);
    for (unsigned way = 0; way < 4; way++) {
        assert_string_equal(events(heart, "acme", INT64_MIN), expected);
        assert_string_equal(events(heart, "beta", INT64_MIN), "B1#3@3 B2#9@9 ");
        assert_string_equal(events(heart, "acme", LONG_AGO_MS + 8) + 7, strstr(expected, " A3"));
        assert_string_equal(event_of_id(heart, "A2"), "A2#7@7 ");
        if (way == 0) heart_crash(heart, 1);
        if (way == 1) heart_tend(heart);
        if (way == 2) heart_checkpoint(heart);
    }
}

static void a_delivery_of_one_is_a_duplicate_of_its_number_and_time(void **state)
{
    struct heart *heart = *state;
    for (unsigned way = 0; way < 3; way++) {
        if (way == 0) done_ok(heart, import_event(heart, "A1", 3));
        if (way == 1) heart_crash(heart, 1);
        if (way == 2) heart_checkpoint(heart);
        struct op again = done_ok(heart, own_event(heart, "A1"));
        assert_int_equal(again.event->result, EVENT_DUPLICATE);
        assert_int_equal(again.event->first_sequence, 3);
        assert_int_equal(again.event->first_seen_ms, LONG_AGO_MS + 3);
        assert_false(again.event->conflict || again.event->foreign);
    }
}

static void each_is_kept_once(void **state)
{
    struct heart *heart = *state;
    for (int i = 0; i < 20; i++)
        done_ok(heart, increment(heart, "views", 1));
    struct key_record record = {.sequence = 5, .first_seen_ms = LONG_AGO_MS + 5};
    done_ok(heart, import_id(heart, "A1", &record));
    assert_string_equal(event_of_id(heart, "A1"), ""); /* its event is not here */
    struct op again = done_ok(heart, own_event(heart, "A1"));
    assert_int_equal(again.event->first_sequence, 5);
    for (unsigned way = 0; way < 3; way++) {
        done_ok(heart, import_event(heart, "A1", 5));
        done_ok(heart, import_id(heart, "A1", &record));
        assert_string_equal(event_of_id(heart, "A1"), "A1#5@5 ");
        assert_string_equal(events(heart, "acme", INT64_MIN) + strlen("!A1#22 "), "A1#5@5 ");
        if (way == 0) heart_crash(heart, 1);
        if (way == 1) heart_checkpoint(heart);
    }
    struct op own = done_ok(heart, own_event(heart, "A2"));
    done_ok(heart, import_event(heart, "A2", 6)); /* one that came here stays what it is */
    again = done_ok(heart, own_event(heart, "A2"));
    assert_int_equal(again.event->first_sequence, own.sequence);
}

/* Later it may be the number of another event of the lane. */
static void a_number_that_the_lane_has_yet_to_give_out_is_not_kept(void **state)
{
    struct heart *heart = *state;
    struct key_record record = {.sequence = 500, .first_seen_ms = LONG_AGO_MS};
    struct op op = done_ok(heart, import_id(heart, "A1", &record));
    struct op again = done_ok(heart, own_event(heart, "A1"));
    assert_int_equal(again.event->result, EVENT_DUPLICATE);
    assert_int_equal(again.event->first_sequence, op.sequence);
    assert_int_equal(again.event->first_seen_ms, LONG_AGO_MS);
}

/* An id that expired came back: an export of several lanes may have the older record first. */
static void the_newest_record_of_an_id_or_key_counts(void **state)
{
    struct heart *heart = *state;
    for (int i = 0; i < 20; i++)
        done_ok(heart, increment(heart, "views", 1));
    struct key_record older = {.sequence = 4, .first_seen_ms = LONG_AGO_MS};
    struct key_record newer = {.sequence = 8, .first_seen_ms = LONG_AGO_MS + 9};
    done_ok(heart, import_id(heart, "A1", &older));
    done_ok(heart, import_id(heart, "A1", &newer));
    done_ok(heart, import_id(heart, "A1", &older));
    assert_int_equal(done_ok(heart, own_event(heart, "A1")).event->first_sequence, 8);

    struct fingerprint key = ask_key(&heart->asks, "k");
    older = (struct key_record){.first_seen_ms = LONG_AGO_MS, .digest = 1, .exists = true};
    newer = (struct key_record){.first_seen_ms = LONG_AGO_MS + 9, .digest = 2, .exists = true};
    const struct key_record *records[] = {&older, &newer, &older};
    struct key_record now;
    for (unsigned i = 0; i < ARRAY_COUNT(records); i++)
        done_ok(heart, (struct op){.kind = OP_IMPORT_ID, .key = key, .imported_id = records[i]});
    assert_int_equal(view_lookup(&heart->store->view, key, &now), ERR_OK);
    assert_int_equal(now.digest, 2);
}

/* ---- notes ---- */

static void a_note_is_read_back_and_others_are_not(void **state)
{
    struct arena arena;
    struct event_id_note back;
    (void)state;
    arena_init(&arena, 256);
    for (unsigned i = 0; i < 8; i++) {
        const struct event_id_note note = {.owner = i & 1 ? BYTES("12345678") : BYTES_NONE,
                                           .origin = i & 2 ? UINT64_MAX : 0,
                                           .kept = (i & 6) == 6};
        assert_true(event_id_note_decode(event_id_note_encode(&arena, &note), &back));
        assert_true(back.origin == note.origin && back.kept == note.kept);
        assert_true(bytes_equal(back.owner, note.owner));
    }
    assert_false(event_id_note_decode(BYTES("1"), &back));
    assert_false(event_id_note_decode(BYTES("x12345678"), &back));
    assert_false(event_id_note_decode(BYTES("i\0\0\0\0\0\0\0\0"), &back));
    assert_false(event_id_note_decode(BYTES("i1234567812345"), &back));
    arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(they_are_read_in_their_order_with_their_numbers_and_times),
        LAW(a_delivery_of_one_is_a_duplicate_of_its_number_and_time),
        LAW(each_is_kept_once),
        LAW(a_number_that_the_lane_has_yet_to_give_out_is_not_kept),
        LAW(the_newest_record_of_an_id_or_key_counts),
        cmocka_unit_test(a_note_is_read_back_and_others_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
