/* commit.h -- the one road to disk: queued bundles become durable, answered bundles.
 *
 * There are two threads, both owned by the daemon (the simulator has one loop instead):
 *
 *     commit thread     commit_turn, commit_rest while queue_wait says so, then commit_close
 *     sync thread       commit_sync until it says that all is over
 *     one that pushed   commit_help
 *
 * commit_turn decides one batch while earlier ones are being synced; commit_sync makes everything
 * decided so far durable and answers it. Under light load the commit thread does both, and the net
 * thread that pushed may do it in its stead: see commit/pace.h. One thread at a time has the
 * turn. */
#ifndef TALLY_COMMIT_COMMIT_H
#define TALLY_COMMIT_COMMIT_H

#include "base/clock.h"
#include "commit/queue.h"
#include "rules/rulebook.h"
#include "store/store.h"

struct commit;

struct commit_config {
    unsigned lane; /* its number, for reports */
    struct queue *queue;
    struct store *store;       /* commit_new takes its `durable` hook */
    struct rulebook *rulebook; /* NULL: there are no rules */
    /* Called by the thread that has the turn, within one, when the rules that the store holds may
     * have been changed by another process: puts them in the rulebook. NULL: none can. */
    enum err (*follow)(void *context, unsigned lane);
    const struct clock *clock;
    struct apply_limits limits;
    uint32_t batch_ops_max;
    uint32_t batches_max; /* in flight: being decided or synced */
    uint32_t small_ops;   /* see PACE_SMALL_OPS; 0: a turn leaves every sync to another thread */
    /* Called after a round of answers, by the thread that gave them (either of the two, or the one
     * that pushed): one wake-up for many replies. */
    void (*answered)(void *context);
    void *context;
};

struct commit *commit_new(const struct commit_config *config);
void commit_free(struct commit *commit);

/* Decides one batch of what is queued. False if nothing was queued. Waits only while
 * `batches_max` are in flight. */
bool commit_turn(struct commit *commit);

/* Between turns, before the thread that takes them goes to sleep: waits a little for the next one
 * where the store holds the lane for it, and lets go of the lane if none comes. */
void commit_rest(struct commit *commit);

/* After queue_push_all: commits what is queued, here and now, if it is little, nothing is in flight
 * and syncs are fast; otherwise sees to it that the commit thread does. */
void commit_help(struct commit *commit);

/* Waits for decided batches and makes them durable. False once commit_close was called and
 * everything is answered. */
bool commit_sync(struct commit *commit);

/* The same without waiting, for a driver with one thread. False if nothing was submitted. */
bool commit_sync_now(struct commit *commit);

/* How long clients wait now: as long as the oldest op of the last batch did or, if that is longer,
 * since the last answer to any client; 0 if none waits. Any thread. */
int64_t commit_lag_ns(const struct commit *commit);

/* The commit thread's last act: no turn follows. */
void commit_close(struct commit *commit);

#endif
