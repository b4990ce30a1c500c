/* tend.h -- caretaking: a table of jobs, each in small steps that can stop at once.
 *
 * One thread runs them in turn. A job's step says when it wants to run again; the store's own
 * caretaking (write-back, trimming, recovery from errors) is one of them. Caretakers change
 * nothing themselves: they propose ops to the queue and the commit thread decides. */
#ifndef TALLY_TEND_TEND_H
#define TALLY_TEND_TEND_H

#include "base/clock.h"
#include "commit/queue.h"
#include "commit/timekeeper.h"
#include "store/store.h"

struct tend;

struct tend_config {
    struct store *store;
    struct queue *queue;
    const struct clock *clock;
    struct timekeeper *keeper; /* whose clock it is; NULL: there is none to look after */
    int64_t sweep_ms;          /* between two looks for expired cells */
    int64_t retention_ms;      /* of events */
    uint32_t sweep_ops;        /* proposed at once */
};

struct tend *tend_new(const struct tend_config *config);
void tend_free(struct tend *tend);

/* Runs until tend_stop; the caller owns the thread. */
void tend_run(struct tend *tend);
void tend_stop(struct tend *tend);

/* One round of everything that is due, without waiting: for a driver with one thread. Proposals
 * are pushed into the queue; the driver runs the commit thread's part. */
void tend_round(struct tend *tend);

#endif
