/* fuzz_gzip.c -- arbitrary bytes as a gzipped body: never more than it says comes out, and zlib
 * itself, asked in another way, agrees on what does. */
#include <stdint.h>
#include <stdlib.h>

#include "base/gzip.h"

#define BODY_BYTES_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* In one call that finds the size by itself. */
static void check_as_a_stream(struct bytes packed, struct bytes made)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)packed.data, .avail_in = (uInt)packed.size};
    static Bytef room[BODY_BYTES_MAX + 1];
    must(inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK);
    stream.next_out = room;
    stream.avail_out = sizeof room;
    must(inflate(&stream, Z_NO_FLUSH) == Z_STREAM_END);
    must(bytes_equal(bytes_of(room, sizeof room - stream.avail_out), made));
    inflateEnd(&stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct unpacker unpacker;
    struct bytes packed = bytes_of(data, size);
    size_t made;
    if (!unpack_size(packed, &made) || made > BODY_BYTES_MAX) return 0;
    char *out = must_alloc(made + 1);
    if (unpack(&unpacker, packed, out, made)) check_as_a_stream(packed, bytes_of(out, made));
    free(out);
    return 0;
}
