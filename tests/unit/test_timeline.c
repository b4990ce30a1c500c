/* test_timeline.c -- the sentences of SPEC 10, "Clocks", each a test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/must.h"
#include "core/timeline.h"

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define NOW (20000 * DAY)

struct clocks {
    struct timeline timeline;
    struct clock_reading reading;
    struct moment recorded;
};

static const struct timeline_settings settings = {.tolerance_ms = 5 * MINUTE,
                                                  .settle_ms = 10 * MINUTE};

/* The wall clock says `wall_ms`; `last_ms` is the time of the batch before. */
static struct clocks clocks_at(int64_t last_ms, int64_t wall_ms)
{
    struct clocks clocks = {.reading = {.wall_ms = wall_ms, .boot_ms = 77 * SECOND},
                            .recorded = {.now_ms = last_ms}};
    timeline_start(&clocks.timeline, &settings, &clocks.reading, &clocks.recorded);
    return clocks;
}

/* Both clocks go on, and then the wall clock steps. */
static struct moment after(struct clocks *clocks, int64_t passed_ms, int64_t step_ms)
{
    clocks->reading.boot_ms += passed_ms;
    clocks->reading.wall_ms += passed_ms + step_ms;
    timeline_look(&clocks->timeline, &clocks->reading);
    return timeline_moment(&clocks->timeline);
}

/* One that has run for long, and is certain of its time. */
static struct clocks steady(void)
{
    struct clocks clocks = clocks_at(NOW, NOW);
    after(&clocks, DAY + HOUR, 0);
    assert_int_equal(timeline_moment(&clocks.timeline).held_ms, 0);
    return clocks;
}

static int64_t now_of(const struct clocks *clocks)
{
    return timeline_moment(&clocks->timeline).now_ms;
}

static void time_follows_a_steady_wall_clock(void **state)
{
    struct clocks clocks = steady();
    int64_t before_ms = now_of(&clocks);
    assert_int_equal(after(&clocks, 1500, 0).now_ms, before_ms + 1500);
    assert_int_equal(now_of(&clocks), clocks.reading.wall_ms);
}

static void suspend_and_resume_are_no_step(void **state)
{
    struct clocks clocks = steady();
    after(&clocks, 9 * DAY, 0);
    assert_false(clocks.timeline.suspect);
    assert_int_equal(now_of(&clocks), clocks.reading.wall_ms);
}

static void a_step_within_the_tolerance_is_followed(void **state)
{
    struct clocks clocks = steady();
    after(&clocks, SECOND, 5 * MINUTE);
    assert_false(clocks.timeline.suspect);
    assert_int_equal(now_of(&clocks), clocks.reading.wall_ms);
}

static void after_a_larger_step_time_goes_on_from_where_it_was(void **state)
{
    for (int sign = -1; sign <= 1; sign += 2) {
        struct clocks clocks = steady();
        int64_t before_ms = now_of(&clocks);
        struct moment moment = after(&clocks, SECOND, sign * 31 * DAY);
        assert_true(clocks.timeline.suspect);
        assert_int_equal(moment.now_ms, before_ms + SECOND);
        assert_int_equal(moment_sure(&moment), before_ms + SECOND);
        assert_int_equal(after(&clocks, HOUR, 0).now_ms, before_ms + SECOND + HOUR);
    }
}

static void small_steps_that_add_up_within_a_day_make_it_suspect(void **state)
{
    struct clocks clocks = steady();
    after(&clocks, HOUR, 2 * MINUTE);
    after(&clocks, HOUR, 2 * MINUTE);
    assert_false(clocks.timeline.suspect);
    after(&clocks, HOUR, 2 * MINUTE);
    assert_true(clocks.timeline.suspect);
}

static void small_steps_days_apart_do_not_add_up(void **state)
{
    struct clocks clocks = steady();
    for (int i = 0; i < 9; i++) {
        after(&clocks, DAY + 2 * HOUR, 4 * MINUTE);
        assert_false(clocks.timeline.suspect);
        assert_int_equal(now_of(&clocks), clocks.reading.wall_ms);
    }
}

