/* tzdata.h -- the system's time zone data (package tzdata), read whole.
 *
 * It lies in /usr/share/zoneinfo, or where TZDIR says: a file a zone, called by the zone's name,
 * and in tzdata.zi or +VERSION the version. */
#ifndef TALLY_CONFIG_TZDATA_H
#define TALLY_CONFIG_TZDATA_H

#include "core/zones.h"

/* Puts the system's data in force (core/zones.h) unless data of that version are already. One
 * thread at a time. */
void tzdata_refresh(void);

/* A new table, to be freed by the caller. What is no zone, or cannot be read, is left out; UTC is
 * always there. NULL for `directory`: the system's. */
struct zones *tzdata_read(const char *directory);

#endif
