/* read.c -- retained events in order of arrival.
 *
 * For one tenant, the index of each file leads to the frames that may hold its records; they follow
 * one another. For all tenants, a file is decoded whole and sorted, because its records lie by
 * tenant; a run is at most some tens of MiB.
 *
 * A frame is decoded only after its checksum was found right. Whether what it says is possible is
 * checked on the way too, so that no bytes on disk lead out of bounds. */
#include <stdlib.h>

#include "base/codec.h"
#include "base/hash.h"
#include "store/embedded/archive/internal.h"
#include "store/embedded/archive/pack.h"

#define EVERYBODY_CHUNK (1u << 20)

struct archive_reading {
    struct archive *archive;
    const struct event_query *query;
    store_event_fn *visit;
    void *context;
    uint64_t after; /* everything wanted up to here was visited */
    size_t spent;   /* bytes of the budget */
    bool stopped;   /* by the visitor or the budget */
    struct archive_unpacker *unpacker;
    struct buf stored;
    struct buf raw;
};

/* True only once there is something to show for it, else a reader would never get on. */
static bool is_spent(const struct archive_reading *reading)
{
    return reading->spent >= reading->query->budget && reading->after > reading->query->after;
}

static bool frame_concerns(const struct archive_frame *frame, const struct event_query *query)
{
    if (frame->arrived_max < query->arrived_from) return false;
    return (frame->events && query->events) || (frame->duplicates && query->duplicates);
}

static bool event_concerns(const struct stored_event *event, const struct archive_reading *reading)
{
    const struct event_query *query = reading->query;
    if (event->sequence <= reading->after || event->sequence > query->upto) return false;
    if (event->arrived_ms < query->arrived_from) return false;
    return event->duplicate ? query->duplicates : query->events;
}

static void event_visit(struct archive_reading *reading, const struct stored_event *event)
{
    reading->after = event->sequence;
    if (!reading->visit(reading->context, event)) reading->stopped = true;
}

static enum err frame_damaged(const struct archive_file *file)
{
    return archive_complain(&file->summary, ERR_CORRUPT, "a frame of an archive file is damaged");
}

/* Fills `raw_out`, which has room for frame->raw_size bytes. */
static enum err frame_read(struct archive_reading *reading, const struct archive_file *file,
                           const struct archive_frame *frame, char *raw_out)
{
    struct io *io = reading->archive->io;
    buf_reset(&reading->stored);
    char *stored = buf_reserve(&reading->stored, frame->stored_size);
    must(stored != NULL);
    reading->spent += (size_t)frame->stored_size + frame->raw_size;
    int64_t got = io->ops->read(io, file->fd, stored, frame->stored_size, frame->offset);
    if (got < 0)
        return archive_complain(&file->summary, ERR_STORAGE, "an archive file is not readable");
    if (got != frame->stored_size) return frame_damaged(file);
    struct bytes bytes = bytes_of(stored, frame->stored_size);
    if (!archive_unpack(reading->unpacker, bytes, raw_out, frame->raw_size))
        return frame_damaged(file);
    if (hash_checksum(bytes_of(raw_out, frame->raw_size)) != frame->checksum)
        return frame_damaged(file);
    return ERR_OK;
}

static bool record_next(struct reader *reader, struct archive_cursor *cursor,
                        const struct archive_file *file, struct stored_event *event_out)
{
    if (!archive_record_decode(reader, cursor, event_out)) return false;
    const struct archive_summary *summary = &file->summary;
    return event_out->sequence >= summary->first && event_out->sequence <= summary->last;
}

/* ---- one tenant ---- */