static void a_clock_that_creeps_in_tiny_steps_becomes_suspect_too(void **state)
{
    struct clocks clocks = steady();
    int64_t real_ms = now_of(&clocks);
    for (int i = 0; i < 100000; i++)
        real_ms += 10, after(&clocks, 10, 10);
    assert_true(clocks.timeline.suspect);
    assert_in_range(now_of(&clocks), real_ms, real_ms + 5 * MINUTE);
}

static void what_steps_to_and_fro_within_the_tolerance_is_believed(void **state)
{
    struct clocks clocks = steady();
    for (int i = 0; i < 1000; i++) {
        after(&clocks, SECOND, i % 2 ? 2 * MINUTE : -2 * MINUTE);
        assert_false(clocks.timeline.suspect);
    }
}

static void it_is_believed_again_when_it_returns_within_the_tolerance(void **state)
{
    struct clocks clocks = steady();
    after(&clocks, 100, 31 * DAY);
    struct moment moment = after(&clocks, 100, -31 * DAY + MINUTE);
    assert_false(clocks.timeline.suspect);
    assert_int_equal(moment.now_ms, clocks.reading.wall_ms);
    assert_int_equal(moment.held_ms, 0);
}

static void it_is_believed_again_when_the_kernel_has_vouched_for_it_long_enough(void **state)
{
    struct clocks clocks = steady();
    clocks.reading.synchronised = true; /* that it was so before is not enough */
    after(&clocks, SECOND, HOUR);
    for (int i = 0; i < 10; i++) {
        assert_true(clocks.timeline.suspect);
        after(&clocks, MINUTE, 0);
    }
    assert_false(clocks.timeline.suspect);
    assert_int_equal(now_of(&clocks), clocks.reading.wall_ms);
}

static void the_kernel_that_takes_back_its_word_begins_anew(void **state)
{
    struct clocks clocks = steady();
    clocks.reading.synchronised = true;
    after(&clocks, SECOND, HOUR);
    for (int i = 0; i < 50; i++) {
        clocks.reading.synchronised = i % 8 != 7;
        after(&clocks, MINUTE, 0);
        assert_true(clocks.timeline.suspect);
    }
}

static void a_word_of_the_kernel_that_nobody_looked_at_meanwhile_does_not_count(void **state)
{
    struct clocks clocks = steady();
    clocks.reading.synchronised = true;
    after(&clocks, SECOND, HOUR);
    after(&clocks, HOUR, 0);
    assert_true(clocks.timeline.suspect);
}

static void it_is_believed_again_when_an_operator_says_so(void **state)
{
    struct clocks clocks = steady();
    after(&clocks, SECOND, 3 * DAY);
    timeline_accept(&clocks.timeline, &clocks.reading);
    assert_false(clocks.timeline.suspect);
    assert_int_equal(now_of(&clocks), clocks.reading.wall_ms);
    after(&clocks, SECOND, 0);
    assert_false(clocks.timeline.suspect);
}

static void after_a_believed_lead_time_stands_still_until_the_lead_is_gone(void **state)
{
    struct clocks clocks = steady();
    int64_t before_ms = now_of(&clocks);
    after(&clocks, 0, -2 * MINUTE);
    assert_false(clocks.timeline.suspect);
    assert_int_equal(after(&clocks, 2 * MINUTE, 0).now_ms, before_ms);
    assert_int_equal(after(&clocks, SECOND, 0).now_ms, before_ms + SECOND);
    after(&clocks, SECOND, -DAY); /* of any length, if an operator says that it is right */
    before_ms = now_of(&clocks);
    timeline_accept(&clocks.timeline, &clocks.reading);
    assert_int_equal(after(&clocks, DAY - HOUR, 0).now_ms, before_ms);
    assert_false(timeline_wants_back(&clocks.timeline));
}

