/* view.h -- what readers of a store see: batches that are durable, each of them whole.
 *
 * (1) Any thread may call at any time between the opening and the closing of the store.
 * (2) Each call shows one moment of its own time. Several calls show one and the same moment only
 *     inside of `view_instant`, by the view that it hands out, which has only `get`, `sum`,
 *     `object` and `newest`, and inside of `view_still`.
 * (3) A store's own view lives as long as the store. The view that `view_instant` hands out lives
 *     until the reader returns.
 * (4) What a visitor is given is the store's and lives until the visitor returns. What comes back
 *     in `_out`, or in an arena of the caller's, is the caller's. Keys that are passed in are the
 *     caller's and are not kept.
 * (5) A visitor returns false to stop early, which is no error. It makes no call of the store: the
 *     call could wait for a lock that waits for the visit to end.
 *
 * Every call that returns an error may return these: ERR_STORAGE, the disk could not be read;
 * ERR_CORRUPT, stored bytes do not decode (damage.h has said which). Others stand with the call.
 * After an error `_out` says nothing, and a visitor may have been given a part. */
#ifndef TALLY_STORE_VIEW_H
#define TALLY_STORE_VIEW_H

#include "base/arena.h"
#include "core/cell.h"
#include "core/event.h"
#include "core/sets.h"

struct store;
struct view;

enum read_how {
    READ_MEMORY, /* without the disk; ERR_BUSY if what is asked for may be there */
    READ_ALL,
};

struct cell_ref {
    struct bytes counter; /* its key */
    struct fingerprint print;
    int32_t duration;
    int64_t now_ms; /* cells whose exact expiry has come by then are not shown; 0: all are */
};

/* Whether a reader sees that cell. */
static inline bool cell_ref_shows(const struct cell_ref *ref, const struct cell *cell)
{
    return ref->now_ms == 0 || !cell_is_over(cell, ref->now_ms);
}

/* Which part of the retained history to read, in order of arrival. */
struct event_query {
    struct bytes tenant;  /* size 0: every tenant's */
    uint64_t after;       /* only later sequences */
    uint64_t upto;        /* and none after this one */
    int64_t arrived_from; /* only what arrived at this time or later */
    bool events;          /* applied events */
    bool duplicates;      /* dropped deliveries */
    size_t budget;        /* bytes to look through at most, roughly */
};

/* The sum of a range. A cell has 63 bits, so the sum of many may take more than 64. */
struct range_sum {
    __int128 added;
    __int128 subbed;
};

/* What a range that is read in parts takes from memory with its first part, for all of them: the
 * cells that are not in the state yet lie in no order, so looking for them again with each part
 * would cost all of them each time. The caller sets `arena`, which keeps them, and zeroes the rest,
 * which is the store's. */
struct range_newer {
    struct arena *arena;
    uint64_t series; /* whose cells they are; 0: nothing was taken yet */
    const void *cells;
    size_t count;
};

typedef bool store_cell_fn(void *context, int64_t bucket, const struct cell *cell);
typedef bool store_counter_fn(void *context, struct bytes key, const struct counter *counter);
typedef bool store_object_fn(void *context, struct bytes key, struct bytes value);
typedef bool store_event_fn(void *context, const struct stored_event *event);
typedef bool store_id_fn(void *context, struct fingerprint print, const struct key_record *record);
typedef void view_read_fn(void *context, struct view *moment);
typedef bool store_series_fn(void *context, size_t index, int64_t bucket, const struct cell *cell);

/* A lane as of a moment. */
struct view_lane {
    struct view *view;
    uint64_t sequence; /* its last one */
    int64_t time_ms;   /* its batch time; INT64_MIN: it has none yet */
};

/* A reader of one moment, who waits with others. */
struct view_reading {
    struct view *view; /* a store's own, or such a one with an age */
    view_read_fn *read;
    void *context;
};

