/* test_archive_crash.c -- a run is there whole or not at all, whatever fails.
 *
 * First each call of one seal in turn, failing in each way and with the power cut after it; then
 * random lives of runs, drops, faults, kills and power cuts. ARCHIVE_SEED=n runs one life alone,
 * ARCHIVE_SEEDS=n as many. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>

#include "base/log.h"
#include "support/archive_world.h"

#define BEFORE 100u /* sealed before the trouble */
#define LAST 400u

static struct archive_world world;

static int set_up(void **state)
{
    (void)state;
    world_init(&world, 5);
    if (world_open(&world) != ERR_OK) return 1;
    return world_run(&world, BEFORE);
}

static int tear_down(void **state)
{
    (void)state;
    world_release(&world);
    return 0;
}

static void holds(struct archive_world *of, uint64_t last)
{
    assert_int_equal(archive_last(of->archive), last);
    struct archive_check check = check_all(of, BYTES_NONE);
    enum err e;
    assert_true(check_read(&check, of->archive, &e));
    assert_int_equal(e, ERR_OK);
    assert_int_equal(check.count, last - last / 7);
}

/* Calls that change something and that a seal without trouble makes. */
static uint64_t seal_calls(void)
{
    struct archive_world copy = world;
    copy.sim = io_sim_copy(world.sim);
    copy.config.io = io_sim_io(copy.sim);
    assert_int_equal(world_open(&copy), ERR_OK);
    uint64_t before = io_sim_calls(copy.sim);
    assert_int_equal(world_run(&copy, LAST), ERR_OK);
    uint64_t calls = io_sim_calls(copy.sim) - before;
    world_release(&copy);
    return calls;
}

/* The power is cut right after a failed seal, in many ways; with IO_SIM_KEPT also as if at the call
 * after the one that failed. */
static void cut_power_everywhere(uint64_t nth, enum io_sim_loss loss)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct archive_world copy = world;
        copy.sim = io_sim_copy(world.sim);
        copy.config.io = io_sim_io(copy.sim);
        assert_int_equal(world_open(&copy), ERR_OK);
        world_add(&copy, BEFORE + 1, LAST);
        io_sim_fail(copy.sim, nth, EIO, loss);
        assert_int_equal(archive_seal(copy.archive, LAST), ERR_STORAGE);
        holds(&copy, BEFORE);
        world_close(&copy);
        io_sim_crash(copy.sim, seed);
        assert_int_equal(world_open(&copy), ERR_OK);
        assert_null(io_sim_name(copy.sim, "events.tmp", 0));
        uint64_t last = archive_last(copy.archive);
        assert_true(last == BEFORE || last == LAST);
        holds(&copy, last);
        assert_int_equal(world_run(&copy, LAST + 100), ERR_OK);
        holds(&copy, LAST + 100);
        world_release(&copy);
    }
}

static void a_crash_at_any_call_of_a_seal_leaves_the_run_whole_or_absent(void **state)
{
    (void)state;
    uint64_t calls = seal_calls();
    assert_in_range(calls, 5, 1000);
    for (uint64_t nth = 1; nth <= calls; nth++)
        for (int loss = 0; loss < IO_SIM_LOSSES; loss++)
            cut_power_everywhere(nth, (enum io_sim_loss)loss);
}

/* The failing disk goes on failing, so that nothing is cleaned up either: as if the process had
 * ended at that call. */
struct dying {
    struct io io;
    struct io_sim *sim;
    uint64_t calls_max;
};

static struct dying dying;

static bool is_dead(void)
{
    return io_sim_calls(dying.sim) >= dying.calls_max;
}

static int64_t dying_write(struct io *io, int fd, const void *data, size_t size, uint64_t offset)
{
    (void)io;
    struct io *below = io_sim_io(dying.sim);
    return is_dead() ? -EIO : below->ops->write(below, fd, data, size, offset);
}

