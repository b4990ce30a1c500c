/* block.h -- a batch as the body of a journal block: causes, then effects.
 *
 *   u8       format of the body: 4; 2 and 3 lack the hash
 *   u64      running hash of the history before this block
 *   u32      size of the causes in bytes, so that recovery can step over them
 *   causes   for audit and rebuild: what was asked and accepted, in order
 *   effects  one after-image for each object the batch changed, each with a tag byte
 *
 * Recovery installs effects and runs no rule, so nothing is ever decided twice.
 *
 * The running hash is over all blocks from the first on: two stores whose hashes are equal at a
 * sequence have the same history up to there, whatever files it lies in. Each block has the hash
 * before it inside, so the hash at any block that is still there can be told without the blocks
 * before (SPEC 13). */
#ifndef TALLY_STORE_EMBEDDED_JOURNAL_BLOCK_H
#define TALLY_STORE_EMBEDDED_JOURNAL_BLOCK_H

#include "base/codec.h"
#include "store/embedded/journal/journal.h"
#include "store/store.h"

/* Appends the body of a decided batch; `before` is the running hash up to it. */
void block_encode(struct buf *buf, const struct write_set *writes, uint64_t before);

/* The running hash after the block. */
uint64_t block_hash(uint64_t before, const struct journal_block *block);
/* The one before it, as its body has it. False: the block is of a time when there was none, or its
 * body is no block's. */
MUST_USE bool block_before(const struct journal_block *block, uint64_t *before_out);

/* What a body says, object by object. `counter` is NULL for a deleted one and lives in `arena`;
 * a cell that does not exist was removed; views borrow from the body. */
struct block_visitor {
    void (*counter)(void *context, struct bytes key, const struct counter *counter);
    void (*cell)(void *context, uint64_t series, int64_t bucket, const struct cell *cell);
    void (*tenant)(void *context, struct bytes tenant, int64_t cells);
    void (*key)(void *context, struct fingerprint print, const struct key_record *record);
    void (*object)(void *context, struct bytes key, struct bytes value); /* size 0: removed */
    void (*dead)(void *context, uint64_t series);
    void *context;
};

/* Walks the effects. ERR_CORRUPT for bytes that block_encode did not write; some effects may have
 * been visited by then. `time_ms` is the block's: the time its cells were updated. */
MUST_USE enum err block_visit(struct bytes body, int64_t time_ms, struct arena *arena,
                              const struct block_visitor *visitor);

/* Walks the causes and visits the events and dropped duplicates among them, in order. Views borrow
 * from the body. `*stopped_out` if `visit` returned false. ERR_CORRUPT as above. */
MUST_USE enum err block_events(const struct journal_block *block, store_event_fn *visit,
                               void *context, bool *stopped_out);

#endif
