/* test_state.c -- what is written to the state is read back: one by one, many at once, scanned and
 * ingested. test_state_durable.c asks what is left of it after a kill. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <unistd.h>

#include "base/codec.h"
#include "store/embedded/state/registry_record.h"
#include "support/state_world.h"

/* ---- reading and writing ---- */

static void a_written_value_is_found_in_its_family_only(void **state)
{
    struct world *world = *state;
    put_now(world, STATE_COUNTERS, "views", "1");
    expect_stored(world, STATE_COUNTERS, "views", "1");
    expect_stored(world, STATE_CELLS, "views", NULL);
    expect_stored(world, STATE_COUNTERS, "view", NULL);
}

static void a_deleted_value_is_not_found(void **state)
{
    struct world *world = *state;
    put_now(world, STATE_TENANTS, "acme", "7");
    state_batch_delete(world->batch, STATE_TENANTS, BYTES("acme"));
    write_batch(world);
    expect_stored(world, STATE_TENANTS, "acme", NULL);
}

static void a_batch_is_empty_after_it_was_written(void **state)
{
    struct world *world = *state;
    struct state_batch *other = state_batch_new(world->state);
    put_now(world, STATE_META, "a", "1");
    state_batch_delete(other, STATE_META, BYTES("a"));
    assert_int_equal(state_write(world->state, other), ERR_OK);
    put_now(world, STATE_META, "b", "2"); /* the first batch again */
    expect_stored(world, STATE_META, "a", NULL);
    expect_stored(world, STATE_META, "b", "2");
    state_batch_free(other);
}

static void a_value_larger_than_the_reader_allows_is_an_error(void **state)
{
    struct world *world = *state;
    struct buf got;
    put_now(world, STATE_META, "long", "0123456789");
    buf_init(&got, 4);
    assert_int_equal(state_get(world->state, STATE_META, BYTES("long"), &got), ERR_STORAGE);
    assert_non_null(strstr(state_error(world->state), "larger"));
    buf_release(&got);
}

struct found {
    unsigned char seen[500];
    unsigned count;
};

static void found_even(void *context, size_t index, struct bytes value)
{
    struct found *found = context;
    assert_int_equal(index % 2, 0);
    assert_int_equal(value.size, 8);
    assert_int_equal(get_u64(value.data), index);
    found->seen[index]++;
    found->count++;
}

static void many_at_once_are_found_each_once(void **state)
{
    struct world *world = *state;
    uint64_t numbers[500];
    struct bytes keys[500];
    struct found found = {0};
    for (uint64_t i = 0; i < 500; i++) {
        numbers[i] = i;
        keys[i] = bytes_of(&numbers[i], 8);
        if (i % 2 == 0) state_batch_put(world->batch, STATE_CELLS, keys[i], keys[i]);
    }
    write_batch(world);
    assert_int_equal(state_get_many(world->state, STATE_CELLS, keys, 500, found_even, &found),
                     ERR_OK);
    assert_int_equal(found.count, 250);
    for (size_t i = 0; i < 500; i += 2)
        assert_int_equal(found.seen[i], 1);
}

/* ---- scanning ---- */

struct seen {
    char text[256];
    unsigned stop_after;
};

static bool see(void *context, struct bytes key, struct bytes value)
{
    struct seen *seen = context;
    (void)value;
    strncat(seen->text, key.data, key.size);
    strcat(seen->text, " ");
    return seen->stop_after == 0 || --seen->stop_after > 0;
}

static void expect_scan(struct world *world, const char *from, const char *to, const char *expected)
{
    struct seen seen = {0};
    assert_int_equal(
        state_scan(world->state, STATE_COUNTERS, bytes_str(from), bytes_str(to), see, &seen),
        ERR_OK);
    assert_string_equal(seen.text, expected);
}

static void a_scan_sees_from_included_to_excluded_in_order(void **state)
{
    struct world *world = *state;
    for (const char *key = "cadb"; *key; key++)
        state_batch_put(world->batch, STATE_COUNTERS, bytes_of(key, 1), BYTES(""));
    write_batch(world);
    expect_scan(world, "", "", "a b c d ");
    expect_scan(world, "b", "d", "b c ");
    expect_scan(world, "bb", "", "c d ");
    expect_scan(world, "e", "", "");
    assert_int_equal(state_flush(world->state), ERR_OK);
    expect_scan(world, "b", "d", "b c ");
}

static void a_scan_stops_when_told(void **state)
{
    struct world *world = *state;
    struct seen seen = {.stop_after = 2};
    for (const char *key = "abcd"; *key; key++)
        state_batch_put(world->batch, STATE_COUNTERS, bytes_of(key, 1), BYTES(""));
    write_batch(world);
    assert_int_equal(state_scan(world->state, STATE_COUNTERS, BYTES_NONE, BYTES_NONE, see, &seen),
                     ERR_OK);
    assert_string_equal(seen.text, "a b ");
}

