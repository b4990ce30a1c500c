/* archive.c -- which files the archive has: found at opening, let go of by age.
 *
 * A file's name says which run of sequences it holds. The runs follow one another without a gap, so
 * that a file that was taken away is noticed; only from the oldest end may some be gone. Each
 * unlink is synced before the next for the same reason.
 *
 * A file whose ends are damaged does not keep the server from starting, for counting does not need
 * it: it keeps its place in the list and every read that comes to it answers ERR_CORRUPT. A file
 * that is not ours or that we do not understand refuses the opening: nothing about it is to be
 * guessed. */
#include "store/embedded/archive/archive.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/embedded/archive/internal.h"

struct range {
    uint64_t first;
    uint64_t last;
};

struct archive_listing {
    struct range *ranges;
    size_t count;
    size_t capacity;
    bool temporary; /* one was left behind */
};

void archive_path(const struct archive *archive, char path[ARCHIVE_PATH_MAX], const char *name)
{
    int size = snprintf(path, ARCHIVE_PATH_MAX, "%s/%s", archive->dir, name);
    must(size > 0 && size < ARCHIVE_PATH_MAX);
}

enum err archive_complain(const struct archive_summary *summary, enum err e, const char *what)
{
    char name[ARCHIVE_NAME_SIZE];
    archive_name(name, summary->first, summary->last);
    log_line(LOG_ERROR, what, LOG_KV("file", (const char *)name), LOG_KV("code", err_code(e)));
    return e;
}

bool archive_is_file(const char *name, uint64_t *first_out, uint64_t *last_out)
{
    return archive_name_parse(name, first_out, last_out);
}

void archive_list_add(struct archive *archive, const struct archive_summary *summary, bool damaged)
{
    struct archive_file *file = must_calloc(1, sizeof *file);
    *file =
        (struct archive_file){.summary = *summary, .damaged = damaged, .references = 1, .fd = -1};
    pthread_mutex_lock(&archive->mutex);
    if (archive->files_count == archive->files_capacity) {
        archive->files_capacity = archive->files_capacity * 2 + 16;
        archive->files =
            must_realloc(archive->files, archive->files_capacity * sizeof(struct archive_file *));
    }
    archive->files[archive->files_count++] = file;
    pthread_mutex_unlock(&archive->mutex);
}

static void listing_visit(void *context, const char *name)
{
    struct archive_listing *listing = context;
    struct range range;
    if (strcmp(name, ARCHIVE_TEMPORARY) == 0) listing->temporary = true;
    if (!archive_name_parse(name, &range.first, &range.last)) return;
    if (listing->count == listing->capacity) {
        listing->capacity = listing->capacity * 2 + 16;
        listing->ranges = must_realloc(listing->ranges, listing->capacity * sizeof range);
    }
    listing->ranges[listing->count++] = range;
}

static int range_compare(const void *a, const void *b)
{
    const struct range *left = a, *right = b;
    if (left->first != right->first) return left->first < right->first ? -1 : 1;
    return (left->last > right->last) - (left->last < right->last);
}

static enum err listing_check(const struct archive_listing *listing, struct reason *why)
{
    for (size_t i = 1; i < listing->count; i++) {
        const struct range *previous = &listing->ranges[i - 1], *range = &listing->ranges[i];
        char name[ARCHIVE_NAME_SIZE];
        archive_name(name, range->first, range->last);
        if (range->first <= previous->last) {
            reason_say(why, "archive file %s holds sequences that another one holds, too", name);
            return ERR_CORRUPT;
        }
        if (range->first - previous->last > 1) {
            reason_say(why,
                       "archive file %s does not follow: sequences %" PRIu64 " to %" PRIu64
                       " are missing",
                       name, previous->last + 1, range->first - 1);
            return ERR_CORRUPT;
        }
    }
    return ERR_OK;
}

/* A rename or removal that a killed process saw may be undone by a power cut; once the directory is
 * synced, what is listed now stays. */
static enum err listing_read(struct archive *archive, struct archive_listing *listing,
                             struct reason *why)
{
    struct io *io = archive->io;
    int result = io->ops->list(io, archive->dir, listing_visit, listing);
    if (result == 0 && listing->temporary) {
        char path[ARCHIVE_PATH_MAX];
        archive_path(archive, path, ARCHIVE_TEMPORARY);
        result = io->ops->unlink(io, path);
    }
    if (result == 0) result = io->ops->sync_dir(io, archive->dir);
    if (result < 0) {
        reason_say(why, "the archive's directory cannot be read or synced: %s", strerror(-result));
        return ERR_STORAGE;
    }
    if (listing->count) qsort(listing->ranges, listing->count, sizeof(struct range), range_compare);
    return listing_check(listing, why);
}