static void of_a_lead_nothing_is_sure(void **state)
{
    struct clocks clocks = clocks_at(NOW, NOW + 31 * DAY);
    clocks.recorded = after(&clocks, MINUTE, 0);
    clocks.reading.wall_ms -= 31 * DAY; /* put right, and a crash before that was seen */
    timeline_start(&clocks.timeline, &settings, &clocks.reading, &clocks.recorded);
    timeline_accept(&clocks.timeline, &clocks.reading);
    struct moment moment = after(&clocks, MINUTE, 0);
    assert_int_equal(moment_age(&moment, NOW), 2 * MINUTE);
    assert_false(moment_due(&moment, NOW + 3 * MINUTE));
}

static void a_step_back_just_before_what_is_sure_is_taken_once(void **state)
{
    struct clocks clocks = clocks_at(NOW, NOW + 31 * DAY);
    after(&clocks, MINUTE, -31 * DAY - 2 * MINUTE);
    timeline_set_back(&clocks.timeline, &clocks.reading, false);
    assert_int_equal(now_of(&clocks), NOW + MINUTE);
    after(&clocks, SECOND, 0);
    assert_false(clocks.timeline.suspect);
    assert_false(timeline_wants_back(&clocks.timeline));
}

static void a_clock_that_was_suspect_before_it_settled_settles_anew(void **state)
{
    struct clocks clocks = clocks_at(NOW, NOW + 31 * DAY);
    after(&clocks, MINUTE, DAY);
    after(&clocks, HOUR, 0);
    struct moment moment = after(&clocks, SECOND, -DAY); /* back to what may be wrong as well */
    assert_false(clocks.timeline.suspect);
    assert_int_equal(moment_sure(&moment), NOW + HOUR + MINUTE + SECOND);
    moment = after(&clocks, 10 * MINUTE, 0);
    assert_int_equal(moment.held_ms, 0);
}

static void only_a_reset_takes_time_back(void **state)
{
    struct clocks clocks = steady();
    int64_t real_ms = now_of(&clocks);
    after(&clocks, 0, 31 * DAY);
    timeline_accept(&clocks.timeline, &clocks.reading); /* by mistake */
    after(&clocks, SECOND, -31 * DAY);
    assert_true(clocks.timeline.suspect);
    timeline_set_back(&clocks.timeline, &clocks.reading, true);
    struct moment moment = timeline_moment(&clocks.timeline);
    assert_false(clocks.timeline.suspect);
    assert_int_equal(moment.now_ms, real_ms + SECOND);
    assert_int_equal(moment.back_ms, 31 * DAY);
    assert_int_equal(after(&clocks, SECOND, 0).now_ms, real_ms + 2 * SECOND);
}

static void a_reset_to_a_later_time_is_no_more_than_accepting_it(void **state)
{
    struct clocks clocks = steady();
    after(&clocks, SECOND, HOUR);
    timeline_set_back(&clocks.timeline, &clocks.reading, true);
    assert_int_equal(now_of(&clocks), clocks.reading.wall_ms);
    assert_int_equal(timeline_moment(&clocks.timeline).back_ms, 0);
}

static void what_was_used_before_a_reset_is_as_old_after_it(void **state)
{
    struct clocks clocks = steady();
    after(&clocks, 0, 31 * DAY);
    timeline_accept(&clocks.timeline, &clocks.reading);
    int64_t used_ms = now_of(&clocks);
    after(&clocks, 3 * SECOND, -31 * DAY);
    timeline_set_back(&clocks.timeline, &clocks.reading, true);
    struct moment moment = after(&clocks, 4 * SECOND, 0);
    assert_int_equal(moment_age(&moment, used_ms), 7 * SECOND);
}

