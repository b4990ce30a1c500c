/* test_store_laws.c -- the laws that the embedded store's parts keep together (internal.h and
 * cache.h), broken on purpose. ARCHITECTURE, laws 1, 4, 5 and 6 stand on them. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "store/embedded/internal.h"
#include "store/embedded/journal/internal.h"
#include "support/heart.h"
#include "support/panic.h"

static struct heart *heart;
static struct embedded *embedded;

static int setup(void **state)
{
    heart = heart_new((struct heart_config){.store = "embedded", .simulated_disk = true});
    embedded = embedded_of(heart->store);
    heart_do(heart, ask(&heart->asks, OP_INCREMENT, "n", 1));
    heart_checkpoint(heart);
    heart_do(heart, ask(&heart->asks, OP_INCREMENT, "n", 1));
    return 0;
}

static int teardown(void **state)
{
    heart_free(heart);
    return 0;
}

static void count_one(void)
{
    heart_do(heart, ask(&heart->asks, OP_INCREMENT, "n", 1));
}

static void tend(void)
{
    heart_tend(heart);
}

/* ---- a turn ---- */

static void show_what_is_not_staged(void)
{
    embedded->durable.last_sequence++;
    count_one();
}

static void give_a_series_out_again(void)
{
    embedded->store.writer.position.next_series = 1;
    count_one();
}

static void be_down_with_work_staged(void)
{
    embedded->down = true;
    embedded->store.writer.position.last_sequence++;
    count_one();
}

static void the_writer_never_stands_behind_the_readers(void **state)
{
    expect_panic(show_what_is_not_staged, "durable->last_sequence <= position->last_sequence");
    expect_panic(give_a_series_out_again, "durable->next_series <= position->next_series");
    expect_panic(be_down_with_work_staged, "durable->last_sequence == position->last_sequence");
}

/* Both sides of the promise: the one who publishes relies on what the turn numbered. */
static void publish_after_a_gap(void)
{
    struct write_set *writes;
    heart_send(heart, (struct bundle){0}, (struct op[]){ask(&heart->asks, OP_INCREMENT, "n", 1)},
               1);
    commit_turn(heart->commit);
    writes = embedded->submitted_first;
    embedded->durable.last_sequence = writes->first_sequence - 2;
    commit_sync_now(heart->commit);
}

static void a_batch_is_shown_right_after_the_one_before(void **state)
{
    expect_panic(publish_after_a_gap,
                 "writes->first_sequence == embedded->durable.last_sequence + 1");
}

static void submit_with_a_hole_before_it(void)
{
    struct write_set stray = {.first_sequence = 90, .count = 1, .stored = &stray};
    embedded->submitted_first = embedded->submitted_last = &stray;
    count_one();
}

static void submitted_batches_leave_no_gap(void **state)
{
    if (!SLOW_CHECKS) return;
    expect_panic(submit_with_a_hole_before_it, "next == position->last_sequence + 1");
}

/* ---- caretaking ---- */

static void apply_what_is_not_durable(void)
{
    embedded->applied.last_sequence += 5;
    atomic_store(&embedded->applied_sequence, embedded->applied.last_sequence);
    tend();
}

static void archive_what_is_not_durable(void)
{
    atomic_fetch_add(&embedded->archived, 1000);
    tend();
}

static void show_what_the_journal_may_lose(void)
{
    atomic_fetch_add(&embedded->durable_sequence, 1);
    tend();
}

static void let_go_of_what_a_snapshot_needs(void)
{
    embedded->applied.last_sequence = 0;
    atomic_store(&embedded->applied_sequence, 0);
    embedded->journal->segments[0].previous.sequence = 1;
    tend();
}

static void the_state_the_archive_and_the_journal_keep_their_order(void **state)
{
    expect_panic(apply_what_is_not_durable, "applied <= durable");
    expect_panic(archive_what_is_not_durable, "archived <= durable");
    expect_panic(show_what_the_journal_may_lose,
                 "durable <= journal_durable_sequence(embedded->journal)");
    expect_panic(let_go_of_what_a_snapshot_needs, "kept_from <= applied + 1");
}

/* ---- memory ---- */

static struct cache_entry *some_entry(void)
{
    struct cache *cache = cells_cache(embedded->cells);
    for (unsigned i = 0; i < CACHE_SHARDS; i++) {
        struct cache_shard *shard = &cache->shards[i];
        for (size_t b = 0; b <= shard->table.mask; b++)
            if (shard->table.buckets[b])
                return CONTAINER_OF(shard->table.buckets[b], struct cache_entry, node);
    }
    return NULL;
}

static void close_with_an_entry_pinned(void)
{
    cache_pin(some_entry());
    heart_close(heart);
}

static void call_a_newer_entry_clean(void)
{
    some_entry()->life = LIFE_CLEAN;
    cache_check(cells_cache(embedded->cells));
}

static void forget_what_an_entry_takes(void)
{
    cells_cache(embedded->cells)->shards[0].bytes++;
    cache_check(cells_cache(embedded->cells));
}

static void put_an_entry_into_another_shard(void)
{
    some_entry()->node.hash ^= UINT64_C(1) << 48;
    cache_check(cells_cache(embedded->cells));
}

static void memory_that_contradicts_itself_ends_a_slow_build(void **state)
{
    if (SLOW_CHECKS) expect_panic(close_with_an_entry_pinned, "embedded->cells)) == 0");
    expect_panic(call_a_newer_entry_clean, "sums.dirty_bytes == shard->dirty_bytes");
    expect_panic(forget_what_an_entry_takes, "sums.bytes == shard->bytes");
    expect_panic(put_an_entry_into_another_shard, "cache_shard_number(node->hash)] == shard");
}

/* All that was staged is dropped, and its pins with it (ARCHITECTURE, law 6). */
static void after_a_failed_sync_nothing_is_pinned(void **state)
{
    heart_send(heart, (struct bundle){0}, (struct op[]){ask(&heart->asks, OP_INCREMENT, "n", 1)},
               1);
    commit_turn(heart->commit);
    assert_true(cache_pinned(cells_cache(embedded->cells)) > 0);
    heart_break_sync(heart);
    commit_sync_now(heart->commit);
    assert_int_equal(cache_pinned(cells_cache(embedded->cells)), 0);
    assert_int_equal(cache_pinned(counters_cache(embedded->counters)), 0);
    assert_int_equal(embedded->store.writer.position.last_sequence,
                     embedded->durable.last_sequence);
}

#define LAW(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAW(the_writer_never_stands_behind_the_readers),
        LAW(a_batch_is_shown_right_after_the_one_before),
        LAW(submitted_batches_leave_no_gap),
        LAW(the_state_the_archive_and_the_journal_keep_their_order),
        LAW(memory_that_contradicts_itself_ends_a_slow_build),
        LAW(after_a_failed_sync_nothing_is_pinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
