/* internal.h -- what the parts of a verification share.
 *
 *   verify.c   in which order lanes and their parts are read, and what is said
 *   files.c    checksums, file by file
 *   balance.c  what the journal adds up to, and from where
 *   scratch.c  stores made of links, to be opened
 *   state.c    two states compared */
#ifndef TALLY_STORE_EMBEDDED_VERIFY_INTERNAL_H
#define TALLY_STORE_EMBEDDED_VERIFY_INTERNAL_H

#include "store/embedded/verify/verify.h"
#include "store/embedded/backup/backup.h"
#include "store/embedded/archive/archive.h"
#include "store/embedded/identity.h"
#include "store/embedded/journal/walk.h"

/* Backups that were read again, so that the lanes' base is read once. */
struct checked_backup {
    char name[NAME_SIZE_MAX + 1];
    enum err err;
    struct checked_backup *next;
};

struct checked_backups {
    struct checked_backup *first;
};

/* One store being read: all of an installation, or one of its lanes. */
struct verify {
    const struct verify_config *config;
    int lane;                       /* for findings; -1: it is the only one */
    char dir[TREE_PATH_MAX];        /* the store's */
    char scratch[TREE_PATH_MAX];    /* a directory on the same disk, made and removed */
    struct store_identity identity; /* its lock is held for a data directory */
    struct checked_backups *checked;
    struct journal_extent journal;
    struct archive *archive; /* open while its files are read */
    bool damaged;
};

void verify_say(struct verify *verify, enum verify_verdict verdict, const char *what,
                const char *format, ...) PRINTF_LIKE(4, 5);
/* Adds why `e` came to a finding, and gives `e` back. `why` may be NULL: then errno or the error
 * itself tells. */
enum err verify_say_error(struct verify *verify, enum verify_verdict verdict, const char *what,
                          enum err e, const struct reason *why);
/* Reads all of a backup again and reports each file that is not as it was. */
MUST_USE enum err verify_check_backup(struct verify *verify, const char *name, const char *what);

/* balance.c: compares the state of the settled store `now`, a copy of the one that is read, with
 * what the journal adds up to. */
MUST_USE enum err verify_balance(struct verify *verify, const char *now);
void checked_backups_release(struct checked_backups *checked);

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
/* Makes the journal of `to`: that of `base` (NULL: none), then what `more` has after it. */
MUST_USE enum err scratch_journal(const struct verify *verify, const char *base, const char *more,
                                  const char *to, struct reason *why_out);

/* state.c: compares the states of two settled stores and reports what differs. */
MUST_USE enum err verify_compare(struct verify *verify, const char *now, const char *then,
                                 const char *since);

#endif
