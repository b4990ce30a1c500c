/* embedded.h -- the store in one directory: our own journal, RocksDB for the state. */
#ifndef TALLY_STORE_EMBEDDED_EMBEDDED_H
#define TALLY_STORE_EMBEDDED_EMBEDDED_H

#include "base/clock.h"
#include "store/embedded/io.h"
#include "store/store.h"

/* A store's snapshots belong into these directories of its own, those of errands and those for
 * followers: what a crash leaves there is removed. */
#define EMBEDDED_SNAPSHOT "snapshot"
#define EMBEDDED_LENT "lent"

struct embedded_config {
    const char *dir;
    struct io *io; /* the journal's; NULL: the kernel's */
    const struct clock *clock;
    size_t cache_bytes; /* cells and counters in memory; a quarter goes to RocksDB's cache */
    uint64_t segment_bytes;
    uint64_t keep_bytes; /* the journal's below `applied` */
    int64_t keep_ms;
    unsigned spare_segments;
    int64_t checkpoint_ms;     /* at least this often while something is dirty */
    uint64_t checkpoint_bytes; /* or after this much journal: bounds the replay of a restart */
    bool ids_shared;           /* event ids are unique over all tenants; fixed at first start */
    unsigned lanes;            /* the installation's; 0 is 1. If more, the directory was made
                                * beforehand */
    unsigned lane;             /* which of them this is (lanes_dir.h) */
    uint64_t installation;     /* the one it must be; 0: any */
    int64_t archive_ms;        /* events are archived so long after they came at the latest */
    int64_t key_keep_ms;       /* idempotency keys older than this are dropped for good */
};

/* Opens or makes the store and recovers it. On failure `why_out` has one sentence for a person.
 * Recovery is done when it returns; `stats` may be asked at once. */
MUST_USE enum err embedded_open(struct store **store_out, const struct embedded_config *config,
                                struct reason *why_out);

/* For tests. Does what a kill does: frees the store as it stands, writes nothing back, tells no
 * `durable`. What was submitted must still be where it was. */
void embedded_crash(struct store *store);

#endif
