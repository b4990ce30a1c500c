/* index.c -- files that are being read, and the indexes kept in memory.
 *
 * A restart reads only the ends of each file. The index is read when a reader first asks for the
 * file, and stays, with the file open, until ARCHIVE_INDEXES_MAX others were used later. A file in
 * use is never closed: a reader may go on in one that was dropped meanwhile. */
#include <errno.h>
#include <stdlib.h>

#include "store/embedded/archive/internal.h"

/* The mutex is held: finds the first file that reaches past `after`. */
static size_t file_after(const struct archive *archive, uint64_t after)
{
    size_t low = 0, high = archive->files_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (archive->files[middle]->summary.last > after)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool file_concerns(const struct archive_file *file, const struct event_query *query)
{
    if (file->dropped) return false;
    if (file->damaged) return true;
    return file->summary.records_count > 0 && file->summary.arrived_max >= query->arrived_from;
}

struct archive_file *archive_acquire(struct archive *archive, const struct event_query *query,
                                     uint64_t after)
{
    struct archive_file *found = NULL;
    pthread_mutex_lock(&archive->mutex);
    for (size_t i = file_after(archive, after); i < archive->files_count && !found; i++) {
        struct archive_file *file = archive->files[i];
        if (file->summary.first > query->upto) break;
        if (file_concerns(file, query)) found = file;
    }
    if (found) {
        found->references++;
        found->used = ++archive->uses;
    }
    pthread_mutex_unlock(&archive->mutex);
    return found;
}

static void file_close(struct archive *archive, struct archive_file *file)
{
    if (file->fd >= 0) archive->io->ops->close(archive->io, file->fd);
    file->fd = -1;
    archive_index_release(&file->index);
}

void archive_release_locked(struct archive *archive, struct archive_file *file)
{
    must(file->references > 0);
    if (--file->references > 0) return;
    file_close(archive, file);
    free(file);
}

void archive_release(struct archive *archive, struct archive_file *file)
{
    pthread_mutex_lock(&archive->mutex);
    archive_release_locked(archive, file);
    pthread_mutex_unlock(&archive->mutex);
}

/* The mutex is held: of the files that only the list holds, closes the one used longest ago, if
 * there are too many. */
static void make_room(struct archive *archive)
{
    struct archive_file *oldest = NULL;
    size_t open = 0;
    for (size_t i = 0; i < archive->files_count; i++) {
        struct archive_file *file = archive->files[i];
        if (file->fd < 0) continue;
        open++;
        if (file->references > 1) continue;
        if (!oldest || file->used < oldest->used) oldest = file;
    }
    if (open > ARCHIVE_INDEXES_MAX && oldest) file_close(archive, oldest);
}

static enum err index_read(struct archive *archive, const struct archive_summary *summary, int fd,
                           struct archive_index *index_out)
{
    char *bytes = must_alloc(summary->index_size + 1);
    int64_t got =
        archive->io->ops->read(archive->io, fd, bytes, summary->index_size, summary->index_offset);
    enum err e = ERR_OK;
    if (got < 0)
        e = archive_complain(summary, ERR_STORAGE, "the index of an archive file is not readable");
    else if ((uint64_t)got != summary->index_size ||
             !archive_index_decode(summary, bytes, index_out))
        e = archive_complain(summary, ERR_CORRUPT, "the index of an archive file is damaged");
    if (e != ERR_OK) free(bytes);
    return e;
}

/* A name is gone before the list says so only if the file is being dropped. */
static enum err open_failed(struct archive *archive, struct archive_file *file, int result)
{
    pthread_mutex_lock(&archive->mutex);
    bool dropped = file->dropped;
    pthread_mutex_unlock(&archive->mutex);
    if (dropped && result == -ENOENT) return ERR_NOT_FOUND;
    return archive_complain(&file->summary, ERR_STORAGE, "an archive file does not open");
}

static enum err file_load(struct archive *archive, struct archive_file *file)
{
    char name[ARCHIVE_NAME_SIZE], path[ARCHIVE_PATH_MAX];
    archive_name(name, file->summary.first, file->summary.last);
    archive_path(archive, path, name);
    int fd = archive->io->ops->open(archive->io, path, false, false);
    if (fd < 0) return open_failed(archive, file, fd);
    struct archive_index index;
    enum err e = index_read(archive, &file->summary, fd, &index);
    if (e != ERR_OK) {
        archive->io->ops->close(archive->io, fd);
        return e;
    }
    pthread_mutex_lock(&archive->mutex);
    file->fd = fd;
    file->index = index;
    make_room(archive);
    pthread_mutex_unlock(&archive->mutex);
    return ERR_OK;
}

static bool is_loaded(struct archive *archive, const struct archive_file *file)
{
    pthread_mutex_lock(&archive->mutex);
    bool loaded = file->fd >= 0;
    pthread_mutex_unlock(&archive->mutex);
    return loaded;
}

enum err archive_load(struct archive *archive, struct archive_file *file, size_t *read_out)
{
    *read_out = 0;
    if (file->damaged)
        return archive_complain(&file->summary, ERR_CORRUPT, "an archive file is damaged");
    if (is_loaded(archive, file)) return ERR_OK;
    pthread_mutex_lock(&archive->loading);
    enum err e = ERR_OK;
    if (!is_loaded(archive, file)) {
        *read_out = file->summary.index_size;
        e = file_load(archive, file);
    }
    pthread_mutex_unlock(&archive->loading);
    return e;
}
