/* objects.c -- one entry an object: its key and its durable value. */
#include "store/embedded/objects.h"

#include <stdlib.h>

#include "base/heap.h"

struct thing {
    struct cache_entry entry;
    struct order_node place; /* among the newer ones */
    struct fingerprint print;
    char *visible; /* durable; NULL: known not to be there */
    size_t visible_size;
    const struct read_object *staged; /* the newest, while its batch is in flight */
    uint32_t key_size;
    char key[];
};

struct objects {
    struct cache cache;
};

#define THING_OF(pointer) CONTAINER_OF(pointer, struct thing, entry)

static size_t thing_size(const struct cache_entry *entry)
{
    const struct thing *thing = THING_OF(entry);
    size_t visible = thing->visible ? heap_bytes(thing->visible_size) : 0;
    return heap_bytes(sizeof *thing + thing->key_size) + visible + TABLE_SHARE;
}

static void thing_free(struct cache_entry *entry)
{
    free(THING_OF(entry)->visible);
    free(THING_OF(entry));
}

static struct order_node *thing_place(struct cache_entry *entry)
{
    return &THING_OF(entry)->place;
}

static struct bytes thing_key(const struct order_node *node)
{
    const struct thing *thing = CONTAINER_OF(node, struct thing, place);
    return bytes_of(thing->key, thing->key_size);
}

struct objects *objects_new(size_t bytes_max)
{
    struct objects *objects = aligned_alloc(64, (sizeof *objects + 63) / 64 * 64);
    must(objects != NULL);
    cache_init(&objects->cache, bytes_max, thing_size, thing_free);
    cache_keep_order(&objects->cache, thing_place, thing_key);
    return objects;
}

void objects_free(struct objects *objects)
{
    cache_release(&objects->cache);
    free(objects);
}

struct cache *objects_cache(struct objects *objects)
{
    return &objects->cache;
}

static struct bytes thing_value(const struct thing *thing)
{
    return bytes_of(thing->visible, thing->visible_size);
}

static void thing_set(struct thing *thing, struct bytes value)
{
    free(thing->visible);
    thing->visible = NULL;
    thing->visible_size = value.size;
    if (value.size == 0) return;
    thing->visible = must_alloc(value.size);
    memcpy(thing->visible, value.data, value.size);
}

/* The entry is pinned or dirty. */
static void thing_show(struct objects *objects, struct cache_shard *shard, struct thing *thing,
                       struct bytes value)
{
    size_t before = thing_size(&thing->entry);
    thing_set(thing, value);
    cache_resized(&objects->cache, shard, &thing->entry, before);
}

static struct thing *thing_find(struct cache_shard *shard, struct fingerprint print)
{
    TABLE_EACH_MATCH(&shard->table, print.low, node)
    {
        struct thing *thing = THING_OF(CONTAINER_OF(node, struct cache_entry, node));
        if (fingerprint_equal(thing->print, print)) return thing;
    }
    return NULL;
}

static struct thing *thing_make(struct objects *objects, struct cache_shard *shard,
                                struct fingerprint print, struct bytes key, struct bytes value)
{
    struct thing *thing = must_calloc(1, sizeof *thing + key.size);
    thing->entry.node.hash = print.low;
    thing->place.priority = print.high;
    thing->print = print;
    thing->key_size = (uint32_t)key.size;
    memcpy(thing->key, key.data, key.size);
    thing_set(thing, value);
    cache_insert(&objects->cache, shard, &thing->entry);
    return thing;
}

bool objects_load(struct objects *objects, struct read_object *read, struct arena *arena)
{
    struct cache_shard *shard = cache_lock(&objects->cache, read->print.low);
    struct thing *thing = thing_find(shard, read->print);
    if (thing) {
        cache_pin(&thing->entry);
        read->value = arena_copy(arena, thing->staged ? thing->staged->value : thing_value(thing));
        read->handle = thing;
    }
    cache_unlock(shard);
    return thing != NULL;
}

void objects_insert(struct objects *objects, struct read_object *read, struct bytes from_disk,
                    struct arena *arena)
{
    struct cache_shard *shard = cache_lock(&objects->cache, read->print.low);
    struct thing *thing = thing_find(shard, read->print);
    if (!thing) thing = thing_make(objects, shard, read->print, read->key, from_disk);
    cache_pin(&thing->entry);
    read->value = arena_copy(arena, thing_value(thing));
    read->handle = thing;
    cache_unlock(shard);
}

