/* write.c -- collecting a run and making it a file.
 *
 * The file is written under a temporary name, synced, renamed, and the directory synced; then it is
 * put in the list. If any of that fails the file is removed under both names and that synced, too,
 * before anything else is written: otherwise a crash could bring it back beside the file of the
 * next try, and two files would claim the same sequences. If the process ends before that, the file
 * may turn up at the next opening, as whole as any, for it was synced before it was renamed. */
#include <errno.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/hash.h"
#include "store/embedded/archive/internal.h"
#include "store/embedded/archive/pack.h"

struct archive_writer {
    struct archive *archive;
    struct archive_summary *summary; /* filled in as the file grows */
    int fd;
    uint64_t written;
    struct buf out; /* not yet written */
    struct buf raw; /* the frame under way */
    struct buf index;
    struct archive_frame frame;
    struct archive_cursor cursor;
    struct archive_packer *packer;
    int64_t result; /* the first error; then nothing more is done */
};

static struct archive_entry *entry_new(struct archive *archive)
{
    if (archive->entries_count == archive->entries_capacity) {
        archive->entries_capacity = archive->entries_capacity * 2 + 256;
        archive->entries =
            must_realloc(archive->entries, archive->entries_capacity * sizeof *archive->entries);
    }
    return &archive->entries[archive->entries_count++];
}

static struct archive_key entry_key(const struct archive *archive,
                                    const struct archive_entry *entry)
{
    must(archive->run.data);
    const char *tenant = archive->run.data + entry->offset;
    return (struct archive_key){bytes_of(tenant, entry->tenant_size), entry->sequence};
}

/* One tenant's events come in their order: most runs need no sorting. */
static void note_order(struct archive *archive)
{
    if (archive->entries_count < 2 || archive->unsorted) return;
    const struct archive_entry *last = &archive->entries[archive->entries_count - 1];
    struct archive_key left = entry_key(archive, last - 1), right = entry_key(archive, last);
    archive->unsorted = !bytes_equal(left.tenant, right.tenant);
}

size_t archive_add(struct archive *archive, const struct stored_event *event)
{
    must(event->sequence > archive->added_last);
    must(event->tenant.size > 0);
    struct buf *run = &archive->run;
    size_t offset = run->size;
    buf_add(run, event->tenant);
    if (event->encoded.size)
        buf_add(run, event->encoded);
    else
        stored_event_encode(run, event);
    must(!run->failed);
    size_t event_size = run->size - offset - event->tenant.size;
    must(event->tenant.size + event_size < ARCHIVE_FRAME_MAX - 64);
    *entry_new(archive) = (struct archive_entry){
        .sequence = event->sequence,
        .arrived_ms = event->arrived_ms,
        .offset = offset,
        .tenant_size = (uint32_t)event->tenant.size,
        .event_size = (uint32_t)event_size,
        .duplicate = event->duplicate,
    };
    archive->added_last = event->sequence;
    note_order(archive);
    return run->size;
}

void archive_abandon(struct archive *archive)
{
    buf_release(&archive->run);
    free(archive->entries);
    archive->entries = NULL;
    archive->entries_count = archive->entries_capacity = 0;
    archive->unsorted = false;
    archive->added_last = archive_last(archive);
}

static int entry_compare(const void *a, const void *b, void *context)
{
    struct archive_key left = entry_key(context, a), right = entry_key(context, b);
    return archive_key_compare(&left, &right);
}

static void writer_put(struct archive_writer *writer, struct bytes bytes)
{
    if (writer->result < 0 || bytes.size == 0) return;
    struct io *io = writer->archive->io;
    writer->result = io->ops->write(io, writer->fd, bytes.data, bytes.size, writer->written);
    writer->written += bytes.size;
}

static void writer_flush(struct archive_writer *writer)
{
    writer_put(writer, buf_bytes(&writer->out));
    buf_reset(&writer->out);
}

static void frame_pack(struct archive_writer *writer)
{
    size_t before = writer->out.size;
    archive_pack(writer->packer, buf_bytes(&writer->raw), &writer->out);
    writer->frame.stored_size = (uint32_t)(writer->out.size - before);
    writer->frame.raw_size = (uint32_t)writer->raw.size;
    writer->frame.checksum = hash_checksum(buf_bytes(&writer->raw));
}

static void frame_end(struct archive_writer *writer)
{
    if (writer->raw.size == 0) return;
    writer->frame.last = writer->cursor.key;
    frame_pack(writer);
    archive_frame_encode(&writer->index, &writer->frame);
    writer->summary->frames_count++;
    buf_reset(&writer->raw);
    writer->cursor = (struct archive_cursor){0};
    if (writer->out.size >= ARCHIVE_WRITE_SIZE) writer_flush(writer);
}

static void arrived_widen(int64_t *min, int64_t *max, bool first, int64_t arrived_ms)
{
    if (first || arrived_ms < *min) *min = arrived_ms;
    if (first || arrived_ms > *max) *max = arrived_ms;
}

