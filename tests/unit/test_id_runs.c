/* test_id_runs.c -- event ids in sorted files: found for ever, through merges, crashes and damage.
 *
 * S1-57: ids are remembered for ever at a bounded cost. A wrong "not seen" would count an event
 * twice, so what cannot be read has to be an error. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "store/embedded/ids/runs.h"
#include "store/embedded/state/registry_record.h"
#include "support/io_sim.h"

#define SET_IDS 300u /* of one run: three pages */
#define CUTS 16u     /* power cuts tried after each kill */

static struct io_sim *sim;
static struct id_runs *runs;

static struct id_files files(void)
{
    return (struct id_files){io_sim_io(sim), "ids", 77};
}

static enum err open_again(void)
{
    struct id_files all = files();
    id_runs_free(runs);
    runs = NULL;
    return id_runs_open(&runs, &all);
}

static int setup(void **state)
{
    (void)state;
    sim = io_sim_new();
    assert_int_equal(open_again(), ERR_OK);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    id_runs_free(runs);
    runs = NULL;
    io_sim_free(sim);
    return 0;
}

static struct id_entry nth(uint64_t n, uint64_t sequence)
{
    return (struct id_entry){.print = {hash_mix(2 * n + 1), hash_mix(2 * n + 2)},
                             .sequence = sequence,
                             .first_seen_ms = 1785000000000 + (int64_t)n,
                             .digest = (uint32_t)(n * 7)};
}

static int by_print(const void *a, const void *b)
{
    return record_compare(((const struct id_entry *)a)->print, ((const struct id_entry *)b)->print);
}

struct feed {
    const struct id_entry *entries;
    size_t count;
};

static bool feed_next(void *context, struct id_entry *entry_out)
{
    struct feed *feed = context;
    if (feed->count == 0) return false;
    *entry_out = *feed->entries++;
    feed->count--;
    return true;
}

/* Ids from <= n < to, each with the sequence n + later. */
static enum err add(uint64_t from, uint64_t to, uint64_t later)
{
    struct id_entry *entries = malloc((to - from) * sizeof *entries);
    for (uint64_t n = from; n < to; n++)
        entries[n - from] = nth(n, n + later);
    qsort(entries, to - from, sizeof *entries, by_print);
    struct feed feed = {entries, to - from};
    uint64_t set = 0;
    enum err e = id_runs_add(runs, feed_next, &feed, &set);
    free(entries);
    return e;
}

static void expect(uint64_t n, uint64_t sequence)
{
    struct id_entry got, wanted = nth(n, sequence);
    assert_int_equal(id_runs_find(runs, ID_SPAN_ALL, wanted.print, &got), ERR_OK);
    assert_true(got.sequence == sequence && got.first_seen_ms == wanted.first_seen_ms &&
                got.digest == wanted.digest);
}

static void expect_range(uint64_t from, uint64_t to, uint64_t later)
{
    struct id_entry got;
    for (uint64_t n = from; n < to; n++)
        expect(n, n + later);
    for (uint64_t n = to; n < to + 100; n++)
        assert_int_equal(id_runs_find(runs, ID_SPAN_ALL, nth(n + (1ull << 40), 0).print, &got),
                         ERR_NOT_FOUND);
}

static void add_sets(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(add(i * SET_IDS, (i + 1) * SET_IDS, 1), ERR_OK);
}

static unsigned files_named(void)
{
    unsigned count = 0;
    while (io_sim_name(sim, "ids-0", count))
        count++;
    return count;
}

static void merge_all(void)
{
    while (id_runs_merge(runs))
        continue;
}

static void ids_of_every_run_are_found_and_no_others(void **state)
{
    (void)state;
    add_sets(3);
    expect_range(0, 3 * SET_IDS, 1);
    assert_int_equal(id_runs_count(runs), 3 * SET_IDS);
    assert_int_equal(open_again(), ERR_OK);
    expect_range(0, 3 * SET_IDS, 1);
}

