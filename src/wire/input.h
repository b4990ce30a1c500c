/* input.h -- where a connection's bytes stay between reads.
 *
 * Reads go into one large scratch space of the loop thread, which stays in the cache; a connection
 * has memory of its own only while it has a piece of a request, so ten thousand idle ones cost
 * nothing here. Pieces up to INPUT_SMALL_BYTES live in pooled blocks and move back to the scratch
 * space for the next read; larger ones are charged to the budget common to all loops and are read
 * into directly. Past the bound of their share, or of the whole, inputs wait, all but one of each,
 * which may grow as it needs: otherwise a few half-read bodies could hold all of it and wait for
 * each other.
 *
 *     room = input_room(...)      the next bytes go there
 *     input->size += ...          they are there
 *     input->at += ...            a request was taken from the front
 *     input_stash(...)            before another connection uses the scratch space
 *
 * After the last byte of any input there are WIRE_BODY_PADDING readable ones. */
#ifndef TALLY_WIRE_INPUT_H
#define TALLY_WIRE_INPUT_H

#include <stdatomic.h>

#include "wire/budget.h"

#ifdef TALLY_SMALL_WORLD
#define INPUT_SMALL_BYTES 256u
#define INPUT_SCRATCH_BYTES 1024u
#else
#define INPUT_SMALL_BYTES 4096u
#define INPUT_SCRATCH_BYTES (64u << 10)
#endif

struct input {
    char *data;
    size_t at;                /* where the request being read begins */
    size_t size;              /* up to here there are bytes */
    size_t capacity;          /* without the padding */
    struct wire_share *share; /* that a large one is counted for; else NULL */
};

struct input_block;

struct input_pool {
    char *scratch;
    struct input_block *blocks;
    unsigned blocks_count;
    struct wire_budget *budget;
};

void input_pool_init(struct input_pool *pool, struct wire_budget *budget);
void input_pool_release(struct input_pool *pool);

static inline struct bytes input_bytes(const struct input *input)
{
    return bytes_of(input->data + input->at, input->size - input->at);
}

/* Returns where the next bytes go, `*room_out` of them, or NULL: the budget is used up and this
 * input is too large to do without. An input must stay where it is in memory. `need` is how large
 * the request will be if that is known, else 0. */
char *input_room(struct input_pool *pool, struct input *input, struct wire_share *share,
                 size_t need, size_t *room_out);

/* Makes an input with memory of its own for `size` bytes, which will take the place of `input`. The
 * share of `input` pays for both meanwhile. False: there is no budget for it now. */
MUST_USE bool input_begin(struct input_pool *pool, struct input *input, struct wire_share *share,
                          size_t size, struct input *begun_out);

/* Leaves the scratch space: bytes that are not used yet move to memory of the input's own. */
void input_stash(struct input_pool *pool, struct input *input, struct wire_share *share,
                 size_t need);

/* Drops everything. */
void input_release(struct input_pool *pool, struct input *input);

#endif
