/* bucket.c -- which time bucket a moment belongs to. */
#include "core/bucket.h"

#include "core/timefmt.h"
#include "core/zones.h"

int64_t bucket_start(int64_t time_ms, int32_t duration_seconds)
{
    must(duration_seconds >= 0);
    if (duration_seconds == 0) return 0;
    return floor_div(floor_div(time_ms, 1000), duration_seconds) * duration_seconds;
}

bool bucket_around(int64_t time_ms, int32_t granularity, int64_t *bucket_out)
{
    struct calendar calendar;
    if (granularity >= 0) {
        *bucket_out = bucket_start(time_ms, granularity);
        return true;
    }
    if (!zones_calendar(zones_in_force(), granularity, &calendar)) return false;
    *bucket_out = calendar_bucket(calendar.zone, calendar.kind, time_ms);
    return true;
}

bool bucket_begins(int64_t bucket, int32_t granularity, int64_t *seconds_out)
{
    struct calendar calendar;
    *seconds_out = bucket;
    if (granularity >= 0) return true;
    if (!zones_calendar(zones_in_force(), granularity, &calendar)) return false;
    *seconds_out = calendar_start(calendar.zone, calendar.kind, bucket);
    return true;
}

bool bucket_has_name(int64_t bucket, int32_t granularity)
{
    struct calendar calendar;
    if (granularity >= 0) return bucket >= TIME_MS_MIN / 1000;
    return zones_calendar(zones_in_force(), granularity, &calendar) &&
           calendar_date(calendar.kind, bucket).year >= 1;
}

int64_t bucket_count(int64_t first, int64_t last, int32_t granularity)
{
    must(first <= last);
    if (granularity == 0) return 1;
    must((last - first) % bucket_step(granularity) == 0);
    return (last - first) / bucket_step(granularity) + 1;
}
