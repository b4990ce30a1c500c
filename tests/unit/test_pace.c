/* test_pace.c -- who commits a request, and when it waits (decision 3). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "commit/pace.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

/* ---- how large a batch is ---- */

static void urgent_ops_take_half_of_a_batch_while_others_wait(void **state)
{
    assert_int_equal(pace_urgent_ops(1024, false, false), 1024);
    assert_int_equal(pace_urgent_ops(1024, true, false), 512);
    assert_int_equal(pace_urgent_ops(3, true, false), 1);
}

static void batches_of_one_op_go_to_urgent_and_batched_ones_in_turns(void **state)
{
    assert_int_equal(pace_urgent_ops(1, true, false), 1);
    assert_int_equal(pace_urgent_ops(1, true, true), 0);
}

/* ---- who decides and who syncs ---- */

static void little_waits_for_the_sync_before_it_and_much_does_not(void **state)
{
    assert_true(pace_turn_waits(512, 511, 1));
    assert_false(pace_turn_waits(512, 512, 1));
    assert_false(pace_turn_waits(512, 1, 0));
}

static void a_small_batch_that_is_alone_is_synced_by_who_decided_it(void **state)
{
    assert_true(pace_turn_syncs(512, 511, 1));
    assert_false(pace_turn_syncs(512, 512, 1));
    assert_false(pace_turn_syncs(512, 1, 2));
    assert_false(pace_turn_syncs(512, 1, 0)); /* it is synced already */
}

static void with_no_small_batches_every_sync_is_another_threads(void **state)
{
    assert_false(pace_is_small(0, 1));
    assert_false(pace_turn_waits(0, 0, 4));
    assert_false(pace_turn_syncs(0, 1, 1));
}

static void a_net_thread_helps_where_nothing_is_in_flight_and_syncs_are_fast(void **state)
{
    assert_true(pace_may_help(0, 0)); /* nothing was synced yet */
    assert_true(pace_may_help(0, 1 * MS - 1));
    assert_false(pace_may_help(0, 1 * MS));
    assert_false(pace_may_help(1, 100 * US));
}

static void beside_reads_the_changes_of_many_go_to_the_commit_thread(void **state)
{
    assert_true(pace_spares_reads(100 * MS - 1, 3));
    assert_false(pace_spares_reads(100 * MS, 3));
    assert_false(pace_spares_reads(0, 2)); /* perhaps nobody waits behind so few */
}

static void a_turn_that_has_read_enough_pushes_it_and_reads_on(void **state)
{
    assert_false(pace_pushes_early(255));
    assert_true(pace_pushes_early(256));
}

/* ---- waiting for company ---- */

static void a_lone_client_never_waits_for_others(void **state)
{
    struct pace_linger linger = {0};
    assert_int_equal(pace_linger_ns(&linger), 0); /* nothing was synced yet */
    pace_synced(&linger, 200 * US, 1);
    assert_int_equal(pace_linger_ns(&linger), 0);
}

/* How long the next turn waits, after a sync that took `sync_ns` with two clients, of whom `come`
 * came again. */
static int64_t linger(struct pace_linger *linger, int64_t sync_ns, uint32_t come)
{
    pace_synced(linger, sync_ns, 2);
    int64_t waited_ns = pace_linger_ns(linger);
    pace_lingered(linger, come);
    assert_int_equal(pace_linger_ns(linger), 0); /* once for each sync */
    return waited_ns;
}

static void waiting_is_doubled_where_clients_come_again_and_halved_where_not(void **state)
{
    struct pace_linger seen = {0};
    assert_int_equal(linger(&seen, 100 * US, 2), 5 * US);
    assert_int_equal(linger(&seen, 100 * US, 2), 10 * US);
    assert_int_equal(linger(&seen, 100 * US, 1), 20 * US);
    assert_int_equal(linger(&seen, 100 * US, 0), 10 * US);
    assert_int_equal(linger(&seen, 100 * US, 0), 5 * US);
    assert_int_equal(linger(&seen, 100 * US, 0), 5 * US); /* or it would never grow again */
}

static void nobody_waits_longer_than_a_sync_nor_than_half_a_millisecond(void **state)
{
    struct pace_linger seen = {0};
    for (int i = 0; i < 20; i++)
        assert_true(linger(&seen, 100 * US, 2) <= 100 * US);
    assert_int_equal(linger(&seen, 100 * US, 2), 100 * US);
    for (int i = 0; i < 20; i++)
        linger(&seen, 30 * MS, 2);
    assert_int_equal(linger(&seen, 30 * MS, 2), 500 * US);
    assert_int_equal(linger(&seen, 2 * US, 2), 2 * US);
}

/* ---- before going to sleep ---- */

static void a_thread_looks_again_while_little_is_under_way(void **state)
{
    struct look look = {.limits = pace_commit_look};
    assert_int_equal(look_until_ns(&look, 2, 1 * MS), 1 * MS + 100 * US);
    look.limits = pace_net_look;
    assert_int_equal(look_until_ns(&look, 2, 1 * MS), 1 * MS + 400 * US);
}

static void a_crowd_is_remembered_for_a_while(void **state)
{
    struct look look = {.limits = pace_net_look};
    assert_int_equal(look_until_ns(&look, 3, 1 * MS), 1 * MS);
    assert_int_equal(look_until_ns(&look, 1, 21 * MS - 1), 21 * MS - 1);
    assert_int_equal(look_until_ns(&look, 1, 21 * MS), 21 * MS + 400 * US);
}

static void without_limits_nobody_looks(void **state)
{
    struct look look = {0};
    assert_int_equal(look_until_ns(&look, 0, 7), 7);
    assert_int_equal(look_until_ns(&look, 1, 7), 7);
}

/* ---- what others wait behind ---- */

static void a_large_reply_is_packed_elsewhere(void **state)
{
    assert_true(pace_packs_here(16 << 10));
    assert_false(pace_packs_here((16 << 10) + 1));
}

static void caretakers_that_press_pause_just_long_enough_for_others(void **state)
{
    assert_int_equal(pace_care_pause_ns(false), 20 * MS);
    assert_int_equal(pace_care_pause_ns(true), 1 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urgent_ops_take_half_of_a_batch_while_others_wait),
        cmocka_unit_test(batches_of_one_op_go_to_urgent_and_batched_ones_in_turns),
        cmocka_unit_test(little_waits_for_the_sync_before_it_and_much_does_not),
        cmocka_unit_test(a_small_batch_that_is_alone_is_synced_by_who_decided_it),
        cmocka_unit_test(with_no_small_batches_every_sync_is_another_threads),
        cmocka_unit_test(a_net_thread_helps_where_nothing_is_in_flight_and_syncs_are_fast),
        cmocka_unit_test(beside_reads_the_changes_of_many_go_to_the_commit_thread),
        cmocka_unit_test(a_turn_that_has_read_enough_pushes_it_and_reads_on),
        cmocka_unit_test(a_lone_client_never_waits_for_others),
        cmocka_unit_test(waiting_is_doubled_where_clients_come_again_and_halved_where_not),
        cmocka_unit_test(nobody_waits_longer_than_a_sync_nor_than_half_a_millisecond),
        cmocka_unit_test(a_thread_looks_again_while_little_is_under_way),
        cmocka_unit_test(a_crowd_is_remembered_for_a_while),
        cmocka_unit_test(without_limits_nobody_looks),
        cmocka_unit_test(a_large_reply_is_packed_elsewhere),
        cmocka_unit_test(caretakers_that_press_pause_just_long_enough_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
