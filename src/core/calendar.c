/* calendar.c -- local dates, and where they begin. */
#include "core/calendar.h"

#include "base/must.h"

/* A local date says nothing of times further away than this, either way. */
#define NEAR_SECONDS (INT64_C(2) * DAY_SECONDS)

static int64_t local_day(const struct zone *zone, int64_t seconds)
{
    return floor_div(seconds + zone_offset(zone, seconds), DAY_SECONDS);
}

/* The latest local date up to that time: clocks that are turned back over midnight bring a date
 * back that was over. Within a stretch of one offset the last moment has the latest date. */
static int64_t day_reached(const struct zone *zone, int64_t seconds)
{
    int64_t latest = local_day(zone, seconds);
    int64_t change = zone_next_change(zone, seconds - NEAR_SECONDS);
    while (change <= seconds) {
        int64_t day = local_day(zone, change - 1);
        if (day > latest) latest = day;
        change = zone_next_change(zone, change);
    }
    return latest;
}

/* The first instant whose local date is `day` or later. */
static int64_t day_begins(const struct zone *zone, int64_t day)
{
    int64_t midnight = day * DAY_SECONDS;
    int64_t from = midnight - NEAR_SECONDS;
    for (;;) {
        int64_t until = zone_next_change(zone, from);
        int64_t begins = midnight - zone_offset(zone, from);
        if (begins < from) begins = from;
        if (begins < until) return begins;
        from = until;
    }
}

static int64_t bucket_of_day(enum calendar_kind kind, int64_t day)
{
    struct date date;
    switch (kind) {
    case CALENDAR_DAY:
        return day;
    case CALENDAR_WEEK:
        return floor_div(day + 3, 7); /* 1970-01-01 was a Thursday */
    case CALENDAR_MONTH:
        date = date_of(day);
        return (date.year - 1970) * 12 + date.month - 1;
    case CALENDAR_YEAR:
        return date_of(day).year - 1970;
    }
    unreachable_state(kind);
}

static int64_t first_day(enum calendar_kind kind, int64_t bucket)
{
    int64_t years;
    switch (kind) {
    case CALENDAR_DAY:
        return bucket;
    case CALENDAR_WEEK:
        return bucket * 7 - 3;
    case CALENDAR_MONTH:
        years = floor_div(bucket, 12);
        return days_of(1970 + years, (int)(bucket - years * 12) + 1, 1);
    case CALENDAR_YEAR:
        return days_of(1970 + bucket, 1, 1);
    }
    unreachable_state(kind);
}

int64_t calendar_bucket(const struct zone *zone, enum calendar_kind kind, int64_t time_ms)
{
    return bucket_of_day(kind, day_reached(zone, floor_div(time_ms, 1000)));
}

int64_t calendar_start(const struct zone *zone, enum calendar_kind kind, int64_t bucket)
{
    return day_begins(zone, first_day(kind, bucket));
}

struct date calendar_date(enum calendar_kind kind, int64_t bucket)
{
    return date_of(first_day(kind, bucket));
}
