/* forget.c -- a preload library that writes down what a program does to its files, call by call, so
 * that a power cut can be played afterwards.
 *
 *     LD_PRELOAD=forget.so TALLY_FORGET_DIR=<absolute> TALLY_FORGET_LOG=<elsewhere> tally serve ...
 *
 * TALLY_FORGET_KILL=rename:3 kills the program just after its third rename, before it hears of it;
 * the kinds are named in `kind_names`.
 *
 * Every call that changes something below the directory, or makes it durable, is made and then
 * noted in the log. Nothing is kept in memory, so the program may die at any moment, by any hand:
 * the log, together with a copy of the directory from before the start, says what a disk would have
 * had to keep and what it could have lost (disk.mjs reads it; the format is at `struct record`).
 *
 * (1) A change is noted after the kernel has made it and before the program hears of it. A sync is
 *     noted before it begins and after it ends. So what is noted before a sync's beginning was
 *     there to be synced, and a program that acts on a sync acts after its end is in the log.
 * (2) Changes of names are noted in the order the kernel made them in.
 * (3) What is not understood (a mapping that can be written, a copied descriptor, ...) is not
 *     overlooked: it ends the process. A call that has no wrapper here at all is found by disk.mjs,
 *     which compares its idea of the directory with the directory.
 *
 * The wrappers make bare system calls, because looking up the next library's function is not safe
 * in the middle of a program's start; `fclose`, which is no system call, is looked up when it comes
 * to it. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define FILES_MAX 65536

enum kind {
    OPEN = 1,   /* value: flags; text: path */
    WRITE,      /* value: offset; text: the bytes */
    SIZE,       /* value: the size it has now */
    SYNC_BEGIN, /* of a file or a directory; value: its number, from 1 on */
    SYNC_END,   /* value: the same, negative if it failed */
    RENAME,     /* text: from, NUL, to */
    LINK,       /* the same */
    UNLINK,     /* text: path; a directory's too */
    MKDIR,      /* text: path */
};

static const char *const kind_names[] = {
    [OPEN] = "open",       [WRITE] = "write",   [SIZE] = "size",
    [SYNC_BEGIN] = "sync", [SYNC_END] = "done", [RENAME] = "rename",
    [LINK] = "link",       [UNLINK] = "unlink", [MKDIR] = "mkdir",
};

/* The log is a row of these, each followed by `size` bytes of text, in the machine's own order. */
struct record {
    uint32_t size;
    uint32_t kind;
    int64_t fd;
    int64_t value;
};

static const char *dir; /* NULL: nobody asked, every call is just passed on */
static size_t dir_size;
static int log_fd = -1;
static pthread_mutex_t log_mutex = PTHREAD_MUTEX_INITIALIZER;   /* one record at a time */
static pthread_mutex_t names_mutex = PTHREAD_MUTEX_INITIALIZER; /* taken before log_mutex */
static atomic_bool watched[FILES_MAX];                          /* by descriptor */
static const char *kill_kind;
static unsigned long kill_left; /* under log_mutex */

static _Noreturn void give_up(const char *what)
{
    char text[PATH_MAX + 64];
    int size = snprintf(text, sizeof text, "forget.so: %s\n", what);
    syscall(SYS_write, 2, text, size);
    abort();
}

__attribute__((constructor)) static void forget_start(void)
{
    const char *path = getenv("TALLY_FORGET_LOG");
    dir = getenv("TALLY_FORGET_DIR");
    if (!dir) return;
    if (!path) give_up("TALLY_FORGET_LOG is not set");
    dir_size = strlen(dir);
    int flags = O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC;
    log_fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);
    if (log_fd < 0) give_up("TALLY_FORGET_LOG cannot be opened");
    kill_kind = getenv("TALLY_FORGET_KILL");
    const char *colon = kill_kind ? strchr(kill_kind, ':') : NULL;
    kill_left = colon ? strtoul(colon + 1, NULL, 10) : 0;
}

/* Under log_mutex, which is never given back: this record is the last. */
static void kill_if_due(enum kind kind)
{
    size_t size = strlen(kind_names[kind]);
    if (kill_left == 0 || strncmp(kill_kind, kind_names[kind], size) != 0) return;
    if (kill_kind[size] == ':' && --kill_left == 0) raise(SIGKILL);
}

/* A kill may tear the last record; the mutex sees to it that nothing follows a torn one. */
static void note(enum kind kind, int fd, int64_t value, const void *text, size_t size)
{
    struct record record = {(uint32_t)size, kind, fd, value};
    struct iovec parts[] = {{&record, sizeof record}, {(void *)text, size}};
    int error = errno;
    pthread_mutex_lock(&log_mutex);
    ssize_t put = syscall(SYS_writev, log_fd, parts, 2);
    kill_if_due(kind);
    pthread_mutex_unlock(&log_mutex);
    if (put != (ssize_t)(sizeof record + size)) give_up("the log cannot be written");
    errno = error;
}

static bool is_watched(int fd)
{
    return fd >= 0 && fd < FILES_MAX && atomic_load_explicit(&watched[fd], memory_order_relaxed);
}

