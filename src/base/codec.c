/* codec.c -- the varints of codec.h that take more than one byte, or fail. */
#include "base/codec.h"

uint64_t read_varint_long(struct reader *reader)
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
