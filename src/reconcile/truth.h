/* truth.h -- what the counters of an entity should be, by whatever source knows it.
 *
 * Each entry of `reconcile:` (core/reconcile.h) has one truth, asked by several threads at a time.
 * Where it looks is behind these functions: truth_postgres.c, truth_events.c, and tests. */
#ifndef TALLY_RECONCILE_TRUTH_H
#define TALLY_RECONCILE_TRUTH_H

#include "core/reconcile.h"

/* The entity that is asked about. Everything is the caller's for the call. */
struct truth_query {
    const struct rules *rules; /* with `reconcile` in it */
    const struct reconcile *reconcile;
    struct bytes tenant;
    struct bytes entity_json;
    const struct bytes *values; /* the values of reconcile->parameters, in that order */
};

struct truth {
    const struct truth_ops *ops;
};

struct truth_ops {
    /* Counts all of the entry's counters at one moment not before the call. ERR_OK: each of
     * `counts_out` is 0 or more. ERR_SOURCE_DOWN: it cannot be asked now, about any entity.
     * ERR_SOURCE_ANSWER: it gave no count for this one. ERR_HISTORY: it knows only a part. With
     * these `why_out` has a sentence for the operator, never for a tenant, without secrets.
     * ERR_BUSY: cancelled. */
    enum err (*count)(struct truth *truth, const struct truth_query *query, int64_t *counts_out,
                      struct buf *why_out);
    /* Any thread may call; it waits for nothing. Makes calls that are under way come back soon, and
     * new ones too. */
    void (*cancel)(struct truth *truth);
    /* No call is under way. */
    void (*free)(struct truth *truth);
};

/* Makes the truth of an entry and keeps nothing of `reconcile`. */
typedef struct truth *truth_open_fn(void *context, const struct reconcile *reconcile);

#endif
