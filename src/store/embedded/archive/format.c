/* format.c -- the bytes of an archive file.
 *
 * Integers are little-endian; varints where it says so. Format 2.
 *
 * Header:                                  Trailer, the last 72 bytes:
 *      0  u64  magic "tallyarc"                 0  u64  magic "tallyend"
 *      8  u32  format                           8  u64  the header's checksum
 *     12  u32  zero                            16  u64  offset of the index
 *     16  u64  installation                    24  u64  size of the index
 *     24  u64  first sequence of the run       32  u32  count of frames
 *     32  u64  last sequence of the run        36  u32  count of records
 *     40  u64  checksum of bytes 0..39         40  i64  first arrival, ms
 *                                              48  i64  last arrival, ms
 *                                              56  u64  checksum of the index
 *                                              64  u64  checksum of bytes 0..63
 *
 * Between them the frames, one after the other without a gap, then the index. A frame is
 * records, packed by pack.c:
 *
 *     sized tenant (empty: as in the record before), varint sequence (less that of the record
 *     before if it has the same tenant), signed arrival less that of the record before, sized event
 *
 * The index has for each frame: the first and last record's tenant (sized) and sequence (varint),
 * first arrival (signed), last less first arrival, stored size, raw size, count of records
 * (varints), u8 kinds (1: events, 2: duplicates), u64 checksum of the raw bytes. Offsets follow
 * from the sizes.
 *
 * (1) Every byte is under a checksum: raw bytes by the index, the index and the header by the
 *     trailer. The trailer names the header's, so the ends of two files do not pass for one.
 * (2) Checksums do not keep a malicious hand out; all is decoded with care nevertheless. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/hash.h"
#include "store/embedded/archive/internal.h"

#define HEADER_MAGIC 0x637261796c6c6174u
#define TRAILER_MAGIC 0x646e65796c6c6174u
#define FORMAT 2u

#define KIND_EVENTS 1u
#define KIND_DUPLICATES 2u

#define FRAME_ENTRY_MIN 19u /* bytes of the index, with tenants of one byte */

void archive_name(char name[ARCHIVE_NAME_SIZE], uint64_t first, uint64_t last)
{
    snprintf(name, ARCHIVE_NAME_SIZE, "events-%016" PRIx64 "-%016" PRIx64 ".tally", first, last);
}

/* Parses by writing: a name that does not come out the same is not ours. */
bool archive_name_parse(const char *name, uint64_t *first_out, uint64_t *last_out)
{
    if (strncmp(name, "events-", 7) != 0) return false;
    char *end;
    uint64_t first = strtoull(name + 7, &end, 16);
    if (*end != '-') return false;
    uint64_t last = strtoull(end + 1, NULL, 16);
    char again[ARCHIVE_NAME_SIZE];
    archive_name(again, first, last);
    if (strcmp(name, again) != 0 || first == 0 || first > last) return false;
    *first_out = first;
    *last_out = last;
    return true;
}

int archive_key_compare(const struct archive_key *a, const struct archive_key *b)
{
    int order = bytes_compare(a->tenant, b->tenant);
    return order ? order : (a->sequence > b->sequence) - (a->sequence < b->sequence);
}

void archive_header_encode(char header[ARCHIVE_HEADER_SIZE], uint64_t installation, uint64_t first,
                           uint64_t last)
{
    put_u64(header, HEADER_MAGIC);
    put_u32(header + 8, FORMAT);
    put_u32(header + 12, 0);
    put_u64(header + 16, installation);
    put_u64(header + 24, first);
    put_u64(header + 32, last);
    put_u64(header + 40, hash_checksum(bytes_of(header, 40)));
}

void archive_trailer_encode(char trailer[ARCHIVE_TRAILER_SIZE],
                            const char header[ARCHIVE_HEADER_SIZE],
                            const struct archive_summary *summary)
{
    put_u64(trailer, TRAILER_MAGIC);
    put_u64(trailer + 8, get_u64(header + 40));
    put_u64(trailer + 16, summary->index_offset);
    put_u64(trailer + 24, summary->index_size);
    put_u32(trailer + 32, summary->frames_count);
    put_u32(trailer + 36, summary->records_count);
    put_u64(trailer + 40, (uint64_t)summary->arrived_min);
    put_u64(trailer + 48, (uint64_t)summary->arrived_max);
    put_u64(trailer + 56, summary->index_checksum);
    put_u64(trailer + 64, hash_checksum(bytes_of(trailer, 64)));
}

