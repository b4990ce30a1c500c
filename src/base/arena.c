/* arena.c -- chunked bump allocation. */
#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_ALIGN 16u
#define ARENA_CHUNK_MAX (256u << 10)

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* bytes of data */
    _Alignas(ARENA_ALIGN) char data[];
};

void arena_init(struct arena *arena, size_t chunk_size)
{
    must(chunk_size >= 64);
    *arena = (struct arena){.chunk_size = chunk_size};
}

static void arena_free_after(struct arena *arena, struct arena_chunk *chunk)
{
    while (chunk) {
        struct arena_chunk *next = chunk->next;
        arena->total -= chunk->size;
        free(chunk);
        chunk = next;
    }
}

void arena_release(struct arena *arena)
{
    arena_free_after(arena, arena->chunk);
    arena->chunk = NULL;
    arena->used = 0;
}

/* Keeps the first chunk if it has the ordinary size. Larger chunks served an unusual request and
 * are freed. */
void arena_reset(struct arena *arena)
{
    struct arena_chunk *first = NULL;
    for (struct arena_chunk *chunk = arena->chunk, *next; chunk; chunk = next) {
        next = chunk->next;
        if (!next && chunk->size <= arena->chunk_size) {
            first = chunk;
            break;
        }
        arena->total -= chunk->size;
        free(chunk);
    }
    arena->chunk = first;
    arena->used = 0;
}

struct arena_mark arena_mark(const struct arena *arena)
{
    return (struct arena_mark){arena->chunk, arena->used};
}

void arena_back(struct arena *arena, struct arena_mark mark)
{
    while (arena->chunk != mark.chunk) {
        struct arena_chunk *chunk = arena->chunk;
        arena->chunk = chunk->next;
        arena->total -= chunk->size;
        free(chunk);
    }
    arena->used = mark.used;
}

/* An arena that has grown large grows by larger chunks; an eighth of it may stay unused. */
static size_t arena_next_size(const struct arena *arena)
{
    size_t more = arena->total / 8 < ARENA_CHUNK_MAX ? arena->total / 8 : ARENA_CHUNK_MAX;
    return more > arena->chunk_size ? more : arena->chunk_size;
}

static void arena_grow(struct arena *arena, size_t size)
{
    size_t want = arena_next_size(arena);
    if (want < size) want = size;
    struct arena_chunk *chunk = must_alloc(sizeof *chunk + want);
    chunk->next = arena->chunk;
    chunk->size = want;
    arena->chunk = chunk;
    arena->used = 0;
    arena->total += want;
}

void *arena_alloc(struct arena *arena, size_t size)
{
    size = (size + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1);
    if (!arena->chunk || arena->chunk->size - arena->used < size) arena_grow(arena, size);
    void *memory = arena->chunk->data + arena->used;
    arena->used += size;
    return memory;
}

void *arena_zalloc(struct arena *arena, size_t size)
{
    void *memory = arena_alloc(arena, size);
    memset(memory, 0, size);
    return memory;
}

struct bytes arena_copy(struct arena *arena, struct bytes bytes)
{
    char *data = arena_alloc(arena, bytes.size + 1);
    if (bytes.size) memcpy(data, bytes.data, bytes.size);
    data[bytes.size] = 0;
    return (struct bytes){data, bytes.size};
}
