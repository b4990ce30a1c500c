/* queue.c -- two urgencies, tenants in turn.
 *
 * A tenant has an entry while it has unanswered batched ops. Tenants with waiting bundles stand in
 * a ring; the front one gives up to PACE_TENANT_OPS ops and goes to the back. */
#include "commit/queue_internal.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "commit/pace.h"

struct queue *queue_new(const struct queue_limits *limits, struct queue_room *room)
{
    struct queue *queue = must_calloc(1, sizeof *queue);
    queue->limits = *limits;
    queue->look.limits = pace_commit_look;
    queue->room = room ? room : &queue->own_room;
    if (!limits->tenant_urgent_ops_max)
        queue->limits.tenant_urgent_ops_max = limits->urgent_ops_max;
    if (!limits->tenant_bytes_max) queue->limits.tenant_bytes_max = limits->bytes_max;
    if (!limits->enough_ops) queue->limits.enough_ops = UINT32_MAX;
    queue->bound_ops = UINT32_MAX;
    pthread_mutex_init(&queue->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&queue->filled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return queue;
}

void queue_free(struct queue *queue)
{
    queue_check(queue);
    must(queue->ops == 0);
    must(queue->urgent_ops == 0);
    pthread_cond_destroy(&queue->filled);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

static void lock_to_look(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    if (SLOW_CHECKS) queue_check(queue);
}

static void lock_to_change(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue_check(queue);
}

static void unlock(struct queue *queue)
{
    if (SLOW_CHECKS) queue_check(queue);
    pthread_mutex_unlock(&queue->lock);
}

static void fifo_add(struct fifo *fifo, struct bundle *bundle)
{
    bundle->next = NULL;
    if (fifo->last)
        fifo->last->next = bundle;
    else
        fifo->first = bundle;
    fifo->last = bundle;
}

static void fifo_drop_first(struct fifo *fifo)
{
    must(fifo->first->taken == fifo->first->count);
    fifo->first = fifo->first->next;
    if (!fifo->first) fifo->last = NULL;
}

uint32_t queue_bucket(struct bytes name)
{
    return (uint32_t)(hash_keyed(&hash_own, name) % TENANT_BUCKETS);
}

static struct tenant **tenant_place(struct queue *queue, struct bytes name)
{
    struct tenant **place = &queue->tenants[queue_bucket(name)];
    while (*place && !bytes_equal(bytes_of((*place)->name, (*place)->size), name))
        place = &(*place)->chain;
    return place;
}

static struct tenant *tenant_make(struct queue *queue, struct bytes name)
{
    struct tenant **place = tenant_place(queue, name);
    if (*place) return *place;
    struct tenant *tenant = must_calloc(1, sizeof *tenant + name.size);
    memcpy(tenant->name, name.data, name.size);
    tenant->size = name.size;
    *place = tenant;
    return tenant;
}

static void ring_add(struct queue *queue, struct tenant *tenant)
{
    must(!tenant->in_ring);
    tenant->in_ring = true;
    tenant->ring_next = NULL;
    if (queue->ring_last)
        queue->ring_last->ring_next = tenant;
    else
        queue->ring_first = tenant;
    queue->ring_last = tenant;
}

static void ring_add_first(struct queue *queue, struct tenant *tenant)
{
    must(!tenant->in_ring);
    tenant->in_ring = true;
    tenant->ring_next = queue->ring_first;
    queue->ring_first = tenant;
    if (!queue->ring_last) queue->ring_last = tenant;
}

static struct tenant *ring_take(struct queue *queue)
{
    struct tenant *tenant = queue->ring_first;
    must(tenant->in_ring);
    queue->ring_first = tenant->ring_next;
    if (!queue->ring_first) queue->ring_last = NULL;
    tenant->in_ring = false;
    return tenant;
}

/* True for new rules, and for bundles that look at everything before them. They may be of any size,
 * for nothing else waits in their batch. */
static bool goes_alone(const struct bundle *bundle)
{
    return bundle->prepare || bundle->rules || bundle->alone;
}

static bool tenant_has_sync_room(struct queue *queue, const struct bundle *bundle)
{
    const struct tenant *known = bundle->tenant.size ? *tenant_place(queue, bundle->tenant) : NULL;
    return room_fits(ROOM_URGENT_OPS, known ? known->urgent_ops : 0, bundle->count,
                     queue->limits.tenant_urgent_ops_max);
}

static enum err push_urgent(struct queue *queue, struct bundle *bundle)
{
    must(!bundle->prepare || bundle->count == 1); /* release_urgent gives one place back */
    uint64_t most = bundle->unbounded ? UINT64_MAX : queue->limits.urgent_ops_max;
    if (!bundle->unbounded && !tenant_has_sync_room(queue, bundle)) return ERR_BUSY;
    if (!room_add(queue->room, ROOM_URGENT_OPS, bundle->count, most)) return ERR_BUSY;
    bool counted = room_add(queue->room, ROOM_BYTES, bundle->bytes, UINT64_MAX);
    must(counted); /* there is no bound to them */
    if (bundle->tenant.size) tenant_make(queue, bundle->tenant)->urgent_ops += bundle->count;
    queue->urgent_ops += bundle->count;
    queue->waiting_urgent_ops += bundle->count;
    fifo_add(&queue->urgent, bundle);
    return ERR_OK;
}

static bool tenant_has_room(const struct queue *queue, const struct tenant *known,
                            const struct bundle *bundle)
{
    const struct queue_limits *limits = &queue->limits;
    uint32_t ops = known ? known->ops : 0;
    size_t bytes = known ? known->bytes : 0;
    return room_fits(ROOM_OPS, ops, bundle->count, limits->tenant_ops_max) &&
           room_fits(ROOM_BYTES, bytes, bundle->bytes, limits->tenant_bytes_max);
}

static bool room_take(struct queue *queue, const struct bundle *bundle)
{
    uint64_t ops_max = bundle->unbounded ? UINT64_MAX : queue->limits.ops_max;
    uint64_t bytes_max = bundle->unbounded ? UINT64_MAX : queue->limits.bytes_max;
    if (!room_add(queue->room, ROOM_OPS, bundle->count, ops_max)) return false;
    if (room_add(queue->room, ROOM_BYTES, bundle->bytes, bytes_max)) return true;
    room_subtract(queue->room, ROOM_OPS, bundle->count);
    return false;
}

static enum err push_batched(struct queue *queue, struct bundle *bundle)
{
    must(!goes_alone(bundle)); /* the queue gives only urgent bundles alone */
    struct tenant *known = *tenant_place(queue, bundle->tenant);
    if (!bundle->unbounded && !tenant_has_room(queue, known, bundle)) return ERR_QUEUE_FULL;
    if (!room_take(queue, bundle)) return ERR_QUEUE_FULL;
    struct tenant *tenant = known ? known : tenant_make(queue, bundle->tenant);
    queue->ops += bundle->count;
    queue->waiting_ops += bundle->count;
    tenant->ops += bundle->count;
    tenant->bytes += bundle->bytes;
    fifo_add(&tenant->waiting, bundle);
    if (!tenant->in_ring) ring_add(queue, tenant);
    return ERR_OK;
}

static enum err push_locked(struct queue *queue, struct bundle *bundle)
{
    must(bundle->count > 0);
    bundle->taken = 0;
    bundle->answered = 0;
    enum err e = bundle->urgency == URGENCY_URGENT ? push_urgent(queue, bundle)
                                                   : push_batched(queue, bundle);
    if (e != ERR_OK) return e;
    if (bundle->queued_ns && queue->clients++ == 0) queue->busy_ns = bundle->queued_ns;
    queue->bytes += bundle->bytes;
    __atomic_store_n(&queue->pushes, queue->pushes + 1, __ATOMIC_RELAXED);
    return ERR_OK;
}

static void unlock_and_wake(struct queue *queue)
{
    bool wake = queue->sleeping && queue->waiting_ops + queue->waiting_urgent_ops >= queue->wake_at;
    if (wake) queue->sleeping = false;
    unlock(queue);
    if (wake) pthread_cond_signal(&queue->filled);
}

void queue_push_all(struct queue *queue, struct bundle *bundles, struct bundle **refused_out)
{
    struct fifo refused = {0};
    lock_to_change(queue);
    while (bundles) {
        struct bundle *bundle = bundles;
        bundles = bundle->next;
        bundle->err = push_locked(queue, bundle);
        if (bundle->err != ERR_OK) fifo_add(&refused, bundle);
    }
    unlock(queue);
    *refused_out = refused.first;
}

void queue_wake(struct queue *queue)
{
    lock_to_look(queue);
    unlock_and_wake(queue);
}

enum err queue_push(struct queue *queue, struct bundle *bundle)
{
    lock_to_change(queue);
    enum err e = push_locked(queue, bundle);
    unlock_and_wake(queue);
    return e;
}

/* How many of the bundle's next `count` ops fit by weight. The first op of a batch always does. */
static uint32_t fit_weight(struct queue *queue, const struct bundle *bundle, uint32_t count)
{
    size_t most = queue->limits.batch_weight_max;
    size_t weight = queue->weight;
    uint32_t fits = 0;
    for (; fits < count; fits++) {
        size_t more = bundle->ops[bundle->taken + fits].weight;
        bool first = weight == 0 || (bundle->whole && queue->weight == 0);
        if (most && weight + more > most && !first) break;
        weight += more;
    }
    if (bundle->whole && fits < count) return 0;
    queue->weight = weight;
    return fits;
}

/* Moves up to `ops_max` ops of the fifo's first bundle into a slice. False: nothing of it, or not
 * the whole of a bundle that has to stay whole, fits into what is left of this batch. */
static bool take_first(struct queue *queue, struct fifo *fifo, struct slice *slice,
                       uint32_t ops_max)
{
    struct bundle *bundle = fifo->first;
    uint32_t left = bundle->count - bundle->taken;
    if (bundle->whole && left > ops_max) return false;
    uint32_t count = left < ops_max ? left : ops_max;
    if (bundle->weighty) count = fit_weight(queue, bundle, count);
    if (count == 0) return false;
    *slice = (struct slice){bundle, bundle->taken, count};
    bundle->taken += count;
    if (bundle->taken == bundle->count) fifo_drop_first(fifo);
    return true;
}

static uint32_t batch_enough(const struct queue *queue, uint32_t ops_max)
{
    uint32_t enough = queue->limits.enough_ops < ops_max ? queue->limits.enough_ops : ops_max;
    return enough < queue->bound_ops ? enough : queue->bound_ops;
}

/* The urgent bundles' share of a batch, and no more than what leaves room for what is owed. */
static uint32_t urgent_share(const struct queue *queue, uint32_t ops_max)
{
    uint32_t share = pace_urgent_ops(batch_enough(queue, ops_max), queue->waiting_ops, queue->owed);
    uint32_t left = queue->owed < ops_max ? ops_max - queue->owed : 0;
    return share < left ? share : left;
}

/* An urgent bundle that has to stay whole and is larger than its share goes first into an empty
 * batch, or it would wait for ever; unless batched bundles were passed over last time. */
static uint32_t take_urgent(struct queue *queue, struct slice *slices, uint32_t ops_max,
                            uint32_t *ops_out)
{
    uint32_t share = urgent_share(queue, ops_max);
    uint32_t count = 0;
    while (queue->urgent.first && *ops_out < share && !queue->alone) {
        queue->alone = goes_alone(queue->urgent.first);
        if (queue->alone && count > 0) break;
        bool first_whole = *ops_out == 0 && queue->urgent.first->whole && !queue->owed;
        uint32_t room = queue->alone ? UINT32_MAX : first_whole ? ops_max : share - *ops_out;
        if (!take_first(queue, &queue->urgent, &slices[count], room)) break;
        *ops_out += slices[count].count;
        queue->waiting_urgent_ops -= slices[count].count;
        count++;
    }
    return count;
}

/* One tenant's turn. Returns how many slices it gave. */
static uint32_t take_turn(struct queue *queue, struct tenant *tenant, struct slice *slices,
                          uint32_t room)
{
    uint32_t quantum = room < PACE_TENANT_OPS ? room : PACE_TENANT_OPS;
    if (quantum > queue->bound_ops) quantum = queue->bound_ops;
    uint32_t taken = 0;
    uint32_t count = 0;
    while (tenant->waiting.first && taken < quantum) {
        uint32_t most = tenant->waiting.first->whole ? room - taken : quantum - taken;
        if (!take_first(queue, &tenant->waiting, &slices[count], most)) break;
        taken += slices[count].count;
        count++;
    }
    queue->waiting_ops -= taken;
    return count;
}

/* What a tenant that got nothing needs to get anything. */
static uint32_t owed_to(const struct tenant *tenant)
{
    const struct bundle *bundle = tenant->waiting.first;
    return bundle->whole ? bundle->count : 1;
}

/* The first tenant whose next bundle is too large for what is left is held back and comes first in
 * the next batch: taking turns alone, it might find each batch half full for ever. */
static uint32_t take_batched(struct queue *queue, struct slice *slices, uint32_t ops_max,
                             uint32_t *ops_out)
{
    uint32_t count = 0;
    struct tenant *held = NULL;
    struct tenant *stuck = NULL; /* another one, passed over since a tenant gave something */
    uint32_t enough = batch_enough(queue, ops_max);
    while (queue->ring_first && queue->ring_first != stuck && *ops_out < enough) {
        struct tenant *tenant = ring_take(queue);
        uint32_t given = take_turn(queue, tenant, slices + count, ops_max - *ops_out);
        for (uint32_t i = 0; i < given; i++)
            *ops_out += slices[count + i].count;
        count += given;
        if (given > 0) stuck = NULL;
        if (given == 0 && !held) {
            held = tenant;
            continue;
        }
        if (given == 0 && !stuck) stuck = tenant;
        if (tenant->waiting.first) ring_add(queue, tenant);
    }
    if (held) ring_add_first(queue, held);
    bool owing = queue->ring_first && (held || count == 0);
    queue->owed = owing ? owed_to(queue->ring_first) : 0;
    return count;
}

void queue_bound(struct queue *queue, uint32_t ops)
{
    must(ops > 0);
    lock_to_look(queue);
    queue->bound_ops = ops;
    unlock(queue);
}

uint32_t queue_take(struct queue *queue, struct slice *slices, uint32_t ops_max)
{
    uint32_t ops = 0;
    lock_to_change(queue);
    queue->weight = 0;
    queue->alone = false;
    uint32_t count = take_urgent(queue, slices, ops_max, &ops);
    if (!queue->alone) count += take_batched(queue, slices + count, ops_max, &ops);
    unlock(queue);
    must(ops <= ops_max || queue->alone);
    __atomic_store_n(&queue->taken, ops, __ATOMIC_RELAXED);
    return count;
}

static void tenant_end(struct tenant **place)
{
    struct tenant *tenant = *place;
    if (tenant->ops > 0 || tenant->urgent_ops > 0) return;
    must(!tenant->in_ring);
    *place = tenant->chain;
    free(tenant);
}

static void release_tenant(struct queue *queue, struct bundle *bundle)
{
    struct tenant **place = tenant_place(queue, bundle->tenant);
    struct tenant *tenant = *place;
    must(tenant != NULL && tenant->ops >= bundle->count);
    must(tenant->bytes >= bundle->bytes);
    tenant->ops -= bundle->count;
    tenant->bytes -= bundle->bytes;
    tenant_end(place);
}

static void release_urgent(struct queue *queue, struct bundle *bundle)
{
    uint32_t count = bundle->prepare ? 1 : bundle->count; /* which it may have changed */
    must(queue->urgent_ops >= count);
    queue->urgent_ops -= count;
    room_subtract(queue->room, ROOM_URGENT_OPS, count);
    if (!bundle->tenant.size) return;
    struct tenant **place = tenant_place(queue, bundle->tenant);
    must(*place != NULL && (*place)->urgent_ops >= count);
    (*place)->urgent_ops -= count;
    tenant_end(place);
}

static void release_places(struct queue *queue, struct bundle *bundle)
{
    must(bundle->taken > 0); /* a bundle that was never taken cannot be answered */
    must(queue->bytes >= bundle->bytes);
    queue->bytes -= bundle->bytes;
    room_subtract(queue->room, ROOM_BYTES, bundle->bytes);
    queue->clients -= bundle->queued_ns != 0;
    if (bundle->urgency == URGENCY_URGENT) {
        release_urgent(queue, bundle);
    } else {
        must(queue->ops >= bundle->count);
        queue->ops -= bundle->count;
        room_subtract(queue->room, ROOM_OPS, bundle->count);
        release_tenant(queue, bundle);
    }
}

void queue_done(struct queue *queue, struct bundle *bundle)
{
    lock_to_change(queue);
    release_places(queue, bundle);
    unlock(queue);
}

void queue_done_all(struct queue *queue, struct bundle *bundles)
{
    lock_to_change(queue);
    for (; bundles; bundles = bundles->next)
        release_places(queue, bundles);
    unlock(queue);
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The taker gives its core to any thread that wants it while it looks. */
static void queue_look(struct queue *queue)
{
    uint32_t taken = __atomic_load_n(&queue->taken, __ATOMIC_RELAXED);
    int64_t start_ns = now_ns();
    int64_t until_ns = look_until_ns(&queue->look, taken, start_ns);
    if (until_ns == start_ns) return;
    while (__atomic_load_n(&queue->pushes, __ATOMIC_RELAXED) == queue->pushes_seen &&
           now_ns() < until_ns)
        sched_yield();
}

bool queue_wait(struct queue *queue)
{
    queue_look(queue);
    lock_to_look(queue);
    while (!queue->waiting_ops && !queue->waiting_urgent_ops && !queue->stopped) {
        queue->sleeping = true;
        queue->wake_at = 1;
        pthread_cond_wait(&queue->filled, &queue->lock);
    }
    queue->sleeping = false;
    queue->pushes_seen = queue->pushes;
    bool any = queue->waiting_ops || queue->waiting_urgent_ops;
    unlock(queue);
    return any;
}

void queue_gather(struct queue *queue, uint32_t ops, int64_t ns)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    lock_to_look(queue);
    int late = 0;
    while (queue->waiting_ops + queue->waiting_urgent_ops < ops && !queue->stopped && !late) {
        queue->sleeping = true;
        queue->wake_at = ops;
        late = pthread_cond_timedwait(&queue->filled, &queue->lock, &until);
    }
    queue->sleeping = false;
    unlock(queue);
}

void queue_stop(struct queue *queue)
{
    lock_to_look(queue);
    queue->stopped = true;
    unlock(queue);
    pthread_cond_broadcast(&queue->filled);
}

bool queue_is_small(struct queue *queue, uint32_t ops_max)
{
    lock_to_look(queue);
    uint32_t waiting = queue->waiting_ops + queue->waiting_urgent_ops;
    bool alone = queue->urgent.first && goes_alone(queue->urgent.first);
    unlock(queue);
    return waiting > 0 && pace_is_small(ops_max, waiting) && !alone;
}

uint32_t queue_depth(struct queue *queue)
{
    lock_to_look(queue);
    uint32_t depth = queue->ops + queue->urgent_ops;
    unlock(queue);
    return depth;
}

uint32_t queue_urgent_depth(struct queue *queue)
{
    lock_to_look(queue);
    uint32_t depth = queue->urgent_ops;
    unlock(queue);
    return depth;
}

int64_t queue_busy_ns(struct queue *queue)
{
    lock_to_look(queue);
    int64_t busy_ns = queue->clients ? queue->busy_ns : 0;
    unlock(queue);
    return busy_ns;
}

uint32_t queue_waiting(struct queue *queue)
{
    lock_to_look(queue);
    uint32_t waiting = queue->waiting_ops + queue->waiting_urgent_ops;
    unlock(queue);
    return waiting;
}
