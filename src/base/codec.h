/* codec.h -- how integers become bytes: fixed little-endian, order-keeping big-endian, varint.
 *
 * Writers append to a `struct buf`. Readers take from a `struct reader`, which remembers the first
 * short or malformed read: read everything, check `failed` once. */
#ifndef TALLY_BASE_CODEC_H
#define TALLY_BASE_CODEC_H

#include "base/bytes.h"

struct reader {
    const unsigned char *at;
    const unsigned char *end;
    bool failed;
};

static inline struct reader reader_of(struct bytes bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.data;
    return (struct reader){at, at ? at + bytes.size : at, false};
}

static inline size_t reader_left(const struct reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

static inline void put_u32(void *at, uint32_t value)
{
    memcpy(at, &value, sizeof value);
}
static inline void put_u64(void *at, uint64_t value)
{
    memcpy(at, &value, sizeof value);
}
static inline uint32_t get_u32(const void *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
static inline uint64_t get_u64(const void *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "stored integers are little-endian");

/* Writes big-endian, signed values with the sign bit turned, so that memcmp orders the bytes as it
 * would the numbers. */
static inline void put_ordered_u64(void *at, uint64_t value)
{
    put_u64(at, __builtin_bswap64(value));
}
static inline uint64_t get_ordered_u64(const void *at)
{
    return __builtin_bswap64(get_u64(at));
}
static inline void put_ordered_u32(void *at, uint32_t value)
{
    value = __builtin_bswap32(value);
    memcpy(at, &value, sizeof value);
}
static inline uint32_t get_ordered_u32(const void *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return __builtin_bswap32(value);
}
static inline void put_ordered_i64(void *at, int64_t value)
{
    put_ordered_u64(at, (uint64_t)value ^ (1ull << 63));
}
static inline int64_t get_ordered_i64(const void *at)
{
    return (int64_t)(get_ordered_u64(at) ^ (1ull << 63));
}

/* Varints are inline: an event has dozens of them, each written once and read once or twice. */
#define VARINT_SIZE_MAX 10

static inline void buf_add_u32(struct buf *buf, uint32_t value)
{
    buf_add(buf, bytes_of(&value, sizeof value));
}

static inline void buf_add_fixed64(struct buf *buf, uint64_t value)
{
    buf_add(buf, bytes_of(&value, sizeof value));
}

static inline void buf_add_varint(struct buf *buf, uint64_t value)
{
    char *at = buf_reserve(buf, VARINT_SIZE_MAX);
    if (!at) return;
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        at[size++] = (char)(value | 0x80);
    at[size++] = (char)value;
    buf->size += size;
}

/* Zigzag varint. */
static inline void buf_add_signed(struct buf *buf, int64_t value)
{
    buf_add_varint(buf, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

/* Varint length, then the bytes. */
static inline void buf_add_sized(struct buf *buf, struct bytes bytes)
{
    buf_add_varint(buf, bytes.size);
    buf_add(buf, bytes);
}

/* What readers return borrows from the bytes they read. */
static inline struct bytes read_bytes(struct reader *reader, size_t size)
{
    if (reader->failed || reader_left(reader) < size) {
        reader->failed = true;
        return BYTES_NONE;
    }
    struct bytes taken = bytes_of(reader->at, size);
    reader->at += size;
    return taken;
}

static inline uint8_t read_u8(struct reader *reader)
{
    struct bytes taken = read_bytes(reader, 1);
    return taken.size ? (uint8_t)taken.data[0] : 0;
}

static inline uint32_t read_u32(struct reader *reader)
{
    struct bytes taken = read_bytes(reader, 4);
    return taken.size ? get_u32(taken.data) : 0;
}

static inline uint64_t read_fixed64(struct reader *reader)
{
    struct bytes taken = read_bytes(reader, 8);
    return taken.size ? get_u64(taken.data) : 0;
}

uint64_t read_varint_long(struct reader *reader);
static inline uint64_t read_varint(struct reader *reader)
{
    if (reader->failed || reader->at == reader->end || *reader->at >= 0x80)
        return read_varint_long(reader);
    return *reader->at++;
}

static inline int64_t read_signed(struct reader *reader)
{
    uint64_t value = read_varint(reader);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static inline struct bytes read_sized(struct reader *reader)
{
    uint64_t size = read_varint(reader);
    if (size > reader_left(reader)) {
        reader->failed = true;
        return BYTES_NONE;
    }
    return read_bytes(reader, (size_t)size);
}

#endif
