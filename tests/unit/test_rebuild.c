/* test_rebuild.c -- a rebuild step by step: what it is made of, what it must not lose, and how it
 * ends (SPEC 7). */
#include "core/cell.h"
#include "support/rebuild_world.h"

#define MOST "9223372036854775807"

static double job_number(const char *id, const char *field)
{
    struct buf json;
    char name[32];
    snprintf(name, sizeof name, "\"%s\":", field);
    buf_init(&json, 4096);
    assert_int_equal(rebuild_describe(rebuilds, bytes_str(id), &json), ERR_OK);
    buf_add_char(&json, 0);
    const char *at = strstr(json.data, name);
    assert_non_null(at);
    at += strlen(name);
    double number = strtod(*at == '"' ? at + 1 : at, NULL);
    buf_release(&json);
    return number;
}

static bool job_says(const char *id, const char *what)
{
    struct buf json;
    buf_init(&json, 4096);
    assert_int_equal(rebuild_describe(rebuilds, bytes_str(id), &json), ERR_OK);
    buf_add_char(&json, 0);
    bool found = strstr(json.data, what) != NULL;
    buf_release(&json);
    return found;
}

/* What retention does, without waiting for years. */
static void let_go_before(int64_t before_ms)
{
    struct arena arena;
    arena_init(&arena, 1024);
    struct op op = propose_object(&arena, &heart->store->secret,
                                  object_key(&arena, OBJECT_META, META_RETAINED),
                                  object_number(&arena, (uint64_t)before_ms));
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
    arena_release(&arena);
    store_forget(heart->store, before_ms);
}

static void a_rebuild_counts_what_was_there_before_the_counter(void **state)
{
    (void)state;
    enact("counters:\n" COUNTER("a"));
    event("E1", "{\"n\":5}");
    event("E2", "{\"n\":2}");
    enact("counters:\n" COUNTER("a") COUNTER("b"));
    event("E3", "{\"n\":1}");
    assert_int_equal(net("b"), 1);
    assert_int_equal(ask_for("b"), ERR_OK);
    steps();
    assert_true(job_says("1", "\"done\""));
    assert_int_equal(net("a"), 8);
    assert_int_equal(net("b"), 8);
}

/* It was once the wall clock, cut to 32 bits: after 49 days a counter got another one's cells. */
static void generations_are_counted_not_timed(void **state)
{
    (void)state;
    enact("counters:\n" COUNTER("a"));
    assert_int_equal(generation("a"), 1);
    for (uint32_t next = 2; next < 5; next++) {
        assert_int_equal(ask_for("a"), ERR_OK);
        steps();
        assert_int_equal(generation("a"), next);
    }
    enact("counters:\n" COUNTER("a") COUNTER("b"));
    assert_int_equal(generation("b"), 5);
}

/* The last chunk is made by the commit thread after the chunk before it has moved the job, which
 * was then still expected where it had been: that the rebuild failed could not be written down. */
static void a_rebuild_whose_last_chunk_fails_is_over(void **state)
{
    (void)state;
    static const char *const keys[] = {"k=1", "k=2", "k=3", "k=4", "k=5"};
    enact("counters:\n- counterName: a\n  dimensions: [k]\n"
          "  rules: [{on: up, op: increment, amount: payload.n}]\n");
    for (unsigned i = 0; i < ARRAY_COUNT(keys); i++) {
        struct op op = ask_event(&heart->asks, keys[i], "up", keys[i],
                                 i < 3 ? "{\"n\":1}" : "{\"n\":" MOST "}");
        assert_int_equal(heart_do(heart, op).err, ERR_OK);
    }
    enact("counters:\n" COUNTER("a")); /* all of them together do not fit into 64 bits */
    assert_int_equal(ask_for("a"), ERR_OK);
    assert_true(steps() < STEPS_MAX);
    assert_true(job_says("1", "\"failed\""));
    assert_true(job_says("1", "overflow"));
    assert_int_equal(conflicts, 0);
}

