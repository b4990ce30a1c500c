/* journal.c -- appending blocks and making them durable.
 *
 *             journal_append               journal_sync
 *   DURABLE ------------------> STAGED ------------------> DURABLE
 *      ^                           \___ write or sync error ___> FAILED
 *      |________________________ journal_restart ___________________|
 *
 * (1) `durable` <= `last`. Everything up to `durable` survives any crash; between the two lies what
 *     was appended since the last sync, in the current segment or still staged.
 * (2) No byte goes into a segment before the one before it is synced, and no block before the
 *     segment's header and its name in the directory are.
 * (3) A new segment names `durable` as its predecessor, never more, and `durable` never goes back.
 *     So predecessors never go back from one segment to the next, and "`durable` was n" in a block
 *     or "my predecessor was n" in a segment header stays true for ever: recovery relies on both.
 * (4) A segment header gets its file under a spare's name and is synced there; the rename makes it
 *     part of the journal. So a file named journal-* always has a whole header.
 * (5) A file that may have been named is in the list, also if naming it failed: a rename that was
 *     reported as failed may be there all the same. It is empty, the next attempt has a higher
 *     number and the same predecessor, and journal_trim removes it with the first there is to do.
 *     Were it forgotten, it would be there when the segments after it are not, and stand for them.
 *     And as it may not be there, nothing before it is let go because it follows.
 * (6) Segments are in the order of their numbers, which are never given twice; the last one is the
 *     current one, unless the journal has failed. What is staged comes right behind what was
 *     written, and fits both the stage and the segment.
 *
 * journal_check asserts them before each sync and restart; in slow builds at both ends of every
 * call of the appending thread, and then for the list as well.
 *
 * Blocks are gathered in memory and written by one call when the stage is full or at the sync: two
 * small direct writes cost twice what one of both costs. */
#include "store/embedded/journal/journal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crash.h"
#include "store/embedded/journal/internal.h"

#define STAGE_SIZE (1u << 20) /* written at once; grows to the size of a single larger block */

static void check_segment(const struct segment *segment)
{
    uint64_t before = 0;
    must(segment->used >= IO_ALIGN && segment->used <= segment->size);
    must(segment->places_count <= SEGMENT_PLACES);
    for (unsigned i = 0; i < segment->places_count; i++) {
        must(segment->places[i].offset > before);
        must(segment->places[i].before.sequence >= segment->previous.sequence);
        before = segment->places[i].offset;
    }
}

/* (3), (5) and (6), segment by segment. */
static void check_segments(struct journal *journal)
{
    pthread_mutex_lock(&journal->mutex);
    const struct segment *segments = journal->segments;
    size_t count = journal->segments_count;
    for (size_t i = 0; i < count; i++) {
        check_segment(&segments[i]);
        must(segments[i].number < journal->number_next);
        must(segments[i].previous.sequence <= journal->durable.sequence);
        must(i == 0 || segments[i].number > segments[i - 1].number);
        must(i == 0 || segments[i].previous.sequence >= segments[i - 1].previous.sequence);
    }
    if (!journal->failed) {
        must(count > 0 && !segments[count - 1].doubtful);
        must(segments[count - 1].number == journal->number_next - 1);
        must(segments[count - 1].size == journal->size);
        must(segments[count - 1].used == journal->offset);
    }
    pthread_mutex_unlock(&journal->mutex);
}

static void journal_check(struct journal *journal)
{
    must(journal->durable.sequence <= journal->last.sequence);
    must(journal->durable.sequence == journal_durable_sequence(journal));
    must(journal->offset % IO_ALIGN == 0);
    must(journal->stage_size % IO_ALIGN == 0);
    must(journal->stage_size <= journal->stage_capacity);
    must(journal->offset + journal->stage_size <= journal->size);
    if (!journal->failed) {
        must(journal->fd >= 0);
        must(journal->offset >= IO_ALIGN);
        must(journal->stage_size == 0 || journal->durable.sequence < journal->last.sequence);
    }
    if (SLOW_CHECKS) check_segments(journal);
}

/* What leaves nothing but the laws behind. */
static enum err checked(struct journal *journal, enum err e)
{
    must(e == ERR_OK || journal->failed);
    if (SLOW_CHECKS) journal_check(journal);
    return e;
}

enum err journal_storage_error(struct journal *journal, int64_t result)
{
    atomic_store(&journal->last_error, (int)-result);
    return ERR_STORAGE;
}