static void writer_record(struct archive_writer *writer, const struct archive_entry *entry)
{
    struct archive_key key = entry_key(writer->archive, entry);
    struct bytes event = bytes_of(key.tenant.data + key.tenant.size, entry->event_size);
    if (writer->raw.size + key.tenant.size + event.size > ARCHIVE_FRAME_SIZE) frame_end(writer);
    struct archive_frame *frame = &writer->frame;
    struct archive_summary *summary = writer->summary;
    bool first = writer->raw.size == 0;
    if (first) *frame = (struct archive_frame){.first = key};
    arrived_widen(&frame->arrived_min, &frame->arrived_max, first, entry->arrived_ms);
    arrived_widen(&summary->arrived_min, &summary->arrived_max, summary->records_count == 0,
                  entry->arrived_ms);
    if (entry->duplicate)
        frame->duplicates = true;
    else
        frame->events = true;
    frame->records_count++;
    summary->records_count++;
    archive_record_encode(&writer->raw, &writer->cursor, &key, entry->arrived_ms, event);
    must(!writer->raw.failed);
    struct bytes id = stored_event_id(event);
    size_t to_end = (size_t)(event.data + event.size - id.data);
    archive_pack_id(writer->packer, id, writer->raw.size - to_end);
}

static void writer_run(struct archive_writer *writer)
{
    struct archive *archive = writer->archive;
    struct archive_summary *summary = writer->summary;
    char header[ARCHIVE_HEADER_SIZE], trailer[ARCHIVE_TRAILER_SIZE];
    archive_header_encode(header, archive->installation, summary->first, summary->last);
    buf_add(&writer->out, bytes_of(header, sizeof header));
    for (size_t i = 0; i < archive->entries_count && writer->result >= 0; i++)
        writer_record(writer, &archive->entries[i]);
    frame_end(writer);
    writer_flush(writer);

    must(!writer->index.failed);
    summary->index_offset = writer->written;
    summary->index_size = writer->index.size;
    summary->index_checksum = hash_checksum(buf_bytes(&writer->index));
    archive_trailer_encode(trailer, header, summary);
    buf_add(&writer->index, bytes_of(trailer, sizeof trailer));
    writer_put(writer, buf_bytes(&writer->index));
    summary->size = writer->written;
}

/* Writes and syncs all of the file; 0 or a negative errno. */
static int64_t run_write(struct archive *archive, int fd, struct archive_summary *summary)
{
    struct archive_writer writer = {.archive = archive, .summary = summary, .fd = fd};
    buf_init(&writer.out, ARCHIVE_WRITE_SIZE + ARCHIVE_STORED_MAX);
    buf_init(&writer.raw, ARCHIVE_FRAME_MAX);
    buf_init(&writer.index, ARCHIVE_INDEX_MAX);
    writer.packer = archive_packer_new();
    writer_run(&writer);
    archive_packer_free(writer.packer);
    buf_release(&writer.index);
    buf_release(&writer.raw);
    buf_release(&writer.out);
    if (writer.result < 0) return writer.result;
    return archive->io->ops->sync(archive->io, fd);
}

static void run_paths(const struct archive *archive, uint64_t first, uint64_t last,
                      char temporary[ARCHIVE_PATH_MAX], char path[ARCHIVE_PATH_MAX])
{
    char name[ARCHIVE_NAME_SIZE];
    archive_name(name, first, last);
    archive_path(archive, temporary, ARCHIVE_TEMPORARY);
    archive_path(archive, path, name);
}

static enum err run_publish(struct archive *archive, struct archive_summary *summary)
{
    struct io *io = archive->io;
    char temporary[ARCHIVE_PATH_MAX], path[ARCHIVE_PATH_MAX];
    run_paths(archive, summary->first, summary->last, temporary, path);
    int fd = io->ops->open(io, temporary, true, false);
    if (fd < 0) return ERR_STORAGE;
    int64_t result = run_write(archive, fd, summary);
    io->ops->close(io, fd);
    if (result == 0) result = io->ops->rename(io, temporary, path);
    if (result == 0) result = io->ops->sync_dir(io, archive->dir);
    return result == 0 ? ERR_OK : ERR_STORAGE;
}

/* Removes what a failed try may have left; see above. */
static enum err litter_remove(struct archive *archive)
{
    if (archive->litter_last == 0) return ERR_OK;
    struct io *io = archive->io;
    char temporary[ARCHIVE_PATH_MAX], path[ARCHIVE_PATH_MAX];
    run_paths(archive, archive_last(archive) + 1, archive->litter_last, temporary, path);
    int first = io->ops->unlink(io, temporary);
    int second = io->ops->unlink(io, path);
    if ((first < 0 && first != -ENOENT) || (second < 0 && second != -ENOENT)) return ERR_STORAGE;
    if (io->ops->sync_dir(io, archive->dir) < 0) return ERR_STORAGE;
    archive->litter_last = 0;
    return ERR_OK;
}

enum err archive_seal(struct archive *archive, uint64_t last)
{
    struct archive_summary summary = {.first = archive_last(archive) + 1, .last = last};
    archive_check(archive);
    must(last >= archive->added_last);
    if (last < summary.first) return ERR_OK; /* a run of nothing */
    enum err e = litter_remove(archive);
    if (e != ERR_OK) return e;
    if (archive->unsorted)
        qsort_r(archive->entries, archive->entries_count, sizeof *archive->entries, entry_compare,
                archive);
    archive->litter_last = last;
    e = run_publish(archive, &summary);
    if (e != ERR_OK) {
        archive_complain(&summary, e, "an archive file could not be written");
        litter_remove(archive); /* if that fails the next try begins with it */
        return e;
    }
    archive->litter_last = 0;
    archive_list_add(archive, &summary, false);
    archive_abandon(archive);
    archive_check(archive);
    return ERR_OK;
}
