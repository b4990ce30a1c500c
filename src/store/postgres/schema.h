/* schema.h -- the tables of a database: their version, their texts, how they are looked at. */
#ifndef TALLY_STORE_POSTGRES_SCHEMA_H
#define TALLY_STORE_POSTGRES_SCHEMA_H

#include "store/postgres/link.h"

#define SCHEMA_VERSION 2u

struct database;

/* tables.c: the texts. What is a lane's is run once for each lane, after the others. */
extern const char schema_tables[];
extern const char schema_lane[];
extern const char schema_citus[]; /* after both, on Citus */

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

/* What is fixed since a schema was made. */
struct schema_meta {
    bool exists;
    uint64_t schema;
    uint64_t lanes;
    uint64_t ids_shared;
    uint64_t databases;
    uint64_t place;
    uint64_t pending; /* in the first of several: they are not all made yet */
    uint64_t installation;
    uint64_t citus; /* laid out for it */
    struct hash_secret secret;
    bool has_secret;
    char server[64]; /* tells two databases apart, whatever their addresses are */
};

/* What all databases of an installation have in common from the beginning. */
struct schema_founding {
    uint64_t installation;
    struct hash_secret secret;
    bool pending;
};

/* schema.c, in this order. Each returns ERR_STORAGE or ERR_INVALID, with `why_out`, and has changed
 * nothing then. Looks whether the server can be used, and the schema if there is one. */
MUST_USE enum err schema_look(struct database *database, struct link *link,
                              struct schema_meta *meta_out, struct reason *why_out);
/* Makes it where there is none, and reads it again. */
MUST_USE enum err schema_ensure(struct database *database, struct link *link,
                                const struct schema_founding *founding,
                                struct schema_meta *meta_out, struct reason *why_out);
/* Notes in the first of several databases that all of them are made. */
MUST_USE enum err schema_settle(struct database *database, struct link *link,
                                struct reason *why_out);
/* Takes over what the schema says. With `migrated_out` one of an earlier version is upgraded;
 * otherwise it is refused. */
MUST_USE enum err schema_take(struct database *database, struct link *link,
                              const struct schema_meta *meta, struct schema_migrated *migrated_out,
                              struct reason *why_out);

#endif
