/* cells.c -- one entry a cell, some hundred bytes each. */
#include "store/embedded/cells.h"

#include <stdlib.h>

#include "base/hash.h"
#include "base/heap.h"
#include "core/cell.h"

struct slot {
    struct cache_entry entry;
    uint64_t series;
    int64_t bucket;
    int64_t added; /* the durable value, see slot_visible */
    int64_t subbed;
    int64_t expires_ms;
    int64_t updated_ms;
    int64_t start_ms;
    bool exists;
    bool exact;
    const struct read_cell *staged; /* the newest value, while its batch is in flight */
};

struct cells {
    struct cache cache;
};

#define PUBLISH_AHEAD 8u
#define SLOT_OF(pointer) CONTAINER_OF(pointer, struct slot, entry)

static size_t slot_size(const struct cache_entry *entry)
{
    (void)entry;
    return heap_bytes(sizeof(struct slot)) + TABLE_SHARE;
}

static void slot_free(struct cache_entry *entry)
{
    free(SLOT_OF(entry));
}

struct cells *cells_new(size_t bytes_max)
{
    struct cells *cells = aligned_alloc(64, (sizeof *cells + 63) / 64 * 64);
    must(cells != NULL);
    cache_init(&cells->cache, bytes_max, slot_size, slot_free);
    return cells;
}

void cells_free(struct cells *cells)
{
    cache_release(&cells->cache);
    free(cells);
}

struct cache *cells_cache(struct cells *cells)
{
    return &cells->cache;
}

/* A series' cells share a shard, so that one lock shows all that is newer than the disk. A client
 * cannot choose a series, but it can choose buckets. */
static uint64_t slot_hash(uint64_t series, int64_t bucket)
{
    uint64_t shard = hash_mix(series) & 0xffff000000000000u;
    return shard | (hash_keyed_pair(&hash_own, series, (uint64_t)bucket) >> 16);
}

static struct cell slot_visible(const struct slot *slot)
{
    return (struct cell){.added = slot->added,
                         .subbed = slot->subbed,
                         .expires_ms = slot->expires_ms,
                         .start_ms = slot->start_ms,
                         .updated_ms = slot->updated_ms,
                         .exists = slot->exists,
                         .exact = slot->exact};
}

static void slot_show(struct slot *slot, const struct cell *cell)
{
    slot->added = cell->added;
    slot->subbed = cell->subbed;
    slot->expires_ms = cell->expires_ms;
    slot->updated_ms = cell->updated_ms;
    slot->start_ms = cell->start_ms;
    slot->exists = cell->exists;
    slot->exact = cell->exact;
}

static struct slot *slot_find(struct cache_shard *shard, uint64_t hash, uint64_t series,
                              int64_t bucket)
{
    TABLE_EACH_MATCH(&shard->table, hash, node)
    {
        struct slot *slot = SLOT_OF(CONTAINER_OF(node, struct cache_entry, node));
        if (slot->series == series && slot->bucket == bucket) return slot;
    }
    return NULL;
}

static struct slot *slot_make(struct cells *cells, struct cache_shard *shard, uint64_t hash,
                              uint64_t series, int64_t bucket)
{
    struct slot *slot = must_calloc(1, sizeof *slot);
    slot->entry.node.hash = hash;
    slot->series = series;
    slot->bucket = bucket;
    slot->expires_ms = slot->start_ms = TIME_NONE;
    cache_insert(&cells->cache, shard, &slot->entry);
    return slot;
}

static struct slot *slot_find_or_make(struct cells *cells, struct cache_shard *shard, uint64_t hash,
                                      uint64_t series, int64_t bucket)
{
    struct slot *slot = slot_find(shard, hash, series, bucket);
    return slot ? slot : slot_make(cells, shard, hash, series, bucket);
}

static void slot_load(struct cache_shard *shard, uint64_t hash, struct read_cell *read)
{
    struct slot *slot = slot_find(shard, hash, read->series, read->bucket);
    if (!slot) return;
    cache_pin(&slot->entry);
    read->value = slot->staged ? slot->staged->value : slot_visible(slot);
    read->handle = slot;
}

