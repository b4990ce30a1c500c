/* bucket.h -- which time bucket a moment belongs to.
 *
 * Buckets tile time from the Unix epoch in both directions; each begins at its first instant and
 * ends just before the next. Duration 0 is the one bucket of all time, at the epoch. */
#ifndef TALLY_CORE_BUCKET_H
#define TALLY_CORE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

/* The start of the bucket around `time_ms`, in seconds: floor(t / duration) * duration, toward
 * minus infinity also before 1970. */
int64_t bucket_start(int64_t time_ms, int32_t duration_seconds);

/* Whether the time at which a bucket begins can be said: the bucket around a moment of the first
 * years may begin before the year 0001 (core/timefmt.h). Nothing is counted in such a bucket. */
bool bucket_has_name(int64_t start);

/* How many buckets lie from the one starting at `first` to the one starting at `last`, both
 * counted. Both are bucket starts of that duration, `first` not after `last`. */
int64_t bucket_count(int64_t first, int64_t last, int32_t duration_seconds);

#endif
