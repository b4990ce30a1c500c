/* copy.h -- a follower takes a snapshot of its primary (lend.h) into DIR/incoming.
 *
 * Once all of it is there and durable it is called DIR/arrived, and takes the store's place at the
 * next opening (node.h). So a crash at any moment leaves the old store, or the whole new one. */
#ifndef TALLY_REPLICA_COPY_H
#define TALLY_REPLICA_COPY_H

#include "base/tree.h"
#include "replica/fetch.h"

/* ERR_BUSY: told to stop; ERR_CONFLICT: the primary refuses, for good; ERR_STORAGE: it cannot be
 * reached, gives a snapshot to another follower now, or one of the disks failed: to be tried again.
 * `why` says which. */
MUST_USE enum err copy_take(struct fetch *fetch, const char *dir, const char *name,
                            struct effort *effort, struct reason *why);

#endif
