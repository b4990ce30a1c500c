/* reserve.h -- room kept back for the day the disk is full.
 *
 * DIR/RESERVE takes its bytes while there are plenty. When there are not, it is given up, so that a
 * checkpoint can still be written, the journal trimmed and the store opened; it is taken again when
 * there is room. RocksDB is never started on a write that may not fit: a failed one leaves it
 * unable to write until it is reopened, and reopening needs room too. */
#ifndef TALLY_STORE_EMBEDDED_RESERVE_H
#define TALLY_STORE_EMBEDDED_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/must.h"

struct reserve {
    char path[4096];
    const char *dir; /* borrowed */
    uint64_t bytes;
    bool held;
};

/* `lanes` share the part of the reserve that need not be there for each of them. */
void reserve_init(struct reserve *reserve, const char *dir, unsigned lanes);

/* Bytes that this process may use in `dir`'s file system; UINT64_MAX if it cannot be told. */
uint64_t reserve_free_bytes(const struct reserve *reserve);

/* True if `bytes` can be written, giving the reserve up if that is what it takes. */
MUST_USE bool reserve_make_room(struct reserve *reserve, uint64_t bytes);

/* Takes the reserve again once there is room for it and as much again. */
void reserve_restore(struct reserve *reserve);

#endif
