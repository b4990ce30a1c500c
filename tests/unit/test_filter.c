/* test_filter.c -- the filter chain never forgets: not in memory, not through any damaged file.
 *
 * Laws are those of filter.h. The one that counts is S1-57: ids are remembered for ever at a
 * bounded cost, and a wrong "not seen" would count an event twice. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <unistd.h>

#include "store/embedded/ids/filter.h"
#include "support/scratch_dir.h"

struct world {
    struct scratch_dir dir;
    struct filter_chain chain;
    struct filter_files files;
};

static int setup(void **state)
{
    static struct world world;
    scratch_dir_init(&world.dir);
    filter_chain_init(&world.chain);
    world.files = (struct filter_files){&io_system, world.dir.path, 77};
    *state = &world;
    return 0;
}

static int teardown(void **state)
{
    struct world *world = *state;
    filter_chain_release(&world->chain);
    scratch_dir_release(&world->dir);
    return 0;
}

/* The nth id: any two differ, none is special. */
static struct fingerprint nth(uint64_t n)
{
    return (struct fingerprint){hash_mix(2 * n + 1), hash_mix(2 * n + 2)};
}

/* The set the nth id is from. */
static uint64_t set_of(uint64_t n)
{
    return n / 10 + 1;
}

static void add_range(struct filter_chain *chain, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++)
        filter_chain_add(chain, (struct id_span){set_of(i), set_of(i)}, nth(i));
}

/* By a filter that has its set too: elsewhere nobody would look. */
static bool is_found(const struct filter_chain *chain, uint64_t n)
{
    uint64_t filters = filter_chain_ask(chain, nth(n));
    for (uint32_t i = 0; i < FILTER_COUNT_MAX; i++) {
        if (!(filters >> i & 1)) continue;
        struct id_span span = filter_chain_span(chain, i);
        if (span.first <= set_of(n) && set_of(n) <= span.last) return true;
    }
    return false;
}

static void expect_all(const struct filter_chain *chain, uint64_t to)
{
    for (uint64_t i = 0; i < to; i++)
        assert_true(is_found(chain, i));
}

static void start_again(struct world *world)
{
    filter_chain_release(&world->chain);
    filter_chain_init(&world->chain);
}

static enum err load(struct world *world, uint64_t *complete_to_out)
{
    start_again(world);
    return filter_chain_load(&world->chain, &world->files, complete_to_out);
}

static double false_positives(const struct filter_chain *chain)
{
    const uint64_t from = 1ull << 40, count = 200000;
    uint64_t wrong = 0;
    for (uint64_t i = from; i < from + count; i++)
        wrong += filter_chain_ask(chain, nth(i)) != 0;
    return (double)wrong / (double)count;
}

/* ---- in memory ---- */

static void an_empty_chain_contains_nothing(void **state)
{
    struct world *world = *state;
    for (uint64_t i = 0; i < 1000; i++)
        assert_false(filter_chain_ask(&world->chain, nth(i)));
}

static void law_1_what_was_added_is_found_through_many_filters(void **state)
{
    struct world *world = *state;
    const uint64_t count = 5 * FILTER_IDS_FIRST + 1; /* full ones of 1 and 4, and one begun */
    add_range(&world->chain, 0, count);
    assert_int_equal(world->chain.count, 3);
    assert_int_equal(world->chain.ids, count);
    expect_all(&world->chain, count);
}

static void expect_span(const struct filter_chain *chain, uint32_t index, uint64_t first,
                        uint64_t last)
{
    struct id_span span = filter_chain_span(chain, index);
    assert_int_equal(span.first, first);
    assert_int_equal(span.last, last);
}

