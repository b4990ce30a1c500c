/* cache.h -- the part of the state that is in memory: a sharded table of entries with lives.
 *
 * Counters, cells and tenants put a `struct cache_entry` first in their own structs. An entry is
 *
 *     clean     equal to the state on disk; may be evicted when no batch pins it
 *     dirty     newer than the state; waits for write-back
 *     written   given to the state, which has not flushed it yet: clean after the flush, dirty
 *               again if it changes or if the flush fails
 *
 * The commit thread pins what a batch loads and unpins it when the batch is answered, so pointers
 * to entries stay good for as long as a batch is in flight. What an entry shows to readers is
 * always durable; a staged value hangs beside it until its batch is published.
 *
 * Everything about an entry is read and written under its shard's lock, held for a few lines.
 *
 * (1) An entry is in the shard of its hash.
 * (2) It is in the list of its life: in `dirty`, in `written` or, if clean, in none. Those in one
 *     of the two are in the order of keys too, if the cache keeps one.
 * (3) A shard's figures are the sums over its entries. */
#ifndef TALLY_STORE_EMBEDDED_CACHE_H
#define TALLY_STORE_EMBEDDED_CACHE_H

#include <pthread.h>
#include <stdbool.h>

#include "base/arena.h"
#include "base/table.h"
#include "store/embedded/order.h"

#ifdef TALLY_SMALL_WORLD
#define CACHE_SHARDS 2u
#else
#define CACHE_SHARDS 64u
#endif

enum cache_life { LIFE_CLEAN, LIFE_DIRTY, LIFE_WRITTEN };

struct cache_entry {
    struct table_node node;
    struct cache_entry *previous; /* while dirty or written */
    struct cache_entry *next;
    uint32_t pins;
    uint8_t life;
    bool warm; /* used since the clock hand last passed */
};

struct cache_list {
    struct cache_entry *first;
    struct cache_entry *last;
};

struct cache_shard {
    _Alignas(64) pthread_mutex_t lock;
    struct table table;
    struct cache_list dirty; /* oldest first */
    struct cache_list written;
    struct order newer; /* dirty and written, by key, if the cache keeps that order */
    struct order_node *(*place)(
        struct cache_entry *entry); /* an entry's in it; NULL: it does not */
    size_t bytes;
    size_t dirty_bytes; /* the part of these in dirty and written entries */
    size_t hand;        /* where eviction goes on */
    unsigned vain;      /* how often in a row it found nothing that can go */
    size_t dirty_count;
    uint64_t evictions;
};

struct cache {
    size_t bytes_max;
    size_t (*entry_size)(const struct cache_entry *entry); /* all that it takes on the heap */
    void (*entry_free)(struct cache_entry *entry);
    struct cache_shard shards[CACHE_SHARDS];
};

void cache_init(struct cache *cache, size_t bytes_max,
                size_t (*entry_size)(const struct cache_entry *),
                void (*entry_free)(struct cache_entry *));
void cache_release(struct cache *cache);
/* To be called before the first entry. Entries that are newer than the state are then kept in the
 * order of their keys as well, so that listing a few of them does not cost a look at them all. */
void cache_keep_order(struct cache *cache, struct order_node *(*place)(struct cache_entry *),
                      order_key_fn *key);

static inline unsigned cache_shard_number(uint64_t hash)
{
    return (hash >> 48) % CACHE_SHARDS;
}
static inline struct cache_shard *cache_shard_of(struct cache *cache, uint64_t hash)
{
    return &cache->shards[cache_shard_number(hash)];
}
struct cache_shard *cache_lock(struct cache *cache, uint64_t hash);
void cache_unlock(struct cache_shard *shard);

/* All of these are called with the shard locked. Insert may evict clean, unpinned entries to make
 * room; a cache full of dirty ones grows past its bound until write-back catches up
 * (cache_pressed). */
