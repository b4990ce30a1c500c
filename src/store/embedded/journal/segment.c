/* segment.c -- the bytes of one journal segment file.
 *
 * Integers are little-endian. Format 1. A newer format in a segment header refuses the journal.
 *
 * Segment header, the first 4 KiB:            Block, on a 4 KiB boundary:
 *      0  u64  magic "tallyseg"                    0  u32  magic "blok"
 *      8  u32  format                              4  u32  format
 *     12  u32  zero                                8  u64  segment key
 *     16  u64  installation                       16  u64  epoch
 *     24  u64  epoch                              24  u64  first sequence
 *     32  u64  segment number, as in the name     32  u32  count of sequences, at least 1
 *     40  u64  predecessor's last sequence        36  u32  body length
 *     48  u64  predecessor's checksum             40  i64  batch time, ms
 *     56  i64  predecessor's batch time           48  u64  next series
 *     64  u64  checksum of bytes 0..63: the key   56  u64  `durable` as known when built
 *     72       zeros                              64  u64  checksum of the block before
 *                                                 72  u64  checksum of the body
 *                                                 80  u64  own checksum, of bytes 0..79
 *                                                 88       body, then zeros up to 4 KiB
 *
 * Checksums are XXH3, 64 bits. The own checksum covers the body through the body's; that the header
 * can be checked alone lets a torn block with a whole header still bear witness to `durable`.
 *
 * (1) A block counts only in the segment whose header has its key. So what an earlier use of a
 *     recycled file left behind is never taken for new, not even as a witness. The key hashes the
 *     installation's random number and the history, so nobody can put bytes into a body that pass
 *     for a block header of the segment they end up in.
 * (2) A segment header is written after everything up to its predecessor is durable. */
#include "store/embedded/journal/segment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/hash.h"

#define SEGMENT_MAGIC 0x676573796c6c6174u
#define SEGMENT_HASHED 64u
#define BLOCK_MAGIC 0x6b6f6c62u
#define BLOCK_HASHED 80u
#define FORMAT 1u

#define WINDOW_SIZE (1u << 20) /* read at once; one large read costs less than many small ones */

_Static_assert(SEGMENT_BLOCK_HEADER == BLOCK_HASHED + 8, "the checksum ends the header");
_Static_assert(WINDOW_SIZE % IO_ALIGN == 0, "direct reads");

static const char *const kind_prefix[] = {
    [SEGMENT_LIVE] = "journal-",
    [SEGMENT_SPARE] = "spare-",
    [SEGMENT_MAKING] = "making-",
};

void segment_name(char name[SEGMENT_NAME_SIZE], enum segment_kind kind, uint64_t number)
{
    snprintf(name, SEGMENT_NAME_SIZE, "%s%016" PRIx64 ".seg", kind_prefix[kind], number);
}

/* Parses by writing: a name that does not come out the same is not ours. */
bool segment_name_parse(const char *name, enum segment_kind *kind_out, uint64_t *number_out)
{
    for (unsigned kind = 0; kind < ARRAY_COUNT(kind_prefix); kind++) {
        size_t prefix = strlen(kind_prefix[kind]);
        if (strncmp(name, kind_prefix[kind], prefix) != 0) continue;
        char again[SEGMENT_NAME_SIZE];
        uint64_t number = strtoull(name + prefix, NULL, 16);
        segment_name(again, (enum segment_kind)kind, number);
        if (strcmp(name, again) != 0) return false;
        *kind_out = (enum segment_kind)kind;
        *number_out = number;
        return true;
    }
    return false;
}

void segment_header_encode(char page[IO_ALIGN], struct segment_header *header)
{
    memset(page, 0, IO_ALIGN);
    put_u64(page, SEGMENT_MAGIC);
    put_u32(page + 8, FORMAT);
    put_u64(page + 16, header->installation);
    put_u64(page + 24, header->epoch);
    put_u64(page + 32, header->number);
    put_u64(page + 40, header->previous.sequence);
    put_u64(page + 48, header->previous.checksum);
    put_u64(page + 56, (uint64_t)header->previous.time_ms);
    header->key = hash_checksum(bytes_of(page, SEGMENT_HASHED));
    put_u64(page + 64, header->key);
}