static void of_what_lies_ahead_no_more_is_sure_than_of_the_rest(void **state)
{
    struct moment moment = {
        .now_ms = NOW, .held_ms = DAY, .since_ms = NOW - MINUTE, .back_ms = 2 * DAY};
    assert_int_equal(moment_age(&moment, NOW + HOUR), 23 * HOUR); /* used 47 hours ago, or less */
    moment.since_ms = NOW - 3 * DAY;
    assert_int_equal(moment_age(&moment, NOW + HOUR), 47 * HOUR);
}

/* The wall clock was right, then it steps back and returns, nearly. */
static void what_was_used_before_a_reset_does_not_age_by_the_way_back(void **state)
{
    struct clocks clocks = clocks_at(TIMELINE_NEVER, NOW);
    int64_t used_ms = now_of(&clocks);
    after(&clocks, SECOND, -DAY);
    timeline_set_back(&clocks.timeline, &clocks.reading, false);
    after(&clocks, SECOND, DAY - MINUTE);
    timeline_accept(&clocks.timeline, &clocks.reading);
    struct moment moment = timeline_moment(&clocks.timeline);
    assert_true(used_ms > moment.now_ms);
    assert_int_equal(moment_age(&moment, used_ms), 2 * SECOND);
}

/* Nor by what passed while nobody looked, for that may be the way back too. */
static void what_was_used_before_a_reset_does_not_age_by_a_restart(void **state)
{
    struct clocks clocks = clocks_at(TIMELINE_NEVER, NOW);
    int64_t used_ms = now_of(&clocks);
    after(&clocks, SECOND, -DAY);
    timeline_set_back(&clocks.timeline, &clocks.reading, false);
    clocks.recorded = after(&clocks, SECOND, 0);
    clocks.reading.wall_ms += DAY - MINUTE;
    timeline_start(&clocks.timeline, &settings, &clocks.reading, &clocks.recorded);
    timeline_accept(&clocks.timeline, &clocks.reading);
    struct moment moment = timeline_moment(&clocks.timeline);
    assert_true(used_ms > moment.now_ms);
    assert_int_equal(moment_age(&moment, used_ms), 2 * SECOND);
}

/* The lead of a wrong start is set back: what was used before that start had no part in it. */
static void what_was_used_before_a_wrong_start_does_not_age_by_its_lead(void **state)
{
    struct clocks clocks = clocks_at(TIMELINE_NEVER, NOW);
    int64_t used_ms = now_of(&clocks);
    clocks.recorded = after(&clocks, SECOND, 0);
    clocks.reading.wall_ms += 20 * HOUR;
    timeline_start(&clocks.timeline, &settings, &clocks.reading, &clocks.recorded);
    after(&clocks, SECOND, -30 * HOUR);
    timeline_set_back(&clocks.timeline, &clocks.reading, false);
    timeline_accept(&clocks.timeline, &clocks.reading);
    struct moment moment = after(&clocks, SECOND, 0);
    assert_true(used_ms > moment.now_ms);
    assert_int_equal(moment_age(&moment, used_ms), 2 * SECOND); /* since that start */
}

/* Also where the operator first accepts the clock, so that time stands still, and then resets. */
static void a_lead_that_was_never_sure_ages_nothing_of_before_its_start(void **state)
{
    struct clocks clocks = clocks_at(TIMELINE_NEVER, NOW);
    int64_t used_ms = now_of(&clocks);
    clocks.recorded = after(&clocks, SECOND, 0);
    clocks.reading.wall_ms += 20 * HOUR;
    timeline_start(&clocks.timeline, &settings, &clocks.reading, &clocks.recorded);
    after(&clocks, SECOND, -30 * HOUR);
    timeline_accept(&clocks.timeline, &clocks.reading);
    after(&clocks, SECOND, 0);
    timeline_set_back(&clocks.timeline, &clocks.reading, true);
    struct moment moment = after(&clocks, SECOND, 0);
    assert_true(used_ms > moment.now_ms);
    assert_true(moment_age(&moment, used_ms) <= 4 * SECOND);
}

