/* store.h -- where state stays: one decision layer above, several stores below.
 *
 * A batch's way through a store:
 *
 *     writer_begin(writer)          commit thread: its turn begins
 *     writer_load(writer, reads)    newest values, durable or not; again for what was added
 *     apply_decide(apply)           pure: changes entries of `reads` and fills in `writes`
 *     writer_submit(writer, writes) commit thread: staged, on its way to the disk
 *     ...the next batch may be loaded and decided now...
 *     writer_sync(writer)           sync thread: all that was submitted becomes durable, then
 *                                   visible, then `durable` is told of each batch in order
 *
 * Example:
 *
 *     static enum err commit_one(struct store *store, struct apply *apply)
 *     {
 *         enum err e = writer_begin(&store->writer);
 *         if (e != ERR_OK) return e;
 *         apply->sequence = store->writer.position.last_sequence;
 *         apply->next_series = store->writer.position.next_series;
 *         apply_identify(apply);
 *         e = writer_load(&store->writer, &apply->reads, apply->arena);
 *         if (e == ERR_OK) apply_needs(apply);
 *         if (e == ERR_OK) e = writer_load(&store->writer, &apply->reads, apply->arena);
 *         if (e != ERR_OK) {
 *             writer_abandon(&store->writer, &apply->reads);
 *             return e;
 *         }
 *         apply_decide(apply);
 *         writer_submit(&store->writer, &apply->writes);
 *         writer_sync(&store->writer);
 *         return ERR_OK;
 *     }
 *
 * (tests/unit/test_store_example.c runs it.) Laws every store keeps, which
 * tests/unit/test_store_contract.c runs on each:
 *
 * (1) `load` sees the effect of every earlier `submit` of this run, unless that failed.
 * (2) Readers see a batch whole once its `durable` ran, and nothing of it before it is durable.
 *     What `durable` has reported survives a crash.
 * (3) A failed sync fails every batch submitted so far, in order, and drops what they staged. The
 *     store then recovers by itself; until it has, `begin` answers ERR_STORAGE.
 * (4) `begin` to `submit` is one turn. There is one turn at a time and it always ends with `submit`
 *     or `abandon`. A `begin` that failed began nothing; after a `load` that failed the turn is to
 *     be abandoned.
 * (5) Sequences grow by one with each cause of a batch, without a gap, across failures and
 *     restarts: a failed sync winds `position` back to the last durable batch.
 *
 * A lane's commit thread and sync thread hold the writer (writer.h), readers hold a view (view.h).
 * The store itself is for those who open, tend and close it. */
#ifndef TALLY_STORE_STORE_H
#define TALLY_STORE_STORE_H

#include <stdatomic.h>

#include "base/reason.h"
#include "store/view.h"
#include "store/writer.h"

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
    uint64_t state_bytes; /* what was written back */
    uint64_t archive_bytes;
    uint64_t archive_files;
    uint64_t archived_sequence;
    int64_t oldest_event_ms; /* arrival of the oldest one that `forget` could drop; 0: none */
    uint64_t checkpoints;
    uint64_t syncs;
    uint64_t storage_errors;
    uint64_t disk_free_bytes;
    bool copied;            /* there is a copy that reads may go to, */
    uint64_t copy_sequence; /* which has everything up to here, and */
    int64_t copy_lag_ms;    /* what it has was the newest so long ago */
};

typedef bool store_due_fn(void *context, struct bytes counter, int32_t duration, int64_t bucket);

struct store_ops {
    const char *name;
    void (*forget)(struct store *store, int64_t before_ms);
    enum err (*due)(struct store *store, int64_t now_ms, store_due_fn *visit, void *context);
    bool (*tend)(struct store *store);
    bool (*leads)(struct store *store); /* NULL: no other process has a hand in this store */
    enum err (*snapshot)(struct store *store, const char *dir, struct store_position *position_out,
                         struct reason *why_out); /* NULL: this store makes none */
    void (*stats)(struct store *store, struct store_stats *stats_out);
    void (*close)(struct store *store);
};

struct store {
    const struct store_ops *ops;
    struct writer writer;
    struct view view;
    struct hash_secret secret; /* fingerprints are made with it */
    uint64_t installation;     /* the one that gave out its sequences; 0: they are lost at exit */
    const char *directory;     /* where it lies; lives as long as the store. NULL: in none */
    unsigned place;            /* which of several databases that is, from 0 */
    const char *server;   /* the database that it lies in: host, port and name. NULL: in none */
    atomic_bool outdated; /* what is stored is of a newer kind than this program knows: as long as
                           * that is so, every call that can fail does, with ERR_STORAGE */
    bool waits;  /* a sync waits for other machines: none on a thread that serves connections */
    bool remote; /* calls wait for another machine: none on a thread that serves connections */
};

/* For the opening of a store: sets the tables of its calls, and the way back from its two faces. */
void store_init(struct store *store, const struct store_ops *ops, const struct writer_ops *writer,
                const struct view_ops *view);

/* Tend thread. Lets go of history that arrived before `before_ms`. Some of it may be shown for a
 * while, and again after a crash: a reader who must not see it says so in its query. */
static inline void store_forget(struct store *store, int64_t before_ms)
{
    store->ops->forget(store, before_ms);
}

/* Tend thread. Visits cells that may be due at `now_ms`: candidates only, the commit thread decides
 * again. ERR_STORAGE, ERR_CORRUPT. */
MUST_USE static inline enum err store_due(struct store *store, int64_t now_ms, store_due_fn *visit,
                                          void *context)
{
    return store->ops->due(store, now_ms, visit, context);
}

/* Tend thread. One small step of write-back, trimming or recovery from an error. True: there is
 * more to do now. */
static inline bool store_tend(struct store *store)
{
    return store->ops->tend(store);
}

/* Any thread. Whether what works beside the requests (sweeps, retention, rebuilds, reconciliation)
 * is this process's to do now. Where processes share a store one of them leads at a time; two that
 * both believe it do no harm, for the commit thread judges each step again. */
MUST_USE static inline bool store_leads(struct store *store)
{
    return !store->ops->leads || store->ops->leads(store);
}

/* Makes the new directory `dir`, on the store's own file system, a store of the same kind that
 * holds everything up to one durable batch, `*position_out`, and nothing after it; commits go on.
 * It need not survive a crash, and the caller removes it. Any thread; one waits for the other.
 * ERR_STORAGE: `why_out` says what failed, with which file. */
MUST_USE static inline enum err store_snapshot(struct store *store, const char *dir,
                                               struct store_position *position_out,
                                               struct reason *why_out)
{
    return store->ops->snapshot(store, dir, position_out, why_out);
}

/* Any thread. Figures for people and metrics, each as of some moment of the call. */
static inline void store_stats(struct store *store, struct store_stats *stats_out)
{
    store->ops->stats(store, stats_out);
}

/* Writes back everything durable and frees the store. No turn, sync or read may be under way. */
static inline void store_close(struct store *store)
{
    store->ops->close(store);
}

/* The number in a meta object (core/object.h); 0: there is no such object. ERR_STORAGE,
 * ERR_CORRUPT. */
MUST_USE enum err store_number(struct store *store, struct bytes name, uint64_t *number_out);

#endif
