/* timefmt.h -- points in time as people and programs write them. Pure; UTC throughout.
 *
 * Every time inside tally is a count of milliseconds since the Unix epoch. What comes in from
 * outside lies between TIME_MS_MIN and TIME_MS_MAX, which is what the parsing functions promise. */
#ifndef TALLY_CORE_TIMEFMT_H
#define TALLY_CORE_TIMEFMT_H

#include "base/bytes.h"

#define TIME_MS_MIN (-62135596800000) /* 0001-01-01T00:00:00.000Z */
#define TIME_MS_MAX 253402300799999   /* 9999-12-31T23:59:59.999Z */

/* Reads ISO 8601 or, for queries and JSON strings, an epoch number as digits (SPEC 3, A-19):
 *
 *     2024-03-15                       midnight
 *     2024-03-15T10:30[:00[.250]]      'T', 't' or one space; the fraction (after '.' or ',') may
 *                                      be of any length and is cut to the millisecond below
 *     ...Z  ...+02:00  ...+0200  ...+02    'z' and '-' too; no zone means UTC
 *     1710498600  -62135596800000      see time_from_epoch
 *
 * A '+' that a query turned into a space is taken for the '+' it was. False for everything else:
 * days the calendar does not have, 24:00, leap seconds (:60, which have no place in Unix time), and
 * times outside the years 0001 to 9999 once the offset is applied. */
MUST_USE bool time_parse(struct bytes text, int64_t *ms_out);

/* Numbers of magnitude below 100,000,000,000 are seconds, others milliseconds. That is unambiguous
 * for 1973 to 5138. False outside the years 0001 to 9999. */
MUST_USE bool time_from_epoch(int64_t number, int64_t *ms_out);

/* Appends 2024-03-15T10:30:00.000Z, which time_parse reads back. A bucket may begin before the year
 * 0000: such years are written with sign and six digits, as JavaScript does. */
void time_format(struct buf *buf, int64_t ms);
void time_format_json(struct buf *buf, int64_t ms); /* in quotes */

#endif