static void a_filter_names_no_more_than_the_sets_of_its_ids(void **state)
{
    struct world *world = *state;
    const uint64_t first = FILTER_IDS_FIRST, second = 5 * FILTER_IDS_FIRST;
    uint64_t complete_to;
    add_range(&world->chain, 0, second + 1);
    filter_chain_add(&world->chain, ID_SPAN_NONE, nth(1ull << 50)); /* in no run */
    for (int i = 0; i < 2; i++) {
        expect_span(&world->chain, 0, 1, set_of(first - 1));
        expect_span(&world->chain, 1, set_of(first), set_of(second - 1));
        expect_span(&world->chain, 2, set_of(second), set_of(second));
        assert_int_equal(filter_chain_save(&world->chain, &world->files, 1), ERR_OK);
        assert_int_equal(load(world, &complete_to), ERR_OK);
    }
}

/* Most of them lie in a filter that was opened after the last one that has a file. */
static void the_tail_keeps_its_sets_across_a_load(void **state)
{
    struct world *world = *state;
    const uint64_t saved = FILTER_IDS_FIRST, count = saved + FILTER_TAIL_MAX / 2;
    uint64_t complete_to;
    add_range(&world->chain, 0, saved);
    assert_int_equal(filter_chain_save(&world->chain, &world->files, 1), ERR_OK);
    filter_chain_add(&world->chain, (struct id_span){2, 2}, nth(count)); /* an old one again */
    add_range(&world->chain, saved, count);
    assert_int_equal(filter_chain_save(&world->chain, &world->files, 2), ERR_OK);
    assert_int_equal(world->chain.saved_count, 1);
    assert_int_equal(load(world, &complete_to), ERR_OK);
    expect_all(&world->chain, count);
    assert_true(filter_chain_span(&world->chain, 1).first <= 2);
}

static void S1_57_a_full_filter_is_wrong_less_than_once_in_500(void **state)
{
    struct world *world = *state;
    add_range(&world->chain, 0, FILTER_IDS_FIRST);
    assert_int_equal(world->chain.count, 1);
    double rate = false_positives(&world->chain);
    assert_true(rate < 0.002);
#ifndef TALLY_SMALL_WORLD
    assert_true(rate > 0.0001); /* or the measurement measures nothing */
#endif
}

static void a_filter_filled_in_key_order_is_as_good(void **state)
{
    struct world *world = *state;
    /* As a scan of the state gives them: `high` grows from id to id. */
    for (uint64_t i = 0; i < 5 * FILTER_IDS_FIRST; i++) {
        struct fingerprint print = nth(i);
        print.high = (i << 41) | (print.high & 0x1ffffffffffull);
        filter_chain_add(&world->chain, ID_SPAN_ALL, print);
    }
    assert_true(false_positives(&world->chain) < 0.004); /* two full ones */
}

static void S1_57_a_full_chain_takes_two_bytes_an_id(void **state)
{
    struct world *world = *state;
    add_range(&world->chain, 0, 5 * FILTER_IDS_FIRST);
    assert_int_equal(filter_chain_bytes(&world->chain), 2 * 5 * FILTER_IDS_FIRST);
}

/* ---- on disk ---- */

static void nothing_saved_is_not_found(void **state)
{
    struct world *world = *state;
    uint64_t complete_to;
    assert_int_equal(load(world, &complete_to), ERR_NOT_FOUND);
}

static void law_1_what_was_saved_is_found_after_loading(void **state)
{
    struct world *world = *state;
    const uint64_t count = 3 * FILTER_IDS_FIRST + 5;
    uint64_t complete_to = 0;
    add_range(&world->chain, 0, count);
    assert_int_equal(filter_chain_save(&world->chain, &world->files, 4711), ERR_OK);
    assert_int_equal(load(world, &complete_to), ERR_OK);
    assert_int_equal(complete_to, 4711);
    assert_int_equal(world->chain.ids, count);
    expect_all(&world->chain, count);
}

