/* moment.h -- what a decision knows of the time: what it is, and how much of that is sure.
 *
 * Between the last batch before a start and the first one after it nobody watched the clock, so a
 * start believes the wall clock and yet does nothing by it that cannot be undone, until it has
 * been right for a while (core/timeline.h). What is sure meanwhile is the time that has passed
 * since the start.
 *
 * (1) `now_ms` dates what happens now. What cannot be undone (keys, cells and windows that are
 *     over, history that is let go of) goes by moment_age and moment_due, which never say more than
 *     is sure.
 * (2) A time that tally wrote itself is `since_ms` or later if it was written since the start: the
 *     whole age of such a time is sure, so a short window ends when it should right after a start.
 * (3) A time that tally wrote itself and that lies ahead was written before time was set back by
 *     `back_ms`; it is as much earlier as time was set back. So what was used before the setting
 *     back is neither forgotten by it nor remembered for longer. But if time was not sure then,
 *     what was written before the start did not lie in what was set back: `back_since_ms` is that
 *     start, and nothing that lies ahead counts as written before it. */
#ifndef TALLY_BASE_MOMENT_H
#define TALLY_BASE_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#define HELD_ALL INT64_MAX /* nothing is known to have passed: no absolute time is reached */

/* All zero but `now_ms`: everything is sure. */
struct moment {
    int64_t now_ms;        /* batch time */
    int64_t held_ms;       /* how much of it is not sure */
    int64_t since_ms;      /* the start, while `held_ms` is not 0 */
    int64_t back_ms;       /* by how much time was set back last, less what it leapt since */
    int64_t back_since_ms; /* the start, if time was not sure when it was set back; else 0 */
};

/* The time that is sure to have come; INT64_MIN: none is. */
int64_t moment_sure(const struct moment *moment);

/* When `then_ms` was really written: earlier than it says if it lies ahead, else as it says. */
int64_t moment_written(const struct moment *moment, int64_t then_ms);

/* How long ago `then_ms`, which tally wrote, surely is; never below 0. */
int64_t moment_age(const struct moment *moment, int64_t then_ms);

/* Makes `now_ms` no earlier than given; what is sure stays what it was, and no age changes. */
void moment_raise(struct moment *moment, int64_t now_ms);

/* Whatever was written before the time this returns is surely older than `age_ms`, which is not
 * negative. */
int64_t moment_ago(const struct moment *moment, int64_t age_ms);

/* Whether `at_ms`, which may come from anywhere, has surely come. */
static inline bool moment_due(const struct moment *moment, int64_t at_ms)
{
    return at_ms <= moment_sure(moment);
}

/* Time has leapt forth by so much, or may have: what still lies ahead after it was set back is by
 * as much less earlier. `now_ms` is the caller's to set. */
void moment_leap(struct moment *moment, int64_t by_ms);

#endif
