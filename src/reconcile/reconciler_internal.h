/* reconciler_internal.h -- what reconciler.c, entries.c and ask.c share.
 *
 * (1) An entry is held by every pass of it, under way or waiting; no more than ENTRY_RUNNING of the
 *     scanner's are under way.
 * (2) Work waits in the order in which it was taken up, and every piece of it is in flight.
 * (3) An entry that is down was found so at least once since it was last up.
 *
 * reconciler_check asserts them for the thread that has the lock. */
#ifndef TALLY_RECONCILE_RECONCILER_INTERNAL_H
#define TALLY_RECONCILE_RECONCILER_INTERNAL_H

#include "reconcile/flights.h"
#include "reconcile/reconciler.h"

/* What is remembered of an entry of the config as long as it stays as it is. The reconciler's lock
 * guards it, but for `name`, `digest` and `truth`, which never change. */
struct entry {
    struct bytes name;
    uint64_t digest; /* says where and how it counts */
    struct truth *truth;
    unsigned users;             /* how many hold it */
    unsigned running;           /* passes under way */
    int64_t scan_at_ns;         /* the next scan */
    int64_t down_until_ns;      /* the source could not be asked: not before */
    unsigned downs;             /* in a row */
    char tenant[NAME_SIZE_MAX]; /* the tenant that had the last turn */
    size_t tenant_size;
    uint64_t pending; /* as of the last scan */
    int64_t oldest_ms;
    uint64_t unreadable;
    struct entry *next;
};

/* An entity taken up and waiting for a worker. */
struct pass_work {
    struct entity entity;
    struct entry *entry; /* held */
    struct pass_work *next;
};

struct reconciler {
    struct reconciler_config config;
    const struct clock *clock;  /* paces all lanes */
    struct json_parser *parser; /* the scanner's */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* work came, or the end */
    struct entry *entries;
    struct flights flights;
    struct pass_work *first;
    struct pass_work **last;
    int64_t useless_at_ns; /* when to look for rows that are of no more use */
    bool stopped;
};

#define ENTRY_RUNNING 2u /* passes of one entry at a time, and connections to its source */

/* reconciler.c: the laws above. The lock is held. */
void reconciler_check(const struct reconciler *reconciler);

/* entries.c; the lock is held. */

/* The entry as these rules have it, made if need be; the caller gives it back. */
struct entry *entry_hold(struct reconciler *reconciler, const struct reconcile *reconcile);
void entry_give(struct entry *entry);
/* Frees those that are not in the rules any more and that are not held. NULL: all. */
void entries_trim(struct reconciler *reconciler, const struct rules *rules);

/* The source could not be asked, or could. entry_down also doubles how long it is left alone. */
void entry_down(struct entry *entry, int64_t now_ns);
void entry_up(struct entry *entry);

#endif
