/* test_timekeeper.c -- batch time from clocks that step: through commits, crashes, settings back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/table.h"
#include "support/heart.h"
#include "tend/tend.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define SWEEP_MS 1000

static struct heart *heart;
static struct tend *tend;

static void tend_begin(void)
{
    tend = tend_new(&(struct tend_config){
        .lanes = &heart->lanes, .sweep_ms = SWEEP_MS, .retention_ms = DAY, .step_ops = 10});
}

static void start(const char *store, int64_t settle_ms)
{
    heart = heart_new((struct heart_config){
        .store = store,
        .simulated_disk = strstr(store, "embedded") != NULL,
        .keeps_time = true,
        .timeline = {.tolerance_ms = 5 * MINUTE, .settle_ms = settle_ms},
        .limits = {.key_keep_ms = 30 * DAY},
    });
    tend_begin();
}

static int teardown(void **state)
{
    heart_run(heart);
    tend_free(tend);
    heart_free(heart);
    return 0;
}

static void run_round(void)
{
    tend_round(tend);
    heart_run(heart);
}

/* The next life, `gap_ms` of the wall clock later. */
static void crash(int64_t gap_ms)
{
    heart_run(heart);
    tend_free(tend);
    heart->time->wall_ms += gap_ms;
    heart_crash(heart, 1);
    tend_begin();
}

static struct op use(const char *key)
{
    struct op op = ask_keyed(&heart->asks, ask(&heart->asks, OP_INCREMENT, "n", 1), key, 1);
    return heart_do(heart, op);
}

static void add(const char *name, int64_t expires_ms)
{
    struct op op = ask(&heart->asks, OP_INCREMENT, name, 1);
    op.expires_ms = expires_ms;
    assert_int_equal(heart_do(heart, op).err, ERR_OK);
}

static int64_t batch_time(void)
{
    return heart->inner->writer.position.time_ms;
}

/* The wall clock goes ahead for an instant in which something commits. */
static void step_for_an_instant(int64_t step_ms)
{
    heart->time->wall_ms += step_ms;
    heart_wait_ms(heart, 100);
    add("other", TIME_NONE);
    heart->time->wall_ms -= step_ms;
    heart_wait_ms(heart, 100);
}

static void a_clock_that_steps_for_an_instant_doubles_no_keyed_write(void **state)
{
    start("memory", 0);
    assert_false(use("K1").replayed);
    step_for_an_instant(31 * DAY);
    assert_true(use("K1").replayed);
    assert_int_equal(heart_net(heart, "n"), 1);
    assert_int_equal(batch_time(), HEART_START_MS + 100);
}

static void a_clock_that_steps_for_an_instant_expires_nothing(void **state)
{
    start("memory", 0);
    add("cell", HEART_START_MS + HOUR);
    heart->time->wall_ms += 31 * DAY;
    heart->time->mono_ns += SWEEP_MS * 1000000;
    run_round();
    assert_int_equal(heart_net(heart, "cell"), 1);
    heart_wait_ms(heart, HOUR); /* it does so by the time that passes */
    run_round();
    assert_int_equal(heart_net(heart, "cell"), -1);
}

static void after_a_start_nothing_expires_by_the_wall_clock_until_it_has_settled(void **state)
{
    start("embedded", 10 * MINUTE);
    heart_wait_ms(heart, 10 * MINUTE);
    add("cell", heart->time->wall_ms + HOUR);
    assert_false(use("K1").replayed);
    crash(31 * DAY);
    heart_wait_ms(heart, 10 * MINUTE - 1);
    run_round();
    assert_int_equal(heart_net(heart, "cell"), 1);
    assert_true(use("K1").replayed);
    heart_wait_ms(heart, SWEEP_MS);
    run_round();
    assert_int_equal(heart_net(heart, "cell"), -1);
    assert_false(use("K1").replayed);
}

static void crashes_do_not_make_the_time_between_lives_sure(void **state)
{
    start("embedded", 10 * MINUTE);
    heart_wait_ms(heart, 10 * MINUTE);
    add("cell", heart->time->wall_ms + HOUR);
    crash(31 * DAY);
    for (unsigned i = 0; i < 4; i++) {
        run_round();
        heart_wait_ms(heart, 5 * MINUTE);
        run_round();
        assert_int_equal(heart_net(heart, "cell"), 1);
        crash(0);
    }
}

