/* codec.c -- the growing and the failing side of codec.h. */
#include "base/codec.h"

#define VARINT_SIZE_MAX 10

void buf_add_u32(struct buf *buf, uint32_t value)
{
    buf_add(buf, bytes_of(&value, sizeof value));
}

void buf_add_fixed64(struct buf *buf, uint64_t value)
{
    buf_add(buf, bytes_of(&value, sizeof value));
}

void buf_add_varint(struct buf *buf, uint64_t value)
{
    char *at = buf_reserve(buf, VARINT_SIZE_MAX);
    if (!at) return;
    size_t size = 0;
    for (; value >= 0x80; value >>= 7)
        at[size++] = (char)(value | 0x80);
    at[size++] = (char)value;
    buf->size += size;
}

void buf_add_signed(struct buf *buf, int64_t value)
{
    buf_add_varint(buf, ((uint64_t)value << 1) ^ (uint64_t)(value >> 63));
}

void buf_add_sized(struct buf *buf, struct bytes bytes)
{
    buf_add_varint(buf, bytes.size);
    buf_add(buf, bytes);
}

struct bytes read_bytes(struct reader *reader, size_t size)
{
    if (reader->failed || reader_left(reader) < size) {
        reader->failed = true;
        return BYTES_NONE;
    }
    struct bytes taken = bytes_of(reader->at, size);
    reader->at += size;
    return taken;
}

uint8_t read_u8(struct reader *reader)
{
    struct bytes taken = read_bytes(reader, 1);
    return taken.size ? (uint8_t)taken.data[0] : 0;
}

uint32_t read_u32(struct reader *reader)
{
    struct bytes taken = read_bytes(reader, 4);
    return taken.size ? get_u32(taken.data) : 0;
}

uint64_t read_fixed64(struct reader *reader)
{
    struct bytes taken = read_bytes(reader, 8);
    return taken.size ? get_u64(taken.data) : 0;
}

uint64_t read_varint(struct reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = read_u8(reader);
        if (reader->failed) return 0;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    reader->failed = true;
    return 0;
}

int64_t read_signed(struct reader *reader)
{
    uint64_t value = read_varint(reader);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

struct bytes read_sized(struct reader *reader)
{
    uint64_t size = read_varint(reader);
    if (size > reader_left(reader)) {
        reader->failed = true;
        return BYTES_NONE;
    }
    return read_bytes(reader, (size_t)size);
}
