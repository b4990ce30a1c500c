/* test_batch.c -- the states of a batch: which step may follow which, what each one promises, and
 * what a panic says of the batch it happened in. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <cmocka.h>

#include "commit/batch.h"
#include "support/heart.h"
#include "support/panic.h"

static struct batch batch;
static struct op ops[2];
static struct bundle bundle;

static int setup(void **state)
{
    batch_init(&batch, 3, 8);
    memset(ops, 0, sizeof ops);
    bundle = (struct bundle){.ops = ops, .count = 2};
    return 0;
}

static int teardown(void **state)
{
    batch_release(&batch);
    return 0;
}

/* Two changes, numbered 11 and 12, as the turn would make them. */
static void go_to(enum batch_state state)
{
    static const struct op *causes[] = {&ops[0], &ops[1]};
    struct apply *apply = &batch.apply;
    batch.place.batch = 7;
    batch.slices[0] = (struct slice){&bundle, 0, 2};
    *apply = (struct apply){.slices = batch.slices, .slices_count = 1};
    batch_count(&batch);
    batch_enter(&batch, BATCH_DRAINED);
    if (state == BATCH_DRAINED) return;
    apply->arena = &batch.arena;
    apply->ops_count = 2;
    apply->sequence = 10;
    batch.place.first_sequence = 11;
    batch_enter(&batch, BATCH_LOADED);
    if (state == BATCH_LOADED) return;
    ops[0].sequence = 11;
    ops[1].sequence = apply->sequence = 12;
    apply->causes_max = 2;
    apply->writes = (struct write_set){
        .first_sequence = 11, .count = 2, .reads = &apply->reads, .causes = causes};
    batch_enter(&batch, BATCH_DECIDED);
    if (state == BATCH_DECIDED) return;
    apply->writes.batch = &batch;
    for (enum batch_state next = BATCH_SUBMITTED; next <= state; next++)
        batch_enter(&batch, next);
}

static void a_batch_goes_round(void **state)
{
    go_to(BATCH_ANSWERED);
    batch_enter(&batch, BATCH_FREE);
    assert_int_equal(batch.apply.slices_count, 0);
    go_to(BATCH_DRAINED); /* the store is down */
    batch_enter(&batch, BATCH_ANSWERED);
    batch_enter(&batch, BATCH_FREE);
    go_to(BATCH_SUBMITTED); /* its sync failed */
    batch_enter(&batch, BATCH_ANSWERED);
    batch_enter(&batch, BATCH_FREE);
}

/* ---- steps that are not drawn ---- */

static void submit_before_it_is_decided(void)
{
    go_to(BATCH_LOADED);
    batch_enter(&batch, BATCH_SUBMITTED);
}

static void answer_what_was_decided_only(void)
{
    go_to(BATCH_DECIDED);
    batch_enter(&batch, BATCH_ANSWERED);
}

static void answer_twice(void)
{
    go_to(BATCH_ANSWERED);
    batch_enter(&batch, BATCH_ANSWERED);
}

static void be_durable_from_nothing(void)
{
    batch_enter(&batch, BATCH_DURABLE);
}

static void a_step_that_is_not_drawn_ends_the_process(void **state)
{
    expect_panic(submit_before_it_is_decided, "states[state].from & BIT(batch->state)");
    expect_panic(answer_what_was_decided_only, "states[state].from & BIT(batch->state)");
    expect_panic(answer_twice, "states[state].from & BIT(batch->state)");
    expect_panic(be_durable_from_nothing, "states[state].from & BIT(batch->state)");
}

/* ---- what the states promise ---- */

static void drain_nothing(void)
{
    batch.place.batch = 1;
    batch_enter(&batch, BATCH_DRAINED);
}

static void leave_a_cell_unloaded(void)
{
    go_to(BATCH_DRAINED);
    batch.apply.arena = &batch.arena;
    batch.apply.ops_count = 2;
    batch.apply.reads.cells_count = 1;
    batch_enter(&batch, BATCH_LOADED);
}

static void leave_a_gap_in_the_numbers(void)
{
    go_to(BATCH_LOADED);
    batch.apply.sequence = 13;
    batch.apply.causes_max = 2;
    batch.apply.writes =
        (struct write_set){.first_sequence = 11, .count = 2, .reads = &batch.apply.reads};
    batch_enter(&batch, BATCH_DECIDED);
}

static void submit_for_another_batch(void)
{
    go_to(BATCH_DECIDED);
    batch_enter(&batch, BATCH_SUBMITTED);
}

static void number_causes_out_of_order(void)
{
    go_to(BATCH_DECIDED);
    ops[0].sequence = 12;
    batch.apply.writes.batch = &batch;
    batch_enter(&batch, BATCH_SUBMITTED);
}

static void count_an_op_of_nobody(void)
{
    go_to(BATCH_DRAINED);
    batch.slices[0].count = 1;
    batch.apply.arena = &batch.arena;
    batch.apply.ops_count = 2;
    batch_enter(&batch, BATCH_LOADED);
}

