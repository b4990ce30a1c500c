/* verify.h -- `tally verify`: is everything that was written still there, and does it add up?
 *
 * Every checksum is read again: the identity, journal blocks, archive files, id filters, RocksDB's
 * tables. Then the state is compared with what the journal adds up to: from the newest backup whose
 * moment the journal still reaches back to, or from an empty start. A finding says what could not
 * be checked.
 *
 * Where there are several lanes each is verified by itself, and what is wrong with one keeps none
 * of the others from being read. One lane's own directory may be verified as well.
 *
 * The store that is verified is not changed: opening happens in a scratch directory of hard links,
 * DATA/snapshot, which is removed afterwards. No server may have the store open. */
#ifndef TALLY_STORE_EMBEDDED_VERIFY_H
#define TALLY_STORE_EMBEDDED_VERIFY_H

#include "base/clock.h"
#include "base/tree.h"

enum verify_verdict {
    VERIFY_GOOD,
    VERIFY_DAMAGED,
    VERIFY_UNCHECKED,
    VERIFY_REFUSED, /* no damage is known; the text says why it could not be read */
};

struct verify_finding {
    enum verify_verdict verdict;
    int lane;         /* which of several; -1: all, or the only one */
    const char *what; /* a word: "journal" */
    const char *text; /* the rest of a line */
};

typedef void verify_say_fn(void *context, const struct verify_finding *finding);

struct verify_config {
    const char *data;    /* the store; verify_backup does not look at it */
    const char *backups; /* where a base for the comparison is looked for */
    const struct clock *clock;
    int64_t key_keep_ms; /* idempotency keys older than this may be gone on either side */
    struct effort *effort;
    verify_say_fn *say;
    void *context;
};

/* ERR_OK: nothing is damaged. ERR_CORRUPT: a finding says what is damaged. ERR_STORAGE,
 * ERR_NOT_FOUND, ERR_CONFLICT (a server has the store open): a finding says why it could not be
 * read. ERR_BUSY: it was told to stop. */
MUST_USE enum err verify_store(const struct verify_config *config);
MUST_USE enum err verify_backup(const struct verify_config *config, const char *name);

#endif