/* Few at a time go into the list's tail, many into the filters; every mix must load. */
static void law_1_many_small_saves_add_up(void **state)
{
    struct world *world = *state;
    const uint64_t step = FILTER_TAIL_MAX / 3 + 1;
    uint64_t complete_to = 0;
    for (uint64_t count = 0; count < 12 * step; count += step) {
        add_range(&world->chain, count, count + step);
        assert_int_equal(filter_chain_save(&world->chain, &world->files, count), ERR_OK);
        assert_int_equal(load(world, &complete_to), ERR_OK);
        assert_int_equal(complete_to, count);
        expect_all(&world->chain, count + step);
    }
    assert_int_equal(world->chain.ids, 12 * step);
}

static void a_save_of_few_ids_does_not_write_the_filters_again(void **state)
{
    struct world *world = *state;
    struct stat before, after;
    add_range(&world->chain, 0, FILTER_TAIL_MAX + 1);
    assert_int_equal(filter_chain_save(&world->chain, &world->files, 1), ERR_OK);
    assert_int_equal(stat(scratch_dir_file(&world->dir, "filter-0"), &before), 0);
    add_range(&world->chain, FILTER_TAIL_MAX + 1, FILTER_TAIL_MAX + 5);
    assert_int_equal(filter_chain_save(&world->chain, &world->files, 2), ERR_OK);
    assert_int_equal(stat(scratch_dir_file(&world->dir, "filter-0"), &after), 0);
    assert_true(before.st_ino == after.st_ino);
}

static void a_list_of_another_state_is_refused(void **state)
{
    struct world *world = *state;
    uint64_t complete_to;
    add_range(&world->chain, 0, 3);
    assert_int_equal(filter_chain_save(&world->chain, &world->files, 1), ERR_OK);
    world->files.identity++;
    assert_int_equal(load(world, &complete_to), ERR_CORRUPT);
    assert_int_equal(world->chain.ids, 0);
}

static void a_forgotten_list_is_not_found(void **state)
{
    struct world *world = *state;
    uint64_t complete_to;
    add_range(&world->chain, 0, 3);
    assert_int_equal(filter_chain_save(&world->chain, &world->files, 1), ERR_OK);
    assert_int_equal(filter_chain_forget(&world->files), ERR_OK);
    assert_int_equal(filter_chain_forget(&world->files), ERR_OK);
    assert_int_equal(load(world, &complete_to), ERR_NOT_FOUND);
}

/* ---- damage ---- */

struct image {
    char *data;
    size_t size;
};

static struct image image_read(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    struct image image = {must_alloc((size_t)status.st_size + 1), (size_t)status.st_size};
    FILE *file = fopen(path, "rb");
    assert_int_equal(fread(image.data, 1, image.size, file), image.size);
    fclose(file);
    return image;
}

static void image_write(const char *path, struct image image, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_int_equal(fwrite(image.data, 1, size, file), size);
    fclose(file);
}

static void expect_corrupt(struct world *world)
{
    uint64_t complete_to;
    assert_int_equal(load(world, &complete_to), ERR_CORRUPT);
    assert_int_equal(world->chain.count, 0);
}

/* A list with one filter and a tail of three. */
static void save_some(struct world *world)
{
    add_range(&world->chain, 0, FILTER_TAIL_MAX + 1);
    assert_int_equal(filter_chain_save(&world->chain, &world->files, 1), ERR_OK);
    add_range(&world->chain, FILTER_TAIL_MAX + 1, FILTER_TAIL_MAX + 4);
    assert_int_equal(filter_chain_save(&world->chain, &world->files, 2), ERR_OK);
}

static void expect_cuts_refused(struct world *world, const char *name)
{
    const char *path = scratch_dir_file(&world->dir, name);
    struct image image = image_read(path);
    size_t step = image.size > 4096 ? image.size / 97 : 1;
    for (size_t size = 0; size < image.size; size += size < 128 ? 1 : step) {
        image_write(path, image, size);
        expect_corrupt(world);
    }
    image_write(path, image, image.size);
    free(image.data);
}

