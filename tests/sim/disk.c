/* disk.c -- see disk.h. */
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crash.h"
#include "picture.h"
#include "support/io_sim.h"

enum { JOURNAL, IDS, ARCHIVE, PLACES }; /* io_sim knows one directory each */

struct disk {
    struct io io;
    char dir[256];
    struct io_sim *sims[PLACES];
    struct io_sim *pictures[PLACES]; /* NULL: none was taken */
    unsigned moments_left;           /* 0: not armed */
    bool syncs_only;
    void (*taken)(void *context);
    void *taken_context;
    void (*syncing)(void *context);
    void *syncing_context;
};

#define DISKS_MAX 4

static struct disk *disks[DISKS_MAX]; /* crash points do not say whose they are */

/* ---- the camera ---- */

static void state_path(const struct disk *disk, char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/%s", disk->dir, name);
}

/* What RocksDB cannot write (disk_state_readonly) the picture's copy can. */
static void take_state(const struct disk *disk)
{
    char from[300], to[300];
    struct rlimit before;
    state_path(disk, from, sizeof from, "state");
    state_path(disk, to, sizeof to, "picture");
    remove_tree(to);
    must(getrlimit(RLIMIT_FSIZE, &before) == 0);
    disk_state_readonly(false);
    picture_take(from, to);
    must(setrlimit(RLIMIT_FSIZE, &before) == 0);
}

void disk_shoot(struct disk *disk)
{
    take_state(disk);
    for (unsigned i = 0; i < PLACES; i++)
        disk->pictures[i] = io_sim_copy(disk->sims[i]);
}

static void take_picture(struct disk *disk)
{
    disk_shoot(disk);
    disk->taken(disk->taken_context);
}

static void count_moment(struct disk *disk)
{
    if (disk->moments_left == 0) return;
    if (--disk->moments_left == 0) take_picture(disk);
}

static void pass_moment(struct disk *disk)
{
    if (!disk->syncs_only) count_moment(disk);
}

/* Instead of base/crash.c: its file is not linked, because the simulator has these names. */
bool crash_armed = true;

void crash_pass(const char *name)
{
    (void)name;
    for (unsigned i = 0; i < DISKS_MAX; i++)
        if (disks[i]) pass_moment(disks[i]);
}

void disk_arm(struct disk *disk, unsigned nth, bool syncs_only, void (*taken)(void *context),
              void *context)
{
    must(nth > 0);
    must(!disk->pictures[0]);
    disk->moments_left = nth;
    disk->syncs_only = syncs_only;
    disk->taken = taken;
    disk->taken_context = context;
}

bool disk_disarm(struct disk *disk)
{
    disk->moments_left = 0;
    return disk->pictures[0] != NULL;
}

static void drop_picture(struct disk *disk)
{
    for (unsigned i = 0; i < PLACES; i++) {
        if (disk->pictures[i]) io_sim_free(disk->pictures[i]);
        disk->pictures[i] = NULL;
    }
}

static void go_back_to_picture(struct disk *disk)
{
    char from[300], to[300];
    state_path(disk, from, sizeof from, "picture");
    state_path(disk, to, sizeof to, "state");
    remove_tree(to);
    must(rename(from, to) == 0);
    for (unsigned i = 0; i < PLACES; i++) {
        io_sim_free(disk->sims[i]);
        disk->sims[i] = disk->pictures[i];
        disk->pictures[i] = NULL;
    }
}

void disk_crash(struct disk *disk, bool power_cut, struct dice *dice)
{
    disk->moments_left = 0;
    if (disk->pictures[0]) go_back_to_picture(disk);
    for (unsigned i = 0; i < PLACES; i++) {
        if (power_cut)
            io_sim_crash(disk->sims[i], dice_throw(dice));
        else
            io_sim_kill(disk->sims[i]);
    }
}

/* ---- faults ---- */

void disk_break(struct disk *disk, struct dice *dice)
{
    struct io_sim *sim = disk->sims[dice_chance(dice, 80)   ? JOURNAL
                                    : dice_chance(dice, 50) ? IDS
                                                            : ARCHIVE];
    enum io_sim_loss loss = (enum io_sim_loss)dice_below(dice, IO_SIM_LOSSES);
    switch (dice_below(dice, 4)) {
    case 0:
        io_sim_fail_sync(sim, 1 + dice_below(dice, 3), loss);
        break;
    case 1:
        io_sim_room(sim, io_sim_bytes(sim) + dice_below(dice, 20) * IO_ALIGN);
        break;
    default:
        io_sim_fail(sim, 1 + dice_below(dice, 8), dice_chance(dice, 50) ? EIO : ENOSPC, loss);
    }
    if (dice_chance(dice, 10)) io_sim_fail_read(sim, 1 + dice_below(dice, 8), EIO);
}

uint64_t disk_reads_failed(const struct disk *disk)
{
    uint64_t failed = 0;
    for (unsigned i = 0; i < PLACES; i++)
        failed += io_sim_reads_failed(disk->sims[i]);
    return failed;
}

