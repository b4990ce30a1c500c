/* test_cache.c -- an entry's lives, and that only what nobody needs is evicted. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "store/embedded/cache.h"

struct item {
    struct cache_entry entry;
    unsigned number;
};

#define ITEM_OF(pointer) CONTAINER_OF(pointer, struct item, entry)
#define ITEM_SIZE 100u
#define ROOM 10u /* entries in a shard */

static struct cache cache;
static unsigned freed;

static size_t item_size(const struct cache_entry *entry)
{
    (void)entry;
    return ITEM_SIZE;
}

static void item_free(struct cache_entry *entry)
{
    freed++;
    free(ITEM_OF(entry));
}

static int setup(void **state)
{
    cache_init(&cache, CACHE_SHARDS * ROOM * ITEM_SIZE, item_size, item_free);
    freed = 0;
    return 0;
}

static int teardown(void **state)
{
    cache_release(&cache);
    return 0;
}

/* All of them in the first shard: the shard is chosen by the hash's upper bits. */
static struct item *add(unsigned number)
{
    struct item *item = calloc(1, sizeof *item);
    must(item != NULL);
    item->number = number;
    item->entry.node.hash = number;
    struct cache_shard *shard = cache_lock(&cache, number);
    cache_insert(&cache, shard, &item->entry);
    cache_unlock(shard);
    return item;
}

static void dirty(struct item *item)
{
    struct cache_shard *shard = cache_lock(&cache, item->entry.node.hash);
    cache_dirty(&cache, shard, &item->entry);
    cache_unlock(shard);
}

static struct item *find(unsigned number)
{
    struct cache_shard *shard = cache_shard_of(&cache, number);
    TABLE_EACH_MATCH(&shard->table, number, node)
    return ITEM_OF(CONTAINER_OF(node, struct cache_entry, node));
    return NULL;
}

static unsigned written[5 * ROOM + ROOM * CACHE_SHARDS];
static unsigned written_count;

static void note_written(void *context, struct cache_entry *entry)
{
    (void)context;
    assert_int_equal(entry->life, LIFE_WRITTEN);
    written[written_count++] = ITEM_OF(entry)->number;
}

static size_t write_back(size_t max)
{
    written_count = 0;
    return cache_write_back(&cache, 0, max, note_written, NULL);
}

static size_t dirty_count(void)
{
    struct cache_stats stats;
    cache_stats(&cache, &stats);
    return stats.dirty;
}

/* ---- lives ---- */

static void dirty_entries_are_written_oldest_first_each_once(void **state)
{
    struct item *items[5];
    for (unsigned i = 0; i < 5; i++)
        items[i] = add(i);
    static const unsigned order[] = {3, 0, 4, 3, 0};
    for (unsigned i = 0; i < 5; i++)
        dirty(items[order[i]]);
    assert_int_equal(dirty_count(), 3);
    assert_int_equal(write_back(2), 2);
    assert_int_equal(written[0], 3);
    assert_int_equal(written[1], 0);
    assert_int_equal(write_back(2), 1);
    assert_int_equal(written[0], 4);
    assert_int_equal(write_back(2), 0);
}

static void a_written_entry_is_clean_only_after_the_flush(void **state)
{
    struct item *item = add(1);
    dirty(item);
    write_back(10);
    assert_int_equal(item->entry.life, LIFE_WRITTEN);
    assert_int_equal(dirty_count(), 1); /* until then it must not be forgotten */
    cache_flushed(&cache, true);
    assert_int_equal(item->entry.life, LIFE_CLEAN);
    assert_int_equal(dirty_count(), 0);
    assert_int_equal(write_back(10), 0);
}

static void after_a_failed_flush_it_is_dirty_again(void **state)
{
    struct item *items[] = {add(1), add(2), add(3)};
    for (unsigned i = 0; i < 3; i++)
        dirty(items[i]);
    write_back(2);
    cache_flushed(&cache, false);
    assert_int_equal(items[0]->entry.life, LIFE_DIRTY);
    assert_int_equal(dirty_count(), 3);
    assert_int_equal(write_back(10), 3);
    cache_flushed(&cache, true);
    assert_int_equal(dirty_count(), 0);
}

static void what_changed_since_it_was_written_stays_dirty_after_the_flush(void **state)
{
    struct item *changed = add(1);
    struct item *other = add(2);
    dirty(changed);
    dirty(other);
    write_back(10);
    dirty(changed);
    cache_flushed(&cache, true);
    assert_int_equal(changed->entry.life, LIFE_DIRTY);
    assert_int_equal(other->entry.life, LIFE_CLEAN);
    assert_int_equal(dirty_count(), 1);
    assert_int_equal(write_back(10), 1);
    assert_int_equal(written[0], 1);
}

/* ---- eviction ---- */

