/* writer.c -- writes a run beside, and names it once it is whole and synced. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/crash.h"
#include "store/embedded/ids/page.h"

#define WRITER_PAGES 64u /* gathered into one write: 256 KiB */

static void path_of(char path[ID_RUN_PATH_MAX], const struct id_files *files, const char *name)
{
    snprintf(path, ID_RUN_PATH_MAX, "%s/%s", files->dir, name);
}

void id_writer_begin(struct id_writer *writer, const struct id_files *files, const char *beside,
                     uint64_t first, uint64_t last)
{
    char path[ID_RUN_PATH_MAX];
    struct io *io = files->io;
    *writer = (struct id_writer){.files = files,
                                 .beside = beside,
                                 .fd = -1,
                                 .first = first,
                                 .last = last,
                                 .buffer = must_alloc(WRITER_PAGES * ID_RUN_PAGE),
                                 .written = 1,
                                 .records = ID_RUN_PAGE_RECORDS};
    path_of(path, files, beside);
    int gone = io->ops->unlink(io, path); /* a longer one would leave its end */
    if (gone == 0 || gone == -ENOENT) writer->fd = io->ops->open(io, path, true, false);
    if (writer->fd < 0) writer->err = ERR_STORAGE;
}

static void write_at(struct id_writer *writer, const void *data, size_t size, uint64_t offset)
{
    struct io *io = writer->files->io;
    if (writer->err != ERR_OK) return;
    if (io->ops->write(io, writer->fd, data, size, offset) < 0) writer->err = ERR_STORAGE;
}

static char *page_now(struct id_writer *writer)
{
    return writer->buffer + (size_t)(writer->pages - writer->written) * ID_RUN_PAGE;
}

static void page_close(struct id_writer *writer)
{
    if (writer->pages == 0) return;
    char *page = page_now(writer);
    size_t used = ID_PAGE_HEAD + writer->records * ID_RECORD_SIZE;
    memset(page + used, 0, ID_RUN_PAGE - used);
    put_u64(page + 8, writer->pages);
    put_u64(page + 16, writer->last);
    put_u32(page + 24, writer->records);
    put_u64(page, hash_checksum(bytes_of(page + 8, ID_RUN_PAGE - 8)));
}

static void sync_written(struct id_writer *writer)
{
    struct io *io = writer->files->io;
    if (writer->err == ERR_OK && io->ops->sync(io, writer->fd) < 0) writer->err = ERR_STORAGE;
    writer->unsynced = 0;
}

/* Writes the pages that are full. */
static void flush(struct id_writer *writer)
{
    uint64_t pages = writer->pages + 1 - writer->written;
    write_at(writer, writer->buffer, pages * ID_RUN_PAGE, writer->written * ID_RUN_PAGE);
    writer->written += pages;
    writer->unsynced += pages * ID_RUN_PAGE;
    if (writer->unsynced >= IO_PIECE) sync_written(writer);
}

static void page_open(struct id_writer *writer, uint64_t start)
{
    page_close(writer);
    if (writer->pages + 1 - writer->written == WRITER_PAGES) flush(writer);
    if (writer->pages == writer->starts_capacity) {
        writer->starts_capacity = writer->starts_capacity ? 2 * writer->starts_capacity : 64;
        writer->starts =
            must_realloc(writer->starts, writer->starts_capacity * sizeof *writer->starts);
    }
    writer->starts[writer->pages++] = start;
    writer->records = 0;
}

void id_writer_add(struct id_writer *writer, const struct id_entry *entry)
{
    if (writer->records == ID_RUN_PAGE_RECORDS) page_open(writer, entry->print.high);
    char *at = page_now(writer) + ID_PAGE_HEAD + writer->records++ * ID_RECORD_SIZE;
    put_u64(at, entry->print.high);
    put_u64(at + 8, entry->print.low);
    put_u64(at + 16, entry->sequence);
    put_u64(at + 24, (uint64_t)entry->first_seen_ms);
    put_u32(at + 32, entry->digest);
    writer->count++;
    if (entry->sequence > writer->sequence_max) writer->sequence_max = entry->sequence;
}

static void write_ends(struct id_writer *writer)
{
    char head[ID_RUN_PAGE] = {0};
    size_t index_size = writer->pages * sizeof *writer->starts;
    put_u64(head, ID_RUN_MAGIC);
    put_u64(head + 8, ID_RUN_FORMAT);
    put_u64(head + 16, writer->files->identity);
    put_u64(head + 24, writer->first);
    put_u64(head + 32, writer->last);
    put_u64(head + 40, writer->count);
    put_u64(head + 48, writer->pages);
    put_u64(head + 56, writer->sequence_max);
    put_u64(head + 64, hash_checksum(bytes_of(writer->starts, index_size)));
    put_u64(head + ID_HEAD_SIZE, hash_checksum(bytes_of(head, ID_HEAD_SIZE)));
    write_at(writer, writer->starts, index_size, (writer->pages + 1) * ID_RUN_PAGE);
    write_at(writer, head, sizeof head, 0);
}

static enum err rename_it(const struct id_writer *writer)
{
    char name[64], from[ID_RUN_PATH_MAX], to[ID_RUN_PATH_MAX];
    struct io *io = writer->files->io;
    id_run_name(name, sizeof name, writer->first, writer->last);
    path_of(from, writer->files, writer->beside);
    path_of(to, writer->files, name);
    crash_point("registry.run.before_rename");
    if (io->ops->rename(io, from, to) < 0) return ERR_STORAGE;
    if (io->ops->sync_dir(io, writer->files->dir) == 0) return ERR_OK;
    io->ops->unlink(io, to); /* whether it would be there after a crash is not known: now it is
                              * not */
    return ERR_STORAGE;
}

enum err id_writer_finish(struct id_writer *writer)
{
    struct io *io = writer->files->io;
    must(writer->count > 0);
    page_close(writer);
    flush(writer);
    write_ends(writer);
    sync_written(writer);
    if (writer->fd >= 0 && io->ops->close(io, writer->fd) < 0) writer->err = ERR_STORAGE;
    writer->fd = -1;
    enum err e = writer->err == ERR_OK ? rename_it(writer) : writer->err;
    id_writer_abandon(writer);
    return e;
}

void id_writer_abandon(struct id_writer *writer)
{
    if (writer->fd >= 0) writer->files->io->ops->close(writer->files->io, writer->fd);
    free(writer->buffer);
    free(writer->starts);
    *writer = (struct id_writer){.fd = -1};
}
