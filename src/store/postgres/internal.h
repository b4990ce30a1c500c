/* internal.h -- what the files of the PostgreSQL store share.
 *
 * The thread that has the turn of a lane owns its `link`, `values`, `failed` and the writer's
 * position; a sync takes the turn for as long as it lasts. Readers have links and parameters
 * of their own. */
#ifndef TALLY_STORE_POSTGRES_INTERNAL_H
#define TALLY_STORE_POSTGRES_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/table.h"
#include "store/postgres/known.h"
#include "store/postgres/pool.h"
#include "store/postgres/postgres.h"
#include "store/postgres/sums.h"
#include "store/postgres/schema.h"
#include "store/postgres/way.h"

#define LOCK_WAIT_MS 5000    /* for the lane; the database gives up after 2 s itself */
#define LOAD_WAIT_MS 35000   /* here and below it does after 30 s */
#define COMMIT_WAIT_MS 35000 /* may be a wait for a standby */
#define READ_WAIT_MS 35000
#define LINK_WAIT_MS 2000 /* for a link to become free */

#define SERVER_SIZE 256u
#define PARTITIONS_KNOWN 8u

struct database {
    struct postgres_config config;
    char *dsn;
    char *read_dsn;           /* NULL: none */
    bool citus;               /* its tables are dealt out over workers */
    char server[SERVER_SIZE]; /* host, port and database, for people */
    struct sql sql;
    struct pool *writers;
    struct pool *readers;
    struct pool *standbys; /* for reads that may be somewhat old; NULL: there is no standby */
    struct warden *warden;
    struct hash_secret secret;
    uint64_t installation;
    const struct postgres_beginning *beginning; /* NULL: an ordinary one */
    struct clock clock;                         /* the database's */
    _Atomic int64_t ahead_ms; /* how far the database's clock is before this machine's boot_ms */
    struct fingerprint node;  /* who this process is */
    _Atomic(char *) address;  /* where it serves; NULL: not yet, or no more */
    _Atomic int64_t node_ns;  /* when it says again that it is there */
    pthread_mutex_t partitions_lock;
    int64_t partitions[PARTITIONS_KNOWN]; /* some that are there, the last one met first */
    unsigned partitions_count;
};

struct stamp {
    uint64_t high;
    uint64_t low;
};

struct lane_store {
    struct store store;
    struct database *database;
    unsigned lane;

    pthread_mutex_t turn;
    struct link *link;            /* with an open transaction; NULL: there is none */
    struct link *ahead;           /* on which the next one's lock was asked for; NULL: none */
    int64_t asked_ms;             /* when the lock was asked for, by this machine's boot_ms */
    bool failed;                  /* that transaction cannot be committed, */
    bool refused;                 /* because of what is in it */
    uint64_t rules;               /* position.rules as it will be once that is committed */
    struct sql_values values;     /* what the turn's statements carry */
    struct stamp stamp;           /* the newest commit that this node knows, */
    struct store_position stored; /* and what that left behind */
    struct known_rows known;      /* true as long as the newest commit is that one */
    struct write_set *submitted_first;
    struct write_set *submitted_last;

    _Atomic uint64_t standby_sequence; /* how far the lane's standby was when it said so last */
    _Atomic uint64_t standby_late;     /* it had not come so far in time; 0: or has by now */
    _Atomic int64_t standby_lag_ms;    /* what it has was the newest so long ago */

    atomic_size_t known_bytes; /* what `known` takes, since the last sync */
    atomic_bool down;          /* the last turn or sync could not reach the database */
    _Atomic uint64_t durable_sequence;
    _Atomic int64_t
        sure_ms; /* what of the time is sure, at this node's last commit; INT64_MIN: none yet */
    _Atomic uint64_t errors;
    _Atomic uint64_t syncs;
    _Atomic int64_t leads_until_ns; /* by the machine's clock; 0: another node leads, or none */
    _Atomic int64_t oldest_ms;      /* arrival of the oldest event; 0: none */
    _Atomic int64_t horizon_ms;     /* events before this are gone, or are to be */

    struct sums_asked sums;

    struct care_state {          /* the tend thread's own */
        int64_t lease_ns;        /* when the lease is next asked for */
        int64_t clean_ns;        /* when there may be something to clean */
        int64_t forgotten_ms;    /* up to `horizon_ms` once all of it is gone */
        uint64_t commits_before; /* the newest one when the last ones were dropped */
        int64_t commits_ns;      /* and when that was */
    } care;
};

#define LANE_STORE_OF(pointer) CONTAINER_OF(pointer, struct lane_store, store)

/* One moment as a transaction, which begins with its first read. */
struct standstill {
    struct way way;
    bool begun;
    enum err err; /* what came of it so far */
};

/* A view is the store's own, or shows a lane at a moment. */
struct moment_view {
    struct view view;
    struct standstill *moment;
};

/* writer.c */
extern const struct writer_ops postgres_writer_ops;
/* Adds to `values` the lane, as every statement's first parameter. */
void values_begin(struct sql_values *values, const struct lane_store *lane);
/* Counts an error and logs it, not more than a few times a second. */
void lane_failed(struct lane_store *lane, const char *doing, const struct link *link);
/* Whether the version of the schema, in that column of the first row, is the one that this program
 * knows; `outdated` says so from then on. */
