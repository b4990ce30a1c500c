/* date.h -- days of the Gregorian calendar, counted from 1970-01-01. Pure. */
#ifndef TALLY_CORE_DATE_H
#define TALLY_CORE_DATE_H

#include <stdbool.h>
#include <stdint.h>

#define DAY_SECONDS 86400
/* After so many days the calendar begins anew: leap years and days of the week alike. */
#define ERA_DAYS 146097
#define ERA_YEARS 400

struct date {
    int64_t year;
    int month; /* 1 to 12 */
    int day;   /* 1 to 31 */
};

/* Any year; the month is one that there is, and the day may be any number. */
int64_t days_of(int64_t year, int month, int day);
struct date date_of(int64_t days);

int month_days(int64_t year, int month);

/* C divides toward zero, which before 1970 is a day late. `by` is above zero. */
static inline int64_t floor_div(int64_t value, int64_t by)
{
    return value / by - (value % by < 0);
}

#endif
