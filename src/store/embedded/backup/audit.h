/* audit.h -- `tally verify`: is everything that was written still there, and does it add up?
 *
 * Every checksum is read again: the identity, journal blocks, archive files, id filters, RocksDB's
 * tables. Then the state is compared with what the journal adds up to: from the newest backup whose
 * moment the journal still reaches back to, or from an empty start. What cannot be checked is said.
 *
 * Nothing of what is audited is changed: opening happens in a scratch directory of hard links,
 * DATA/snapshot, which is removed afterwards. The store must not be in use. */
#ifndef TALLY_STORE_EMBEDDED_BACKUP_AUDIT_H
#define TALLY_STORE_EMBEDDED_BACKUP_AUDIT_H

#include "base/clock.h"
#include "base/tree.h"

/* In a data directory the same as EMBEDDED_SNAPSHOT, so that opening the store removes it. */
#define AUDIT_SCRATCH "snapshot"

enum audit_verdict {
    AUDIT_GOOD,
    AUDIT_DAMAGED,
    AUDIT_UNCHECKED,
    AUDIT_REFUSED, /* nothing is known to be wrong; it could not be looked at, and why */
};

/* One finding: `what` is a word ("journal"), `text` the rest of a line. */
typedef void audit_say_fn(void *context, enum audit_verdict verdict, const char *what,
                          const char *text);

struct audit_config {
    const char *data;    /* the store; of no meaning to a backup's audit */
    const char *scratch; /* a directory on the same disk, made and removed */
    const char *backups; /* where a base for the comparison is looked for */
    const struct clock *clock;
    int64_t key_keep_ms; /* idempotency keys older than this may be gone on either side */
    struct effort *effort;
    audit_say_fn *say;
    void *context;
};

/* ERR_OK: nothing is damaged. ERR_CORRUPT: something is, and was said. ERR_STORAGE, ERR_NOT_FOUND,
 * ERR_CONFLICT (a server has it open): it could not be looked at, as was said; ERR_BUSY: told to
 * stop. */
MUST_USE enum err audit_store(const struct audit_config *config);
MUST_USE enum err audit_backup(const struct audit_config *config, const char *name);

#endif
