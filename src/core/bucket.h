/* bucket.h -- which time bucket a moment belongs to.
 *
 * A granularity from 0 on is a duration in seconds: its buckets tile time from the Unix epoch in
 * both directions, each begins at its first instant, which is its number, and ends just before the
 * next. Duration 0 is the one bucket of all time, at the epoch. A granularity below 0 is a kind of
 * calendar bucket in a zone (core/zones.h), whose number counts local dates (core/calendar.h). */
#ifndef TALLY_CORE_BUCKET_H
#define TALLY_CORE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/must.h"

/* Its number; of a granularity from 0 on: floor(t / duration) * duration, toward minus infinity
 * also before 1970. */
int64_t bucket_start(int64_t time_ms, int32_t duration_seconds);

/* The same for any granularity. False: a calendar's zone is not known here. */
MUST_USE bool bucket_around(int64_t time_ms, int32_t granularity, int64_t *bucket_out);

/* Its first instant, in seconds. False: as above. */
MUST_USE bool bucket_begins(int64_t bucket, int32_t granularity, int64_t *seconds_out);

/* Whether the time at which a bucket begins can be said: the bucket around a moment of the first
 * years may begin before the year 0001 (core/timefmt.h). Nothing is counted in such a bucket. */
bool bucket_has_name(int64_t bucket, int32_t granularity);

/* From one bucket's number to the next one's; 0: there is no next. */
static inline int64_t bucket_step(int32_t granularity)
{
    return granularity < 0 ? 1 : granularity;
}

/* How many buckets lie from `first` to `last`, both counted. Both are buckets of that granularity,
 * `first` not after `last`. */
int64_t bucket_count(int64_t first, int64_t last, int32_t granularity);

#endif