void cache_insert(struct cache *cache, struct cache_shard *shard, struct cache_entry *entry);
void cache_remove(struct cache *cache, struct cache_shard *shard, struct cache_entry *entry);
void cache_dirty(struct cache *cache, struct cache_shard *shard, struct cache_entry *entry);
/* The entry took `before` bytes and takes another number now. It is pinned or dirty, so making room
 * cannot take it away. */
void cache_resized(struct cache *cache, struct cache_shard *shard, const struct cache_entry *entry,
                   size_t before);
static inline void cache_pin(struct cache_entry *entry)
{
    entry->pins++;
    entry->warm = true;
}
static inline void cache_unpin(struct cache_entry *entry)
{
    must(entry->pins > 0);
    entry->pins--;
}

/* For many entries at once: they are dealt out by shard, so that each lock is taken once, and
 * prefetched before they are looked at. A batch of 5000 cells spends half of its time on locks and
 * misses otherwise.
 *
 * Example:
 *
 *     static void unpin_all(struct cache *cache, struct cache_entry **entries, uint32_t count,
 *                           struct arena *arena)
 *     {
 *         struct cache_items items = cache_items_new(arena, count);
 *         for (uint32_t i = 0; i < count; i++)
 *             cache_items_add(&items, entries[i]->node.hash, i);
 *         cache_items_sort(&items, arena);
 *         for (unsigned s = 0; s < CACHE_SHARDS; s++) {
 *             struct cache_shard *shard = cache_items_lock(cache, &items, s);
 *             for (uint32_t i = items.starts[s]; i < items.starts[s + 1]; i++)
 *                 cache_unpin(entries[items.items[i].index]);
 *             cache_unlock(shard);
 *         }
 *     }
 */
struct cache_item {
    uint64_t hash;
    uint32_t index; /* the caller's */
};
struct cache_items {
    struct cache_item *items;
    uint32_t count;
    uint32_t starts[CACHE_SHARDS + 1];
};
struct cache_items cache_items_new(struct arena *arena, uint32_t count_max);
static inline void cache_items_add(struct cache_items *items, uint64_t hash, uint32_t index)
{
    items->items[items->count++] = (struct cache_item){hash, index};
}
void cache_items_sort(struct cache_items *items, struct arena *arena);
struct cache_shard *cache_items_lock(struct cache *cache, const struct cache_items *items,
                                     unsigned number);

/* Moves up to `max` dirty entries of shard `index` to written and returns how many. `copy` is
 * called with the lock held and gives each one's value to the state. */
typedef void cache_copy_fn(void *context, struct cache_entry *entry);
size_t cache_write_back(struct cache *cache, unsigned index, size_t max, cache_copy_fn *copy,
                        void *context);

/* Calls `visit` for entries that are newer than the state, whose key begins with `prefix` and comes
 * after `after`: about `max` of them, in no order. All those up to `*upto_out`, in `arena`, were
 * visited, and some after it; BYTES_NONE: there are no more. The cache keeps an order. */
typedef void cache_visit_fn(void *context, const struct order_node *node);
struct cache_wanted {
    struct bytes prefix;
    struct bytes after;
    size_t max;
};
void cache_newer(struct cache *cache, const struct cache_wanted *wanted, cache_visit_fn *visit,
                 void *context, struct arena *arena, struct bytes *upto_out);

/* The state was flushed (`ok`): what was written is clean. Not `ok`: it is dirty as before. */
void cache_flushed(struct cache *cache, bool ok);

/* More than half of the room is dirty: time to write back now. */
bool cache_pressed(struct cache *cache);

/* These walk through all of it, for slow builds: the laws above, and how many times entries are
 * pinned. */
void cache_check(struct cache *cache);
size_t cache_pinned(struct cache *cache);

struct cache_stats {
    size_t bytes;
    size_t dirty_bytes;
    size_t entries;
    size_t dirty;
};
void cache_stats(struct cache *cache, struct cache_stats *stats_out);

#endif
