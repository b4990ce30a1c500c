/* test_calendar.c -- zones, and days, weeks, months and years in them.
 *
 * What a zone says is compared with the C library, which reads the same files by code of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "core/calendar.h"
#include "core/timefmt.h"
#include "core/zone_rule.h"

#include "../build/examples/core/zone.h.inc"

#define ZONES "/usr/share/zoneinfo/"

static int64_t at(const char *iso)
{
    int64_t ms;
    if (!time_parse(bytes_str(iso), &ms)) fail_msg("not a time: %s", iso);
    return ms;
}

/* A view that lives until the next call. */
static struct bytes file_at(const char *path)
{
    static char file[1 << 17];
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    size_t size = fread(file, 1, sizeof file, stream);
    fclose(stream);
    return bytes_of(file, size);
}

static enum err read_zone(const char *path, struct zone **zone_out)
{
    return zone_new(zone_out, file_at(path));
}

static struct zone *zone_called(const char *name)
{
    char path[512];
    struct zone *zone;
    snprintf(path, sizeof path, ZONES "%s", name);
    if (read_zone(path, &zone) != ERR_OK) fail_msg("cannot read %s", name);
    return zone;
}

/* -- Zones ------------------------------------------------------------------------------------- */

static void expect_offset(const struct zone *zone, const char *name, int64_t seconds)
{
    time_t when = (time_t)seconds;
    struct tm there;
    if (seconds < -30000000000 || !localtime_r(&when, &there)) return;
    if (zone_offset(zone, seconds) != there.tm_gmtoff)
        fail_msg("%s at %lld: %d and not %ld", name, (long long)seconds, zone_offset(zone, seconds),
                 there.tm_gmtoff);
}

static void expect_changes(const struct zone *zone, const char *name)
{
    int64_t change = zone_next_change(zone, INT64_C(-4000000000));
    for (unsigned i = 0; i < 900 && change < 50000000000; i++) {
        expect_offset(zone, name, change - 1);
        expect_offset(zone, name, change);
        change = zone_next_change(zone, change);
    }
    for (int64_t seconds = -3000000000; seconds < 20000000000; seconds += 86400 * 37 + 4321)
        expect_offset(zone, name, seconds);
}

static unsigned expect_zones_in(const char *directory)
{
    unsigned count = 0;
    char path[512];
    DIR *listing = opendir(directory);
    assert_non_null(listing);
    for (struct dirent *entry; (entry = readdir(listing));) {
        struct stat found;
        struct zone *zone;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        if (stat(path, &found) != 0 || !S_ISREG(found.st_mode)) continue;
        if (read_zone(path, &zone) != ERR_OK) continue; /* tables lie there, too */
        char name[600];
        snprintf(name, sizeof name, ":%s", path);
        setenv("TZ", name, 1);
        tzset();
        expect_changes(zone, path);
        zone_free(zone);
        count++;
    }
    closedir(listing);
    return count;
}

static void SPEC_15_zones_say_what_the_c_library_says(void **state)
{
    unsigned count = 0;
    static const char *const directories[] = {"Africa",   "America", "Antarctica",       "Asia",
                                              "Atlantic", "Europe",  "Australia",        "Pacific",
                                              "Indian",   "Etc",     "America/Argentina"};
    for (size_t i = 0; i < ARRAY_COUNT(directories); i++) {
        char path[128];
        snprintf(path, sizeof path, ZONES "%s", directories[i]);
        count += expect_zones_in(path);
    }
    unsetenv("TZ");
    assert_true(count > 300);
}

/* A rule holds for ever: what is so in one era is so in the next. */
static void SPEC_15_a_rule_goes_on_for_thousands_of_years(void **state)
{
    struct zone *zone = zone_called("Europe/Berlin");
    assert_int_equal(zone_offset(zone, at("9999-07-01T00:00:00Z") / 1000), 7200);
    assert_int_equal(zone_offset(zone, at("9998-01-15T00:00:00Z") / 1000), 3600);
    int64_t change = zone_next_change(zone, at("9000-06-01T00:00:00Z") / 1000);
    assert_int_equal(change, at("9000-10-26T01:00:00Z") / 1000);
    zone_free(zone);
}

