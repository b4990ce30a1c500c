/* schema.h -- the tables of a database: their version, their texts, how they are looked at. */
#ifndef TALLY_STORE_POSTGRES_SCHEMA_H
#define TALLY_STORE_POSTGRES_SCHEMA_H

#include "store/postgres/link.h"

#define SCHEMA_VERSION 2u

struct database;

/* tables.c: the texts. What is a lane's is run once for each lane, after the others. */
extern const char schema_tables[];
extern const char schema_lane[];

/* What makes version N + 2 of version N + 1, where N is its index. */
struct schema_upgrade {
    const char *tables;
    const char *lane;
};
extern const struct schema_upgrade schema_upgrades[SCHEMA_VERSION - 1];

/* schema.c: makes the schema where there is none, looks whether it can be used, and reads what is
 * fixed since it was made. One of an earlier version is upgraded if `may_upgrade`; `from_out`, if
 * it is not NULL, is the version that was found. ERR_STORAGE, ERR_INVALID: `why_out` says why not,
 * and nothing was changed. */
MUST_USE enum err schema_open(struct database *database, struct link *link, bool may_upgrade,
                              unsigned *from_out, struct reason *why_out);

#endif
