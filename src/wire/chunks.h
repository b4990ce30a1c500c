/* chunks.h -- the chunked transfer coding (RFC 9112, 7.1), undone in place.
 *
 * A state machine over bytes: however they are cut, each is looked at once and the outcome is the
 * same. Extensions are skipped and trailers swallowed, both bounded together, since a body of one
 * byte chunks could otherwise drag any amount of them along. */
#ifndef TALLY_WIRE_CHUNKS_H
#define TALLY_WIRE_CHUNKS_H

#include "wire/http.h"

#define CHUNKS_EXTRA_BYTES_MAX 16384u /* extensions and trailers of one body together */

enum chunks_state {
    CHUNKS_SIZE_FIRST, /* a digit has to come */
    CHUNKS_SIZE,
    CHUNKS_EXTENSION,
    CHUNKS_SIZE_LF,
    CHUNKS_DATA,
    CHUNKS_DATA_CR,
    CHUNKS_DATA_LF,
    CHUNKS_TRAILER, /* at the start of a trailer line, or of the empty line that ends it all */
    CHUNKS_TRAILER_NAME,
    CHUNKS_TRAILER_VALUE,
    CHUNKS_TRAILER_LF,
    CHUNKS_END_LF,
    CHUNKS_DONE,
};

struct chunks { /* all zero, but for body_bytes_max: nothing read yet */
    enum chunks_state state;
    enum fault fault;
    uint32_t extra;          /* bytes of extensions and trailers so far */
    uint64_t left;           /* what is still to come of the chunk at hand */
    uint64_t total;          /* announced by all chunks up to now */
    uint64_t body_bytes_max; /* more is FAULT_BODY_SIZE, as soon as it is announced */
};

/* Decodes `raw` (size bytes): the data moves to the front of `raw`, `*made_out` bytes of it, and
 * `*used_out` raw bytes are done with. HTTP_MORE uses all of them. */
enum http_progress chunks_decode(struct chunks *chunks, char *raw, size_t size, size_t *used_out,
                                 size_t *made_out);

#endif
