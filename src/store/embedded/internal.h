/* internal.h -- the embedded store's insides, shared by its own files only.
 *
 *   turn.c        commit thread: load, stage, encode
 *   publish.c     sync thread: append, sync, show to readers; or fail and wind back
 *   reads.c       readers: memory first, then a snapshot of the state
 *   sums.c        tend thread: higher-level sums beside the cells; sums_read.c reads them
 *   checkpoint.c  tend thread: write back, flush, move `applied`, trim; recovery from errors
 *   history.c     readers: retained events; tend thread: journal to archive
 *   snapshot.c    backups and exports: the store as of one moment, in another directory
 *   replicate.c   blocks for followers; a follower's thread: blocks of the primary
 *   embedded.c    open, recover, close
 *
 * Locks, outermost first: snapshotting (a whole snapshot), tending (a step of caretaking, or links
 * being made), turn (one turn, one installation, or the winding back after a failure), visible (a
 * batch is shown whole), pipeline (what is submitted, and the flags), then a cache shard or the
 * registry. `retained` (the journal's and archive's files stay) is taken by readers of history, and
 * by who ships it, alone.
 *
 * What the parts keep together, each in its own place of the order of sequences:
 *
 *     kept from <= archived, applied, pinned      the journal has what these still need (law 5)
 *     applied, archived <= durable                the state has nothing that is not durable (law 4)
 *     durable <= the journal's durable            readers see nothing that it may lose (law 1)
 *     durable <= staged (writer.position)         batches submitted lie between, without a gap
 *
 * (1) These hold at every moment. Series are given out in the same order.
 * (2) While the store is down nothing is staged or submitted: the writer stands where readers do.
 * (3) While blocks are withheld nothing is staged or submitted either: they lie in the journal,
 *     between `durable` and where the writer stands.
 * (4) A batch pins what it loaded until it is published or dropped. Where none is under way, after
 *     a failure and at the end, nothing is pinned and nothing staged.
 *
 * check.c asserts them: embedded_check_turn at the beginning of a turn, and in slow builds at its
 * end, embedded_check_tend at both ends of a step of caretaking, embedded_check_idle where no batch
 * is under way. */
#ifndef TALLY_STORE_EMBEDDED_INTERNAL_H
#define TALLY_STORE_EMBEDDED_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "store/embedded/archive/archive.h"
#include "store/embedded/cells.h"
#include "store/embedded/counters.h"
#include "store/embedded/embedded.h"
#include "store/embedded/identity.h"
#include "store/embedded/journal/journal.h"
#include "store/embedded/objects.h"
#include "store/embedded/state/records.h"
#include "store/embedded/ids/registry.h"
#include "store/embedded/replicate.h"
#include "store/embedded/reserve.h"
#include "store/embedded/state/state.h"
#include "store/embedded/sums.h"
#include "store/embedded/tenants.h"

/* A submitted batch's block, kept for reuse. */
struct pending {
    struct buf body;
    uint64_t hash; /* the running one after it */
    struct pending *next;
};

struct embedded {
    struct store store;
    struct embedded_config config;
    struct store_identity identity;
    struct state *state;
    struct registry *registry;
    struct journal *journal;
    struct cells *cells;
    struct counters *counters;
    struct tenants *tenants;
    struct objects *objects;
    struct sums *sums;
    struct archive *archive;
    pthread_rwlock_t living; /* read while a series is walked; written to remove dead ones' cells */
    pthread_rwlock_t retained; /* read while a reader walks the journal; written to trim it */

    pthread_mutex_t snapshotting; /* one snapshot at a time; taken before `tending` */
    pthread_mutex_t tending; /* held by a step of caretaking, and while a snapshot links files */
    atomic_uint_fast64_t pinned; /* journal after this sequence is being copied; UINT64_MAX: none */

    atomic_uint_fast64_t followed; /* so is it for followers, up to so many bytes of all of it */
    atomic_uint_fast64_t followed_bytes;
    bool following;            /* the turns are another store's (replicate.h) */
    embedded_durable_fn *told; /* NULL: nobody is */
    void *told_context;
    embedded_reached_fn *reached; /* NULL: what is durable is shown */
    embedded_released_fn *released;
    void *reached_context;

    /* What the tend thread is at, in a word or two; for the log line of a commit that waited. */
    _Atomic(const char *) beside;
    int64_t slow_said_ns; /* when such a line was last written; whoever syncs is alone */

    pthread_mutex_t turn;
    pthread_rwlock_t visible; /* written while a batch is being shown, read for embedded_instant */
    atomic_uint_fast64_t shown; /* grows before and after each batch; odd: one is being shown */

    pthread_mutex_t pipeline;
    struct write_set *submitted_first;
    struct write_set *submitted_last;
    struct pending *free_pendings;
    bool withheld;                 /* blocks up to the writer's position wait to be shown */
    bool down;                     /* the journal failed; load refuses until it is restarted */
    struct store_position durable; /* published: readers see it, a crash keeps it */
    uint64_t *dead;                /* series whose cells are garbage, since the last checkpoint */
    size_t dead_count;
    size_t dead_capacity;

    /* The tend thread's own. */
    struct reserve reserve;
    struct state_batch *writes;    /* made anew with the state */
    bool state_failed;             /* has to be reopened before the next write */
    int64_t archived_ns;           /* when the archive last caught up */
    uint64_t archived_bytes;       /* journal bytes appended by then */
    bool no_room;                  /* write-back waits for room; said once */
    uint64_t journal_files_failed; /* as far as it was said */
    int64_t checkpoint_ns;
    uint64_t applied_bytes; /* journal bytes appended when the last checkpoint began */
    struct store_position applied;

