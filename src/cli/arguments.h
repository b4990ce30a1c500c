/* arguments.h -- what people write for times, durations, numbers and dimensions. */
#ifndef TALLY_CLI_ARGUMENTS_H
#define TALLY_CLI_ARGUMENTS_H

#include "cli/cli.h"

/* Each takes an option's name for its message and returns EXIT_USAGE after saying what is wrong. */

/* Seconds as a number, or a duration such as 60s, 1h, 1d; 0 to 2147483647. */
MUST_USE int argument_seconds(const char *command, const char *option, const char *text,
                              int64_t *seconds_out);

/* Takes what the server takes for a time, "now", or a duration before now such as -24h. The time
 * goes out as ISO 8601. */
#define ARGUMENT_TIME_SIZE 40
MUST_USE int argument_time(const char *command, const char *option, const char *text,
                           char time_out[ARGUMENT_TIME_SIZE]);

/* The length of buckets as a command was told it: --duration, or --bucket and --zone. */
struct granularity_flags {
    const char *duration; /* NULL: not given, which means 0 */
    const char *bucket;
    const char *zone;
};
#define GRANULARITY_OPTIONS(flags)                                                  \
    {"--duration", &(flags)->duration, NULL}, {"--bucket", &(flags)->bucket, NULL}, \
    {                                                                               \
        "--zone", &(flags)->zone, NULL                                              \
    }
#define GRANULARITY_HELP                                                                      \
    "  --duration D         the buckets' length: 0 (default, one for ever), 60, 1m, 1h, 1d\n" \
    "  --bucket KIND        or a calendar's: day, week, month or year,\n"                     \
    "  --zone ZONE          in that time zone, such as Europe/Berlin (default UTC)\n"

/* A granularity as core/bucket.h has it. */
MUST_USE int argument_granularity(const char *command, const struct granularity_flags *flags,
                                  int32_t *granularity_out);

/* A time, moved back to the beginning of its bucket: then a repeat of the command a moment later is
 * the same request, as an idempotency key demands. */
MUST_USE int argument_bucket(const char *command, const char *option, const char *text,
                             int32_t granularity, char time_out[ARGUMENT_TIME_SIZE]);

/* A 64-bit integer not below `least`. */
MUST_USE int argument_integer(const char *command, const char *option, const char *text,
                              int64_t least, int64_t *number_out);

/* key=value; the key goes up to the first '='. */
MUST_USE int argument_pair(const char *command, const char *option, const char *text,
                           struct bytes *key_out, struct bytes *value_out);

/* A counter's name. */
MUST_USE int argument_name(const char *command, const char *name);

#endif
