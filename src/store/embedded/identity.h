/* identity.h -- which store this directory is, and that nobody else has it open.
 *
 * IDENTITY is written and synced once, before the first journal block: format, the fingerprint
 * secret (fingerprints are on disk), the installation's number, the scope of event ids. A file of
 * another or newer format refuses to open. LOCK is held while the store is open. */
#ifndef TALLY_STORE_EMBEDDED_IDENTITY_H
#define TALLY_STORE_EMBEDDED_IDENTITY_H

#include "base/err.h"
#include "base/hash.h"

/* A file of this name says that the directory is being filled from a backup, or that this was cut
 * short: it is not a store (yet). */
#define IDENTITY_RESTORING "RESTORING"

struct identity {
    struct hash_secret secret;
    uint64_t installation;
    bool ids_shared; /* set by the caller: event ids are unique over all tenants */
    int lock_fd;
};

/* Makes the directory and the file if they are not there. On failure `error_out` has one sentence.
 * ERR_STORAGE, ERR_BUSY where another process has it open, ERR_CORRUPT for a file that is not ours
 * or is damaged, or ERR_INVALID for one that was made with another scope of event ids, which cannot
 * be changed afterwards. */
MUST_USE enum err identity_open(struct identity *identity, const char *dir, char *error_out,
                                size_t error_size);
/* Makes a directory, which is there and empty, a new installation with a secret that is known:
 * fingerprints that another store made mean the same here. ERR_STORAGE with errno. */
MUST_USE enum err identity_make(const char *dir, const struct hash_secret *secret, bool ids_shared);
void identity_release(struct identity *identity);

#endif