    atomic_int_fast64_t sure_ms; /* the last durable batch's; INT64_MIN: there was none yet */
    atomic_uint_fast64_t durable_sequence; /* copies for stats */
    atomic_uint_fast64_t applied_sequence;
    atomic_uint_fast64_t archived; /* the journal was looked through for events up to here */
    atomic_uint_fast64_t checkpoints;
    atomic_uint_fast64_t storage_errors;
};

/* The block of a submitted batch. */
static inline struct journal_block embedded_block(const struct write_set *writes,
                                                  const struct pending *pending)
{
    return (struct journal_block){.first_sequence = writes->first_sequence,
                                  .count = writes->count,
                                  .time_ms = writes->time_ms,
                                  .set_back = writes->set_back,
                                  .next_series = writes->next_series,
                                  .body = buf_bytes(&pending->body)};
}

static inline void embedded_beside(struct embedded *embedded, const char *what)
{
    atomic_store_explicit(&embedded->beside, what, memory_order_relaxed);
}

static inline struct embedded *embedded_of(struct store *store)
{
    return (struct embedded *)(void *)((char *)store - offsetof(struct embedded, store));
}

/* turn.c */
enum err embedded_begin(struct writer *writer);
enum err embedded_load(struct writer *writer, struct read_set *reads, struct arena *arena);
void embedded_submit(struct writer *writer, struct write_set *writes);
void embedded_abandon(struct writer *writer, struct read_set *reads);

/* reads.c. Logs and counts a read of the state, the ids or the history that failed, in a batch or
 * for a reader alike. Returns `e`, also where it is no failure: ERR_NOT_FOUND, ERR_BUSY. */
enum err embedded_read_ended(struct embedded *embedded, const char *what, enum err e);

/* publish.c */
uint32_t embedded_sync(struct writer *writer);
/* Gives up the pins and staged values of a batch that will not be published. */
void embedded_drop(struct embedded *embedded, struct read_set *reads);
void embedded_bury(struct embedded *embedded, const uint64_t *series, size_t count);

/* reads.c, too */
enum err embedded_get(struct view *view, const struct cell_ref *ref, int64_t bucket,
                      enum read_how how, struct cell *cell_out);
enum err embedded_range(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                        struct range_newer *newer, store_cell_fn *visit, void *context);
enum err embedded_sum(struct view *view, const struct cell_ref *ref, int64_t from, int64_t to,
                      uint32_t cells_max, struct range_sum *sum_out);
enum err embedded_counter(struct view *view, const struct cell_ref *ref, struct arena *arena,
                          const struct counter **counter_out);
enum err embedded_series_number(struct view *view, const struct cell_ref *ref,
                                uint64_t *series_out);
enum err embedded_list(struct view *view, struct bytes prefix, struct bytes after,
                       store_counter_fn *visit, void *context);
enum err embedded_object(struct view *view, struct bytes key, struct buf *value_out);
enum err embedded_objects(struct view *view, struct bytes prefix, struct bytes after,
                          store_object_fn *visit, void *context);
void embedded_instant(struct view *view, view_read_fn *read, void *context);
/* The counter's series of that duration as readers see it; id 0 if there is none. */
enum err embedded_series(struct embedded *embedded, struct bytes counter, int32_t duration,
                         struct series *series_out);
/* The cell of a series as readers see it; ERR_OK with `exists` false if there is none. */
enum err embedded_cell(struct embedded *embedded, uint64_t series, int64_t bucket,
                       struct cell *cell_out);

/* history.c */
enum err embedded_events(struct view *view, const struct event_query *query, store_event_fn *visit,
                         void *context, uint64_t *next_out);
enum err embedded_lookup(struct view *view, struct fingerprint print,
                         struct key_record *record_out);
enum err embedded_ids(struct view *view, store_id_fn *visit, void *context);
void embedded_forget(struct store *store, int64_t before_ms);
/* One run of the journal into the archive, if one is due. True: another one may be. */
bool history_archive(struct embedded *embedded);
/* Finds out where the archive goes on, once journal and archive are open. */
void history_open(struct embedded *embedded);
/* Lets go of journal that neither the state nor the archive needs. */
void history_trim(struct embedded *embedded);

/* embedded.c. Take in what recovery, or a follower, reads from the journal. */
void embedded_replay_counter(void *context, struct bytes key, const struct counter *counter);
void embedded_replay_cell(void *context, uint64_t series, int64_t bucket, const struct cell *cell);
void embedded_replay_tenant(void *context, struct bytes tenant, int64_t cells);
void embedded_replay_key(void *context, struct fingerprint print, const struct key_record *record);
void embedded_replay_object(void *context, struct bytes key, struct bytes value);

/* replicate.c */
/* For the thread that tends: shows what was withheld, if it may be now. */
void embedded_release(struct embedded *embedded);
bool embedded_leads(struct store *store);

/* snapshot.c */
enum err embedded_snapshot(struct store *store, const char *dir,
                           struct store_position *position_out, struct reason *why_out);

/* check.c: the laws above. With the turn and the pipeline held, or alone: */
void embedded_check_turn(const struct embedded *embedded);
/* For the thread that tends. */
void embedded_check_tend(struct embedded *embedded);
/* No batch is under way. In slow builds only. */
void embedded_check_idle(struct embedded *embedded);

/* checkpoint.c */
bool embedded_tend(struct store *store);
enum err embedded_due(struct store *store, int64_t now_ms, store_due_fn *visit, void *context);
enum err checkpoint_run(struct embedded *embedded);
/* True if what is dirty fits the disk; else write-back waits and reads go on. */
bool checkpoint_has_room(struct embedded *embedded);

#endif