static void a_cache_of_clean_entries_stays_within_its_bound(void **state)
{
    for (unsigned i = 0; i < 100; i++) {
        add(i);
        struct cache_stats stats;
        cache_stats(&cache, &stats);
        assert_true(stats.bytes <= (ROOM + 1) * ITEM_SIZE);
        assert_int_equal(stats.bytes, stats.entries * ITEM_SIZE);
        assert_int_equal(stats.entries + freed, i + 1);
        assert_non_null(find(i)); /* the new one is in */
    }
}

static void pinned_dirty_and_written_entries_are_never_evicted(void **state)
{
    struct item *pinned = add(1);
    struct item *changed = add(2);
    struct item *waiting = add(3);
    cache_pin(&pinned->entry);
    dirty(waiting);
    write_back(10);
    dirty(changed);
    for (unsigned i = 10; i < 200; i++)
        add(i);
    assert_ptr_equal(find(1), pinned);
    assert_ptr_equal(find(2), changed);
    assert_ptr_equal(find(3), waiting);
    cache_unpin(&pinned->entry);
    cache_flushed(&cache, true);
    write_back(10);
    cache_flushed(&cache, true);
    for (unsigned i = 200; i < 400; i++)
        add(i);
    assert_null(find(1));
    assert_null(find(2));
    assert_null(find(3));
}

static void a_cache_full_of_dirty_entries_grows(void **state)
{
    for (unsigned i = 0; i < 5 * ROOM; i++)
        dirty(add(i));
    assert_int_equal(freed, 0);
    assert_int_equal(dirty_count(), 5 * ROOM);
    assert_true(write_back(100) == 5 * ROOM);
    cache_flushed(&cache, true);
    for (unsigned i = 100; i < 110; i++)
        add(i);
    struct cache_stats stats;
    cache_stats(&cache, &stats);
    assert_true(stats.entries <= 2 * ROOM); /* and shrinks when they are clean */
}

static size_t buckets_looked_at(unsigned number)
{
    const struct cache_shard *shard = cache_shard_of(&cache, 0);
    size_t before = shard->hand;
    dirty(add(number));
    return (shard->hand - before) & shard->table.mask;
}

/* A counter that gets a million new cells has all of them in one shard, each one dirty. */
static void a_shard_where_all_is_dirty_is_not_searched_for_each_new_entry(void **state)
{
    unsigned number = 0;
    while (number < 100 * ROOM)
        dirty(add(number++));
    for (unsigned i = 0; i < 50; i++)
        assert_int_equal(buckets_looked_at(number++), 1);
    while (write_back(1))
        continue;
    cache_flushed(&cache, true);
    while (freed == 0)
        add(number++);
    assert_true(number <= 150 * ROOM); /* what can go is found soon */
    for (unsigned i = 0; i < 2 * ROOM; i++)
        add(number++);
    assert_true(freed > 20 * ROOM); /* and then many at once */
}

static void an_entry_in_use_gets_a_second_chance(void **state)
{
    struct item *warm = add(1);
    for (unsigned i = 10; i < 100; i++) {
        warm->entry.warm = true; /* read again and again */
        add(i);
        assert_ptr_equal(find(1), warm);
    }
    for (unsigned i = 100; i < 200; i++)
        add(i);
    assert_null(find(1)); /* and not for ever */
}

static void a_shard_counts_its_evictions(void **state)
{
    struct cache_shard *shard = cache_shard_of(&cache, 0);
    for (unsigned i = 0; i < 50; i++)
        add(i);
    assert_int_equal(shard->evictions, freed);
    assert_true(freed > 0);
}

static void a_cache_is_pressed_when_more_than_half_of_its_room_is_dirty(void **state)
{
    unsigned room = ROOM * CACHE_SHARDS;
    assert_false(cache_pressed(&cache));
    for (unsigned i = 0; i < room / 2; i++)
        dirty(add(i));
    assert_false(cache_pressed(&cache));
    dirty(add(room));
    assert_true(cache_pressed(&cache));
    for (size_t count = 1; count > 0;)
        count = cache_write_back(&cache, 0, 50, note_written, NULL), written_count = 0;
    assert_true(cache_pressed(&cache)); /* written is not flushed */
    cache_flushed(&cache, true);
    assert_false(cache_pressed(&cache));
}

#define LIFE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIFE(dirty_entries_are_written_oldest_first_each_once),
        LIFE(a_written_entry_is_clean_only_after_the_flush),
        LIFE(after_a_failed_flush_it_is_dirty_again),
        LIFE(what_changed_since_it_was_written_stays_dirty_after_the_flush),
        LIFE(a_cache_of_clean_entries_stays_within_its_bound),
        LIFE(pinned_dirty_and_written_entries_are_never_evicted),
        LIFE(a_cache_full_of_dirty_entries_grows),
        LIFE(a_shard_where_all_is_dirty_is_not_searched_for_each_new_entry),
        LIFE(an_entry_in_use_gets_a_second_chance),
        LIFE(a_shard_counts_its_evictions),
        LIFE(a_cache_is_pressed_when_more_than_half_of_its_room_is_dirty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