void cells_load(struct cells *cells, struct read_cell *reads, uint32_t count, struct arena *arena)
{
    struct cache_items items = cache_items_new(arena, count);
    for (uint32_t i = 0; i < count; i++)
        if (reads[i].series)
            cache_items_add(&items, slot_hash(reads[i].series, reads[i].bucket), i);
    cache_items_sort(&items, arena);
    for (unsigned s = 0; s < CACHE_SHARDS; s++) {
        if (items.starts[s] == items.starts[s + 1]) continue;
        struct cache_shard *shard = cache_items_lock(&cells->cache, &items, s);
        for (uint32_t i = items.starts[s]; i < items.starts[s + 1]; i++)
            slot_load(shard, items.items[i].hash, &reads[items.items[i].index]);
        cache_unlock(shard);
    }
}

void cells_insert(struct cells *cells, struct read_cell *read, const struct cell *from_disk)
{
    uint64_t hash = slot_hash(read->series, read->bucket);
    struct cache_shard *shard = cache_lock(&cells->cache, hash);
    /* A reader may have offered it meanwhile; only this thread changes cells, so it is equal. */
    struct slot *slot = slot_find(shard, hash, read->series, read->bucket);
    if (!slot) {
        slot = slot_make(cells, shard, hash, read->series, read->bucket);
        slot_show(slot, from_disk);
    }
    cache_pin(&slot->entry);
    read->value = slot_visible(slot);
    read->handle = slot;
    cache_unlock(shard);
}

static void slot_unpin(struct cells *cells, struct slot *slot)
{
    struct cache_shard *shard = cache_lock(&cells->cache, slot->entry.node.hash);
    cache_unpin(&slot->entry);
    cache_unlock(shard);
}

void cells_stage(struct cells *cells, struct read_cell *read)
{
    must(read->changed);
    must(read->series != 0);
    struct slot *slot = read->handle;
    if (slot && slot->series != read->series) {
        slot_unpin(cells, slot); /* it was loaded for a series that this batch unmapped */
        slot = NULL;
    }
    uint64_t hash = slot_hash(read->series, read->bucket);
    struct cache_shard *shard = cache_lock(&cells->cache, hash);
    if (!slot) {
        slot = slot_find_or_make(cells, shard, hash, read->series, read->bucket);
        cache_pin(&slot->entry);
        read->handle = slot;
    }
    slot->staged = read;
    cache_unlock(shard);
}

static void slot_publish(struct cache *cache, struct cache_shard *shard, struct read_cell *read)
{
    struct slot *slot = read->handle;
    if (read->changed && slot->series == read->series) {
        slot_show(slot, &read->value);
        if (slot->staged == read) slot->staged = NULL;
        cache_dirty(cache, shard, &slot->entry);
    }
    cache_unpin(&slot->entry);
}

/* The shard follows from the slot's own hash: a slot that was loaded for a series which its batch
 * unmapped is not where the read says. */
void cells_publish(struct cells *cells, struct read_cell *reads, uint32_t count,
                   struct arena *arena)
{
    struct cache_items items = cache_items_new(arena, count);
    for (uint32_t i = 0; i < count; i++) {
        if (i + PUBLISH_AHEAD < count) __builtin_prefetch(reads[i + PUBLISH_AHEAD].handle, 1);
        const struct slot *slot = reads[i].handle;
        if (slot) cache_items_add(&items, slot->entry.node.hash, i);
    }
    cache_items_sort(&items, arena);
    for (unsigned s = 0; s < CACHE_SHARDS; s++) {
        if (items.starts[s] == items.starts[s + 1]) continue;
        struct cache_shard *shard = cache_items_lock(&cells->cache, &items, s);
        for (uint32_t i = items.starts[s]; i < items.starts[s + 1]; i++)
            slot_publish(&cells->cache, shard, &reads[items.items[i].index]);
        cache_unlock(shard);
    }
}

