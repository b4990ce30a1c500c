/* test_zones.c -- zones by name and number, and the system's data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "config/tzdata.h"

#include "../build/examples/core/zones.h.inc"

static struct zones *zones;

static int setup(void **state)
{
    zones = tzdata_read(NULL);
    return 0;
}

static int teardown(void **state)
{
    zones_free(zones);
    return 0;
}

static int32_t granularity(enum calendar_kind kind, const char *name)
{
    int32_t found;
    if (!zones_granularity(zones, kind, bytes_str(name), &found)) fail_msg("no zone %s", name);
    return found;
}

static void SPEC_15_the_systems_zones_are_known_by_name(void **state)
{
    int32_t none;
    struct calendar calendar;
    assert_true(zones_count(zones) > 400);
    assert_in_range(strlen(zones_version(zones)), 5, 5);
    assert_true(
        zones_calendar(zones, granularity(CALENDAR_WEEK, "America/Argentina/Ushuaia"), &calendar));
    assert_int_equal(calendar.kind, CALENDAR_WEEK);
    assert_string_equal(calendar.name, "America/Argentina/Ushuaia");
    assert_int_equal(zone_offset(calendar.zone, 1767225600), -10800);
    static const char *const unknown[] = {
        "europe/berlin", "Europe",    "posix/UTC", "right/UTC",      "",
        "../UTC",        "localtime", "tzdata.zi", "Europe/Berlin ", "Mars/Olympus"};
    for (size_t i = 0; i < ARRAY_COUNT(unknown); i++)
        if (zones_granularity(zones, CALENDAR_DAY, bytes_str(unknown[i]), &none))
            fail_msg("'%s' is known", unknown[i]);
}

/* They are stored: another version of tally must read them as they were meant. */
static void SPEC_15_a_granularity_is_the_same_for_ever(void **state)
{
    assert_int_equal(granularity(CALENDAR_DAY, "UTC"), -1 - (7231099 << 2));
    assert_int_equal(granularity(CALENDAR_YEAR, "UTC"), granularity(CALENDAR_DAY, "UTC") - 3);
    assert_int_not_equal(granularity(CALENDAR_DAY, "Europe/Berlin"),
                         granularity(CALENDAR_DAY, "Europe/Paris"));
    assert_int_not_equal(granularity(CALENDAR_DAY, "Etc/UTC"), granularity(CALENDAR_DAY, "UTC"));
}

static void what_is_no_calendar_or_of_an_unknown_zone_is_said(void **state)
{
    struct calendar calendar;
    assert_false(zones_calendar(zones, 0, &calendar));
    assert_false(zones_calendar(zones, 60, &calendar));
    assert_false(zones_calendar(zones, INT32_MIN, &calendar));
    assert_false(zones_calendar(zones, -1, &calendar));
}

/* A machine without the package counts by UTC all the same. */
static void SPEC_15_UTC_is_there_where_nothing_is_installed(void **state)
{
    struct calendar calendar;
    struct zones *bare = tzdata_read("/nowhere");
    assert_int_equal(zones_count(bare), 1);
    assert_string_equal(zones_version(bare), "");
    assert_true(zones_calendar(bare, granularity(CALENDAR_DAY, "UTC"), &calendar));
    assert_int_equal(zone_offset(calendar.zone, 1767225600), 0);
    assert_int_equal(zone_next_change(calendar.zone, 0), INT64_MAX);
    zones_free(bare);
}

static void names_of_kinds_are_read_back(void **state)
{
    enum calendar_kind kind, found;
    for (kind = CALENDAR_DAY; kind <= CALENDAR_YEAR; kind++) {
        assert_true(calendar_kind_parse(bytes_str(calendar_kind_name(kind)), &found));
        assert_int_equal(found, kind);
    }
    assert_false(calendar_kind_parse(BYTES("hour"), &found));
    assert_false(calendar_kind_parse(BYTES("Day"), &found));
}

/* XaPO3g has the number of UTC. */
static void two_names_of_one_number_are_not_taken_for_each_other(void **state)
{
    int32_t found;
    struct zones *bare = tzdata_read("/nowhere");
    assert_false(zones_granularity(bare, CALENDAR_DAY, BYTES("XaPO3g"), &found));
    assert_false(zones_add(bare, "XaPO3g", zone_new_fixed(3600)));
    assert_int_equal(zones_count(bare), 1);
    zones_free(bare);
}

static void the_example_of_the_header_does_what_it_says(void **state)
{
    int64_t month;
    assert_true(month_of(zones, "Europe/Berlin", 1767225599000, &month)); /* 2025-12-31T23:59:59Z */
    assert_int_equal(month, 56 * 12);
    assert_false(month_of(zones, "Mars/Olympus", 0, &month));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(SPEC_15_the_systems_zones_are_known_by_name),
        cmocka_unit_test(SPEC_15_a_granularity_is_the_same_for_ever),
        cmocka_unit_test(what_is_no_calendar_or_of_an_unknown_zone_is_said),
        cmocka_unit_test(SPEC_15_UTC_is_there_where_nothing_is_installed),
        cmocka_unit_test(two_names_of_one_number_are_not_taken_for_each_other),
        cmocka_unit_test(names_of_kinds_are_read_back),
        cmocka_unit_test(the_example_of_the_header_does_what_it_says),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
