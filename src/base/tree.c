/* tree.c -- see the header. */
#include "base/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define COPY_STEP (1u << 20)
#ifdef TALLY_SMALL_WORLD
#define KEEP_FREE_BYTES (8u << 20)
#else
#define KEEP_FREE_BYTES (64u << 20) /* commits and checkpoints go on beside a copy */
#endif

enum err tree_path(char out[TREE_PATH_MAX], const char *dir, const char *name)
{
    int need = snprintf(out, TREE_PATH_MAX, "%s/%s", dir, name);
    if (need > 0 && need < TREE_PATH_MAX) return ERR_OK;
    errno = ENAMETOOLONG;
    return ERR_STORAGE;
}

enum err tree_sync_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return ERR_STORAGE;
    int failed = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    errno = failed;
    return failed ? ERR_STORAGE : ERR_OK;
}

enum err tree_make(const char *dir)
{
    char parent[TREE_PATH_MAX];
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) return ERR_STORAGE;
    enum err e = tree_path(parent, dir, "..");
    return e == ERR_OK ? tree_sync_dir(parent) : e;
}

static bool is_self_or_parent(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

bool tree_is_empty(const char *dir)
{
    DIR *open_dir = opendir(dir);
    if (!open_dir) return errno == ENOENT;
    bool empty = true;
    for (struct dirent *entry; empty && (entry = readdir(open_dir));)
        empty = is_self_or_parent(entry->d_name) || strcmp(entry->d_name, "lost+found") == 0;
    closedir(open_dir);
    return empty;
}

enum err tree_clear(const char *dir)
{
    char path[TREE_PATH_MAX];
    enum err e = ERR_OK;
    DIR *open_dir = opendir(dir);
    if (!open_dir) return errno == ENOENT ? ERR_OK : ERR_STORAGE;
    for (struct dirent *entry; e == ERR_OK && (entry = readdir(open_dir));) {
        if (is_self_or_parent(entry->d_name) || strcmp(entry->d_name, "lost+found") == 0) continue;
        e = tree_path(path, dir, entry->d_name);
        if (e == ERR_OK) e = tree_remove(path);
    }
    int error = errno;
    closedir(open_dir);
    errno = error;
    return e;
}

enum err tree_remove(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT) return ERR_OK;
    if (errno != EISDIR && errno != EPERM) return ERR_STORAGE;
    enum err e = tree_clear(path);
    if (e != ERR_OK) return e;
    return rmdir(path) == 0 || errno == ENOENT ? ERR_OK : ERR_STORAGE;
}

/* -- Listing ----------------------------------------------------------------------------------- */

void tree_list_add(struct tree_list *list, const char *path, uint64_t size)
{
    if (list->count == list->capacity) {
        list->capacity = list->capacity * 2 + 64;
        list->files = must_realloc(list->files, list->capacity * sizeof *list->files);
    }
    struct tree_file *file = &list->files[list->count++];
    *file = (struct tree_file){.path = strdup(path), .size = size};
    must(file->path != NULL);
}

void tree_list_release(struct tree_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->files[i].path);
    free(list->files);
    *list = (struct tree_list){0};
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const struct tree_file *)a)->path, ((const struct tree_file *)b)->path);
}

void tree_list_sort(struct tree_list *list)
{
    if (list->count) qsort(list->files, list->count, sizeof *list->files, compare_files);
}

static enum err list_below(struct tree_list *list, const char *root, const char *below);

static enum err list_entry(struct tree_list *list, const char *root, const char *path)
{
    char full[TREE_PATH_MAX];
    struct stat file;
    enum err e = tree_path(full, root, path);
    if (e != ERR_OK) return e;
    if (lstat(full, &file) != 0) return ERR_STORAGE;
    if (S_ISDIR(file.st_mode)) return list_below(list, root, path);
    if (S_ISREG(file.st_mode)) tree_list_add(list, path, (uint64_t)file.st_size);
    return ERR_OK;
}

/* Lists one directory and those in it. `below` is its path below the root, "" for the root
 * itself. */