static bool is_in(uint64_t n, uint64_t first, uint64_t last)
{
    struct id_entry got;
    enum err e = id_runs_find(runs, (struct id_span){first, last}, nth(n, 0).print, &got);
    assert_true(e == ERR_OK || e == ERR_NOT_FOUND);
    return e == ERR_OK;
}

static void only_runs_of_the_sets_asked_for_are_searched(void **state)
{
    (void)state;
    add_sets(3);
    const uint64_t second = SET_IDS; /* an id of set 2 */
    assert_true(is_in(second, 2, 2) && is_in(second, 1, 2) && is_in(second, 2, 3));
    assert_false(is_in(second, 1, 1) || is_in(second, 3, 3));
    assert_false(is_in(second, ID_SPAN_NONE.first, ID_SPAN_NONE.last));
    for (unsigned i = 3; i < 16; i++)
        assert_int_equal(add(i * SET_IDS, (i + 1) * SET_IDS, 1), ERR_OK);
    merge_all();
    for (uint64_t n = 0; n < 16 * SET_IDS; n += SET_IDS / 2)
        assert_true(is_in(n, n / SET_IDS + 1, n / SET_IDS + 1)); /* wherever it lies now */
}

static void runs_of_any_size_have_their_first_and_last_id(void **state)
{
    (void)state;
    uint64_t from = 0;
    static const uint64_t sizes[] = {1, 112, 113, 114, 226, 7233};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; from += sizes[i++])
        assert_int_equal(add(from, from + sizes[i], 1), ERR_OK);
    assert_int_equal(open_again(), ERR_OK);
    expect_range(0, from, 1);
}

/* Ids whose first 64 bits are equal fill more than a page. */
static void ids_that_share_their_first_half_are_told_apart(void **state)
{
    (void)state;
    struct id_entry entries[500];
    for (uint64_t i = 0; i < 500; i++)
        entries[i] = (struct id_entry){.print = {2 * i, i < 450 ? 1000 : 2000}, .sequence = i + 1};
    struct feed feed = {entries, 500};
    uint64_t set;
    assert_int_equal(id_runs_add(runs, feed_next, &feed, &set), ERR_OK);
    for (uint64_t i = 0; i < 500; i++) {
        struct id_entry got;
        assert_int_equal(id_runs_find(runs, ID_SPAN_ALL, entries[i].print, &got), ERR_OK);
        assert_int_equal(got.sequence, i + 1);
        struct fingerprint beside = {2 * i + 1, entries[i].print.high};
        assert_int_equal(id_runs_find(runs, ID_SPAN_ALL, beside, &got), ERR_NOT_FOUND);
    }
}

static void merging_makes_few_files_and_loses_nothing(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(add(i * SET_IDS, (i + 1) * SET_IDS, 1), ERR_OK);
        merge_all();
    }
    assert_true(files_named() <= 9);
    expect_range(0, 40 * SET_IDS, 1);
    assert_int_equal(id_runs_count(runs), 40 * SET_IDS);
    assert_int_equal(open_again(), ERR_OK);
    expect_range(0, 40 * SET_IDS, 1);
}

static void sets_may_come_while_others_are_merged(void **state)
{
    (void)state;
    add_sets(20);
    uint64_t ids = 20 * SET_IDS;
    while (id_runs_merge(runs)) {
        if (ids < 60 * SET_IDS) {
            assert_int_equal(add(ids, ids + SET_IDS, 1), ERR_OK);
            ids += SET_IDS;
        }
        expect(ids - 1, ids);
        expect(0, 1);
    }
    expect_range(0, ids, 1);
}

/* An id that came back after its time: the newest record, before a merge and after. */
static void the_newest_record_of_an_id_wins(void **state)
{
    (void)state;
    for (uint64_t later = 1; later < 6000; later += 1000)
        assert_int_equal(add(0, SET_IDS, later), ERR_OK);
    expect_range(0, SET_IDS, 5001);
    merge_all();
    expect_range(0, SET_IDS, 5001);
    assert_int_equal(open_again(), ERR_OK);
    expect_range(0, SET_IDS, 5001);
}

