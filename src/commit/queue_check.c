/* queue_check.c -- the queue's laws (queue_internal.h), executed. */
#include "commit/queue_internal.h"

#define COUNT_OFTEN 64u /* waiting ops up to which a slow build counts with every call */

/* What the fifos and tenants add up to. */
struct tally {
    uint64_t ops;
    uint64_t urgent_ops;
    uint64_t bytes;
    uint64_t waiting_ops;
    uint32_t in_ring;
};

static uint64_t fifo_count(const struct fifo *fifo, enum urgency urgency)
{
    uint64_t ops = 0;
    must((fifo->first == NULL) == (fifo->last == NULL));
    for (const struct bundle *bundle = fifo->first; bundle; bundle = bundle->next) {
        must(bundle->urgency == urgency);
        must(bundle->taken < bundle->count);
        must(bundle->taken == 0 || bundle == fifo->first);
        must(bundle->next || bundle == fifo->last);
        ops += bundle->count - bundle->taken;
    }
    return ops;
}

static void tenant_check(const struct tenant *tenant, uint32_t bucket)
{
    must(tenant->ops > 0 || tenant->urgent_ops > 0);
    must(tenant->ops > 0 || tenant->bytes == 0);
    must(tenant->in_ring == (tenant->waiting.first != NULL));
    must(queue_bucket(bytes_of(tenant->name, tenant->size)) == bucket);
    for (const struct tenant *other = tenant->chain; other; other = other->chain)
        must(
            !bytes_equal(bytes_of(other->name, other->size), bytes_of(tenant->name, tenant->size)));
}

static struct tally tenants_count(const struct queue *queue)
{
    struct tally tally = {0};
    for (uint32_t bucket = 0; bucket < TENANT_BUCKETS; bucket++) {
        const struct tenant *tenant = queue->tenants[bucket];
        for (; tenant; tenant = tenant->chain) {
            tenant_check(tenant, bucket);
            uint64_t waiting = fifo_count(&tenant->waiting, URGENCY_BATCHED);
            must(waiting <= tenant->ops);
            tally.ops += tenant->ops;
            tally.urgent_ops += tenant->urgent_ops;
            tally.bytes += tenant->bytes;
            tally.waiting_ops += waiting;
            tally.in_ring += tenant->in_ring;
        }
    }
    return tally;
}

static uint32_t ring_count(const struct queue *queue)
{
    uint32_t count = 0;
    for (const struct tenant *tenant = queue->ring_first; tenant; tenant = tenant->ring_next) {
        must(tenant->in_ring);
        must(tenant->ring_next || tenant == queue->ring_last);
        count++;
    }
    return count;
}

/* Urgent bundles may have no tenant, and their bytes are then the queue's alone. A long queue is
 * counted now and then only, or filling it would take the square of its length. */
void queue_count_anew(const struct queue *queue)
{
    uint32_t waiting = queue->waiting_ops + queue->waiting_urgent_ops;
    if (waiting > COUNT_OFTEN && queue->pushes % COUNT_OFTEN != 0) return;
    const struct tally tally = tenants_count(queue);
    must(tally.ops == queue->ops);
    must(tally.urgent_ops <= queue->urgent_ops);
    must(tally.bytes <= queue->bytes);
    must(tally.waiting_ops == queue->waiting_ops);
    must(tally.in_ring == ring_count(queue));
    must(fifo_count(&queue->urgent, URGENCY_URGENT) == queue->waiting_urgent_ops);
    must(queue->owed == 0 || queue->ring_first);
    must(queue->clients <= queue->ops + queue->urgent_ops);
    must(queue->bytes == 0 || queue->ops + queue->urgent_ops > 0);
    must(queue->ops <= room_used(queue->room, ROOM_OPS));
    must(queue->urgent_ops <= room_used(queue->room, ROOM_URGENT_OPS));
    must(queue->bytes <= room_used(queue->room, ROOM_BYTES));
}
