/* postgres.h -- the store in a PostgreSQL database: rows that many nodes share.
 *
 *     postgres_open(&database, &config, &why)           the schema is made where there is none
 *     postgres_lane(database, 3, &store, &why)          one store for each lane
 *     ...
 *     store_close(store)                                each of them
 *     postgres_close(database)
 *
 * One commit of a lane is one transaction: it locks the lane's row, reads what the batch needs,
 * writes what was decided as arrays, appends a row to `commits` with a random stamp and commits.
 *
 * (1) The lane's row is the only lock that a commit waits for, so there is no deadlock.
 * (2) A node's memory of a lane is true only while the newest commit has the sequence and the
 *     stamp that the node knows; otherwise another node committed, and this one begins from what
 *     is stored.
 * (3) What became of a COMMIT whose answer did not come is found out by locking the lane, which
 *     waits for the transaction to end, and looking for its stamp.
 * (4) Several batches may be submitted before a sync: they are one transaction. The next turn waits
 *     for a sync that is under way, because a lane has one transaction at a time.
 *
 * docs/postgres.md says how it is run, docs/decisions.md why it is made like this. */
#ifndef TALLY_STORE_POSTGRES_POSTGRES_H
#define TALLY_STORE_POSTGRES_POSTGRES_H

#include "base/clock.h"
#include "store/store.h"

struct database;

struct postgres_config {
    const char *dsn;
    const char *read_dsn;      /* its standby; NULL: there is none */
    const char *schema;        /* 1 to 48 of a-z 0-9 _, beginning with a letter */
    unsigned lanes;            /* in all databases together */
    unsigned databases;        /* how many there are; 0 means 1 */
    unsigned place;            /* which of them this is, from 0: it has every lane whose number */
                               /* leaves this rest when it is divided by how many there are */
    unsigned connections;      /* for commits */
    unsigned read_connections; /* for readers */
    bool pooled;               /* a pooler stands in between, */
    bool deals_out;            /* which deals connections out for one transaction each */
    bool citus;                /* a schema that is made is laid out for Citus */
    bool unsafe;               /* fsync or synchronous_commit may be off */
    bool ids_shared;           /* ids are unique over the installation */
    size_t cache_bytes;        /* what all lanes may keep of rows in memory */
    int64_t key_keep_ms;       /* how long idempotency keys are remembered */
    const char *node;          /* who this process is among those of the database, the same after a
                       * restart; NULL: nobody it was before */
    const struct clock *clock;
};

/* What a schema begins with that is to take an export. */
struct postgres_beginning {
    const struct hash_secret *secret; /* fingerprints are made with it; NULL: one of its own */
    uint64_t last;                    /* lanes' sequences begin after it */
};

/* Makes the schema in all databases, empty, with this beginning. ERR_CONFLICT: it is there already;
 * ERR_STORAGE, ERR_INVALID: `why_out` says why not. */
MUST_USE enum err postgres_prepare(const struct postgres_config *configs, unsigned count,
                                   const struct postgres_beginning *beginning,
                                   struct reason *why_out);

/* Makes the schema, or brings it up to date, in all databases. ERR_STORAGE, ERR_INVALID: `why_out`
 * says why not; nothing is half made. On success it says what was done. */
MUST_USE enum err postgres_migrate(const struct postgres_config *configs, unsigned count,
                                   struct reason *why_out);

/* What `tally verify` found. */
struct postgres_finding {
    bool damaged;
    int lane;         /* -1: of all */
    const char *what; /* a word: "sums" */
    const char *text; /* the rest of a line */
};
typedef void postgres_finding_fn(void *context, const struct postgres_finding *finding);

/* Compares what the schema says twice, in one snapshot; nodes may serve it meanwhile. ERR_CORRUPT:
 * a finding says what is damaged. Otherwise `why_out` says why it could not be looked at. */
MUST_USE enum err postgres_verify(const struct postgres_config *config, postgres_finding_fn *say,
                                  void *context, struct reason *why_out);

/* Opens the database. ERR_STORAGE: it cannot be used; ERR_INVALID: not like this.
 * `why_out` says why. */
MUST_USE enum err postgres_open(struct database **database_out,
                                const struct postgres_config *config, struct reason *why_out);
/* Opens several, each with a config of its own, that are one installation: they share its secret,
 * and each knows its place and how many there are. Where none has the schema it is made in all of
 * them, in the first one first, which notes that it is not done yet: whoever comes next completes
 * it. Everything else that is missing, foreign or in another order is refused. */
MUST_USE enum err postgres_open_all(struct database **databases_out,
                                    const struct postgres_config *configs, unsigned count,
                                    struct reason *why_out);
/* To be called once every store is closed. */
void postgres_close(struct database *database);

/* What the lanes' batches are dated by, whichever node decides them: the database's clock, carried
 * on from the last commit by this machine's passing time. So a node whose own clock is wrong harms
 * nobody. No kernel vouches for it. Lives as long as the database is open. */
const struct clock *postgres_clock(struct database *database);

/* Clients reach this process there from now on: other nodes, and people, may know. Once. */
void postgres_serves(struct database *database, const char *address);

/* A process that serves this database, or did minutes ago. */
struct postgres_node {
    struct bytes id;
    struct bytes address;
    int64_t seen_ms; /* by the database's clock */
    bool self;
    unsigned *lanes; /* that it leads what is done beside the requests of */
    unsigned lanes_count;
};
typedef void postgres_node_fn(void *context, const struct postgres_node *node);

/* Visits them by address. `store` is one of the database's; what a node points to lives during the
 * visit. It waits for the database. ERR_STORAGE, ERR_CORRUPT. */
MUST_USE enum err postgres_nodes(struct store *store, struct arena *arena, postgres_node_fn *visit,
                                 void *context);

MUST_USE enum err postgres_lane(struct database *database, unsigned lane, struct store **store_out,
                                struct reason *why_out);

#endif