/* It is made of the events that were there when it began; that some went meanwhile does not make
 * the rest all of it. */
static void a_second_rebuild_does_not_lose_what_the_first_one_found(void **state)
{
    (void)state;
    enum { EVENTS = 60 }; /* more than the last chunk takes */
    enact("counters:\n" COUNTER("a"));
    events("E", EVENTS);
    enact("counters:\n" COUNTER("a") COUNTER("b"));
    assert_int_equal(ask_for("b"), ERR_OK);
    assert_int_equal(rebuild_step(rebuilds), DESK_AGAIN); /* it begins */
    assert_int_equal(rebuild_step(rebuilds), DESK_AGAIN); /* three of them */
    let_go_before(HEART_START_MS + 2500);
    steps();
    assert_true(job_says("1", "\"done\""));
    assert_int_equal(net("b"), EVENTS);
    assert_int_equal(ask_for("b"), ERR_HISTORY);
}

enum { EARLY = 3, LATE = 60 }; /* more than the last chunk takes */

static void many_more_come(void)
{
    events("late", LATE);
}

/* The commit thread replays what came meanwhile, up to a bound; past it, it must not swap yet: the
 * events that it had no room for would be in neither generation. */
static void a_swap_waits_until_every_event_is_counted(void **state)
{
    (void)state;
    enact("counters:\n" COUNTER("a"));
    events("early", EARLY);
    assert_int_equal(ask_for("a"), ERR_OK);
    assert_int_equal(rebuild_step(rebuilds), DESK_AGAIN); /* it begins */
    before_swap = many_more_come;
    assert_int_equal(rebuild_step(rebuilds), DESK_AGAIN); /* to be swapped, had none come */
    assert_null(before_swap);
    assert_true(job_says("1", "\"running\""));
    assert_int_equal(generation("a"), 1);
    assert_int_equal(net("a"), EARLY + LATE);
    steps();
    assert_true(job_says("1", "\"done\""));
    assert_int_equal(generation("a"), 2);
    assert_int_equal(net("a"), EARLY + LATE);
}

enum { FEW = 20 }; /* that the last chunk takes at once */

static void half_of_them_go(void)
{
    let_go_before(HEART_START_MS + FEW / 2 * 1000);
}

/* Seen complete by the last replay, and no longer by the swap, which counts the rest. */
static void a_swap_looks_whether_history_is_still_complete(void **state)
{
    (void)state;
    enact("counters:\n" COUNTER("a"));
    events("E", FEW);
    assert_int_equal(ask_for("a"), ERR_OK);
    assert_int_equal(rebuild_step(rebuilds), DESK_AGAIN); /* it begins */
    before_swap = half_of_them_go;
    steps();
    assert_null(before_swap);
    assert_true(job_says("1", "\"failed\""));
    assert_int_equal(generation("a"), 1);
    assert_int_equal(net("a"), FEW);
}

static bool goes_back(struct bundle *bundle)
{
    (void)bundle;
    return true;
}

/* The clock was wrong, and retention went by it. */
static void time_is_set_back(void)
{
    struct arena arena;
    arena_init(&arena, 1024);
    heart->time->wall_ms = HEART_START_MS + 1000 * 1000;
    struct op op = propose_object(&arena, &heart->store->secret,
                                  object_key(&arena, OBJECT_META, META_RETAINED),
                                  object_number(&arena, (uint64_t)heart->time->wall_ms));
    struct bundle bundle = {.ops = &op, .count = 1, .urgency = URGENCY_URGENT, .retime = goes_back};
    assert_int_equal(propose(NULL, &bundle), ERR_OK);
    arena_release(&arena);
    events("after", FEW);
}

