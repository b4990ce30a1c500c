/* zone_rule.c -- the rule by which a zone goes on.
 *
 * Reading walks a view over the text: each step either takes its part or says no. */
#include "core/zone_rule.h"

#include "core/date.h"
#include "core/zone.h"

#define HOURS_MAX 167
#define SUMMER_SECONDS 3600 /* where the rule does not say how much it is */
#define TURN_SECONDS 7200   /* nor at what time it comes */

struct rule_text {
    const char *at;
    const char *end;
};

static bool take(struct rule_text *text_left, char expected)
{
    if (text_left->at == text_left->end || *text_left->at != expected) return false;
    text_left->at++;
    return true;
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

static bool take_number(struct rule_text *text_left, int least, int most, int *number_out)
{
    const char *begin = text_left->at;
    int number = 0;
    for (; text_left->at < text_left->end && *text_left->at >= '0' && *text_left->at <= '9';
         text_left->at++) {
        number = number * 10 + (*text_left->at - '0');
        if (number > most) return false;
    }
    *number_out = number;
    return text_left->at > begin && number >= least;
}

/* A name is letters, or anything between angle brackets. It is not kept. */
static bool take_name(struct rule_text *text_left)
{
    const char *begin = text_left->at;
    if (take(text_left, '<')) {
        while (text_left->at < text_left->end && *text_left->at != '>')
            text_left->at++;
        return take(text_left, '>');
    }
    while (text_left->at < text_left->end && is_letter(*text_left->at))
        text_left->at++;
    return text_left->at - begin >= 3;
}

/* [+-]hh[:mm[:ss]] */
static bool take_seconds(struct rule_text *text_left, int32_t *seconds_out)
{
    int hours, minutes = 0, seconds = 0;
    bool negative = take(text_left, '-');
    if (!negative) (void)take(text_left, '+');
    if (!take_number(text_left, 0, HOURS_MAX, &hours)) return false;
    if (take(text_left, ':')) {
        if (!take_number(text_left, 0, 59, &minutes)) return false;
        if (take(text_left, ':') && !take_number(text_left, 0, 59, &seconds)) return false;
    }
    int32_t total = hours * 3600 + minutes * 60 + seconds;
    *seconds_out = negative ? -total : total;
    return true;
}

/* POSIX counts offsets westward. */
static bool take_offset(struct rule_text *text_left, int32_t *offset_out)
{
    int32_t west;
    if (!take_seconds(text_left, &west) || west < -ZONE_OFFSET_MAX || west > ZONE_OFFSET_MAX)
        return false;
    *offset_out = -west;
    return true;
}

/* Jn, n or Mm.w.d, then perhaps /time. */
static bool take_day(struct rule_text *text_left, struct zone_day *day_out)
{
    *day_out = (struct zone_day){.kind = DAY_OF_YEAR, .at = TURN_SECONDS};
    if (take(text_left, 'M')) {
        day_out->kind = DAY_OF_WEEK;
        if (!take_number(text_left, 1, 12, &day_out->month) || !take(text_left, '.')) return false;
        if (!take_number(text_left, 1, 5, &day_out->week) || !take(text_left, '.')) return false;
        if (!take_number(text_left, 0, 6, &day_out->day)) return false;
    } else {
        bool julian = take(text_left, 'J');
        if (julian) day_out->kind = DAY_JULIAN;
        if (!take_number(text_left, julian ? 1 : 0, 365, &day_out->day)) return false;
    }
    return !take(text_left, '/') || take_seconds(text_left, &day_out->at);
}

bool zone_rule_parse(struct bytes text, struct zone_rule *rule_out)
{
    struct rule_text text_left = {text.data, text.data + text.size};
    *rule_out = (struct zone_rule){0};
    if (!take_name(&text_left) || !take_offset(&text_left, &rule_out->standard)) return false;
    if (text_left.at == text_left.end) return true;
    rule_out->has_summer = true;
    rule_out->summer = rule_out->standard + SUMMER_SECONDS;
    if (!take_name(&text_left)) return false;
    if (text_left.at < text_left.end && *text_left.at != ',' &&
        !take_offset(&text_left, &rule_out->summer))
        return false;
    return take(&text_left, ',') && take_day(&text_left, &rule_out->begins) &&
           take(&text_left, ',') && take_day(&text_left, &rule_out->ends) &&
           text_left.at == text_left.end;
}

/* 1970-01-01 was a Thursday. */
static int week_day(int64_t days)
{
    return (int)(days + 4 - floor_div(days + 4, 7) * 7);
}

static int64_t day_in(const struct zone_day *day, int64_t year)
{
    int64_t new_year = days_of(year, 1, 1);
    if (day->kind == DAY_OF_YEAR) return new_year + day->day;
    if (day->kind == DAY_JULIAN)
        return new_year + day->day - 1 + (day->day > 59 && month_days(year, 2) == 29);
    int64_t first = days_of(year, day->month, 1);
    int64_t found = first + (day->day - week_day(first) + 7) % 7 + (day->week - 1) * 7;
    return found >= first + month_days(year, day->month) ? found - 7 : found;
}

struct zone_year zone_rule_year(const struct zone_rule *rule, int64_t year)
{
    int64_t begins = day_in(&rule->begins, year) * DAY_SECONDS + rule->begins.at - rule->standard;
    int64_t ends = day_in(&rule->ends, year) * DAY_SECONDS + rule->ends.at - rule->summer;
    if (begins < ends) return (struct zone_year){begins, ends, rule->summer, rule->standard};
    return (struct zone_year){ends, begins, rule->standard, rule->summer};
}
