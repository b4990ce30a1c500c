/* copy.c -- see the header. Segments of some size, so that the journal made of them can let
 * go of them one after the other. */
#include "store/embedded/journal/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#ifdef TALLY_SMALL_WORLD
#define COPY_SEGMENT_BYTES (64u << 10)
#else
#define COPY_SEGMENT_BYTES (64u << 20)
#endif

void journal_copy_begin(struct journal_copy *copy, const char *dir, uint64_t installation,
                        uint64_t epoch)
{
    *copy = (struct journal_copy){.dir = dir, .fd = -1};
    copy->header.installation = installation;
    copy->header.epoch = epoch;
    buf_init(&copy->block, SIZE_MAX / 2);
}

static enum err copy_failed(struct journal_copy *copy)
{
    copy->error = errno;
    return ERR_STORAGE;
}

static enum err copy_write(struct journal_copy *copy, struct bytes bytes)
{
    for (size_t done = 0; done < bytes.size;) {
        ssize_t put =
            pwrite(copy->fd, bytes.data + done, bytes.size - done, (off_t)(copy->offset + done));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return copy_failed(copy);
        done += (size_t)put;
    }
    copy->offset += bytes.size;
    return ERR_OK;
}

static enum err segment_finish(struct journal_copy *copy)
{
    if (copy->fd < 0) return ERR_OK;
    enum err e = fsync(copy->fd) == 0 ? ERR_OK : copy_failed(copy);
    close(copy->fd);
    copy->fd = -1;
    return e;
}

static enum err segment_start(struct journal_copy *copy)
{
    char name[SEGMENT_NAME_SIZE];
    char path[4096];
    char page[IO_ALIGN];
    enum err e = segment_finish(copy);
    if (e != ERR_OK) return e;
    copy->header.number++;
    copy->header.previous = copy->end;
    segment_header_encode(page, &copy->header);
    segment_name(name, SEGMENT_LIVE, copy->header.number);
    snprintf(path, sizeof path, "%s/%s", copy->dir, name);
    copy->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (copy->fd < 0) return copy_failed(copy);
    copy->offset = 0;
    return copy_write(copy, bytes_of(page, sizeof page));
}

enum err journal_copy_add(struct journal_copy *copy, const struct journal_block *block)
{
    enum err e = ERR_OK;
    if (copy->header.number == 0)
        copy->end =
            (struct chain_end){.sequence = block->first_sequence - 1, .time_ms = block->time_ms};
    must(block->first_sequence == copy->end.sequence + 1);
    if (copy->fd < 0 || copy->offset >= COPY_SEGMENT_BYTES) e = segment_start(copy);
    if (e != ERR_OK) return e;
    const struct segment_link link = {.segment_key = copy->header.key,
                                      .epoch = copy->header.epoch,
                                      .durable = copy->end.sequence,
                                      .previous = copy->end.checksum};
    size_t size = segment_block_size(block->body.size);
    buf_reset(&copy->block);
    char *at = buf_reserve(&copy->block, size);
    must(at != NULL);
    uint64_t checksum = segment_block_encode(at, &link, block);
    copy->end = (struct chain_end){.sequence = block->first_sequence + block->count - 1,
                                   .checksum = checksum,
                                   .time_ms = block->time_ms};
    return copy_write(copy, bytes_of(at, size));
}

enum err journal_copy_end(struct journal_copy *copy, const struct store_position *after)
{
    enum err e = copy->error ? ERR_STORAGE : ERR_OK;
    if (e == ERR_OK && copy->header.number == 0) {
        copy->end = (struct chain_end){.sequence = after->last_sequence, .time_ms = after->time_ms};
        e = segment_start(copy);
    }
    enum err finished = segment_finish(copy);
    buf_release(&copy->block);
    if (e == ERR_OK) e = finished;
    if (e != ERR_OK) return e;
    int result = io_system.ops->sync_dir(&io_system, copy->dir);
    if (result < 0) copy->error = -result;
    return result < 0 ? ERR_STORAGE : ERR_OK;
}
