/* cells.h -- cells in memory, by series and bucket. */
#ifndef TALLY_STORE_EMBEDDED_CELLS_H
#define TALLY_STORE_EMBEDDED_CELLS_H

#include "core/sets.h"
#include "store/embedded/cache.h"

struct cells; /* a struct cache underneath */

struct cells *cells_new(size_t bytes_max);
void cells_free(struct cells *cells);
struct cache *cells_cache(struct cells *cells);

/* Commit thread. Load fills reads that have a series with the newest value, staged or not, and pins
 * their entries; those not in memory have no handle then. Insert does the same with what the disk
 * had (not existing: known to be absent). Stage makes a changed read the newest value, making an
 * entry for a series that is new. */
void cells_load(struct cells *cells, struct read_cell *reads, uint32_t count, struct arena *arena);
void cells_insert(struct cells *cells, struct read_cell *read, const struct cell *from_disk);
void cells_stage(struct cells *cells, struct read_cell *read);

/* The end of a read's life: if published it is visible, dirty and unpinned; if dropped it never
 * was. */
void cells_publish(struct cells *cells, struct read_cell *reads, uint32_t count,
                   struct arena *arena);
void cells_drop(struct cells *cells, struct read_cell *read);

/* Takes in what recovery reads from the journal. */
void cells_replay(struct cells *cells, uint64_t series, int64_t bucket, const struct cell *cell);

/* Readers. False: not in memory, and `*stamp_out` is for cells_offer, which keeps what the disk
 * had for the next reader unless something moved meanwhile. */
bool cells_get(struct cells *cells, uint64_t series, int64_t bucket, struct cell *cell_out,
               uint64_t *stamp_out);
void cells_offer(struct cells *cells, uint64_t series, int64_t bucket, const struct cell *cell,
                 uint64_t stamp);

/* The cells of a series in [from, to] that are newer than the disk, sorted by bucket, in memory
 * that the caller frees. */
struct bucket_cell {
    int64_t bucket;
    struct cell cell;
};
size_t cells_newer(struct cells *cells, uint64_t series, int64_t from, int64_t to,
                   struct bucket_cell **cells_out);

/* For write-back, inside cache_copy_fn: the durable value of an entry. */
void cells_value(const struct cache_entry *entry, uint64_t *series_out, int64_t *bucket_out,
                 struct cell *cell_out);

#endif
