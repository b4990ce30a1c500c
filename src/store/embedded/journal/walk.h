/* walk.h -- reading a journal's files where no journal is open: every block, in order.
 *
 * The same rules as recovery's (recover.c), without changing anything: each segment holds
 * blocks up to the one that the next names, and only in the last may they end sooner. */
#ifndef TALLY_STORE_EMBEDDED_JOURNAL_WALK_H
#define TALLY_STORE_EMBEDDED_JOURNAL_WALK_H

#include "store/embedded/journal/journal.h"

struct journal_extent {
    uint64_t before;   /* the sequence before its first block */
    uint64_t last;     /* its last block's */
    uint64_t segments; /* files */
    uint64_t blocks;
    uint64_t epoch; /* the highest */
    int64_t time_ms;
};

/* Visits the blocks that hold anything after `after`; `visit` may be NULL. ERR_CORRUPT with the
 * file and the place in `why_out`, ERR_STORAGE, or what `visit` returned. A directory that is empty
 * or not there is a journal without blocks. */
MUST_USE enum err journal_walk(const char *dir, uint64_t installation, uint64_t after,
                               journal_replay_fn *visit, void *context,
                               struct journal_extent *extent_out, struct reason *why_out);

#endif
