/* tend.h -- caretaking: a table of caretakers, each in small steps that can stop at once.
 *
 * One loop runs them for all lanes (the table is in tend.c, what a row is in care.h). The store's
 * own caretaking (write-back, trimming, recovery from errors) is one of them. */
#ifndef TALLY_TEND_TEND_H
#define TALLY_TEND_TEND_H

#include "commit/lanes.h"

struct tend;

struct tend_config {
    const struct lanes *lanes; /* each one's store, queue, clock and, if it has one, keeper */
    int64_t sweep_ms;          /* between two looks for expired cells */
    int64_t retention_ms;      /* how long events are kept */
    unsigned threads;  /* that run it, which several databases share evenly; 0: never mind */
    uint32_t step_ops; /* no step proposes more ops; 0: what the table says */
};

struct tend *tend_new(const struct tend_config *config);
void tend_free(struct tend *tend);

/* Runs until tend_stop and until what was proposed is answered; the caller owns the thread. Several
 * threads may run it: each takes a lane that is due and that no other one looks after, so a lane
 * whose step takes long holds up one of them. */
void tend_run(struct tend *tend);
void tend_stop(struct tend *tend);

/* One round of everything that is due, lane by lane and without waiting: for a driver with one
 * thread. Proposals are pushed into the queues; the driver runs the commit threads' part. */
void tend_round(struct tend *tend);

#endif
