/* unpack.c -- zlib, told to take gzip and nothing else. */
#include "wire/unpack.h"

#define GZIP_ONLY (16 + MAX_WBITS)
#define MEMBER_SIZE_MIN 20u /* a head of 10 bytes, 2 of an empty block, a checksum and a size */
#define DEFLATE_RATIO_MAX 1032u

void unpacker_release(struct unpacker *unpacker)
{
    if (unpacker->begun) inflateEnd(&unpacker->stream);
    unpacker->begun = false;
}

/* Deflate makes at most 1032 bytes of one, so a size beyond that is no size, but whatever stands
 * behind the end of the member. */
bool unpack_size(struct bytes packed, size_t *size_out)
{
    if (packed.size < MEMBER_SIZE_MIN || !bytes_starts(packed, BYTES("\x1f\x8b\x08"))) return false;
    const unsigned char *last = (const unsigned char *)packed.data + packed.size - 4;
    *size_out = last[0] | (size_t)last[1] << 8 | (size_t)last[2] << 16 | (size_t)last[3] << 24;
    return *size_out / DEFLATE_RATIO_MAX <= packed.size;
}

static void unpacker_begin(struct unpacker *unpacker)
{
    int status = unpacker->begun ? inflateReset(&unpacker->stream)
                                 : inflateInit2(&unpacker->stream, GZIP_ONLY);
    must(status == Z_OK);
    unpacker->begun = true;
}

bool unpack(struct unpacker *unpacker, struct bytes packed, char *out, size_t size)
{
    z_stream *stream = &unpacker->stream;
    must(packed.size <= UINT32_MAX && size <= UINT32_MAX);
    unpacker_begin(unpacker);
    stream->next_in = (Bytef *)(uintptr_t)packed.data;
    stream->avail_in = (uInt)packed.size;
    stream->next_out = (Bytef *)out;
    stream->avail_out = (uInt)size;
    return inflate(stream, Z_FINISH) == Z_STREAM_END && stream->avail_in == 0 &&
           stream->avail_out == 0;
}