/* As of a batch while it is not known whether time was set back. */
static void a_moment_that_is_raised_makes_nothing_older(void **state)
{
    struct moment moment = {
        .now_ms = NOW, .held_ms = HELD_ALL, .since_ms = NOW - MINUTE, .back_ms = HOUR};
    int64_t used_ms = NOW + HOUR / 2;
    moment_raise(&moment, NOW + HOUR);
    assert_int_equal(moment.now_ms, NOW + HOUR);
    assert_int_equal(moment_age(&moment, used_ms), 0);
}

static void a_start_believes_a_wall_clock_that_is_not_before_the_last_batch(void **state)
{
    struct clocks clocks = clocks_at(NOW, NOW + 31 * DAY);
    assert_false(clocks.timeline.suspect);
    assert_int_equal(now_of(&clocks), NOW + 31 * DAY);
}

static void until_it_has_settled_nothing_that_cannot_be_undone_happens(void **state)
{
    struct clocks clocks = clocks_at(NOW, NOW + 31 * DAY);
    struct moment moment = after(&clocks, 10 * MINUTE - 1, 0);
    assert_int_equal(moment_age(&moment, NOW - HOUR), HOUR + 10 * MINUTE - 1);
    assert_false(moment_due(&moment, NOW + HOUR));
    moment = after(&clocks, 1, 0);
    assert_int_equal(moment_age(&moment, NOW - HOUR), 31 * DAY + HOUR + 10 * MINUTE);
    assert_true(moment_due(&moment, NOW + HOUR));
}

static void a_window_opened_since_the_start_ends_in_time(void **state)
{
    struct clocks clocks = clocks_at(NOW, NOW + 31 * DAY);
    int64_t opened_ms = after(&clocks, SECOND, 0).now_ms;
    struct moment moment = after(&clocks, 5 * SECOND, 0);
    assert_int_equal(moment_age(&moment, opened_ms), 5 * SECOND);
}

static void in_a_new_store_short_windows_end_and_absolute_times_wait(void **state)
{
    struct clocks clocks = clocks_at(TIMELINE_NEVER, NOW);
    int64_t opened_ms = now_of(&clocks);
    struct moment moment = after(&clocks, 5 * SECOND, 0);
    assert_int_equal(moment_age(&moment, opened_ms), 5 * SECOND);
    assert_false(moment_due(&moment, 0));
    moment = after(&clocks, 10 * MINUTE, 0);
    assert_true(moment_due(&moment, NOW));
}

static void a_step_back_before_it_has_settled_is_believed_at_once(void **state)
{
    struct clocks clocks = clocks_at(NOW, NOW + 31 * DAY);
    int64_t opened_ms = after(&clocks, SECOND, 0).now_ms;
    after(&clocks, SECOND, -31 * DAY + HOUR);
    assert_true(timeline_wants_back(&clocks.timeline));
    timeline_set_back(&clocks.timeline, &clocks.reading, false);
    struct moment moment = timeline_moment(&clocks.timeline);
    assert_false(clocks.timeline.suspect);
    assert_int_equal(moment.now_ms, NOW + HOUR + 2 * SECOND);
    assert_int_equal(moment_age(&moment, opened_ms), SECOND);
    assert_int_equal(moment_age(&moment, NOW), 2 * SECOND); /* still no more than is sure */
}

/* The record that sets time back may be long in coming: the store cannot be written, say. */
static void a_clock_that_stepped_back_and_returned_settles_anew(void **state)
{
    struct clocks clocks = clocks_at(NOW, NOW + HOUR);
    after(&clocks, 5 * MINUTE, -HOUR);
    after(&clocks, 6 * MINUTE, 0);
    assert_true(timeline_wants_back(&clocks.timeline));
    struct moment moment = after(&clocks, SECOND, HOUR); /* wrong again, as it was */
    assert_false(timeline_wants_back(&clocks.timeline));
    assert_int_equal(moment_sure(&moment), NOW + 11 * MINUTE + SECOND);
    moment = after(&clocks, 9 * MINUTE, 0);
    assert_int_equal(moment_sure(&moment), NOW + 20 * MINUTE + SECOND);
    moment = after(&clocks, MINUTE, 0);
    assert_int_equal(moment.held_ms, 0);
}

