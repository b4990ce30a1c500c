/* disk.c -- goes by the path, and marks the real disk's descriptors. */
#include "support/disk.h"

#include <string.h>

#define REAL (1 << 20) /* added to descriptors of real files */

static struct io *of_path(struct io *io, const char *path)
{
    struct disk *disk = (struct disk *)io; /* its first member */
    return strstr(path, "/journal") ? io_sim_io(disk->sim) : &io_system;
}

static struct io *of_fd(struct io *io, int *fd)
{
    struct disk *disk = (struct disk *)io;
    if (*fd < REAL) return io_sim_io(disk->sim);
    *fd -= REAL;
    return &io_system;
}

static int disk_open(struct io *io, const char *path, bool create, bool direct)
{
    struct io *below = of_path(io, path);
    int fd = below->ops->open(below, path, create, direct);
    return fd >= 0 && below == &io_system ? fd + REAL : fd;
}

static int disk_close(struct io *io, int fd)
{
    struct io *below = of_fd(io, &fd);
    return below->ops->close(below, fd);
}

static int disk_reserve(struct io *io, int fd, uint64_t size)
{
    struct io *below = of_fd(io, &fd);
    return below->ops->reserve(below, fd, size);
}

static int64_t disk_size(struct io *io, int fd)
{
    struct io *below = of_fd(io, &fd);
    return below->ops->size(below, fd);
}

static int64_t disk_read(struct io *io, int fd, void *data, size_t size, uint64_t offset)
{
    struct io *below = of_fd(io, &fd);
    return below->ops->read(below, fd, data, size, offset);
}

static int64_t disk_write(struct io *io, int fd, const void *data, size_t size, uint64_t offset)
{
    struct io *below = of_fd(io, &fd);
    return below->ops->write(below, fd, data, size, offset);
}

static int disk_sync(struct io *io, int fd)
{
    struct io *below = of_fd(io, &fd);
    return below->ops->sync(below, fd);
}

static int disk_sync_dir(struct io *io, const char *path)
{
    struct io *below = of_path(io, path);
    return below->ops->sync_dir(below, path);
}

static int disk_rename(struct io *io, const char *from, const char *to)
{
    struct io *below = of_path(io, from);
    return below->ops->rename(below, from, to);
}

static int disk_unlink(struct io *io, const char *path)
{
    struct io *below = of_path(io, path);
    return below->ops->unlink(below, path);
}

static int disk_list(struct io *io, const char *path, void (*visit)(void *, const char *),
                     void *context)
{
    struct io *below = of_path(io, path);
    return below->ops->list(below, path, visit, context);
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

void disk_init(struct disk *disk)
{
    disk->io.ops = &disk_ops;
    disk->sim = io_sim_new();
}

void disk_release(struct disk *disk)
{
    io_sim_free(disk->sim);
}