/* It was seen where history begins before time was set back. */
static void a_swap_takes_what_came_after_time_was_set_back(void **state)
{
    (void)state;
    enact("counters:\n" COUNTER("a"));
    events("before", FEW);
    heart_wait_ms(heart, 5000 * 1000);
    let_go_before(heart->time->wall_ms);
    assert_int_equal(ask_for("a"), ERR_HISTORY);
    assert_int_equal(wish_for((struct rebuild_wish){.counter = BYTES("a"), .force = true}), ERR_OK);
    assert_int_equal(rebuild_step(rebuilds), DESK_AGAIN); /* it begins */
    before_swap = time_is_set_back;
    steps();
    assert_null(before_swap);
    assert_true(job_says("1", "\"done\""));
    assert_int_equal(net("a"), FEW);
    let_go_before(heart->time->wall_ms); /* which it is known to have counted */
    assert_int_equal(ask_for("a"), ERR_HISTORY);
}

/* What is past its retention may still lie on the disk, for its neighbours' sake. */
static void a_forced_rebuild_counts_what_is_retained_and_no_more(void **state)
{
    (void)state;
    enact("counters:\n" COUNTER("a"));
    events("E", FEW);
    half_of_them_go();
    assert_int_equal(ask_for("a"), ERR_HISTORY);
    assert_int_equal(wish_for((struct rebuild_wish){.counter = BYTES("a"), .force = true}), ERR_OK);
    steps();
    assert_true(job_says("1", "\"done\""));
    assert_int_equal(net("a"), FEW / 2);
}

/* From the first event on, by the new ones only. */
static void rules_that_change_meanwhile_start_it_anew(void **state)
{
    (void)state;
    enum { EVENTS = 60 };
    enact("counters:\n" COUNTER("a"));
    events("E", EVENTS);
    assert_int_equal(ask_for("a"), ERR_OK);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(rebuild_step(rebuilds), DESK_AGAIN);
    assert_true(job_says("1", "\"running\""));
    enact("counters:\n- counterName: a\n  rules: [{on: up, op: increment, amount: 10}]\n");
    steps();
    assert_true(job_says("1", "\"done\""));
    assert_int_equal(net("a"), 10 * EVENTS);
}

static void the_old_generation_is_removed_and_nothing_else(void **state)
{
    (void)state;
    enact("counters:\n" COUNTER("a") COUNTER("b"));
    events("E", FEW);
    assert_int_equal(heart_tenant_cells(heart), 2);
    assert_int_equal(ask_for("a"), ERR_OK);
    steps();
    assert_int_equal(heart_tenant_cells(heart), 3); /* left to those who began to read it */
    heart_wait_ms(heart, 10000);
    clean();
    assert_int_equal(heart_tenant_cells(heart), 2);
    assert_int_equal(net("a"), FEW);
    assert_int_equal(net("b"), FEW);
}

static struct cell window_of(const char *name)
{
    struct bytes key =
        rule_key(&heart->asks.arena, BYTES("acme"), bytes_str(name), generation(name), BYTES("{}"));
    struct cell_ref ref = {key, fingerprint_of(heart->asks.secret, key), WINDOW_DURATION, 0};
    struct cell cell;
    assert_int_equal(view_get(&heart->store->view, &ref, 0, READ_ALL, &cell), ERR_OK);
    return cell;
}

/* An event a second for seventy: one window is over, ten events are in the next. */
static void windows_are_rebuilt_by_the_time_of_arrival(void **state)
{
    (void)state;
    enact("counters:\n- counterName: w\n  mode: windowed\n  window: 1m\n  trailing: true\n"
          "  rules: [{on: up, op: increment}]\n");
    events("E", 70);
    struct cell before = window_of("w");
    assert_int_equal(cell_triple(&before).net, 10);
    assert_int_equal(before.start_ms, HEART_START_MS + 60 * 1000);
    int64_t cells = heart_tenant_cells(heart);
    assert_int_equal(ask_for("w"), ERR_OK);
    steps();
    assert_int_equal(generation("w"), 2);
    struct cell after = window_of("w");
    assert_true(cell_equal(&before, &after));
    heart_wait_ms(heart, 10000);
    clean();
    assert_int_equal(heart_tenant_cells(heart), cells); /* the seconds of the trailing count, too */
}

