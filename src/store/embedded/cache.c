/* cache.c -- lives of entries, and eviction by the clock hand. */
#include "store/embedded/cache.h"

#define EVICT_LOOK_MAX 64u /* buckets looked at for one insertion: bounded work under the lock */

void cache_init(struct cache *cache, size_t bytes_max,
                size_t (*entry_size)(const struct cache_entry *),
                void (*entry_free)(struct cache_entry *))
{
    cache->bytes_max = bytes_max;
    cache->entry_size = entry_size;
    cache->entry_free = entry_free;
    for (unsigned i = 0; i < CACHE_SHARDS; i++) {
        struct cache_shard *shard = &cache->shards[i];
        *shard = (struct cache_shard){0};
        pthread_mutex_init(&shard->lock, NULL);
        table_init(&shard->table);
    }
}

void cache_release(struct cache *cache)
{
    for (unsigned i = 0; i < CACHE_SHARDS; i++) {
        struct cache_shard *shard = &cache->shards[i];
        for (size_t b = 0; b <= shard->table.mask; b++) {
            for (struct table_node *node = shard->table.buckets[b], *next; node; node = next) {
                next = node->next;
                cache->entry_free(CONTAINER_OF(node, struct cache_entry, node));
            }
        }
        table_release(&shard->table);
        pthread_mutex_destroy(&shard->lock);
    }
}

struct cache_shard *cache_lock(struct cache *cache, uint64_t hash)
{
    struct cache_shard *shard = cache_shard_of(cache, hash);
    pthread_mutex_lock(&shard->lock);
    return shard;
}

void cache_unlock(struct cache_shard *shard)
{
    pthread_mutex_unlock(&shard->lock);
}

struct cache_items cache_items_new(struct arena *arena, uint32_t count_max)
{
    return (struct cache_items){
        .items = arena_alloc(arena, (count_max + 1u) * sizeof(struct cache_item))};
}

void cache_items_sort(struct cache_items *items, struct arena *arena)
{
    uint32_t next[CACHE_SHARDS];
    struct cache_item *sorted = arena_alloc(arena, (items->count + 1u) * sizeof *sorted);
    memset(items->starts, 0, sizeof items->starts);
    for (uint32_t i = 0; i < items->count; i++)
        items->starts[cache_shard_number(items->items[i].hash) + 1]++;
    for (unsigned s = 0; s < CACHE_SHARDS; s++) {
        next[s] = items->starts[s];
        items->starts[s + 1] += items->starts[s];
    }
    for (uint32_t i = 0; i < items->count; i++)
        sorted[next[cache_shard_number(items->items[i].hash)]++] = items->items[i];
    items->items = sorted;
}

struct cache_shard *cache_items_lock(struct cache *cache, const struct cache_items *items,
                                     unsigned number)
{
    struct cache_shard *shard = &cache->shards[number];
    const struct table *table = &shard->table;
    pthread_mutex_lock(&shard->lock);
    for (uint32_t i = items->starts[number]; i < items->starts[number + 1]; i++)
        __builtin_prefetch(&table->buckets[items->items[i].hash & table->mask]);
    for (uint32_t i = items->starts[number]; i < items->starts[number + 1]; i++) {
        const char *entry = (const char *)table_first(table, items->items[i].hash);
        __builtin_prefetch(entry, 1);
        __builtin_prefetch(entry + 64, 1);
    }
    return shard;
}

static void list_add(struct cache_list *list, struct cache_entry *entry)
{
    entry->next = NULL;
    entry->previous = list->last;
    if (list->last)
        list->last->next = entry;
    else
        list->first = entry;
    list->last = entry;
}

static void list_remove(struct cache_list *list, struct cache_entry *entry)
{
    *(entry->previous ? &entry->previous->next : &list->first) = entry->next;
    *(entry->next ? &entry->next->previous : &list->last) = entry->previous;
}

static bool evictable(const struct cache_entry *entry)
{
    return entry->life == LIFE_CLEAN && entry->pins == 0;
}

