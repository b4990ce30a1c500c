/* test_archive.c -- what was added is read back, by page and by tenant, or ERR_CORRUPT is said. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/log.h"
#include "support/archive_world.h"
#include "support/scratch_dir.h"

static struct archive_world world;

static int set_up(void **state)
{
    (void)state;
    world_init(&world, 5);
    return world_open(&world);
}

static int tear_down(void **state)
{
    (void)state;
    world_release(&world);
    return 0;
}

static void runs(uint64_t size, uint64_t last)
{
    for (uint64_t upto = archive_last(world.archive) + size; upto <= last; upto += size)
        assert_int_equal(world_run(&world, upto), ERR_OK);
}

static uint64_t reads(struct archive_check check)
{
    enum err e;
    bool right = check_read(&check, world.archive, &e);
    assert_int_equal(e, ERR_OK);
    assert_true(right);
    return check.count;
}

static void reopens(void)
{
    world_close(&world);
    assert_int_equal(world_open(&world), ERR_OK);
}

static uint64_t reads_all(void)
{
    return reads(check_all(&world, BYTES_NONE));
}

static void what_was_sealed_is_read_back_before_and_after_a_restart(void **state)
{
    (void)state;
    assert_int_equal(archive_last(world.archive), 0);
    runs(700, 2100);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(archive_last(world.archive), 2100);
        assert_int_equal(reads_all(), 1800);
        uint64_t count = 0;
        for (unsigned i = 0; i < 5; i++) {
            char tenant[32];
            snprintf(tenant, sizeof tenant, "tenant-%u", i);
            count += reads(check_all(&world, bytes_str(tenant)));
        }
        assert_int_equal(count, 1800);
        reopens();
    }
}

static void ten_thousand_records_of_two_hundred_tenants_stay_apart(void **state)
{
    (void)state;
    world.tenants = 200;
    runs(3900, 11700);
    uint64_t count = 0;
    for (unsigned i = 0; i < 200; i++) {
        char tenant[32];
        snprintf(tenant, sizeof tenant, "tenant-%u", i);
        struct archive_check check = check_all(&world, bytes_str(tenant));
        check.query.budget = 20000;
        count += reads(check);
    }
    assert_int_equal(count, 11700 - 11700 / 7);
    assert_int_equal(reads(check_all(&world, BYTES("tenant-20x"))), 0);
    assert_int_equal(reads(check_all(&world, BYTES("tenant"))), 0);
    assert_int_equal(reads(check_all(&world, BYTES("zzz"))), 0);
    assert_int_equal(reads_all(), count);
}

static void a_small_budget_gives_small_pages_and_all_of_them(void **state)
{
    (void)state;
    world.payload_max = 4000;
    runs(500, 2000);
    struct archive_check check = check_all(&world, BYTES("tenant-1"));
    check.query.budget = 0;
    enum err e;
    assert_true(check_read(&check, world.archive, &e));
    assert_int_equal(e, ERR_OK);
    assert_true(check.calls > 8);
    assert_true(check.count > 300);
    struct archive_check whole = check_all(&world, BYTES_NONE);
    whole.query.budget = 1;
    assert_true(check_read(&whole, world.archive, &e));
    assert_int_equal(whole.calls, 4); /* a file each */
}

static void a_visitor_that_stops_has_visited_that_record(void **state)
{
    (void)state;
    runs(300, 900);
    struct archive_check check = check_all(&world, BYTES("tenant-3"));
    check.stop_every = 1;
    uint64_t each = reads(check);
    assert_int_equal(each, reads(check_all(&world, BYTES("tenant-3"))));
    struct archive_check all = check_all(&world, BYTES_NONE);
    all.stop_every = 50;
    reads(all);
}

static void after_upto_arrival_and_kind_choose(void **state)
{
    (void)state;
    runs(400, 1200);
    for (unsigned kinds = 0; kinds < 4; kinds++) {
        for (uint64_t after = 0; after < 1000; after += 171) {
            struct archive_check check = check_all(&world, BYTES("tenant-2"));
            check.query.events = kinds & 1;
            check.query.duplicates = kinds & 2;
            check.query.after = after;
            check.query.upto = after + 500;
            check.query.arrived_from = after % 2 ? ARRIVED(after + 100) : 0;
            uint64_t count = reads(check);
            assert_true((count == 0) == (kinds == 0));
            check.query.tenant = BYTES_NONE;
            assert_true(reads(check) >= count);
        }
    }
}