const char *segment_header_decode(struct bytes page, uint64_t installation,
                                  struct segment_header *header_out)
{
    if (page.size < IO_ALIGN) return "is too short for its header";
    const char *at = page.data;
    uint64_t key = get_u64(at + 64);
    if (get_u64(at) != SEGMENT_MAGIC || key != hash_checksum(bytes_of(at, SEGMENT_HASHED)))
        return "has a damaged header";
    if (get_u32(at + 8) != FORMAT) return "has a format this version does not know";
    if (get_u64(at + 16) != installation) return "belongs to another installation";
    *header_out = (struct segment_header){
        .installation = installation,
        .epoch = get_u64(at + 24),
        .number = get_u64(at + 32),
        .previous = {get_u64(at + 40), get_u64(at + 48), (int64_t)get_u64(at + 56)},
        .key = key,
    };
    return NULL;
}

size_t segment_block_size(size_t body_size)
{
    return (SEGMENT_BLOCK_HEADER + body_size + IO_ALIGN - 1) / IO_ALIGN * IO_ALIGN;
}

uint64_t segment_block_encode(char *at, const struct segment_link *link,
                              const struct journal_block *block)
{
    must(block->body.size <= UINT32_MAX);
    put_u32(at, BLOCK_MAGIC);
    put_u32(at + 4, FORMAT);
    put_u64(at + 8, link->segment_key);
    put_u64(at + 16, link->epoch);
    put_u64(at + 24, block->first_sequence);
    put_u32(at + 32, block->count);
    put_u32(at + 36, (uint32_t)block->body.size);
    put_u64(at + 40, (uint64_t)block->time_ms);
    put_u64(at + 48, block->next_series);
    put_u64(at + 56, link->durable);
    put_u64(at + 64, link->previous);
    put_u64(at + 72, hash_checksum(block->body));
    uint64_t checksum = hash_checksum(bytes_of(at, BLOCK_HASHED));
    put_u64(at + 80, checksum);

    size_t used = SEGMENT_BLOCK_HEADER + block->body.size;
    if (block->body.size) memcpy(at + SEGMENT_BLOCK_HEADER, block->body.data, block->body.size);
    memset(at + used, 0, segment_block_size(block->body.size) - used);
    return checksum;
}

/* Decodes the header alone: `block_out->body` gets its size but no data. */
static bool block_header_decode(struct bytes bytes, struct segment_link *link_out,
                                struct journal_block *block_out)
{
    const char *at = bytes.data;
    if (bytes.size < SEGMENT_BLOCK_HEADER) return false;
    if (get_u32(at) != BLOCK_MAGIC || get_u32(at + 4) != FORMAT) return false;
    if (get_u64(at + 80) != hash_checksum(bytes_of(at, BLOCK_HASHED))) return false;
    *link_out = (struct segment_link){
        .segment_key = get_u64(at + 8),
        .epoch = get_u64(at + 16),
        .durable = get_u64(at + 56),
        .previous = get_u64(at + 64),
    };
    *block_out = (struct journal_block){
        .first_sequence = get_u64(at + 24),
        .count = get_u32(at + 32),
        .time_ms = (int64_t)get_u64(at + 40),
        .next_series = get_u64(at + 48),
        .body = {NULL, get_u32(at + 36)},
    };
    return block_out->count > 0 && block_out->first_sequence <= UINT64_MAX - block_out->count;
}

enum err journal_block_decode(struct bytes bytes, struct journal_block *block_out)
{
    struct segment_link link;
    if (!block_header_decode(bytes, &link, block_out)) return ERR_CORRUPT;
    if (block_out->body.size > bytes.size - SEGMENT_BLOCK_HEADER) return ERR_CORRUPT;
    block_out->body.data = bytes.data + SEGMENT_BLOCK_HEADER;
    return get_u64(bytes.data + 72) == hash_checksum(block_out->body) ? ERR_OK : ERR_CORRUPT;
}

/* How much to read from `offset` on: a window full, but no more than there is. */
static size_t reader_stride(const struct segment_reader *reader, uint64_t offset, size_t size)
{
    uint64_t left = reader->size > offset ? reader->size - offset : 0;
    size_t stride = left < WINDOW_SIZE ? (size_t)left : WINDOW_SIZE;
    if (offset == 0 || stride < size) stride = size; /* the header is often all that is wanted */
    return (stride + IO_ALIGN - 1) / IO_ALIGN * IO_ALIGN;
}