/* Bytes that a file is too short for stay zero, and will be found wrong. */
static int64_t ends_read(struct io *io, int fd, char *header, char *trailer, uint64_t *size_out)
{
    memset(header, 0, ARCHIVE_HEADER_SIZE);
    memset(trailer, 0, ARCHIVE_TRAILER_SIZE);
    int64_t size = io->ops->size(io, fd);
    if (size < 0) return size;
    *size_out = (uint64_t)size;
    int64_t got = io->ops->read(io, fd, header, ARCHIVE_HEADER_SIZE, 0);
    if (got < 0 || size < ARCHIVE_TRAILER_SIZE) return got;
    return io->ops->read(io, fd, trailer, ARCHIVE_TRAILER_SIZE,
                         (uint64_t)size - ARCHIVE_TRAILER_SIZE);
}

static enum err file_judge(struct archive *archive, const char *name, struct range range,
                           struct archive_summary *summary_out, enum archive_verdict *verdict_out)
{
    struct io *io = archive->io;
    char path[ARCHIVE_PATH_MAX];
    archive_path(archive, path, name);
    int fd = io->ops->open(io, path, false, false);
    if (fd < 0) return ERR_STORAGE;
    char header[ARCHIVE_HEADER_SIZE], trailer[ARCHIVE_TRAILER_SIZE];
    *summary_out = (struct archive_summary){.first = range.first, .last = range.last};
    int64_t result = ends_read(io, fd, header, trailer, &summary_out->size);
    io->ops->close(io, fd);
    if (result < 0) return ERR_STORAGE;
    *verdict_out = archive_summary_decode(header, trailer, archive->installation, summary_out);
    return ERR_OK;
}

static enum err file_find(struct archive *archive, struct range range, struct reason *why)
{
    char name[ARCHIVE_NAME_SIZE];
    archive_name(name, range.first, range.last);
    struct archive_summary summary;
    enum archive_verdict verdict = ARCHIVE_DAMAGED;
    enum err e = file_judge(archive, name, range, &summary, &verdict);
    if (e != ERR_OK) {
        reason_say(why, "archive file %s cannot be read", name);
        return e;
    }
    if (verdict == ARCHIVE_FOREIGN) {
        reason_say(why, "archive file %s belongs to another installation", name);
        return ERR_CORRUPT;
    }
    if (verdict == ARCHIVE_NEWER) {
        reason_say(why, "archive file %s has a format that this version of tally does not know",
                   name);
        return ERR_CORRUPT;
    }
    if (verdict == ARCHIVE_DAMAGED)
        archive_complain(&summary, ERR_CORRUPT, "an archive file is damaged");
    archive_list_add(archive, &summary, verdict == ARCHIVE_DAMAGED);
    return ERR_OK;
}

static enum err files_find(struct archive *archive, struct reason *why)
{
    struct archive_listing listing = {0};
    enum err e = listing_read(archive, &listing, why);
    for (size_t i = 0; i < listing.count && e == ERR_OK; i++)
        e = file_find(archive, listing.ranges[i], why);
    free(listing.ranges);
    return e;
}

enum err archive_open(struct archive **archive_out, const struct archive_config *config,
                      struct reason *why_out)
{
    struct archive *archive = must_calloc(1, sizeof *archive);
    archive->dir = strdup(config->dir);
    must(archive->dir != NULL);
    archive->io = config->io;
    archive->installation = config->installation;
    buf_init(&archive->run, ARCHIVE_RUN_MAX);
    pthread_mutex_init(&archive->loading, NULL);
    pthread_mutex_init(&archive->mutex, NULL);
    enum err e = files_find(archive, why_out);
    if (e != ERR_OK) {
        archive_close(archive);
        archive = NULL;
    } else {
        archive_abandon(archive);
    }
    *archive_out = archive;
    return e;
}

void archive_close(struct archive *archive)
{
    if (!archive) return;
    for (size_t i = 0; i < archive->files_count; i++) {
        must(archive->files[i]->references == 1);
        archive_release_locked(archive, archive->files[i]);
    }
    free(archive->files);
    free(archive->entries);
    buf_release(&archive->run);
    pthread_mutex_destroy(&archive->mutex);
    pthread_mutex_destroy(&archive->loading);
    free(archive->dir);
    free(archive);
}