struct view_ops {
    enum err (*get)(struct view *view, const struct cell_ref *ref, int64_t bucket,
                    enum read_how how, struct cell *cell_out);
    enum err (*range)(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                      struct range_newer *newer, store_cell_fn *visit, void *context);
    enum err (*sum)(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                    uint32_t cells_max, struct range_sum *sum_out);
    enum err (*counter)(struct view *view, const struct cell_ref *ref, struct arena *arena,
                        const struct counter **counter_out);
    enum err (*series)(struct view *view, const struct cell_ref *ref, uint64_t *series_out);
    enum err (*list)(struct view *view, struct bytes prefix, struct bytes after,
                     store_counter_fn *visit, void *context);
    enum err (*object)(struct view *view, struct bytes key, struct buf *value_out);
    enum err (*objects)(struct view *view, struct bytes prefix, struct bytes after,
                        store_object_fn *visit, void *context);
    enum err (*events)(struct view *view, const struct event_query *query, store_event_fn *visit,
                       void *context, uint64_t *next_out);
    enum err (*lookup)(struct view *view, struct fingerprint print, struct key_record *record_out);
    enum err (*ids)(struct view *view, store_id_fn *visit, void *context);
    void (*instant)(struct view *view, view_read_fn *read, void *context);
    void (*gather)(const struct view_reading *readings,
                   unsigned count); /* NULL: there is nothing to be saved by it */
    uint64_t (*sequence)(struct view *view);
    enum err (*newest)(struct view *view,
                       uint64_t *sequence_out); /* NULL: nobody else writes, so it is `sequence` */
    enum err (*cells)(struct view *view, const uint64_t *series, size_t count,
                      store_series_fn *visit, void *context); /* NULL: `range` costs no more */
    void (*still)(struct view *view, view_read_fn *read, void *context);
    enum err (*beside)(struct view *moment, struct store *store, struct arena *arena,
                       struct view_lane *lane_out);
};

/* How new answers have to be, for a store that reads copies too, which lag behind. One thread at a
 * time uses it, and it lives as long as the view. */
struct view_age {
    uint64_t least;   /* calls show at least this sequence; 0: whatever a copy has */
    uint64_t reached; /* every call so far showed at least this one; UINT64_MAX: there was none */
    bool newest;      /* no copy is asked, or not any more: one was late, or failed */
};

struct view {
    const struct view_ops *ops;
    struct store *store;
    struct view_age *age; /* NULL: the newest, which is what those who write see */
};

/* The same view, with the calls of which copies may be asked. */
static inline struct view view_aged(const struct view *view, struct view_age *age)
{
    return (struct view){.ops = view->ops, .store = view->store, .age = age};
}

/* Reads one cell. ERR_NOT_FOUND: there is none. ERR_BUSY: only with READ_MEMORY. */
MUST_USE static inline enum err view_get(struct view *view, const struct cell_ref *ref,
                                         int64_t bucket, enum read_how how, struct cell *cell_out)
{
    enum err e = view->ops->get(view, ref, bucket, how, cell_out);
    return e == ERR_OK && !cell_ref_shows(ref, cell_out) ? ERR_NOT_FOUND : e;
}

/* A visitor behind which no cell is that `ref` does not show. */
struct shown_cells {
    const struct cell_ref *ref;
    store_cell_fn *visit;
    void *context;
};

static inline bool show_cell_of(void *context, int64_t bucket, const struct cell *cell)
{
    const struct shown_cells *shown = context;
    return !cell_ref_shows(shown->ref, cell) || shown->visit(shown->context, bucket, cell);
}

/* Visits the cells with from <= bucket <= to, in order of time. `newer` is for a range that is read
 * in parts, whose `from` only grows: a cell is then shown as it was at some moment since the first
 * part began. NULL: the range is read in one piece. May read the disk. */
MUST_USE static inline enum err view_range(struct view *view, const struct cell_ref *ref,
                                           int64_t from, int64_t to, struct range_newer *newer,
                                           store_cell_fn *visit, void *context)
{
    struct shown_cells shown = {ref, visit, context};
    return view->ops->range(view, ref, from, to, newer, show_cell_of, &shown);
}

/* Adds up the cells that `view_range` would visit, each as it was at some moment of the call.
 * ERR_TOO_MANY_CELLS: more than `cells_max` of them would have to be visited. May read the disk. */
MUST_USE static inline enum err view_sum(struct view *view, const struct cell_ref *ref,
                                         int64_t from, int64_t to, uint32_t cells_max,
                                         struct range_sum *sum_out)
{
    return view->ops->sum(view, ref, from, to, cells_max, sum_out);
}

/* Copies one counter's granularities into `arena`; NULL: there is no such counter. The duration of
 * `ref` does not matter. May read the disk. */
MUST_USE static inline enum err view_counter(struct view *view, const struct cell_ref *ref,
                                             struct arena *arena,
                                             const struct counter **counter_out)
{
    return view->ops->counter(view, ref, arena, counter_out);
}

/* Gives the number of what `ref` leads to, and another number once that was deleted and made again;
 * 0: there is nothing. By it a caller who walks a range in parts knows that the parts are of one
 * whole. May read the disk. */
MUST_USE static inline enum err view_series(struct view *view, const struct cell_ref *ref,
                                            uint64_t *series_out)
{
    return view->ops->series(view, ref, series_out);
}

/* Visits the counters whose key starts with `prefix` and is after `after`, in key order. Either may
 * be BYTES_NONE. May read the disk. */
MUST_USE static inline enum err view_list(struct view *view, struct bytes prefix,
                                          struct bytes after, store_counter_fn *visit,
                                          void *context)
{
    return view->ops->list(view, prefix, after, visit, context);
}

