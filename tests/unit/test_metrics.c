/* test_metrics.c -- what /metrics shows, and what a log line looks like.
 *
 * The figures are the process's own, so tests compare before and after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/metrics.h"

#define THREADS 24 /* more than there are shards */
#define ROUNDS 10000

enum { ROUTE_INCREMENT, ROUTE_SYNC, ROUTE_QUIET };
static const char *const routes[] = {"increment", "incrementSync", "quiet"};

static char *scrape(void)
{
    struct buf buf;
    buf_init(&buf, 1u << 20);
    metrics_write(&buf);
    buf_add_char(&buf, 0);
    assert_false(buf.failed);
    return buf.data;
}

/* The value of the series exactly called `series`, or NaN. */
static double value_of(const char *text, const char *series)
{
    size_t size = strlen(series);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        if (strncmp(line, series, size) == 0 && line[size] == ' ') return strtod(line + size, NULL);
    return NAN;
}

static void every_metric_of_the_spec_is_there_S1_52(void **state)
{
    (void)state;
    static const char *const names[] = {
        "counter_update_success_total counter",
        "duplicate_event_dropped_total counter",
        "counter_update_conflict_retries gauge",
        "projection_lag_seconds gauge",
        "projection_skipped_total counter",
        "tally_queue_depth gauge",
        "tally_batch_size histogram",
        "tally_commit_seconds histogram",
        "tally_http_requests_total counter",
        "tally_http_seconds histogram",
        "tally_queue_refused_total counter",
        "tally_constraint_refused_total counter",
        "tally_storage_errors_total counter",
        "tally_journal_bytes gauge",
        "tally_journal_segments gauge",
        "tally_journal_appended_bytes_total counter",
        "tally_syncs_total counter",
        "tally_checkpoints_total counter",
        "tally_applied_sequence gauge",
        "tally_durable_sequence gauge",
        "tally_registry_ids gauge",
        "tally_registry_filter_bytes gauge",
        "tally_cache_bytes gauge",
        "tally_cache_cells gauge",
        "tally_dirty_cells gauge",
        "tally_disk_free_bytes gauge",
        "tally_connections gauge",
        "tally_connections_total counter",
        "tally_keys_replayed_total counter",
        "tally_expired_cells_total counter",
        "tally_uptime_seconds gauge",
        "process_resident_memory_bytes gauge",
    };
    char *text = scrape();
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++) {
        char line[128];
        snprintf(line, sizeof line, "# TYPE %s\n", names[i]);
        if (!strstr(text, line)) fail_msg("missing: %s", names[i]);
    }
    assert_true(value_of(text, "process_resident_memory_bytes") > 100000);
    assert_true(value_of(text, "tally_uptime_seconds") >= 0);
    free(text);
}

/* What promtool would say: each family once, help before type before samples, and every line a
 * comment or a name, labels and a number. */
static void the_text_is_in_prometheus_form(void **state)
{
    (void)state;
    metrics_http(ROUTE_INCREMENT, 200, 0.001);
    char *text = scrape();
    char family[128] = "";
    for (char *line = text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        assert_non_null(end);
        *end = 0;
        char name[128], word[32];
        if (sscanf(line, "# HELP %127s %31s", name, word) == 2) {
            char again[160];
            snprintf(again, sizeof again, "# HELP %s ", name);
            assert_null(strstr(end + 1, again));
            snprintf(family, sizeof family, "%s", name);
            continue;
        }
        if (sscanf(line, "# TYPE %127s %31s", name, word) == 2) {
            assert_string_equal(name, family);
            continue;
        }
        assert_int_equal(strncmp(line, family, strlen(family)), 0);
        char *space = strrchr(line, ' '), *rest;
        assert_non_null(space);
        strtod(space + 1, &rest);
        assert_true(rest > space + 1 && *rest == 0);
    }
    free(text);
}