/* It was measured against a journal that its own work made longer: half at the end. */
static void progress_is_the_share_of_events_counted(void **state)
{
    (void)state;
    enum { EVENTS = 200 };
    enact("counters:\n" COUNTER("a"));
    events("E", EVENTS);
    assert_int_equal(ask_for("a"), ERR_OK);
    assert_true(job_number("1", "progress") == 0);
    while (rebuild_step(rebuilds) == DESK_AGAIN && job_says("1", "\"running\"")) {
        double off = job_number("1", "progress") - job_number("1", "events") / EVENTS;
        assert_true(off < 0.05 && off > -0.05);
        assert_true(job_number("1", "progress") < 1);
    }
    assert_true(job_says("1", "\"done\""));
    assert_true(job_number("1", "progress") == 1);
}

static void what_retention_let_go_of_cannot_be_counted_again(void **state)
{
    (void)state;
    enact("counters:\n" COUNTER("a"));
    event("E1", "{\"n\":5}");
    event("E2", "{\"n\":2}");
    let_go_before(HEART_START_MS); /* nothing it counted */
    assert_int_equal(ask_for("a"), ERR_OK);
    steps();
    assert_int_equal(net("a"), 7);
    let_go_before(HEART_START_MS + 500);
    assert_int_equal(ask_for("a"), ERR_HISTORY);
    assert_int_equal(net("a"), 7);
}

static void rebuilds_start_again(size_t weight)
{
    rebuilds_free(rebuilds);
    batch_weight = weight;
    rebuilds_start();
}

static void event_with_payload(const char *id, int size)
{
    char payload[4000];
    snprintf(payload, sizeof payload, "{\"n\":1,\"text\":\"%0*d\"}", size, 0);
    event(id, payload);
}

/* It once took one more event when it was nearly full, and that one weighed as much as a batch. */
static void a_chunk_is_no_heavier_than_a_batch(void **state)
{
    (void)state;
    enum { LIGHT = 450, HEAVY = 2000, WEIGHT = 3000 };
    enact("counters:\n" COUNTER("a"));
    for (unsigned i = 0; i < 12; i++) {
        char id[32];
        snprintf(id, sizeof id, "E%u", i);
        event_with_payload(id, i % 3 == 2 ? HEAVY : LIGHT);
    }
    rebuilds_start_again(WEIGHT);
    assert_int_equal(ask_for("a"), ERR_OK);
    steps();
    assert_true(job_says("1", "\"done\""));
    assert_int_equal(net("a"), 12);
    assert_true(heaviest > 0);
    assert_true(heaviest <= WEIGHT);
}

/* A block that no segment has room for would end the process. */
static void an_event_too_heavy_for_a_batch_ends_its_rebuild(void **state)
{
    (void)state;
    enact("counters:\n" COUNTER("a"));
    event_with_payload("E1", 1000);
    rebuilds_start_again(1000);
    assert_int_equal(ask_for("a"), ERR_OK);
    assert_true(steps() < STEPS_MAX);
    assert_true(job_says("1", "\"failed\""));
    assert_true(job_says("1", "The event is over"));
    assert_int_equal(net("a"), 1);
}

/* A queue that does not know what an object weighs puts more into a batch than its segment holds.
 */
static void every_proposal_says_what_it_weighs(void **state)
{
    (void)state;
    enact("counters:\n" COUNTER("a") COUNTER("b"));
    event("E1", "{\"n\":5}");
    assert_int_equal(ask_for("a"), ERR_OK);
    steps();
    enact("counters:\n" COUNTER("a"));
    assert_int_equal(rebuild_forget(rebuilds, BYTES("b")), ERR_OK);
    heart_wait_ms(heart, 10000);
    clean();
    assert_true(weighed);
}

