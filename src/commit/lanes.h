/* lanes.h -- which lane a tenant belongs to.
 *
 * Nothing but this function may depend on how many lanes there are: what concerns one tenant asks
 * for its lane, what concerns all tenants goes through all lanes in order. */
#ifndef TALLY_COMMIT_LANES_H
#define TALLY_COMMIT_LANES_H

#include "base/hash.h"
#include "commit/lane.h"

#define LANES_MAX 1024u

struct lanes {
    unsigned count; /* at least 1, and the same for ever: it is stored */
    struct lane *items;
};

/* The lane's number is part of the contract (SPEC 11): other programs may work it out. */
static inline unsigned lanes_index(unsigned count, struct bytes tenant)
{
    return count == 1 ? 0 : (unsigned)(hash_checksum(tenant) % count);
}

static inline struct lane *lanes_of(const struct lanes *lanes, struct bytes tenant)
{
    return &lanes->items[lanes_index(lanes->count, tenant)];
}

#endif