/* Over families, and over what is written, flushed and deleted meanwhile. */
static void a_view_shows_one_instant(void **state)
{
    struct world *world = *state;
    struct state_view *view;
    struct seen seen = {0};
    struct buf got;
    buf_init(&got, 64);
    put(world, STATE_COUNTERS, "a", "1");
    put_now(world, STATE_SUMS, "x", "1");
    assert_int_equal(state_view_new(&view, world->state), ERR_OK);
    put(world, STATE_COUNTERS, "b", "2");
    put_now(world, STATE_SUMS, "x", "2");
    assert_int_equal(state_flush(world->state), ERR_OK);
    state_batch_delete(world->batch, STATE_COUNTERS, BYTES("a"));
    write_batch(world);
    assert_int_equal(state_view_get(view, STATE_SUMS, BYTES("x"), &got), ERR_OK);
    assert_true(bytes_equal(buf_bytes(&got), BYTES("1")));
    assert_int_equal(state_view_get(view, STATE_COUNTERS, BYTES("b"), &got), ERR_NOT_FOUND);
    assert_int_equal(state_view_scan(view, STATE_COUNTERS, BYTES_NONE, BYTES_NONE, see, &seen),
                     ERR_OK);
    assert_string_equal(seen.text, "a ");
    state_view_free(view);
    expect_scan(world, "", "", "b ");
    buf_release(&got);
}

static void a_cleared_batch_writes_nothing(void **state)
{
    struct world *world = *state;
    put(world, STATE_META, "a", "1");
    state_batch_clear(world->batch);
    put_now(world, STATE_META, "b", "2");
    expect_stored(world, STATE_META, "a", NULL);
    expect_stored(world, STATE_META, "b", "2");
}

static struct bytes cell_key(char key[16], uint64_t series, int64_t bucket)
{
    put_ordered_u64(key, series);
    put_ordered_i64(key + 8, bucket);
    return bytes_of(key, 16);
}

static bool count_cells(void *context, struct bytes key, struct bytes value)
{
    (void)key, (void)value;
    ++*(unsigned *)context;
    return true;
}

static unsigned cells_between(struct world *world, uint64_t series, int64_t from,
                              uint64_t series_to, int64_t to)
{
    char first[16], last[16];
    unsigned count = 0;
    assert_int_equal(state_scan(world->state, STATE_CELLS, cell_key(first, series, from),
                                cell_key(last, series_to, to), count_cells, &count),
                     ERR_OK);
    return count;
}

/* Files that lack a series are skipped by their filters: within one series, and only then. */
static void cells_are_found_within_a_series_and_across_series(void **state)
{
    struct world *world = *state;
    char key[16];
    for (uint64_t series = 1; series <= 5; series++) {
        for (int64_t bucket = -50; bucket < 50; bucket++)
            state_batch_put(world->batch, STATE_CELLS, cell_key(key, series, bucket), BYTES("x"));
        write_batch(world);
        assert_int_equal(state_flush(world->state), ERR_OK); /* a file each */
    }
    assert_int_equal(cells_between(world, 3, -10, 3, 10), 20);
    assert_int_equal(cells_between(world, 2, 40, 4, -40), 10 + 100 + 10);
    assert_int_equal(cells_between(world, 9, -10, 9, 10), 0);
}

/* ---- ingesting ---- */

struct supply {
    uint64_t next;
    uint64_t end;
    char key[8];
    const char *value;
};

static bool supply_next(void *context, struct bytes *key_out, struct bytes *value_out)
{
    struct supply *supply = context;
    if (supply->next == supply->end) return false;
    put_ordered_u64(supply->key, supply->next++);
    *key_out = bytes_of(supply->key, 8);
    *value_out = bytes_str(supply->value);
    return true;
}

static enum err ingest(struct world *world, uint64_t from, uint64_t to, const char *value)
{
    struct supply supply = {.next = from, .end = to, .value = value};
    return state_ingest(world->state, STATE_IDS, supply_next, &supply);
}

static void expect_number(struct world *world, uint64_t number, const char *value)
{
    char key[8];
    struct buf got;
    put_ordered_u64(key, number);
    buf_init(&got, 64);
    enum err e = state_get(world->state, STATE_IDS, bytes_of(key, 8), &got);
    assert_int_equal(e, value ? ERR_OK : ERR_NOT_FOUND);
    if (value) assert_true(bytes_equal(buf_bytes(&got), bytes_str(value)));
    buf_release(&got);
}

static void what_was_ingested_is_found_and_survives_without_a_flush(void **state)
{
    struct world *world = *state;
    assert_int_equal(ingest(world, 0, 1000, "x"), ERR_OK);
    expect_number(world, 0, "x");
    expect_number(world, 999, "x");
    expect_number(world, 1000, NULL);
    world_restart(world);
    expect_number(world, 500, "x");
    assert_true(state_key_count(world->state, STATE_IDS) > 900);
    assert_true(state_disk_bytes(world->state) > 0);
}

static void the_newest_of_written_and_ingested_wins(void **state)
{
    struct world *world = *state;
    char key[8];
    assert_int_equal(ingest(world, 0, 10, "old"), ERR_OK);
    put_ordered_u64(key, 3);
    state_batch_put(world->batch, STATE_IDS, bytes_of(key, 8), BYTES("written"));
    write_batch(world);
    expect_number(world, 3, "written");
    assert_int_equal(ingest(world, 0, 10, "new"), ERR_OK);
    expect_number(world, 3, "new");
    expect_number(world, 4, "new");
}

