/* shares.c -- one entry for each tenant that has a connection or a request under way.
 *
 * (1) An entry is there as long as something holds it: a connection, a stream, or a request over a
 *     connection of another. When the last of them goes, no byte is charged to it any more.
 * (2) It never has more connections or streams than a tenant may.
 *
 * shares_check asserts them for the thread that has the lock, in slow builds. */
#include "api/shares.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/table.h"

struct share {
    struct wire_share wire; /* connections whose slot has this share */
    struct table_node node;
    unsigned connections;
    unsigned streams;
    unsigned holds; /* requests over connections of others */
    size_t size;
    char tenant[];
};

struct shares {
    pthread_mutex_t lock;
    struct table table;
    unsigned connections_max;
    unsigned streams_max;
};

struct shares *shares_new(unsigned connections_max, unsigned streams_max)
{
    struct shares *shares = must_calloc(1, sizeof *shares);
    pthread_mutex_init(&shares->lock, NULL);
    table_init(&shares->table);
    shares->connections_max = connections_max;
    shares->streams_max = streams_max;
    return shares;
}

void shares_free(struct shares *shares)
{
    must(shares->table.count == 0);
    table_release(&shares->table);
    pthread_mutex_destroy(&shares->lock);
    free(shares);
}

static struct share *share_find(struct shares *shares, uint64_t hash, struct bytes tenant)
{
    TABLE_EACH_MATCH(&shares->table, hash, node)
    {
        struct share *share = CONTAINER_OF(node, struct share, node);
        if (bytes_equal(bytes_of(share->tenant, share->size), tenant)) return share;
    }
    return NULL;
}

static struct share *share_find_or_make(struct shares *shares, struct bytes tenant)
{
    uint64_t hash = hash_keyed(&hash_own, tenant);
    struct share *share = share_find(shares, hash, tenant);
    if (share) return share;
    share = must_calloc(1, sizeof *share + tenant.size);
    share->node.hash = hash;
    share->size = tenant.size;
    memcpy(share->tenant, tenant.data, tenant.size);
    table_insert(&shares->table, &share->node);
    return share;
}

static void shares_check(const struct shares *shares)
{
    size_t count = 0;
    if (!SLOW_CHECKS) return;
    for (size_t b = 0; b <= shares->table.mask; b++) {
        for (struct table_node *node = shares->table.buckets[b]; node; node = node->next) {
            const struct share *share = CONTAINER_OF(node, struct share, node);
            must(share->connections <= shares->connections_max);
            must(share->streams <= shares->streams_max);
            must(share->connections > 0 || share->streams > 0 || share->holds > 0);
            count++;
        }
    }
    must(count == shares->table.count);
}

static struct share *share_of(struct wire_share *wire)
{
    return CONTAINER_OF(wire, struct share, wire);
}

struct wire_share *shares_take(struct shares *shares, struct bytes tenant)
{
    pthread_mutex_lock(&shares->lock);
    struct share *share = share_find_or_make(shares, tenant);
    if (share->connections < shares->connections_max)
        share->connections++;
    else
        share = NULL; /* the entry stays: other requests hold it */
    shares_check(shares);
    pthread_mutex_unlock(&shares->lock);
    return share ? &share->wire : NULL;
}

static void share_end(struct shares *shares, struct share *share)
{
    if (share->connections > 0 || share->streams > 0 || share->holds > 0) return;
    must(atomic_load(&share->wire.bytes) == 0);
    table_remove(&shares->table, &share->node);
    free(share);
}

void shares_return(struct shares *shares, struct wire_share *connection)
{
    struct share *share = share_of(connection);
    pthread_mutex_lock(&shares->lock);
    must(share->connections > 0);
    share->connections--;
    share_end(shares, share);
    shares_check(shares);
    pthread_mutex_unlock(&shares->lock);
}

bool shares_take_stream(struct shares *shares, struct bytes tenant)
{
    pthread_mutex_lock(&shares->lock);
    struct share *share = share_find_or_make(shares, tenant);
    bool room = share->streams < shares->streams_max;
    if (room) share->streams++;
    share_end(shares, share);
    shares_check(shares);
    pthread_mutex_unlock(&shares->lock);
    return room;
}

void shares_return_stream(struct shares *shares, struct bytes tenant)
{
    pthread_mutex_lock(&shares->lock);
    struct share *share = share_find(shares, hash_keyed(&hash_own, tenant), tenant);
    must(share && share->streams > 0);
    share->streams--;
    share_end(shares, share);
    shares_check(shares);
    pthread_mutex_unlock(&shares->lock);
}

bool shares_is_of(const struct wire_share *connection, struct bytes tenant)
{
    const struct share *share = CONTAINER_OF(connection, const struct share, wire);
    return bytes_equal(bytes_of(share->tenant, share->size), tenant);
}

struct wire_share *shares_hold(struct shares *shares, struct bytes tenant)
{
    pthread_mutex_lock(&shares->lock);
    struct share *share = share_find_or_make(shares, tenant);
    share->holds++;
    shares_check(shares);
    pthread_mutex_unlock(&shares->lock);
    return &share->wire;
}

void shares_let_go(struct shares *shares, struct wire_share *held)
{
    struct share *share = share_of(held);
    pthread_mutex_lock(&shares->lock);
    must(share->holds > 0);
    share->holds--;
    share_end(shares, share);
    shares_check(shares);
    pthread_mutex_unlock(&shares->lock);
}