static int dying_sync(struct io *io, int fd)
{
    (void)io;
    struct io *below = io_sim_io(dying.sim);
    return is_dead() ? -EIO : below->ops->sync(below, fd);
}

static int dying_sync_dir(struct io *io, const char *path)
{
    (void)io;
    struct io *below = io_sim_io(dying.sim);
    return is_dead() ? -EIO : below->ops->sync_dir(below, path);
}

static int dying_rename(struct io *io, const char *from, const char *to)
{
    (void)io;
    struct io *below = io_sim_io(dying.sim);
    return is_dead() ? -EIO : below->ops->rename(below, from, to);
}

static int dying_unlink(struct io *io, const char *path)
{
    (void)io;
    struct io *below = io_sim_io(dying.sim);
    return is_dead() ? -EIO : below->ops->unlink(below, path);
}

static int dying_open(struct io *io, const char *path, bool create, bool direct)
{
    (void)io;
    struct io *below = io_sim_io(dying.sim);
    return is_dead() && create ? -EIO : below->ops->open(below, path, create, direct);
}

static int dying_close(struct io *io, int fd)
{
    (void)io;
    struct io *below = io_sim_io(dying.sim);
    return below->ops->close(below, fd);
}

static int64_t dying_size(struct io *io, int fd)
{
    (void)io;
    struct io *below = io_sim_io(dying.sim);
    return below->ops->size(below, fd);
}

static int64_t dying_read(struct io *io, int fd, void *data, size_t size, uint64_t offset)
{
    (void)io;
    struct io *below = io_sim_io(dying.sim);
    return below->ops->read(below, fd, data, size, offset);
}

static int dying_list(struct io *io, const char *path, void (*visit)(void *, const char *),
                      void *context)
{
    (void)io;
    struct io *below = io_sim_io(dying.sim);
    return below->ops->list(below, path, visit, context);
}

static struct io *dying_io(struct io_sim *sim, uint64_t calls)
{
    static const struct io_ops ops = {
        .open = dying_open,
        .close = dying_close,
        .size = dying_size,
        .read = dying_read,
        .write = dying_write,
        .sync = dying_sync,
        .sync_dir = dying_sync_dir,
        .rename = dying_rename,
        .unlink = dying_unlink,
        .list = dying_list,
    };
    dying = (struct dying){.io = {&ops}, .sim = sim, .calls_max = calls};
    return &dying.io;
}

static void dies_after(uint64_t calls, uint64_t seed)
{
    struct archive_world copy = world;
    copy.sim = io_sim_copy(world.sim);
    copy.config.io = dying_io(copy.sim, UINT64_MAX);
    assert_int_equal(world_open(&copy), ERR_OK);
    dying.calls_max = io_sim_calls(copy.sim) + calls;
    enum err e = world_run(&copy, LAST);
    holds(&copy, e != ERR_OK ? BEFORE : LAST);
    /* Nothing is added while the litter of a failed try is still there. */
    if (e != ERR_OK) assert_int_equal(archive_seal(copy.archive, LAST + 5), ERR_STORAGE);
    world_close(&copy);
    if (seed % 2)
        io_sim_crash(copy.sim, seed);
    else
        io_sim_kill(copy.sim);
    copy.config.io = io_sim_io(copy.sim);
    assert_int_equal(world_open(&copy), ERR_OK);
    uint64_t last = archive_last(copy.archive);
    assert_true(last == LAST || (e != ERR_OK && last == BEFORE));
    holds(&copy, last);
    world_close(&copy);
    io_sim_crash(copy.sim, seed + 100); /* what an opening has seen stays */
    assert_int_equal(world_open(&copy), ERR_OK);
    holds(&copy, last);
    assert_int_equal(world_run(&copy, LAST + 100), ERR_OK);
    world_release(&copy);
}