/* Reads one object (core/object.h); `value_out` is emptied and filled. ERR_NOT_FOUND: there is
 * none. May read the disk. */
MUST_USE static inline enum err view_object(struct view *view, struct bytes key,
                                            struct buf *value_out)
{
    return view->ops->object(view, key, value_out);
}

/* Visits the objects whose key starts with `prefix` and is after `after`, in key order. Either may
 * be BYTES_NONE. May read the disk. */
MUST_USE static inline enum err view_objects(struct view *view, struct bytes prefix,
                                             struct bytes after, store_object_fn *visit,
                                             void *context)
{
    return view->ops->objects(view, prefix, after, visit, context);
}

/* Visits the retained events and dropped duplicates that the query asks for. `*next_out` is the
 * `after` to go on with; 0: nothing is left up to `upto`. May read the disk. */
MUST_USE static inline enum err view_events(struct view *view, const struct event_query *query,
                                            store_event_fn *visit, void *context,
                                            uint64_t *next_out)
{
    return view->ops->events(view, query, visit, context, next_out);
}

/* Says what an event id or an idempotency key led to, without its `outcome`. ERR_NOT_FOUND: it is
 * not known. May read the disk. */
MUST_USE static inline enum err view_lookup(struct view *view, struct fingerprint print,
                                            struct key_record *record_out)
{
    return view->ops->lookup(view, print, record_out);
}

/* Every event id and idempotency key that is remembered, with its outcome, each once, in no order.
 * May read the disk, and hold off the store's own tending: it is meant for a store that stands
 * still, as a snapshot does. */
MUST_USE static inline enum err view_ids(struct view *view, store_id_fn *visit, void *context)
{
    return view->ops->ids(view, visit, context);
}

/* The last sequence that every call which begins from now on is sure to show: the last durable one
 * of this lane, or of a lane that others write too, the last one known here. Waits for nobody. */
static inline uint64_t view_sequence(struct view *view)
{
    return view->ops->sequence(view);
}

/* The last durable sequence of this lane, whoever wrote it. Every call that begins afterwards shows
 * it. May wait for another machine. */
MUST_USE static inline enum err view_newest(struct view *view, uint64_t *sequence_out)
{
    if (view->ops->newest) return view->ops->newest(view, sequence_out);
    *sequence_out = view_sequence(view);
    return ERR_OK;
}

/* Visits the cells of several series, in the order given and in order of time, for a store in which
 * a range of each would be a question to another machine each. */
MUST_USE static inline enum err view_cells(struct view *view, const uint64_t *series, size_t count,
                                           store_series_fn *visit, void *context)
{
    return view->ops->cells(view, series, count, visit, context);
}

/* Runs `read` with a view of one moment: no batch becomes visible meanwhile. `read` may be run
 * again from its start, so it begins by forgetting what it found. */
static inline void view_instant(struct view *view, view_read_fn *read, void *context)
{
    view->ops->instant(view, read, context);
}

/* Runs `read` with a view of one moment that has every call, and may be read for hours. It costs
 * the store something as long as it lasts. A read that fails may end the moment: `read` is then run
 * again from its start with another one, and begins by forgetting what it found. For stores that
 * are `remote` alone (store.h). */
static inline void view_still(struct view *view, view_read_fn *read, void *context)
{
    view->ops->still(view, read, context);
}

/* Says where the lane of `store` is at the moment of `moment`, which view_still handed out, with a
 * view of it that lives in `arena` as long as the moment. The moment's own lane may be asked for
 * too. ERR_NOT_FOUND: the two are not kept in one place, so they have no moment in common. */
MUST_USE static inline enum err view_beside(struct view *moment, struct store *store,
                                            struct arena *arena, struct view_lane *lane_out)
{
    return moment->ops->beside(moment, store, arena, lane_out);
}

/* Whether readers of this store should wait for each other, for `view_gather`. */
MUST_USE static inline bool view_gathers(const struct view *view)
{
    return view->ops->gather != NULL;
}

/* Runs `read` with a view of which each call shows a moment of its own. Where calls wait for the
 * store it is asked for all of them together: `read` may be run again from its start then. */
static inline void view_together(struct view *view, view_read_fn *read, void *context)
{
    if (view_gathers(view))
        view_instant(view, read, context);
    else
        read(context, view);
}

/* Does what `view_instant` does for each of `readings`, each of which has a moment of its own since
 * this call began, and asks the stores for all of them together. They are stores of one kind, for
 * which view_gathers is true. `count` > 0. */
static inline void view_gather(const struct view_reading *readings, unsigned count)
{
    readings->view->ops->gather(readings, count);
}

#endif
