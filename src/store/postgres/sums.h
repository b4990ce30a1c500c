/* sums.h -- rows that say what stretches of a series add up to, for long sums.
 *
 * A node is the sum of the cells of one series whose buckets lie in one stretch of NODE_BUCKETS
 * times its duration. It is a row of `sums`, or it is not there; where it is not, the cells are
 * added up.
 *
 * (1) A node that is there is the sum of its cells, in every snapshot.
 * (2) A node is made while the lane is locked, and only if it is past: its stretch had ended by the
 *     time of the lane's newest commit. One with a cell whose expiry is exact is not made: such a
 *     cell is over without a commit that says so.
 * (3) A commit that changes a cell of a node which is past by the commit's own time drops that
 *     node. A lane's time never runs back but in a commit that sets it back, and that one drops all
 *     of the lane's nodes. So whatever changes a cell of a node that is there drops it.
 * (4) To count at what is now, which is most of all counting, costs nothing: (3) does nothing then.
 * (5) Only what long sums were asked for has nodes. */
#ifndef TALLY_STORE_POSTGRES_SUMS_H
#define TALLY_STORE_POSTGRES_SUMS_H

#include <pthread.h>

#include "store/postgres/values.h"
#include "store/view.h"
#include "store/writer.h"

#ifdef TALLY_SMALL_WORLD
#define NODE_BUCKETS 4
#else
#define NODE_BUCKETS 1024 /* a year of minutes is 513 nodes and at most 2046 cells at its ends */
#endif

struct lane_store;

/* Which long sums were asked for and are to be given nodes. Any thread asks, one gives. */
#define SUMS_ASKED 8u
struct sums_asked {
    pthread_mutex_t lock;
    struct sums_wanted {
        uint64_t series; /* 0: none */
        int64_t span;
        int64_t next; /* bucket where it goes on */
        int64_t to;
        bool over;
        int64_t over_ns; /* since then; it is not asked for again for a while */
    } wanted[SUMS_ASKED];
};

/* sums.c: the reads' `sum`, */
MUST_USE enum err postgres_sum(struct view *view, const struct cell_ref *ref, int64_t from,
                               int64_t to, uint32_t cells_max, struct range_sum *sum_out);
/* what keeps law (3): part of sending what a batch changed; */
void lane_drop_sums(struct lane_store *lane, const struct write_set *writes);
/* and a step of making nodes. True: there is more to do. */
bool lane_make_sums(struct lane_store *lane, struct sql_values *values, int64_t now_ns);

#endif
