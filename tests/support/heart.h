/* heart.h -- the heart of the server without its skin: queue, commit and a store of any kind, one
 * thread, and a clock that stands until it is moved.
 *
 *     struct heart *heart = heart_new((struct heart_config){.store = "memory"});
 *     heart_do(heart, ask(&heart->asks, OP_INCREMENT, "views", 5));
 *     heart_net(heart, "views")      is 5
 *     heart_free(heart);
 *
 * What is sent and not yet run waits in the queue, so a test decides what meets in a batch:
 * heart_send, heart_send, commit_turn(heart->commit), commit_sync_now(heart->commit). */
#ifndef TALLY_TESTS_SUPPORT_HEART_H
#define TALLY_TESTS_SUPPORT_HEART_H

#include "commit/lanes.h"
#include "store/fault.h"
#include "store/postgres/postgres.h"
#include "support/asks.h"
#include "support/disk.h"
#include "support/scratch_dir.h"

#define HEART_START_MS 1700000000000 /* the wall clock at first */

struct heart_config {
    const char *store; /* "memory", "embedded", "postgres"; wrapped if "fault " stands before it */
    const struct heart *beside; /* of "postgres": another node of that one's database */
    unsigned lanes;             /* that the database has; the heart is of the first. 0: one */
    bool simulated_disk;        /* under an embedded store's journal */
    bool break_keeps;           /* a sync that is made to fail has happened all the same */
    size_t cache_bytes;         /* 0 here and below: as large as no test notices */
    uint64_t segment_bytes;
    uint64_t checkpoint_bytes;
    int64_t archive_ms; /* 0: with every tending */
    uint32_t batch_ops;
    uint32_t batches;
    uint32_t small_ops; /* 0: commit_turn leaves the sync to the test */
    struct queue_limits queue;
    struct apply_limits limits;
    bool keeps_time; /* by a timekeeper of `timeline`; else batch time is the wall clock's */
    struct timeline_settings timeline;
};

/* A bundle that was sent. Lives until heart_free. */
struct sent {
    struct bundle bundle;
    enum err pushed;   /* what the queue said */
    unsigned answered; /* times */
    struct sent *next;
};

struct heart_time {
    struct clock clock;
    _Atomic int64_t wall_ms; /* RocksDB's threads ask, too, when they drop old keys */
    _Atomic int64_t mono_ns;
};

struct heart {
    struct heart_config config;
    struct store *store;
    struct store *inner; /* the wrapped one; else the same */
    struct queue *queue;
    struct rulebook *rulebook; /* empty at first; what it holds outlives a crash of the heart */
    struct timekeeper *keeper; /* NULL: it keeps no time */
    const struct clock *clock; /* whoever decides goes by this one */
    struct commit *commit;
    struct lane lane; /* all of these, for those who walk lanes: there is one */
    struct lanes lanes;
    struct heart_time *time; /* a test moves it */
    struct asks asks;
    struct scratch_dir dir;
    struct disk disk;
    struct io_sim *sim; /* of the disk; NULL: a real one */
    struct database *database;
    char schema[24];    /* in the program's cluster: this heart's own */
    struct sent *sents; /* newest first */
    unsigned wakes;     /* calls of commit_config.answered */
    struct reason why;  /* the sentence of the last opening that failed */
};

struct heart *heart_new(struct heart_config config);
void heart_free(struct heart *heart);

/* Closes and opens the store. With heart_open apart, for openings that are to fail. */
void heart_reopen(struct heart *heart);
void heart_close(struct heart *heart); /* everything is answered */
enum err heart_open(struct heart *heart);

/* Makes the next sync fail. A database ends the connection on which something is under way. */
void heart_break_sync(struct heart *heart);

/* What kill -9 does, and with a simulated disk a power cut: nothing is flushed, what is queued or
 * not synced is gone (on the real disk nothing may be under way). */
void heart_crash(struct heart *heart, uint64_t seed);

/* Puts a bundle of these ops into the queue. `shape` says what kind: urgency, atomic, keyed, ... */
struct sent *heart_send(struct heart *heart, struct bundle shape, const struct op *ops,
                        uint32_t count);
/* Commits and syncs until nothing is left. */
void heart_run(struct heart *heart);
/* One op, sent and run. Its `err` is the answer's. */
struct op heart_do(struct heart *heart, struct op op);

/* The daemon's two threads, for tests that have some: `heart` is theirs until queue_stop. */
void *heart_commit_main(void *heart);
void *heart_sync_main(void *heart);

/* Moves both clocks. */
void heart_wait_ms(struct heart *heart, int64_t ms);
/* The store's caretaking, until it says there is no more. */
void heart_tend(struct heart *heart);
/* False: it was due and did not happen. */
bool heart_checkpoint(struct heart *heart);

/* As readers see it. */
enum err heart_get(struct heart *heart, const char *name, int32_t duration, int64_t bucket,
                   struct cell *cell_out);
int64_t heart_net(struct heart *heart, const char *name); /* duration 0; -1: no such cell */
/* The same of a rule's counter without dimensions. */
int64_t heart_rule_net(struct heart *heart, const char *name, uint32_t generation);
struct cell_ref heart_ref(struct heart *heart, const char *name, int32_t duration);
/* As a batch would load it; -1 if load fails. */
int64_t heart_tenant_cells(struct heart *heart);

/* Looks at everything through every kind of read; NULL, or what does not fit together. */
const char *heart_broken(struct heart *heart);

#endif
