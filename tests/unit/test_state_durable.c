/* test_state_durable.c -- what is left of the state after a close, a kill or a reopening.
 *
 * The journal is the log: that unflushed data dies with a close is as much a promise as that
 * flushed data survives one (ARCHITECTURE, laws 4 and 5). */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/state_world.h"

#define RELAY_ROUNDS 10000u

/* ---- durability ---- */

static const char *const every_key = "k";

static void put_in_all(struct world *world, const char *value)
{
    for (int i = 0; i < STATE_FAMILY_COUNT; i++)
        put(world, (enum state_family)i, every_key, value);
    write_batch(world);
}

static void law_4_what_was_not_flushed_is_gone_after_a_close(void **state)
{
    struct world *world = *state;
    put_in_all(world, "1");
    world_restart(world);
    for (int i = 0; i < STATE_FAMILY_COUNT; i++)
        expect_stored(world, (enum state_family)i, every_key, NULL);
}

static void law_5_what_was_flushed_survives_in_all_families(void **state)
{
    struct world *world = *state;
    put_in_all(world, "1");
    assert_int_equal(state_flush(world->state), ERR_OK);
    put_in_all(world, "2");
    world_restart(world);
    for (int i = 0; i < STATE_FAMILY_COUNT; i++)
        expect_stored(world, (enum state_family)i, every_key, "1");
}

/* RocksDB's C API cannot flush several families at once; state_flush has to, for any of them. */
static void law_5_a_flush_reaches_a_family_alone(void **state)
{
    struct world *world = *state;
    for (int i = 0; i < STATE_FAMILY_COUNT; i++) {
        put_now(world, (enum state_family)i, every_key, "1");
        assert_int_equal(state_flush(world->state), ERR_OK);
        world_restart(world);
        expect_stored(world, (enum state_family)i, every_key, "1");
    }
    assert_int_equal(state_flush(world->state), ERR_OK); /* of nothing */
}

/* When a memtable runs full RocksDB flushes by itself: then, too, a batch stays whole. */
static void law_5_an_unasked_flush_keeps_batches_whole(void **state)
{
    struct world *world = *state;
    static char filler[64 << 10];
    struct buf got[2];
    for (uint64_t i = 1; i <= 600; i++) { /* 37 MiB, past any memtable */
        state_batch_put(world->batch, STATE_META, BYTES("last"), bytes_of(&i, 8));
        state_batch_put(world->batch, STATE_TENANTS, BYTES("last"), bytes_of(&i, 8));
        state_batch_put(world->batch, STATE_CELLS, bytes_of(&i, 8),
                        bytes_of(filler, sizeof filler));
        write_batch(world);
    }
    usleep(300 * 1000); /* let the flush end; either way the two must agree */
    world_restart(world);
    for (int i = 0; i < 2; i++)
        buf_init(&got[i], 8);
    enum err e = state_get(world->state, STATE_META, BYTES("last"), &got[0]);
    assert_int_equal(state_get(world->state, STATE_TENANTS, BYTES("last"), &got[1]), e);
    if (e == ERR_OK) assert_true(bytes_equal(buf_bytes(&got[0]), buf_bytes(&got[1])));
    for (int i = 0; i < 2; i++)
        buf_release(&got[i]);
}

/* Another process, until it is killed; says on its standard output that it has begun. Not a fork of
 * this one: RocksDB's threads would be missing. */
static int flush_for_ever(char *dir)
{
    struct world world = {.config = {.dir = dir, .cache_bytes = 8u << 20}};
    world_open(&world);
    for (uint64_t i = 1;; i++) {
        state_batch_put(world.batch, STATE_META, BYTES("last"), bytes_of(&i, 8));
        state_batch_put(world.batch, STATE_TENANTS, BYTES("last"), bytes_of(&i, 8));
        if (state_write(world.state, world.batch) != ERR_OK || state_flush(world.state) != ERR_OK)
            return 1;
        if (i == 1 && write(STDOUT_FILENO, "!", 1) != 1) return 1;
    }
}