static enum archive_verdict header_judge(const char *header, uint64_t installation,
                                         const struct archive_summary *summary)
{
    if (get_u64(header) != HEADER_MAGIC) return ARCHIVE_DAMAGED;
    if (get_u64(header + 40) != hash_checksum(bytes_of(header, 40))) return ARCHIVE_DAMAGED;
    if (get_u64(header + 16) != installation) return ARCHIVE_FOREIGN;
    if (get_u32(header + 8) != FORMAT) return ARCHIVE_NEWER;
    if (get_u64(header + 24) != summary->first) return ARCHIVE_DAMAGED;
    if (get_u64(header + 32) != summary->last) return ARCHIVE_DAMAGED;
    return ARCHIVE_GOOD;
}

/* The sizes bound what is allocated for the index later. */
static bool trailer_fits(const struct archive_summary *summary)
{
    const uint64_t ends = ARCHIVE_HEADER_SIZE + ARCHIVE_TRAILER_SIZE;
    if (summary->size < ends || summary->index_size > summary->size - ends) return false;
    if (summary->index_offset != summary->size - ARCHIVE_TRAILER_SIZE - summary->index_size)
        return false;
    if (summary->index_size > ARCHIVE_INDEX_MAX) return false;
    if (summary->frames_count > summary->index_size / FRAME_ENTRY_MIN) return false;
    if (summary->frames_count > summary->records_count) return false;
    if ((summary->frames_count == 0) != (summary->records_count == 0)) return false;
    return summary->arrived_min <= summary->arrived_max;
}

static bool trailer_decode(const char *header, const char *trailer, struct archive_summary *summary)
{
    if (get_u64(trailer) != TRAILER_MAGIC) return false;
    if (get_u64(trailer + 64) != hash_checksum(bytes_of(trailer, 64))) return false;
    if (get_u64(trailer + 8) != get_u64(header + 40)) return false;
    summary->index_offset = get_u64(trailer + 16);
    summary->index_size = get_u64(trailer + 24);
    summary->frames_count = get_u32(trailer + 32);
    summary->records_count = get_u32(trailer + 36);
    summary->arrived_min = (int64_t)get_u64(trailer + 40);
    summary->arrived_max = (int64_t)get_u64(trailer + 48);
    summary->index_checksum = get_u64(trailer + 56);
    return trailer_fits(summary);
}

enum archive_verdict archive_summary_decode(const char header[ARCHIVE_HEADER_SIZE],
                                            const char trailer[ARCHIVE_TRAILER_SIZE],
                                            uint64_t installation, struct archive_summary *summary)
{
    enum archive_verdict verdict = header_judge(header, installation, summary);
    if (verdict != ARCHIVE_GOOD) return verdict;
    return trailer_decode(header, trailer, summary) ? ARCHIVE_GOOD : ARCHIVE_DAMAGED;
}

static void key_encode(struct buf *buf, const struct archive_key *key)
{
    buf_add_sized(buf, key->tenant);
    buf_add_varint(buf, key->sequence);
}

static struct archive_key key_decode(struct reader *reader)
{
    struct archive_key key = {.tenant = read_sized(reader)};
    key.sequence = read_varint(reader);
    return key;
}

void archive_frame_encode(struct buf *index, const struct archive_frame *frame)
{
    key_encode(index, &frame->first);
    key_encode(index, &frame->last);
    buf_add_signed(index, frame->arrived_min);
    buf_add_varint(index, (uint64_t)frame->arrived_max - (uint64_t)frame->arrived_min);
    buf_add_varint(index, frame->stored_size);
    buf_add_varint(index, frame->raw_size);
    buf_add_varint(index, frame->records_count);
    unsigned kinds = (frame->events ? KIND_EVENTS : 0) | (frame->duplicates ? KIND_DUPLICATES : 0);
    buf_add_char(index, (char)kinds);
    buf_add_fixed64(index, frame->checksum);
}

static uint32_t read_up_to(struct reader *reader, uint32_t max)
{
    uint64_t value = read_varint(reader);
    if (value > max) reader->failed = true;
    return (uint32_t)value;
}

static bool frame_fits(const struct archive_summary *summary, const struct archive_frame *frame)
{
    if (frame->stored_size == 0 || frame->raw_size == 0) return false;
    if (frame->first.tenant.size == 0 || frame->records_count == 0) return false;
    if (frame->first.sequence < summary->first || frame->first.sequence > summary->last)
        return false;
    if (frame->last.sequence < summary->first || frame->last.sequence > summary->last) return false;
    if (frame->arrived_min < summary->arrived_min) return false;
    if (frame->arrived_max < frame->arrived_min) return false;
    if (frame->arrived_max > summary->arrived_max) return false;
    return archive_key_compare(&frame->first, &frame->last) <= 0;
}

