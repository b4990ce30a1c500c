/* date.c -- days of the Gregorian calendar.
 *
 * Years are counted from March, so that the leap day is the last of its year and months need no
 * table: the months from March on have 153 days in each run of five. Eras, 400 years that all have
 * the same number of days, are cut off first, so that what is left is not negative. */
#include "core/date.h"

#define MARCH_DAYS 719468 /* from 0000-03-01 to 1970-01-01 */

int64_t days_of(int64_t year, int month, int day)
{
    int64_t march_year = month > 2 ? year : year - 1;
    int64_t march_month = month > 2 ? month - 3 : month + 9;
    int64_t era = floor_div(march_year, ERA_YEARS);
    int64_t year_of_era = march_year - era * ERA_YEARS;
    int64_t days = year_of_era * 365 + year_of_era / 4 - year_of_era / 100;
    return era * ERA_DAYS + days + (153 * march_month + 2) / 5 + day - 1 - MARCH_DAYS;
}

struct date date_of(int64_t days)
{
    days += MARCH_DAYS;
    int64_t era = floor_div(days, ERA_DAYS);
    int64_t day_of_era = days - era * ERA_DAYS;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t march_month = (5 * day_of_year + 2) / 153;
    int month = (int)(march_month < 10 ? march_month + 3 : march_month - 9);
    return (struct date){
        .year = year_of_era + era * ERA_YEARS + (month <= 2),
        .month = month,
        .day = (int)(day_of_year - (153 * march_month + 2) / 5 + 1),
    };
}

int month_days(int64_t year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return month == 2 && leap ? 29 : days[month - 1];
}
