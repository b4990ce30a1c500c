/* archive.h -- retained events and dropped duplicates, compressed, by tenant and order of arrival.
 *
 * The journal is trimmed within hours, events are kept for years: the archiver copies them here
 * first. One file is one run of the journal, first to last sequence, with its records sorted by
 * (tenant, sequence) in compressed frames and an index of the frames at its end, so that reading
 * one tenant's page touches a few frames of a few files. Files are written once and never changed;
 * old ones are unlinked whole.
 *
 *     archive_add(archive, event) ...  archive_seal(archive, last)     durable when it returns
 *
 * (1) Every event up to archive_last is in the archive, except what archive_drop let go of.
 * (2) A run is there whole or not at all, whatever crashes: it becomes visible by a rename, after
 *     file and directory are synced. A half-written file is removed at the next open.
 * (3) A damaged frame or index is reported as ERR_CORRUPT with the file's name in the log, and
 *     never read as something else.
 *
 * One thread adds, seals and drops; any may read meanwhile. */
#ifndef TALLY_STORE_EMBEDDED_ARCHIVE_ARCHIVE_H
#define TALLY_STORE_EMBEDDED_ARCHIVE_ARCHIVE_H

#include "store/embedded/io.h"
#include "store/store.h"

#define ARCHIVE_RUN_MAX (256u << 20) /* bytes that one run may hold; seal long before */

struct archive;

struct archive_config {
    const char *dir; /* exists; holds only the archive's files */
    struct io *io;
    uint64_t installation; /* from IDENTITY; a file of another installation is refused */
};

/* A damaged file does not keep the archive from opening: reads that come to it answer ERR_CORRUPT.
 * A file that is missing from the middle, of another installation or of a newer format does, with
 * ERR_CORRUPT and a sentence in `why_out`; so does a failing disk, with ERR_STORAGE. */
MUST_USE enum err archive_open(struct archive **archive_out, const struct archive_config *config,
                               struct reason *why_out);
void archive_close(struct archive *archive);

/* Whether a file of this name is part of an archive, and which run of sequences it holds. Others
 * are being written, or not ours. */
bool archive_is_file(const char *name, uint64_t *first_out, uint64_t *last_out);

/* The last sequence that needs no journal any more; 0: none yet. */
uint64_t archive_last(struct archive *archive);

/* Copies a record into the run after archive_last; sequences only grow. Returns how many bytes the
 * run holds by now. */
size_t archive_add(struct archive *archive, const struct stored_event *event);
/* Makes the run of everything after archive_last up to `last` durable and visible, also if it has
 * no record. ERR_STORAGE: nothing happened; what was added stays for another try, or abandon. */
MUST_USE enum err archive_seal(struct archive *archive, uint64_t last);
void archive_abandon(struct archive *archive);

/* Unlinks the files whose records all arrived before `before_ms`; never the newest one, which says
 * how far the archive reaches. */
void archive_drop(struct archive *archive, int64_t before_ms);

/* What view.h says of `view_events`, for sequences up to archive_last. `*next_out` 0: nothing is
 * left here. The record for which `visit` returns false counts as visited: the next read goes on
 * after it. However small the budget, a call gets through at least one frame. Without a tenant a
 * file is read as a whole, whatever the budget, so such a reader does best to take all it is
 * given. */
MUST_USE enum err archive_read(struct archive *archive, const struct event_query *query,
                               store_event_fn *visit, void *context, uint64_t *next_out);

struct archive_stats {
    uint64_t files;
    uint64_t bytes;
    uint64_t first_arrived_ms; /* the oldest record's that is not dropped, or is to be dropped; 0:
                                * none */
};
void archive_stats(struct archive *archive, struct archive_stats *stats_out);

#endif
