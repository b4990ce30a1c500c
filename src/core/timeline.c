/* timeline.c -- see the header. */
#include "core/timeline.h"

#include "base/must.h"

#define HOUR_MS (3600 * INT64_C(1000))
#define LEAD_MS_MAX 1000 /* how far a settling clock may lead; beyond that time is set back */
#define VOUCHED_GAP_MS \
    (60 * INT64_C(1000)) /* nobody looked for longer: the kernel's word is old \
                          */

static void timeline_check(const struct timeline *timeline)
{
    must(timeline->settings.tolerance_ms >= 0);
    must(timeline->settings.settle_ms >= 0);
    must(!timeline->certain || !timeline->settling);
    must(timeline->suspect || timeline->vouched_boot_ms < 0);
}

/* -- The band of offsets (law 2) --------------------------------------------------------------- */

static void band_reset(struct timeline *timeline)
{
    for (unsigned i = 0; i < TIMELINE_SLOTS; i++)
        timeline->slots[i].hour = -1;
}

static void band_add(struct timeline *timeline)
{
    int64_t hour = timeline->boot_ms / HOUR_MS;
    int64_t offset_ms = timeline->offset_ms;
    struct offsets *slot = &timeline->slots[hour % TIMELINE_SLOTS];
    if (slot->hour != hour) *slot = (struct offsets){hour, offset_ms, offset_ms};
    if (offset_ms < slot->least_ms) slot->least_ms = offset_ms;
    if (offset_ms > slot->most_ms) slot->most_ms = offset_ms;
}

/* Whether following this offset keeps the band narrow enough. */
static bool band_fits(const struct timeline *timeline, int64_t offset_ms)
{
    int64_t hour = timeline->boot_ms / HOUR_MS;
    int64_t least_ms = timeline->offset_ms;
    int64_t most_ms = least_ms;
    if (offset_ms == timeline->offset_ms) return true;
    for (unsigned i = 0; i < TIMELINE_SLOTS; i++) {
        const struct offsets *slot = &timeline->slots[i];
        if (slot->hour < 0 || hour - slot->hour >= TIMELINE_SLOTS) continue;
        if (slot->least_ms < least_ms) least_ms = slot->least_ms;
        if (slot->most_ms > most_ms) most_ms = slot->most_ms;
    }
    if (offset_ms < least_ms) least_ms = offset_ms;
    if (offset_ms > most_ms) most_ms = offset_ms;
    return most_ms - least_ms <= timeline->settings.tolerance_ms;
}

/* -- What is sure (laws 4 and 7) --------------------------------------------------------------- */

static void be_certain(struct timeline *timeline)
{
    timeline->certain = true;
    timeline->settling = false;
}

static int64_t sure_now(const struct timeline *timeline)
{
    if (!timeline->certain && timeline->sure_none) return INT64_MIN;
    int64_t offset_ms = timeline->certain ? timeline->offset_ms : timeline->sure_offset_ms;
    int64_t sure_ms = timeline->boot_ms + offset_ms;
    return sure_ms < timeline->now_ms ? sure_ms : timeline->now_ms;
}

struct moment timeline_moment(const struct timeline *timeline)
{
    struct moment moment = {.now_ms = timeline->now_ms,
                            .back_ms = timeline->back_ms,
                            .back_since_ms = timeline->back_since_ms};
    bool none = !timeline->certain && timeline->sure_none;
    moment.held_ms = none ? HELD_ALL : timeline->now_ms - sure_now(timeline);
    if (moment.held_ms) moment.since_ms = timeline->since_ms;
    return moment;
}

/* -- Believing and not believing --------------------------------------------------------------- */

static void go_on(struct timeline *timeline)
{
    int64_t time_ms = timeline->boot_ms + timeline->offset_ms;
    if (timeline->certain && !timeline->leads) timeline->since_ms = timeline->now_ms;
    timeline->leads = time_ms < timeline->now_ms;
    if (!timeline->leads) timeline->now_ms = time_ms;
}

static void believe(struct timeline *timeline)
{
    timeline->suspect = false;
    timeline->vouched_boot_ms = -1;
    timeline->offset_ms = timeline->wall_ms - timeline->boot_ms;
    band_add(timeline);
}

/* When time leaps forth, what still lies ahead counts as written later than before, by as much as
 * time leapt. */
static void leap_to(struct timeline *timeline, int64_t to_ms)
{
    struct moment moment = {.back_ms = timeline->back_ms, .back_since_ms = timeline->back_since_ms};
    moment_leap(&moment, to_ms - timeline->now_ms);
    timeline->back_ms = moment.back_ms;
    timeline->back_since_ms = moment.back_since_ms;
}

static void believe_anew(struct timeline *timeline)
{
    leap_to(timeline, timeline->wall_ms);
    band_reset(timeline);
    believe(timeline);
}

static void take(struct timeline *timeline, const struct clock_reading *reading)
{
    if (reading->boot_ms > timeline->boot_ms) timeline->boot_ms = reading->boot_ms;
    timeline->wall_ms = reading->wall_ms;
}

