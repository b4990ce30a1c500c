/* counters.c -- one entry a counter: its key and an immutable list of series. */
#include "store/embedded/counters.h"

#include <stdlib.h>

#include "base/heap.h"
#include "core/counter.h"

struct named {
    struct cache_entry entry;
    struct order_node place; /* among the newer ones */
    struct fingerprint print;
    struct counter *visible;           /* durable; NULL: known not to be there */
    const struct read_counter *staged; /* the newest, while its batch is in flight */
    uint32_t key_size;
    char key[];
};

struct counters {
    struct cache cache;
};

#define NAMED_OF(pointer) CONTAINER_OF(pointer, struct named, entry)

static size_t named_size(const struct cache_entry *entry)
{
    const struct named *named = NAMED_OF(entry);
    size_t visible = named->visible ? heap_bytes(counter_size(named->visible->count)) : 0;
    return heap_bytes(sizeof *named + named->key_size) + visible + TABLE_SHARE;
}

static void named_free(struct cache_entry *entry)
{
    free(NAMED_OF(entry)->visible);
    free(NAMED_OF(entry));
}

static struct order_node *named_place(struct cache_entry *entry)
{
    return &NAMED_OF(entry)->place;
}

static struct bytes named_key(const struct order_node *node)
{
    const struct named *named = CONTAINER_OF(node, struct named, place);
    return bytes_of(named->key, named->key_size);
}

struct counters *counters_new(size_t bytes_max)
{
    struct counters *counters = aligned_alloc(64, (sizeof *counters + 63) / 64 * 64);
    must(counters != NULL);
    cache_init(&counters->cache, bytes_max, named_size, named_free);
    cache_keep_order(&counters->cache, named_place, named_key);
    return counters;
}

void counters_free(struct counters *counters)
{
    cache_release(&counters->cache);
    free(counters);
}

struct cache *counters_cache(struct counters *counters)
{
    return &counters->cache;
}

static struct counter *clone_of(const struct counter *counter)
{
    if (!counter) return NULL;
    struct counter *clone = must_alloc(counter_size(counter->count));
    memcpy(clone, counter, counter_size(counter->count));
    return clone;
}

/* The entry is pinned or dirty. */
static void named_show(struct counters *counters, struct cache_shard *shard, struct named *named,
                       const struct counter *counter)
{
    size_t before = named_size(&named->entry);
    free(named->visible);
    named->visible = clone_of(counter);
    cache_resized(&counters->cache, shard, &named->entry, before);
}

static struct named *named_find(struct cache_shard *shard, struct fingerprint print)
{
    TABLE_EACH_MATCH(&shard->table, print.low, node)
    {
        struct named *named = NAMED_OF(CONTAINER_OF(node, struct cache_entry, node));
        if (fingerprint_equal(named->print, print)) return named;
    }
    return NULL;
}

static struct named *named_make(struct counters *counters, struct cache_shard *shard,
                                struct fingerprint print, struct bytes key,
                                const struct counter *counter)
{
    struct named *named = must_calloc(1, sizeof *named + key.size);
    named->entry.node.hash = print.low;
    named->place.priority = print.high;
    named->print = print;
    named->key_size = (uint32_t)key.size;
    memcpy(named->key, key.data, key.size);
    named->visible = clone_of(counter);
    cache_insert(&counters->cache, shard, &named->entry);
    return named;
}

static const struct counter *copy_of(const struct counter *counter, struct arena *arena)
{
    return counter ? counter_copy(arena, counter) : NULL;
}

static void named_load(struct cache_shard *shard, struct read_counter *read, struct arena *arena)
{
    struct named *named = named_find(shard, read->print);
    if (!named) return;
    cache_pin(&named->entry);
    read->value = copy_of(named->staged ? named->staged->value : named->visible, arena);
    read->handle = named;
}

static struct cache_items items_of(const struct read_counter *reads, uint32_t count,
                                   struct arena *arena)
{
    struct cache_items items = cache_items_new(arena, count);
    for (uint32_t i = 0; i < count; i++)
        cache_items_add(&items, reads[i].print.low, i);
    cache_items_sort(&items, arena);
    return items;
}

void counters_load(struct counters *counters, struct read_counter *reads, uint32_t count,
                   struct arena *arena)
{
    struct cache_items items = items_of(reads, count, arena);
    for (unsigned s = 0; s < CACHE_SHARDS; s++) {
        if (items.starts[s] == items.starts[s + 1]) continue;
        struct cache_shard *shard = cache_items_lock(&counters->cache, &items, s);
        for (uint32_t i = items.starts[s]; i < items.starts[s + 1]; i++)
            named_load(shard, &reads[items.items[i].index], arena);
        cache_unlock(shard);
    }
}

void counters_insert(struct counters *counters, struct read_counter *read,
                     const struct counter *from_disk, struct arena *arena)
{
    struct cache_shard *shard = cache_lock(&counters->cache, read->print.low);
    struct named *named = named_find(shard, read->print);
    if (!named) named = named_make(counters, shard, read->print, read->key, from_disk);
    cache_pin(&named->entry);
    read->value = copy_of(named->visible, arena);
    read->handle = named;
    cache_unlock(shard);
}

