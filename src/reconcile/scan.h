/* scan.h -- which entities are next: a walk through an entry's rows of the dirty queue.
 *
 *     scan_begin(&scan)
 *     scan_lane(&scan, lane)    for each lane: its rows, by its time
 *     scan_choose(&scan)        over all of them
 *
 * Nothing but whose turn it is is remembered between two scans: what is pending stands in the
 * store, so a server that was killed goes on where it was, and nothing can be stuck. */
#ifndef TALLY_RECONCILE_SCAN_H
#define TALLY_RECONCILE_SCAN_H

#include "commit/lane.h"
#include "core/mark.h"
#include "core/reconcile.h"
#include "store/store.h"

struct scan_row {
    struct bytes tenant;
    struct bytes entity_json;
    struct mark mark;
    const struct lane *lane; /* where it is */
};

struct scan {
    struct arena *arena; /* holds everything found */
    const struct reconcile *reconcile;
    struct bytes after_tenant; /* the tenant whose turn it was last; size 0: none */

    struct scan_share *shares; /* what each tenant has, lane by lane */
    unsigned shares_count;
    unsigned shares_capacity;

    /* out */
    struct scan_row *rows;       /* in the order they are to be taken up */
    unsigned count;              /* reconcile->scan_limit at most */
    uint64_t pending;            /* all there are, whether their time has come or not */
    int64_t oldest_ms;           /* since when the oldest of them is; INT64_MAX: none */
    uint64_t unreadable;         /* rows that do not decode, passed over */
    struct bytes unreadable_key; /* the first one's */
};

/* Keeps arena, reconcile and after_tenant, which are given, and empties the rest. */
void scan_begin(struct scan *scan);
/* ERR_STORAGE: what was found before stays found. */
MUST_USE enum err scan_lane(struct scan *scan, const struct lane *lane);
/* Orders the pending rows whose time has come: never counted comes first, then counted longest ago;
 * tenants have one each in turn. */
void scan_choose(struct scan *scan);

/* Fills `ops` with OP_MARKs of MARK_FORGET for rows of a lane that are no longer of use: counted so
 * long ago that nothing asks when, or of an entry or a tenant that is not in the lane's rules any
 * more. */
MUST_USE enum err scan_useless(const struct lane *lane, const struct rules *rules,
                               struct arena *arena, struct mark_change *changes,
                               struct bytes *tenants, unsigned most, unsigned *count_out);

#endif