static enum err journal_fail(struct journal *journal, int64_t result)
{
    journal->failed = true;
    return journal_storage_error(journal, result);
}

/* Writes and syncs the header and gives the file its name. `*named_out`: it may have the name by
 * now, also if this fails. */
static enum err name_segment(struct journal *journal, int fd, const char *spare_path,
                             struct segment_header *header, bool *named_out)
{
    struct io *io = journal->io;
    _Alignas(IO_ALIGN) char page[IO_ALIGN];
    segment_header_encode(page, header);
    int64_t result = io->ops->write(io, fd, page, IO_ALIGN, 0);
    if (result >= 0) result = io->ops->sync(io, fd);
    if (result < 0) return journal_storage_error(journal, result);

    char path[JOURNAL_PATH_MAX];
    journal_path(journal, path, SEGMENT_LIVE, header->number);
    *named_out = true;
    result = io->ops->rename(io, spare_path, path);
    if (result == 0) result = io->ops->sync_dir(io, journal->config.dir);
    return result == 0 ? ERR_OK : journal_storage_error(journal, result);
}

enum err journal_begin_segment(struct journal *journal, const struct chain_end *previous,
                               uint64_t size, uint64_t block_size)
{
    struct io *io = journal->io;
    struct spare spare;
    bool zeroed;
    uint64_t size_min = journal_size_for(journal, IO_ALIGN + block_size);
    enum err e =
        journal_take_spare(journal, size > size_min ? size : size_min, size_min, &spare, &zeroed);
    if (e != ERR_OK) return e;

    char path[JOURNAL_PATH_MAX];
    journal_path(journal, path, SEGMENT_SPARE, spare.number);
    struct segment_header header = {
        .installation = journal->config.installation,
        .epoch = journal->epoch,
        .number = journal->number_next++, /* never used twice, even if this attempt fails */
        .previous = *previous,
    };
    struct segment segment = {.number = header.number,
                              .previous = *previous,
                              .size = spare.size,
                              .used = IO_ALIGN,
                              .zeroed = zeroed};
    bool named = false;
    int fd = io->ops->open(io, path, false, true);
    e = fd < 0 ? journal_storage_error(journal, fd)
               : name_segment(journal, fd, path, &header, &named);
    if (e != ERR_OK) {
        if (fd >= 0) io->ops->close(io, fd);
        io->ops->unlink(io, path);
        segment.zeroed = false;
        segment.doubtful = true;
        if (named) journal_add_segment(journal, &segment);
        return e;
    }
    if (journal->fd >= 0) io->ops->close(io, journal->fd);
    journal->fd = fd;
    journal->key = header.key;
    journal->size = spare.size;
    journal->zeroed = zeroed;
    journal->offset = IO_ALIGN;
    journal->stage_size = 0;
    journal_add_segment(journal, &segment);
    return ERR_OK;
}

/* Takes the config's `dir` by copy: the journal outlives the caller's strings. */
static struct journal *journal_new(const struct journal_config *config)
{
    must(config->segment_size % IO_ALIGN == 0);
    must(config->segment_size >= 4 * IO_ALIGN);
    must(config->first_size % IO_ALIGN == 0);
    must(config->first_size >= 4 * IO_ALIGN && config->first_size <= config->segment_size);
    struct journal *journal = must_calloc(1, sizeof *journal);
    journal->config = *config;
    journal->config.dir = strdup(config->dir);
    must(journal->config.dir != NULL);
    journal->io = config->io;
    journal->fd = -1;
    journal->making_fd = -1;
    journal->stage_capacity = config->segment_size < STAGE_SIZE ? config->segment_size : STAGE_SIZE;
    journal->stage = aligned_alloc(IO_ALIGN, journal->stage_capacity);
    must(journal->stage != NULL);
    pthread_mutex_init(&journal->mutex, NULL);
    return journal;
}

/* Begins the first segment after recovery. Without room for one the journal can still be read: what
 * was recovered is durable, and what was cut is cut again by the next opening in the same way. */
static enum err journal_first_segment(struct journal *journal, struct reason *why)
{
    enum err e = journal_begin_segment(journal, &journal->durable, journal->size, 0);
    if (e == ERR_OK) return e;
    int error = atomic_load(&journal->last_error);
    if ((error == ENOSPC || error == EDQUOT) && journal->segments_count > 0) {
        journal->failed = true;
        return ERR_OK;
    }
    reason_say(why, "%s: no new journal segment can be made: %s", journal->config.dir,
               strerror(error));
    return e;
}