static void *add_many(void *context)
{
    (void)context;
    for (unsigned i = 0; i < ROUNDS; i++) {
        metric_add(METRIC_QUEUE_REFUSED, 2);
        metric_observe_lane(METRIC_BATCH_SIZE, 0, 3);
        metrics_http(ROUTE_SYNC, 429, 0.5);
    }
    return NULL;
}

static void no_count_of_any_thread_is_lost(void **state)
{
    (void)state;
    double refused = metric_value(METRIC_QUEUE_REFUSED);
    double batches = metric_value(METRIC_BATCH_SIZE);
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, NULL), 0);
    free(scrape()); /* while they add */
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(metric_value(METRIC_QUEUE_REFUSED) - refused == 2.0 * THREADS * ROUNDS);
    assert_true(metric_value(METRIC_BATCH_SIZE) - batches == 1.0 * THREADS * ROUNDS);
    char *text = scrape();
    const char *series = "tally_http_requests_total{route=\"incrementSync\",status=\"429\"}";
    assert_true(value_of(text, series) == 1.0 * THREADS * ROUNDS);
    assert_true(value_of(text, "tally_http_seconds_count{route=\"incrementSync\"}") ==
                1.0 * THREADS * ROUNDS);
    free(text);
}

static void buckets_hold_values_up_to_and_with_their_bound(void **state)
{
    (void)state;
    static const double values[] = {0, 1e-5, 1.1e-5, 2e-5, 0.01, 83, 84, 1e6, -1, NAN};
    char *before = scrape();
    for (unsigned i = 0; i < ARRAY_COUNT(values); i++)
        metric_observe_lane(METRIC_COMMIT_SECONDS, 0, values[i]);
    char *after = scrape();
#define GREW(series) (value_of(after, series) - value_of(before, series))
    assert_true(GREW("tally_commit_seconds_bucket{le=\"1e-05\"}") == 4); /* 0, 1e-5, -1, NaN */
    assert_true(GREW("tally_commit_seconds_bucket{le=\"2e-05\"}") == 6);
    assert_true(GREW("tally_commit_seconds_bucket{le=\"0.01024\"}") == 7);
    assert_true(GREW("tally_commit_seconds_bucket{le=\"83.88608\"}") == 8);
    assert_true(GREW("tally_commit_seconds_bucket{le=\"+Inf\"}") == 10);
    assert_true(GREW("tally_commit_seconds_count") == 10);
    assert_true(fabs(GREW("tally_commit_seconds_sum") - 1000167.010041) < 0.01);
#undef GREW
    free(before);
    free(after);
}

static void sizes_are_counted_in_powers_of_two(void **state)
{
    (void)state;
    char *before = scrape();
    metric_observe_lane(METRIC_BATCH_SIZE, 0, 1);
    metric_observe_lane(METRIC_BATCH_SIZE, 0, 5000);
    char *after = scrape();
#define GREW(series) (value_of(after, series) - value_of(before, series))
    assert_true(GREW("tally_batch_size_bucket{le=\"1\"}") == 1);
    assert_true(GREW("tally_batch_size_bucket{le=\"4096\"}") == 1);
    assert_true(GREW("tally_batch_size_bucket{le=\"8192\"}") == 2);
    assert_true(GREW("tally_batch_size_sum") == 5001);
#undef GREW
    free(before);
    free(after);
}

static void gauges_show_what_was_set_last(void **state)
{
    (void)state;
    metric_set_lane(METRIC_QUEUE_DEPTH, 0, 17);
    metric_set_lane(METRIC_QUEUE_DEPTH, 0, 42);
    metric_set_lane(METRIC_PROJECTION_LAG, 0, 0.25);
    metric_set_lane(METRIC_SYNCS, 0, 12345678901.0);
    char *text = scrape();
    assert_non_null(strstr(text, "\ntally_queue_depth 42\n"));
    assert_non_null(strstr(text, "\nprojection_lag_seconds 0.25\n"));
    assert_non_null(strstr(text, "\ntally_syncs_total 12345678901\n"));
    free(text);
}

