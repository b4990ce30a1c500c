/* shipment.h -- what a primary answers a follower that asks for more of its history.
 *
 *   0  char[8]  "tallyrpl"
 *   8  u32      format of this: 1
 *  12  u64      last sequence of the primary's history
 *  20  i64[5]   the primary's time, by which the follower's reads go (base/moment.h)
 * then for each block, in order:
 *      u64 first sequence, u32 count, i64 time, u64 next series, u32 size of the body, the body,
 *      u64 running hash after the block
 *
 * The hash covers all that the primary's history has up to and with the block, so a follower that
 * works it out itself finds any byte that is not as it was (store/embedded/journal/block.h). */
#ifndef TALLY_REPLICA_SHIPMENT_H
#define TALLY_REPLICA_SHIPMENT_H

#include "base/codec.h"
#include "base/moment.h"
#include "store/embedded/replicate.h"

#define SHIPMENT_FORMAT 1u
#define SHIPMENT_BLOCK_HEAD 32u

struct shipment_head {
    uint64_t last;
    struct moment moment;
};

void shipment_begin(struct buf *buf, const struct shipment_head *head);
/* What was said of the time and the end may be out of date once the blocks are in. */
void shipment_settle(struct buf *buf, const struct shipment_head *head);
void shipment_add(struct buf *buf, const struct journal_block *block, uint64_t hash);

struct shipment_block {
    struct journal_block block; /* its body is a view of the bytes */
    uint64_t hash;
};

/* Reads one from its bytes; `reader` is for shipment_next then. ERR_CORRUPT: it is none;
 * ERR_INVALID: it is of another format, `*format_out`. */
MUST_USE enum err shipment_read(struct bytes bytes, struct shipment_head *head_out,
                                struct reader *reader_out, uint32_t *format_out);
/* ERR_NOT_FOUND: there is no more; ERR_CORRUPT. */
MUST_USE enum err shipment_next(struct reader *reader, struct shipment_block *block_out);

#endif