enum err journal_open(struct journal **journal_out, const struct journal_config *config,
                      uint64_t applied, journal_replay_fn *replay, void *context,
                      struct reason *why_out)
{
    *journal_out = NULL;
    struct journal *journal = journal_new(config);
    enum err e = journal_recover(journal, applied, replay, context, why_out);
    if (e != ERR_OK) goto out;
    e = journal_first_segment(journal, why_out);
    if (e != ERR_OK) goto out;
    /* Segments that ended up without a block go, so that many starts in a row do not fill the
     * disk. */
    journal_trim(journal, 0);
    *journal_out = journal;
    return ERR_OK;
out:
    journal_close(journal);
    return e;
}

void journal_close(struct journal *journal)
{
    if (!journal) return;
    struct io *io = journal->io;
    if (journal->fd >= 0) io->ops->close(io, journal->fd);
    if (journal->making_fd >= 0) io->ops->close(io, journal->making_fd);
    pthread_mutex_destroy(&journal->mutex);
    free(journal->segments);
    free(journal->spares);
    free(journal->stage);
    free((char *)journal->config.dir);
    free(journal);
}

size_t journal_body_max(const struct journal *journal)
{
    uint64_t max = journal->config.segment_size - IO_ALIGN - SEGMENT_BLOCK_HEADER;
    return max < UINT32_MAX ? (size_t)max : UINT32_MAX;
}

uint64_t journal_last_sequence(const struct journal *journal)
{
    return journal->last.sequence;
}

uint64_t journal_durable_sequence(const struct journal *journal)
{
    return atomic_load(&journal->durable_sequence);
}

uint64_t journal_epoch(const struct journal *journal)
{
    return journal->epoch;
}

bool journal_has_failed(const struct journal *journal)
{
    return journal->failed;
}

int64_t journal_last_time(const struct journal *journal)
{
    return atomic_load(&journal->last_time_ms);
}

static void journal_note_used(struct journal *journal)
{
    pthread_mutex_lock(&journal->mutex);
    journal->segments[journal->segments_count - 1].used = journal->offset;
    pthread_mutex_unlock(&journal->mutex);
}

static enum err journal_flush(struct journal *journal)
{
    if (journal->stage_size == 0) return ERR_OK;
    crash_point("journal.append.before_write");
    struct io *io = journal->io;
    int64_t result =
        io->ops->write(io, journal->fd, journal->stage, journal->stage_size, journal->offset);
    if (result < 0) return journal_fail(journal, result);
    journal->offset += journal->stage_size;
    atomic_fetch_add(&journal->appended_bytes, journal->stage_size);
    journal->stage_size = 0;
    journal_note_used(journal);
    return ERR_OK;
}

static enum err sync_stage(struct journal *journal)
{
    if (journal->failed) return ERR_STORAGE;
    if (journal->last.sequence == journal->durable.sequence) return ERR_OK;
    enum err e = journal_flush(journal);
    if (e != ERR_OK) return e;
    crash_point("journal.sync.before");
    int result = journal->io->ops->sync(journal->io, journal->fd);
    if (result < 0) return journal_fail(journal, result);
    crash_point("journal.sync.after");
    journal->durable = journal->last;
    atomic_store(&journal->durable_sequence, journal->durable.sequence);
    atomic_fetch_add(&journal->syncs, 1);
    return ERR_OK;
}

enum err journal_sync(struct journal *journal)
{
    journal_check(journal);
    return checked(journal, sync_stage(journal));
}

/* Law (2): the old segment is durable before the new one's header is written. */
static enum err journal_switch(struct journal *journal, uint64_t size, uint64_t block_size)
{
    enum err e = sync_stage(journal);
    if (e != ERR_OK) return e;
    if (journal->offset >= journal->size / 8 * 7) journal_mark_zeroed(journal);
    crash_point("journal.segment.before_switch");
    e = journal_begin_segment(journal, &journal->durable, size, block_size);
    if (e != ERR_OK) {
        journal->failed = true;
        return e;
    }
    crash_point("journal.segment.after_switch");
    return ERR_OK;
}

