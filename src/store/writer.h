/* writer.h -- the write side of a store: what its commit thread and its sync thread hold.
 *
 * store.h has the way of a batch and the laws. The write set and the read set of a batch stay the
 * caller's; from `load` on the store keeps handles in them, and from `submit` on it reads them in
 * other threads, so they stay where they are until `durable` was told of the batch or the turn was
 * abandoned. */
#ifndef TALLY_STORE_WRITER_H
#define TALLY_STORE_WRITER_H

#include <stdatomic.h>

#include "core/sets.h"

struct store;
struct writer;

/* What the store was told last: where the commit layer goes on. */
struct store_position {
    uint64_t last_sequence;
    uint64_t next_series;
    int64_t time_ms;
    uint64_t hash;  /* the running hash over all of the history (store/embedded/journal/block.h); 0
                    * where nobody follows a store of that kind */
    uint64_t rules; /* the newest durable batch that changed rules, by its last sequence; 0: there
                     * is none, or nobody but this process could have done that */
};

/* `sync` calls it for each batch, in the order of submission, with the pointer that the write set
 * has in `batch`. ERR_OK: the batch is durable and visible. ERR_STORAGE: it is not visible, and
 * whether it is durable is not known before the next opening. ERR_INTERNAL: it is neither, because
 * the store refuses what is in one of the batches that this sync reports, however often it is
 * tried. */
typedef void writer_durable_fn(void *context, void *batch, enum err e);

struct writer_ops {
    enum err (*begin)(struct writer *writer);
    enum err (*load)(struct writer *writer, struct read_set *reads, struct arena *arena);
    void (*submit)(struct writer *writer, struct write_set *writes);
    void (*abandon)(struct writer *writer, struct read_set *reads);
    uint32_t (*sync)(struct writer *writer);
    void (*rest)(struct writer *writer); /* NULL: this store never holds anything */
};

struct writer {
    const struct writer_ops *ops;
    struct store *store;
    struct store_position
        position;               /* read and advanced within a turn; a failed sync winds it back */
    bool more;                  /* set by the commit layer before a sync: another turn is near */
    atomic_bool ahead;          /* the store's: it holds for that turn what others may wait for */
    writer_durable_fn *durable; /* set by the commit layer before the first turn */
    void *durable_context;
};

/* Commit thread. Begins a turn, once the one before has ended. ERR_STORAGE: the store cannot write
 * now, and nothing was begun. */
MUST_USE static inline enum err writer_begin(struct writer *writer)
{
    return writer->ops->begin(writer);
}

/* Commit thread, within a turn. Fills in the newest values, durable or not, of what was added to
 * `reads` since the load before; they are in `arena` or live until the turn's batch is reported.
 * ERR_STORAGE: the store cannot be read now. ERR_CORRUPT: stored bytes do not decode. After an
 * error the turn is to be abandoned. */
MUST_USE static inline enum err writer_load(struct writer *writer, struct read_set *reads,
                                            struct arena *arena)
{
    return writer->ops->load(writer, reads, arena);
}

/* Commit thread. Ends the turn: stages the changed entries of `writes->reads` and puts the batch on
 * its way to the disk. A batch of no causes (`count` 0) changes nothing and is reported in its
 * order like any other. It cannot fail: what goes wrong from here on is reported by `sync`. */
static inline void writer_submit(struct writer *writer, struct write_set *writes)
{
    writer->ops->submit(writer, writes);
}

/* Commit thread. Ends the turn as if it had not been; `reads` is what was loaded in it. */
static inline void writer_abandon(struct writer *writer, struct read_set *reads)
{
    writer->ops->abandon(writer, reads);
}

/* Any thread, one at a time. Makes all that was submitted durable, then visible, and tells
 * `durable` of each batch. Returns how many were reported, 0 if none was waiting. */
static inline uint32_t writer_sync(struct writer *writer)
{
    return writer->ops->sync(writer);
}

/* Any thread, outside of a turn. No turn is near after all: the store lets go of what it holds
 * `ahead`. */
static inline void writer_rest(struct writer *writer)
{
    if (writer->ops->rest) writer->ops->rest(writer);
}

#endif