static void a_state_without_what_it_promises_ends_the_process(void **state)
{
    expect_panic(drain_nothing, "batch->apply.slices_count > 0");
    expect_panic(leave_a_cell_unloaded, "reads->loaded.cells == reads->cells_count");
    expect_panic(leave_a_gap_in_the_numbers,
                 "writes->first_sequence + writes->count == apply->sequence + 1");
    expect_panic(submit_for_another_batch, "batch->apply.writes.batch == batch");
    if (!SLOW_CHECKS) return;
    expect_panic(number_causes_out_of_order,
                 "writes->causes[i]->sequence == writes->first_sequence + i");
    expect_panic(count_an_op_of_nobody, "ops == batch->place.ops");
}

/* ---- the report of a panic ---- */

static void break_off_while_loaded(void)
{
    go_to(BATCH_LOADED);
    must_at = &batch.place;
    must(!"whatever");
}

static void break_off_elsewhere(void)
{
    must(!"whatever");
}

static void break_off_beside_the_batches(void)
{
    static const struct must_place sweeping = {.state = "sweep", .lane = 2};
    must_at = &sweeping;
    must(!"whatever");
}

static void a_panic_says_which_thread_it_was_and_what_it_did(void **state)
{
    prctl(PR_SET_NAME, "tend");
    expect_panic(break_off_elsewhere, ",\"thread\":\"tend\"}\n");
    expect_panic(break_off_beside_the_batches,
                 ",\"thread\":\"tend\",\"lane\":2,\"doing\":\"sweep\"}\n");
    prctl(PR_SET_NAME, "commit");
    expect_panic(break_off_while_loaded, "\"thread\":\"commit\",\"lane\":3,\"batch\":7");
}

static void a_panic_says_which_batch_and_how_far_it_was(void **state)
{
    expect_panic(break_off_while_loaded,
                 "\"lane\":3,\"batch\":7,\"state\":\"LOADED\",\"firstSequence\":11,\"ops\":2}\n");
    assert_null(strstr(panic_report(break_off_elsewhere), "\"batch\""));
}

/* In slow builds faults are the sanitizer's to report. */
#ifndef TALLY_SLOW_CHECKS
static void fault_while_loaded(void)
{
    must_report_faults();
    go_to(BATCH_LOADED);
    must_at = &batch.place;
    raise(SIGSEGV);
}

static void a_fault_is_reported_like_a_broken_promise(void **state)
{
    expect_panic(fault_while_loaded, "\"msg\":\"Segmentation fault at address ");
    expect_panic(fault_while_loaded, "\"batch\":7,\"state\":\"LOADED\",\"firstSequence\":11");
}
#endif

static struct heart *heart;

static struct sent *send_one(enum op_kind kind)
{
    struct op op = ask(&heart->asks, kind, "n", 1);
    return heart_send(heart, (struct bundle){0}, &op, 1);
}

static void decide_what_nobody_knows(void)
{
    send_one((enum op_kind)99);
    commit_turn(heart->commit);
}

static void die_of_the_answer(struct bundle *answered)
{
    must(answered == NULL);
}

static void answer_to_nobody(void)
{
    send_one(OP_INCREMENT)->bundle.done = die_of_the_answer;
    commit_turn(heart->commit);
    commit_sync_now(heart->commit);
}

static void a_panic_in_a_turn_and_one_in_an_answer_name_their_batch(void **state)
{
    heart = heart_new((struct heart_config){.store = "memory", .batch_ops = 4, .batches = 2});
    struct op one = ask(&heart->asks, OP_INCREMENT, "n", 1);
    heart_do(heart, one);
    heart_do(heart, one);
    expect_panic(decide_what_nobody_knows, "\"msg\":\"impossible state: op->kind = 99 at ");
    expect_panic(decide_what_nobody_knows,
                 "\"lane\":0,\"batch\":3,\"state\":\"LOADED\",\"firstSequence\":3,\"ops\":1}\n");
    expect_panic(answer_to_nobody,
                 "\"lane\":0,\"batch\":3,\"state\":\"ANSWERED\",\"firstSequence\":3,\"ops\":1}\n");
    heart_free(heart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_batch_goes_round, setup, teardown),
        cmocka_unit_test_setup_teardown(a_step_that_is_not_drawn_ends_the_process, setup, teardown),
        cmocka_unit_test_setup_teardown(a_state_without_what_it_promises_ends_the_process, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_panic_says_which_batch_and_how_far_it_was, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_panic_says_which_thread_it_was_and_what_it_did, setup,
                                        teardown),
#ifndef TALLY_SLOW_CHECKS
        cmocka_unit_test_setup_teardown(a_fault_is_reported_like_a_broken_promise, setup, teardown),
#endif
        cmocka_unit_test(a_panic_in_a_turn_and_one_in_an_answer_name_their_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
