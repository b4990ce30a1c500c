/* test_timefmt.c -- times in and out, against a table and against the C library. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <cmocka.h>

#include "core/timefmt.h"

#define MS_2024 1710498600000 /* 2024-03-15T10:30:00Z */

static void S3_24_S3_25_A_19_accepted_forms(void **state)
{
    static const struct {
        const char *text;
        int64_t ms;
    } cases[] = {
        {"2024-03-15T10:30:00Z", MS_2024},
        {"2024-03-15T10:30:00.000Z", MS_2024},
        {"2024-03-15T10:30:00.250Z", MS_2024 + 250},
        {"2024-03-15T10:30:00.2Z", MS_2024 + 200},
        {"2024-03-15T10:30:00,25Z", MS_2024 + 250},
        {"2024-03-15T10:30:00.2509999999999999999999999999Z", MS_2024 + 250},
        {"2024-03-15T10:30:00.0009", MS_2024},
        {"2024-03-15t10:30:00z", MS_2024},
        {"2024-03-15 10:30:00", MS_2024},
        {"2024-03-15 10:30:00Z", MS_2024},
        {"2024-03-15T10:30:00", MS_2024}, /* no zone is UTC */
        {"2024-03-15T10:30Z", MS_2024},
        {"2024-03-15T10:30", MS_2024},
        {"2024-03-15", MS_2024 - 37800000},
        {"2024-03-15T12:30:00+02:00", MS_2024},
        {"2024-03-15T12:30:00+0200", MS_2024},
        {"2024-03-15T12:30:00+02", MS_2024},
        {"2024-03-15T12:30+02:00", MS_2024},
        {"2024-03-15T12:30:00.5+02:00", MS_2024 + 500},
        {"2024-03-15T12:30:00 02:00", MS_2024}, /* a query's '+' */
        {"2024-03-15 12:30:00 02:00", MS_2024},
        {"2024-03-15T05:00:00-05:30", MS_2024},
        {"2024-03-16T00:15:00+13:45", MS_2024},
        {"2024-03-15T10:30:00-00:00", MS_2024},
        {"2024-03-16T10:29:00+23:59", MS_2024},
        {"1710498600", MS_2024},
        {"1710498600000", MS_2024},
        {"0", 0},
        {"-0", 0},
        {"-1", -1000},
        {"99999999999", 99999999999000},
        {"100000000000", 100000000000},
        {"-62135596800", TIME_MS_MIN},
        {"-62135596800000", TIME_MS_MIN},
        {"253402300799999", TIME_MS_MAX},
        {"1970-01-01T00:00:00Z", 0},
        {"1969-12-31T23:59:59.9999Z", -1}, /* toward minus infinity */
        {"1969-12-31T23:59:59.0005Z", -1000},
        {"0001-01-01T00:00:00Z", TIME_MS_MIN},
        {"0000-12-31T23:00:00-01:00", TIME_MS_MIN}, /* the year counts once in UTC */
        {"9999-12-31T23:59:59.999Z", TIME_MS_MAX},
        {"9999-12-31T23:59:59.9999999Z", TIME_MS_MAX},
        {"2024-02-29", 1709164800000},
        {"2000-02-29", 951782400000},
        {"2400-02-29", 13574563200000},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        int64_t ms = 1;
        if (!time_parse(bytes_str(cases[i].text), &ms)) fail_msg("refused %s", cases[i].text);
        if (ms != cases[i].ms) fail_msg("%s gave %lld", cases[i].text, (long long)ms);
    }
}

static void S3_26_everything_else_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        " ",
        "now",
        "today",
        "10:30",
        "2024-03",
        "2024-03-",
        "2024-3-15",
        "2024-03-5",
        "24-03-15",
        "02024-03-15",
        "+2024-03-15",
        "-2024-03-15",
        "2024/03/15",
        "2024-03-15Z",
        "2024-03-15T",
        "2024-03-15 ",
        "2024-03-15T10",
        "2024-03-15T1030",
        "2024-03-15T10:3",
        "2024-03-15T10:30:",
        "2024-03-15T10:30:0",
        "2024-03-15T10:30:00.",
        "2024-03-15T10:30:00.Z",
        "2024-03-15T10:30.5Z",
        "2024-03-15T10:30:00.5.5",
        "2024-03-15T10:30:00 Z",
        "2024-03-15T10:30:00ZZ",
        "2024-03-15T10:30:00Z ",
        " 2024-03-15T10:30:00Z",
        "2024-03-15  10:30:00",
        "2024-03-15_10:30:00",
        "2024-03-15T10:30:00Europe",
        "2024-03-15T10:30:00+",
        "2024-03-15T10:30:00+2",
        "2024-03-15T10:30:00+02:",
        "2024-03-15T10:30:00+02:0",
        "2024-03-15T10:30:00+020",
        "2024-03-15T10:30:00+02:000",
        "2024-03-15T10:30:00+02:60",
        "2024-03-15T10:30:00+24:00",
        "2024-03-15T10:30:00++2:00",
        "2024-03-15T10:30:00Z+02:00",
        "2024-03-15T10:30:00  02:00",
        "2024-03-15T10:30:00+02:00Z",
        /* what the calendar and the clock do not have */
        "2024-00-15",
        "2024-13-15",
        "2024-03-00",
        "2024-03-32",
        "2024-04-31",
        "2024-06-31",
        "2023-02-29",
        "2024-02-30",
        "1900-02-29",
        "2100-02-29",
        "2200-02-29",
        "2024-03-15T24:00:00Z",
        "2024-03-15T10:60:00Z",
        "2024-03-15T25:00",
        "2016-12-31T23:59:60Z",
        /* outside the years 0001 to 9999 */
        "0000-12-31",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "10000-01-01",
        "253402300800000",
        "-62135596800001",
        "-62135596801",
        "-99999999999",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        /* numbers are integers */
        "1e3",
        "1.5",
        "1710498600.5",
        "+5",
        " 5",
        "5 ",
        "0x10",
        "-",
        "--5",
        "1710498600Z",
        "17104-98",
    };
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        int64_t ms;
        if (time_parse(bytes_str(texts[i]), &ms)) fail_msg("accepted \"%s\"", texts[i]);
    }
    int64_t ms;
    assert_false(time_parse(BYTES("2024-03-15T10:30:00Z\0"), &ms));
    assert_false(time_parse(BYTES_NONE, &ms));
}

