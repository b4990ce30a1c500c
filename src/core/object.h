/* object.h -- small named values beside the counters: what else a batch can change.
 *
 *   's' tenant NUL counter NUL generation entity   state of a transition-safe entity: the dimension
 *                                                  sets it was switched on under; absent: off
 *   'u' tenant                                     the tenant's usage row: status, since when
 *   'c' counter                                    definition of a rule counter (core/rules.h)
 *   'x' generation counter                         cells of a generation that are garbage
 *   'j' job                                        work that an operator asked for (jobs/job.h)
 *   'q' reconcile NUL tenant NUL entity            an entity to be counted anew (core/mark.h)
 *   'n' tenant                                     how many of these the tenant has
 *   'm' what                                       the META_ names below
 *
 * Keys compare with memcmp; numbers in them are big-endian. A value of size 0 is an absent object.
 */
#ifndef TALLY_CORE_OBJECT_H
#define TALLY_CORE_OBJECT_H

#include "base/arena.h"
#include "base/codec.h"
#include "base/moment.h"
#include "core/op.h"
#include "core/rules.h"

#define OBJECT_STATE 's'
#define OBJECT_USAGE 'u'
#define OBJECT_DEFINITION 'c'
#define OBJECT_GARBAGE 'x'
#define OBJECT_JOB 'j'
#define OBJECT_MARK 'q'
#define OBJECT_MARKS 'n'
#define OBJECT_META 'm'

#define META_GENERATION BYTES("generation") /* number: the last one given out */
#define META_RULES BYTES("rules")           /* text: the rules in force, as the config has them */
#define META_RETAINED BYTES("retained")     /* number: events that arrived before this are gone */
#define META_JOBS BYTES("jobs")             /* number: the last one given out */
#define META_IMPORT BYTES("import")         /* job and line: how far an import is in this lane */
#define META_RULED BYTES("ruled:")          /* and a digest: rules with it were in force */
#define META_CLOCK BYTES("clock")           /* clock_record: what a time does not say itself */
/* sequences: how much of another installation's history was imported, by that one's lanes */
#define META_IMPORTED_FORMAT "imported %016llx"

/* Each key is made in `arena`. */
struct bytes object_key(struct arena *arena, char kind, struct bytes name);
struct bytes object_state_key(struct arena *arena, struct bytes tenant, struct bytes counter,
                              uint32_t generation, struct bytes entity);
/* Which entity's state it is. False: the key is not of an entity's state. */
MUST_USE bool object_state_split(struct bytes key, struct bytes *counter_out,
                                 uint32_t *generation_out);

/* The object that says that a counter's generation is garbage; its value is the time, in ms, since
 * when it is. */
struct bytes object_garbage_key(struct arena *arena, struct bytes counter, uint32_t generation);
/* The counter is empty for an object that an earlier version made, which did not say whose it
 * is. */
MUST_USE bool object_garbage_split(struct bytes key, struct bytes *counter_out,
                                   uint32_t *generation_out);

/* The value of a state: the dimension sets its entity was switched on under, as canonical JSON. */
struct bytes object_state_encode(struct arena *arena, const struct bytes *sets, unsigned count);
/* Views of `value`. False: not the bytes of a state. */
MUST_USE bool object_state_decode(struct bytes value, struct bytes sets_out[static RULES_SETS_MAX],
                                  unsigned *count_out);

/* The tenant's row of SPEC 8. */
struct usage_row {
    struct bytes status; /* borrows */
    int64_t updated_ms;
};
struct bytes usage_row_encode(struct arena *arena, const struct usage_row *row);
MUST_USE bool usage_row_decode(struct bytes value, struct usage_row *row_out);

/* What the next life has to know of the time of the last batch (base/moment.h). */
struct clock_record {
    uint64_t resets;      /* how often time was set back: no two records of that are the same */
    struct moment moment; /* as it was then */
};
struct bytes clock_record_encode(struct arena *arena, const struct clock_record *record);
MUST_USE bool clock_record_decode(struct bytes value, struct clock_record *record_out);

/* A number as an object's value: the meta objects. */
struct bytes object_number(struct arena *arena, uint64_t number);
MUST_USE bool object_number_decode(struct bytes value, uint64_t *number_out);

#endif
