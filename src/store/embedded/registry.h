/* registry.h -- which ids have been seen, and what they led to.
 *
 * Built to remember ids for ever: recent ones in memory, older ones as sorted files in the state,
 * and before both a chain of blocked Bloom filters (about 16 bits an id), so that an id never seen
 * costs one cache miss and no lookup. Fingerprints are keyed 128-bit hashes; nobody outside can
 * make two meet.
 *
 * The commit thread finds and stages; the sync thread publishes or drops; the tender writes back.
 * `registry_find` sees staged records. Records are written back only once published (write ahead).
 *
 * The filters are saved beside the state. A saved filter says up to which sequence it is complete;
 * `registry_open` adds what the state and the journal hold beyond it before anything is served, so
 * a filter cut short or missing costs time, never a wrong "not seen". */
#ifndef TALLY_STORE_EMBEDDED_REGISTRY_H
#define TALLY_STORE_EMBEDDED_REGISTRY_H

#include "base/arena.h"
#include "base/hash.h"
#include "store/embedded/io.h"
#include "store/embedded/state.h"
#include "store/store.h"

struct registry;

struct registry_config {
    const char *dir; /* for the filter files */
    struct io *io;
    struct state *state;
    uint64_t applied;  /* the state holds every record up to this sequence */
    size_t seal_count; /* recent records sealed into one ingested file */
};

MUST_USE enum err registry_open(struct registry **registry_out,
                                const struct registry_config *config);
void registry_free(struct registry *registry);

/* ERR_OK and the record (outcome copied into `arena`), ERR_NOT_FOUND, or ERR_STORAGE. */
MUST_USE enum err registry_find(struct registry *registry, struct fingerprint print,
                                struct arena *arena, struct key_record *record_out);

/* Takes a copy. Visible to find at once, written back only after it is published. A record staged
 * over an existing one (an expired key) replaces it. */
void registry_stage(struct registry *registry, struct fingerprint print,
                    const struct key_record *record);

/* Everything staged with a sequence <= `durable` is durable now. */
void registry_publish(struct registry *registry, uint64_t durable);
/* Forgets everything staged and not published; what it replaced is back. */
void registry_drop_staged(struct registry *registry);
/* A record read back from the journal at start: known and to be written back. */
void registry_replay(struct registry *registry, struct fingerprint print,
                     const struct key_record *record);

/* Writes published records back into the state: all of them with `all`, else only sealed sets, a
 * bounded step at a time. True if there is more. The caller flushes the state afterwards. */
MUST_USE enum err registry_write_back(struct registry *registry, bool all, bool *more_out);

/* After the state was flushed with everything up to `applied`: saves the filters. */
MUST_USE enum err registry_save_filters(struct registry *registry, uint64_t applied);

struct registry_stats {
    uint64_t ids;
    uint64_t recent;
    uint64_t filter_bytes;
    uint64_t lookups;       /* that got past the filters */
    uint64_t lookups_empty; /* and found nothing: the filters' mistakes */
};
void registry_stats(struct registry *registry, struct registry_stats *stats_out);

#endif