static void in_a_new_store_nothing_expires_until_the_clock_has_settled(void **state)
{
    start("memory", 10 * MINUTE);
    add("cell", 1);
    heart_wait_ms(heart, 10 * MINUTE - 1);
    run_round();
    assert_int_equal(heart_net(heart, "cell"), 1);
    heart_wait_ms(heart, SWEEP_MS);
    run_round();
    assert_int_equal(heart_net(heart, "cell"), -1);
}

static void a_clock_that_was_wrong_at_the_start_is_set_back_and_that_survives(void **state)
{
    start("embedded", 10 * MINUTE);
    heart_wait_ms(heart, 10 * MINUTE);
    add("other", TIME_NONE);
    crash(31 * DAY);
    assert_false(use("K1").replayed);
    heart->time->wall_ms -= 31 * DAY;
    add("other", TIME_NONE); /* nothing is set back but by the record */
    assert_int_equal(batch_time(), HEART_START_MS + 10 * MINUTE + 31 * DAY);
    run_round();
    assert_int_equal(batch_time(), heart->time->wall_ms);
    assert_true(use("K1").replayed);
    heart_wait_ms(heart, HOUR);
    crash(0);
    assert_int_equal(batch_time(), HEART_START_MS + 10 * MINUTE);
    assert_true(use("K1").replayed);
    add("other", TIME_NONE);
    assert_int_equal(batch_time(), heart->time->wall_ms);
    heart_wait_ms(heart, 29 * DAY);
    assert_true(use("K1").replayed);
    heart_wait_ms(heart, DAY); /* as old as it is */
    assert_false(use("K1").replayed);
}

static struct timekeeper_note note;
static unsigned notes_answered;

static void note_answered(struct bundle *bundle)
{
    notes_answered++;
    timekeeper_noted(CONTAINER_OF(bundle, struct timekeeper_note, bundle));
}

static enum err set_back(void)
{
    assert_true(timekeeper_note(heart->keeper, &note, true));
    note.bundle.done = note_answered;
    unsigned before = notes_answered;
    assert_int_equal(queue_push(heart->queue, &note.bundle), ERR_OK);
    heart_run(heart);
    assert_int_equal(notes_answered, before + 1);
    return note.bundle.err;
}

static void lead(const char *store)
{
    start(store, 0);
    assert_false(use("K1").replayed);
    heart->time->wall_ms += 29 * DAY;
    timekeeper_accept(heart->keeper); /* by mistake */
    assert_true(use("K1").replayed);
    add("other", TIME_NONE);
    heart->time->wall_ms -= 29 * DAY;
    heart_wait_ms(heart, SECOND);
    add("other", TIME_NONE);
    assert_int_equal(batch_time(), HEART_START_MS + 29 * DAY + SECOND);
}

/* What the second says would be of what the first one may yet change: a caretaker's note on its way
 * ended the process when an operator set time back. */
static void one_note_is_on_its_way_at_a_time(void **state)
{
    struct timekeeper_note other;
    lead("embedded");
    assert_true(timekeeper_note(heart->keeper, &note, false));
    assert_false(timekeeper_wants_note(heart->keeper));
    assert_false(timekeeper_note(heart->keeper, &other, true));
    note.bundle.done = note_answered;
    assert_int_equal(queue_push(heart->queue, &note.bundle), ERR_OK);
    heart_run(heart);
    assert_int_equal(note.bundle.err, ERR_OK);
    assert_int_equal(set_back(), ERR_OK);
    assert_int_equal(batch_time(), HEART_START_MS + SECOND);
}

static void after_a_lead_only_a_reset_takes_time_back(void **state)
{
    lead("embedded");
    assert_int_equal(set_back(), ERR_OK);
    assert_int_equal(batch_time(), HEART_START_MS + SECOND);
    assert_true(use("K1").replayed);
    crash(SECOND);
    assert_int_equal(batch_time(), HEART_START_MS + SECOND);
    assert_true(use("K1").replayed);
}

/* The note of the leap comes after the batch that is dated by it, and the life may end in between.
 */
static void a_leap_that_was_not_noted_before_a_crash_ages_nothing(void **state)
{
    start("embedded", 0);
    assert_false(use("K1").replayed);
    heart->time->wall_ms -= 40 * DAY;
    assert_int_equal(set_back(), ERR_OK); /* by mistake */
    assert_true(use("K1").replayed);
    heart->time->wall_ms += 40 * DAY - SECOND;
    timekeeper_accept(heart->keeper);
    add("other", TIME_NONE);
    assert_int_equal(batch_time(), HEART_START_MS - SECOND);
    crash(0);
    assert_true(use("K1").replayed);
}

