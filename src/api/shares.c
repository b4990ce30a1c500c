/* shares.c -- one entry for each tenant that has a connection. */
#include "api/shares.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/table.h"

struct share {
    struct table_node node;
    unsigned count;
    size_t size;
    char tenant[];
};

struct shares {
    pthread_mutex_t lock;
    struct table table;
    unsigned connections_max;
};

struct shares *shares_new(unsigned connections_max)
{
    struct shares *shares = must_calloc(1, sizeof *shares);
    pthread_mutex_init(&shares->lock, NULL);
    table_init(&shares->table);
    shares->connections_max = connections_max;
    return shares;
}

void shares_free(struct shares *shares)
{
    must(shares->table.count == 0);
    table_release(&shares->table);
    pthread_mutex_destroy(&shares->lock);
    free(shares);
}

static struct share *share_find_or_make(struct shares *shares, struct bytes tenant)
{
    uint64_t hash = hash_checksum(tenant);
    TABLE_EACH_MATCH(&shares->table, hash, node)
    {
        struct share *share = CONTAINER_OF(node, struct share, node);
        if (bytes_equal(bytes_of(share->tenant, share->size), tenant)) return share;
    }
    struct share *share = must_calloc(1, sizeof *share + tenant.size);
    share->node.hash = hash;
    share->size = tenant.size;
    memcpy(share->tenant, tenant.data, tenant.size);
    table_insert(&shares->table, &share->node);
    return share;
}

struct share *shares_take(struct shares *shares, struct bytes tenant)
{
    pthread_mutex_lock(&shares->lock);
    struct share *share = share_find_or_make(shares, tenant);
    if (share->count < shares->connections_max)
        share->count++;
    else
        share = NULL; /* it stays: others hold it */
    pthread_mutex_unlock(&shares->lock);
    return share;
}

void shares_return(struct shares *shares, struct share *share)
{
    pthread_mutex_lock(&shares->lock);
    must(share->count > 0);
    if (--share->count == 0) {
        table_remove(&shares->table, &share->node);
        free(share);
    }
    pthread_mutex_unlock(&shares->lock);
}
