/* test_figures.c -- what `tally top` reads out of /metrics, of one lane and of several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/figures.h"

static struct figures figures;

static void reads(const char *text)
{
    assert_true(figures_read(&figures, bytes_str(text)));
}

static void one_lane_is_read_as_it_stands(void **state)
{
    (void)state;
    reads("# HELP tally_queue_depth x\n"
          "tally_queue_depth 3\n"
          "projection_lag_seconds 0.5\n"
          "tally_disk_free_bytes 0\n"
          "tally_events_total{result=\"applied\"} 7\n"
          "tally_events_total{result=\"rejected\"} 2\n"
          "tally_batch_size_bucket{le=\"1\"} 1\n"
          "tally_batch_size_bucket{le=\"+Inf\"} 4\n"
          "tally_batch_size_sum 9\n"
          "tally_batch_size_count 4\n");
    assert_true(figures.queue == 3 && figures.lag_s == 0.5 && figures.disk_free_bytes == 0);
    assert_true(figures.events == 7 && figures.rejected == 2);
    assert_int_equal(figures.batch.count, 2);
    assert_true(figures.batch.sum == 9 && figures.batch.total == 4);
}

static void several_lanes_are_added_up_or_the_worst_stands_for_all(void **state)
{
    (void)state;
    reads("tally_queue_depth{lane=\"0\"} 3\n"
          "tally_queue_depth{lane=\"1\"} 4\n"
          "projection_lag_seconds{lane=\"0\"} 0.5\n"
          "projection_lag_seconds{lane=\"1\"} 0.25\n"
          "tally_disk_free_bytes{lane=\"0\"} 0\n"
          "tally_disk_free_bytes{lane=\"1\"} 80\n"
          "tally_batch_size_bucket{lane=\"0\",le=\"1\"} 1\n"
          "tally_batch_size_bucket{lane=\"0\",le=\"2\"} 1\n"
          "tally_batch_size_bucket{lane=\"0\",le=\"+Inf\"} 4\n"
          "tally_batch_size_sum{lane=\"0\"} 9\n"
          "tally_batch_size_count{lane=\"0\"} 4\n"
          "tally_batch_size_bucket{lane=\"1\",le=\"1\"} 10\n"
          "tally_batch_size_bucket{lane=\"1\",le=\"2\"} 20\n"
          "tally_batch_size_bucket{lane=\"1\",le=\"+Inf\"} 20\n"
          "tally_batch_size_sum{lane=\"1\"} 30\n"
          "tally_batch_size_count{lane=\"1\"} 20\n");
    assert_true(figures.queue == 7 && figures.lag_s == 0.5 && figures.disk_free_bytes == 0);
    assert_int_equal(figures.batch.count, 3);
    assert_true(figures.batch.counts[0] == 11 && figures.batch.counts[2] == 24);
    assert_true(figures.batch.sum == 39 && figures.batch.total == 24);
    struct figures before = {0};
    assert_true(figures_quantile(&figures.batch, &before.batch, 0.5) == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_lane_is_read_as_it_stands),
        cmocka_unit_test(several_lanes_are_added_up_or_the_worst_stands_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
