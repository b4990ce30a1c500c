/* queue_internal.h -- what the queue keeps, for queue.c and what checks it.
 *
 * Between two calls, that is whenever no thread holds the lock, queue_check finds this true:
 * (1) What the queue counts as unanswered is the sum over its tenants, and what it counts as
 *     waiting the sum over the bundles in its fifos; what waits is unanswered too.
 * (2) A tenant has an entry while it has unanswered ops, in the bucket of its name, once; it stands
 *     in the ring, once, while it has waiting bundles.
 * (3) Only the first bundle of a fifo may have been taken in part.
 * (4) Where nothing is unanswered nothing is counted: no bytes, no clients.
 * (5) What the queue counts is counted in its room, too. */
#ifndef TALLY_COMMIT_QUEUE_INTERNAL_H
#define TALLY_COMMIT_QUEUE_INTERNAL_H

#include <pthread.h>

#include "base/look.h"
#include "commit/queue.h"

#define TENANT_BUCKETS 1024u /* chains are short: tenants with unanswered ops only */

struct fifo {
    struct bundle *first;
    struct bundle *last;
};

struct tenant {
    struct tenant *chain;     /* same hash bucket */
    struct tenant *ring_next; /* while it has waiting bundles */
    bool in_ring;
    uint32_t ops;        /* unanswered, batched */
    uint32_t urgent_ops; /* and urgent */
    size_t bytes;        /* what both of these hold */
    struct fifo waiting;
    size_t size;
    char name[];
};

struct queue {
    struct queue_limits limits;
    struct queue_room *room;
    struct queue_room own_room; /* for a queue that shares none */
    pthread_mutex_t lock;
    pthread_cond_t filled;
    bool sleeping;        /* the taker waits: only then is a wake-up worth its cost */
    uint32_t wake_at;     /* and only for so many ops */
    uint64_t pushes;      /* so far; read without the lock by queue_look */
    uint64_t pushes_seen; /* by the taker */
    uint32_t taken;       /* ops of the last batch; read without the lock */
    struct look look;     /* the taker's, before it sleeps */
    bool stopped;
    uint32_t ops; /* unanswered, batched */
    uint32_t urgent_ops;
    uint32_t clients; /* unanswered bundles that have a time of arrival */
    int64_t busy_ns;  /* since when there are any */
    size_t bytes;
    uint32_t waiting_ops; /* not yet taken, by urgency */
    uint32_t waiting_urgent_ops;
    uint32_t bound_ops; /* see queue_bound */
    size_t weight;      /* the batch's that is being taken */
    bool alone;         /* its first bundle is the only one, or comes alone in the next one */
    uint32_t owed; /* ops that the first tenant of the ring is to find room for in this batch */
    struct fifo urgent;
    struct tenant *ring_first;
    struct tenant *ring_last;
    struct tenant *tenants[TENANT_BUCKETS];
};

void queue_count_anew(const struct queue *queue);

/* The caller holds the lock. What waits is always compared, for pushes and turns go by it; the rest
 * of the laws are looked at in slow builds. */
static inline void queue_check(const struct queue *queue)
{
    must(queue->waiting_ops <= queue->ops);
    must(queue->waiting_urgent_ops <= queue->urgent_ops);
    must((queue->ring_first != NULL) == (queue->waiting_ops > 0));
    must((queue->urgent.first != NULL) == (queue->waiting_urgent_ops > 0));
    if (SLOW_CHECKS) queue_count_anew(queue);
}

/* The bucket of a tenant's name. */
uint32_t queue_bucket(struct bytes name);

#endif