static void a_step_back_before_what_is_sure_is_suspect(void **state)
{
    struct clocks clocks = clocks_at(NOW, NOW + 31 * DAY);
    after(&clocks, SECOND, -40 * DAY);
    assert_true(timeline_wants_back(&clocks.timeline));
    timeline_set_back(&clocks.timeline, &clocks.reading, false);
    assert_true(clocks.timeline.suspect);
    assert_int_equal(now_of(&clocks), NOW + SECOND);
    assert_int_equal(after(&clocks, HOUR, 0).now_ms, NOW + SECOND + HOUR);
}

static void a_step_back_after_it_has_settled_is_not_wanted(void **state)
{
    struct clocks clocks = steady();
    after(&clocks, SECOND, -2 * MINUTE);
    assert_false(timeline_wants_back(&clocks.timeline));
    after(&clocks, SECOND, -2 * DAY);
    assert_false(timeline_wants_back(&clocks.timeline));
}

static void a_start_with_a_wall_clock_before_the_last_batch_is_suspect(void **state)
{
    struct clocks clocks = clocks_at(NOW, NOW - HOUR);
    assert_true(clocks.timeline.suspect);
    struct moment moment = after(&clocks, MINUTE, 0);
    assert_int_equal(moment.now_ms, NOW + MINUTE);
    assert_int_equal(moment_sure(&moment), NOW + MINUTE);
    after(&clocks, HOUR, HOUR);
    assert_false(clocks.timeline.suspect);
}

static void a_restart_amid_what_is_not_sure_does_not_make_it_sure(void **state)
{
    struct clocks clocks = clocks_at(NOW, NOW + 31 * DAY);
    clocks.recorded = after(&clocks, MINUTE, 0);
    clocks.reading.boot_ms = SECOND; /* the machine too */
    clocks.reading.wall_ms += MINUTE;
    timeline_start(&clocks.timeline, &settings, &clocks.reading, &clocks.recorded);
    struct moment moment = after(&clocks, MINUTE, 0);
    assert_int_equal(moment_age(&moment, NOW), 2 * MINUTE);
    assert_false(moment_due(&moment, NOW + 3 * MINUTE));
}

static void a_quick_restart_of_a_new_store_keeps_its_ages(void **state)
{
    struct clocks clocks = clocks_at(TIMELINE_NEVER, NOW);
    int64_t opened_ms = now_of(&clocks);
    clocks.recorded = after(&clocks, MINUTE, 0);
    clocks.reading.wall_ms += SECOND;
    timeline_start(&clocks.timeline, &settings, &clocks.reading, &clocks.recorded);
    struct moment moment = after(&clocks, MINUTE, 0);
    assert_int_equal(moment_age(&moment, opened_ms), 2 * MINUTE + SECOND);
    assert_false(moment_due(&moment, opened_ms));
}

static void a_restart_amid_suspicion_goes_on_from_the_last_batch(void **state)
{
    struct clocks clocks = steady();
    clocks.recorded = after(&clocks, SECOND, -31 * DAY);
    clocks.reading.wall_ms += MINUTE;
    timeline_start(&clocks.timeline, &settings, &clocks.reading, &clocks.recorded);
    assert_true(clocks.timeline.suspect);
    assert_int_equal(now_of(&clocks), clocks.recorded.now_ms);
    assert_int_equal(timeline_moment(&clocks.timeline).held_ms, 0);
}