/* The power is cut at every call of a merge in turn. */
static void a_crash_anywhere_in_a_merge_loses_nothing(void **state)
{
    (void)state;
    add_sets(8);
    struct io_sim *before = io_sim_copy(sim);
    uint64_t calls = io_sim_calls(sim);
    merge_all();
    calls = io_sim_calls(sim) - calls;
    for (uint64_t nth_call = 1; nth_call <= calls; nth_call++) {
        id_runs_free(runs);
        runs = NULL;
        io_sim_free(sim);
        sim = io_sim_copy(before);
        io_sim_kill(sim);
        assert_int_equal(open_again(), ERR_OK);
        io_sim_fail(sim, nth_call, EIO, nth_call % IO_SIM_LOSSES);
        merge_all();
        expect_range(0, 8 * SET_IDS, 1);
        id_runs_free(runs);
        runs = NULL;
        io_sim_crash(sim, nth_call);
        assert_int_equal(open_again(), ERR_OK);
        expect_range(0, 8 * SET_IDS, 1);
        merge_all();
        expect_range(0, 8 * SET_IDS, 1);
    }
    io_sim_free(before);
}

static void go_back_to(const struct io_sim *before)
{
    id_runs_free(runs);
    runs = NULL;
    io_sim_free(sim);
    sim = io_sim_copy(before);
    io_sim_kill(sim);
    assert_int_equal(open_again(), ERR_OK);
}

static void kill_and_open(void)
{
    id_runs_free(runs);
    runs = NULL;
    io_sim_kill(sim);
    assert_int_equal(open_again(), ERR_OK);
}

static void cut_power_and_open(uint64_t seed)
{
    id_runs_free(runs);
    runs = NULL;
    io_sim_crash(sim, seed);
    assert_int_equal(open_again(), ERR_OK);
}

/* A merge that was killed after its rename and before the sync of the directory is believed at the
 * next start, which removes the files it covers: a power cut must not keep the removals and lose
 * the rename. */
static void a_merge_that_was_killed_and_then_found_outlasts_a_power_cut(void **state)
{
    (void)state;
    add_sets(8);
    struct io_sim *before = io_sim_copy(sim);
    uint64_t calls = io_sim_calls(sim);
    merge_all();
    calls = io_sim_calls(sim) - calls;
    for (uint64_t nth_call = 1; nth_call <= calls; nth_call++) {
        for (uint64_t seed = 0; seed < CUTS; seed++) {
            go_back_to(before);
            io_sim_stop(sim, nth_call);
            merge_all();
            kill_and_open();
            cut_power_and_open(seed);
            expect_range(0, 8 * SET_IDS, 1);
        }
    }
    io_sim_free(before);
}

static void a_set_that_was_killed_and_then_found_outlasts_a_power_cut(void **state)
{
    (void)state;
    add_sets(3);
    struct io_sim *before = io_sim_copy(sim);
    uint64_t calls = io_sim_calls(sim);
    assert_int_equal(add(3 * SET_IDS, 4 * SET_IDS, 1), ERR_OK);
    calls = io_sim_calls(sim) - calls;
    for (uint64_t nth_call = 1; nth_call <= calls; nth_call++) {
        for (uint64_t seed = 0; seed < CUTS; seed++) {
            go_back_to(before);
            io_sim_stop(sim, nth_call);
            (void)!add(3 * SET_IDS, 4 * SET_IDS, 1);
            kill_and_open();
            uint64_t found = id_runs_count(runs);
            cut_power_and_open(seed);
            expect_range(0, found, 1);
        }
    }
    io_sim_free(before);
}

