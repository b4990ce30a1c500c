/* internal.h -- what the parts of a verification share.
 *
 *   verify.c   in which order, and what is said
 *   files.c    checksums, file by file
 *   scratch.c  stores made of links, to be opened
 *   state.c    two states compared */
#ifndef TALLY_STORE_EMBEDDED_VERIFY_INTERNAL_H
#define TALLY_STORE_EMBEDDED_VERIFY_INTERNAL_H

#include "store/embedded/verify/verify.h"
#include "store/embedded/backup/backup.h"
#include "store/embedded/archive/archive.h"
#include "store/embedded/identity.h"
#include "store/embedded/journal/walk.h"

struct verify {
    const struct verify_config *config;
    struct store_identity
        identity; /* of the store that is read; its lock is held for a data directory */
    struct journal_extent journal;
    struct archive *archive; /* while its files are read */
    bool damaged;
};

void verify_say(struct verify *verify, enum verify_verdict verdict, const char *what,
                const char *format, ...) PRINTF_LIKE(4, 5);

/* files.c: each says what it found about the store in `dir`. */
void verify_journal(struct verify *verify, const char *dir);
void verify_archive(struct verify *verify, const char *dir);
void verify_ids(struct verify *verify, const char *dir);
void verify_tables(struct verify *verify, const char *dir);

/* scratch.c */
/* Makes `to` a store of the same files as `from`, by links where the disk allows it. Its journal
 * comes along only with `journal`. */
MUST_USE enum err scratch_link(const char *from, const char *to, bool journal);
/* Opens the store in `dir`, which is recovery, and closes it, which writes everything back: its
 * RocksDB then holds all there is. `why_out` says what is wrong. */
MUST_USE enum err scratch_settle(const struct verify *verify, const char *dir,
                                 struct reason *why_out);
/* The journal of `to`: that of `base` (NULL: none), then what `more` has after it. */
MUST_USE enum err scratch_journal(const struct verify *verify, const char *base, const char *more,
                                  const char *to, struct reason *why_out);

/* state.c: compares the states of two settled stores and says what differs. */
MUST_USE enum err verify_compare(struct verify *verify, const char *now, const char *then,
                                 const char *since);

#endif