static bool frame_decode(struct reader *reader, const struct archive_summary *summary,
                         uint64_t offset, struct archive_frame *frame_out)
{
    struct archive_frame frame = {.first = key_decode(reader), .offset = offset};
    frame.last = key_decode(reader);
    frame.arrived_min = read_signed(reader);
    frame.arrived_max = (int64_t)((uint64_t)frame.arrived_min + read_varint(reader));
    frame.stored_size = read_up_to(reader, ARCHIVE_STORED_MAX);
    frame.raw_size = read_up_to(reader, ARCHIVE_FRAME_MAX);
    frame.records_count = read_up_to(reader, summary->records_count);
    unsigned kinds = read_u8(reader);
    frame.events = kinds & KIND_EVENTS;
    frame.duplicates = kinds & KIND_DUPLICATES;
    frame.checksum = read_fixed64(reader);
    *frame_out = frame;
    return !reader->failed && kinds >= 1 && kinds <= (KIND_EVENTS | KIND_DUPLICATES) &&
           frame_fits(summary, &frame);
}

/* The frames must fill the room between header and index, in growing order of their keys. */
static bool frames_decode(struct reader *reader, const struct archive_summary *summary,
                          struct archive_frame *frames)
{
    uint64_t offset = ARCHIVE_HEADER_SIZE;
    uint64_t records = 0;
    for (uint32_t i = 0; i < summary->frames_count; i++) {
        struct archive_frame *frame = &frames[i];
        if (!frame_decode(reader, summary, offset, frame)) return false;
        if (frame->stored_size > summary->index_offset - offset) return false;
        if (i > 0 && archive_key_compare(&frame[-1].last, &frame->first) >= 0) return false;
        offset += frame->stored_size;
        records += frame->records_count;
    }
    return offset == summary->index_offset && records == summary->records_count &&
           reader_left(reader) == 0;
}

bool archive_index_decode(const struct archive_summary *summary, char *bytes,
                          struct archive_index *index_out)
{
    struct bytes view = bytes_of(bytes, summary->index_size);
    if (hash_checksum(view) != summary->index_checksum) return false;
    struct reader reader = reader_of(view);
    struct archive_frame *frames = must_calloc(summary->frames_count + 1ul, sizeof *frames);
    if (!frames_decode(&reader, summary, frames)) {
        free(frames);
        return false;
    }
    *index_out = (struct archive_index){frames, bytes};
    return true;
}

void archive_index_release(struct archive_index *index)
{
    free(index->frames);
    free(index->bytes);
    *index = (struct archive_index){0};
}

void archive_record_encode(struct buf *raw, struct archive_cursor *cursor,
                           const struct archive_key *key, int64_t arrived_ms, struct bytes event)
{
    bool same = bytes_equal(cursor->key.tenant, key->tenant);
    buf_add_sized(raw, same ? BYTES_NONE : key->tenant);
    buf_add_varint(raw, same ? key->sequence - cursor->key.sequence : key->sequence);
    buf_add_signed(raw, (int64_t)((uint64_t)arrived_ms - (uint64_t)cursor->arrived_ms));
    buf_add_sized(raw, event);
    *cursor = (struct archive_cursor){*key, arrived_ms};
}

bool archive_record_decode(struct reader *reader, struct archive_cursor *cursor,
                           struct stored_event *event_out)
{
    struct archive_key key = key_decode(reader);
    if (key.tenant.size == 0) {
        key.tenant = cursor->key.tenant;
        if (__builtin_add_overflow(key.sequence, cursor->key.sequence, &key.sequence)) return false;
    }
    bool grows = archive_key_compare(&cursor->key, &key) < 0;
    int64_t arrived_ms = (int64_t)((uint64_t)cursor->arrived_ms + (uint64_t)read_signed(reader));
    struct reader event = reader_of(read_sized(reader));
    if (reader->failed || !grows || key.tenant.size == 0) return false;
    *event_out = (struct stored_event){0};
    stored_event_decode(&event, event_out);
    if (event.failed || reader_left(&event) > 0) return false;
    event_out->sequence = key.sequence;
    event_out->arrived_ms = arrived_ms;
    event_out->tenant = key.tenant;
    *cursor = (struct archive_cursor){key, arrived_ms};
    return true;
}