/* A file size limit of nothing makes every write of a file fail; the simulated ones are none. */
void disk_state_readonly(bool readonly)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    must(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = readonly ? 0 : limit.rlim_max;
    must(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

void disk_heal(struct disk *disk)
{
    for (unsigned i = 0; i < PLACES; i++)
        io_sim_heal(disk->sims[i]);
}

/* ---- struct io, passed on; descriptors say by their remainder where they belong ---- */

static struct disk *disk_of(struct io *io)
{
    return (struct disk *)(void *)io; /* its first member */
}

static unsigned place_of(const char *path)
{
    return strstr(path, "/ids") ? IDS : strstr(path, "/archive") ? ARCHIVE : JOURNAL;
}

static struct io *place_io(struct io *io, unsigned place)
{
    return io_sim_io(disk_of(io)->sims[place]);
}

static struct io *fd_io(struct io *io, int fd)
{
    return place_io(io, (unsigned)fd % PLACES);
}

static int disk_open(struct io *io, const char *path, bool create, bool direct)
{
    if (create) pass_moment(disk_of(io));
    unsigned place = place_of(path);
    struct io *sim = place_io(io, place);
    int fd = sim->ops->open(sim, path, create, direct);
    return fd < 0 ? fd : fd * PLACES + (int)place;
}

static int disk_close(struct io *io, int fd)
{
    return fd_io(io, fd)->ops->close(fd_io(io, fd), fd / PLACES);
}

static int disk_reserve(struct io *io, int fd, uint64_t size)
{
    pass_moment(disk_of(io));
    return fd_io(io, fd)->ops->reserve(fd_io(io, fd), fd / PLACES, size);
}

static int64_t disk_size(struct io *io, int fd)
{
    return fd_io(io, fd)->ops->size(fd_io(io, fd), fd / PLACES);
}

static int64_t disk_read(struct io *io, int fd, void *data, size_t size, uint64_t offset)
{
    return fd_io(io, fd)->ops->read(fd_io(io, fd), fd / PLACES, data, size, offset);
}

static int64_t disk_write(struct io *io, int fd, const void *data, size_t size, uint64_t offset)
{
    pass_moment(disk_of(io));
    return fd_io(io, fd)->ops->write(fd_io(io, fd), fd / PLACES, data, size, offset);
}

static int disk_sync(struct io *io, int fd)
{
    struct disk *disk = disk_of(io);
    bool journal = fd % PLACES == JOURNAL;
    if (journal || !disk->syncs_only) count_moment(disk);
    if (journal && disk->syncing) disk->syncing(disk->syncing_context);
    return fd_io(io, fd)->ops->sync(fd_io(io, fd), fd / PLACES);
}

static int disk_sync_dir(struct io *io, const char *path)
{
    pass_moment(disk_of(io));
    struct io *sim = place_io(io, place_of(path));
    return sim->ops->sync_dir(sim, path);
}

static int disk_rename(struct io *io, const char *from, const char *to)
{
    pass_moment(disk_of(io));
    struct io *sim = place_io(io, place_of(from));
    return sim->ops->rename(sim, from, to);
}

static int disk_unlink(struct io *io, const char *path)
{
    pass_moment(disk_of(io));
    struct io *sim = place_io(io, place_of(path));
    return sim->ops->unlink(sim, path);
}

static int disk_list(struct io *io, const char *path, void (*visit)(void *, const char *),
                     void *context)
{
    struct io *sim = place_io(io, place_of(path));
    return sim->ops->list(sim, path, visit, context);
}

static const struct io_ops disk_ops = {
    .open = disk_open,
    .close = disk_close,
    .reserve = disk_reserve,
    .size = disk_size,
    .read = disk_read,
    .write = disk_write,
    .sync = disk_sync,
    .sync_dir = disk_sync_dir,
    .rename = disk_rename,
    .unlink = disk_unlink,
    .list = disk_list,
};

/* ---- the rest ---- */

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A reserve that is there already, if only by name, is not made: sixteen zeroed megabytes a seed
 * are all that it would change. */
static void make_reserve(const struct disk *disk)
{
    char path[300];
    state_path(disk, path, sizeof path, "RESERVE");
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    must(fd >= 0);
    close(fd);
}

struct disk *disk_new(const char *dir)
{
    struct disk *disk = must_calloc(1, sizeof *disk);
    disk->io.ops = &disk_ops;
    snprintf(disk->dir, sizeof disk->dir, "%s", dir);
    remove_tree(dir);
    must(mkdir(dir, 0700) == 0);
    make_reserve(disk);
    for (unsigned i = 0; i < PLACES; i++)
        disk->sims[i] = io_sim_new();
    unsigned place = 0;
    while (disks[place])
        must(++place < DISKS_MAX);
    disks[place] = disk;
    return disk;
}

void disk_free(struct disk *disk)
{
    if (!disk) return;
    drop_picture(disk);
    for (unsigned i = 0; i < PLACES; i++)
        io_sim_free(disk->sims[i]);
    remove_tree(disk->dir);
    for (unsigned i = 0; i < DISKS_MAX; i++)
        if (disks[i] == disk) disks[i] = NULL;
    free(disk);
}

const char *disk_dir(const struct disk *disk)
{
    return disk->dir;
}

struct io *disk_io(struct disk *disk)
{
    return &disk->io;
}

void disk_watch(struct disk *disk, void (*syncing)(void *context), void *context)
{
    disk->syncing = syncing;
    disk->syncing_context = context;
}

/* Instead of the C library's: the store's secret decides which shard things fall into, so a seed
 * would not be the same twice. Any thread may ask. */
static _Atomic uint64_t random_next;

void disk_seed_random(uint64_t seed)
{
    random_next = seed;
}

ssize_t getrandom(void *buffer, size_t size, unsigned flags)
{
    (void)flags;
    for (size_t i = 0; i < size; i++) {
        struct dice dice = {random_next++};
        ((unsigned char *)buffer)[i] = (unsigned char)dice_throw(&dice);
    }
    return (ssize_t)size;
}
