/* test_bucket.c -- moments and their buckets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "core/bucket.h"
#include "core/timefmt.h"
#include "core/zones.h"

static int64_t at(const char *iso)
{
    int64_t ms;
    if (!time_parse(bytes_str(iso), &ms)) fail_msg("not a time: %s", iso);
    return ms;
}

static void S3_19_to_S3_23_buckets_begin_where_the_seed_says(void **state)
{
    static const struct {
        const char *time;
        int32_t duration;
        const char *start;
    } cases[] = {
        {"2024-03-15T10:30:45Z", 60, "2024-03-15T10:30:00Z"},   /* S3-19 */
        {"2024-03-15T10:31:15Z", 60, "2024-03-15T10:31:00Z"},   /* S3-19 */
        {"2024-03-15T10:30:45Z", 3600, "2024-03-15T10:00:00Z"}, /* S3-20 */
        {"2024-03-15T11:45:00Z", 3600, "2024-03-15T11:00:00Z"}, /* S3-20 */
        {"2024-03-15T10:30:45Z", 0, "1970-01-01T00:00:00Z"},    /* S3-21 */
        {"0001-01-01T00:00:00Z", 0, "1970-01-01T00:00:00Z"},    /* S3-21 */
        {"9999-12-31T23:59:59.999Z", 0, "1970-01-01T00:00:00Z"},
        {"2024-03-15T10:59:59.999Z", 3600, "2024-03-15T10:00:00Z"}, /* S3-22 */
        {"2024-03-15T11:00:00Z", 3600, "2024-03-15T11:00:00Z"},     /* S3-22 */
        {"2024-03-15T23:59:59Z", 86400, "2024-03-15T00:00:00Z"},    /* S3-23, UTC days */
        {"2024-03-15T23:30:00-05:00", 86400, "2024-03-16T00:00:00Z"},
        {"2024-03-01T00:00:00Z", 2592000, "2024-02-17T00:00:00Z"}, /* */
        {"2024-03-17T23:59:59Z", 2592000, "2024-02-17T00:00:00Z"}, /* */
        {"2024-03-18T00:00:00Z", 2592000, "2024-03-18T00:00:00Z"}, /* */
        {"1969-12-31T23:59:59.999Z", 60, "1969-12-31T23:59:00Z"},  /* S3-23, before 1970 */
        {"1969-12-31T23:59:00Z", 60, "1969-12-31T23:59:00Z"},
        {"1969-12-31T23:58:59.999Z", 60, "1969-12-31T23:58:00Z"},
        {"1969-12-31T23:59:59.999Z", 1, "1969-12-31T23:59:59Z"},
        {"1970-01-01T00:00:00Z", 7, "1970-01-01T00:00:00Z"},
        {"1969-12-31T23:59:59Z", 7, "1969-12-31T23:59:53Z"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t got = bucket_start(at(cases[i].time), cases[i].duration);
        if (got * 1000 != at(cases[i].start))
            fail_msg("%s / %d gave %lld", cases[i].time, cases[i].duration, (long long)got);
    }
}

/* The largest multiple not after the moment, found by a division of positive numbers only. */
static int64_t slow_start(int64_t time_ms, int64_t duration)
{
    __int128 lift = (__int128)duration * 1000 * 5000000000000;
    __int128 lifted = (__int128)time_ms + lift;
    return (int64_t)((lifted - lifted % (duration * 1000) - lift) / 1000);
}

static void A_20_any_moment_lies_in_its_bucket(void **state)
{
    static const int32_t durations[] = {1, 2, 7, 59, 60, 3600, 86400, 2592000, 999983, INT32_MAX};
    uint64_t seed = 3;
    for (int i = 0; i < 200000; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int64_t span = TIME_MS_MAX - TIME_MS_MIN + 1;
        int64_t ms = TIME_MS_MIN + (int64_t)((seed >> 8) % (uint64_t)span);
        if (i % 3 == 0) ms = (int64_t)(seed >> 40) - (1 << 23); /* close to the epoch */
        int32_t duration = durations[(seed >> 3) % ARRAY_COUNT(durations)];
        int64_t start = bucket_start(ms, duration);
        assert_true(start == slow_start(ms, duration));
        assert_true(start % duration == 0);
        assert_true(start * 1000 <= ms && ms < (start + duration) * 1000);
    }
}

static void the_ends_of_time_have_buckets_too(void **state)
{
    assert_true(bucket_start(INT64_MIN, INT32_MAX) <= INT64_MIN / 1000);
    assert_true(bucket_start(INT64_MAX, INT32_MAX) <= INT64_MAX / 1000);
    assert_true(bucket_start(TIME_MS_MIN, 1) * 1000 == TIME_MS_MIN);
}

static void a_bucket_has_a_name_from_the_year_0001_on(void **state)
{
    assert_true(bucket_has_name(bucket_start(TIME_MS_MIN, 60), 60));
    assert_true(bucket_has_name(bucket_start(TIME_MS_MIN, 0), 60));
    assert_false(bucket_has_name(bucket_start(TIME_MS_MIN, INT32_MAX), 60));
    assert_true(bucket_has_name(bucket_start(TIME_MS_MAX, INT32_MAX), 60));
}

static void a_count_includes_both_ends(void **state)
{
    assert_int_equal(bucket_count(0, 0, 0), 1);
    assert_int_equal(bucket_count(60, 60, 60), 1);
    assert_int_equal(bucket_count(-60, 60, 60), 3);
    /* midnight to midnight over seven days are eight daily buckets. */
    int64_t first = bucket_start(at("2024-03-01"), 86400);
    int64_t last = bucket_start(at("2024-03-08"), 86400);
    assert_int_equal(bucket_count(first, last, 86400), 8);
}

/* Before the system's data are in force a process knows UTC alone. */
static void SPEC_15_a_calendars_bucket_is_a_granularity_like_others(void **state)
{
    int32_t month, unknown = -7;
    int64_t bucket, begins;
    assert_true(zones_granularity(zones_in_force(), CALENDAR_MONTH, BYTES("UTC"), &month));
    assert_true(month < 0);
    assert_true(bucket_around(at("2026-02-28T23:59:59Z"), month, &bucket));
    assert_int_equal(bucket, 56 * 12 + 1);
    assert_true(bucket_begins(bucket, month, &begins));
    assert_int_equal(begins * 1000, at("2026-02-01T00:00:00Z"));
    assert_int_equal(bucket_count(bucket, bucket + 11, month), 12);
    assert_int_equal(bucket_step(month), 1);
    assert_true(bucket_around(at("0001-01-01T00:00:00Z"), month, &bucket));
    assert_true(bucket_has_name(bucket, month));
    assert_false(bucket_has_name(bucket - 1, month));
    assert_false(bucket_around(0, unknown, &bucket));
    assert_false(bucket_begins(0, unknown, &begins));
    assert_false(bucket_has_name(0, unknown));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S3_19_to_S3_23_buckets_begin_where_the_seed_says),
        cmocka_unit_test(A_20_any_moment_lies_in_its_bucket),
        cmocka_unit_test(the_ends_of_time_have_buckets_too),
        cmocka_unit_test(a_bucket_has_a_name_from_the_year_0001_on),
        cmocka_unit_test(a_count_includes_both_ends),
        cmocka_unit_test(SPEC_15_a_calendars_bucket_is_a_granularity_like_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
