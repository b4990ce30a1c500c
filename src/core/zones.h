/* zones.h -- the zones that a process knows, by their names and by their numbers.
 *
 * A granularity is 32 bits: seconds from 0 on, or below 0 a kind of calendar bucket in a zone. The
 * zone's part of it is made of the letters of its name alone, so the same granularity means the
 * same on every machine and in every version of the data, and two names of one place are two.
 *
 * Example:
 *
 *     static bool month_of(struct zones *zones, const char *name, int64_t ms, int64_t *month_out)
 *     {
 *         int32_t month;
 *         struct calendar calendar;
 *         if (!zones_granularity(zones, CALENDAR_MONTH, bytes_str(name), &month)) return false;
 *         if (!zones_calendar(zones, month, &calendar)) return false;
 *         *month_out = calendar_bucket(calendar.zone, calendar.kind, ms);
 *         return true;
 *     }
 *
 * A table is filled by one thread and then only read. The one in force is the process's: what it
 * says is as fixed as arithmetic, until an operator brings newer data. */
#ifndef TALLY_CORE_ZONES_H
#define TALLY_CORE_ZONES_H

#include "core/calendar.h"

#define ZONE_NAME_MAX 64
#define ZONES_VERSION_MAX 32

struct zones;

/* What a granularity below 0 stands for. */
struct calendar {
    enum calendar_kind kind;
    const char *name;
    const struct zone *zone; /* the table's */
};

/* `version` is the data's, "2026b" say; later ones compare as greater. */
struct zones *zones_new(const char *version);
void zones_free(struct zones *zones);

/* Takes `zone`. False, and it is freed: the name is too long, or has the number of another one,
 * which is then the one that is known. */
bool zones_add(struct zones *zones, const char *name, struct zone *zone);

unsigned zones_count(const struct zones *zones);
const char *zones_version(const struct zones *zones);

/* False: there is no such zone. */
MUST_USE bool zones_granularity(const struct zones *zones, enum calendar_kind kind,
                                struct bytes name, int32_t *granularity_out);
/* False: it is none of a calendar, or of a zone that this table lacks. */
MUST_USE bool zones_calendar(const struct zones *zones, int32_t granularity,
                             struct calendar *calendar_out);

/* The table in force; before the first it has UTC alone. Those before it stay, for threads may be
 * reading them. */
const struct zones *zones_in_force(void);
void zones_put_in_force(struct zones *zones);

/* "day", "week", "month", "year". */
const char *calendar_kind_name(enum calendar_kind kind);
MUST_USE bool calendar_kind_parse(struct bytes text, enum calendar_kind *kind_out);

#endif