/* Errors add: the wall clock that the lead is measured by may be wrong by the rest. */
static void a_lead_of_most_of_the_tolerance_is_not_sure_after_a_crash_either(void **state)
{
    start("embedded", 0);
    heart->time->wall_ms += 4 * MINUTE; /* followed: the tolerance is five */
    add("other", TIME_NONE);
    heart->time->wall_ms -= 4 * MINUTE;
    run_round();
    crash(-2 * MINUTE);
    add("other", TIME_NONE);
    assert_int_equal(batch_time(), HEART_START_MS + 4 * MINUTE);
    struct moment moment = clock_moment(heart->clock);
    assert_true(moment_sure(&moment) <= HEART_START_MS);
}

/* The step is followed and dates a batch, and the life ends before it is recorded. */
static void a_step_of_what_is_not_sure_is_not_sure_after_a_crash_either(void **state)
{
    start("embedded", 10 * MINUTE);
    heart_wait_ms(heart, 10 * MINUTE);
    add("other", TIME_NONE);
    crash(DAY);
    run_round();
    heart->time->wall_ms += 4 * MINUTE; /* followed: the tolerance is five */
    heart_wait_ms(heart, SECOND);
    add("other", TIME_NONE);
    crash(0);
    struct moment moment = clock_moment(heart->clock);
    assert_true(moment_sure(&moment) <= HEART_START_MS + 10 * MINUTE + SECOND);
}

static void a_lead_that_grows_is_recorded_again(void **state)
{
    start("embedded", 0);
    heart->time->wall_ms += DAY;
    timekeeper_accept(heart->keeper); /* by mistake */
    add("other", TIME_NONE);
    heart->time->wall_ms -= HOUR;
    timekeeper_accept(heart->keeper); /* the same mistake, nearly */
    run_round();
    heart->time->wall_ms -= DAY - HOUR;
    timekeeper_accept(heart->keeper);
    run_round();
    crash(0);
    struct moment moment = clock_moment(heart->clock);
    assert_true(moment_sure(&moment) <= HEART_START_MS);
}

static void a_reset_that_does_not_become_durable_is_made_again(void **state)
{
    lead("fault embedded");
    fault_fail(heart->store, FAULT_SYNC, 1);
    assert_int_equal(set_back(), ERR_STORAGE);
    heart_tend(heart);
    add("other", TIME_NONE);
    assert_int_equal(batch_time(), HEART_START_MS + 29 * DAY + SECOND);
    fault_fail(heart->store, FAULT_LOAD, 1); /* or was not even decided */
    run_round();
    add("other", TIME_NONE);
    assert_int_equal(batch_time(), HEART_START_MS + 29 * DAY + SECOND);
    run_round();
    assert_int_equal(batch_time(), HEART_START_MS + SECOND);
    assert_true(use("K1").replayed);
}

/* Until it is made again batches are dated as before it, so it goes back by less. */
static void what_is_used_before_a_reset_is_made_again_does_not_age_by_it(void **state)
{
    start("fault embedded", 0);
    heart->time->wall_ms += 40 * DAY;
    timekeeper_accept(heart->keeper); /* by mistake */
    add("other", TIME_NONE);
    heart->time->wall_ms -= 40 * DAY;
    fault_fail(heart->store, FAULT_SYNC, 1);
    assert_int_equal(set_back(), ERR_STORAGE);
    heart_tend(heart);
    heart_wait_ms(heart, 31 * DAY);
    assert_false(use("K1").replayed);
    assert_int_equal(batch_time(), HEART_START_MS + 40 * DAY);
    run_round();
    assert_int_equal(batch_time(), HEART_START_MS + 31 * DAY);
    assert_true(use("K1").replayed);
}

static bool count_event(void *context, const struct stored_event *stored)
{
    (void)stored;
    ++*(unsigned *)context;
    return true;
}

/* As a rebuild sees it. */
static unsigned retained_events(void)
{
    uint64_t retained_ms, next;
    unsigned count = 0;
    assert_int_equal(store_number(heart->store, META_RETAINED, &retained_ms), ERR_OK);
    const struct event_query query = {.upto = UINT64_MAX,
                                      .arrived_from = (int64_t)retained_ms,
                                      .events = true,
                                      .budget = SIZE_MAX};
    assert_int_equal(view_events(&heart->store->view, &query, count_event, &count, &next), ERR_OK);
    return count;
}

