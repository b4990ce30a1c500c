/* gzip.h -- whole texts, packed and unpacked.
 *
 * What is unpacked is one gzip member (RFC 1952), and a member ends with how large it is unpacked.
 * So the memory is found first, of just that size; a text that says more than it may be is refused
 * without a byte of it being unpacked, and one that says less than it unpacks to where it passes
 * its word. A bomb costs neither memory nor time.
 *
 *     if (!unpack_size(packed, &size)) ...no gzip
 *     ...size is checked, `out` has that room
 *     if (!unpack(&unpacker, packed, out, size)) ...no gzip after all  */
#ifndef TALLY_BASE_GZIP_H
#define TALLY_BASE_GZIP_H

#include <zlib.h>

#include "base/bytes.h"

/* One a thread, all zero at first; it keeps zlib's state from one text to the next. */
struct unpacker {
    z_stream stream;
    bool begun;
};

void unpacker_release(struct unpacker *unpacker);

/* How large the text says it is. False: it cannot be whole gzip. */
MUST_USE bool unpack_size(struct bytes packed, size_t *size_out);

/* Fills `out` with exactly `size` bytes. False: the text is cut short, damaged, of another size,
 * has something after its end, or a second member. */
MUST_USE bool unpack(struct unpacker *unpacker, struct bytes packed, char *out, size_t size);

/* Adds `text` to `out` as one member, quickly rather than well. False, and `out` as it was: it came
 * out no smaller, or `out` has no room for it. */
MUST_USE bool pack(struct bytes text, struct buf *out);

#endif