/* The first frame that may hold a record of the tenant after `after`. */
static uint32_t frame_find(const struct archive_file *file, const struct archive_key *after)
{
    uint32_t low = 0, high = file->summary.frames_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (archive_key_compare(&file->index.frames[middle].last, after) > 0)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static enum err frame_visit(struct archive_reading *reading, const struct archive_file *file,
                            const struct archive_frame *frame)
{
    buf_reset(&reading->raw);
    char *raw = buf_reserve(&reading->raw, frame->raw_size);
    must(raw != NULL);
    enum err e = frame_read(reading, file, frame, raw);
    if (e != ERR_OK) return e;
    struct reader reader = reader_of(bytes_of(raw, frame->raw_size));
    struct archive_cursor cursor = {0};
    while (reader_left(&reader) > 0 && !reading->stopped) {
        struct stored_event event;
        if (!record_next(&reader, &cursor, file, &event)) return frame_damaged(file);
        int order = bytes_compare(event.tenant, reading->query->tenant);
        if (order > 0) break;
        if (order == 0 && event_concerns(&event, reading)) event_visit(reading, &event);
    }
    return ERR_OK;
}

static enum err tenant_visit(struct archive_reading *reading, const struct archive_file *file)
{
    const struct event_query *query = reading->query;
    struct archive_key from = {query->tenant, reading->after};
    struct archive_key upto = {query->tenant, query->upto};
    for (uint32_t i = frame_find(file, &from); i < file->summary.frames_count; i++) {
        const struct archive_frame *frame = &file->index.frames[i];
        if (archive_key_compare(&frame->first, &upto) > 0) break;
        if (is_spent(reading)) reading->stopped = true;
        enum err e = ERR_OK;
        if (!reading->stopped && frame_concerns(frame, query))
            e = frame_visit(reading, file, frame);
        if (e != ERR_OK || reading->stopped) return e;
        if (!bytes_equal(frame->last.tenant, query->tenant)) break;
        reading->after = frame->last.sequence;
    }
    return ERR_OK;
}

/* ---- all tenants ---- */

struct everybody {
    struct stored_event *events;
    size_t count;
    size_t capacity;
    struct arena raw; /* what the events borrow from */
};

static void everybody_add(struct everybody *all, const struct stored_event *event)
{
    if (all->count == all->capacity) {
        all->capacity = all->capacity * 2 + 256;
        all->events = must_realloc(all->events, all->capacity * sizeof *all->events);
    }
    all->events[all->count++] = *event;
}

static int sequence_compare(const void *a, const void *b)
{
    const struct stored_event *left = a, *right = b;
    return (left->sequence > right->sequence) - (left->sequence < right->sequence);
}

/* Sorts by sequence, which no two records share. */
static bool everybody_sort(struct everybody *all)
{
    if (all->count) qsort(all->events, all->count, sizeof *all->events, sequence_compare);
    for (size_t i = 1; i < all->count; i++)
        if (all->events[i].sequence == all->events[i - 1].sequence) return false;
    return true;
}

static enum err frame_collect(struct archive_reading *reading, const struct archive_file *file,
                              const struct archive_frame *frame, struct everybody *all)
{
    char *raw = arena_alloc(&all->raw, frame->raw_size);
    enum err e = frame_read(reading, file, frame, raw);
    if (e != ERR_OK) return e;
    struct reader reader = reader_of(bytes_of(raw, frame->raw_size));
    struct archive_cursor cursor = {0};
    while (reader_left(&reader) > 0) {
        struct stored_event event;
        if (!record_next(&reader, &cursor, file, &event)) return frame_damaged(file);
        if (event_concerns(&event, reading)) everybody_add(all, &event);
    }
    return ERR_OK;
}

static enum err everybody_visit(struct archive_reading *reading, const struct archive_file *file)
{
    struct everybody all = {0};
    arena_init(&all.raw, EVERYBODY_CHUNK);
    enum err e = ERR_OK;
    for (uint32_t i = 0; i < file->summary.frames_count && e == ERR_OK; i++) {
        const struct archive_frame *frame = &file->index.frames[i];
        if (frame_concerns(frame, reading->query)) e = frame_collect(reading, file, frame, &all);
    }
    if (e == ERR_OK && !everybody_sort(&all)) e = frame_damaged(file);
    for (size_t i = 0; i < all.count && e == ERR_OK && !reading->stopped; i++)
        event_visit(reading, &all.events[i]);
    arena_release(&all.raw);
    free(all.events);
    return e;
}

/* ---- */

static enum err file_visit(struct archive_reading *reading, struct archive_file *file)
{
    if (is_spent(reading)) {
        reading->stopped = true;
        return ERR_OK;
    }
    size_t index_size;
    enum err e = archive_load(reading->archive, file, &index_size);
    reading->spent += index_size;
    if (e == ERR_OK) {
        bool one = reading->query->tenant.size > 0;
        e = one ? tenant_visit(reading, file) : everybody_visit(reading, file);
    }
    if (e == ERR_NOT_FOUND) e = ERR_OK; /* it was dropped: as if that had been before this read */
    if (!reading->stopped) reading->after = file->summary.last;
    return e;
}

enum err archive_read(struct archive *archive, const struct event_query *query,
                      store_event_fn *visit, void *context, uint64_t *next_out)
{
    struct archive_reading reading = {.archive = archive,
                                      .query = query,
                                      .visit = visit,
                                      .context = context,
                                      .after = query->after,
                                      .unpacker = archive_unpacker_new()};
    buf_init(&reading.stored, ARCHIVE_STORED_MAX);
    buf_init(&reading.raw, ARCHIVE_FRAME_MAX);
    enum err e = ERR_OK;
    struct archive_file *file;
    while (e == ERR_OK && !reading.stopped &&
           (file = archive_acquire(archive, query, reading.after))) {
        e = file_visit(&reading, file);
        archive_release(archive, file);
    }
    buf_release(&reading.raw);
    buf_release(&reading.stored);
    archive_unpacker_free(reading.unpacker);
    *next_out = e == ERR_OK && reading.stopped ? reading.after : 0;
    return e;
}