static void nothing_to_ingest_is_no_error(void **state)
{
    struct world *world = *state;
    assert_int_equal(ingest(world, 5, 5, "x"), ERR_OK);
}

static unsigned leftovers(struct world *world)
{
    unsigned count = 0;
    DIR *dir = opendir(world->dir.path);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += strncmp(entry->d_name, "ingest-", 7) == 0;
    closedir(dir);
    return count;
}

static void leftovers_of_an_ingest_are_removed(void **state)
{
    struct world *world = *state;
    FILE *file = fopen(scratch_dir_file(&world->dir, "ingest-12"), "w");
    fclose(file);
    assert_int_equal(leftovers(world), 1);
    world_restart(world);
    assert_int_equal(leftovers(world), 0);
    assert_int_equal(ingest(world, 0, 10, "x"), ERR_OK);
    assert_int_equal(leftovers(world), 0);
}

static void unsorted_keys_are_an_error_and_leave_nothing(void **state)
{
    struct world *world = *state;
    struct supply supply = {.next = UINT64_MAX, .end = 3, .value = "x"}; /* wraps to 0 */
    assert_int_equal(state_ingest(world->state, STATE_IDS, supply_next, &supply), ERR_STORAGE);
    assert_int_equal(leftovers(world), 0);
    expect_number(world, UINT64_MAX, NULL);
}

/* ---- expired ids ---- */

static void put_records(struct world *world, uint64_t from, uint64_t to, int64_t seen_ms,
                        bool event)
{
    struct buf value;
    struct key_record record = {.sequence = 1, .first_seen_ms = seen_ms, .event = event};
    buf_init(&value, 64);
    record_encode(&value, &record);
    for (uint64_t number = from; number < to; number++) {
        char key[8];
        put_ordered_u64(key, number);
        state_batch_put(world->batch, STATE_IDS, bytes_of(key, 8), buf_bytes(&value));
    }
    write_batch(world);
    assert_int_equal(state_flush(world->state), ERR_OK);
    buf_release(&value);
}

static bool number_there(struct world *world, uint64_t number)
{
    char key[8];
    struct buf got;
    put_ordered_u64(key, number);
    buf_init(&got, 64);
    enum err e = state_get(world->state, STATE_IDS, bytes_of(key, 8), &got);
    buf_release(&got);
    return e == ERR_OK;
}

/* Twenty runs are merged soon enough; expired ones go with it, all others stay. */
static void compaction_drops_expired_ids_and_no_others(void **state)
{
    struct world *world = *state;
    world->expired_before = 1000;
    for (uint64_t run = 0; run < 20; run++)
        put_records(world, run * 10, run * 10 + 10, run % 2 ? 1000 : 999, false);
    for (int i = 0; i < 100 && number_there(world, 0); i++)
        usleep(50 * 1000);
    assert_false(number_there(world, 0));
    for (uint64_t run = 1; run < 20; run += 2)
        assert_true(number_there(world, run * 10));
}

static void S1_14_event_ids_never_expire(void **state)
{
    struct world *world = *state;
    world->expired_before = 1000;
    for (uint64_t run = 0; run < 20; run++)
        put_records(world, run * 10, run * 10 + 10, 1, run % 2);
    for (int i = 0; i < 100 && number_there(world, 0); i++)
        usleep(50 * 1000);
    assert_false(number_there(world, 0)); /* keys do */
    for (uint64_t run = 1; run < 20; run += 2)
        assert_true(number_there(world, run * 10));
}

static void S1_14_nothing_expires_when_nothing_is_to(void **state)
{
    struct world *world = *state;
    for (uint64_t run = 0; run < 20; run++)
        put_records(world, run * 10, run * 10 + 10, -5, false);
    usleep(300 * 1000);
    for (uint64_t number = 0; number < 200; number++)
        assert_true(number_there(world, number));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_written_value_is_found_in_its_family_only),
        TEST(a_deleted_value_is_not_found),
        TEST(a_batch_is_empty_after_it_was_written),
        TEST(a_value_larger_than_the_reader_allows_is_an_error),
        TEST(many_at_once_are_found_each_once),
        TEST(a_scan_sees_from_included_to_excluded_in_order),
        TEST(a_scan_stops_when_told),
        TEST(a_view_shows_one_instant),
        TEST(a_cleared_batch_writes_nothing),
        TEST(cells_are_found_within_a_series_and_across_series),
        TEST(what_was_ingested_is_found_and_survives_without_a_flush),
        TEST(the_newest_of_written_and_ingested_wins),
        TEST(nothing_to_ingest_is_no_error),
        TEST(leftovers_of_an_ingest_are_removed),
        TEST(unsorted_keys_are_an_error_and_leave_nothing),
        TEST(compaction_drops_expired_ids_and_no_others),
        TEST(S1_14_event_ids_never_expire),
        TEST(S1_14_nothing_expires_when_nothing_is_to),
    };
    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}
