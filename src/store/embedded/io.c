/* io.c -- io_system: the kernel's files, and what is made of them.
 *
 * Interrupted calls are repeated and partial transfers finished, so that callers see "whole or
 * error". A failed sync is reported, never repeated: after one the kernel may have dropped the
 * dirty pages and would say yes the second time. */
#include "store/embedded/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHRINK_STEP (16 << 20)

static int system_open(struct io *io, const char *path, bool create, bool direct)
{
    (void)io;
    int flags = O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0);
    int fd = open(path, flags | (direct ? O_DIRECT : 0), 0640);
    if (fd < 0 && direct && errno == EINVAL) fd = open(path, flags, 0640); /* tmpfs, for one */
    return fd < 0 ? -errno : fd;
}

static int system_close(struct io *io, int fd)
{
    (void)io;
    return close(fd) < 0 ? -errno : 0;
}

/* Where the file system has no fallocate glibc writes a byte into every block instead. */
static int system_reserve(struct io *io, int fd, uint64_t size)
{
    (void)io;
    int error;
    do
        error = posix_fallocate(fd, 0, (off_t)size);
    while (error == EINTR);
    return -error;
}

static int64_t system_size(struct io *io, int fd)
{
    (void)io;
    struct stat status;
    return fstat(fd, &status) < 0 ? -errno : (int64_t)status.st_size;
}

static int64_t system_read(struct io *io, int fd, void *data, size_t size, uint64_t offset)
{
    (void)io;
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(fd, (char *)data + done, size - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return -errno;
        if (got == 0) break;
        done += (size_t)got;
        /* An unaligned count from a direct file is its end; going on from there is not allowed. */
        if (done % IO_ALIGN != 0 && size % IO_ALIGN == 0) break;
    }
    return (int64_t)done;
}

static int64_t system_write(struct io *io, int fd, const void *data, size_t size, uint64_t offset)
{
    (void)io;
    size_t done = 0;
    while (done < size) {
        ssize_t put = pwrite(fd, (const char *)data + done, size - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return -errno;
        if (put == 0) return -EIO;
        done += (size_t)put;
    }
    return (int64_t)done;
}

static int system_sync(struct io *io, int fd)
{
    (void)io;
    return fdatasync(fd) < 0 ? -errno : 0;
}

static int system_sync_dir(struct io *io, const char *path)
{
    (void)io;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int result = fsync(fd) < 0 ? -errno : 0;
    close(fd);
    return result;
}

static int system_rename(struct io *io, const char *from, const char *to)
{
    (void)io;
    return rename(from, to) < 0 ? -errno : 0;
}

/* A file that was linked elsewhere, by a snapshot or by hand, stays as it is. */
static void system_shrink(struct io *io, int fd)
{
    (void)io;
    struct stat status;
    if (fstat(fd, &status) < 0 || status.st_nlink > 0) return;
    for (off_t size = status.st_size; size > 0;) {
        size = size > SHRINK_STEP ? size - SHRINK_STEP : 0;
        if (ftruncate(fd, size) < 0 || fdatasync(fd) < 0) return;
    }
}

static int system_unlink(struct io *io, const char *path)
{
    (void)io;
    return unlink(path) < 0 ? -errno : 0;
}

/* Some file systems do not tell the type in the directory entry. */
static bool is_plain_file(int dir, const struct dirent *entry)
{
    if (entry->d_type != DT_UNKNOWN) return entry->d_type == DT_REG;
    struct stat status;
    if (fstatat(dir, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0) return false;
    return S_ISREG(status.st_mode);
}

static int system_list(struct io *io, const char *path, void (*visit)(void *, const char *),
                       void *context)
{
    (void)io;
    DIR *dir = opendir(path);
    if (!dir) return -errno;
    struct dirent *entry;
    while (errno = 0, (entry = readdir(dir)) != NULL)
        if (is_plain_file(dirfd(dir), entry)) visit(context, entry->d_name);
    int result = -errno;
    closedir(dir);
    return result;
}

static const struct io_ops system_ops = {
    .open = system_open,
    .close = system_close,
    .reserve = system_reserve,
    .size = system_size,
    .read = system_read,
    .write = system_write,
    .sync = system_sync,
    .sync_dir = system_sync_dir,
    .rename = system_rename,
    .unlink = system_unlink,
    .shrink = system_shrink,
    .list = system_list,
};

struct io io_system = {&system_ops};

int io_remove(struct io *io, const char *dir, const char *path)
{
    int fd = io->ops->shrink ? io->ops->open(io, path, false, false) : -1;
    int result = io->ops->unlink(io, path);
    if (result == 0) result = io->ops->sync_dir(io, dir);
    if (result == 0 && fd >= 0) io->ops->shrink(io, fd);
    if (fd >= 0) io->ops->close(io, fd);
    return result;
}
