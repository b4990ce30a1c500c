/* tenants.c -- one entry a tenant. */
#include "store/embedded/tenants.h"

#include <stdlib.h>

#include "base/heap.h"

struct owner {
    struct cache_entry entry;
    int64_t cells;                    /* durable */
    const struct read_tenant *staged; /* the newest, while its batch is in flight */
    size_t size;
    char name[];
};

struct tenants {
    struct cache cache;
};

#define OWNER_OF(pointer) CONTAINER_OF(pointer, struct owner, entry)

static size_t owner_size(const struct cache_entry *entry)
{
    return heap_bytes(sizeof(struct owner) + OWNER_OF(entry)->size) + TABLE_SHARE;
}

static void owner_free(struct cache_entry *entry)
{
    free(OWNER_OF(entry));
}

struct tenants *tenants_new(void)
{
    struct tenants *tenants = aligned_alloc(64, (sizeof *tenants + 63) / 64 * 64);
    must(tenants != NULL);
    cache_init(&tenants->cache, SIZE_MAX, owner_size, owner_free);
    return tenants;
}

void tenants_free(struct tenants *tenants)
{
    cache_release(&tenants->cache);
    free(tenants);
}

struct cache *tenants_cache(struct tenants *tenants)
{
    return &tenants->cache;
}

static struct owner *owner_find(struct cache_shard *shard, uint64_t hash, struct bytes name)
{
    TABLE_EACH_MATCH(&shard->table, hash, node)
    {
        struct owner *owner = OWNER_OF(CONTAINER_OF(node, struct cache_entry, node));
        if (bytes_equal(bytes_of(owner->name, owner->size), name)) return owner;
    }
    return NULL;
}

static struct owner *owner_find_or_make(struct tenants *tenants, struct cache_shard *shard,
                                        uint64_t hash, struct bytes name, int64_t cells)
{
    struct owner *owner = owner_find(shard, hash, name);
    if (owner) return owner;
    owner = must_calloc(1, sizeof *owner + name.size);
    owner->entry.node.hash = hash;
    owner->cells = cells;
    owner->size = name.size;
    memcpy(owner->name, name.data, name.size);
    cache_insert(&tenants->cache, shard, &owner->entry);
    return owner;
}

bool tenants_load(struct tenants *tenants, struct read_tenant *read)
{
    uint64_t hash = hash_keyed(&hash_own, read->tenant);
    struct cache_shard *shard = cache_lock(&tenants->cache, hash);
    struct owner *owner = owner_find(shard, hash, read->tenant);
    if (owner) {
        cache_pin(&owner->entry);
        read->cells = owner->staged ? owner->staged->cells : owner->cells;
        read->handle = owner;
    }
    cache_unlock(shard);
    return owner != NULL;
}

void tenants_insert(struct tenants *tenants, struct read_tenant *read, int64_t cells)
{
    uint64_t hash = hash_keyed(&hash_own, read->tenant);
    struct cache_shard *shard = cache_lock(&tenants->cache, hash);
    struct owner *owner = owner_find_or_make(tenants, shard, hash, read->tenant, cells);
    cache_pin(&owner->entry);
    read->cells = owner->cells;
    read->handle = owner;
    cache_unlock(shard);
}

static struct cache_shard *owner_lock(struct tenants *tenants, const struct owner *owner)
{
    return cache_lock(&tenants->cache, owner->entry.node.hash);
}

void tenants_stage(struct tenants *tenants, struct read_tenant *read)
{
    must(read->changed);
    struct owner *owner = read->handle;
    must(owner != NULL);
    struct cache_shard *shard = owner_lock(tenants, owner);
    owner->staged = read;
    cache_unlock(shard);
}

void tenants_publish(struct tenants *tenants, struct read_tenant *read)
{
    struct owner *owner = read->handle;
    struct cache_shard *shard = owner_lock(tenants, owner);
    if (read->changed) {
        owner->cells = read->cells;
        if (owner->staged == read) owner->staged = NULL;
        cache_dirty(&tenants->cache, shard, &owner->entry);
    }
    cache_unpin(&owner->entry);
    cache_unlock(shard);
}

void tenants_drop(struct tenants *tenants, struct read_tenant *read)
{
    struct owner *owner = read->handle;
    if (!owner) return;
    struct cache_shard *shard = owner_lock(tenants, owner);
    if (owner->staged == read) owner->staged = NULL;
    cache_unpin(&owner->entry);
    cache_unlock(shard);
}

void tenants_replay(struct tenants *tenants, struct bytes tenant, int64_t cells)
{
    uint64_t hash = hash_keyed(&hash_own, tenant);
    struct cache_shard *shard = cache_lock(&tenants->cache, hash);
    struct owner *owner = owner_find_or_make(tenants, shard, hash, tenant, cells);
    owner->cells = cells;
    cache_dirty(&tenants->cache, shard, &owner->entry);
    cache_unlock(shard);
}

struct bytes tenants_value(const struct cache_entry *entry, int64_t *cells_out)
{
    const struct owner *owner = OWNER_OF(entry);
    *cells_out = owner->cells;
    return bytes_of(owner->name, owner->size);
}