static void flush_and_be_killed(struct world *world, useconds_t after_us)
{
    int status, begun[2];
    char byte;
    assert_int_equal(pipe(begun), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(begun[1], STDOUT_FILENO);
        execl("/proc/self/exe", "test_state_durable", "flush", world->dir.path, (char *)NULL);
        _exit(127);
    }
    close(begun[1]);
    assert_int_equal(read(begun[0], &byte, 1), 1);
    close(begun[0]);
    usleep(after_us);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

static void law_5_a_kill_during_a_flush_keeps_batches_whole(void **state)
{
    struct world *world = *state;
    struct buf meta, tenants;
    buf_init(&meta, 8);
    buf_init(&tenants, 8);
    for (unsigned round = 0; round < 10; round++) {
        world_close(world);
        flush_and_be_killed(world, 10 * 1000 + round * 3300);
        world_open(world);
        assert_int_equal(state_get(world->state, STATE_META, BYTES("last"), &meta), ERR_OK);
        assert_int_equal(state_get(world->state, STATE_TENANTS, BYTES("last"), &tenants), ERR_OK);
        assert_true(bytes_equal(buf_bytes(&meta), buf_bytes(&tenants)));
    }
    buf_release(&meta);
    buf_release(&tenants);
}

static void the_fate_of_a_batch_is_known(void **state)
{
    struct world *world = *state;
    put_now(world, STATE_CELLS, "a", "1");
    struct state_mark mark = state_batch_mark(world->batch);
    assert_int_equal(state_fate(world->state, mark), STATE_PENDING);
    assert_int_equal(state_flush(world->state), ERR_OK);
    assert_int_equal(state_fate(world->state, mark), STATE_FLUSHED);
    put_now(world, STATE_CELLS, "b", "1");
    mark = state_batch_mark(world->batch);
    assert_int_equal(state_reopen(world->state), ERR_OK);
    assert_int_equal(state_fate(world->state, mark), STATE_LOST);
    expect_stored(world, STATE_CELLS, "a", "1");
    expect_stored(world, STATE_CELLS, "b", NULL);
}

/* ---- reopening ---- */

static void a_reopened_state_takes_batches_made_before(void **state)
{
    struct world *world = *state;
    put(world, STATE_CELLS, "a", "1");
    assert_int_equal(state_reopen(world->state), ERR_OK);
    put(world, STATE_META, "b", "2");
    write_batch(world);
    expect_stored(world, STATE_CELLS, "a", "1");
    expect_stored(world, STATE_META, "b", "2");
}

/* Law 6: an error is final for what it hit, and answered; then work goes on. */
static void a_failed_reopen_answers_errors_until_one_succeeds(void **state)
{
    struct world *world = *state;
    char moved[512];
    struct buf got;
    buf_init(&got, 64);
    put_now(world, STATE_META, "a", "1");
    assert_int_equal(state_flush(world->state), ERR_OK);
    snprintf(moved, sizeof moved, "%s-moved", world->dir.path);
    assert_int_equal(rename(world->dir.path, moved), 0);
    FILE *in_the_way = fopen(world->dir.path, "w");
    fclose(in_the_way);

    assert_int_equal(state_reopen(world->state), ERR_STORAGE);
    assert_string_not_equal(state_error(world->state), "");
    assert_int_equal(state_get(world->state, STATE_META, BYTES("a"), &got), ERR_STORAGE);
    put(world, STATE_META, "b", "2");
    assert_int_equal(state_write(world->state, world->batch), ERR_STORAGE);
    assert_int_equal(state_flush(world->state), ERR_STORAGE);
    assert_int_equal(state_disk_bytes(world->state), 0);

    assert_int_equal(unlink(world->dir.path), 0);
    assert_int_equal(rename(moved, world->dir.path), 0);
    assert_int_equal(state_reopen(world->state), ERR_OK);
    expect_stored(world, STATE_META, "a", "1");
    put_now(world, STATE_META, "b", "3");
    expect_stored(world, STATE_META, "b", "3");
    buf_release(&got);
}

static void a_state_that_cannot_be_opened_says_why(void **state)
{
    struct world *world = *state;
    struct state *other;
    struct reason why;
    struct state_config config = world->config; /* locked by ourselves */
    assert_int_equal(state_open(&other, &config, &why), ERR_STORAGE);
    assert_null(other);
    assert_non_null(strstr(why.text, "lock"));
}

static void an_identity_is_kept_and_never_shared(void **state)
{
    struct world *world = *state;
    uint64_t identity = state_identity(world->state);
    struct world other = {.config = world->config};
    world_restart(world);
    assert_true(state_identity(world->state) == identity);
    scratch_dir_init(&other.dir);
    other.config.dir = other.dir.path;
    world_open(&other);
    assert_true(state_identity(other.state) != identity);
    world_close(&other);
    scratch_dir_release(&other.dir);
}

/* ---- threads ---- */

static void *read_for_a_while(void *context)
{
    struct world *world = context;
    struct buf got;
    buf_init(&got, 64);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(state_get(world->state, STATE_META, BYTES("a"), &got), ERR_OK);
    buf_release(&got);
    return NULL;
}

static void readers_wait_for_a_reopen_and_see_no_error(void **state)
{
    struct world *world = *state;
    pthread_t readers[3];
    put_now(world, STATE_META, "a", "1");
    assert_int_equal(state_flush(world->state), ERR_OK);
    for (int i = 0; i < 3; i++)
        pthread_create(&readers[i], NULL, read_for_a_while, world);
    for (int i = 0; i < 3; i++)
        assert_int_equal(state_reopen(world->state), ERR_OK);
    for (int i = 0; i < 3; i++)
        pthread_join(readers[i], NULL);
}

/* Two readers that take over from each other: one leaves only once the other is inside, or does
 * not come in. So the state is never without a reader, unless readers wait for a writer. */
struct relay {
    struct world *world;
    _Atomic unsigned inside[2]; /* how often each came in */
    _Atomic bool reopened;
};

struct runner {
    struct relay *relay;
    unsigned me;
    pthread_t thread;
};

static void wait_for_the_other(struct relay *relay, unsigned other)
{
    unsigned seen = relay->inside[other];
    for (unsigned i = 0; i < 200 && relay->inside[other] == seen && !relay->reopened; i++)
        usleep(100);
}

static void *run_relay(void *context)
{
    struct runner *runner = context;
    struct relay *relay = runner->relay;
    for (unsigned round = 0; round < RELAY_ROUNDS && !relay->reopened; round++) {
        struct state_view *view;
        must(state_view_new(&view, relay->world->state) == ERR_OK);
        relay->inside[runner->me]++;
        wait_for_the_other(relay, !runner->me);
        state_view_free(view);
    }
    return NULL;
}

static void a_reopen_comes_in_between_readers_that_never_pause(void **state)
{
    struct relay relay = {.world = *state};
    struct runner runners[2] = {{&relay, 0, 0}, {&relay, 1, 0}};
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&runners[i].thread, NULL, run_relay, &runners[i]);
    while (relay.inside[0] < 2 || relay.inside[1] < 2)
        usleep(100);
    assert_int_equal(state_reopen(relay.world->state), ERR_OK);
    relay.reopened = true;
    for (unsigned i = 0; i < 2; i++)
        pthread_join(runners[i].thread, NULL);
    assert_true(relay.inside[0] < RELAY_ROUNDS && relay.inside[1] < RELAY_ROUNDS);
}