static enum err list_below(struct tree_list *list, const char *root, const char *below)
{
    char full[TREE_PATH_MAX];
    char path[TREE_PATH_MAX];
    enum err e = tree_path(full, root, below);
    DIR *open_dir = e == ERR_OK ? opendir(full) : NULL;
    if (!open_dir) return ERR_STORAGE;
    for (struct dirent *entry; e == ERR_OK && (entry = readdir(open_dir));) {
        if (is_self_or_parent(entry->d_name)) continue;
        if (below[0])
            e = tree_path(path, below, entry->d_name);
        else
            snprintf(path, sizeof path, "%s", entry->d_name);
        if (e == ERR_OK) e = list_entry(list, root, path);
    }
    int error = errno;
    closedir(open_dir);
    errno = error;
    return e;
}

enum err tree_list_read(struct tree_list *list, const char *dir)
{
    *list = (struct tree_list){0};
    enum err e = list_below(list, dir, "");
    tree_list_sort(list);
    return e;
}

struct tree_file *tree_list_find(const struct tree_list *list, const char *path)
{
    const struct tree_file key = {.path = (char *)path};
    if (!list->count) return NULL;
    return bsearch(&key, list->files, list->count, sizeof key, compare_files);
}

/* -- Copying ----------------------------------------------------------------------------------- */

enum err tree_has_room(const struct effort *effort)
{
    struct statvfs disk;
    if (!effort || !effort->keep_free_of) return ERR_OK;
    if (statvfs(effort->keep_free_of, &disk) != 0) return ERR_OK;
    if ((uint64_t)disk.f_bavail * disk.f_frsize >= KEEP_FREE_BYTES) return ERR_OK;
    errno = ENOSPC;
    return ERR_STORAGE;
}

static enum err write_whole(int fd, const char *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t put = write(fd, data + done, size - done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return ERR_STORAGE;
        done += (size_t)put;
    }
    return ERR_OK;
}

/* Reads `from` to its end and writes that to `to`, unless `to` is -1. */
static enum err stream(int from, int to, char *step, struct checksum *checksum_out,
                       struct effort *effort)
{
    struct checksum_stream *sum = checksum_stream_new();
    enum err e = ERR_OK;
    for (;;) {
        ssize_t got = read(from, step, COPY_STEP);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) e = ERR_STORAGE;
        if (got <= 0) break;
        checksum_stream_add(sum, bytes_of(step, (size_t)got));
        if (to >= 0) e = tree_has_room(effort);
        if (e == ERR_OK && to >= 0) e = write_whole(to, step, (size_t)got);
        if (e != ERR_OK) break;
        if (effort) atomic_fetch_add(&effort->done, (uint64_t)got);
        if (effort && atomic_load(&effort->stop)) e = ERR_BUSY;
        if (e != ERR_OK) break;
    }
    int error = errno;
    *checksum_out = checksum_stream_end(sum);
    errno = error;
    return e;
}

static enum err copy_into(int from, int to, struct checksum *checksum_out, struct effort *effort)
{
    char *step = must_alloc(COPY_STEP);
    posix_fadvise(from, 0, 0, POSIX_FADV_SEQUENTIAL);
    enum err e = stream(from, to, step, checksum_out, effort);
    int error = errno;
    free(step);
    errno = error;
    if (e == ERR_OK && to >= 0 && fsync(to) != 0) e = ERR_STORAGE;
    return e;
}

enum err tree_checksum(const char *path, struct checksum *checksum_out, struct effort *effort)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ERR_STORAGE;
    enum err e = copy_into(fd, -1, checksum_out, effort);
    int error = errno;
    close(fd);
    errno = error;
    return e;
}

enum err tree_copy(const char *from, const char *to, struct checksum *checksum_out,
                   struct effort *effort)
{
    int source = open(from, O_RDONLY | O_CLOEXEC);
    if (source < 0) return ERR_STORAGE;
    int target = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    enum err e = target < 0 ? ERR_STORAGE : copy_into(source, target, checksum_out, effort);
    int error = errno;
    if (target >= 0) close(target);
    close(source);
    errno = error;
    return e;
}