static void runs_without_a_record_move_the_end_on(void **state)
{
    (void)state;
    assert_int_equal(archive_seal(world.archive, 0), ERR_OK); /* a run of nothing */
    assert_int_equal(archive_last(world.archive), 0);
    assert_int_equal(archive_seal(world.archive, 50), ERR_OK);
    reopens();
    assert_int_equal(archive_last(world.archive), 50);
    struct archive_check check = check_all(&world, BYTES_NONE);
    uint64_t next = 1;
    assert_int_equal(archive_read(world.archive, &check.query, check_visit, &check, &next), ERR_OK);
    assert_int_equal(next, 0);
    assert_int_equal(check.count, 0);
    struct archive_stats stats;
    archive_stats(world.archive, &stats);
    assert_int_equal(stats.files, 1);
    assert_int_equal(stats.first_arrived_ms, 0);
}

static void an_abandoned_run_leaves_nothing(void **state)
{
    (void)state;
    runs(100, 100);
    world_add(&world, 101, 150);
    archive_abandon(world.archive);
    runs(20, 120);
    assert_int_equal(archive_last(world.archive), 120);
    reads_all();
}

static bool is_largest(void *context, const struct stored_event *event)
{
    unsigned *count = context;
    ++*count;
    return event->payload.size == EVENT_SIZE_MAX - 4 && event->payload.data[1] == 'x';
}

static void events_of_the_largest_size_fit(void **state)
{
    (void)state;
    static char payload[EVENT_SIZE_MAX - 4];
    memset(payload, 'x', sizeof payload);
    struct stored_event event = {.tenant = BYTES("large"),
                                 .id = BYTES("1"),
                                 .type = BYTES("t"),
                                 .dimensions_json = BYTES("{}"),
                                 .payload = bytes_of(payload, sizeof payload)};
    for (event.sequence = 1; event.sequence <= 10; event.sequence++)
        archive_add(world.archive, &event);
    world_add(&world, 11, 100);
    assert_int_equal(archive_seal(world.archive, 100), ERR_OK);
    struct archive_check check = check_all(&world, BYTES("large"));
    unsigned count = 0;
    uint64_t next;
    assert_int_equal(archive_read(world.archive, &check.query, is_largest, &count, &next), ERR_OK);
    assert_int_equal(count, 10);
    assert_int_equal(next, 0);
    check = check_all(&world, BYTES("tenant-0"));
    check.query.after = 10;
    assert_true(reads(check) > 0);
}

/* Of the text only 16 bytes are kept, wherever a record begins. */
static void uuids_take_as_much_as_they_say(void **state)
{
    (void)state;
    struct archive_record record;
    world.payload_max = 0;
    for (uint64_t sequence = 1; sequence <= 2000; sequence++) {
        record_make(&world, sequence, &record);
        uint64_t high = hash_mix(sequence), low = hash_mix(high);
        snprintf(record.id, sizeof record.id, "%08x-%04x-%04x-%04x-%012llx", (unsigned)high,
                 (unsigned)(high >> 32) & 0xffff, (unsigned)(high >> 48), (unsigned)low & 0xffff,
                 (unsigned long long)(low >> 16));
        record.event.id = bytes_str(record.id);
        assert_int_equal(record.event.id.size, 36);
        archive_add(world.archive, &record.event);
    }
    assert_int_equal(archive_seal(world.archive, 2000), ERR_OK);
    struct archive_stats stats;
    archive_stats(world.archive, &stats);
    assert_true(stats.bytes < 2000 * (16 + 36));
}

/* ---- dropping ---- */

static void dropping_takes_whole_old_files_and_never_the_newest(void **state)
{
    (void)state;
    runs(100, 500);
    archive_drop(world.archive, ARRIVED(200)); /* the second one's last record */
    struct archive_stats stats;
    archive_stats(world.archive, &stats);
    assert_int_equal(stats.files, 4);
    assert_int_equal(stats.first_arrived_ms, ARRIVED(101));
    assert_int_equal(stats.bytes, io_sim_bytes(world.sim));
    archive_drop(world.archive, INT64_MAX);
    archive_stats(world.archive, &stats);
    assert_int_equal(stats.files, 1);
    io_sim_crash(world.sim, 3); /* the unlinks were synced */
    reopens();
    assert_int_equal(archive_last(world.archive), 500);
    struct archive_check check = check_all(&world, BYTES_NONE);
    check.query.after = 400;
    assert_true(reads(check) > 80);
    runs(100, 700);
}