uint64_t archive_last(struct archive *archive)
{
    pthread_mutex_lock(&archive->mutex);
    size_t count = archive->files_count;
    uint64_t last = count ? archive->files[count - 1]->summary.last : 0;
    pthread_mutex_unlock(&archive->mutex);
    return last;
}

static void check_file(const struct archive *archive, size_t index)
{
    const struct archive_file *file = archive->files[index];
    must(file->references > 0);
    must(file->summary.first <= file->summary.last);
    must(index == 0 || file->summary.first == archive->files[index - 1]->summary.last + 1);
    must(index == 0 || !file->dropped);
    must((file->fd >= 0) == (file->index.frames != NULL));
}

static void check_run(const struct archive *archive)
{
    uint64_t last =
        archive->files_count ? archive->files[archive->files_count - 1]->summary.last : 0;
    must(archive->entries_count <= archive->entries_capacity);
    must(archive->added_last >= last);
    must(archive->litter_last == 0 || archive->litter_last > last);
    for (size_t i = 0; i < archive->entries_count; i++) {
        must(archive->entries[i].sequence > last);
        must(archive->entries[i].sequence <= archive->added_last);
    }
}

void archive_check(struct archive *archive)
{
    pthread_mutex_lock(&archive->mutex);
    size_t count = archive->files_count;
    size_t first = SLOW_CHECKS || count < 2 ? 0 : count - 2; /* files are added at the end */
    for (size_t i = first; i < count; i++)
        check_file(archive, i);
    if (SLOW_CHECKS) check_run(archive);
    pthread_mutex_unlock(&archive->mutex);
}

/* How many files from the oldest on are to go. The age of a damaged one is not known: it goes when
 * a later one does. */
static size_t droppable(const struct archive *archive, int64_t before_ms)
{
    size_t count = 0;
    for (size_t i = 0; i + 1 < archive->files_count; i++) {
        const struct archive_file *file = archive->files[i];
        if (file->damaged) continue;
        if (file->summary.records_count > 0 && file->summary.arrived_max >= before_ms) break;
        count = i + 1;
    }
    return count;
}

/* The mutex is held: no reader begins with the oldest file any more. False: it is to be kept. */
static bool drop_begin(struct archive *archive, int64_t before_ms)
{
    if (droppable(archive, before_ms) == 0) return false;
    archive->files[0]->dropped = true;
    return true;
}

/* The mutex is held. */
static void forget_first(struct archive *archive)
{
    archive_release_locked(archive, archive->files[0]);
    archive->files_count--;
    memmove(&archive->files[0], &archive->files[1],
            archive->files_count * sizeof(struct archive_file *));
}

static int file_unlink(struct archive *archive, const struct archive_summary *summary)
{
    struct io *io = archive->io;
    char name[ARCHIVE_NAME_SIZE], path[ARCHIVE_PATH_MAX];
    archive_name(name, summary->first, summary->last);
    archive_path(archive, path, name);
    int result = io->ops->unlink(io, path);
    if (result == -ENOENT) result = 0; /* gone already: an earlier call failed after it */
    return result < 0 ? result : io->ops->sync_dir(io, archive->dir);
}

void archive_drop(struct archive *archive, int64_t before_ms)
{
    pthread_mutex_lock(&archive->mutex);
    archive->dropped_before_ms = before_ms;
    while (drop_begin(archive, before_ms)) {
        struct archive_summary summary = archive->files[0]->summary;
        /* No other thread takes from the list, so the first stays the first while the disk
         * works. */
        pthread_mutex_unlock(&archive->mutex);
        int result = file_unlink(archive, &summary);
        if (result < 0)
            archive_complain(&summary, ERR_STORAGE, "an old archive file stays for now");
        pthread_mutex_lock(&archive->mutex);
        if (result < 0) break;
        forget_first(archive);
    }
    pthread_mutex_unlock(&archive->mutex);
    archive_check(archive);
}

void archive_stats(struct archive *archive, struct archive_stats *stats_out)
{
    *stats_out = (struct archive_stats){0};
    bool any = false;
    pthread_mutex_lock(&archive->mutex);
    for (size_t i = 0; i < archive->files_count; i++) {
        const struct archive_file *file = archive->files[i];
        stats_out->files++;
        stats_out->bytes += file->summary.size;
        if (any || file->dropped || file->damaged || file->summary.records_count == 0) continue;
        if (file->summary.arrived_max < archive->dropped_before_ms) continue;
        any = true;
        stats_out->first_arrived_ms = (uint64_t)file->summary.arrived_min;
    }
    pthread_mutex_unlock(&archive->mutex);
}
