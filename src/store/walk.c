/* walk.c -- a walk lists counters in pages and reads the cells of a page afterwards, for a visitor
 * of counters must not read cells (view.h, law 5). */
#include "store/walk.h"

#include "core/counter.h"
#include "store/store.h"

#ifdef TALLY_SMALL_WORLD
#define PAGE_COUNTERS 3u
#else
#define PAGE_COUNTERS 1024u
#endif
#define PAGE_CHUNK (256u << 10)

struct walk_page {
    struct arena arena;
    struct {
        struct bytes key;
        const struct counter *counter;
    } counters[PAGE_COUNTERS];
    unsigned count;
};

static bool take_counter(void *context, struct bytes key, const struct counter *counter)
{
    struct walk_page *page = context;
    page->counters[page->count].key = arena_copy(&page->arena, key);
    page->counters[page->count].counter = counter_copy(&page->arena, counter);
    return ++page->count < PAGE_COUNTERS;
}

/* Reads the counters behind the page that was read last. */
static enum err read_page(struct walk_page *page, struct view *view)
{
    struct buf after;
    buf_init(&after, SIZE_MAX / 2);
    if (page->count) buf_add(&after, page->counters[page->count - 1].key);
    arena_reset(&page->arena);
    page->count = 0;
    enum err e = view_list(view, BYTES_NONE, buf_bytes(&after), take_counter, page);
    buf_release(&after);
    return e;
}

struct cell_walk {
    struct view *view;
    const struct walk_visitor *visitor;
    int32_t duration; /* the series' that is under way */
    bool stopped;
};

static bool show_cell(void *context, int64_t bucket, const struct cell *cell)
{
    struct cell_walk *walk = context;
    const struct walk_visitor *visitor = walk->visitor;
    walk->stopped = !visitor->cell(visitor->context, walk->duration, bucket, cell);
    return !walk->stopped;
}

static enum err walk_counter(struct cell_walk *walk, struct bytes key,
                             const struct counter *counter)
{
    struct cell_ref ref = {.counter = key,
                           .print = fingerprint_of(&walk->view->store->secret, key)};
    enum err e = ERR_OK;
    if (!walk->visitor->counter(walk->visitor->context, key)) return ERR_OK;
    for (uint32_t i = 0; i < counter->count && e == ERR_OK && !walk->stopped; i++) {
        walk->duration = ref.duration = counter->series[i].duration;
        e = view_range(walk->view, &ref, INT64_MIN, INT64_MAX, NULL, show_cell, walk);
    }
    return e;
}

enum err walk_cells(struct view *view, const struct walk_visitor *visitor)
{
    struct cell_walk walk = {.view = view, .visitor = visitor};
    struct walk_page page = {0};
    enum err e;
    arena_init(&page.arena, PAGE_CHUNK);
    do {
        e = read_page(&page, view);
        for (unsigned i = 0; i < page.count && e == ERR_OK && !walk.stopped; i++)
            e = walk_counter(&walk, page.counters[i].key, page.counters[i].counter);
    } while (e == ERR_OK && page.count == PAGE_COUNTERS && !walk.stopped);
    arena_release(&page.arena);
    return e;
}

static bool count_cells(void *context, struct bytes key, const struct counter *counter)
{
    uint64_t *cells = context;
    (void)key;
    *cells += (uint64_t)counter_cells(counter);
    return true;
}

enum err walk_count(struct view *view, uint64_t *cells_out)
{
    *cells_out = 0;
    return view_list(view, BYTES_NONE, BYTES_NONE, count_cells, cells_out);
}
