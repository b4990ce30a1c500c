/* unpack.h -- a gzipped body, unpacked in one go.
 *
 * A body is one gzip member (RFC 1952), and a member ends with how large it is unpacked. So the
 * memory is found first, of just that size, and a body that says more than it may is refused
 * without a byte of it being unpacked; one that says less than it unpacks to is refused where it
 * passes its word. A bomb costs neither memory nor time.
 *
 *     if (!unpack_size(packed, &size)) ...no gzip
 *     ...size is checked, `out` has that room
 *     if (!unpack(&unpacker, packed, out, size)) ...no gzip after all  */
#ifndef TALLY_WIRE_UNPACK_H
#define TALLY_WIRE_UNPACK_H

#include <zlib.h>

#include "base/bytes.h"

/* One a thread, all zero at first; it keeps zlib's state from one body to the next. */
struct unpacker {
    z_stream stream;
    bool begun;
};

void unpacker_release(struct unpacker *unpacker);

/* How large the body says it is. False: it cannot be whole gzip. */
MUST_USE bool unpack_size(struct bytes packed, size_t *size_out);

/* Fills `out` with exactly `size` bytes. False: the body is cut short, damaged, of another size,
 * has something after its end, or a second member. */
MUST_USE bool unpack(struct unpacker *unpacker, struct bytes packed, char *out, size_t size);

#endif