/* Second chance: a warm entry is cooled, a cold one goes. */
static void evict_bucket(struct cache *cache, struct cache_shard *shard, size_t bucket)
{
    for (struct table_node *node = shard->table.buckets[bucket], *next; node; node = next) {
        next = node->next;
        struct cache_entry *entry = CONTAINER_OF(node, struct cache_entry, node);
        if (!evictable(entry)) continue;
        if (entry->warm)
            entry->warm = false;
        else
            cache_remove(cache, shard, entry);
    }
}

static void make_room(struct cache *cache, struct cache_shard *shard)
{
    size_t share = cache->bytes_max / CACHE_SHARDS;
    for (unsigned i = 0; i < EVICT_LOOK_MAX && shard->bytes > share; i++) {
        shard->hand = (shard->hand + 1) & shard->table.mask;
        evict_bucket(cache, shard, shard->hand);
    }
}

void cache_insert(struct cache *cache, struct cache_shard *shard, struct cache_entry *entry)
{
    must(entry->life == LIFE_CLEAN);
    shard->bytes += cache->entry_size(entry);
    make_room(cache, shard);
    table_insert(&shard->table, &entry->node);
}

void cache_remove(struct cache *cache, struct cache_shard *shard, struct cache_entry *entry)
{
    must(evictable(entry));
    table_remove(&shard->table, &entry->node);
    shard->bytes -= cache->entry_size(entry);
    shard->evictions++;
    cache->entry_free(entry);
}

void cache_dirty(struct cache_shard *shard, struct cache_entry *entry)
{
    if (entry->life == LIFE_DIRTY) return;
    if (entry->life == LIFE_WRITTEN)
        list_remove(&shard->written, entry);
    else
        shard->dirty_count++;
    entry->life = LIFE_DIRTY;
    list_add(&shard->dirty, entry);
}

size_t cache_write_back(struct cache *cache, unsigned index, size_t max, cache_copy_fn *copy,
                        void *context)
{
    struct cache_shard *shard = &cache->shards[index];
    size_t count = 0;
    pthread_mutex_lock(&shard->lock);
    while (shard->dirty.first && count < max) {
        struct cache_entry *entry = shard->dirty.first;
        must(entry->life == LIFE_DIRTY);
        list_remove(&shard->dirty, entry);
        list_add(&shard->written, entry);
        entry->life = LIFE_WRITTEN;
        copy(context, entry);
        count++;
    }
    pthread_mutex_unlock(&shard->lock);
    return count;
}

/* A shard at a time: an entry that turned dirty since the flush began has left this list. */
void cache_flushed(struct cache *cache, bool ok)
{
    for (unsigned i = 0; i < CACHE_SHARDS; i++) {
        struct cache_shard *shard = &cache->shards[i];
        pthread_mutex_lock(&shard->lock);
        while (shard->written.first) {
            struct cache_entry *entry = shard->written.first;
            if (!ok) {
                cache_dirty(shard, entry);
                continue;
            }
            list_remove(&shard->written, entry);
            entry->life = LIFE_CLEAN;
            shard->dirty_count--;
        }
        pthread_mutex_unlock(&shard->lock);
    }
}

void cache_stats(struct cache *cache, struct cache_stats *stats_out)
{
    *stats_out = (struct cache_stats){0};
    for (unsigned i = 0; i < CACHE_SHARDS; i++) {
        struct cache_shard *shard = &cache->shards[i];
        pthread_mutex_lock(&shard->lock);
        stats_out->bytes += shard->bytes;
        stats_out->entries += shard->table.count;
        stats_out->dirty += shard->dirty_count;
        pthread_mutex_unlock(&shard->lock);
    }
}

bool cache_pressed(struct cache *cache)
{
    struct cache_stats stats;
    cache_stats(cache, &stats);
    return stats.entries && stats.bytes / stats.entries * stats.dirty > cache->bytes_max / 2;
}
