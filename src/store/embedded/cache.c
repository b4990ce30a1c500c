/* cache.c -- lives of entries, and eviction by the clock hand. */
#include "store/embedded/cache.h"

#define EVICT_LOOK_MAX 64u /* buckets looked at for one insertion: bounded work under the lock */
#define FLUSHED_STEP 256u  /* entries that turn clean a holding of the lock */

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

void cache_keep_order(struct cache *cache, struct order_node *(*place)(struct cache_entry *),
                      order_key_fn *key)
{
    for (unsigned i = 0; i < CACHE_SHARDS; i++) {
        cache->shards[i].place = place;
        cache->shards[i].newer = (struct order){.key = key};
    }
}

/* -- Laws -------------------------------------------------------------------------------------- */

struct cache_sums {
    size_t entries;
    size_t bytes;
    size_t dirty_bytes;
    size_t pins;
    size_t lives[LIFE_WRITTEN + 1];
};

static struct cache_sums shard_sums(const struct cache *cache, const struct cache_shard *shard)
{
    struct cache_sums sums = {0};
    for (size_t b = 0; b <= shard->table.mask; b++) {
        for (struct table_node *node = shard->table.buckets[b]; node; node = node->next) {
            const struct cache_entry *entry = CONTAINER_OF(node, struct cache_entry, node);
            size_t size = cache->entry_size(entry);
            must(&cache->shards[cache_shard_number(node->hash)] == shard);
            sums.entries++;
            sums.bytes += size;
            sums.dirty_bytes += entry->life == LIFE_CLEAN ? 0 : size;
            sums.pins += entry->pins;
            sums.lives[entry->life]++;
        }
    }
    return sums;
}

static size_t list_count(const struct cache_list *list, enum cache_life life)
{
    size_t count = 0;
    const struct cache_entry *before = NULL;
    for (const struct cache_entry *entry = list->first; entry; entry = entry->next) {
        must(entry->life == life);
        must(entry->previous == before);
        before = entry;
        count++;
    }
    must(list->last == before);
    return count;
}

static size_t order_count(const struct order_node *node)
{
    return node ? 1 + order_count(node->left) + order_count(node->right) : 0;
}

static void shard_check(const struct cache *cache, const struct cache_shard *shard)
{
    struct cache_sums sums = shard_sums(cache, shard);
    must(sums.entries == shard->table.count);
    must(sums.bytes == shard->bytes);
    must(sums.dirty_bytes == shard->dirty_bytes);
    must(sums.lives[LIFE_DIRTY] == list_count(&shard->dirty, LIFE_DIRTY));
    must(sums.lives[LIFE_WRITTEN] == list_count(&shard->written, LIFE_WRITTEN));
    must(sums.lives[LIFE_DIRTY] + sums.lives[LIFE_WRITTEN] == shard->dirty_count);
    must(!shard->place || order_count(shard->newer.root) == shard->dirty_count);
}

void cache_check(struct cache *cache)
{
    for (unsigned i = 0; i < CACHE_SHARDS; i++) {
        struct cache_shard *shard = &cache->shards[i];
        pthread_mutex_lock(&shard->lock);
        shard_check(cache, shard);
        pthread_mutex_unlock(&shard->lock);
    }
}

size_t cache_pinned(struct cache *cache)
{
    size_t pins = 0;
    for (unsigned i = 0; i < CACHE_SHARDS; i++) {
        struct cache_shard *shard = &cache->shards[i];
        pthread_mutex_lock(&shard->lock);
        pins += shard_sums(cache, shard).pins;
        pthread_mutex_unlock(&shard->lock);
    }
    return pins;
}

/* -- Beginning and end ------------------------------------------------------------------------- */

