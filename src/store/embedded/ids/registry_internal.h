/* registry_internal.h -- what the registry keeps, for registry.c and what checks it.
 *
 * (1) There is an active set, and it is not full. Sealed sets are linked both ways, in the order in
 *     which they were sealed, and none of them is empty; spare ones are.
 * (2) What is staged is not durable yet: it comes after all that was published.
 * (3) Sets are written in their order, so those that the state has lie before those it has not; and
 *     their runs have rising numbers.
 * (4) A filter names a set only once its run is durable, so no filter names one that is not there.
 *     All filters but the last are full, and the chain counts what is in them.
 *
 * Publishing asserts (2), and in slow builds (1), with registry_check. The thread that writes back
 * asserts all but (2), with registry_check_sets, at both ends of its calls. */
#ifndef TALLY_STORE_EMBEDDED_IDS_REGISTRY_INTERNAL_H
#define TALLY_STORE_EMBEDDED_IDS_REGISTRY_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/embedded/ids/filter.h"
#include "store/embedded/ids/registry.h"
#include "store/embedded/ids/registry_set.h"

#define REGISTRY_SPARES_MAX 2u

struct registry {
    struct state *state;
    size_t seal_count;
    char *dir;
    struct filter_files files;
    pthread_mutex_t write_lock;
    struct filter_chain chain; /* changed under write_lock, asked at any time */
    struct id_runs *runs;      /* plain event ids; all others are in the state */

    pthread_mutex_t lock;
    struct recent staged;
    struct set *active;
    struct set *newest; /* sealed sets, by way of `older` */
    struct set *oldest;
    struct set *spare; /* emptied ones, by way of `older` */
    unsigned spare_count;

    _Atomic uint64_t lookups;
    _Atomic uint64_t lookups_empty;
};

/* `lock` is held. In slow builds set by set. */
void registry_check(const struct registry *registry);
/* `write_lock` is held, and `lock` is not. */
void registry_check_sets(struct registry *registry);

#endif