static void a_process_that_ends_at_any_call_leaves_the_run_whole_or_absent(void **state)
{
    (void)state;
    uint64_t calls = seal_calls();
    for (uint64_t nth = 0; nth <= calls; nth++)
        for (uint64_t seed = 0; seed < 12; seed++)
            dies_after(nth, seed);
}

static void recovers_after(uint64_t calls, uint64_t seed)
{
    struct archive_world copy = world;
    copy.sim = io_sim_copy(world.sim);
    copy.config.io = dying_io(copy.sim, UINT64_MAX);
    assert_int_equal(world_open(&copy), ERR_OK);
    dying.calls_max = io_sim_calls(copy.sim) + calls;
    assert_int_equal(world_run(&copy, LAST), ERR_STORAGE);
    dying.calls_max = UINT64_MAX;
    archive_abandon(copy.archive);
    assert_int_equal(world_run(&copy, LAST - 50), ERR_OK); /* a shorter run this time */
    assert_int_equal(world_run(&copy, LAST + 100), ERR_OK);
    world_close(&copy);
    io_sim_crash(copy.sim, seed);
    copy.config.io = io_sim_io(copy.sim);
    assert_int_equal(world_open(&copy), ERR_OK);
    holds(&copy, LAST + 100);
    world_release(&copy);
}

static void what_a_failed_try_left_behind_is_never_beside_the_next(void **state)
{
    (void)state;
    uint64_t calls = seal_calls();
    for (uint64_t nth = 0; nth < calls; nth++)
        for (uint64_t seed = 0; seed < 4; seed++)
            recovers_after(nth, seed);
}

static void a_failed_sync_shows_nothing_and_a_retry_works(void **state)
{
    (void)state;
    for (int loss = 0; loss < IO_SIM_LOSSES; loss++) {
        uint64_t before = archive_last(world.archive);
        world_add(&world, before + 1, before + 200);
        io_sim_fail_sync(world.sim, 1, (enum io_sim_loss)loss);
        assert_int_equal(archive_seal(world.archive, before + 200), ERR_STORAGE);
        holds(&world, before);
        assert_null(io_sim_name(world.sim, "events.tmp", 0));
        world_add(&world, before + 201, before + 250); /* what was added stayed */
        assert_int_equal(archive_seal(world.archive, before + 250), ERR_OK);
        holds(&world, before + 250);
    }
    world_close(&world);
    io_sim_crash(world.sim, 5);
    assert_int_equal(world_open(&world), ERR_OK);
    holds(&world, BEFORE + 750);
}

static void a_full_disk_refuses_the_run_until_there_is_room(void **state)
{
    (void)state;
    world.payload_max = 4000;
    uint64_t before = io_sim_bytes(world.sim);
    world_add(&world, BEFORE + 1, BEFORE + 1000);
    unsigned refused = 0;
    for (uint64_t room = 0;; room += 1 + room) {
        io_sim_room(world.sim, before + room);
        enum err sealed = archive_seal(world.archive, BEFORE + 1000);
        if (sealed == ERR_OK) break;
        assert_int_equal(sealed, ERR_STORAGE);
        assert_int_equal(io_sim_bytes(world.sim), before);
        refused++;
    }
    assert_true(refused > 8);
    struct archive_check check = check_all(&world, BYTES_NONE);
    check.query.after = BEFORE;
    enum err e;
    assert_true(check_read(&check, world.archive, &e));
    assert_int_equal(e, ERR_OK);
}

/* ---- random lives ---- */

struct life {
    struct archive_world world;
    uint64_t random;
    uint64_t acked;   /* sealed, as reported */
    uint64_t dropped; /* nothing up to here is promised */
};

static uint64_t draw(struct life *life, uint64_t below)
{
    return hash_mix(life->random += 0x9e3779b97f4a7c15u) % below;
}

static bool opens_right(struct life *life)
{
    enum err e = world_open(&life->world);
    if (e == ERR_STORAGE) { /* an injected fault; they come once */
        io_sim_heal(life->world.sim);
        e = world_open(&life->world);
    }
    if (e != ERR_OK || archive_last(life->world.archive) < life->acked) return false;
    life->acked = archive_last(life->world.archive);
    return true;
}