void timeline_start(struct timeline *timeline, const struct timeline_settings *settings,
                    const struct clock_reading *reading, const struct moment *last)
{
    bool first = last->now_ms == TIMELINE_NEVER;
    *timeline = (struct timeline){.settings = *settings,
                                  .settling = true,
                                  .started_boot_ms = reading->boot_ms,
                                  .boot_ms = reading->boot_ms,
                                  .wall_ms = reading->wall_ms,
                                  .now_ms = last->now_ms,
                                  .back_ms = last->back_ms,
                                  .back_since_ms = last->back_since_ms,
                                  .vouched_boot_ms = -1};
    timeline->sure_none = first || moment_sure(last) == INT64_MIN;
    if (!timeline->sure_none) timeline->sure_offset_ms = moment_sure(last) - reading->boot_ms;
    bool gap = first || reading->wall_ms > last->now_ms + settings->tolerance_ms;
    timeline->since_ms = last->held_ms ? last->since_ms : last->now_ms;
    band_reset(timeline);
    timeline->suspect = !first && reading->wall_ms < last->now_ms - settings->tolerance_ms;
    if (timeline->suspect) {
        timeline->offset_ms = last->now_ms - reading->boot_ms;
        band_add(timeline);
    } else {
        if (!first) leap_to(timeline, timeline->wall_ms);
        believe(timeline);
        if (gap || !last->held_ms) timeline->since_ms = timeline->wall_ms;
    }
    timeline_look(timeline, reading);
}

/* Law (3): the kernel vouches without a break, counted from when the clock became suspect. */
static bool is_vouched_for(struct timeline *timeline, const struct clock_reading *reading,
                           int64_t gap_ms)
{
    if (!reading->synchronised) {
        timeline->vouched_boot_ms = -1;
        return false;
    }
    if (timeline->vouched_boot_ms < 0 || gap_ms > VOUCHED_GAP_MS)
        timeline->vouched_boot_ms = timeline->boot_ms;
    return timeline->boot_ms - timeline->vouched_boot_ms >= timeline->settings.settle_ms;
}

/* Where law (5) takes time back to: no further than what is sure. */
static int64_t way_back(const struct timeline *timeline)
{
    int64_t sure_ms = sure_now(timeline);
    return timeline->wall_ms > sure_ms ? timeline->wall_ms : sure_ms;
}

bool timeline_wants_back(const struct timeline *timeline)
{
    return timeline->settling && !timeline->suspect &&
           way_back(timeline) < timeline->now_ms - LEAD_MS_MAX;
}

static void judge(struct timeline *timeline, const struct clock_reading *reading, int64_t gap_ms)
{
    if (band_fits(timeline, timeline->wall_ms - timeline->boot_ms)) {
        if (timeline->suspect) timeline->started_boot_ms = timeline->boot_ms; /* it settles anew */
        believe(timeline);
        return;
    }
    if (timeline_wants_back(timeline)) {
        timeline->started_boot_ms = timeline->boot_ms; /* should it return, it settles anew */
        return;
    }
    timeline->suspect = true;
    if (!is_vouched_for(timeline, reading, gap_ms)) return;
    believe_anew(timeline);
    be_certain(timeline);
}

void timeline_look(struct timeline *timeline, const struct clock_reading *reading)
{
    timeline_check(timeline);
    int64_t gap_ms = reading->boot_ms - timeline->boot_ms;
    take(timeline, reading);
    judge(timeline, reading, gap_ms);
    go_on(timeline);
    bool settled = timeline->boot_ms - timeline->started_boot_ms >= timeline->settings.settle_ms;
    if (!timeline->settling || !settled) return;
    if (timeline->suspect || timeline_wants_back(timeline)) return;
    be_certain(timeline);
}

/* -- Setting back ------------------------------------------------------------------------------ */

void timeline_accept(struct timeline *timeline, const struct clock_reading *reading)
{
    take(timeline, reading);
    believe_anew(timeline);
    be_certain(timeline);
    go_on(timeline);
}

static void go_back(struct timeline *timeline, int64_t to_ms)
{
    timeline->back_ms = timeline->now_ms - to_ms;
    timeline->since_ms -= timeline->back_ms;
    timeline->now_ms = to_ms;
    timeline->offset_ms = to_ms - timeline->boot_ms;
    band_reset(timeline);
    band_add(timeline);
}

void timeline_set_back(struct timeline *timeline, const struct clock_reading *reading,
                       bool operator_says)
{
    timeline_check(timeline);
    bool was_certain = timeline->certain && !timeline->leads;
    int64_t since_ms = timeline->since_ms;
    if (operator_says) timeline_accept(timeline, reading);
    take(timeline, reading);
    if (!operator_says && !timeline_wants_back(timeline)) return;
    int64_t to_ms = operator_says ? timeline->wall_ms : way_back(timeline);
    if (to_ms < timeline->now_ms) {
        go_back(timeline, to_ms);
        timeline->back_since_ms = was_certain ? 0 : since_ms - timeline->back_ms;
    }
    timeline->suspect = timeline->wall_ms < to_ms - timeline->settings.tolerance_ms;
}

/* What is dated `last_ms` may have been written just now, and is taken to be: so it is not sure to
 * be any older. What was written longer before the first setting back is that much younger too. */
void timeline_back_from(struct timeline *timeline, int64_t last_ms)
{
    if (last_ms > timeline->now_ms) timeline->back_ms = last_ms - timeline->now_ms;
}
