/* counters.h -- counters in memory, by fingerprint: which series a name and a duration lead to. */
#ifndef TALLY_STORE_EMBEDDED_COUNTERS_H
#define TALLY_STORE_EMBEDDED_COUNTERS_H

#include "core/sets.h"
#include "store/embedded/cache.h"

struct counters;

struct counters *counters_new(size_t bytes_max);
void counters_free(struct counters *counters);
struct cache *counters_cache(struct counters *counters);

/* These do what those of cells.h do. A read's `value` is a copy in `arena`. */
void counters_load(struct counters *counters, struct read_counter *reads, uint32_t count,
                   struct arena *arena);
void counters_insert(struct counters *counters, struct read_counter *read,
                     const struct counter *from_disk, struct arena *arena);
void counters_stage(struct counters *counters, struct read_counter *read);
void counters_publish(struct counters *counters, struct read_counter *reads, uint32_t count,
                      struct arena *arena);
void counters_drop(struct counters *counters, struct read_counter *read);
void counters_replay(struct counters *counters, struct fingerprint print, struct bytes key,
                     const struct counter *counter);

/* Readers. `*series_out` has id 0 if the counter has no such granularity. False: not in memory. */
bool counters_get(struct counters *counters, struct fingerprint print, int32_t duration,
                  struct series *series_out, uint64_t *stamp_out);
/* All of a counter's granularities, copied into `arena`; NULL: there is none. */
bool counters_copy(struct counters *counters, struct fingerprint print, struct arena *arena,
                   const struct counter **counter_out);
void counters_offer(struct counters *counters, struct fingerprint print, struct bytes key,
                    const struct counter *counter, uint64_t stamp);

/* Counters newer than the disk, as `wanted` says (cache_newer), in key order: all those up to
 * `*upto_out`, none after it. Keys and lists are copies in `arena`; a NULL list is a deleted
 * counter. */
struct keyed_counter {
    struct bytes key;
    const struct counter *counter;
};
size_t counters_newer(struct counters *counters, const struct cache_wanted *wanted,
                      struct arena *arena, struct keyed_counter **counters_out,
                      struct bytes *upto_out);

/* For write-back, inside cache_copy_fn: views that are good while the lock is held. */
struct keyed_counter counters_value(const struct cache_entry *entry);

#endif
