/* moment.c -- see the header. */
#include "base/moment.h"

int64_t moment_sure(const struct moment *moment)
{
    int64_t sure_ms;
    if (moment->held_ms == HELD_ALL) return INT64_MIN;
    return __builtin_sub_overflow(moment->now_ms, moment->held_ms, &sure_ms) ? INT64_MIN : sure_ms;
}

int64_t moment_written(const struct moment *moment, int64_t then_ms)
{
    if (then_ms <= moment->now_ms) return then_ms;
    then_ms -= moment->back_ms;
    bool before_start = moment->back_since_ms && then_ms < moment->back_since_ms;
    return before_start ? moment->back_since_ms : then_ms;
}

int64_t moment_age(const struct moment *moment, int64_t then_ms)
{
    int64_t age_ms;
    int64_t until_ms = moment->now_ms;
    then_ms = moment_written(moment, then_ms);
    if (then_ms < moment->since_ms) until_ms = moment_sure(moment);
    if (then_ms >= until_ms) return 0;
    return __builtin_sub_overflow(until_ms, then_ms, &age_ms) ? INT64_MAX : age_ms;
}

int64_t moment_ago(const struct moment *moment, int64_t age_ms)
{
    int64_t ago_ms;
    return __builtin_sub_overflow(moment_sure(moment), age_ms, &ago_ms) ? INT64_MIN : ago_ms;
}

void moment_leap(struct moment *moment, int64_t by_ms)
{
    if (by_ms <= 0) return;
    moment->back_ms = by_ms < moment->back_ms ? moment->back_ms - by_ms : 0;
    if (moment->back_since_ms) moment->back_since_ms += by_ms;
}

void moment_raise(struct moment *moment, int64_t now_ms)
{
    if (now_ms <= moment->now_ms) return;
    if (moment->held_ms != HELD_ALL) moment->held_ms += now_ms - moment->now_ms;
    moment->now_ms = moment->since_ms = now_ms;
}
