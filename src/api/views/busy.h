/* busy.h -- which names change most just now: a bounded sketch of the last few seconds.
 *
 * Example:
 *
 *     static void busy_show(struct bytes name, int64_t now_ns, struct buf *json)
 *     {
 *         struct busy *busy = busy_new(now_ns);
 *         busy_add(busy, name, 60, now_ns); // for each change
 *         busy_write(busy, now_ns, 100, json);
 *         busy_free(busy);
 *     }
 *
 * It writes {"milliseconds":2310,"counters":[..]}, the busiest first.
 *
 * It counts by the stretch of some seconds: what is shown is the stretch under way and the one
 * before, so that what was busy an hour ago is not. A name is in the one place of eight that its
 * hash allows; where all are taken the one with the fewest changes goes. So a name that changes
 * often stays, whatever number of others come by, and memory has a ceiling (4096 names). Counts of
 * names that were pushed out begin anew: too low, never too high. The caller locks. */
#ifndef TALLY_API_VIEWS_BUSY_H
#define TALLY_API_VIEWS_BUSY_H

#include "base/bytes.h"

struct busy;

struct busy *busy_new(int64_t now_ns); /* by the monotonic clock, here and below */
void busy_free(struct busy *busy);

/* `duration`: of the bucket that changed, shown with the name. */
void busy_add(struct busy *busy, struct bytes name, int32_t duration, int64_t now_ns);

void busy_write(struct busy *busy, int64_t now_ns, size_t limit, struct buf *json);

#endif