static void ages_far_apart_do_not_overflow(void **state)
{
    struct moment moment = {.now_ms = NOW, .held_ms = HELD_ALL, .since_ms = NOW};
    assert_int_equal(moment_age(&moment, INT64_MIN + 1), 0);
    assert_false(moment_due(&moment, INT64_MIN + 1));
    moment.held_ms = 0;
    moment.since_ms = 0;
    assert_int_equal(moment_age(&moment, INT64_MIN), INT64_MAX);
    assert_int_equal(moment_age(&moment, INT64_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_follows_a_steady_wall_clock),
        cmocka_unit_test(suspend_and_resume_are_no_step),
        cmocka_unit_test(a_step_within_the_tolerance_is_followed),
        cmocka_unit_test(after_a_larger_step_time_goes_on_from_where_it_was),
        cmocka_unit_test(small_steps_that_add_up_within_a_day_make_it_suspect),
        cmocka_unit_test(small_steps_days_apart_do_not_add_up),
        cmocka_unit_test(a_clock_that_creeps_in_tiny_steps_becomes_suspect_too),
        cmocka_unit_test(what_steps_to_and_fro_within_the_tolerance_is_believed),
        cmocka_unit_test(it_is_believed_again_when_it_returns_within_the_tolerance),
        cmocka_unit_test(it_is_believed_again_when_the_kernel_has_vouched_for_it_long_enough),
        cmocka_unit_test(the_kernel_that_takes_back_its_word_begins_anew),
        cmocka_unit_test(a_word_of_the_kernel_that_nobody_looked_at_meanwhile_does_not_count),
        cmocka_unit_test(it_is_believed_again_when_an_operator_says_so),
        cmocka_unit_test(after_a_believed_lead_time_stands_still_until_the_lead_is_gone),
        cmocka_unit_test(of_a_lead_nothing_is_sure),
        cmocka_unit_test(a_step_back_just_before_what_is_sure_is_taken_once),
        cmocka_unit_test(a_clock_that_was_suspect_before_it_settled_settles_anew),
        cmocka_unit_test(only_a_reset_takes_time_back),
        cmocka_unit_test(a_reset_to_a_later_time_is_no_more_than_accepting_it),
        cmocka_unit_test(what_was_used_before_a_reset_is_as_old_after_it),
        cmocka_unit_test(of_what_lies_ahead_no_more_is_sure_than_of_the_rest),
        cmocka_unit_test(what_was_used_before_a_reset_does_not_age_by_the_way_back),
        cmocka_unit_test(what_was_used_before_a_reset_does_not_age_by_a_restart),
        cmocka_unit_test(what_was_used_before_a_wrong_start_does_not_age_by_its_lead),
        cmocka_unit_test(a_lead_that_was_never_sure_ages_nothing_of_before_its_start),
        cmocka_unit_test(a_moment_that_is_raised_makes_nothing_older),
        cmocka_unit_test(a_start_believes_a_wall_clock_that_is_not_before_the_last_batch),
        cmocka_unit_test(until_it_has_settled_nothing_that_cannot_be_undone_happens),
        cmocka_unit_test(a_window_opened_since_the_start_ends_in_time),
        cmocka_unit_test(in_a_new_store_short_windows_end_and_absolute_times_wait),
        cmocka_unit_test(a_step_back_before_it_has_settled_is_believed_at_once),
        cmocka_unit_test(a_clock_that_stepped_back_and_returned_settles_anew),
        cmocka_unit_test(a_step_back_before_what_is_sure_is_suspect),
        cmocka_unit_test(a_step_back_after_it_has_settled_is_not_wanted),
        cmocka_unit_test(a_start_with_a_wall_clock_before_the_last_batch_is_suspect),
        cmocka_unit_test(a_restart_amid_what_is_not_sure_does_not_make_it_sure),
        cmocka_unit_test(a_quick_restart_of_a_new_store_keeps_its_ages),
        cmocka_unit_test(a_restart_amid_suspicion_goes_on_from_the_last_batch),
        cmocka_unit_test(ages_far_apart_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
