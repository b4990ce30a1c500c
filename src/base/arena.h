/* arena.h -- memory that is given up all at once.
 *
 * A request's arena dies with its reply, a batch's arena is reset when the batch is answered, so
 * most code frees nothing. The first chunk is kept across resets: a steady state allocates none. */
#ifndef TALLY_BASE_ARENA_H
#define TALLY_BASE_ARENA_H

#include <stddef.h>

#include "base/bytes.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *chunk; /* newest first */
    size_t used;               /* the newest chunk's */
    size_t total;              /* bytes held over all chunks */
    size_t chunk_size;
};

void arena_init(struct arena *arena, size_t chunk_size);
void arena_release(struct arena *arena);
void arena_reset(struct arena *arena);

/* Going back to a mark gives up all that was allocated since it was taken, and nothing else. */
struct arena_mark {
    struct arena_chunk *chunk;
    size_t used;
};
struct arena_mark arena_mark(const struct arena *arena);
void arena_back(struct arena *arena, struct arena_mark mark);

/* The memory is aligned to 16 bytes and not zeroed. Never NULL: callers bound what they ask for. */
MUST_USE void *arena_alloc(struct arena *arena, size_t size);
MUST_USE void *arena_zalloc(struct arena *arena, size_t size);
MUST_USE struct bytes arena_copy(struct arena *arena, struct bytes bytes);

#endif
