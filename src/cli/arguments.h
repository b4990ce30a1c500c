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

/* The same, moved back to the beginning of its bucket of `seconds`: then a repeat of the command a
 * moment later is the same request, as an idempotency key demands. */
MUST_USE int argument_bucket(const char *command, const char *option, const char *text,
                             int64_t seconds, char time_out[ARGUMENT_TIME_SIZE]);

/* A 64-bit integer not below `least`. */
MUST_USE int argument_integer(const char *command, const char *option, const char *text,
                              int64_t least, int64_t *number_out);

/* key=value; the key goes up to the first '='. */
MUST_USE int argument_pair(const char *command, const char *option, const char *text,
                           struct bytes *key_out, struct bytes *value_out);

/* A counter's name. */
MUST_USE int argument_name(const char *command, const char *name);

#endif
