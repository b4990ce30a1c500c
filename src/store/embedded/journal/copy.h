/* copy.h -- a stretch of a journal as a journal of its own, in another directory.
 *
 *     journal_copy_begin(&copy, dir, installation, epoch)
 *     journal_copy_add(&copy, &block)      for each that journal_scan visits
 *     journal_copy_end(&copy, after)       durable when it returns ERR_OK
 *
 * Blocks keep their sequences, times and bodies; the chain of checksums is made anew, because the
 * copy begins in the middle of one. journal_open takes the directory for what it is. Nothing of a
 * copy that was not ended is to be used. */
#ifndef TALLY_STORE_EMBEDDED_JOURNAL_COPY_H
#define TALLY_STORE_EMBEDDED_JOURNAL_COPY_H

#include "store/embedded/journal/segment.h"
#include "store/store.h"

struct journal_copy {
    const char *dir; /* exists and is empty */
    struct segment_header header;
    struct chain_end end;
    uint64_t offset;
    int fd; /* the segment's under way; -1: none */
    int error;
    struct buf block;
};

/* `epoch` is above those of the segments that the blocks come from. */
void journal_copy_begin(struct journal_copy *copy, const char *dir, uint64_t installation,
                        uint64_t epoch);
/* ERR_STORAGE: see `error`; the copy is to be ended all the same. */
MUST_USE enum err journal_copy_add(struct journal_copy *copy, const struct journal_block *block);
/* `after`: what the state holds already; a copy without blocks names it as its predecessor. */
MUST_USE enum err journal_copy_end(struct journal_copy *copy, const struct store_position *after);

#endif
