/* timeline.h -- batch time: one line of time out of a wall clock that may step.
 *
 *     SETTLING --settle passed--> STEADY --the wall steps--> SUSPECT
 *         \_____________ the wall steps ____________________/    \--believed again--> STEADY
 *
 * It is pure: it is told what the clocks say and asked what time it is. "Boot" is CLOCK_BOOTTIME,
 * which never steps and counts the time that a machine sleeps, so suspend and resume are no step.
 *
 * (1) Time is boot time plus an offset. While the wall clock is believed, the offset follows it.
 * (2) All offsets followed within 24 hours lie within `tolerance_ms` of each other. A wall clock
 *     that would lead out of that band has stepped by too much, at once or little by little: it is
 *     suspect, and time goes on by boot time from where it was.
 * (3) A suspect clock is believed again once it is back within the band, once the kernel has called
 *     it synchronised for `settle_ms` since it became suspect, or when an operator says so. Then
 *     everything is as sure as an operator can make it.
 * (4) At a start a wall clock that is not before the last batch is believed, but what passed since
 *     the last batch is not sure (base/moment.h) until it was believed for `settle_ms`. A wall
 *     clock before the last batch is suspect, but for one within the tolerance: then time stands
 *     still, as by (6). A life that begins within the tolerance after one that was not sure itself
 *     goes on with what that one knew: what was written then has the age that it has.
 * (5) Until it has settled, a believed clock that steps back was wrong at the start: time is to be
 *     set back (timeline_wants_back), but not before what is sure. A clock that says so is suspect.
 *     One that steps back and returns before time was set back settles anew.
 * (6) Otherwise time never runs back: after a lead it stands still until the lead is gone. Only
 *     timeline_set_back takes it back.
 * (7) What is sure passes with boot time and never jumps but by (3), or at the end of (4); then it
 *     is what the believed clock says, so nothing of a lead is sure. */
#ifndef TALLY_CORE_TIMELINE_H
#define TALLY_CORE_TIMELINE_H

#include "base/moment.h"

struct timeline_settings {
    int64_t tolerance_ms; /* what all steps within a day may add up to */
    int64_t settle_ms;
};

struct clock_reading {
    int64_t wall_ms;
    int64_t boot_ms;
    bool synchronised; /* looked at only while the clock is suspect */
};

#define TIMELINE_NEVER INT64_MIN /* as the time of the last batch: there was none */
#define TIMELINE_SLOTS 25u       /* hours in which offsets are remembered, the one under way too */

struct timeline {
    struct timeline_settings settings;
    bool suspect;
    bool settling;
    int64_t started_boot_ms;
    int64_t boot_ms;        /* at the last look */
    int64_t now_ms;         /* the last answer */
    int64_t offset_ms;      /* what is added to boot time; it follows the wall clock or goes on */
    int64_t wall_ms;        /* at the last look */
    bool certain;           /* everything that boot time and the offset say is sure */
    bool leads;             /* `now_ms` is ahead of boot time and the offset */
    bool sure_none;         /* nothing is sure */
    int64_t sure_offset_ms; /* else boot time and this is */
    int64_t since_ms;
    int64_t back_ms;
    int64_t back_since_ms;
    int64_t
        vouched_boot_ms; /* since when the kernel vouches for a suspect clock; -1: it does not */

    struct offsets {
        int64_t hour; /* in boot time; -1: none */
        int64_t least_ms;
        int64_t most_ms;
    } slots[TIMELINE_SLOTS];
};

/* `last` is what the life before recorded: batch time and what was not sure of it. */
void timeline_start(struct timeline *timeline, const struct timeline_settings *settings,
                    const struct clock_reading *reading, const struct moment *last);

/* Takes in what the clocks say now. */
void timeline_look(struct timeline *timeline, const struct clock_reading *reading);

/* The time as of the last look. */
struct moment timeline_moment(const struct timeline *timeline);

/* True: the wall clock was wrong when this life began, and time should be set back. */
bool timeline_wants_back(const struct timeline *timeline);

/* Sets time to what the wall clock says; if that is not back, the clock is no more than accepted.
 * An operator's word leaves nothing unsure, else law (5) says how far back time goes. */
void timeline_set_back(struct timeline *timeline, const struct clock_reading *reading,
                       bool operator_says);

/* A setting back before this one did not last: batches since then went on being dated `last_ms`, so
 * it is from there that time goes back. */
void timeline_back_from(struct timeline *timeline, int64_t last_ms);

/* Believes the wall clock, because an operator says that it is right. */
void timeline_accept(struct timeline *timeline, const struct clock_reading *reading);

#endif
