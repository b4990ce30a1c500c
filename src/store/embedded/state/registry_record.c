/* registry_record.c -- see the header for the layout. Every read checks what it takes: these bytes
 * come from a disk. */
#include "store/embedded/state/registry_record.h"

#include "base/codec.h"

#define RECORD_FORMAT 0x10u
#define RECORD_FORMAT_MASK 0xf0u
#define RECORD_WIDE_TIME 0x01u
#define RECORD_WIDE_DIGEST 0x02u
#define RECORD_EVENT 0x04u
#define RECORD_FLAGS (RECORD_WIDE_TIME | RECORD_WIDE_DIGEST | RECORD_EVENT)
#define RECORD_TIME_SIZE 6u /* milliseconds until the year 10889 */

void record_key_put(char key[RECORD_KEY_SIZE], struct fingerprint print)
{
    put_ordered_u64(key, print.high);
    put_ordered_u64(key + 8, print.low);
}

enum err record_key_get(struct bytes key, struct fingerprint *print_out)
{
    if (key.size != RECORD_KEY_SIZE) return ERR_CORRUPT;
    print_out->high = get_ordered_u64(key.data);
    print_out->low = get_ordered_u64(key.data + 8);
    return ERR_OK;
}

int record_compare(struct fingerprint a, struct fingerprint b)
{
    if (a.high != b.high) return a.high < b.high ? -1 : 1;
    if (a.low != b.low) return a.low < b.low ? -1 : 1;
    return 0;
}

static unsigned record_flags(const struct key_record *record)
{
    unsigned flags = 0;
    if (((uint64_t)record->first_seen_ms >> (8 * RECORD_TIME_SIZE)) != 0) flags |= RECORD_WIDE_TIME;
    if (record->digest > UINT32_MAX) flags |= RECORD_WIDE_DIGEST;
    if (record->event) flags |= RECORD_EVENT;
    return flags;
}

void record_encode(struct buf *buf, const struct key_record *record)
{
    unsigned flags = record_flags(record);
    char time[8];
    put_ordered_u64(time, (uint64_t)record->first_seen_ms);
    size_t skip = flags & RECORD_WIDE_TIME ? 0 : sizeof time - RECORD_TIME_SIZE;

    buf_reset(buf);
    buf_add_char(buf, (char)(RECORD_FORMAT | flags));
    buf_add(buf, bytes_of(time + skip, sizeof time - skip));
    buf_add_varint(buf, record->sequence);
    if (flags & RECORD_WIDE_DIGEST)
        buf_add_fixed64(buf, record->digest);
    else
        buf_add_u32(buf, (uint32_t)record->digest);
    buf_add(buf, record->outcome);
}

static int64_t record_read_time(struct reader *reader, unsigned flags)
{
    unsigned char time[8] = {0};
    size_t size = flags & RECORD_WIDE_TIME ? sizeof time : RECORD_TIME_SIZE;
    struct bytes bytes = read_bytes(reader, size);
    if (reader->failed) return 0;
    memcpy(time + sizeof time - size, bytes.data, size);
    return (int64_t)get_ordered_u64(time);
}

enum err record_decode(struct bytes value, struct key_record *record_out)
{
    struct reader reader = reader_of(value);
    unsigned flags = read_u8(&reader);
    if ((flags & RECORD_FORMAT_MASK) != RECORD_FORMAT) return ERR_CORRUPT;
    flags &= ~RECORD_FORMAT_MASK;
    if (flags & ~RECORD_FLAGS) return ERR_CORRUPT;

    int64_t first_seen_ms = record_read_time(&reader, flags);
    uint64_t sequence = read_varint(&reader);
    uint64_t digest = flags & RECORD_WIDE_DIGEST ? read_fixed64(&reader) : read_u32(&reader);
    if (reader.failed) return ERR_CORRUPT;
    *record_out = (struct key_record){
        .sequence = sequence,
        .first_seen_ms = first_seen_ms,
        .digest = digest,
        .outcome = bytes_of(reader.at, reader_left(&reader)),
        .event = (flags & RECORD_EVENT) != 0,
        .exists = true,
    };
    return ERR_OK;
}
