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

/* people.c: views, and who sees which rows; for the end of either. They may be run again. */
extern const char schema_people[];
extern const char schema_secure[];
/* Lets the role tally_reader see rows, and makes it if this role may make roles; if there is none,
 * nothing. */
extern const char schema_readers[];

/* What `tally migrate` found and did. */
struct schema_migrated {
    unsigned from; /* the version that was found, or made */
    bool readers;  /* the role tally_reader sees what is its tenants' */
};

/* schema.c: makes the schema where there is none, looks whether it can be used, and reads what is
 * fixed since it was made. With `migrated_out` one of an earlier version is upgraded; otherwise it
 * is refused. ERR_STORAGE, ERR_INVALID: `why_out` says why not, and nothing was changed. */
MUST_USE enum err schema_open(struct database *database, struct link *link,
                              struct schema_migrated *migrated_out, struct reason *why_out);

#endif