static void expect_flips_refused(struct world *world, const char *name)
{
    const char *path = scratch_dir_file(&world->dir, name);
    struct image image = image_read(path);
    size_t step = image.size > 4096 ? image.size / 97 : 1;
    for (size_t at = 0; at < image.size; at += at < 128 ? 1 : step) {
        image.data[at] ^= (char)(1 << (at % 8));
        image_write(path, image, image.size);
        expect_corrupt(world);
        image.data[at] ^= (char)(1 << (at % 8));
    }
    image_write(path, image, image.size);
    free(image.data);
}

static void law_2_a_file_cut_short_at_any_length_is_refused(void **state)
{
    struct world *world = *state;
    uint64_t complete_to;
    save_some(world);
    expect_cuts_refused(world, "filters");
    expect_cuts_refused(world, "filter-0");
    assert_int_equal(load(world, &complete_to), ERR_OK); /* whole again */
    expect_all(&world->chain, FILTER_TAIL_MAX + 4);
}

static void law_2_a_file_with_a_flipped_bit_is_refused(void **state)
{
    struct world *world = *state;
    save_some(world);
    expect_flips_refused(world, "filters");
    expect_flips_refused(world, "filter-0");
}

static void law_2_a_listed_filter_that_is_missing_is_refused(void **state)
{
    struct world *world = *state;
    save_some(world);
    assert_int_equal(unlink(scratch_dir_file(&world->dir, "filter-0")), 0);
    expect_corrupt(world);
}

/* As when files of different backups are put together. */
static void law_2_a_filter_older_than_its_list_is_refused(void **state)
{
    struct world *world = *state;
    save_some(world);
    struct image old = image_read(scratch_dir_file(&world->dir, "filter-0"));
    add_range(&world->chain, FILTER_TAIL_MAX + 4, 3 * FILTER_TAIL_MAX);
    assert_int_equal(filter_chain_save(&world->chain, &world->files, 3), ERR_OK);
    image_write(scratch_dir_file(&world->dir, "filter-0"), old, old.size);
    free(old.data);
    expect_corrupt(world);
}

/* As after a crash between the two renames. */
static void law_2_a_filter_newer_than_its_list_is_right(void **state)
{
    struct world *world = *state;
    uint64_t complete_to = 0;
    save_some(world);
    struct image list = image_read(scratch_dir_file(&world->dir, "filters"));
    add_range(&world->chain, FILTER_TAIL_MAX + 4, 3 * FILTER_TAIL_MAX);
    assert_int_equal(filter_chain_save(&world->chain, &world->files, 3), ERR_OK);
    image_write(scratch_dir_file(&world->dir, "filters"), list, list.size);
    free(list.data);
    assert_int_equal(load(world, &complete_to), ERR_OK);
    assert_int_equal(complete_to, 2);
    expect_all(&world->chain, FILTER_TAIL_MAX + 4);
}

/* ---- a disk that refuses ---- */

static int calls_left; /* until a call fails */

static bool refused(void)
{
    return calls_left-- <= 0;
}

static int fault_open(struct io *io, const char *path, bool create, bool direct)
{
    return refused() ? -EIO : io_system.ops->open(io, path, create, direct);
}
static int fault_close(struct io *io, int fd)
{
    int error = io_system.ops->close(io, fd);
    return refused() ? -EIO : error;
}
static int64_t fault_size(struct io *io, int fd)
{
    return refused() ? -EIO : io_system.ops->size(io, fd);
}
static int64_t fault_read(struct io *io, int fd, void *data, size_t size, uint64_t offset)
{
    return refused() ? -EIO : io_system.ops->read(io, fd, data, size, offset);
}
static int64_t fault_write(struct io *io, int fd, const void *data, size_t size, uint64_t offset)
{
    return refused() ? -ENOSPC : io_system.ops->write(io, fd, data, size, offset);
}
static int fault_sync(struct io *io, int fd)
{
    return refused() ? -EIO : io_system.ops->sync(io, fd);
}
static int fault_sync_dir(struct io *io, const char *path)
{
    return refused() ? -EIO : io_system.ops->sync_dir(io, path);
}
static int fault_rename(struct io *io, const char *from, const char *to)
{
    return refused() ? -EIO : io_system.ops->rename(io, from, to);
}
static int fault_unlink(struct io *io, const char *path)
{
    return refused() ? -EIO : io_system.ops->unlink(io, path);
}