/* ---- a torn MANIFEST ---- */

static void manifest_path(const struct world *world, char path[512])
{
    char name[64];
    snprintf(path, 512, "%s/CURRENT", world->dir.path);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_non_null(fgets(name, sizeof name, file));
    fclose(file);
    name[strcspn(name, "\n")] = '\0';
    snprintf(path, 512, "%s/%s", world->dir.path, name);
}

static void append_to(const char *path, const void *bytes, size_t size)
{
    FILE *file = fopen(path, "ae");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* The end of an append of which some sectors reached the disk and some did not. A power-cut run met
 * it: a server that would not start again. */
static void law_5_a_torn_end_of_the_manifest_is_as_if_it_had_never_been(void **state)
{
    static const unsigned char torn[700] = {0x11, 0x22, 0x33, 0x44, 103, 0, 1, 2, 0x75};
    struct world *world = *state;
    char path[512];
    put_in_all(world, "1");
    assert_int_equal(state_flush(world->state), ERR_OK);
    world_close(world);
    manifest_path(world, path);
    append_to(path, torn, sizeof torn);
    world_open(world);
    for (int i = 0; i < STATE_FAMILY_COUNT; i++)
        expect_stored(world, (enum state_family)i, every_key, "1");
}

static void read_file(const char *path, long from, void *bytes, size_t size)
{
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    assert_int_equal(fseek(file, from, SEEK_SET), 0);
    assert_int_equal(fread(bytes, 1, size, file), size);
    fclose(file);
}

static size_t size_of(const char *path)
{
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    return (size_t)status.st_size;
}

static void what_is_cut_off_the_manifest_is_kept_beside_it(void **state)
{
    static const unsigned char torn[700] = {0x11, 0x22, 0x33, 0x44, 103, 0, 1, 2, 0x75};
    struct world *world = *state;
    char path[512];
    char kept[600];
    char bytes[sizeof torn];
    world_close(world);
    manifest_path(world, path);
    size_t end = size_of(path);
    append_to(path, torn, sizeof torn);
    world_open(world);
    snprintf(kept, sizeof kept, "%s.torn-%zu", path, end);
    assert_int_equal(size_of(kept), sizeof torn);
    read_file(kept, 0, bytes, sizeof bytes);
    assert_memory_equal(bytes, torn, sizeof torn);
    world_restart(world); /* and stays, though RocksDB removes what it takes for its own */
    assert_int_equal(size_of(kept), sizeof torn);
}

/* One append may hold several records (a flush of all families does), so of a torn one a later
 * record may be whole: then a sector before it never came. */
static void law_5_a_whole_record_behind_a_lost_sector_is_part_of_the_torn_append(void **state)
{
    struct world *world = *state;
    char path[512];
    char record[64];
    static const char lost[1024];
    put_in_all(world, "1");
    assert_int_equal(state_flush(world->state), ERR_OK);
    world_close(world);
    manifest_path(world, path);
    size_t end = size_of(path);
    read_file(path, 0, record, sizeof record); /* the first record, and more */
    append_to(path, lost, 1024 - end % 512);
    append_to(path, record, sizeof record);
    world_open(world);
    for (int i = 0; i < STATE_FAMILY_COUNT; i++)
        expect_stored(world, (enum state_family)i, every_key, "1");
}

static void flip_byte(const char *path, long at)
{
    char byte;
    read_file(path, at, &byte, 1);
    FILE *file = fopen(path, "r+e");
    assert_non_null(file);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 1, file), (unsigned char)(byte ^ 1));
    assert_int_equal(fclose(file), 0);
}