/* Makes room in the stage for `size` more bytes, writing out or growing as needed. */
static enum err stage_room(struct journal *journal, size_t size)
{
    if (journal->stage_size + size <= journal->stage_capacity) return ERR_OK;
    enum err e = journal_flush(journal);
    if (e != ERR_OK) return e;
    if (size <= journal->stage_capacity) return ERR_OK;
    free(journal->stage);
    journal->stage = aligned_alloc(IO_ALIGN, size);
    must(journal->stage != NULL);
    journal->stage_capacity = size;
    return ERR_OK;
}

/* A segment made in need has only reserved blocks, whose first sync takes twice as long. It is left
 * as soon as a zero-written one is there: a new store is at full speed within seconds. */
static bool journal_can_do_better(struct journal *journal)
{
    return !journal->zeroed && journal->stage_size == 0 &&
           journal_has_spare(journal, journal->size);
}

/* Makes sure that the segment has room for a block of `size` bytes. One that is full is followed by
 * a larger one, as long as there are larger ones. */
static enum err segment_room(struct journal *journal, size_t size)
{
    if (journal->offset + journal->stage_size + size > journal->size)
        return journal_switch(journal, journal_size_for(journal, journal->size + 1), size);
    return journal_can_do_better(journal) ? journal_switch(journal, journal->size, size) : ERR_OK;
}

static enum err stage_block(struct journal *journal, const struct journal_block *block)
{
    if (journal->failed) return ERR_STORAGE;
    size_t size = segment_block_size(block->body.size);
    enum err e = segment_room(journal, size);
    if (e == ERR_OK) e = stage_room(journal, size);
    if (e != ERR_OK) return e;

    journal_note_place(journal, journal->number_next - 1, journal->offset + journal->stage_size,
                       &journal->last);
    struct segment_link link = {
        .segment_key = journal->key,
        .epoch = journal->epoch,
        .durable = journal->durable.sequence,
        .previous = journal->last.checksum,
    };
    uint64_t checksum = segment_block_encode(journal->stage + journal->stage_size, &link, block);
    journal->stage_size += size;
    journal->last = (struct chain_end){
        .sequence = block->first_sequence + block->count - 1,
        .checksum = checksum,
        .time_ms = block->time_ms,
    };
    atomic_store(&journal->last_time_ms, block->time_ms);
    return ERR_OK;
}

enum err journal_append(struct journal *journal, const struct journal_block *block)
{
    if (SLOW_CHECKS) journal_check(journal);
    must(block->count > 0);
    must(block->first_sequence == journal->last.sequence + 1);
    must(block->set_back || block->time_ms >= journal->last.time_ms);
    must(block->body.size <= journal_body_max(journal));
    return checked(journal, stage_block(journal, block));
}

enum err journal_restart(struct journal *journal)
{
    journal_check(journal);
    journal->failed = true; /* whatever the reason, nothing goes into the old segment again */
    journal->epoch++;
    crash_point("journal.restart.before_header");
    enum err e = journal_begin_segment(journal, &journal->durable, journal->size, 0);
    if (e != ERR_OK) return e;
    journal->last = journal->durable;
    atomic_store(&journal->last_time_ms, journal->last.time_ms);
    journal->failed = false;
    return checked(journal, ERR_OK);
}

static uint64_t segment_unapplied(const struct journal *journal, size_t index)
{
    const struct segment *segment = &journal->segments[index];
    bool current = index + 1 == journal->segments_count;
    if (!current && segment[1].previous.sequence <= journal->applied) return 0;
    return segment->used;
}

void journal_stats(struct journal *journal, struct journal_stats *stats_out)
{
    *stats_out = (struct journal_stats){
        .appended_bytes = atomic_load(&journal->appended_bytes),
        .syncs = atomic_load(&journal->syncs),
        .files_failed = atomic_load(&journal->files_failed),
        .last_error = atomic_load(&journal->last_error),
        .bytes = atomic_load(&journal->making_bytes),
    };
    pthread_mutex_lock(&journal->mutex);
    stats_out->segments = journal->segments_count;
    for (size_t i = 0; i < journal->spares_count; i++)
        stats_out->bytes += journal->spares[i].size;
    for (size_t i = 0; i < journal->segments_count; i++) {
        stats_out->bytes += journal->segments[i].size;
        stats_out->bytes_since_applied += segment_unapplied(journal, i);
    }
    pthread_mutex_unlock(&journal->mutex);
}
