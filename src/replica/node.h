/* node.h -- what a data directory's server is: a primary, or a follower of which primary (SPEC 13).
 *
 *   DIR/NODE        tally-node 1 / role follower / primary http://.. / followed 1 / end <checksum>
 *   DIR/incoming/   a snapshot of the primary that is being copied; rubbish after a crash
 *   DIR/arrived/    one that is whole, and takes the store's place at the next opening
 *
 * A directory without a NODE file is a primary's that nobody ever followed. What the file says is
 * on disk before anything goes by it. Functions that fail say why in one sentence. */
#ifndef TALLY_REPLICA_NODE_H
#define TALLY_REPLICA_NODE_H

#include "base/reason.h"
#include "base/tree.h"

#define NODE_URL_SIZE 2048
#define NODE_INCOMING "incoming"
#define NODE_ARRIVED "arrived"

struct membership {
    bool follows;
    char primary[NODE_URL_SIZE]; /* whom; "" for a primary */
    bool followed;               /* somebody has followed it: journal is kept from the start on */
};

/* A directory that is not there, or has no such file, gives a primary. ERR_CORRUPT, ERR_STORAGE. */
MUST_USE enum err node_read(struct membership *node_out, const char *dir, struct reason *why);
/* Makes the directory where there is none. ERR_STORAGE. */
MUST_USE enum err node_write(const struct membership *node, const char *dir, struct reason *why);

/* True: there is a store in the directory, or what is left of one. */
bool node_has_store(const char *dir);

/* Before the store is opened: puts a snapshot that has arrived in its place, and clears away what
 * was left of one that has not. A crash on the way is made good at the next call. */
MUST_USE enum err node_settle(const char *dir, struct reason *why);

#endif