static void a_set_that_could_not_be_written_is_written_again(void **state)
{
    (void)state;
    for (uint64_t nth_call = 1; nth_call < 8; nth_call++) {
        uint64_t from = (nth_call - 1) * SET_IDS;
        io_sim_fail(sim, nth_call, ENOSPC, nth_call % IO_SIM_LOSSES);
        enum err e = add(from, from + SET_IDS, 1);
        io_sim_heal(sim);
        if (e != ERR_OK) assert_int_equal(add(from, from + SET_IDS, 1), ERR_OK);
        id_runs_free(runs);
        runs = NULL;
        io_sim_crash(sim, nth_call);
        assert_int_equal(open_again(), ERR_OK);
        expect_range(0, from + SET_IDS, 1);
    }
}

static void a_damaged_page_is_an_error_not_an_unknown_id(void **state)
{
    (void)state;
    add_sets(1);
    io_sim_damage(sim, io_sim_name(sim, "ids-0", 0), 4096 + 200, 1);
    struct id_entry got;
    unsigned errors = 0;
    for (uint64_t n = 0; n < SET_IDS; n++)
        errors += id_runs_find(runs, ID_SPAN_ALL, nth(n, 0).print, &got) == ERR_STORAGE;
    assert_true(errors >= 113);
    for (unsigned i = 0; i < 7; i++)
        assert_int_equal(add((i + 1) * SET_IDS, (i + 2) * SET_IDS, 1), ERR_OK);
    merge_all(); /* refuses, and stops trying */
    assert_int_equal(id_runs_find(runs, ID_SPAN_ALL, nth(SET_IDS, 0).print, &got), ERR_OK);
}

static void damage_to_head_or_index_and_a_missing_run_refuse_to_open(void **state)
{
    (void)state;
    add_sets(3);
    static const uint64_t places[] = {0, 8, 16, 24, 40, 60, 64, 72, 4 * 4096 + 3};
    const char *name = io_sim_name(sim, "ids-0", 1);
    char first[64];
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        io_sim_damage(sim, name, places[i], 1);
        assert_int_equal(open_again(), ERR_STORAGE);
        io_sim_damage(sim, name, places[i], 1);
        assert_int_equal(open_again(), ERR_OK);
    }
    snprintf(first, sizeof first, "ids/%s", io_sim_name(sim, "ids-0", 0));
    io_sim_io(sim)->ops->unlink(io_sim_io(sim), first);
    assert_int_equal(open_again(), ERR_STORAGE);
}

struct seen {
    uint64_t count;
};

static void count_one(void *context, struct id_span span, const struct id_entry *entry)
{
    (void)span;
    (void)entry;
    ((struct seen *)context)->count++;
}

static void a_scan_leaves_out_runs_that_are_old_enough(void **state)
{
    (void)state;
    struct seen seen = {0};
    add_sets(3);
    assert_int_equal(id_runs_scan(runs, 0, count_one, &seen), ERR_OK);
    assert_int_equal(seen.count, 3 * SET_IDS);
    seen.count = 0;
    assert_int_equal(id_runs_scan(runs, 2 * SET_IDS, count_one, &seen), ERR_OK);
    assert_int_equal(seen.count, SET_IDS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ids_of_every_run_are_found_and_no_others),
        TEST(runs_of_any_size_have_their_first_and_last_id),
        TEST(ids_that_share_their_first_half_are_told_apart),
        TEST(merging_makes_few_files_and_loses_nothing),
        TEST(only_runs_of_the_sets_asked_for_are_searched),
        TEST(sets_may_come_while_others_are_merged),
        TEST(the_newest_record_of_an_id_wins),
        TEST(a_crash_anywhere_in_a_merge_loses_nothing),
        TEST(a_merge_that_was_killed_and_then_found_outlasts_a_power_cut),
        TEST(a_set_that_was_killed_and_then_found_outlasts_a_power_cut),
        TEST(a_set_that_could_not_be_written_is_written_again),
        TEST(a_damaged_page_is_an_error_not_an_unknown_id),
        TEST(damage_to_head_or_index_and_a_missing_run_refuse_to_open),
        TEST(a_scan_leaves_out_runs_that_are_old_enough),
    };
    return cmocka_run_group_tests_name("id_runs", tests, NULL, NULL);
}
