/* batch.h -- one batch on its way, and the states it goes through.
 *
 *   FREE -> DRAINED -> LOADED -> DECIDED -> SUBMITTED -> DURABLE -> ANSWERED -> FREE
 *              \______________________________ \______ store down ____/
 *
 * batch_enter is the only writer of the state. It refuses a step that is not drawn, and checks what
 * each state promises. The thread that works on a batch points must_at at its place, so that the
 * report of a broken promise names it.
 *
 *   FREE       holds nothing: no rules, no slices, no memory of its arena
 *   DRAINED    has slices, and a number of its own
 *   LOADED     its reads are listed and filled, by a store whose turn it has
 *   DECIDED    its writes are made: numbered without a gap, from its reads
 *   SUBMITTED  is the store's until `durable`; the thread that had the turn touches it no more
 *   DURABLE    is on disk and shown; only now its bundles are told ERR_OK
 *   ANSWERED   its bundles are being told, and may be gone */
#ifndef TALLY_COMMIT_BATCH_H
#define TALLY_COMMIT_BATCH_H

#include "core/apply.h"

enum batch_state {
    BATCH_FREE,
    BATCH_DRAINED,
    BATCH_LOADED,
    BATCH_DECIDED,
    BATCH_SUBMITTED,
    BATCH_DURABLE,
    BATCH_ANSWERED,
};

struct batch {
    enum batch_state state;
    struct must_place place; /* batches are counted as they are drained, from 1 at each start */
    struct arena arena;
    struct slice *slices;
    uint32_t slices_max;
    struct apply apply;
    struct rules *rules; /* held */
    int64_t started_ns;
    bool set_back; /* its time is before that of the batch before */
    bool lone;     /* it was taken as small as can be, and nothing else is with the store */
    struct batch *next;
};

void batch_init(struct batch *batch, unsigned lane, uint32_t ops_max);
void batch_release(struct batch *batch);

void batch_enter(struct batch *batch, enum batch_state state);

/* Counts the ops of the slices, which may have changed. */
void batch_count(struct batch *batch);

/* Asserts what the state promises. batch_enter calls it each time; only slow builds look at every
 * cause and every slice. */
void batch_check(const struct batch *batch);

#endif