static void SPEC_15_rules_are_read_as_POSIX_and_RFC_9636_have_them(void **state)
{
    static const char *const good[] = {
        "EST5",
        "CET-1CEST,M3.5.0,M10.5.0/3",
        "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
        "<-02>2<-01>,M3.5.0/-1,M10.5.0/0",
        "IST-2IDT,M3.4.4/26,M10.5.0",
        "XXX3EDT4,0/0,J365/23",
        "AAA-1:02:03BBB,J60,J300/1:02:03",
    };
    static const char *const bad[] = {
        "",
        "E5",
        "EST",
        "EST5EDT",
        "EST5EDT,M3.2.0",
        "<+10-10",
        "CET-1CEST,M0.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "EST168",
        "EST27",
        "EST5EDT,J0,J1",
        "EST5EDT,M3.2.0,M11.1.0 ",
        "EST5EDT,366,1",
    };
    struct zone_rule rule;
    for (size_t i = 0; i < ARRAY_COUNT(good); i++)
        if (!zone_rule_parse(bytes_str(good[i]), &rule)) fail_msg("%s is refused", good[i]);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++)
        if (zone_rule_parse(bytes_str(bad[i]), &rule)) fail_msg("%s is taken", bad[i]);
}

static void the_example_of_the_header_does_what_it_says(void **state)
{
    bool summer = false;
    assert_int_equal(summer_in(file_at(ZONES "Europe/Berlin"), &summer), ERR_OK);
    assert_true(summer);
}

/* Whatever is cut off, or turned over, it is refused or read, and never more is read than is there. */
static void a_damaged_file_is_refused_or_harmless(void **state)
{
    const struct bytes whole = file_at(ZONES "Europe/Berlin");
    const size_t size = whole.size;
    char *file = malloc(size);
    memcpy(file, whole.data, size);
    for (size_t cut = 0; cut < size; cut++) {
        struct zone *zone;
        char *part = malloc(cut + 1); /* so that the sanitizer sees its end */
        memcpy(part, file, cut);
        assert_int_equal(zone_new(&zone, bytes_of(part, cut)), ERR_CORRUPT);
        free(part);
    }
    for (size_t i = 0; i < size; i++) {
        struct zone *zone;
        file[i] = (char)(file[i] ^ 0x81);
        if (zone_new(&zone, bytes_of(file, size)) == ERR_OK) zone_free(zone);
        file[i] = (char)(file[i] ^ 0x81);
    }
    free(file);
}

/* -- Buckets ----------------------------------------------------------------------------------- */

static void expect_around(const char *name, enum calendar_kind kind, const char *time,
                          const char *date, const char *begins, const char *ends)
{
    struct zone *zone = zone_called(name);
    int64_t bucket = calendar_bucket(zone, kind, at(time));
    struct date found = calendar_date(kind, bucket);
    char text[32];
    snprintf(text, sizeof text, "%04lld-%02d-%02d", (long long)found.year, found.month, found.day);
    assert_string_equal(text, date);
    assert_int_equal(calendar_start(zone, kind, bucket), at(begins) / 1000);
    assert_int_equal(calendar_start(zone, kind, bucket + 1), at(ends) / 1000);
    zone_free(zone);
}

static void SPEC_15_days_have_23_24_or_25_hours(void **state)
{
    expect_around("Europe/Berlin", CALENDAR_DAY, "2026-03-29T10:00:00Z", "2026-03-29",
                  "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z");
    expect_around("Europe/Berlin", CALENDAR_DAY, "2026-10-25T10:00:00Z", "2026-10-25",
                  "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z");
    expect_around("Asia/Kathmandu", CALENDAR_DAY, "2026-07-01T18:14:59.999Z", "2026-07-01",
                  "2026-06-30T18:15:00Z", "2026-07-01T18:15:00Z");
    expect_around("Australia/Lord_Howe", CALENDAR_DAY, "2026-04-05T00:00:00Z", "2026-04-05",
                  "2026-04-04T13:00:00Z", "2026-04-05T13:30:00Z");
}

static void SPEC_15_weeks_begin_on_monday_and_months_and_years_where_people_say(void **state)
{
    expect_around("UTC", CALENDAR_WEEK, "2026-11-22T23:59:59Z", "2026-11-16",
                  "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z");
    expect_around("America/New_York", CALENDAR_WEEK, "1969-12-30T00:00:00Z", "1969-12-29",
                  "1969-12-29T05:00:00Z", "1970-01-05T05:00:00Z");
    expect_around("Europe/Berlin", CALENDAR_MONTH, "2026-02-28T22:59:59Z", "2026-02-01",
                  "2026-01-31T23:00:00Z", "2026-02-28T23:00:00Z");
    expect_around("Europe/Berlin", CALENDAR_MONTH, "2026-02-28T23:00:00Z", "2026-03-01",
                  "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z");
    expect_around("Pacific/Auckland", CALENDAR_YEAR, "2026-12-31T10:59:59Z", "2026-01-01",
                  "2025-12-31T11:00:00Z", "2026-12-31T11:00:00Z");
    expect_around("UTC", CALENDAR_MONTH, "1969-12-31T23:59:59Z", "1969-12-01",
                  "1969-12-01T00:00:00Z", "1970-01-01T00:00:00Z");
}

