/* position.h -- how far a history goes, in the form in which clients carry it about (SPEC 1, 13).
 *
 * A write answers with the header `Tally-Sequence: 0-<sequence>`, and so does a read of a tenant
 * that succeeds: a write's says where it stands, a read's how far the answer is at least. A read
 * may be given one back as `?minSequence=`. Where one server has the whole history, a position that
 * was given out is always reached; one that lies beyond the end, or is of another history
 * (`<epoch number>.<epoch id>-<sequence>`), was lost, which is said and never papered over.
 *
 * A sequence is that of the tenant's lane; the text does not say which lane. */
#ifndef TALLY_API_POSITION_H
#define TALLY_API_POSITION_H

#include "wire/exchange.h"

struct call;

/* The header line that a loop added last. Most reads between two commits have the same one. */
struct position_line {
    uint64_t sequence;
    size_t size; /* 0: none yet */
    char text[48];
};

struct position {
    bool here; /* its history has no epochs, as the one here */
    uint64_t sequence;
};

/* False: malformed. */
MUST_USE bool position_parse(struct bytes text, struct position *position_out);

/* Around a read of a tenant, on its loop. Begin notes how far the answer will be, before anything
 * is read, and what was asked for, and makes `call->view`; false after refusing a malformed one.
 * That a position was lost is said only after everything that is wrong with the request, so
 * `call->lost` and `call->wanted` are looked at once the read could begin: by call_read, by the
 * ends below, and by streams. */
MUST_USE bool position_begin(struct call *call, enum request_verdict *verdict_out);
/* On a reader, before it reads: asks a store that others write too whether it has what the read
 * wants, as far as that is not known. ERR_POSITION: it was lost; and what view_newest returns. */
MUST_USE enum err position_settle(struct call *call);
/* The reply is filled: adds the header to one that succeeded. */
void position_end(struct call *call);
/* The same for a reply that no reader filled: one may have to ask the store first. */
enum request_verdict position_answered(struct call *call);

/* Adds a write's. */
void reply_sequence(struct reply *reply, uint64_t sequence);

#endif
