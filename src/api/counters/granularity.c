/* granularity.c -- how a call names the length of buckets. */
#include "api/counters/granularity.h"

#include "core/bucket.h"
#include "core/timefmt.h"
#include "core/zones.h"

const char *const calendar_choices[] = {"day", "week", "month", "year", NULL};
_Static_assert(ARRAY_COUNT(calendar_choices) == CALENDAR_KINDS + 1, "in the order of the kinds");

enum err granularity_read(const struct granularity_values *values, int32_t *granularity_out,
                          struct reason *why)
{
    const struct bytes zone = values->zone->present ? values->zone->text : BYTES("UTC");
    *granularity_out = (int32_t)values->duration->integer;
    if (values->bucket->present && values->duration->present)
        return reason_err(why, ERR_INVALID, "durationSeconds and bucket exclude each other.");
    if (!values->bucket->present && values->zone->present)
        return reason_err(why, ERR_INVALID, "zone goes with bucket: day, week, month or year.");
    if (!values->bucket->present && !values->duration->present && values->required)
        return reason_err(why, ERR_INVALID, "durationSeconds is required.");
    if (!values->bucket->present) return ERR_OK;
    if (zones_granularity(zones_in_force(), (enum calendar_kind)values->bucket->integer, zone,
                          granularity_out))
        return ERR_OK;
    return reason_err(why, ERR_UNKNOWN_ZONE, "There is no time zone \"%.*s\".", (int)zone.size,
                      zone.data);
}

/* A zone that went from the data since it was counted by keeps its place, without its name. */
static const char *zone_name(int32_t granularity, enum calendar_kind *kind_out)
{
    struct calendar calendar = {.kind = CALENDAR_DAY, .name = "?"};
    (void)!zones_calendar(zones_in_force(), granularity, &calendar); /* or it stays as it is */
    *kind_out = calendar.kind;
    return calendar.name;
}

void granularity_write_fields(struct buf *json, int32_t granularity)
{
    enum calendar_kind kind;
    if (granularity >= 0) {
        buf_addf(json, "\"durationSeconds\":%d", (int)granularity);
        return;
    }
    const char *name = zone_name(granularity, &kind);
    buf_addf(json, "\"bucket\":\"%s\",\"zone\":\"%s\"", calendar_kind_name(kind), name);
}

void granularity_write(struct buf *json, int32_t granularity)
{
    if (granularity >= 0) {
        buf_add_i64(json, granularity);
        return;
    }
    buf_add_char(json, '{');
    granularity_write_fields(json, granularity);
    buf_add_char(json, '}');
}

void granularity_say(int32_t granularity, struct reason *why)
{
    enum calendar_kind kind;
    if (granularity >= 0) {
        reason_add(why, "%d", (int)granularity);
        return;
    }
    const char *name = zone_name(granularity, &kind);
    reason_add(why, "bucket %s in %s", calendar_kind_name(kind), name);
}

static void write_date(struct buf *json, int64_t bucket, int32_t granularity)
{
    struct calendar calendar;
    if (!zones_calendar(zones_in_force(), granularity, &calendar)) return;
    struct date date = calendar_date(calendar.kind, bucket);
    buf_addf(json, "\"date\":\"%04lld-%02d-%02d\",", (long long)date.year, date.month, date.day);
}

void granularity_write_bucket(struct buf *json, int64_t bucket, int32_t granularity)
{
    int64_t seconds;
    bool known = bucket_begins(bucket, granularity, &seconds);
    must(known);
    buf_add(json, BYTES("\"timeStart\":"));
    time_format_json(json, seconds * 1000);
    buf_add_char(json, ',');
    if (granularity < 0) write_date(json, bucket, granularity);
}
