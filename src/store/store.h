/* store.h -- where state stays. One decision layer above, several stores below.
 *
 * A batch's way through a store:
 *
 *     store_begin(store);              commit thread: its turn begins
 *     store_load(store, reads);        newest values, durable or not; again for what was added
 *     apply_decide(...)                pure; fills reads' `changed` entries and `writes`
 *     store_submit(store, writes);     commit thread: staged, on its way to disk
 *     ...the next batch may be loaded and decided now...
 *     store_sync(store);               sync thread: all that was submitted becomes durable, then
 *                                      visible, then `durable` is called for each batch in order
 *
 * Laws every store keeps (tests/unit/test_store_contract.c runs them on each):
 * (1) `load` sees the effect of every earlier `submit` of this run, unless it failed.
 * (2) Readers (`get`, `range`, `sum`, `list`) see a batch whole once its `durable` ran, and nothing
 * of it before it is durable. What `durable` has reported survives a crash. (3) A failed sync fails
 * every batch submitted so far, in order, and drops what they staged. The store then recovers by
 * itself; until it has, `begin` answers ERR_STORAGE. (4) `begin` to `submit` is one turn. There is
 * one turn at a time and it always ends with `submit` or `abandon`; a `begin` that failed began
 * nothing, a `load` that failed is to be abandoned. Every call may be made from any thread unless
 * it says otherwise. */
#ifndef TALLY_STORE_STORE_H
#define TALLY_STORE_STORE_H

#include "base/arena.h"
#include "core/event.h"
#include "core/sets.h"

struct store;
struct view;

/* What the store was told before: where the commit layer goes on after opening. */
struct store_position {
    uint64_t last_sequence;
    uint64_t next_series;
    int64_t time_ms;
};

/* Told by `sync`, in submission order. ERR_OK: durable and visible. ERR_STORAGE: unknown. */
typedef void store_durable_fn(void *context, void *batch, enum err e);

enum read_how {
    READ_MEMORY, /* only what needs no disk; ERR_BUSY if it may be on disk */
    READ_ALL,
};

struct cell_ref {
    struct bytes counter; /* its key */
    struct fingerprint print;
    int32_t duration;
};

/* What to read of the retained history, in order of arrival. */
struct event_query {
    struct bytes tenant;  /* size 0: every tenant's */
    uint64_t after;       /* only later sequences */
    uint64_t upto;        /* and none after this one */
    int64_t arrived_from; /* only what arrived at this time or later */
    bool events;          /* applied events */
    bool duplicates;      /* dropped deliveries */
    size_t budget;        /* bytes to look through at most, roughly */
};

/* Of a range. Cells are 63 bits each, so their sum may take more than 64. */
struct range_sum {
    __int128 added;
    __int128 subbed;
};

/* Return false to stop early. A visitor makes no call of the store. */
typedef bool store_cell_fn(void *context, int64_t bucket, const struct cell *cell);
typedef bool store_counter_fn(void *context, struct bytes key, const struct counter *counter);
typedef bool store_object_fn(void *context, struct bytes key, struct bytes value);
typedef bool store_event_fn(void *context, const struct stored_event *event);
typedef void view_read_fn(void *context, struct view *moment);
typedef bool store_due_fn(void *context, struct bytes counter, int32_t duration, int64_t bucket);

struct store_stats {
    bool writable;
    uint64_t durable_sequence;
    uint64_t applied_sequence;
    uint64_t journal_bytes;
    uint64_t journal_segments;
    uint64_t journal_appended_bytes;
    uint64_t cache_bytes;
    uint64_t cache_cells;
    uint64_t dirty_cells;
    uint64_t registry_ids;
    uint64_t registry_filter_bytes;
    uint64_t archive_bytes;
    uint64_t archive_files;
    uint64_t archived_sequence;
    int64_t oldest_event_ms; /* arrival of the oldest one that `forget` could drop; 0: none */
    uint64_t checkpoints;
    uint64_t syncs;
    uint64_t storage_errors;
    uint64_t disk_free_bytes;
};

/* What a range that is read in parts takes from memory with its first part, for all of them: the
 * cells that are not in the state yet lie in no order, so that to look for them again with each
 * part would cost all of them each time. Begin with only the arena set; all else is the store's. */
struct range_newer {
    struct arena *arena;
    uint64_t series; /* whose they are; 0: nothing was taken yet */
    const void *cells;
    size_t count;
};

struct store_ops {
    const char *name;

