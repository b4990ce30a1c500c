/* filter.c -- the chain in memory. filter_file.c keeps it on disk.
 *
 * The block is chosen by `low`, the bits by `high`. Ids are added in the order of `high` (as they
 * are sorted for the state): were the block taken from it too, a filter filled by the first part
 * of a sorted scan would have all its ids in a few blocks. */
#include "store/embedded/ids/filter.h"

#include <stdlib.h>
#include <sys/mman.h>

#define FILTER_IDS_PER_BLOCK 32u /* 512 bits, 16 an id */
#define FILTER_HUGE_PAGE (2u << 20)

_Static_assert(sizeof(struct filter_block) == 64, "a block is a cache line");

void filter_chain_init(struct filter_chain *chain)
{
    *chain = (struct filter_chain){0};
    chain->tail = must_alloc(FILTER_TAIL_MAX * sizeof *chain->tail);
}

void filter_chain_release(struct filter_chain *chain)
{
    for (uint32_t i = 0; i < chain->count; i++)
        free(chain->filters[i].blocks);
    free(chain->tail);
    *chain = (struct filter_chain){0};
}

/* Filters are read at random over megabytes: with small pages nearly every access would miss the
 * address translation too. */
struct filter_block *filter_blocks_new(uint64_t block_count)
{
    size_t size = block_count * sizeof(struct filter_block);
    size_t align = size >= FILTER_HUGE_PAGE ? FILTER_HUGE_PAGE : sizeof(struct filter_block);
    void *blocks = aligned_alloc(align, (size + align - 1) / align * align);
    must(blocks != NULL);
    if (align == FILTER_HUGE_PAGE) madvise(blocks, size, MADV_HUGEPAGE);
    memset(blocks, 0, size);
    return blocks;
}

/* Each filter is a cache miss for every new id. While a chain is young, filters grow fourfold to
 * keep it short; later a quarter more at a time keeps memory near 2 bytes an id. */
static uint64_t filter_next_ids(const struct filter_chain *chain)
{
    uint64_t ids = FILTER_IDS_FIRST;
    while (ids < FILTER_IDS_CALM && ids <= chain->ids)
        ids *= 4;
    while (ids < chain->ids / 4)
        ids *= 2;
    return ids;
}

static struct filter *filter_chain_open(struct filter_chain *chain)
{
    uint32_t count = atomic_load_explicit(&chain->count, memory_order_relaxed);
    if (count > 0) {
        /* A chain at its end fills its last filter beyond measure: slower, never wrong. */
        struct filter *last = &chain->filters[count - 1];
        if (last->ids < last->ids_max || count == FILTER_COUNT_MAX) return last;
    }
    uint64_t ids_max = filter_next_ids(chain);
    uint64_t block_count = (ids_max + FILTER_IDS_PER_BLOCK - 1) / FILTER_IDS_PER_BLOCK;
    chain->filters[count] = (struct filter){
        .blocks = filter_blocks_new(block_count),
        .block_count = block_count,
        .ids_max = ids_max,
        .first = ID_SPAN_NONE.first,
        .last = ID_SPAN_NONE.last,
    };
    atomic_store_explicit(&chain->count, count + 1, memory_order_release);
    return &chain->filters[count];
}

static struct filter_block *filter_block_of(const struct filter *filter, struct fingerprint print)
{
    return &filter->blocks[(unsigned __int128)print.low * filter->block_count >> 64];
}

static void filter_widen(struct filter *filter, struct id_span span)
{
    if (span.first < atomic_load_explicit(&filter->first, memory_order_relaxed))
        atomic_store_explicit(&filter->first, span.first, memory_order_relaxed);
    if (span.last > atomic_load_explicit(&filter->last, memory_order_relaxed))
        atomic_store_explicit(&filter->last, span.last, memory_order_relaxed);
}

/* Only one thread adds, so no word is changed between its load and its store. */
static void filter_add(struct filter *filter, struct fingerprint print)
{
    struct filter_block *block = filter_block_of(filter, print);
    uint64_t bits = print.high;
    for (unsigned i = 0; i < 8; i++, bits >>= 6) {
        uint64_t word = atomic_load_explicit(&block->words[i], memory_order_relaxed);
        word |= 1ull << (bits & 63);
        atomic_store_explicit(&block->words[i], word, memory_order_relaxed);
    }
    filter->ids++;
}

/* There is no branch for each word: half of the words of a full filter say yes, at random. */
static bool filter_block_has(const struct filter_block *block, uint64_t bits)
{
    uint64_t all = 1;
    for (unsigned i = 0; i < 8; i++, bits >>= 6)
        all &= atomic_load_explicit(&block->words[i], memory_order_relaxed) >> (bits & 63);
    return all;
}

void filter_chain_add(struct filter_chain *chain, struct id_span span, struct fingerprint print)
{
    struct filter *filter = filter_chain_open(chain);
    filter_widen(filter, span);
    filter_add(filter, print);
    chain->ids++;
    if (chain->tail_count < FILTER_TAIL_MAX) chain->tail[chain->tail_count] = print;
    if (chain->tail_count <= FILTER_TAIL_MAX) chain->tail_count++;
}

void filter_chain_prefetch(const struct filter_chain *chain, struct fingerprint print)
{
    uint32_t count = atomic_load_explicit(&chain->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        __builtin_prefetch(filter_block_of(&chain->filters[i], print));
}

uint64_t filter_chain_ask(const struct filter_chain *chain, struct fingerprint print)
{
    uint64_t filters = 0;
    uint32_t count = atomic_load_explicit(&chain->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        const struct filter_block *block = filter_block_of(&chain->filters[i], print);
        filters |= (uint64_t)filter_block_has(block, print.high) << i;
    }
    return filters;
}

struct id_span filter_chain_span(const struct filter_chain *chain, uint32_t index)
{
    const struct filter *filter = &chain->filters[index];
    return (struct id_span){atomic_load_explicit(&filter->first, memory_order_relaxed),
                            atomic_load_explicit(&filter->last, memory_order_relaxed)};
}

uint64_t filter_chain_last(const struct filter_chain *chain)
{
    uint64_t last = 0;
    uint32_t count = atomic_load_explicit(&chain->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++) {
        struct id_span span = filter_chain_span(chain, i);
        if (span.last > last) last = span.last;
    }
    return last;
}

uint64_t filter_chain_bytes(const struct filter_chain *chain)
{
    uint64_t bytes = 0;
    uint32_t count = atomic_load_explicit(&chain->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        bytes += chain->filters[i].block_count * sizeof(struct filter_block);
    return bytes;
}