void counters_stage(struct counters *counters, struct read_counter *read)
{
    must(read->changed);
    struct named *named = read->handle;
    must(named != NULL);
    struct cache_shard *shard = cache_lock(&counters->cache, read->print.low);
    named->staged = read;
    cache_unlock(shard);
}

static void named_publish(struct counters *counters, struct cache_shard *shard,
                          struct read_counter *read)
{
    struct named *named = read->handle;
    if (read->changed) {
        named_show(counters, shard, named, read->value);
        if (named->staged == read) named->staged = NULL;
        cache_dirty(&counters->cache, shard, &named->entry);
    }
    cache_unpin(&named->entry);
}

void counters_publish(struct counters *counters, struct read_counter *reads, uint32_t count,
                      struct arena *arena)
{
    struct cache_items items = items_of(reads, count, arena);
    for (unsigned s = 0; s < CACHE_SHARDS; s++) {
        if (items.starts[s] == items.starts[s + 1]) continue;
        struct cache_shard *shard = cache_items_lock(&counters->cache, &items, s);
        for (uint32_t i = items.starts[s]; i < items.starts[s + 1]; i++)
            named_publish(counters, shard, &reads[items.items[i].index]);
        cache_unlock(shard);
    }
}

void counters_drop(struct counters *counters, struct read_counter *read)
{
    struct named *named = read->handle;
    if (!named) return;
    struct cache_shard *shard = cache_lock(&counters->cache, read->print.low);
    if (named->staged == read) named->staged = NULL;
    cache_unpin(&named->entry);
    cache_unlock(shard);
}

void counters_replay(struct counters *counters, struct fingerprint print, struct bytes key,
                     const struct counter *counter)
{
    struct cache_shard *shard = cache_lock(&counters->cache, print.low);
    struct named *named = named_find(shard, print);
    if (!named) named = named_make(counters, shard, print, key, NULL);
    cache_dirty(&counters->cache, shard, &named->entry);
    named_show(counters, shard, named, counter);
    cache_unlock(shard);
}

bool counters_get(struct counters *counters, struct fingerprint print, int32_t duration,
                  struct series *series_out, uint64_t *stamp_out)
{
    struct cache_shard *shard = cache_lock(&counters->cache, print.low);
    struct named *named = named_find(shard, print);
    if (named) {
        const struct series *series = counter_find(named->visible, duration);
        *series_out = series ? *series : (struct series){0};
        named->entry.warm = true;
    }
    *stamp_out = shard->evictions;
    cache_unlock(shard);
    return named != NULL;
}

bool counters_copy(struct counters *counters, struct fingerprint print, struct arena *arena,
                   const struct counter **counter_out)
{
    struct cache_shard *shard = cache_lock(&counters->cache, print.low);
    struct named *named = named_find(shard, print);
    *counter_out = named ? counter_copy(arena, named->visible) : NULL;
    cache_unlock(shard);
    return named != NULL;
}

void counters_offer(struct counters *counters, struct fingerprint print, struct bytes key,
                    const struct counter *counter, uint64_t stamp)
{
    struct cache_shard *shard = cache_lock(&counters->cache, print.low);
    if (shard->evictions == stamp && !named_find(shard, print))
        named_make(counters, shard, print, key, counter);
    cache_unlock(shard);
}

static int keyed_compare(const void *a, const void *b)
{
    return bytes_compare(((const struct keyed_counter *)a)->key,
                         ((const struct keyed_counter *)b)->key);
}

struct newer_counter_list {
    struct arena *arena;
    struct keyed_counter *counters;
    size_t count;
    size_t capacity;
};

static void newer_add(void *context, const struct order_node *node)
{
    struct newer_counter_list *newer = context;
    const struct named *named = CONTAINER_OF(node, struct named, place);
    if (newer->count == newer->capacity) {
        size_t size = newer->capacity ? newer->capacity * 2 : 16;
        struct keyed_counter *more = arena_alloc(newer->arena, size * sizeof *more);
        if (newer->count) memcpy(more, newer->counters, newer->count * sizeof *more);
        newer->counters = more;
        newer->capacity = size;
    }
    newer->counters[newer->count++] = (struct keyed_counter){
        arena_copy(newer->arena, named_key(node)), copy_of(named->visible, newer->arena)};
}

size_t counters_newer(struct counters *counters, const struct cache_wanted *wanted,
                      struct arena *arena, struct keyed_counter **counters_out,
                      struct bytes *upto_out)
{
    struct newer_counter_list newer = {.arena = arena};
    cache_newer(&counters->cache, wanted, newer_add, &newer, arena, upto_out);
    if (newer.count) qsort(newer.counters, newer.count, sizeof *newer.counters, keyed_compare);
    while (upto_out->data && bytes_compare(newer.counters[newer.count - 1].key, *upto_out) > 0)
        newer.count--;
    *counters_out = newer.counters;
    return newer.count;
}

struct keyed_counter counters_value(const struct cache_entry *entry)
{
    const struct named *named = NAMED_OF(entry);
    return (struct keyed_counter){bytes_of(named->key, named->key_size), named->visible};
}
