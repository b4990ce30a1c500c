/* audit_internal.h -- what the parts of an audit share.
 *
 *   audit.c          in which order, and what is said
 *   audit_files.c    checksums, file by file
 *   audit_scratch.c  stores made of links, to be opened
 *   audit_state.c    two states compared */
#ifndef TALLY_STORE_EMBEDDED_BACKUP_AUDIT_INTERNAL_H
#define TALLY_STORE_EMBEDDED_BACKUP_AUDIT_INTERNAL_H

#include "store/embedded/backup/audit.h"
#include "store/embedded/backup/backup.h"
#include "store/embedded/archive/archive.h"
#include "store/embedded/identity.h"
#include "store/embedded/journal/walk.h"

struct audit {
    const struct audit_config *config;
    struct identity identity; /* of what is audited; its lock is held for a store */
    struct journal_extent journal;
    struct archive *archive; /* while its files are read */
    bool damaged;
};

void audit_say(struct audit *audit, enum audit_verdict verdict, const char *what,
               const char *format, ...) PRINTF_LIKE(4, 5);

/* audit_files.c: each says what it found about the store in `dir`. */
void audit_journal(struct audit *audit, const char *dir);
void audit_archive(struct audit *audit, const char *dir);
void audit_ids(struct audit *audit, const char *dir);
void audit_tables(struct audit *audit, const char *dir);

/* audit_scratch.c */
/* Makes `to` a store of the same files as `from`, by links where the disk allows it; unless
 * `journal` without its journal. */
MUST_USE enum err scratch_link(const char *from, const char *to, bool journal);
/* Opens it, which is recovery, and closes it, which writes everything back: its RocksDB then holds
 * all there is. `why_out` says what is wrong. */
MUST_USE enum err scratch_settle(const struct audit *audit, const char *dir, struct buf *why_out);
/* The journal of `to`: that of `base` (NULL: none), then what `more` has after it. */
MUST_USE enum err scratch_journal(const struct audit *audit, const char *base, const char *more,
                                  const char *to, struct buf *why_out);

/* audit_state.c: the states in both stores, both settled. Says what differs. */
MUST_USE enum err audit_compare(struct audit *audit, const char *now, const char *then,
                                const char *since);

#endif