static void deliver(const char *id)
{
    assert_int_equal(heart_do(heart, ask_event(&heart->asks, id, "up", "", NULL)).err, ERR_OK);
    assert_true(heart_checkpoint(heart)); /* to the archive, in a file of its own */
}

/* Retention went by the lead: the time from which on events are retained lay ahead. */
static void what_arrives_after_a_reset_is_retained(void **state)
{
    start("embedded", 0);
    deliver("E1");
    deliver("E2");
    heart->time->wall_ms += 40 * DAY;
    timekeeper_accept(heart->keeper); /* by mistake */
    for (unsigned i = 0; i < 3; i++) {
        heart->time->mono_ns += HOUR * 1000000;
        run_round();
    }
    assert_int_equal(retained_events(), 0);
    heart->time->wall_ms = HEART_START_MS + 3 * HOUR;
    assert_int_equal(set_back(), ERR_OK);
    deliver("E3");
    deliver("E4");
    assert_int_equal(retained_events(), 2);
    crash(SECOND);
    run_round();
    assert_int_equal(retained_events(), 2);
    heart_wait_ms(heart, DAY + HOUR); /* and retention goes on from there */
    deliver("E5");
    run_round();
    heart_wait_ms(heart, HOUR);
    run_round();
    assert_int_equal(retained_events(), 1);
}

static void the_same_reset_twice_is_two_records(void **state)
{
    lead("embedded");
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(set_back(), ERR_OK);
        add("other", TIME_NONE);
        assert_int_equal(batch_time(), heart->time->wall_ms);
        heart->time->wall_ms += 29 * DAY;
        timekeeper_accept(heart->keeper);
        add("other", TIME_NONE);
        heart->time->wall_ms -= 29 * DAY;
        heart_wait_ms(heart, SECOND);
    }
}

static void what_rocksdb_forgets_the_decision_has_forgotten(void **state)
{
    start("embedded", 0);
    assert_false(use("K1").replayed);
    assert_true(heart_checkpoint(heart));
    heart->time->wall_ms += 31 * DAY; /* nobody decides by this */
    add("other", TIME_NONE);
    assert_true(heart_checkpoint(heart));
    crash(-31 * DAY);
    assert_true(use("K1").replayed);
}

static void a_clock_before_the_last_batch_is_suspect_and_that_is_said(void **state)
{
    struct timekeeper_state seen;
    start("embedded", 0);
    add("other", TIME_NONE);
    crash(-HOUR);
    heart_wait_ms(heart, SECOND);
    timekeeper_state(heart->keeper, &seen);
    assert_true(seen.suspect);
    assert_int_equal(seen.moment.now_ms, HEART_START_MS + SECOND);
    heart->time->wall_ms += HOUR;
    timekeeper_state(heart->keeper, &seen);
    assert_false(seen.suspect);
}

#define KEEPER(test) cmocka_unit_test_teardown(test, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEEPER(a_clock_that_steps_for_an_instant_doubles_no_keyed_write),
        KEEPER(a_clock_that_steps_for_an_instant_expires_nothing),
        KEEPER(after_a_start_nothing_expires_by_the_wall_clock_until_it_has_settled),
        KEEPER(crashes_do_not_make_the_time_between_lives_sure),
        KEEPER(in_a_new_store_nothing_expires_until_the_clock_has_settled),
        KEEPER(a_clock_that_was_wrong_at_the_start_is_set_back_and_that_survives),
        KEEPER(one_note_is_on_its_way_at_a_time),
        KEEPER(after_a_lead_only_a_reset_takes_time_back),
        KEEPER(a_leap_that_was_not_noted_before_a_crash_ages_nothing),
        KEEPER(a_lead_of_most_of_the_tolerance_is_not_sure_after_a_crash_either),
        KEEPER(a_step_of_what_is_not_sure_is_not_sure_after_a_crash_either),
        KEEPER(a_lead_that_grows_is_recorded_again),
        KEEPER(a_reset_that_does_not_become_durable_is_made_again),
        KEEPER(what_is_used_before_a_reset_is_made_again_does_not_age_by_it),
        KEEPER(what_arrives_after_a_reset_is_retained),
        KEEPER(the_same_reset_twice_is_two_records),
        KEEPER(what_rocksdb_forgets_the_decision_has_forgotten),
        KEEPER(a_clock_before_the_last_batch_is_suspect_and_that_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
