/* bucket.c -- which time bucket a moment belongs to. */
#include "core/bucket.h"

#include "base/must.h"
#include "core/date.h"
#include "core/timefmt.h"

int64_t bucket_start(int64_t time_ms, int32_t duration_seconds)
{
    must(duration_seconds >= 0);
    if (duration_seconds == 0) return 0;
    return floor_div(floor_div(time_ms, 1000), duration_seconds) * duration_seconds;
}

bool bucket_has_name(int64_t start)
{
    return start >= TIME_MS_MIN / 1000;
}

int64_t bucket_count(int64_t first, int64_t last, int32_t duration_seconds)
{
    must(duration_seconds >= 0);
    must(first <= last);
    if (duration_seconds == 0) return 1;
    must((last - first) % duration_seconds == 0);
    return (last - first) / duration_seconds + 1;
}