static void a_drop_that_failed_is_made_up_for_later(void **state)
{
    (void)state;
    runs(100, 500);
    for (int loss = 0; loss < IO_SIM_LOSSES; loss++) {
        io_sim_fail(world.sim, 1 + (uint64_t)loss, EIO, (enum io_sim_loss)loss);
        archive_drop(world.archive, ARRIVED(250));
    }
    io_sim_heal(world.sim);
    archive_drop(world.archive, ARRIVED(250));
    struct archive_stats stats;
    archive_stats(world.archive, &stats);
    assert_int_equal(stats.files, 3);
    struct archive_check check = check_all(&world, BYTES_NONE);
    check.query.after = 200;
    reads(check);
    reopens();
}

struct dropper {
    struct archive_check check;
    bool dropped;
};

static bool drop_while_visiting(void *context, const struct stored_event *event)
{
    struct dropper *dropper = context;
    if (!dropper->dropped) archive_drop(world.archive, INT64_MAX);
    dropper->dropped = true;
    return check_visit(&dropper->check, event);
}

static void a_reader_finishes_the_file_that_is_dropped_under_it(void **state)
{
    (void)state;
    runs(2000, 6000);
    struct dropper dropper = {.check = check_all(&world, BYTES("tenant-1"))};
    uint64_t next;
    assert_int_equal(
        archive_read(world.archive, &dropper.check.query, drop_while_visiting, &dropper, &next),
        ERR_OK);
    assert_int_equal(next, 0);
    /* All of the first file, nothing of the second, all of the last. */
    struct archive_check third = check_all(&world, BYTES("tenant-1"));
    third.query.after = 4000;
    uint64_t in_third = reads(third);
    assert_true(dropper.check.count > in_third + 250);
    assert_true(dropper.check.count < in_third + 450);
}

/* ---- damage ---- */

/* Whatever byte is turned: what is read is right as far as it goes, and then ERR_CORRUPT. Other
 * files are not concerned. */
static void no_damaged_byte_is_ever_read_as_something_else(void **state)
{
    (void)state;
    runs(100, 300);
    const char *name = io_sim_name(world.sim, "events-", 1);
    uint64_t size, silent = 0;
    const unsigned char *content = io_sim_content(world.sim, name, &size);
    uint64_t index_offset = get_u64(content + size - 72 + 16);
    for (uint64_t at = 0; at < size; at += 1 + at % 3) {
        world_close(&world);
        io_sim_damage(world.sim, name, at, (unsigned char)(1u << at % 8));
        assert_int_equal(world_open(&world), ERR_OK);
        assert_int_equal(archive_last(world.archive), 300);
        struct archive_check check = check_all(&world, BYTES_NONE);
        enum err e;
        assert_true(check_read(&check, world.archive, &e));
        assert_true(e == ERR_CORRUPT || e == ERR_OK);
        if (e == ERR_OK) {
            assert_in_range(at, 48, index_offset - 1);
            silent++;
        }
        if (e == ERR_CORRUPT) assert_in_range(check.at, 99, 100);
        check = check_all(&world, BYTES_NONE);
        check.query.after = 200;
        reads(check);
        io_sim_damage(world.sim, name, at, (unsigned char)(1u << at % 8));
    }
    reopens();
    reads_all();
    /* zstd does not use every bit of its frames' headers; the data came out right. */
    assert_in_range(silent, 0, 40);
}

static void the_log_names_the_damaged_file(void **state)
{
    (void)state;
    runs(100, 100);
    io_sim_damage(world.sim, io_sim_name(world.sim, "events-", 0), 100, 1);
    int fd = memfd_create("log", MFD_CLOEXEC), nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    log_set_fd(fd);
    struct archive_check check = check_all(&world, BYTES_NONE);
    enum err e;
    assert_true(check_read(&check, world.archive, &e));
    log_set_fd(nowhere);
    assert_int_equal(e, ERR_CORRUPT);
    char text[1000] = "";
    assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
    assert_non_null(strstr(text, io_sim_name(world.sim, "events-", 0)));
    close(fd);
}

static void a_damaged_file_goes_when_a_later_one_goes(void **state)
{
    (void)state;
    runs(100, 400);
    world_close(&world);
    io_sim_damage(world.sim, io_sim_name(world.sim, "events-", 0), 3, 1);
    io_sim_damage(world.sim, io_sim_name(world.sim, "events-", 2), 3, 1);
    assert_int_equal(world_open(&world), ERR_OK);
    struct archive_stats stats;
    archive_drop(world.archive, ARRIVED(50));
    archive_stats(world.archive, &stats);
    assert_int_equal(stats.files, 4);
    archive_drop(world.archive, ARRIVED(201));
    archive_stats(world.archive, &stats);
    assert_int_equal(stats.files, 2);
}