    /* Commit thread. ERR_STORAGE: cannot write, or read, now. Each load fills what was added to
     * `reads` since the one before. */
    enum err (*begin)(struct store *store);
    enum err (*load)(struct store *store, struct read_set *reads, struct arena *arena);
    void (*submit)(struct store *store, struct write_set *writes);
    void (*abandon)(struct store *store, struct read_set *reads);

    /* Sync thread. Returns how many batches were reported, 0 if none was waiting. */
    uint32_t (*sync)(struct store *store);

    /* ERR_NOT_FOUND: no such cell. ERR_BUSY: only with READ_MEMORY. */
    enum err (*get)(struct store *store, const struct cell_ref *ref, int64_t bucket,
                    enum read_how how, struct cell *cell_out);
    /* Existing cells with from <= bucket <= to, in order of time. May read the disk. `newer` is for
     * parts, whose `from` only grows: a cell is then shown as it was at some moment since the first
     * part began. NULL: the range is read in one piece. */
    enum err (*range)(struct store *store, const struct cell_ref *ref, int64_t from, int64_t to,
                      struct range_newer *newer, store_cell_fn *visit, void *context);
    /* The sum of the cells that `range` would visit: each as it was at some moment of the call.
     * ERR_TOO_MANY_CELLS: more than `cells_max` of them would have to be visited. */
    enum err (*sum)(struct store *store, const struct cell_ref *ref, int64_t from, int64_t to,
                    uint32_t cells_max, struct range_sum *sum_out);
    /* One counter's granularities, copied into `arena`; NULL: there is no such counter. `ref` with
     * any duration. May read the disk. */
    enum err (*counter)(struct store *store, const struct cell_ref *ref, struct arena *arena,
                        const struct counter **counter_out);
    /* A number for what `ref` leads to, another one once that was deleted and made again; 0: there
     * is nothing. Who walks a range in parts knows by it that the parts are of one whole. */
    enum err (*series)(struct store *store, const struct cell_ref *ref, uint64_t *series_out);
    /* Counters whose key starts with `prefix` and is after `after`, in key order. */
    enum err (*list)(struct store *store, struct bytes prefix, struct bytes after,
                     store_counter_fn *visit, void *context);
    /* One object (core/object.h), copied into `value_out`. ERR_NOT_FOUND: there is none. */
    enum err (*object)(struct store *store, struct bytes key, struct buf *value_out);
    /* Objects whose key starts with `prefix` and is after `after`, in key order. */
    enum err (*objects)(struct store *store, struct bytes prefix, struct bytes after,
                        store_object_fn *visit, void *context);
    /* Runs `read` with a view whose `get`, `sum` and `object` show one moment: no batch becomes
     * visible meanwhile. `read` may be run again from its start. */
    void (*instant)(struct store *store, view_read_fn *read, void *context);

    /* Retained events and dropped duplicates that are durable. `*next_out` is the `after` to go on
     * with; 0: nothing is left up to `upto`. May read the disk. */
    enum err (*events)(struct store *store, const struct event_query *query, store_event_fn *visit,
                       void *context, uint64_t *next_out);
    /* What an event id or a key led to, if that is durable; without its `outcome`. ERR_NOT_FOUND.
     */
    enum err (*lookup)(struct store *store, struct fingerprint print,
                       struct key_record *record_out);
    /* Lets go of history that arrived before `before_ms`. By the thread that tends. Some of it may
     * be shown for a while, and again after a crash: who must not see it says so in its query. */
    void (*forget)(struct store *store, int64_t before_ms);

    /* Makes the new directory `dir`, on the store's own file system, a store of the same kind that
     * holds everything up to one durable batch, `*position_out`, and nothing after it; commits go
     * on. Scratch: it need not survive a crash, and it is the caller's to remove. One at a time.
     * ERR_STORAGE: `why_out` says which file could not be what. NULL: this store cannot. */
    enum err (*snapshot)(struct store *store, const char *dir, struct store_position *position_out,
                         struct buf *why_out);

    /* Cells that may be due at `now_ms`; candidates only, the commit thread decides again. Called
     * by the thread that tends. */
    enum err (*due)(struct store *store, int64_t now_ms, store_due_fn *visit, void *context);

    /* Caretaking: one small step of write-back, trimming or recovery from an error. True if there
     * is more to do now. */
    bool (*tend)(struct store *store);
    void (*stats)(struct store *store, struct store_stats *stats_out);
    /* Writes back everything durable and frees the store. No turn or sync may be under way. */
    void (*close)(struct store *store);
};