/* Samoa crossed the date line: its 30th of December 2011 never came. */
static void SPEC_15_a_date_that_a_zone_leaves_out_has_no_instant(void **state)
{
    struct zone *zone = zone_called("Pacific/Apia");
    int64_t missing = days_of(2011, 12, 30);
    int64_t begins = calendar_start(zone, CALENDAR_DAY, missing);
    assert_int_equal(begins, at("2011-12-30T10:00:00Z") / 1000);
    assert_int_equal(calendar_start(zone, CALENDAR_DAY, missing + 1), begins);
    assert_int_equal(calendar_bucket(zone, CALENDAR_DAY, begins * 1000 - 1), missing - 1);
    assert_int_equal(calendar_bucket(zone, CALENDAR_DAY, begins * 1000), missing + 1);
    zone_free(zone);
}

/* In Havana clocks go back from 1 to 0, in Toronto of 2006 and before from 2 to 1; where they go back
 * over midnight, as in Sao Paulo, the day that had begun goes on. */
static void SPEC_15_a_date_that_comes_back_belongs_to_the_one_that_had_begun(void **state)
{
    struct zone *zone = zone_called("America/Sao_Paulo");
    int64_t midnight = at("2018-02-18T02:00:00Z"); /* 00:00 becomes 23:00 of the 17th */
    assert_int_equal(zone_offset(zone, midnight / 1000 - 1), -7200);
    assert_int_equal(zone_offset(zone, midnight / 1000), -10800);
    assert_int_equal(calendar_bucket(zone, CALENDAR_DAY, midnight - 1), days_of(2018, 2, 17));
    assert_int_equal(calendar_bucket(zone, CALENDAR_DAY, midnight), days_of(2018, 2, 17));
    assert_int_equal(calendar_start(zone, CALENDAR_DAY, days_of(2018, 2, 18)),
                     at("2018-02-18T03:00:00Z") / 1000);
    zone_free(zone);
    zone = zone_called("America/Goose_Bay"); /* 00:01 became 23:01 until 2010 */
    midnight = at("2010-11-07T03:00:00Z");
    assert_int_equal(calendar_bucket(zone, CALENDAR_DAY, midnight), days_of(2010, 11, 7));
    assert_int_equal(calendar_bucket(zone, CALENDAR_DAY, midnight + 90000), days_of(2010, 11, 7));
    assert_int_equal(calendar_start(zone, CALENDAR_DAY, days_of(2010, 11, 7)), midnight / 1000);
    zone_free(zone);
}

/* Every instant is in one bucket: from its start on, before the start of the next one. */
static void SPEC_15_buckets_tile_time(void **state)
{
    static const char *const names[] = {
        "Europe/Berlin",  "Australia/Lord_Howe", "Pacific/Apia",      "America/Goose_Bay",
        "Asia/Kathmandu", "Africa/Casablanca",   "America/Sao_Paulo", "UTC"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        struct zone *zone = zone_called(names[i]);
        for (enum calendar_kind kind = CALENDAR_DAY; kind <= CALENDAR_YEAR; kind++) {
            for (int64_t ms = at("2005-01-01T00:00:00Z"); ms < at("2014-01-01T00:00:00Z");
                 ms += 1800000 * 7 + 1) {
                int64_t bucket = calendar_bucket(zone, kind, ms);
                if (calendar_start(zone, kind, bucket) * 1000 > ms ||
                    calendar_start(zone, kind, bucket + 1) * 1000 <= ms)
                    fail_msg("%s, kind %u: %lld", names[i], kind, (long long)ms);
            }
        }
        zone_free(zone);
    }
}

static void dates_and_days_are_each_others_way_back(void **state)
{
    for (int64_t day = -1000000; day < 4000000; day += 13) {
        struct date date = date_of(day);
        assert_int_equal(days_of(date.year, date.month, date.day), day);
        assert_in_range(date.day, 1, month_days(date.year, date.month));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SPEC_15_zones_say_what_the_c_library_says),
        cmocka_unit_test(SPEC_15_a_rule_goes_on_for_thousands_of_years),
        cmocka_unit_test(SPEC_15_rules_are_read_as_POSIX_and_RFC_9636_have_them),
        cmocka_unit_test(the_example_of_the_header_does_what_it_says),
        cmocka_unit_test(a_damaged_file_is_refused_or_harmless),
        cmocka_unit_test(SPEC_15_days_have_23_24_or_25_hours),
        cmocka_unit_test(SPEC_15_weeks_begin_on_monday_and_months_and_years_where_people_say),
        cmocka_unit_test(SPEC_15_a_date_that_a_zone_leaves_out_has_no_instant),
        cmocka_unit_test(SPEC_15_a_date_that_comes_back_belongs_to_the_one_that_had_begun),
        cmocka_unit_test(SPEC_15_buckets_tile_time),
        cmocka_unit_test(dates_and_days_are_each_others_way_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
