/* gzip.c -- zlib, told to speak gzip and nothing else. */
#include "base/gzip.h"

#define GZIP_HEAD 16 /* added to the size of the window: zlib reads or writes a head of gzip */
#define MEMBER_SIZE_MIN 20u /* a head of 10 bytes, 2 of an empty block, a checksum and a size */
#define DEFLATE_RATIO_MAX 1032u

void unpacker_release(struct unpacker *unpacker)
{
    if (unpacker->begun) inflateEnd(&unpacker->stream);
    unpacker->begun = false;
}

/* Deflate makes at most 1032 bytes of one. A size beyond that is not the member's: the last four
 * bytes belong to something that stands behind its end. */
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
                                 : inflateInit2(&unpacker->stream, GZIP_HEAD + MAX_WBITS);
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

/* The window is no larger than the text: the state of a small one costs a few KB instead of 268. */
static int window_bits(size_t size)
{
    int bits = 10;
    while (bits < MAX_WBITS && (size_t)1 << bits < size)
        bits++;
    return bits;
}

bool pack(struct bytes text, struct buf *out)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)text.data, .avail_in = (uInt)text.size};
    must(text.size <= UINT32_MAX);
    if (text.size <= MEMBER_SIZE_MIN) return false;
    char *at = buf_reserve(out, text.size - 1);
    if (!at) return false;
    int bits = window_bits(text.size);
    int status = deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_HEAD + bits, bits - 7,
                              Z_DEFAULT_STRATEGY);
    must(status == Z_OK);
    stream.next_out = (Bytef *)at;
    stream.avail_out = (uInt)text.size - 1;
    bool smaller = deflate(&stream, Z_FINISH) == Z_STREAM_END;
    if (smaller) out->size += text.size - 1 - stream.avail_out;
    deflateEnd(&stream);
    return smaller;
}
