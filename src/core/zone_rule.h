/* zone_rule.h -- the rule by which a zone goes on after the changes that its file names. Pure.
 *
 * It is written as POSIX writes TZ, with hours up to 167 either way (RFC 9636, 3.3.1):
 *
 *     CET-1CEST,M3.5.0,M10.5.0/3      <+1030>-10:30<+11>-11,M10.1.0,M4.1.0      EST5
 */
#ifndef TALLY_CORE_ZONE_RULE_H
#define TALLY_CORE_ZONE_RULE_H

#include "base/bytes.h"

/* A day of each year, and a time on it. */
struct zone_day {
    enum { DAY_JULIAN, DAY_OF_YEAR, DAY_OF_WEEK } kind;
    int month;  /* DAY_OF_WEEK: 1 to 12, */
    int week;   /* 1 to 5, which is the last one, */
    int day;    /* 0 to 6 from Sunday. DAY_JULIAN: 1 to 365 without leap days, else 0 to 365 */
    int32_t at; /* seconds after local midnight */
};

struct zone_rule {
    int32_t standard; /* offsets from UTC, in seconds */
    int32_t summer;
    bool has_summer;
    struct zone_day begins; /* summer, by standard time, */
    struct zone_day ends;   /* and by summer time */
};

/* The two changes of a year, in order. */
struct zone_year {
    int64_t first_at;
    int64_t second_at;
    int32_t first_offset;
    int32_t second_offset;
};

MUST_USE bool zone_rule_parse(struct bytes text, struct zone_rule *rule_out);

/* The rule has a summer. */
struct zone_year zone_rule_year(const struct zone_rule *rule, int64_t year);

#endif