void objects_stage(struct objects *objects, struct read_object *read)
{
    must(read->changed);
    struct thing *thing = read->handle;
    must(thing != NULL);
    struct cache_shard *shard = cache_lock(&objects->cache, read->print.low);
    thing->staged = read;
    cache_unlock(shard);
}

void objects_publish(struct objects *objects, struct read_object *read)
{
    struct thing *thing = read->handle;
    struct cache_shard *shard = cache_lock(&objects->cache, read->print.low);
    if (read->changed) {
        thing_show(objects, shard, thing, read->value);
        if (thing->staged == read) thing->staged = NULL;
        cache_dirty(&objects->cache, shard, &thing->entry);
    }
    cache_unpin(&thing->entry);
    cache_unlock(shard);
}

void objects_drop(struct objects *objects, struct read_object *read)
{
    struct thing *thing = read->handle;
    if (!thing) return;
    struct cache_shard *shard = cache_lock(&objects->cache, read->print.low);
    if (thing->staged == read) thing->staged = NULL;
    cache_unpin(&thing->entry);
    cache_unlock(shard);
}

void objects_replay(struct objects *objects, struct fingerprint print, struct bytes key,
                    struct bytes value)
{
    struct cache_shard *shard = cache_lock(&objects->cache, print.low);
    struct thing *thing = thing_find(shard, print);
    if (!thing) thing = thing_make(objects, shard, print, key, BYTES_NONE);
    cache_dirty(&objects->cache, shard, &thing->entry);
    thing_show(objects, shard, thing, value);
    cache_unlock(shard);
}

bool objects_get(struct objects *objects, struct fingerprint print, struct buf *value_out,
                 uint64_t *stamp_out)
{
    struct cache_shard *shard = cache_lock(&objects->cache, print.low);
    struct thing *thing = thing_find(shard, print);
    if (thing) {
        buf_add(value_out, thing_value(thing));
        thing->entry.warm = true;
    }
    *stamp_out = shard->evictions;
    cache_unlock(shard);
    return thing != NULL;
}

void objects_offer(struct objects *objects, struct fingerprint print, struct bytes key,
                   struct bytes value, uint64_t stamp)
{
    struct cache_shard *shard = cache_lock(&objects->cache, print.low);
    if (shard->evictions == stamp && !thing_find(shard, print))
        thing_make(objects, shard, print, key, value);
    cache_unlock(shard);
}

static int keyed_compare(const void *a, const void *b)
{
    return bytes_compare(((const struct keyed_object *)a)->key,
                         ((const struct keyed_object *)b)->key);
}

struct newer_object_list {
    struct arena *arena;
    struct keyed_object *objects;
    size_t count;
    size_t capacity;
};

static void newer_add(void *context, const struct order_node *node)
{
    struct newer_object_list *newer = context;
    const struct thing *thing = CONTAINER_OF(node, struct thing, place);
    if (newer->count == newer->capacity) {
        size_t size = newer->capacity ? newer->capacity * 2 : 16;
        struct keyed_object *more = arena_alloc(newer->arena, size * sizeof *more);
        if (newer->count) memcpy(more, newer->objects, newer->count * sizeof *more);
        newer->objects = more;
        newer->capacity = size;
    }
    newer->objects[newer->count++] = (struct keyed_object){
        arena_copy(newer->arena, thing_key(node)), arena_copy(newer->arena, thing_value(thing))};
}

size_t objects_newer(struct objects *objects, const struct cache_wanted *wanted,
                     struct arena *arena, struct keyed_object **objects_out, struct bytes *upto_out)
{
    struct newer_object_list newer = {.arena = arena};
    cache_newer(&objects->cache, wanted, newer_add, &newer, arena, upto_out);
    if (newer.count) qsort(newer.objects, newer.count, sizeof *newer.objects, keyed_compare);
    while (upto_out->data && bytes_compare(newer.objects[newer.count - 1].key, *upto_out) > 0)
        newer.count--;
    *objects_out = newer.objects;
    return newer.count;
}

struct keyed_object objects_value(const struct cache_entry *entry)
{
    const struct thing *thing = THING_OF(entry);
    return (struct keyed_object){bytes_of(thing->key, thing->key_size), thing_value(thing)};
}
