/* lend.c -- see the header. */
#include "replica/lend.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/crash.h"
#include "base/log.h"
#include "base/tree.h"

struct lend {
    struct store *store;
    const struct clock *clock;
    char dir[TREE_PATH_MAX];
    pthread_mutex_t lock; /* guards what follows; held while a snapshot is taken */
    uint64_t number;      /* the last one's */
    bool lent;
    int64_t asked_ns; /* when a piece of it was last asked for */
    struct tree_list files;
};

struct lend *lend_new(struct store *store, const char *dir, const struct clock *clock)
{
    struct lend *lend = must_calloc(1, sizeof *lend);
    lend->store = store;
    lend->clock = clock;
    int size = snprintf(lend->dir, sizeof lend->dir, "%s", dir);
    must(size > 0 && (size_t)size < sizeof lend->dir);
    /* A number that was given out by an earlier process names nothing here. */
    must(getrandom(&lend->number, sizeof lend->number, 0) == (ssize_t)sizeof lend->number);
    lend->number >>= 16;
    pthread_mutex_init(&lend->lock, NULL);
    return lend;
}

/* The lock is held. */
static void take_back(struct lend *lend)
{
    lend->lent = false;
    tree_list_release(&lend->files);
    lend->files = (struct tree_list){0};
    if (tree_remove(lend->dir) != ERR_OK)
        log_line(LOG_WARN, "a follower's snapshot could not be removed",
                 LOG_KV("why", strerror(errno)));
}

void lend_free(struct lend *lend)
{
    if (lend->lent) take_back(lend);
    pthread_mutex_destroy(&lend->lock);
    free(lend);
}

static void list(const struct lend *lend, uint64_t sequence, struct buf *out)
{
    buf_addf(out, "tally-snapshot 1\nnumber %" PRIu64 "\nsequence %" PRIu64 "\n", lend->number,
             sequence);
    for (size_t i = 0; i < lend->files.count; i++)
        buf_addf(out, "file %" PRIu64 " %s\n", lend->files.files[i].size,
                 lend->files.files[i].path);
    buf_addf(out, "end %016" PRIx64 "\n", hash_checksum(buf_bytes(out)));
}

static enum err take(struct lend *lend, struct buf *listing_out, struct reason *why)
{
    struct store_position position;
    enum err e = tree_remove(lend->dir);
    if (e != ERR_OK) {
        reason_say(why, "%s cannot be removed: %s", lend->dir, strerror(errno));
        return e;
    }
    e = store_snapshot(lend->store, lend->dir, &position, why);
    if (e == ERR_OK) e = tree_list_read(&lend->files, lend->dir);
    if (e != ERR_OK && !reason_given(why))
        reason_say(why, "%s cannot be listed: %s", lend->dir, strerror(errno));
    crash_point("lend.taken");
    if (e == ERR_OK) list(lend, position.last_sequence, listing_out);
    return e;
}

enum err lend_begin(struct lend *lend, struct buf *listing_out, struct reason *why)
{
    reason_clear(why);
    pthread_mutex_lock(&lend->lock);
    int64_t now_ns = clock_mono_ns(lend->clock);
    if (lend->lent && now_ns - lend->asked_ns < LEND_IDLE_NS) {
        pthread_mutex_unlock(&lend->lock);
        reason_say(why, "Another follower copies a snapshot now; ask again.");
        return ERR_BUSY;
    }
    if (lend->lent) take_back(lend);
    lend->number++;
    lend->lent = true;
    enum err e = take(lend, listing_out, why);
    lend->asked_ns = clock_mono_ns(lend->clock);
    if (e != ERR_OK) take_back(lend);
    pthread_mutex_unlock(&lend->lock);
    return e;
}

static enum err read_piece(const char *path, uint64_t offset, struct buf *out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return ERR_STORAGE;
    size_t from = out->size;
    char *at = buf_reserve(out, LEND_PIECE_BYTES + LEND_CHECKSUM_SIZE);
    ssize_t got = at ? pread(fd, at, LEND_PIECE_BYTES, (off_t)offset) : -1;
    close(fd);
    if (got < 0) return ERR_STORAGE;
    out->size += (size_t)got;
    buf_add_fixed64(out, hash_checksum(bytes_of(out->data + from, (size_t)got)));
    return ERR_OK;
}

enum err lend_piece(struct lend *lend, uint64_t number, uint64_t file, uint64_t offset,
                    struct buf *out)
{
    char path[TREE_PATH_MAX];
    enum err e = ERR_NOT_FOUND;
    pthread_mutex_lock(&lend->lock);
    if (lend->lent && lend->number == number && file < lend->files.count && offset <= INT64_MAX) {
        lend->asked_ns = clock_mono_ns(lend->clock);
        e = tree_path(path, lend->dir, lend->files.files[file].path);
    }
    pthread_mutex_unlock(&lend->lock);
    return e == ERR_OK ? read_piece(path, offset, out) : e;
}

void lend_end(struct lend *lend, uint64_t number)
{
    pthread_mutex_lock(&lend->lock);
    if (lend->lent && lend->number == number) take_back(lend);
    pthread_mutex_unlock(&lend->lock);
}
