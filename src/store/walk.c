/* walk.c -- a walk lists counters in pages and reads the cells of a page afterwards, for a visitor
 * of counters must not read cells (view.h, law 5). Where each range would be a question to another
 * machine, the cells of many small series are read with one. */
#include "store/walk.h"

#include "core/counter.h"
#include "store/store.h"

#ifdef TALLY_SMALL_WORLD
#define PAGE_COUNTERS 3u
#define TOGETHER_CELLS 5
#define TOGETHER_SERIES 4u
#else
#define PAGE_COUNTERS 1024u
#define TOGETHER_CELLS 4096
#define TOGETHER_SERIES 1024u
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

/* -- Series by series -------------------------------------------------------------------------- */

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

static enum err walk_page(struct cell_walk *walk, const struct walk_page *page)
{
    enum err e = ERR_OK;
    for (unsigned i = 0; i < page->count && e == ERR_OK && !walk->stopped; i++)
        e = walk_counter(walk, page->counters[i].key, page->counters[i].counter);
    return e;
}

/* -- Many series at once ----------------------------------------------------------------------- */

/* Series that are read together, each with the counter that it is of. */
struct together {
    struct cell_walk *walk;
    uint64_t series[TOGETHER_SERIES];
    int32_t durations[TOGETHER_SERIES];
    struct bytes keys[TOGETHER_SERIES];
    size_t count;
    int64_t cells;
    struct bytes shown; /* the counter shown last */
    bool wanted;        /* and whether it is */
};

static bool show_together(void *context, size_t index, int64_t bucket, const struct cell *cell)
{
    struct together *together = context;
    const struct walk_visitor *visitor = together->walk->visitor;
    if (together->shown.data != together->keys[index].data) {
        together->shown = together->keys[index];
        together->wanted = visitor->counter(visitor->context, together->shown);
    }
    together->walk->duration = together->durations[index];
    return !together->wanted || show_cell(together->walk, bucket, cell);
}

static enum err read_together(struct together *together)
{
    size_t count = together->count;
    together->count = 0;
    together->cells = 0;
    together->shown = BYTES_NONE;
    if (count == 0 || together->walk->stopped) return ERR_OK;
    return view_cells(together->walk->view, together->series, count, show_together, together);
}

/* A series with more cells than are read at once is read in parts. */
static enum err walk_alone(struct cell_walk *walk, struct bytes key, const struct series *series)
{
    struct arena arena;
    arena_init(&arena, 256);
    enum err e = walk_counter(walk, key, counter_with(&arena, NULL, *series));
    arena_release(&arena);
    return e;
}

static enum err add_together(struct together *together, struct bytes key,
                             const struct series *series)
{
    enum err e = ERR_OK;
    if (together->count == TOGETHER_SERIES || together->cells + series->cells > TOGETHER_CELLS)
        e = read_together(together);
    if (e != ERR_OK) return e;
    if (series->cells > TOGETHER_CELLS) return walk_alone(together->walk, key, series);
    together->series[together->count] = series->id;
    together->durations[together->count] = series->duration;
    together->keys[together->count++] = key;
    together->cells += series->cells;
    return ERR_OK;
}

static enum err walk_page_together(struct cell_walk *walk, const struct walk_page *page)
{
    struct together together = {.walk = walk};
    enum err e = ERR_OK;
    for (unsigned i = 0; i < page->count && !walk->stopped; i++) {
        const struct counter *counter = page->counters[i].counter;
        for (uint32_t j = 0; j < counter->count && e == ERR_OK; j++)
            e = add_together(&together, page->counters[i].key, &counter->series[j]);
    }
    return e == ERR_OK ? read_together(&together) : e;
}

/* -- All of it --------------------------------------------------------------------------------- */

enum err walk_cells(struct view *view, const struct walk_visitor *visitor)
{
    struct cell_walk walk = {.view = view, .visitor = visitor};
    struct walk_page page = {0};
    enum err e;
    arena_init(&page.arena, PAGE_CHUNK);
    do {
        e = read_page(&page, view);
        if (e == ERR_OK)
            e = view->ops->cells ? walk_page_together(&walk, &page) : walk_page(&walk, &page);
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
