/* scan.h -- which entities are next: a walk through an entry's rows of the dirty queue.
 *
 *     scan_begin(&scan)
 *     scan_lane(&scan, lane)    for each lane: its rows, by its time
 *     scan_choose(&scan)        over all of them
 *
 * Nothing is remembered between two scans but whose turn it is: what is pending stands in the
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
    struct arena *arena; /* of everything found */
    const struct reconcile *reconcile;
    struct bytes after_tenant; /* whose turn it was last; size 0: nobody's */

    struct share *shares; /* what each tenant has, lane by lane */
    unsigned shares_count;
    unsigned shares_capacity;

    /* out */
    struct scan_row *rows;       /* in the order they are to be taken up */
    unsigned count;              /* reconcile->scan_limit at most */
    uint64_t pending;            /* all there are, whether their time has come or not */
    int64_t oldest_ms;           /* since when the oldest of them is; INT64_MAX: none */
    uint64_t unreadable;         /* rows that do not decode, passed over */
    struct bytes unreadable_key; /* of the first of them */
};

/* Given arena, reconcile and after_tenant, empties the rest. */
void scan_begin(struct scan *scan);
/* ERR_STORAGE: what was found before stays found. */
MUST_USE enum err scan_lane(struct scan *scan, const struct lane *lane);
/* Pending rows whose time has come: never counted before, then counted longest ago; of several
 * tenants one each in turn. */
void scan_choose(struct scan *scan);

/* Rows of a lane that are no longer of use, up to `most` of them, as ops of MARK_FORGET: counted so
 * long ago that nothing asks when, or of an entry or a tenant that is not in its rules any more. */
MUST_USE enum err scan_useless(const struct lane *lane, const struct rules *rules,
                               struct arena *arena, struct mark_change *changes,
                               struct bytes *tenants, unsigned most, unsigned *count_out);

#endif
