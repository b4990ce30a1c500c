/* queue_room.h -- what the queues of all lanes may hold together.
 *
 * Limits are the process's, not a lane's. Every queue adds here what it takes, and nothing that
 * would pass a limit is added. */
#ifndef TALLY_COMMIT_QUEUE_ROOM_H
#define TALLY_COMMIT_QUEUE_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum room_of {
    ROOM_OPS, /* batched */
    ROOM_URGENT_OPS,
    ROOM_BYTES,
    ROOM_KINDS,
};

struct queue_room {
    bool shared; /* by several queues; else it is one queue's, which locks it */
    _Atomic uint64_t used[ROOM_KINDS];
};

static inline uint64_t room_used(const struct queue_room *room, enum room_of which)
{
    return atomic_load_explicit(&room->used[which], memory_order_relaxed);
}

/* The room left is compared without adding first: counts near the limit must not wrap. Urgent ops
 * that are more than the bound go in where nothing else is. */
static inline bool room_fits(enum room_of which, uint64_t used, uint64_t more, uint64_t max)
{
    return (which == ROOM_URGENT_OPS && used == 0) || (more <= max && used <= max - more);
}

/* False: it does not fit, and nothing was added. Looking and adding are one atomic step where other
 * queues may add at the same moment. A queue that is alone holds its own lock, which saves the
 * atomic step. */
static inline bool room_add(struct queue_room *room, enum room_of which, uint64_t more,
                            uint64_t max)
{
    uint64_t used = room_used(room, which);
    do {
        if (!room_fits(which, used, more, max)) return false;
        if (room->shared) continue;
        atomic_store_explicit(&room->used[which], used + more, memory_order_relaxed);
        return true;
    } while (!atomic_compare_exchange_weak(&room->used[which], &used, used + more));
    return true;
}

static inline void room_subtract(struct queue_room *room, enum room_of which, uint64_t less)
{
    if (room->shared)
        atomic_fetch_sub(&room->used[which], less);
    else
        atomic_store_explicit(&room->used[which], room_used(room, which) - less,
                              memory_order_relaxed);
}

#endif
