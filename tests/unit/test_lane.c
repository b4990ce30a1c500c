/* test_lane.c -- the laws of a lane (commit/lane.h), of its rulebook and of the wire's budget,
 * broken on purpose. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "commit/lane.h"
#include "store/memory.h"
#include "support/panic.h"
#include "wire/budget.h"

static struct lane lane;

static void be_answered(void *context)
{
}

static int setup(void **state)
{
    struct lane_config config = {.index = 3,
                                 .clock = &clock_system,
                                 .queue = {.ops_max = 100,
                                           .tenant_ops_max = 100,
                                           .urgent_ops_max = 100,
                                           .bytes_max = 1 << 20},
                                 .batch_ops_max = 100,
                                 .answered = be_answered};
    assert_int_equal(memory_open(&config.store), ERR_OK);
    assert_int_equal(lane_open(&lane, &config), ERR_OK);
    return 0;
}

static int teardown(void **state)
{
    lane_close(&lane);
    return 0;
}

static void a_lane_opens_runs_stops_and_closes(void **state)
{
    assert_int_equal(lane.state, LANE_OPEN);
    lane_start(&lane);
    assert_int_equal(lane.state, LANE_RUNNING);
    lane_check(&lane);
    lane_stop(&lane);
    assert_int_equal(lane.state, LANE_STOPPED);
    lane_close(&lane);
    assert_int_equal(lane.state, LANE_CLOSED);
}

/* ---- steps that are not drawn ---- */

static void start_twice(void)
{
    lane_start(&lane);
    lane_start(&lane);
}

static void close_while_it_runs(void)
{
    lane_start(&lane);
    lane_close(&lane);
}

static void stop_what_never_ran(void)
{
    lane.state = LANE_CLOSED;
    lane_stop(&lane);
}

static void a_lane_takes_no_other_steps(void **state)
{
    expect_panic(start_twice, "lane->state == from");
    expect_panic(close_while_it_runs, "lane->state != LANE_RUNNING");
    expect_panic(stop_what_never_ran, "lane->state != LANE_CLOSED");
}

/* ---- its parts ---- */

static void move(void)
{
    struct lane moved = lane;
    lane_start(&moved);
}

static void work_beside_another_lane(void)
{
    lane.caretaker.context = &lane;
    lane_start(&lane);
}

static void go_by_another_clock(void)
{
    lane.clock = lane.caretaker.clock = &clock_system;
    lane_start(&lane);
}

static void a_lane_stands_on_its_own_parts_where_it_is(void **state)
{
    expect_panic(move, "with->enacting == &lane->enacting");
    expect_panic(work_beside_another_lane, "with->context == lane->queue");
    expect_panic(go_by_another_clock, "lane->clock == timekeeper_clock(lane->keeper)");
}

/* ---- rules: a batch that changes them is alone ---- */

static void decide_new_rules_twice(void)
{
    struct rules *rules = rules_new();
    struct rules *others = rules_new();
    rules_seal(rules);
    rules_seal(others);
    rulebook_decided(lane.rulebook, rules);
    rulebook_decided(lane.rulebook, others);
}

static void new_rules_wait_for_those_before_them(void **state)
{
    expect_panic(decide_new_rules_twice, "rulebook->next == rulebook->current");
}

/* ---- bytes: nothing is charged once nothing is held ---- */

static struct wire_budget budget = {.bytes_max = 1000};
static struct wire_share share;

static void give_back_more_than_was_taken(void)
{
    budget_take_anyway(&budget, &share, 10);
    budget_give(&budget, &share, 11);
}

static void end_with_bytes_charged(void)
{
    budget_take_anyway(&budget, &share, 10);
    budget_check_idle(&budget);
}

static void a_budget_that_does_not_add_up_ends_the_process(void **state)
{
    budget_take_anyway(&budget, &share, 10);
    budget_give(&budget, &share, 10);
    budget_check_idle(&budget);
    expect_panic(give_back_more_than_was_taken, "before >= bytes");
    expect_panic(end_with_bytes_charged, "atomic_load(&budget->all.bytes) == 0");
}

#define LAW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(a_lane_opens_runs_stops_and_closes),
        LAW(a_lane_takes_no_other_steps),
        LAW(a_lane_stands_on_its_own_parts_where_it_is),
        LAW(new_rules_wait_for_those_before_them),
        LAW(a_budget_that_does_not_add_up_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
