/* journal.h -- the one ordered, durable record of everything that changed.
 *
 * Segment files of blocks; a block is one batch. The journal knows nothing of what is inside a
 * block's body. One thread opens, appends, syncs, restarts and closes; `journal_prepare` and
 * `journal_trim` may run on one other; `journal_scan`, `journal_first_sequence`,
 * `journal_durable_sequence` and `journal_stats` on any.
 *
 *     journal_open(..., applied, replay)       calls `replay` for every block after `applied`
 *     journal_append(block); journal_append(block); journal_sync();     both are durable now
 *     journal_append or journal_sync fails -> journal_restart() until it succeeds
 *
 * (1) What journal_sync acknowledged is replayed after any crash, once, in order.
 * (2) A block is replayed whole or not at all, and never when an earlier one is missing.
 * (3) A segment whose write or sync failed is never written or synced again. The segment made by
 *     journal_restart names the last durable block; later blocks of the failed one are void.
 * (4) A bad block that a later valid block of the same chain says was durable is corruption:
 *     journal_open refuses and says where. Otherwise it is a torn tail and is cut, durably, before
 *     journal_open returns.
 * (5) Blocks of an earlier use of a recycled segment file are never taken for new ones. */
#ifndef TALLY_STORE_EMBEDDED_JOURNAL_JOURNAL_H
#define TALLY_STORE_EMBEDDED_JOURNAL_JOURNAL_H

#include "base/reason.h"
#include "store/embedded/io.h"

struct journal;

struct journal_config {
    const char *dir; /* exists; holds only the journal's files */
    struct io *io;
    uint64_t segment_size; /* multiple of IO_ALIGN; journal.segmentBytes, 256 MiB */
    uint64_t first_size;   /* the same, at most segment_size: a new journal begins with this and
                              grows by doubling; a block that needs more gets it at once */
    uint64_t keep_bytes;   /* segments that are all below `applied`: at most this much and */
    int64_t keep_ms;       /* none older than this, by batch time, is kept; then recycled */
    unsigned spare_count;  /* zero-written segments made ahead of need */
    uint64_t installation; /* from IDENTITY: random, shown to no tenant (segment.c says why); a
                              segment of another installation is refused */
};

struct journal_block {
    uint64_t first_sequence; /* its first cause's; the next block's is first_sequence + count */
    uint32_t count;          /* at least 1 */
    int64_t time_ms;         /* never below the block's before it, but where it was set back */
    bool set_back;           /* as appended: it may be below. Not on disk */
    uint64_t next_series;
    struct bytes body; /* fits a segment, see journal_body_max */
};

/* An error stops the opening. */
typedef enum err journal_replay_fn(void *context, const struct journal_block *block);

/* A journal that was there is also opened on a disk without room for a new segment, as a failed
 * one: journal_has_failed says so, and only journal_restart may follow; reading works.
 *
 * `applied`: the last sequence that the state already holds; 0 for none. Blocks are replayed that
 * hold anything after it. They are durable when journal_open returns, and not before: the state
 * must not be written back during replay. Fails with ERR_CORRUPT or ERR_STORAGE and one sentence in
 * `why_out`; also when the journal ends before `applied` (a state ahead of its journal), when
 * blocks right after `applied` are missing, or with what `replay` returned. Nothing is changed on
 * disk but rubbish before all blocks were found good. */
MUST_USE enum err journal_open(struct journal **journal_out, const struct journal_config *config,
                               uint64_t applied, journal_replay_fn *replay, void *context,
                               struct reason *why_out);
void journal_close(struct journal *journal);

size_t journal_body_max(const struct journal *journal);
uint64_t journal_first_sequence(struct journal *journal);      /* the first one it may still have */
uint64_t journal_last_sequence(const struct journal *journal); /* appended, maybe not durable */
uint64_t journal_durable_sequence(const struct journal *journal); /* survives any crash */
/* Grows with each opening and restart; for the thread that opens and restarts. */
uint64_t journal_epoch(const struct journal *journal);
/* For the thread that appends and restarts. True: nothing can be appended before a
 * journal_restart. */
bool journal_has_failed(const struct journal *journal);
int64_t journal_last_time(const struct journal *journal); /* the last block's; 0: none known */

/* Copies the block. Not durable, and perhaps not even written, before journal_sync. A block that
 * does not fit the rest of the segment goes into the next one; the old one is synced first. So
 * journal_durable_sequence may grow in here, and when either call fails it says exactly which
 * blocks stay: those up to it are durable and must be answered as such, journal_restart voids the
 * others. ERR_STORAGE is final for the segment: only journal_restart may follow. */
MUST_USE enum err journal_append(struct journal *journal, const struct journal_block *block);
MUST_USE enum err journal_sync(struct journal *journal);

/* Gives up the segment that failed and goes on in a new one after the last durable block. Once it
 * has succeeded nothing after that block ever comes back; while it has not, a crash may still bring
 * back what had reached the disk: the outcome is unknown. ERR_STORAGE: not possible yet (no room,
 * say); call again later. */
MUST_USE enum err journal_restart(struct journal *journal);

/* Makes the spare segments that the journal will soon need (spares.c says how many, and of which
 * size), off the commit path and in steps of 4 MiB. True: there is more to do now; false also when
 * the disk has no room, for it will be tried again. An append that needs a spare and finds none
 * makes a file itself, whose syncs are dearer. */
bool journal_prepare(struct journal *journal);

/* Lets go of segments whose blocks are all <= `applied` and that keep_bytes or keep_ms no longer
 * protect: recycled as spares while there are too few, unlinked otherwise. The caller passes the
 * smallest of the flushed `applied` and all pins. */
void journal_trim(struct journal *journal, uint64_t applied);

/* Reads the durable blocks from the one holding `from_sequence` on, in order, from disk. What
 * `visit` returns other than ERR_OK stops it and is returned. ERR_NOT_FOUND: the block was trimmed;
 * ERR_CORRUPT: a block is damaged. Nothing from there on may be trimmed meanwhile. */
MUST_USE enum err journal_scan(struct journal *journal, uint64_t from_sequence,
                               journal_replay_fn *visit, void *context);

struct journal_stats {
    uint64_t segments;
    uint64_t bytes;               /* in all files of the journal, spares included */
    uint64_t bytes_since_applied; /* what a restart would read, as of the last trim */
    uint64_t appended_bytes;      /* since the start */
    uint64_t syncs;
    uint64_t files_failed; /* how often one could not be made ahead or let go of */
    int last_error;        /* errno of the last write-side call that failed; 0: none did */
};
void journal_stats(struct journal *journal, struct journal_stats *stats_out);

/* For fuzzing and tests: checks the block at the start of `bytes` as recovery does, its place in
 * the chain aside. */
MUST_USE enum err journal_block_decode(struct bytes bytes, struct journal_block *block_out);

#endif