void cache_release(struct cache *cache)
{
    if (SLOW_CHECKS) cache_check(cache);
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

/* What a look into buckets met. */
struct met {
    bool idle; /* something that may go, now or at the next look */
    bool busy; /* something that may not */
};

/* A warm entry is cooled and gets a second chance; a cold one goes. */
static void evict_bucket(struct cache *cache, struct cache_shard *shard, size_t bucket,
                         struct met *met)
{
    for (struct table_node *node = shard->table.buckets[bucket], *next; node; node = next) {
        next = node->next;
        struct cache_entry *entry = CONTAINER_OF(node, struct cache_entry, node);
        *(evictable(entry) ? &met->idle : &met->busy) = true;
        if (!evictable(entry)) continue;
        if (entry->warm)
            entry->warm = false;
        else
            cache_remove(cache, shard, entry);
    }
}

/* Looking in vain costs a cache miss a bucket, and a shard may be dirty from end to end: one series
 * lies in one shard, so a counter that gets many new cells fills it. Each vain look halves the next
 * one, down to a single bucket. */
static void make_room(struct cache *cache, struct cache_shard *shard)
{
    size_t share = cache->bytes_max / CACHE_SHARDS;
    unsigned looks = EVICT_LOOK_MAX >> shard->vain;
    struct met met = {0};
    for (unsigned i = 0; i < looks && shard->bytes > share; i++) {
        shard->hand = (shard->hand + 1) & shard->table.mask;
        evict_bucket(cache, shard, shard->hand, &met);
    }
    if (met.idle)
        shard->vain = 0;
    else if (met.busy && looks > 1)
        shard->vain++;
}

void cache_insert(struct cache *cache, struct cache_shard *shard, struct cache_entry *entry)
{
    must(entry->life == LIFE_CLEAN);
    shard->bytes += cache->entry_size(entry);
    make_room(cache, shard);
    table_insert(&shard->table, &entry->node);
}

void cache_resized(struct cache *cache, struct cache_shard *shard, const struct cache_entry *entry,
                   size_t before)
{
    must(entry->pins > 0 || entry->life != LIFE_CLEAN);
    size_t now = cache->entry_size(entry);
    shard->bytes += now - before;
    if (entry->life != LIFE_CLEAN) shard->dirty_bytes += now - before;
    if (now > before) make_room(cache, shard);
}

void cache_remove(struct cache *cache, struct cache_shard *shard, struct cache_entry *entry)
{
    must(evictable(entry));
    table_remove(&shard->table, &entry->node);
    shard->bytes -= cache->entry_size(entry);
    shard->evictions++;
    cache->entry_free(entry);
}

void cache_dirty(struct cache *cache, struct cache_shard *shard, struct cache_entry *entry)
{
    if (entry->life == LIFE_DIRTY) return;
    if (entry->life == LIFE_WRITTEN) {
        list_remove(&shard->written, entry);
    } else {
        shard->dirty_count++;
        shard->dirty_bytes += cache->entry_size(entry);
        if (shard->place) order_add(&shard->newer, shard->place(entry));
    }
    entry->life = LIFE_DIRTY;
    list_add(&shard->dirty, entry);
}

static void turn_clean(struct cache *cache, struct cache_shard *shard, struct cache_entry *entry)
{
    list_remove(&shard->written, entry);
    if (shard->place) order_remove(&shard->newer, shard->place(entry));
    entry->life = LIFE_CLEAN;
    shard->dirty_count--;
    shard->dirty_bytes -= cache->entry_size(entry);
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

/* False: none are left. */
static bool settle_some(struct cache *cache, struct cache_shard *shard, bool ok)
{
    pthread_mutex_lock(&shard->lock);
    for (unsigned n = 0; n < FLUSHED_STEP && shard->written.first; n++) {
        if (ok)
            turn_clean(cache, shard, shard->written.first);
        else
            cache_dirty(cache, shard, shard->written.first);
    }
    bool more = shard->written.first != NULL;
    pthread_mutex_unlock(&shard->lock);
    return more;
}

/* Settles in steps: an entry that turned dirty since the flush began has left this list, and only
 * the thread that flushes adds to it. */
void cache_flushed(struct cache *cache, bool ok)
{
    for (unsigned i = 0; i < CACHE_SHARDS; i++)
        while (settle_some(cache, &cache->shards[i], ok))
            continue;
    if (SLOW_CHECKS) cache_check(cache);
}

/* The lock is held. Visits up to `max` entries of a shard. True: there are more, after
 * `*last_out`. */
static bool newer_in_shard(struct cache_shard *shard, const struct cache_wanted *wanted, size_t max,
                           cache_visit_fn *visit, void *context, struct bytes *last_out)
{
    struct order *order = &shard->newer;
    struct order_node *node = bytes_compare(wanted->prefix, wanted->after) > 0
                                  ? order_from(order, wanted->prefix)
                                  : order_after(order, wanted->after);
    for (size_t count = 0; node && bytes_starts(order->key(node), wanted->prefix); count++) {
        if (count == max) return true;
        *last_out = order->key(node);
        visit(context, node);
        node = order_after(order, *last_out);
    }
    return false;
}

void cache_newer(struct cache *cache, const struct cache_wanted *wanted, cache_visit_fn *visit,
                 void *context, struct arena *arena, struct bytes *upto_out)
{
    size_t each = wanted->max / CACHE_SHARDS + 1;
    *upto_out = BYTES_NONE;
    for (unsigned i = 0; i < CACHE_SHARDS; i++) {
        struct cache_shard *shard = &cache->shards[i];
        struct bytes last = BYTES_NONE;
        pthread_mutex_lock(&shard->lock);
        bool more = newer_in_shard(shard, wanted, each, visit, context, &last);
        if (more && (!upto_out->data || bytes_compare(last, *upto_out) < 0))
            *upto_out = arena_copy(arena, last);
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
        stats_out->dirty_bytes += shard->dirty_bytes;
        stats_out->entries += shard->table.count;
        stats_out->dirty += shard->dirty_count;
        pthread_mutex_unlock(&shard->lock);
    }
}

bool cache_pressed(struct cache *cache)
{
    struct cache_stats stats;
    cache_stats(cache, &stats);
    return stats.dirty_bytes > cache->bytes_max / 2;
}
