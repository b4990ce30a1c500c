/* queue.h -- where bundles wait for the commit thread, bounded and fair.
 *
 * Bundles have one of two urgencies: urgent bundles go first, but take at most half of a batch
 * while others wait. Among the batched ones tenants take turns, a few ops at a time, and each
 * tenant's bundles keep their order. Ops count against the limits from queue_push until queue_done,
 * so the bound holds for everything unanswered, not only for what waits. Every call may come from
 * any thread.
 *
 * Each lane has a queue, and the limits are the process's: all queues count in one room. A tenant
 * is in one lane, so what one tenant may hold is each queue's own affair. */
#ifndef TALLY_COMMIT_QUEUE_H
#define TALLY_COMMIT_QUEUE_H

#include "commit/queue_room.h"
#include "core/apply.h"

struct queue;

struct queue_limits {
    uint32_t ops_max;               /* batched ops in the room */
    uint32_t tenant_ops_max;        /* batched ops of one tenant */
    uint32_t urgent_ops_max;        /* urgent ops in the room */
    uint32_t tenant_urgent_ops_max; /* one tenant's; 0: as many as there are */
    size_t bytes_max;               /* memory held by all bundles in the room */
    size_t batch_weight_max;        /* sum of op->weight in one batch; 0: any */
    size_t tenant_bytes_max;        /* by one tenant's batched bundles; 0: as much as there is */
    uint32_t enough_ops;            /* nothing more joins a batch that has so many; 0: any */
};

/* `room` outlives the queue; NULL: it has one for itself. */
struct queue *queue_new(const struct queue_limits *limits, struct queue_room *room);
void queue_free(struct queue *queue); /* must be empty */

/* Takes a place for each bundle of the list (linked by `next`). Bundles that found none are left in
 * `*refused_out`, in order, with their `err`: ERR_QUEUE_FULL where batched ops have no room,
 * ERR_BUSY where urgent ops have none, whose callers wait instead of being refused; nothing of them
 * was taken. One lock for the whole list. Wakes nobody: commit_help or queue_wake must follow. */
void queue_push_all(struct queue *queue, struct bundle *bundles, struct bundle **refused_out);

/* Pushes one bundle, and wakes the taker if it sleeps. */
MUST_USE enum err queue_push(struct queue *queue, struct bundle *bundle);
void queue_wake(struct queue *queue);

/* Whether fewer than `ops_max` wait, but some, and none of them for a batch of its own. */
bool queue_is_small(struct queue *queue, uint32_t ops_max);

/* Fills `slices` with ops in the order they are to be judged and returns how many slices: about
 * `limits.enough_ops`, and up to `ops_max` where bundles marked `whole`, which come whole, need it.
 * Does not wait. */
uint32_t queue_take(struct queue *queue, struct slice *slices, uint32_t ops_max);

/* From the next batch on no op joins one that has so many, and a bundle that may be cut is cut
 * there; UINT32_MAX: as the limits say. A bundle that has to stay whole comes all the same. */
void queue_bound(struct queue *queue, uint32_t ops);

/* The bundle is answered: gives its places back. */
void queue_done(struct queue *queue, struct bundle *bundle);
/* All of a list, linked by `next`, under one lock. */
void queue_done_all(struct queue *queue, struct bundle *bundles);

/* Waits until something can be taken (true) or the queue is stopped and empty (false). */
bool queue_wait(struct queue *queue);

/* Gives a batch the chance to grow: waits until `ops` wait to be taken, at most `ns`. */
void queue_gather(struct queue *queue, uint32_t ops, int64_t ns);

/* No more waiting: queue_wait returns false once everything queued has been taken. */
void queue_stop(struct queue *queue);

uint32_t queue_depth(struct queue *queue);        /* unanswered ops of both urgencies */
uint32_t queue_urgent_depth(struct queue *queue); /* the urgent ones among them */
/* Since when clients have had unanswered ops without a gap: the `queued_ns` of the first of them.
 * 0: they have none. */
int64_t queue_busy_ns(struct queue *queue);
uint32_t queue_waiting(struct queue *queue); /* those ops that are not yet taken */

#endif
