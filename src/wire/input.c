/* input.c -- scratch space, small blocks and budgeted large buffers. */
#include "wire/input.h"

#include <stdlib.h>

#define INPUT_BLOCKS_COUNT_MAX 1024u /* kept for reuse: 4 MiB a loop */

struct input_block {
    struct input_block *next;
};

void input_pool_init(struct input_pool *pool, struct wire_budget *budget)
{
    *pool = (struct input_pool){
        .scratch = must_calloc(1, INPUT_SCRATCH_BYTES + WIRE_BODY_PADDING),
        .budget = budget,
    };
}

void input_pool_release(struct input_pool *pool)
{
    while (pool->blocks) {
        struct input_block *next = pool->blocks->next;
        free(pool->blocks);
        pool->blocks = next;
    }
    free(pool->scratch);
    pool->scratch = NULL;
}

static char *block_take(struct input_pool *pool)
{
    struct input_block *block = pool->blocks;
    if (!block) return must_calloc(1, INPUT_SMALL_BYTES + WIRE_BODY_PADDING);
    pool->blocks = block->next;
    pool->blocks_count--;
    return (char *)block;
}

static void block_give(struct input_pool *pool, char *data)
{
    if (pool->blocks_count >= INPUT_BLOCKS_COUNT_MAX) {
        free(data);
        return;
    }
    struct input_block *block = (struct input_block *)(void *)data;
    block->next = pool->blocks;
    pool->blocks = block;
    pool->blocks_count++;
}

static bool large_fits(const struct input_pool *pool, const struct wire_share *share, size_t more)
{
    return budget_fits_share(pool->budget, share, more) && budget_fits_all(pool->budget, more);
}

/* True if `input` is, or now becomes, the one that may go beyond. */
static bool share_goes_beyond(struct wire_share *share, struct input *input)
{
    struct input *nobody = NULL;
    return atomic_load(&share->beyond) == input ||
           atomic_compare_exchange_strong(&share->beyond, &nobody, input);
}

static bool large_may_grow(struct input_pool *pool, struct input *input, struct wire_share *share,
                           size_t more)
{
    struct wire_budget *budget = pool->budget;
    if (!budget_fits_share(budget, share, more) && !share_goes_beyond(share, input)) return false;
    return budget_fits_all(budget, more) || share_goes_beyond(&budget->all, input);
}

static void share_is_left(struct wire_share *share, struct input *input)
{
    struct input *self = input;
    atomic_compare_exchange_strong(&share->beyond, &self, NULL);
}

static void large_discharge(struct input_pool *pool, struct input *input)
{
    budget_give(pool->budget, input->share, input->capacity);
    share_is_left(input->share, input);
}

/* The head came before it was known whose it is, so it was counted for no share until now. */
static void large_belongs_to(struct input_pool *pool, struct input *input, struct wire_share *share)
{
    if (input->share == share) return;
    large_discharge(pool, input);
    input->share = share;
    budget_take_anyway(pool->budget, share, input->capacity);
}

/* The padding is set once here, and again whenever the buffer grows: its content does not matter,
 * but a tool that watches for undefined bytes should find none. */
static void large_resize(struct input_pool *pool, struct input *input, struct wire_share *share,
                         size_t capacity)
{
    input->data = must_realloc(input->data, capacity + WIRE_BODY_PADDING);
    memset(input->data + capacity, 0, WIRE_BODY_PADDING);
    budget_take_anyway(pool->budget, share, capacity - input->capacity);
    input->capacity = capacity;
    input->share = share;
}

void input_release(struct input_pool *pool, struct input *input)
{
    if (!input->data) return;
    if (input->data == pool->scratch) {
        /* stays with the loop */
    } else if (input->capacity <= INPUT_SMALL_BYTES) {
        block_give(pool, input->data);
    } else {
        large_discharge(pool, input);
        share_is_left(&pool->budget->all, input);
        free(input->data);
    }
    *input = (struct input){0};
}

static void input_to_scratch(struct input_pool *pool, struct input *input)
{
    struct bytes left = input_bytes(input);
    if (left.size) memcpy(pool->scratch, left.data, left.size);
    input_release(pool, input);
    *input =
        (struct input){.data = pool->scratch, .size = left.size, .capacity = INPUT_SCRATCH_BYTES};
}

/* Doubles, but not past what the request needs. */
static bool large_grow(struct input_pool *pool, struct input *input, struct wire_share *share,
                       size_t need)
{
    size_t capacity = 2 * input->capacity;
    if (need > input->capacity && capacity > need) capacity = need;
    size_t more = capacity - input->capacity;
    large_belongs_to(pool, input, share);
    if (!large_may_grow(pool, input, share, more)) return false;
    large_resize(pool, input, share, capacity);
    return true;
}

char *input_room(struct input_pool *pool, struct input *input, struct wire_share *share,
                 size_t need, size_t *room_out)
{
    must(input->data != pool->scratch);
    size_t left = input->size - input->at;
    if (left <= INPUT_SMALL_BYTES) {
        input_to_scratch(pool, input);
    } else if (input->at) {
        memmove(input->data, input->data + input->at, left);
        input->at = 0;
        input->size = left;
    }
    if (input->size == input->capacity && !large_grow(pool, input, share, need)) return NULL;

    *room_out = input->capacity - input->size;
    /* Without budget a read must not bring in more than a small block can hold: pipelined bytes
     * that cannot be used yet have to stay somewhere. */
    bool tight = input->data == pool->scratch && !large_fits(pool, share, INPUT_SCRATCH_BYTES);
    if (tight && *room_out > INPUT_SMALL_BYTES) *room_out = INPUT_SMALL_BYTES;
    return input->data + input->size;
}

bool input_begin(struct input_pool *pool, struct input *input, struct wire_share *share,
                 size_t size, struct input *begun_out)
{
    *begun_out = (struct input){0};
    if (size <= INPUT_SMALL_BYTES) {
        begun_out->data = block_take(pool);
        begun_out->capacity = INPUT_SMALL_BYTES;
        return true;
    }
    if (!large_may_grow(pool, input, share, size)) return false;
    large_resize(pool, begun_out, share, size);
    return true;
}

void input_stash(struct input_pool *pool, struct input *input, struct wire_share *share,
                 size_t need)
{
    struct bytes left = input_bytes(input);
    if (left.size == 0) {
        input_release(pool, input);
        return;
    }
    if (input->data != pool->scratch) return;

    struct input own = {0};
    if (left.size <= INPUT_SMALL_BYTES) {
        own.data = block_take(pool);
        own.capacity = INPUT_SMALL_BYTES;
    } else {
        size_t capacity = need > left.size && need < 4 * left.size ? need : 2 * left.size;
        large_resize(pool, &own, share, capacity);
    }
    memcpy(own.data, left.data, left.size);
    own.size = left.size;
    *input = own;
}