/* Memory of exactly the text's size, so that the address sanitizer sees a step too far. */
static void no_prefix_of_a_time_is_read_past_its_end(void **state)
{
    static const char text[] = "2024-03-15T12:30:00.123456+02:00";
    for (size_t size = 0; size < sizeof text; size++) {
        char *copy = must_alloc(size + 1);
        memcpy(copy + 1, text, size);
        int64_t ms;
        bool parsed = time_parse(bytes_of(copy + 1, size), &ms);
        bool number = size >= 1 && size <= 4;
        bool plain = size == 10 || size == 16 || size == 19;
        bool tail = (size >= 21 && size <= 26) || size == 29 || size == 32;
        if (parsed != (number || plain || tail)) fail_msg("%.*s: %d", (int)size, text, parsed);
        free(copy);
    }
}

static void A_19_epoch_numbers_change_unit_at_a_hundred_thousand_million(void **state)
{
    int64_t ms;
    assert_true(time_from_epoch(99999999999, &ms) && ms == 99999999999000);
    assert_true(time_from_epoch(100000000000, &ms) && ms == 100000000000);
    assert_true(time_from_epoch(-100000000000, &ms) && ms == -100000000000);
    assert_true(time_from_epoch(-62135596800, &ms) && ms == TIME_MS_MIN);
    assert_false(time_from_epoch(-62135596801, &ms));
    assert_false(time_from_epoch(INT64_MAX, &ms));
    assert_false(time_from_epoch(INT64_MIN, &ms));
}

static const char *format(int64_t ms)
{
    static char text[64];
    struct buf buf;
    buf_init(&buf, sizeof text - 1);
    time_format(&buf, ms);
    assert_false(buf.failed);
    memcpy(text, buf.data, buf.size);
    text[buf.size] = '\0';
    buf_release(&buf);
    return text;
}

static void times_are_written_as_JavaScript_writes_them(void **state)
{
    assert_string_equal(format(0), "1970-01-01T00:00:00.000Z");
    assert_string_equal(format(MS_2024 + 7), "2024-03-15T10:30:00.007Z");
    assert_string_equal(format(-1), "1969-12-31T23:59:59.999Z");
    assert_string_equal(format(TIME_MS_MIN), "0001-01-01T00:00:00.000Z");
    assert_string_equal(format(TIME_MS_MAX), "9999-12-31T23:59:59.999Z");
    assert_string_equal(format(TIME_MS_MAX + 1), "+010000-01-01T00:00:00.000Z");
    assert_string_equal(format(TIME_MS_MIN - 1), "0000-12-31T23:59:59.999Z");
    assert_string_equal(format(-62198755200000), "-000001-01-01T00:00:00.000Z");
    assert_string_equal(format(INT64_MAX), "+292278994-08-17T07:12:55.807Z");
    assert_string_equal(format(INT64_MIN), "-292275055-05-16T16:47:04.192Z");
}

static int64_t random_time(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    uint64_t span = TIME_MS_MAX - TIME_MS_MIN + 1;
    return TIME_MS_MIN + (int64_t)((*seed >> 8) % span);
}

/* The C library's calendar is the other opinion, from year 1 to 9999. */
static void reading_and_writing_agree_with_gmtime_and_timegm(void **state)
{
    uint64_t seed = 7;
    for (int i = 0; i < 200000; i++) {
        int64_t ms = random_time(&seed), back;
        int64_t part = ((ms % 1000) + 1000) % 1000;
        time_t seconds = (ms - part) / 1000;
        struct tm tm;
        char want[64];
        assert_non_null(gmtime_r(&seconds, &tm));
        assert_true(timegm(&tm) == seconds);
        snprintf(want, sizeof want, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900,
                 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)part);
        assert_string_equal(format(ms), want);
        assert_true(time_parse(bytes_str(want), &back));
        assert_true(back == ms);
    }
}

static void every_day_of_four_centuries_is_one_day_after_the_last(void **state)
{
    int64_t day = -11676096000000; /* 1600-01-01 */
    for (int i = 0; i < 146097; i++, day += 86400000) {
        int64_t back;
        assert_true(time_parse(bytes_of(format(day), 10), &back));
        assert_true(back == day);
    }
    assert_string_equal(format(day), "2000-01-01T00:00:00.000Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(S3_24_S3_25_A_19_accepted_forms),
        cmocka_unit_test(S3_26_everything_else_is_refused),
        cmocka_unit_test(no_prefix_of_a_time_is_read_past_its_end),
        cmocka_unit_test(A_19_epoch_numbers_change_unit_at_a_hundred_thousand_million),
        cmocka_unit_test(times_are_written_as_JavaScript_writes_them),
        cmocka_unit_test(reading_and_writing_agree_with_gmtime_and_timegm),
        cmocka_unit_test(every_day_of_four_centuries_is_one_day_after_the_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