static void a_file_cut_short_is_damaged(void **state)
{
    (void)state;
    runs(100, 300);
    char name[64];
    snprintf(name, sizeof name, "%s", io_sim_name(world.sim, "events-", 1));
    uint64_t size;
    const unsigned char *content = io_sim_content(world.sim, name, &size);
    char *copy = must_alloc(size);
    memcpy(copy, content, size);
    struct io *io = world.config.io;
    for (uint64_t keep = 0; keep < size; keep += 1 + keep / 4) {
        world_close(&world);
        assert_int_equal(io->ops->unlink(io, name), 0);
        int fd = io->ops->open(io, name, true, false);
        if (keep) assert_int_equal(io->ops->write(io, fd, copy, keep, 0), keep);
        io->ops->close(io, fd);
        assert_int_equal(world_open(&world), ERR_OK);
        struct archive_check check = check_all(&world, BYTES("tenant-1"));
        enum err e;
        assert_true(check_read(&check, world.archive, &e));
        assert_int_equal(e, ERR_CORRUPT);
    }
    free(copy);
}

static void a_disk_that_does_not_read_is_no_damage(void **state)
{
    (void)state;
    runs(100, 300);
    for (uint64_t nth = 1; nth <= 4; nth++) {
        reopens();
        io_sim_fail_read(world.sim, nth, EIO);
        struct archive_check check = check_all(&world, BYTES("tenant-1"));
        enum err e;
        assert_true(check_read(&check, world.archive, &e));
        assert_int_equal(e, ERR_STORAGE);
        reads_all(); /* and it is not remembered */
    }
    world_close(&world);
    io_sim_fail_read(world.sim, 2, EIO);
    assert_int_equal(world_open(&world), ERR_STORAGE);
    assert_true(strlen(world.why.text) > 10);
    assert_int_equal(world_open(&world), ERR_OK);
}

/* ---- what an opening refuses ---- */

static void refuses(const char *sentence)
{
    world_close(&world);
    assert_int_equal(world_open(&world), ERR_CORRUPT);
    assert_null(world.archive);
    assert_non_null(strstr(world.why.text, sentence));
    assert_non_null(strstr(world.why.text, "events-"));
}

static void a_file_of_another_installation_is_refused(void **state)
{
    (void)state;
    runs(100, 200);
    world.config.installation = 8;
    refuses("another installation");
    world.config.installation = 7;
    assert_int_equal(world_open(&world), ERR_OK);
}

static void a_newer_format_is_refused(void **state)
{
    (void)state;
    runs(100, 200);
    const char *name = io_sim_name(world.sim, "events-", 1);
    uint64_t size;
    char header[48];
    memcpy(header, io_sim_content(world.sim, name, &size), sizeof header);
    put_u32(header + 8, 99);
    put_u64(header + 40, hash_checksum(bytes_of(header, 40)));
    struct io *io = world.config.io;
    int fd = io->ops->open(io, name, false, false);
    assert_int_equal(io->ops->write(io, fd, header, sizeof header, 0), sizeof header);
    io->ops->close(io, fd);
    refuses("does not know");
}

static void a_missing_file_is_noticed(void **state)
{
    (void)state;
    runs(100, 300);
    struct io *io = world.config.io;
    assert_int_equal(io->ops->unlink(io, io_sim_name(world.sim, "events-", 1)), 0);
    refuses("101 to 200 are missing");
    assert_int_equal(io->ops->unlink(io, io_sim_name(world.sim, "events-", 0)), 0);
    assert_int_equal(world_open(&world), ERR_OK); /* from the oldest end some may be gone */
}

static void a_file_under_another_name_is_damaged(void **state)
{
    (void)state;
    runs(100, 200);
    struct io *io = world.config.io;
    const char *last = io_sim_name(world.sim, "events-", 1);
    assert_int_equal(
        io->ops->rename(io, last, "archive/events-0000000000000065-00000000000000c9.tally"), 0);
    reopens();
    struct archive_check check = check_all(&world, BYTES_NONE);
    enum err e;
    assert_true(check_read(&check, world.archive, &e));
    assert_int_equal(e, ERR_CORRUPT);
}