/* SPEC 10: bounded labels. */
static void each_lane_has_its_own_figures_where_there_are_a_few(void **state)
{
    (void)state;
    metrics_lanes(3);
    for (unsigned lane = 0; lane < 3; lane++) {
        metric_set_lane(METRIC_QUEUE_DEPTH, lane, 10 + lane);
        metric_set_lane(METRIC_PROJECTION_LAG, lane, lane == 1 ? 7.5 : 0.5);
        metric_set_lane(METRIC_DISK_FREE_BYTES, lane, lane == 2 ? 100 : 200);
        metric_observe_lane(METRIC_BATCH_SIZE, lane, 1 << lane);
    }
    char *text = scrape();
    assert_non_null(strstr(text, "\ntally_queue_depth{lane=\"2\"} 12\n"));
    assert_non_null(strstr(text, "\ntally_batch_size_bucket{lane=\"1\",le=\"2\"} 1\n"));
    assert_non_null(strstr(text, "\ntally_batch_size_sum{lane=\"2\"} 4\n"));
    assert_null(strstr(text, "\ntally_queue_depth "));
    assert_null(strstr(text, "\ntally_batch_size_sum "));
    free(text);
    assert_true(metric_value(METRIC_QUEUE_DEPTH) == 33);
    assert_true(metric_value(METRIC_PROJECTION_LAG) == 7.5);
    assert_true(metric_value(METRIC_DISK_FREE_BYTES) == 100);
    assert_true(metric_value(METRIC_BATCH_SIZE) == 3);
    the_text_is_in_prometheus_form(state);
}

static void more_lanes_than_can_be_told_apart_are_one_series(void **state)
{
    (void)state;
    metrics_lanes(METRICS_LANES_MAX + 1);
    for (unsigned lane = 0; lane <= METRICS_LANES_MAX; lane++) {
        metric_set_lane(METRIC_QUEUE_DEPTH, lane, 2);
        metric_set_lane(METRIC_CLOCK_SUSPECT, lane, lane == METRICS_LANES_MAX);
        metric_set_lane(METRIC_DISK_FREE_BYTES, lane, lane ? 50 + lane : 60);
        metric_observe_lane(METRIC_BATCH_SIZE, lane, 1);
    }
    char *text = scrape();
    assert_null(strstr(text, "lane="));
    assert_true(value_of(text, "tally_queue_depth") == 2 * (METRICS_LANES_MAX + 1));
    assert_true(value_of(text, "tally_clock_suspect") == 1);
    assert_true(value_of(text, "tally_disk_free_bytes") == 51);
    assert_true(value_of(text, "tally_batch_size_count") == METRICS_LANES_MAX + 1);
    free(text);
    metrics_lanes(1);
}

static void routes_never_asked_for_are_left_out_and_odd_statuses_are_other(void **state)
{
    (void)state;
    metrics_http(ROUTE_INCREMENT, 418, 0.1);
    char *text = scrape();
    assert_null(strstr(text, "quiet"));
    assert_true(value_of(text, "tally_http_requests_total{route=\"increment\",status=\"other\"}") ==
                1);
    free(text);
}

/* Logs through a pipe and gives what came out. */
static char *captured(void (*act)(void))
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    log_set_fd(fds[1]);
    act();
    log_set_fd(STDERR_FILENO);
    close(fds[1]);
    char *text = calloc(1, 65536);
    assert_non_null(text);
    for (ssize_t got, at = 0; (got = read(fds[0], text + at, 65535 - (size_t)at)) > 0;)
        at += got;
    close(fds[0]);
    return text;
}

static void log_all_types(void)
{
    log_line(LOG_INFO, "hello", LOG_KV("text", "a\"b\n"), LOG_KV("bytes", BYTES("x\xff")),
             LOG_KV("int", -5), LOG_KV("long", INT64_MIN), LOG_KV("uint", UINT64_MAX),
             LOG_KV("real", 0.5), LOG_KV("bool", (bool)true), LOG_KV("none", (const char *)NULL),
             LOG_KV("nan", (double)NAN));
}