/* -- The faces of a store ----------------------------------------------------------------------
 *
 * A lane's commit thread and sync thread hold the writer, readers hold a view, and the store itself
 * is for who opens, tends and closes it. */

struct writer {
    struct store *store;
};

struct view {
    struct store *store;
};

struct store {
    const struct store_ops *ops;
    struct writer writer;
    struct view view;
    struct store_position position; /* as recovered by open */
    struct hash_secret secret;      /* fingerprints are made with this one */
    uint64_t installation;          /* whose sequences they are; 0: lost at exit */
    store_durable_fn *durable;      /* set by the commit layer before the first turn */
    void *durable_context;
};

static inline enum err writer_begin(struct writer *writer)
{
    return writer->store->ops->begin(writer->store);
}

static inline enum err writer_load(struct writer *writer, struct read_set *reads,
                                   struct arena *arena)
{
    return writer->store->ops->load(writer->store, reads, arena);
}

static inline void writer_submit(struct writer *writer, struct write_set *writes)
{
    writer->store->ops->submit(writer->store, writes);
}

static inline void writer_abandon(struct writer *writer, struct read_set *reads)
{
    writer->store->ops->abandon(writer->store, reads);
}

static inline uint32_t writer_sync(struct writer *writer)
{
    return writer->store->ops->sync(writer->store);
}

static inline enum err view_get(struct view *view, const struct cell_ref *ref, int64_t bucket,
                                enum read_how how, struct cell *cell_out)
{
    return view->store->ops->get(view->store, ref, bucket, how, cell_out);
}

static inline enum err view_range(struct view *view, const struct cell_ref *ref, int64_t from,
                                  int64_t to, struct range_newer *newer, store_cell_fn *visit,
                                  void *context)
{
    return view->store->ops->range(view->store, ref, from, to, newer, visit, context);
}

static inline enum err view_sum(struct view *view, const struct cell_ref *ref, int64_t from,
                                int64_t to, uint32_t cells_max, struct range_sum *sum_out)
{
    return view->store->ops->sum(view->store, ref, from, to, cells_max, sum_out);
}

static inline enum err view_counter(struct view *view, const struct cell_ref *ref,
                                    struct arena *arena, const struct counter **counter_out)
{
    return view->store->ops->counter(view->store, ref, arena, counter_out);
}

static inline enum err view_series(struct view *view, const struct cell_ref *ref,
                                   uint64_t *series_out)
{
    return view->store->ops->series(view->store, ref, series_out);
}

static inline enum err view_list(struct view *view, struct bytes prefix, struct bytes after,
                                 store_counter_fn *visit, void *context)
{
    return view->store->ops->list(view->store, prefix, after, visit, context);
}

static inline enum err view_object(struct view *view, struct bytes key, struct buf *value_out)
{
    return view->store->ops->object(view->store, key, value_out);
}

static inline enum err view_objects(struct view *view, struct bytes prefix, struct bytes after,
                                    store_object_fn *visit, void *context)
{
    return view->store->ops->objects(view->store, prefix, after, visit, context);
}

static inline enum err view_events(struct view *view, const struct event_query *query,
                                   store_event_fn *visit, void *context, uint64_t *next_out)
{
    return view->store->ops->events(view->store, query, visit, context, next_out);
}

static inline enum err view_lookup(struct view *view, struct fingerprint print,
                                   struct key_record *record_out)
{
    return view->store->ops->lookup(view->store, print, record_out);
}

static inline void view_instant(struct view *view, view_read_fn *read, void *context)
{
    view->store->ops->instant(view->store, read, context);
}

static inline void store_forget(struct store *store, int64_t before_ms)
{
    store->ops->forget(store, before_ms);
}

static inline enum err store_snapshot(struct store *store, const char *dir,
                                      struct store_position *position_out, struct buf *why_out)
{
    return store->ops->snapshot(store, dir, position_out, why_out);
}

static inline enum err store_due(struct store *store, int64_t now_ms, store_due_fn *visit,
                                 void *context)
{
    return store->ops->due(store, now_ms, visit, context);
}

static inline bool store_tend(struct store *store)
{
    return store->ops->tend(store);
}

static inline void store_stats(struct store *store, struct store_stats *stats_out)
{
    store->ops->stats(store, stats_out);
}

static inline void store_close(struct store *store)
{
    store->ops->close(store);
}

/* A meta object's number (core/object.h); 0: there is none. ERR_STORAGE, ERR_CORRUPT. */
MUST_USE enum err store_number(struct store *store, struct bytes name, uint64_t *number_out);

#endif