static enum err reader_fill(struct segment_reader *reader, uint64_t offset, size_t size)
{
    if (size > reader->window_capacity) {
        free(reader->window);
        reader->window = aligned_alloc(IO_ALIGN, size);
        must(reader->window != NULL);
        reader->window_capacity = size;
    }
    reader->window_offset = offset;
    reader->window_size = 0;
    int64_t got = reader->io->ops->read(reader->io, reader->fd, reader->window, size, offset);
    if (got < 0) {
        reader->error = (int)-got;
        return ERR_STORAGE;
    }
    reader->window_size = (size_t)got;
    return ERR_OK;
}

/* Brings [offset, offset + size) into the window, or as much of it as the file holds. */
static enum err reader_view(struct segment_reader *reader, uint64_t offset, size_t size,
                            struct bytes *view_out)
{
    must(offset % IO_ALIGN == 0);
    bool inside = offset >= reader->window_offset &&
                  offset + size <= reader->window_offset + reader->window_size;
    enum err e = inside ? ERR_OK : reader_fill(reader, offset, reader_stride(reader, offset, size));
    if (e != ERR_OK) return e;
    size_t skip = (size_t)(offset - reader->window_offset);
    size_t left = reader->window_size - skip;
    *view_out = bytes_of(reader->window + skip, left < size ? left : size);
    return ERR_OK;
}

enum err segment_reader_open(struct segment_reader *reader, struct io *io, const char *path,
                             uint64_t installation, const char **reason_out)
{
    *reader = (struct segment_reader){.io = io, .fd = -1, .offset = IO_ALIGN};
    *reason_out = NULL;
    /* The file is opened direct, so that what is read is what the disk has and not a page the
     * kernel kept although its writing had failed. */
    reader->fd = io->ops->open(io, path, false, true);
    int64_t size = reader->fd < 0 ? reader->fd : io->ops->size(io, reader->fd);
    if (size < 0) {
        reader->error = (int)-size;
        return ERR_STORAGE;
    }
    reader->size = (uint64_t)size;
    struct bytes page;
    enum err e = reader_view(reader, 0, IO_ALIGN, &page);
    if (e != ERR_OK) return e;
    *reason_out = segment_header_decode(page, installation, &reader->header);
    reader->end = reader->header.previous;
    return *reason_out ? ERR_CORRUPT : ERR_OK;
}

void segment_reader_close(struct segment_reader *reader)
{
    if (reader->fd >= 0) reader->io->ops->close(reader->io, reader->fd);
    free(reader->window);
    *reader = (struct segment_reader){.fd = -1};
}

static bool reader_continues(const struct segment_reader *reader, const struct segment_link *link,
                             const struct journal_block *block)
{
    return link->segment_key == reader->header.key && link->epoch == reader->header.epoch &&
           link->previous == reader->end.checksum &&
           block->first_sequence == reader->end.sequence + 1;
}

enum err segment_reader_next(struct segment_reader *reader, struct journal_block *block_out)
{
    if (reader->offset + IO_ALIGN > reader->size) return ERR_CORRUPT;
    struct bytes view;
    struct segment_link link;
    enum err e = reader_view(reader, reader->offset, IO_ALIGN, &view);
    if (e != ERR_OK) return e;
    if (!block_header_decode(view, &link, block_out)) return ERR_CORRUPT;
    if (!reader_continues(reader, &link, block_out)) return ERR_CORRUPT;

    size_t size = segment_block_size(block_out->body.size);
    if (size > reader->size - reader->offset) return ERR_CORRUPT;
    e = reader_view(reader, reader->offset, size, &view);
    if (e != ERR_OK) return e;
    e = journal_block_decode(view, block_out);
    if (e != ERR_OK) return e;
    reader->offset += size;
    reader->end = (struct chain_end){
        .sequence = block_out->first_sequence + block_out->count - 1,
        .checksum = get_u64(view.data + BLOCK_HASHED),
        .time_ms = block_out->time_ms,
    };
    return ERR_OK;
}

enum err segment_reader_claim(struct segment_reader *reader, uint64_t *durable_out)
{
    *durable_out = 0;
    for (uint64_t at = reader->offset; at + IO_ALIGN <= reader->size; at += IO_ALIGN) {
        struct bytes view;
        struct segment_link link;
        struct journal_block block;
        enum err e = reader_view(reader, at, IO_ALIGN, &view);
        if (e != ERR_OK) return e;
        if (!block_header_decode(view, &link, &block)) continue;
        if (link.segment_key != reader->header.key) continue;
        if (link.durable > *durable_out) *durable_out = link.durable;
    }
    return ERR_OK;
}