static void a_bad_record_of_the_manifest_with_good_ones_after_it_is_damage(void **state)
{
    struct world *world = *state;
    char path[512];
    struct reason why;
    put_in_all(world, "1");
    assert_int_equal(state_flush(world->state), ERR_OK);
    world_close(world);
    manifest_path(world, path);
    size_t size = size_of(path);
    flip_byte(path, (long)size / 2);
    assert_int_equal(state_open(&world->state, &world->config, &why), ERR_STORAGE);
    assert_non_null(strstr(why.text, "is damaged at byte"));
    assert_non_null(strstr(why.text, "good records follow"));
    assert_int_equal(size_of(path), size);
    flip_byte(path, (long)size / 2); /* nothing else was changed */
    world_open(world);
    for (int i = 0; i < STATE_FAMILY_COUNT; i++)
        expect_stored(world, (enum state_family)i, every_key, "1");
}

static void more_than_an_append_is_damage_and_stays_as_it_is(void **state)
{
    struct world *world = *state;
    char path[512];
    struct reason why;
    char *rot = must_calloc(1, 70000);
    struct stat before;
    struct stat after;
    memset(rot, 0x5a, 70000);
    world_close(world);
    manifest_path(world, path);
    append_to(path, rot, 70000);
    free(rot);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(state_open(&world->state, &world->config, &why), ERR_STORAGE);
    assert_non_null(strstr(why.text, "MANIFEST"));
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(truncate(path, before.st_size - 70000), 0);
    world_open(world);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "flush") == 0) return flush_for_ever(argv[2]);
    const struct CMUnitTest tests[] = {
        TEST(law_4_what_was_not_flushed_is_gone_after_a_close),
        TEST(law_5_what_was_flushed_survives_in_all_families),
        TEST(law_5_a_flush_reaches_a_family_alone),
        TEST(law_5_an_unasked_flush_keeps_batches_whole),
        TEST(law_5_a_kill_during_a_flush_keeps_batches_whole),
        TEST(the_fate_of_a_batch_is_known),
        TEST(a_reopened_state_takes_batches_made_before),
        TEST(a_failed_reopen_answers_errors_until_one_succeeds),
        TEST(a_state_that_cannot_be_opened_says_why),
        TEST(law_5_a_torn_end_of_the_manifest_is_as_if_it_had_never_been),
        TEST(what_is_cut_off_the_manifest_is_kept_beside_it),
        TEST(law_5_a_whole_record_behind_a_lost_sector_is_part_of_the_torn_append),
        TEST(a_bad_record_of_the_manifest_with_good_ones_after_it_is_damage),
        TEST(more_than_an_append_is_damage_and_stays_as_it_is),
        TEST(an_identity_is_kept_and_never_shared),
        TEST(readers_wait_for_a_reopen_and_see_no_error),
        TEST(a_reopen_comes_in_between_readers_that_never_pause),
    };
    return cmocka_run_group_tests_name("state_durable", tests, NULL, NULL);
}
