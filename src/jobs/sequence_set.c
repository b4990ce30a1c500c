/* sequence_set.c -- see the header. */
#include "jobs/sequence_set.h"

#include <stdlib.h>

#include "base/must.h"

#define PAGE_SEQUENCES 65536u
#define LISTED_MAX 4096u /* more of them take less room as bits */
#define WORDS (PAGE_SEQUENCES / 64)

struct sequence_page {
    uint64_t number; /* its sequences divided by PAGE_SEQUENCES */
    uint32_t count;
    uint32_t capacity; /* room in `listed` */
    uint16_t *listed;  /* in order; NULL: `bits` */
    uint64_t *bits;
};

void sequence_set_release(struct sequence_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        free(set->pages[i].listed);
        free(set->pages[i].bits);
    }
    free(set->pages);
    *set = (struct sequence_set){0};
}

static struct sequence_page *page_for(struct sequence_set *set, uint64_t number)
{
    if (set->count && set->pages[set->count - 1].number == number)
        return &set->pages[set->count - 1];
    must(set->count == 0 || set->pages[set->count - 1].number < number);
    if (set->count == set->capacity) {
        set->capacity = set->capacity * 2 + 16;
        set->pages = must_realloc(set->pages, set->capacity * sizeof *set->pages);
    }
    set->pages[set->count] = (struct sequence_page){.number = number};
    return &set->pages[set->count++];
}

static void set_bit(struct sequence_page *page, uint16_t low)
{
    page->bits[low / 64] |= UINT64_C(1) << (low % 64);
}

static void make_bits(struct sequence_page *page)
{
    page->bits = must_calloc(WORDS, sizeof *page->bits);
    for (uint32_t i = 0; i < page->count; i++)
        set_bit(page, page->listed[i]);
    free(page->listed);
    page->listed = NULL;
}

void sequence_set_add(struct sequence_set *set, uint64_t sequence)
{
    struct sequence_page *page = page_for(set, sequence / PAGE_SEQUENCES);
    uint16_t low = (uint16_t)(sequence % PAGE_SEQUENCES);
    if (!page->bits && page->count == LISTED_MAX) make_bits(page);
    if (page->bits) {
        set_bit(page, low);
    } else {
        must(page->count == 0 || page->listed[page->count - 1] < low);
        if (page->count == page->capacity) {
            page->capacity = page->capacity * 2 + 8;
            page->listed = must_realloc(page->listed, page->capacity * sizeof *page->listed);
        }
        page->listed[page->count] = low;
    }
    page->count++;
}

static const struct sequence_page *find_page(const struct sequence_set *set, uint64_t number)
{
    size_t low = 0;
    size_t high = set->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (set->pages[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->pages[low].number == number ? &set->pages[low] : NULL;
}

static bool is_listed(const struct sequence_page *page, uint16_t low_bits)
{
    uint32_t low = 0;
    uint32_t high = page->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (page->listed[middle] < low_bits)
            low = middle + 1;
        else
            high = middle;
    }
    return low < page->count && page->listed[low] == low_bits;
}

bool sequence_set_has(const struct sequence_set *set, uint64_t sequence)
{
    const struct sequence_page *page = find_page(set, sequence / PAGE_SEQUENCES);
    uint16_t low = (uint16_t)(sequence % PAGE_SEQUENCES);
    if (!page) return false;
    if (!page->bits) return is_listed(page, low);
    return page->bits[low / 64] >> (low % 64) & 1;
}
