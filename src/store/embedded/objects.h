/* objects.h -- small named values in memory, by fingerprint: entity states, usage rows,
 * definitions, jobs (core/object.h). */
#ifndef TALLY_STORE_EMBEDDED_OBJECTS_H
#define TALLY_STORE_EMBEDDED_OBJECTS_H

#include "core/sets.h"
#include "store/embedded/cache.h"

struct objects;

struct objects *objects_new(size_t bytes_max);
void objects_free(struct objects *objects);
struct cache *objects_cache(struct objects *objects);

/* These do what those of cells.h do. A read's `value` is a copy in `arena`; size 0 is an absent
 * object. */
bool objects_load(struct objects *objects, struct read_object *read, struct arena *arena);
void objects_insert(struct objects *objects, struct read_object *read, struct bytes from_disk,
                    struct arena *arena);
void objects_stage(struct objects *objects, struct read_object *read);
void objects_publish(struct objects *objects, struct read_object *read);
void objects_drop(struct objects *objects, struct read_object *read);
void objects_replay(struct objects *objects, struct fingerprint print, struct bytes key,
                    struct bytes value);

/* Readers. The value is added to `value_out`. False: not in memory. */
bool objects_get(struct objects *objects, struct fingerprint print, struct buf *value_out,
                 uint64_t *stamp_out);
void objects_offer(struct objects *objects, struct fingerprint print, struct bytes key,
                   struct bytes value, uint64_t stamp);

/* Objects newer than the disk, chosen as counters_newer chooses, as copies in `arena`. */
struct keyed_object {
    struct bytes key;
    struct bytes value;
};
size_t objects_newer(struct objects *objects, const struct cache_wanted *wanted,
                     struct arena *arena, struct keyed_object **objects_out,
                     struct bytes *upto_out);

/* For write-back, inside cache_copy_fn: views that are good while the lock is held. */
struct keyed_object objects_value(const struct cache_entry *entry);

#endif
