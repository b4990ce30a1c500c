/* state.h -- RocksDB as tally uses it: nine families of keys, no log of its own, typed errors.
 *
 * The journal is the log, so nothing here is durable before `state_flush`. After an I/O error
 * RocksDB refuses to write and its C API has no resume: `state_reopen` closes and opens it anew,
 * while readers wait. What was written and not flushed before is lost then: its writer keeps it
 * until `state_fate` says it is flushed. Any thread may call anything but open, reopen and close,
 * which are the store's own. */
#ifndef TALLY_STORE_EMBEDDED_STATE_STATE_H
#define TALLY_STORE_EMBEDDED_STATE_STATE_H

#include "base/reason.h"

enum state_family {
    STATE_META,     /* "applied" and everything else that there is one of */
    STATE_COUNTERS, /* counter key -> its series */
    STATE_CELLS,    /* series id, bucket -> cell */
    STATE_SERIES,   /* series id -> duration, counter key */
    STATE_EXPIRY,   /* expires, series id, bucket -> nothing */
    STATE_TENANTS,  /* tenant -> number of cells */
    STATE_IDS,      /* fingerprint -> key record */
    STATE_OBJECTS,  /* object key -> its value */
    STATE_SUMS,     /* series id, level, index -> sum of cells; marks (sums.h) */
    STATE_FAMILY_COUNT
};

struct state;

struct state_config {
    const char *dir;
    size_t cache_bytes;                           /* RocksDB's block cache */
    int64_t (*ids_expired_before)(void *context); /* idempotency keys first seen before this are
                           dropped when compaction meets them; may be NULL */
    void *context;
    bool read_only;   /* nothing is written until state_reopen: for a disk without any room */
    unsigned sharers; /* states of this process that share its file descriptors; 0 is 1 */
};

MUST_USE enum err state_open(struct state **state_out, const struct state_config *config,
                             struct reason *why_out);
void state_close(struct state *state); /* does not flush */
/* Opens the state for writing, whatever it was. ERR_STORAGE: it is open for reading only now or, if
 * that cannot be either, every call answers ERR_STORAGE; to be tried again later. */
MUST_USE enum err state_reopen(struct state *state);

/* Why the last call of this thread that failed did so: one line for the log. */
const char *state_error(struct state *state);
void state_error_forget(struct state *state); /* it was logged; empty until another call fails */

/* `value_out` is reset and filled. ERR_NOT_FOUND, or ERR_STORAGE. */
MUST_USE enum err state_get(struct state *state, enum state_family family, struct bytes key,
                            struct buf *value_out);

/* Reads many at once; `found` is called with the index of each key that is there. */
typedef void state_found_fn(void *context, size_t index, struct bytes value);
MUST_USE enum err state_get_many(struct state *state, enum state_family family,
                                 const struct bytes *keys, size_t count, state_found_fn *found,
                                 void *context);

/* Visits one snapshot of the keys from <= key < to (`to` of size 0: to the end), in order. `visit`,
 * like `found`, makes no call of a state that may be reopened meanwhile: it would wait for the
 * reopening, which waits for it. */
typedef bool state_visit_fn(void *context, struct bytes key, struct bytes value);
MUST_USE enum err state_scan(struct state *state, enum state_family family, struct bytes from,
                             struct bytes to, state_visit_fn *visit, void *context);

/* A view is for several reads of one instant. state_reopen waits until it is freed, so it lives no
 * longer than a scan does. */
struct state_view;
MUST_USE enum err state_view_new(struct state_view **view_out, struct state *state);
void state_view_free(struct state_view *view); /* may be NULL */
MUST_USE enum err state_view_get(struct state_view *view, enum state_family family,
                                 struct bytes key, struct buf *value_out);
MUST_USE enum err state_view_get_many(struct state_view *view, enum state_family family,
                                      const struct bytes *keys, size_t count, state_found_fn *found,
                                      void *context);
MUST_USE enum err state_view_scan(struct state_view *view, enum state_family family,
                                  struct bytes from, struct bytes to, state_visit_fn *visit,
                                  void *context);

/* Batches are for the thread that calls state_reopen only. */
struct state_batch;
struct state_batch *state_batch_new(struct state *state);
void state_batch_put(struct state_batch *batch, enum state_family family, struct bytes key,
                     struct bytes value);
void state_batch_delete(struct state_batch *batch, enum state_family family, struct bytes key);
/* Deletes every key from <= key < to. A tombstone for a whole range slows later scans a little, so
 * this is for ranges of many keys. */
void state_batch_delete_range(struct state_batch *batch, enum state_family family,
                              struct bytes from, struct bytes to);
void state_batch_clear(struct state_batch *batch); /* forgets what was added */
void state_batch_free(struct state_batch *batch);
/* Writes the batch, all of it or nothing (RocksDB's log is off), and empties it for the next use,
 * after an error too. A crash keeps all of it or nothing. */
MUST_USE enum err state_write(struct state *state, struct state_batch *batch);

/* What has become of a written batch. */
struct state_mark {
    uint64_t opens;
    uint64_t flushes;
};
enum state_fate {
    STATE_PENDING, /* in memory: found, but not yet durable */
    STATE_FLUSHED,
    STATE_LOST, /* the state was reopened since; it may be gone and has to be written again */
};
struct state_mark state_batch_mark(const struct state_batch *batch); /* for its last state_write */
enum state_fate state_fate(struct state *state, struct state_mark mark);

/* Moves sorted keys, each once, in as one file, which does not pass through the memtable: they are
 * visible and durable when it returns, so this is only for what the journal already has. `next`
 * gives them one after the other until it returns false. */
typedef bool state_next_fn(void *context, struct bytes *key_out, struct bytes *value_out);
MUST_USE enum err state_ingest(struct state *state, enum state_family family, state_next_fn *next,
                               void *context);

/* Makes everything written so far durable, in all families. */
MUST_USE enum err state_flush(struct state *state);

/* Reads every block of a table file again. False: `why_out` says what is wrong with it. */
MUST_USE bool state_table_check(const char *path, struct reason *why_out);
/* Whether the state in `dir`, which no process has open, does without the table: one that was being
 * written when the process was killed, and goes when the state is opened again. */
MUST_USE bool state_table_is_litter(const char *dir, const char *name);

/* Makes hard links of everything flushed, as a state of its own that state_open takes. `dir` must
 * not be there yet. */
MUST_USE enum err state_checkpoint(struct state *state, const char *dir);

uint64_t state_disk_bytes(struct state *state);
/* About how many keys there are. */
uint64_t state_key_count(struct state *state, enum state_family family);
/* Differs between any two states ever made: files beside the state name theirs by it. */
uint64_t state_identity(struct state *state);
uint64_t state_identity_of(const char *dir); /* for a state that is not open; 0: there is none */

#endif
