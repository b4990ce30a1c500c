/* zone.h -- a place's time: how far its clocks are from UTC, and when that changes. Pure.
 *
 * It is made of a file of the system's time zone data (TZif, RFC 9636). Files name the changes up
 * to some year and then give a rule for all later ones; a zone has those of one whole era of 400
 * years written out, after which the calendar, and so the rule, begins anew.
 *
 * Example:
 *
 *     static enum err summer_in(struct bytes bytes, bool *summer_out)
 *     {
 *         struct zone *zone;
 *         enum err e = zone_new(&zone, bytes);
 *         if (e != ERR_OK) return e;
 *         *summer_out = zone_offset(zone, 1782864000) == 7200; // 2026-07-01
 *         zone_free(zone);
 *         return ERR_OK;
 *     }
 */
#ifndef TALLY_CORE_ZONE_H
#define TALLY_CORE_ZONE_H

#include "base/bytes.h"
#include "base/err.h"

#define ZONE_OFFSET_MAX (26 * 3600) /* a file with more is refused */

struct zone;

/* Nothing of `bytes`, a file, is kept. ERR_CORRUPT: it is no such file, or says what cannot be. */
MUST_USE enum err zone_new(struct zone **zone_out, struct bytes bytes);
/* A place whose clocks are never turned. */
struct zone *zone_new_fixed(int32_t offset);
void zone_free(struct zone *zone);

/* Seconds to be added to UTC at that time, in seconds since the epoch. */
int32_t zone_offset(const struct zone *zone, int64_t seconds);

/* The first change of the offset after that time; INT64_MAX: there is none. */
int64_t zone_next_change(const struct zone *zone, int64_t seconds);

#endif