/* The absolute path, if it is ours. A relative one is ours only if its directory is open. */
static bool is_ours(int at, const char *path, char full[PATH_MAX])
{
    if (!dir) return false;
    if (path[0] == '/') {
        snprintf(full, PATH_MAX, "%s", path);
    } else {
        char link[64], base[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t size = at == AT_FDCWD ? -1 : readlink(link, base, sizeof base - 1);
        if (size < 0) return false;
        if (snprintf(full, PATH_MAX, "%.*s/%s", (int)size, base, path) >= PATH_MAX) return false;
    }
    return strncmp(full, dir, dir_size) == 0 && (full[dir_size] == '/' || full[dir_size] == 0);
}

/* ---- descriptors ---- */

static int do_open(int at, const char *path, int flags, mode_t mode)
{
    char full[PATH_MAX];
    if (!is_ours(at, path, full)) return (int)syscall(SYS_openat, at, path, flags, mode);
    pthread_mutex_lock(&names_mutex);
    int fd = (int)syscall(SYS_openat, at, path, flags, mode);
    if (fd >= FILES_MAX) give_up("too many open files");
    if (fd >= 0) {
        note(OPEN, fd, flags, full, strlen(full));
        atomic_store(&watched[fd], true);
    }
    pthread_mutex_unlock(&names_mutex);
    return fd;
}

static mode_t mode_argument(int flags, va_list arguments)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

int open(const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return do_open(AT_FDCWD, path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_argument(flags, arguments);
    va_end(arguments);
    return do_open(at, path, flags, mode);
}

int creat(const char *path, mode_t mode)
{
    return do_open(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode);
}

static void unwatch(int fd)
{
    if (is_watched(fd)) atomic_store(&watched[fd], false);
}

int close(int fd)
{
    unwatch(fd);
    return (int)syscall(SYS_close, fd);
}

/* A stream made of a descriptor (RocksDB reads its MANIFEST by one) closes it without `close`.
 * Whatever got that number next, another disk's file say, would be taken for the old one. */
int fclose(FILE *stream)
{
    static int (*next)(FILE *);
    if (!next) next = (int (*)(FILE *))dlsym(RTLD_NEXT, "fclose");
    unwatch(fileno(stream));
    return next(stream);
}

static int refuse_copy(int fd)
{
    if (is_watched(fd)) give_up("a descriptor below the directory is duplicated");
    return fd;
}

int dup(int fd)
{
    return (int)syscall(SYS_dup, refuse_copy(fd));
}

int dup2(int fd, int to)
{
    return (int)syscall(SYS_dup2, refuse_copy(fd), refuse_copy(to));
}

int dup3(int fd, int to, int flags)
{
    return (int)syscall(SYS_dup3, refuse_copy(fd), refuse_copy(to), flags);
}

/* ---- contents ---- */

/* What `write` wrote ends where the descriptor stands now, appending or not. */
ssize_t write(int fd, const void *data, size_t size)
{
    ssize_t put = syscall(SYS_write, fd, data, size);
    if (put > 0 && is_watched(fd)) {
        int64_t end = syscall(SYS_lseek, fd, 0, SEEK_CUR);
        note(WRITE, fd, end - put, data, (size_t)put);
    }
    return put;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset)
{
    ssize_t put = syscall(SYS_pwrite64, fd, data, size, offset);
    if (put > 0 && is_watched(fd)) note(WRITE, fd, offset, data, (size_t)put);
    return put;
}

static void note_parts(int fd, const struct iovec *parts, int64_t offset, ssize_t left)
{
    for (; left > 0; parts++) {
        size_t size = parts->iov_len < (size_t)left ? parts->iov_len : (size_t)left;
        note(WRITE, fd, offset, parts->iov_base, size);
        offset += (int64_t)size;
        left -= (ssize_t)size;
    }
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    ssize_t put = syscall(SYS_writev, fd, parts, count);
    if (put > 0 && is_watched(fd))
        note_parts(fd, parts, syscall(SYS_lseek, fd, 0, SEEK_CUR) - put, put);
    return put;
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
    ssize_t put = syscall(SYS_pwritev, fd, parts, count, offset, 0);
    if (put > 0 && is_watched(fd)) note_parts(fd, parts, offset, put);
    return put;
}

static void note_size(int fd)
{
    struct stat status;
    if (fstat(fd, &status) < 0) give_up("a size cannot be read");
    note(SIZE, fd, status.st_size, NULL, 0);
}

int ftruncate(int fd, off_t size)
{
    int result = (int)syscall(SYS_ftruncate, fd, size);
    if (result == 0 && is_watched(fd)) note_size(fd);
    return result;
}

int fallocate(int fd, int mode, off_t offset, off_t size)
{
    if (is_watched(fd) && (mode & ~FALLOC_FL_KEEP_SIZE)) give_up("fallocate of an unknown mode");
    int result = (int)syscall(SYS_fallocate, fd, mode, offset, size);
    if (result == 0 && is_watched(fd)) note_size(fd);
    return result;
}

int posix_fallocate(int fd, off_t offset, off_t size)
{
    int before = errno;
    int error = fallocate(fd, 0, offset, size) == 0 ? 0 : errno;
    errno = before;
    return error;
}

/* ---- durability; sync_file_range promises none and is left alone ---- */

static int do_sync(int fd, long call)
{
    static atomic_long syncs;
    if (!is_watched(fd)) return (int)syscall(call, fd);
    long number = atomic_fetch_add(&syncs, 1) + 1;
    note(SYNC_BEGIN, fd, number, NULL, 0);
    int result = (int)syscall(call, fd);
    note(SYNC_END, fd, result == 0 ? number : -number, NULL, 0);
    return result;
}

int fsync(int fd)
{
    return do_sync(fd, SYS_fsync);
}

int fdatasync(int fd)
{
    return do_sync(fd, SYS_fdatasync);
}

/* ---- names ---- */

static int do_name(enum kind kind, int at, const char *path, long call, int64_t argument)
{
    char full[PATH_MAX];
    if (!is_ours(at, path, full)) return (int)syscall(call, at, path, argument);
    pthread_mutex_lock(&names_mutex);
    int result = (int)syscall(call, at, path, argument);
    if (result == 0) note(kind, -1, 0, full, strlen(full));
    pthread_mutex_unlock(&names_mutex);
    return result;
}

static int do_two_names(enum kind kind, int at, const char *from, int to_at, const char *to,
                        long call)
{
    char full[PATH_MAX], to_full[PATH_MAX], text[2 * PATH_MAX];
    bool ours = is_ours(at, from, full);
    if (ours != is_ours(to_at, to, to_full)) give_up("a file is moved in or out");
    if (!ours) return (int)syscall(call, at, from, to_at, to, 0);
    int size = snprintf(text, sizeof text, "%s%c%s", full, 0, to_full);
    pthread_mutex_lock(&names_mutex);
    int result = (int)syscall(call, at, from, to_at, to, 0);
    if (result == 0) note(kind, -1, 0, text, (size_t)size);
    pthread_mutex_unlock(&names_mutex);
    return result;
}

int rename(const char *from, const char *to)
{
    return do_two_names(RENAME, AT_FDCWD, from, AT_FDCWD, to, SYS_renameat2);
}

int renameat(int at, const char *from, int to_at, const char *to)
{
    return do_two_names(RENAME, at, from, to_at, to, SYS_renameat2);
}

int link(const char *from, const char *to)
{
    return do_two_names(LINK, AT_FDCWD, from, AT_FDCWD, to, SYS_linkat);
}

int linkat(int at, const char *from, int to_at, const char *to, int flags)
{
    if (flags) give_up("linkat with flags");
    return do_two_names(LINK, at, from, to_at, to, SYS_linkat);
}

int unlink(const char *path)
{
    return do_name(UNLINK, AT_FDCWD, path, SYS_unlinkat, 0);
}

int unlinkat(int at, const char *path, int flags)
{
    return do_name(UNLINK, at, path, SYS_unlinkat, flags);
}

int rmdir(const char *path)
{
    return do_name(UNLINK, AT_FDCWD, path, SYS_unlinkat, AT_REMOVEDIR);
}

int mkdir(const char *path, mode_t mode)
{
    return do_name(MKDIR, AT_FDCWD, path, SYS_mkdirat, mode);
}

int mkdirat(int at, const char *path, mode_t mode)
{
    return do_name(MKDIR, at, path, SYS_mkdirat, mode);
}

/* ---- what nobody here needs, and what would go past the log ---- */

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    bool writes = (protection & PROT_WRITE) && (flags & MAP_TYPE) != MAP_PRIVATE;
    if (writes && is_watched(fd)) give_up("a file is mapped to be written");
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

int truncate(const char *path, off_t size)
{
    char full[PATH_MAX];
    if (is_ours(AT_FDCWD, path, full)) give_up("truncate by name");
    return (int)syscall(SYS_truncate, path, size);
}

void sync(void)
{
    if (dir) give_up("sync of everything");
    syscall(SYS_sync);
}

int syncfs(int fd)
{
    if (is_watched(fd)) give_up("sync of a whole file system");
    return (int)syscall(SYS_syncfs, fd);
}

#define SAME_AS(name) __attribute__((alias(#name)))

int open64(const char *path, int flags, ...) SAME_AS(open);
int openat64(int at, const char *path, int flags, ...) SAME_AS(openat);
int creat64(const char *path, mode_t mode) SAME_AS(creat);
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) SAME_AS(pwrite);
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) SAME_AS(pwritev);
int ftruncate64(int fd, off64_t size) SAME_AS(ftruncate);
int truncate64(const char *path, off64_t size) SAME_AS(truncate);
int fallocate64(int fd, int mode, off64_t offset, off64_t size) SAME_AS(fallocate);
int posix_fallocate64(int fd, off64_t offset, off64_t size) SAME_AS(posix_fallocate);
void *mmap64(void *address, size_t size, int protection, int flags, int fd, off64_t offset)
    SAME_AS(mmap);