/* Found while it was frozen, sent when it is in the config again. */
static void a_counter_that_came_back_is_not_removed(void **state)
{
    (void)state;
    struct arena arena;
    arena_init(&arena, 1024);
    enact("counters:\n" COUNTER("a"));
    event("E1", "{\"n\":5}");
    struct bytes key = rule_key(&arena, BYTES("acme"), BYTES("a"), 1, BYTES("{}"));
    struct op removal = propose_delete(&arena, &heart->store->secret, key);
    assert_int_equal(heart_do(heart, removal).err, ERR_MANAGED);
    assert_int_equal(net("a"), 5);
    struct bytes state_key =
        object_state_key(&arena, BYTES("acme"), BYTES("a"), 1, BYTES("{\"e\":\"1\"}"));
    removal = propose_object(&arena, &heart->store->secret, state_key, BYTES_NONE);
    assert_int_equal(heart_do(heart, removal).err, ERR_MANAGED);
    enact("counters:\n" COUNTER("b"));
    removal = propose_delete(&arena, &heart->store->secret, key);
    assert_int_equal(heart_do(heart, removal).err, ERR_OK);
    arena_release(&arena);
}

static void what_waits_while_its_counter_is_forgotten_counts_directly(void **state)
{
    (void)state;
    enact("counters:\n" COUNTER("a"));
    enact("counters: []\n");
    struct op op = ask(&heart->asks, OP_INCREMENT, "a", 3);
    assert_int_equal(heart_do(heart, op).err, ERR_MANAGED);
    struct sent *sent = heart_send(heart, (struct bundle){0}, &op, 1);
    assert_int_equal(rebuild_forget(rebuilds, BYTES("a")), ERR_OK);
    assert_int_equal(sent->bundle.ops[0].err, ERR_OK);
    assert_int_equal(heart_net(heart, "a"), 3);
}

/* Two nodes that reload at once might give one generation to two counters. */
static void garbage_of_one_counter_is_no_others(void **state)
{
    (void)state;
    struct asks *asks = &heart->asks;
    enact("counters:\n" COUNTER("a"));
    event("E1", "{\"n\":5}");
    uint32_t mine = generation("a");
    enact("counters: []\n"); /* nothing in force protects it */
    struct op op = ask_object(asks, "", "");
    op.object->key = object_garbage_key(&asks->arena, BYTES("b"), mine);
    op.object->print = fingerprint_of(asks->secret, op.object->key);
    op.object->value = object_number(&asks->arena, 0);
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
    clean();
    assert_int_equal(heart_rule_net(heart, "a", mine), 5);
    op.object->key = object_garbage_key(&asks->arena, BYTES("a"), mine);
    op.object->print = fingerprint_of(asks->secret, op.object->key);
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
    clean();
    assert_int_equal(heart_rule_net(heart, "a", mine), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(a_rebuild_counts_what_was_there_before_the_counter),
        LAW(generations_are_counted_not_timed),
        LAW(a_rebuild_whose_last_chunk_fails_is_over),
        LAW(a_second_rebuild_does_not_lose_what_the_first_one_found),
        LAW(a_swap_waits_until_every_event_is_counted),
        LAW(a_swap_looks_whether_history_is_still_complete),
        LAW(a_swap_takes_what_came_after_time_was_set_back),
        LAW(a_forced_rebuild_counts_what_is_retained_and_no_more),
        LAW(rules_that_change_meanwhile_start_it_anew),
        LAW(the_old_generation_is_removed_and_nothing_else),
        LAW(windows_are_rebuilt_by_the_time_of_arrival),
        LAW(progress_is_the_share_of_events_counted),
        LAW(what_retention_let_go_of_cannot_be_counted_again),
        LAW(every_proposal_says_what_it_weighs),
        LAW(garbage_of_one_counter_is_no_others),
        LAW(what_waits_while_its_counter_is_forgotten_counts_directly),
        LAW(a_chunk_is_no_heavier_than_a_batch),
        LAW(an_event_too_heavy_for_a_batch_ends_its_rebuild),
        LAW(a_counter_that_came_back_is_not_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
