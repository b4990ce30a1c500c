/* registry.h -- which ids have been seen, and what they led to.
 *
 * It is built to remember ids for ever: recent ones in memory, older ones in sorted files (runs.h)
 * or, if they carry an outcome, in the state. Before these stands a chain of blocked Bloom filters
 * (about 16 bits an id), so that an id never seen costs a few cache misses and no lookup.
 * Fingerprints are keyed 128-bit hashes; nobody outside can make two meet.
 *
 * The commit thread finds and stages; the sync thread publishes or drops; the tend thread writes
 * back.
 * A checkpoint of everything up to the durable sequence S:
 *
 *     registry_write_back(registry, true, &more)
 *     state_flush(state)
 *     registry_save_filters(registry, S)
 *     state_write of "applied = S", and state_flush again
 *
 * In this order the saved filters are never behind `applied`, and no restart, not even after a
 * kill, has to read the ids. In another order it is as right, but may have to.
 *
 * (1) Every record is found from `stage` on, until it is dropped or replaced.
 * (2) Only published records reach the state or a filter file (write ahead).
 * (3) A record leaves memory only once the state holds it durably and the filters know it.
 * (4) A filter file cut short, stale or missing costs time at the start, never a wrong "not seen".
 */
#ifndef TALLY_STORE_EMBEDDED_IDS_REGISTRY_H
#define TALLY_STORE_EMBEDDED_IDS_REGISTRY_H

#include "base/arena.h"
#include "base/hash.h"
#include "store/embedded/io.h"
#include "store/embedded/state/state.h"
#include "store/store.h"

struct registry;

struct registry_config {
    const char *dir; /* for the filters and the runs of ids */
    struct io *io;
    struct state *state;
    uint64_t applied;  /* the state holds every record up to this sequence */
    size_t seal_count; /* recent records sealed into one ingested file; at least 1 */
};

/* Reads the filters or, if these will not do, the ids. ERR_STORAGE: neither could be read, or bad
 * filter files could not be removed and might be mixed up with new ones later; state_error may say
 * more. */
MUST_USE enum err registry_open(struct registry **registry_out,
                                const struct registry_config *config);
void registry_free(struct registry *registry);

/* ERR_OK and the record (outcome copied into `arena`), ERR_NOT_FOUND, or ERR_STORAGE. Sees staged
 * records. Reads the disk only for an id that was most likely seen before. */
MUST_USE enum err registry_find(struct registry *registry, struct fingerprint print,
                                struct arena *arena, struct key_record *record_out);

/* The same for all of a batch's keys at once, which is several times as fast: `value` is set, to
 * zeros where there is none. */
MUST_USE enum err registry_find_many(struct registry *registry, struct read_key *keys, size_t count,
                                     struct arena *arena);

/* Takes copies of those that are `changed`. A record staged over an existing one (an expired key)
 * replaces it. */
void registry_stage(struct registry *registry, const struct read_key *keys, size_t count);

/* Everything staged with a sequence <= `durable`, the last one of a batch, is durable now. Batches
 * are staged in their order; within one batch any order will do. */
void registry_publish(struct registry *registry, uint64_t durable);
/* Forgets everything staged and not published; what it replaced is back. */
void registry_drop_staged(struct registry *registry);
/* Takes in a record read from the journal at start: it is known, and to be written back. */
void registry_replay(struct registry *registry, struct fingerprint print,
                     const struct key_record *record);

/* Writes published records back into the state: with `all` everything published before the call,
 * else one sealed set; `*more_out` if another one waits. The caller flushes the state afterwards.
 * ERR_STORAGE: nothing is lost; what a state_reopen forgets is written again. */
MUST_USE enum err registry_write_back(struct registry *registry, bool all, bool *more_out);

/* Saves the filters, after the state was flushed with everything up to `applied`. ERR_STORAGE: they
 * were not saved, or something up to `applied` turns out not to be flushed; the checkpoint is to
 * begin again. */
MUST_USE enum err registry_save_filters(struct registry *registry, uint64_t applied);

/* Visits the newest record of every id that was published before the last registry_write_back of
 * all, in no order, until `visit` returns false. The other calls of the tender wait meanwhile.
 * ERR_STORAGE; ERR_CORRUPT: a record does not decode. */
typedef bool registry_visit_fn(void *context, struct fingerprint print,
                               const struct key_record *record);
MUST_USE enum err registry_walk(struct registry *registry, registry_visit_fn *visit, void *context);

struct registry_stats {
    uint64_t ids;    /* remembered; one seen again after it expired counts again */
    uint64_t recent; /* those of them in memory */
    uint64_t filter_bytes;
    uint64_t lookups;       /* those that got past the filters */
    uint64_t lookups_empty; /* those that then found nothing: the filters' mistakes */
    uint64_t merges_failed; /* merges of files of ids */
};
void registry_stats(struct registry *registry, struct registry_stats *stats_out);

#endif
