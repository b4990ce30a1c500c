/* arguments.c -- times, durations, numbers and dimensions from the command line. */
#include "cli/arguments.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/duration.h"
#include "config/tzdata.h"
#include "core/bucket.h"
#include "core/name.h"
#include "core/number.h"
#include "core/timefmt.h"

int argument_seconds(const char *command, const char *option, const char *text,
                     int64_t *seconds_out)
{
    int64_t ms;
    bool good = number_parse(bytes_str(text), seconds_out);
    if (!good && duration_parse(bytes_str(text), &ms) && ms % 1000 == 0) {
        *seconds_out = ms / 1000;
        good = true;
    }
    if (good && *seconds_out >= 0 && *seconds_out <= INT32_MAX) return EXIT_GOOD;
    return cli_usage_error(command, "%s must be whole seconds or a duration such as 60s, 1h, 1d",
                           option);
}

/* -24h: a duration before now. Epoch numbers may be negative too, but have no unit. */
static bool parse_before_now(struct bytes text, int64_t now_ms, int64_t *ms_out)
{
    int64_t before_ms;
    if (text.size < 2 || text.data[0] != '-') return false;
    if (!duration_parse(bytes_of(text.data + 1, text.size - 1), &before_ms)) return false;
    return !__builtin_sub_overflow(now_ms, before_ms, ms_out) && *ms_out >= TIME_MS_MIN;
}

static int parse_time(const char *command, const char *option, const char *text, int64_t *ms_out)
{
    int64_t now_ms = clock_wall_ms(&clock_system);
    struct bytes given = bytes_str(text);
    *ms_out = now_ms;
    if (bytes_equal(given, BYTES("now")) || time_parse(given, ms_out) ||
        parse_before_now(given, now_ms, ms_out))
        return EXIT_GOOD;
    return cli_usage_error(command,
                           "%s must be a time such as 2026-01-01T10:20:00Z, epoch seconds or "
                           "milliseconds, now, or a duration before now such as -24h",
                           option);
}

static void format_time(int64_t ms, char time_out[ARGUMENT_TIME_SIZE])
{
    struct buf formatted;
    buf_init(&formatted, ARGUMENT_TIME_SIZE);
    time_format(&formatted, ms);
    buf_add_char(&formatted, '\0');
    must(!formatted.failed);
    memcpy(time_out, formatted.data, formatted.size);
    buf_release(&formatted);
}

int argument_time(const char *command, const char *option, const char *text,
                  char time_out[ARGUMENT_TIME_SIZE])
{
    int64_t ms;
    int code = parse_time(command, option, text, &ms);
    if (!code) format_time(ms, time_out);
    return code;
}

int argument_granularity(const char *command, const struct granularity_flags *flags,
                         int32_t *granularity_out)
{
    enum calendar_kind kind;
    int64_t seconds = 0;
    const char *zone = flags->zone ? flags->zone : "UTC";
    if (flags->bucket && flags->duration)
        return cli_usage_error(command, "--duration and --bucket exclude each other");
    if (!flags->bucket && flags->zone) return cli_usage_error(command, "--zone goes with --bucket");
    if (!flags->bucket) {
        int code = flags->duration
                       ? argument_seconds(command, "--duration", flags->duration, &seconds)
                       : EXIT_GOOD;
        *granularity_out = (int32_t)seconds;
        return code;
    }
    if (!calendar_kind_parse(bytes_str(flags->bucket), &kind))
        return cli_usage_error(command, "--bucket must be day, week, month or year");
    tzdata_refresh();
    if (zones_granularity(zones_in_force(), kind, bytes_str(zone), granularity_out))
        return EXIT_GOOD;
    return cli_usage_error(command, "there is no time zone %s", zone);
}

int argument_bucket(const char *command, const char *option, const char *text, int32_t granularity,
                    char time_out[ARGUMENT_TIME_SIZE])
{
    int64_t ms, bucket, start;
    int code = parse_time(command, option, text, &ms);
    if (code) return code;
    bool known = bucket_around(ms, granularity, &bucket) &&
                 bucket_begins(bucket, granularity, &start) && start >= TIME_MS_MIN / 1000;
    format_time(known ? start * 1000 : ms, time_out);
    return EXIT_GOOD;
}

int argument_integer(const char *command, const char *option, const char *text, int64_t least,
                     int64_t *number_out)
{
    if (number_parse(bytes_str(text), number_out) && *number_out >= least) return EXIT_GOOD;
    return cli_usage_error(command, "%s must be an integer from %" PRId64 " to %" PRId64, option,
                           least, INT64_MAX);
}

int argument_pair(const char *command, const char *option, const char *text, struct bytes *key_out,
                  struct bytes *value_out)
{
    *value_out = bytes_str(text);
    *key_out = bytes_split(value_out, '=');
    if (key_out->size && value_out->data) return EXIT_GOOD;
    return cli_usage_error(command, "%s must look like key=value", option);
}

int argument_name(const char *command, const char *name)
{
    if (!name) return cli_usage_error(command, "which counter?");
    if (counter_name_valid(bytes_str(name))) return EXIT_GOOD;
    return cli_usage_error(command, "a counter's name is 1 to 255 of A-Z a-z 0-9 _ . ~ - :");
}
