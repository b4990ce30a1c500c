/* identity.h -- which store this directory is, and that no other process has it open.
 *
 * IDENTITY is written and synced once, before the first journal block: format, the fingerprint
 * secret (fingerprints are on disk), the installation's number, the scope of event ids, and, where
 * the installation has several lanes, how many and which of them the directory is (lanes_dir.h). A
 * file of another or newer format refuses to open. LOCK is held while the store is open.
 *
 *     identity_open      takes the directory of a store, and makes it one if it is none
 *     identity_release   lets go of it
 *
 * The other functions are the parts of identity_open. A function that fails says why in one
 * sentence, unless its comment says that it leaves errno. */
#ifndef TALLY_STORE_EMBEDDED_IDENTITY_H
#define TALLY_STORE_EMBEDDED_IDENTITY_H

#include "base/hash.h"
#include "base/reason.h"

/* A file of this name says that the directory is being filled from a backup, or that this was cut
 * short: it is not a store (yet). */
#define IDENTITY_RESTORING "RESTORING"

/* Instead of a lane's number: the directory that holds all lanes. */
#define IDENTITY_ROOT UINT32_MAX

struct store_identity {
    struct hash_secret secret;
    uint64_t installation;
    bool ids_shared; /* event ids are unique over all tenants */
    unsigned lanes;  /* how many the installation has; 1: the directory is all of it */
    unsigned lane;   /* which of them the directory is, or IDENTITY_ROOT */
    int lock_fd;     /* -1: not locked */
};

/* What a directory is taken for. */
struct identity_wish {
    bool ids_shared;
    unsigned lanes; /* 0 is 1 */
    unsigned lane;
    uint64_t installation; /* 0: any */
};

/* Makes the directory if it is not there, and takes its lock. ERR_STORAGE, ERR_BUSY where another
 * process has it open, ERR_CORRUPT where a restore did not finish. Nothing is locked after a
 * failure. */
MUST_USE enum err identity_lock(struct store_identity *identity, const char *dir,
                                struct reason *why);
void identity_release(struct store_identity *identity);

/* Fills in all but the lock. ERR_NOT_FOUND: there is no such file; ERR_CORRUPT: it is not ours or
 * damaged; ERR_STORAGE. */
MUST_USE enum err identity_read(struct store_identity *identity, const char *dir,
                                struct reason *why);

/* ERR_INVALID: the directory was made with another scope of event ids or number of lanes, which
 * cannot be changed afterwards. ERR_CORRUPT: it is another lane, or another installation's. */
MUST_USE enum err identity_expect(const struct store_identity *identity, const char *dir,
                                  const struct identity_wish *wish, struct reason *why);

/* Fills in a new installation, of one lane and not locked. ERR_STORAGE with errno. */
MUST_USE enum err identity_draw(struct store_identity *identity);
/* Writes IDENTITY to `dir`, which is there, in place of one that is there. ERR_STORAGE with
 * errno. */
MUST_USE enum err identity_write(const struct store_identity *identity, const char *dir);

/* Locks, reads and compares; a directory without an IDENTITY becomes a new installation, unless the
 * wish is for one of several lanes. Errors as above; nothing is locked after a failure. */
MUST_USE enum err identity_open(struct store_identity *identity, const char *dir,
                                const struct identity_wish *wish, struct reason *why);

#endif