static void other_names_in_the_directory_are_left_alone(void **state)
{
    (void)state;
    static const char *const names[] = {"events-", "events-1-2.tally", "README",
                                        "events-0000000000000002-0000000000000001.tally",
                                        "events-0000000000000000-0000000000000001.tally"};
    struct io *io = world.config.io;
    for (size_t i = 0; i < ARRAY_COUNT(names); i++)
        io->ops->close(io, io->ops->open(io, names[i], true, false));
    reopens();
    assert_int_equal(archive_last(world.archive), 0);
    assert_non_null(io_sim_name(world.sim, "README", 0));
}

/* ---- threads, on a real disk ---- */

struct crowd {
    struct archive_world world;
    atomic_bool done;
    atomic_uint_fast64_t wrong;
    atomic_uint_fast64_t reads;
};

static bool count_right(void *context, const struct stored_event *event)
{
    struct crowd *crowd = context;
    struct archive_record *record = must_alloc(sizeof *record);
    record_make(&crowd->world, event->sequence, record);
    if (!record_equal(event, &record->event)) atomic_fetch_add(&crowd->wrong, 1);
    free(record);
    return true;
}

static void *crowd_read(void *context)
{
    struct crowd *crowd = context;
    for (unsigned i = 0; !atomic_load(&crowd->done); i++) {
        char tenant[32];
        snprintf(tenant, sizeof tenant, "tenant-%u", i % 5);
        struct archive_check check = check_all(&crowd->world, bytes_str(tenant));
        if (i % 7 == 0) check.query.tenant = BYTES_NONE;
        uint64_t next;
        enum err e = archive_read(crowd->world.archive, &check.query, count_right, crowd, &next);
        if (e != ERR_OK) atomic_fetch_add(&crowd->wrong, 1);
        atomic_fetch_add(&crowd->reads, 1);
    }
    return NULL;
}

static void readers_go_on_while_runs_come_and_go(void **state)
{
    (void)state;
    struct scratch_dir dir;
    scratch_dir_init(&dir);
    static struct crowd crowd;
    world_init(&crowd.world, 5);
    crowd.world.config.io = &io_system;
    crowd.world.config.dir = dir.path;
    assert_int_equal(world_open(&crowd.world), ERR_OK);
    pthread_t threads[3];
    for (size_t i = 0; i < ARRAY_COUNT(threads); i++)
        pthread_create(&threads[i], NULL, crowd_read, &crowd);
    for (uint64_t last = 50; last <= 3000; last += 50) {
        assert_int_equal(world_run(&crowd.world, last), ERR_OK);
        if (last > 1500) archive_drop(crowd.world.archive, ARRIVED(last - 1500));
    }
    while (atomic_load(&crowd.reads) < 20)
        continue;
    atomic_store(&crowd.done, true);
    for (size_t i = 0; i < ARRAY_COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(crowd.wrong, 0);
    struct archive_stats stats;
    archive_stats(crowd.world.archive, &stats);
    assert_int_equal(stats.files, 31); /* the one up to 1500 is just as old as is kept */
    world_release(&crowd.world);
    scratch_dir_release(&dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
    const struct CMUnitTest tests[] = {
        TEST(what_was_sealed_is_read_back_before_and_after_a_restart),
        TEST(ten_thousand_records_of_two_hundred_tenants_stay_apart),
        TEST(a_small_budget_gives_small_pages_and_all_of_them),
        TEST(a_visitor_that_stops_has_visited_that_record),
        TEST(after_upto_arrival_and_kind_choose),
        TEST(runs_without_a_record_move_the_end_on),
        TEST(an_abandoned_run_leaves_nothing),
        TEST(events_of_the_largest_size_fit),
        TEST(uuids_take_as_much_as_they_say),
        TEST(dropping_takes_whole_old_files_and_never_the_newest),
        TEST(a_drop_that_failed_is_made_up_for_later),
        TEST(a_reader_finishes_the_file_that_is_dropped_under_it),
        TEST(no_damaged_byte_is_ever_read_as_something_else),
        TEST(the_log_names_the_damaged_file),
        TEST(a_damaged_file_goes_when_a_later_one_goes),
        TEST(a_file_cut_short_is_damaged),
        TEST(a_disk_that_does_not_read_is_no_damage),
        TEST(a_file_of_another_installation_is_refused),
        TEST(a_newer_format_is_refused),
        TEST(a_missing_file_is_noticed),
        TEST(a_file_under_another_name_is_damaged),
        TEST(other_names_in_the_directory_are_left_alone),
        TEST(readers_go_on_while_runs_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
