/* calendar.h -- days, weeks, months and years as a place's people live them. Pure.
 *
 * A bucket is known by its kind and its number, which counts local dates and not instants: when a
 * zone's rules change, a bucket's ends move and nothing is split. It begins with the first instant
 * at which the local date is its first one or a later one, and ends where the next one begins. So
 * buckets tile time: a day has 23 or 25 hours where clocks are turned, a date that a zone leaves
 * out has no instant, and a date that comes back for an hour belongs to the one that had begun. */
#ifndef TALLY_CORE_CALENDAR_H
#define TALLY_CORE_CALENDAR_H

#include "core/date.h"
#include "core/zone.h"

enum calendar_kind { CALENDAR_DAY, CALENDAR_WEEK, CALENDAR_MONTH, CALENDAR_YEAR };
#define CALENDAR_KINDS 4u

/* The number of the bucket around a time in milliseconds. Days are counted from 1970-01-01, weeks
 * from the one of that day and from Monday to Sunday, months and years from its. */
int64_t calendar_bucket(const struct zone *zone, enum calendar_kind kind, int64_t time_ms);

/* Its first instant, in seconds; one that has none begins and ends where the next one begins. */
int64_t calendar_start(const struct zone *zone, enum calendar_kind kind, int64_t bucket);

/* The local date that it is called by, its first one. */
struct date calendar_date(enum calendar_kind kind, int64_t bucket);

#endif