static bool reads_right(struct life *life)
{
    char tenant[32];
    struct archive_check check = check_all(&life->world, BYTES_NONE);
    snprintf(tenant, sizeof tenant, "tenant-%u", (unsigned)draw(life, 5));
    if (draw(life, 2)) check.query.tenant = bytes_str(tenant);
    check.query.after = life->dropped;
    check.query.budget = (size_t)draw(life, 100000);
    check.stop_every = draw(life, 3) ? 0 : 1 + draw(life, 100);
    enum err e;
    return check_read(&check, life->world.archive, &e) && e == ERR_OK;
}

static void seals(struct life *life)
{
    struct archive *archive = life->world.archive;
    uint64_t first = archive_last(archive) + 1, last = first + draw(life, 300);
    world_add(&life->world, first, last);
    for (unsigned attempt = 0; attempt < 3; attempt++) {
        enum err e = archive_seal(archive, last);
        if (e == ERR_OK) life->acked = last;
        if (e == ERR_OK || draw(life, 2)) break;
        if (draw(life, 2)) { /* a shorter run this time */
            archive_abandon(archive);
            last = first + (last - first) / 2;
            world_add(&life->world, first, last);
        }
    }
    archive_abandon(archive);
}

static void drops(struct life *life)
{
    struct archive_stats stats;
    archive_drop(life->world.archive, ARRIVED(draw(life, life->acked + 1)));
    archive_stats(life->world.archive, &stats);
    /* What is left begins with a record's sequence, from which its arrival follows. */
    uint64_t first = stats.first_arrived_ms ? (stats.first_arrived_ms - ARRIVED(0)) / 10 : 0;
    if (first > life->dropped) life->dropped = first - 1;
}

static bool step(struct life *life)
{
    struct io_sim *sim = life->world.sim;
    switch (draw(life, 8)) {
    case 0:
        io_sim_fail(sim, 1 + draw(life, 12), EIO, (enum io_sim_loss)draw(life, IO_SIM_LOSSES));
        return true;
    case 1:
        io_sim_room(sim, io_sim_bytes(sim) + draw(life, 30000));
        return true;
    case 2:
        drops(life);
        return true;
    case 3:
        world_close(&life->world);
        if (draw(life, 2))
            io_sim_crash(sim, draw(life, UINT64_MAX));
        else
            io_sim_kill(sim);
        return opens_right(life);
    case 4:
        return reads_right(life);
    default:
        seals(life);
        return true;
    }
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

static void what_was_sealed_comes_back_after_any_crash(void **state)
{
    (void)state;
    uint64_t first = setting("ARCHIVE_SEED", 1);
    uint64_t count = getenv("ARCHIVE_SEED") ? 1 : setting("ARCHIVE_SEEDS", 60);
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct life life = {.random = seed << 32};
        world_init(&life.world, 5);
        bool right = world_open(&life.world) == ERR_OK;
        for (unsigned i = 0; i < 60 && right; i++)
            right = step(&life);
        if (right) right = reads_right(&life);
        if (!right) fail_msg("seed %llu: %s", (unsigned long long)seed, life.world.why.text);
        world_release(&life.world);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    log_set_fd(open("/dev/null", O_WRONLY | O_CLOEXEC));
    const struct CMUnitTest tests[] = {
        TEST(a_crash_at_any_call_of_a_seal_leaves_the_run_whole_or_absent),
        TEST(a_process_that_ends_at_any_call_leaves_the_run_whole_or_absent),
        TEST(what_a_failed_try_left_behind_is_never_beside_the_next),
        TEST(a_failed_sync_shows_nothing_and_a_retry_works),
        TEST(a_full_disk_refuses_the_run_until_there_is_room),
        cmocka_unit_test(what_was_sealed_comes_back_after_any_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
