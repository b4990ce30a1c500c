/* lane.h -- one journal with one writer: a whole small tally.
 *
 * A lane has its own store, order, sequence, batch time, queue and rules in force. Every tenant
 * belongs to one lane (commit/lanes.h), so no operation ever spans two, and lanes wait for each
 * other nowhere.
 *
 *     lane_open(&lane, &config)     its store was opened and recovered by the caller
 *     lane_start(&lane)             from here on bundles are decided and answered
 *     lane_stop(&lane)              what is queued is decided, and nothing after it
 *     lane_close(&lane)             the store too
 *
 *     CLOSED -> OPEN -> RUNNING -> STOPPED -> CLOSED      and OPEN -> CLOSED, if it never ran
 *
 * Fields are for reading; each is made by lane_open and stays until lane_close.
 *
 * (1) All parts are there from lane_open to lane_close, and each stands on the others of this lane.
 * (2) What works beside the commits has pointers into the lane, so a lane stays where it is.
 * (3) Its threads are there while it is RUNNING and at no other time; a lane that runs is not
 *     closed. */
#ifndef TALLY_COMMIT_LANE_H
#define TALLY_COMMIT_LANE_H

#include <pthread.h>

#include "commit/commit.h"
#include "commit/propose.h"
#include "commit/timekeeper.h"

enum lane_state { LANE_CLOSED, LANE_OPEN, LANE_RUNNING, LANE_STOPPED };

struct lane {
    enum lane_state state;
    unsigned index;
    struct store *store;
    struct queue *queue;
    struct rulebook *rulebook;
    struct timekeeper *keeper;
    const struct clock *clock; /* the keeper's: batch time */
    struct commit *commit;
    pthread_mutex_t enacting;   /* held by whatever changes rules or generations */
    struct caretaker caretaker; /* what works beside the commits stands on this */
    pthread_t commit_thread;
    pthread_t sync_thread;
};

struct lane_config {
    unsigned index;
    struct store *store;       /* the lane's from now on, also if lane_open fails */
    const struct clock *clock; /* the machine's */
    struct timeline_settings timeline;
    struct queue_limits queue;
    struct queue_room *room; /* shared by the lanes of a process; NULL: there is but this one */
    struct apply_limits limits;
    uint32_t batch_ops_max;
    void (*answered)(void *context); /* these two: see commit.h */
    enum err (*follow)(void *context, unsigned lane);
    void *context;
};

/* ERR_STORAGE, ERR_CORRUPT: what the store recorded of the clock cannot be read. lane_close is due
 * in any case. */
MUST_USE enum err lane_open(struct lane *lane, const struct lane_config *config);
void lane_close(struct lane *lane);

/* Starts and ends the lane's two threads. */
void lane_start(struct lane *lane);
void lane_stop(struct lane *lane);

/* The CPU time that they have taken so far. Between lane_start and lane_stop; any thread. */
struct lane_cpu {
    int64_t commit_ns;
    int64_t sync_ns;
};
struct lane_cpu lane_cpu(const struct lane *lane);

/* The laws above, of a lane that is not CLOSED. */
void lane_check(const struct lane *lane);

#endif