bool lane_knows_schema(struct lane_store *lane, const PGresult *result, int column);
/* Sends what begins a transaction that is to write. */
void transaction_begin(const struct database *database, struct link *link);
/* Waits for the transaction that is open, if there is one, to be given up, and for the next one. */
void lane_let_go(struct lane_store *lane);

/* hung.c: if `link` has just waited in vain for a lock, the sessions of nodes that hang are ended.
 * What it had open is rolled back. */
void lane_free_hung(struct lane_store *lane, struct link *link);

/* load.c */
MUST_USE enum err lane_load(struct lane_store *lane, struct read_set *reads, struct arena *arena);
/* A counter of `count` rows of a result from `row` on: id, duration and cells from `column` on. */
MUST_USE const struct counter *rows_counter(const PGresult *result, int row, int count, int column,
                                            struct arena *arena);

/* write.c: sends what a batch changed; and keeps it in memory, as the newest values. */
void lane_write(struct lane_store *lane, const struct write_set *writes);
void lane_remember(struct lane_store *lane, const struct write_set *writes);

/* partitions.c: sees to it that events that arrive then have a partition to go to. */
MUST_USE enum err partition_ensure(struct database *database, int64_t arrived_ms);

/* reads.c, lists.c, history.c, whole.c */
extern const struct view_ops postgres_view_ops;
MUST_USE enum err postgres_list(struct view *view, struct bytes prefix, struct bytes after,
                                store_counter_fn *visit, void *context);
MUST_USE enum err postgres_objects(struct view *view, struct bytes prefix, struct bytes after,
                                   store_object_fn *visit, void *context);
MUST_USE enum err postgres_ids(struct view *view, store_id_fn *visit, void *context);
MUST_USE enum err postgres_events(struct view *view, const struct event_query *query,
                                  store_event_fn *visit, void *context, uint64_t *next_out);
MUST_USE enum err postgres_cells(struct view *view, const uint64_t *series, size_t count,
                                 store_series_fn *visit, void *context);
MUST_USE enum err postgres_beside(struct view *moment, struct store *store, struct arena *arena,
                                  struct view_lane *lane_out);

/* The six columns of a cell, from `column` on. */
MUST_USE bool row_cell(const PGresult *result, int row, int column, struct cell *cell_out);
/* A whole number that is not negative, of as many digits as 128 bits have. */
MUST_USE bool parse_sum(struct bytes text, __int128 *sum_out);

/* moments.c */
void moment_instant(struct view *view, view_read_fn *read, void *context);
void moment_gather(const struct view_reading *readings, unsigned count);
/* reads.c: a moment whose reader asks for what nobody knows before: a transaction. */
void moment_transaction(struct view *view, view_read_fn *read, void *context);

/* A reader's way to the database: one statement after the other, each a round of its own. */
struct inquiry {
    struct lane_store *lane;
    struct standstill *moment; /* NULL: none */
    struct way way;            /* without a moment */
    struct sql_values values;
};
void inquiry_begin(struct inquiry *inquiry, struct view *view);
/* The parameters are those of the inquiry, whose first one is the lane. The caller clears
 * the result. ERR_STORAGE. */
MUST_USE enum err inquiry_ask(struct inquiry *inquiry, enum sql_name name, PGresult **result_out);
void inquiry_end(struct inquiry *inquiry);
/* Reports that a result holds what this store did not write. */
enum err inquiry_corrupt(const struct inquiry *inquiry, const char *what);

/* care.c */
extern const struct store_ops postgres_store_ops;
/* Runs one statement in a transaction of its own, which holds the lane's lock if `locks`. The
 * caller clears the result. ERR_STORAGE: nothing was done, or it is not known. */
MUST_USE enum err care_ask(struct lane_store *lane, enum sql_name name, struct sql_values *values,
                           bool locks, PGresult **result_out);

/* way.c: what the lane's standby has, as it said itself. */
void standby_heard(struct lane_store *lane, uint64_t sequence);

/* warden.c: a thread that opens links where the last opening failed, so that nobody who works waits
 * for a server that does not answer, and that asks the standby how far it is. */
struct warden *warden_new(struct database *database);
void warden_free(struct warden *warden);
void warden_join(struct warden *warden, struct lane_store *lane);
void warden_leave(struct warden *warden, struct lane_store *lane);

/* nodes.c: caretaking of any lane says now and then that this process is there; the first lane that
 * is closed, that it goes. */
void nodes_tend(struct lane_store *lane, struct sql_values *values, int64_t now_ns);
void nodes_leave(struct lane_store *lane);

/* postgres.c */
struct database *database_new(const struct postgres_config *config);

/* group.c: looks at all databases, makes what may be made, takes over what they say. `migrated_out`
 * as in schema_take, one for each; NULL: none is upgraded. */
MUST_USE enum err group_open(struct database **databases, unsigned count,
                             struct schema_migrated *migrated_out, struct reason *why_out);

/* clock.c */
void database_clock_init(struct database *database);
/* The database said what time it is: `asked_boot_ms` is when it was asked. An answer that took long
 * says little, and counts for the first one only. */
void database_clock_heard(struct database *database, int64_t now_ms, int64_t asked_boot_ms);

#endif