void cells_drop(struct cells *cells, struct read_cell *read)
{
    struct slot *slot = read->handle;
    if (!slot) return;
    struct cache_shard *shard = cache_lock(&cells->cache, slot->entry.node.hash);
    if (slot->staged == read) slot->staged = NULL;
    cache_unpin(&slot->entry);
    cache_unlock(shard);
}

void cells_replay(struct cells *cells, uint64_t series, int64_t bucket, const struct cell *cell)
{
    uint64_t hash = slot_hash(series, bucket);
    struct cache_shard *shard = cache_lock(&cells->cache, hash);
    struct slot *slot = slot_find_or_make(cells, shard, hash, series, bucket);
    slot_show(slot, cell);
    cache_dirty(&cells->cache, shard, &slot->entry);
    cache_unlock(shard);
}

bool cells_get(struct cells *cells, uint64_t series, int64_t bucket, struct cell *cell_out,
               uint64_t *stamp_out)
{
    uint64_t hash = slot_hash(series, bucket);
    struct cache_shard *shard = cache_lock(&cells->cache, hash);
    struct slot *slot = slot_find(shard, hash, series, bucket);
    if (slot) {
        slot->entry.warm = true;
        *cell_out = slot_visible(slot);
    }
    *stamp_out = shard->evictions;
    cache_unlock(shard);
    return slot != NULL;
}

/* The cell was not in memory when the stamp was taken. If nothing was evicted from the shard since
 * and it still is not, then it never was in between: what the disk had is the truth. */
void cells_offer(struct cells *cells, uint64_t series, int64_t bucket, const struct cell *cell,
                 uint64_t stamp)
{
    uint64_t hash = slot_hash(series, bucket);
    struct cache_shard *shard = cache_lock(&cells->cache, hash);
    if (shard->evictions == stamp && !slot_find(shard, hash, series, bucket))
        slot_show(slot_make(cells, shard, hash, series, bucket), cell);
    cache_unlock(shard);
}

static int bucket_compare(const void *a, const void *b)
{
    int64_t left = ((const struct bucket_cell *)a)->bucket;
    int64_t right = ((const struct bucket_cell *)b)->bucket;
    return left < right ? -1 : left > right;
}

struct newer_cell_list {
    uint64_t series;
    int64_t from;
    int64_t to;
    struct bucket_cell *cells;
    size_t count;
    size_t capacity;
};

static void newer_add_list(struct newer_cell_list *newer, const struct cache_list *list)
{
    for (struct cache_entry *entry = list->first; entry; entry = entry->next) {
        const struct slot *slot = SLOT_OF(entry);
        if (slot->series != newer->series) continue;
        if (slot->bucket < newer->from || slot->bucket > newer->to) continue;
        if (newer->count == newer->capacity) {
            newer->capacity = newer->capacity ? newer->capacity * 2 : 16;
            newer->cells = must_realloc(newer->cells, newer->capacity * sizeof *newer->cells);
        }
        newer->cells[newer->count++] = (struct bucket_cell){slot->bucket, slot_visible(slot)};
    }
}

size_t cells_newer(struct cells *cells, uint64_t series, int64_t from, int64_t to,
                   struct bucket_cell **cells_out)
{
    struct newer_cell_list newer = {.series = series, .from = from, .to = to};
    struct cache_shard *shard = cache_lock(&cells->cache, slot_hash(series, 0));
    newer_add_list(&newer, &shard->dirty);
    newer_add_list(&newer, &shard->written);
    cache_unlock(shard);
    if (newer.count) qsort(newer.cells, newer.count, sizeof *newer.cells, bucket_compare);
    *cells_out = newer.cells;
    return newer.count;
}

void cells_value(const struct cache_entry *entry, uint64_t *series_out, int64_t *bucket_out,
                 struct cell *cell_out)
{
    const struct slot *slot = SLOT_OF(entry);
    *series_out = slot->series;
    *bucket_out = slot->bucket;
    *cell_out = slot_visible(slot);
}