static const struct io_ops fault_ops = {
    .open = fault_open,
    .close = fault_close,
    .size = fault_size,
    .read = fault_read,
    .write = fault_write,
    .sync = fault_sync,
    .sync_dir = fault_sync_dir,
    .rename = fault_rename,
    .unlink = fault_unlink,
};
static struct io fault_io = {&fault_ops};

static void law_2_a_save_that_fails_anywhere_leaves_something_right(void **state)
{
    struct world *world = *state;
    struct filter_files faulty = {&fault_io, world->dir.path, 77};
    uint64_t complete_to = 0;
    save_some(world);
    add_range(&world->chain, FILTER_TAIL_MAX + 4, 2 * FILTER_TAIL_MAX + 8);
    enum err e = ERR_STORAGE;
    int call = 0;
    for (; e != ERR_OK; call++) {
        struct filter_chain after;
        calls_left = call;
        e = filter_chain_save(&world->chain, &faulty, 9);
        filter_chain_init(&after);
        assert_int_equal(filter_chain_load(&after, &world->files, &complete_to), ERR_OK);
        expect_all(&after, complete_to == 9 ? 2 * FILTER_TAIL_MAX + 8 : FILTER_TAIL_MAX + 4);
        filter_chain_release(&after);
    }
    assert_true(call >= 10); /* each call of a filter and its list failed once */
    assert_int_equal(complete_to, 9);
}

static void a_load_that_fails_anywhere_leaves_the_chain_empty(void **state)
{
    struct world *world = *state;
    struct filter_files faulty = {&fault_io, world->dir.path, 77};
    uint64_t complete_to = 0;
    save_some(world);
    for (int call = 0; call < 5; call++) {
        start_again(world);
        calls_left = call;
        enum err e = filter_chain_load(&world->chain, &faulty, &complete_to);
        if (e != ERR_OK)
            assert_int_equal(world->chain.count, 0);
        else
            expect_all(&world->chain, FILTER_TAIL_MAX + 4); /* a close that failed */
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_empty_chain_contains_nothing),
        TEST(law_1_what_was_added_is_found_through_many_filters),
        TEST(a_filter_names_no_more_than_the_sets_of_its_ids),
        TEST(the_tail_keeps_its_sets_across_a_load),
        TEST(S1_57_a_full_filter_is_wrong_less_than_once_in_500),
        TEST(a_filter_filled_in_key_order_is_as_good),
        TEST(S1_57_a_full_chain_takes_two_bytes_an_id),
        TEST(nothing_saved_is_not_found),
        TEST(law_1_what_was_saved_is_found_after_loading),
        TEST(law_1_many_small_saves_add_up),
        TEST(a_save_of_few_ids_does_not_write_the_filters_again),
        TEST(a_list_of_another_state_is_refused),
        TEST(a_forgotten_list_is_not_found),
        TEST(law_2_a_file_cut_short_at_any_length_is_refused),
        TEST(law_2_a_file_with_a_flipped_bit_is_refused),
        TEST(law_2_a_listed_filter_that_is_missing_is_refused),
        TEST(law_2_a_filter_older_than_its_list_is_refused),
        TEST(law_2_a_filter_newer_than_its_list_is_right),
        TEST(law_2_a_save_that_fails_anywhere_leaves_something_right),
        TEST(a_load_that_fails_anywhere_leaves_the_chain_empty),
    };
    return cmocka_run_group_tests_name("filter", tests, NULL, NULL);
}
