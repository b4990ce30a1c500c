/* gzip.h -- whole texts, packed and unpacked.
 *
 * What is unpacked is one gzip member (RFC 1952), and a member ends with its size when unpacked.
 * The caller reads that size first and allocates just so much. A text whose size is too large is
 * refused before a byte of it is unpacked, and unpacking ends where a text exceeds the size it
 * gave. So a bomb costs neither memory nor time.
 *
 * Example:
 *
 *     static bool unpack_into(struct unpacker *unpacker, struct bytes packed, struct buf *out)
 *     {
 *         size_t size;
 *         if (!unpack_size(packed, &size)) return false;
 *         char *room = buf_reserve(out, size);
 *         if (!room || !unpack(unpacker, packed, room, size)) return false;
 *         out->size += size;
 *         return true;
 *     }
 */
#ifndef TALLY_BASE_GZIP_H
#define TALLY_BASE_GZIP_H

#include <zlib.h>

#include "base/bytes.h"

/* Each thread has one, all zero at first; it keeps zlib's state from one text to the next. */
struct unpacker {
    z_stream stream;
    bool begun;
};

void unpacker_release(struct unpacker *unpacker);

/* The size that the text gives for itself. False: it cannot be whole gzip. */
MUST_USE bool unpack_size(struct bytes packed, size_t *size_out);

/* Fills `out` with exactly `size` bytes. False: the text is cut short, damaged, of another size,
 * has something after its end, or a second member. */
MUST_USE bool unpack(struct unpacker *unpacker, struct bytes packed, char *out, size_t size);

/* Adds `text` to `out` as one member, quickly rather than well. False, with `out` as it was: the
 * member would be no smaller than the text, or has no room in `out`. */
MUST_USE bool pack(struct bytes text, struct buf *out);

#endif