static void a_log_line_is_one_json_object(void **state)
{
    (void)state;
    char *text = captured(log_all_types);
    int year, month, day, hour, minute, second, ms, end = 0;
    sscanf(text, "{\"level\":\"info\",\"ts\":\"%4d-%2d-%2dT%2d:%2d:%2d.%3dZ\",%n", &year, &month,
           &day, &hour, &minute, &second, &ms, &end);
    assert_true(end > 0);
    assert_string_equal(text + end,
                        "\"msg\":\"hello\",\"text\":\"a\\\"b\\n\",\"bytes\":\"x\xef\xbf\xbd\","
                        "\"int\":-5,\"long\":-9223372036854775808,\"uint\":18446744073709551615,"
                        "\"real\":0.5,\"bool\":true,\"none\":\"\",\"nan\":null}\n");
    free(text);
}

static void log_levels(void)
{
    log_line(LOG_DEBUG, "d");
    log_line(LOG_WARN, "w");
    log_set_level(LOG_ERROR);
    log_line(LOG_WARN, "w2");
    log_line(LOG_ERROR, "e");
    log_set_level(LOG_INFO);
}

static void lines_below_the_level_are_left_out(void **state)
{
    (void)state;
    char *text = captured(log_levels);
    assert_null(strstr(text, "\"d\""));
    assert_non_null(strstr(text, "{\"level\":\"warn\""));
    assert_null(strstr(text, "w2"));
    assert_non_null(strstr(text, "\"msg\":\"e\"}\n"));
    free(text);
}

static void log_long(void)
{
    static char text[100000];
    memset(text, 1, sizeof text - 1); /* six bytes each in JSON */
    log_line(LOG_INFO, "long", LOG_KV("a", (const char *)text));
    log_line(LOG_INFO, "longer", LOG_KV("a", (const char *)text), LOG_KV("b", (const char *)text));
}

static void a_line_too_long_keeps_its_message(void **state)
{
    (void)state;
    char *text = captured(log_long);
    char *second = strchr(text, '\n') + 1;
    assert_true(second - text > 10000 && second - text < 16384);
    assert_non_null(strstr(second, "\"msg\":\"longer\",\"fieldsLeftOut\":true}\n"));
    free(text);
}

static void the_limiter_counts_what_it_leaves_out(void **state)
{
    (void)state;
    struct log_limit limit = {.lines_max = 2};
    uint64_t left_out = 99;
    assert_true(log_limit_pass(&limit, 5000, &left_out));
    assert_int_equal(left_out, 0);
    assert_true(log_limit_pass(&limit, 5100, &left_out));
    for (unsigned i = 0; i < 7; i++)
        assert_false(log_limit_pass(&limit, 5999, &left_out));
    assert_true(log_limit_pass(&limit, 6000, &left_out));
    assert_int_equal(left_out, 7);
    assert_true(log_limit_pass(&limit, 6001, &left_out));
    assert_int_equal(left_out, 0);
}

int main(void)
{
    metrics_routes(routes, ARRAY_COUNT(routes));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_metric_of_the_spec_is_there_S1_52),
        cmocka_unit_test(the_text_is_in_prometheus_form),
        cmocka_unit_test(no_count_of_any_thread_is_lost),
        cmocka_unit_test(buckets_hold_values_up_to_and_with_their_bound),
        cmocka_unit_test(sizes_are_counted_in_powers_of_two),
        cmocka_unit_test(gauges_show_what_was_set_last),
        cmocka_unit_test(each_lane_has_its_own_figures_where_there_are_a_few),
        cmocka_unit_test(more_lanes_than_can_be_told_apart_are_one_series),
        cmocka_unit_test(routes_never_asked_for_are_left_out_and_odd_statuses_are_other),
        cmocka_unit_test(a_log_line_is_one_json_object),
        cmocka_unit_test(lines_below_the_level_are_left_out),
        cmocka_unit_test(a_line_too_long_keeps_its_message),
        cmocka_unit_test(the_limiter_counts_what_it_leaves_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
