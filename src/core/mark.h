/* mark.h -- the dirty queue: which entities are to be counted anew (core/reconcile.h).
 *
 * One object for each entity (core/object.h), put in the same commit as the change or the request
 * that caused it. Its version is the journal sequence of the newest cause, so it grows with every
 * one, however close in time (S2-31), and a pass that began at one version can tell whether
 * anything came meanwhile. A row that is no longer pending stays for a while: it remembers when its
 * entity was counted last, which is what `minInterval` goes by. */
#ifndef TALLY_CORE_MARK_H
#define TALLY_CORE_MARK_H

#include "base/arena.h"
#include "base/codec.h"
#include "core/op.h"
#include "core/rules.h"

#define MARK_SIZE 46u /* a row's value */

struct mark {
    uint64_t version;   /* 0: there is no row */
    bool pending;       /* caused since it was last counted */
    int64_t marked_ms;  /* since when it is pending */
    int64_t cause_ms;   /* the newest cause */
    int64_t updated_ms; /* the last pass that counted it, each later; TIME_NONE: never */
    int64_t retry_ms;   /* after a failed pass: not before */
    uint32_t failures;  /* in a row */
};

struct bytes mark_encode(struct arena *arena, const struct mark *mark);
/* A value of size 0 is version 0, never counted. False: not the bytes of a row. */
MUST_USE bool mark_decode(struct bytes value, struct mark *mark_out);

/* What all rows of an entry start with; with a tenant, all of its rows there. */
struct bytes mark_prefix(struct arena *arena, struct bytes reconcile, struct bytes tenant);
struct bytes mark_row_key(struct arena *arena, struct bytes reconcile, struct bytes tenant,
                          struct bytes entity_json);
/* Views of `key`. False: not the key of a row. */
MUST_USE bool mark_key_split(struct bytes key, struct bytes *reconcile_out,
                             struct bytes *tenant_out, struct bytes *entity_json_out);

/* The rows a tenant has, for limits.tenantMarks: the key of a number. */
struct bytes mark_count_key(struct arena *arena, struct bytes tenant);

/* Where a batch finds a row and its tenant's number of rows. */
struct mark_place {
    struct bytes key;
    struct fingerprint print;
    struct bytes count_key;
    struct fingerprint count_print;
    uint32_t index; /* apply's own, like the next: places in the read set */
    uint32_t count_index;
};

struct mark_place mark_place_of(struct arena *arena, const struct hash_secret *secret,
                                struct bytes reconcile, struct bytes tenant,
                                struct bytes entity_json);

/* Whether canonical JSON is about an entity of this entry. */
bool mark_is_entity(struct bytes dimensions_json, const struct reconcile *reconcile);

/* The row that a change of this dimension set of the counter marks, or NULL: nobody reconciles it.
 */
struct mark_place *mark_of_set(struct arena *arena, const struct hash_secret *secret,
                               const struct definition *definition, struct bytes tenant,
                               struct bytes dimensions_json);

/* One counter of an entity, as a pass found it and as it leaves it. */
struct adjustment {
    struct bytes counter; /* its name */
    struct bytes key;     /* its cell's: the entity's dimension set, in the generation read */
    struct fingerprint print;
    int64_t then;   /* its net when the pass began */
    int64_t truth;  /* as counted; never below 0 */
    int64_t before; /* out: its net right before and right after the record */
    int64_t after;
    bool unadjusted;        /* out, see mark_change */
    uint32_t counter_index; /* apply's own */
    uint32_t cell_index;
};

enum mark_step {
    MARK_REQUEST, /* a client asks for it to be counted */
    MARK_PASS,    /* it was counted: adjust, advance, clear if nothing came meanwhile */
    MARK_FAIL,    /* it could not be counted: only the back-off moves */
    MARK_FORGET,  /* the row is no longer of use: it goes, if it still is what it was, unless it is
                   * pending and the batch's rules want its entity counted */
};

/* What an OP_MARK does. It is decided in one piece: all of it happens, or nothing. */
struct mark_change {
    enum mark_step step;
    struct mark_place place;
    uint64_t version;               /* the row's when the pass began; not of a request */
    int64_t updated_ms;             /* the row's when the pass began */
    struct adjustment *adjustments; /* a pass's */
    uint32_t adjustments_count;
    uint64_t digest;  /* a pass's: says by which entry it counted (core/reconcile.h) */
    bool recounted;   /* a pass's: the truth is the retained events, so they still explain it */
    int64_t retry_ms; /* a failure's: how long to wait */
    bool cleared;     /* out, a pass's: nothing came meanwhile */
    bool unadjusted;  /* out, with ERR_CONFLICT: some definitions must first say `adjusted` */
};

/* What an OP_MARK may add to a journal block. */
size_t mark_weight(const struct mark_change *change);

#endif
