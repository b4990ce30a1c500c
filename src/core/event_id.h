/* event_id.h -- an event's id as the store knows it: its fingerprint, and what its record says
 * beside when the event came.
 *
 *   nothing                       the id is its tenant's own, and the event came to this store
 *   owner (8 bytes)               ids are unique over all tenants: a number for whose it is
 *   'i', origin (8 bytes), owner  the event came to another store, from which its id was imported
 *   'e', origin (8 bytes), owner  the event itself was, too */
#ifndef TALLY_CORE_EVENT_ID_H
#define TALLY_CORE_EVENT_ID_H

#include "base/arena.h"
#include "base/hash.h"

/* `shared`: ids are unique over all tenants. The sizes are within NAME_SIZE_MAX and
 * EVENT_ID_SIZE_MAX. */
struct fingerprint event_id_print(const struct hash_secret *secret, bool shared,
                                  struct bytes tenant, struct bytes id);

struct event_id_note {
    struct bytes owner; /* size 0: ids are each tenant's own */
    uint64_t origin;    /* the event's sequence in the store that it came to; 0: this one */
    bool kept;          /* the event was imported with its id */
};

/* The number by which a tenant is an owner, in `arena`. */
struct bytes event_id_owner(struct arena *arena, const struct hash_secret *secret,
                            struct bytes tenant);
struct bytes event_id_note_encode(struct arena *arena, const struct event_id_note *note);
/* A view of `bytes`. False: they are not the bytes of a note. */
MUST_USE bool event_id_note_decode(struct bytes bytes, struct event_id_note *note_out);

#endif
