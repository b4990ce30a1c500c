/* entity.h -- one entity of one entry of `reconcile:`: its counters as they stand, counted, and put
 * right.
 *
 *     entity_init(&entity, ...)     what it is about
 *     entity_begin(&entity)         the row's version and the counters' values, at one instant
 *     truth->ops->count(...)        what they should be, at any later moment
 *     entity_settle(&entity)        one journal record: adjust, advance, clear or keep the mark
 *
 * Whatever commits between these steps makes the row's version grow, and the record then keeps the
 * mark (core/apply_mark.c). A thread that dies between them has changed nothing. */
#ifndef TALLY_RECONCILE_ENTITY_H
#define TALLY_RECONCILE_ENTITY_H

#include "base/json.h"
#include "commit/propose.h"
#include "rules/rulebook.h"
#include "core/mark.h"
#include "reconcile/truth.h"
#include "store/store.h"

struct entity {
    const struct caretaker *with; /* that of its tenant's lane */
    struct arena arena;
    struct rules *rules; /* held */
    const struct reconcile *reconcile;
    struct truth_query query;
    struct mark_change change; /* place, version, adjustments */
    struct mark mark;          /* the row when the pass began */
    int64_t counts[RECONCILE_COUNTERS_MAX];
};

/* `rules` are those of the tenant's lane, whose generations are its own; takes over one reference.
 * `with` lives on, tenant and JSON are copied. False: the JSON is not an entity of this entry, or
 * its counters are not in these rules. To be released in any case. */
MUST_USE bool entity_init(struct entity *entity, const struct caretaker *with, struct rules *rules,
                          const struct reconcile *reconcile, struct bytes tenant,
                          struct bytes entity_json, struct json_parser *parser);
void entity_release(struct entity *entity);

/* ERR_STORAGE, ERR_CORRUPT. */
MUST_USE enum err entity_begin(struct entity *entity);

/* To be called once the adjustments' `truth` was filled. ERR_OK: durable; `change` has what each
 * counter was and became. ERR_CONFLICT: the rules changed meanwhile, nothing happened. It may also
 * be any other refusal of a change. */
MUST_USE enum err entity_settle(struct entity *entity);

/* Notes that the entity could not be counted: nothing but its back-off moves. */
MUST_USE enum err entity_fail(struct entity *entity, int64_t retry_ms);

/* The entity as people know it: its values, as written in the config, with '/' between them. */
void entity_show(struct buf *buf, const struct entity *entity);

enum entity_number {
    ENTITY_BEFORE, /* once settled: right before the record, right after it, and between */
    ENTITY_AFTER,
    ENTITY_DIFFERENCE,
    ENTITY_THEN, /* once counted: as stored, as it should be, and how much is too much */
    ENTITY_TRUTH,
    ENTITY_DRIFT,
};
/* Writes {"a":1,"b":2}, one number for each counter; in replies they are text:
 * {"a":"1","b":"2"}. */
void entity_write(struct buf *buf, const struct entity *entity, enum entity_number which);
void entity_write_text(struct buf *buf, const struct entity *entity, enum entity_number which);

/* For a settled entity: the largest difference, whatever its sign; 0: nothing was wrong. */
uint64_t entity_drift(const struct entity *entity);
/* The same, all differences added up; saturates. */
uint64_t entity_drift_sum(const struct entity *entity);

/* The size by `sizeBy`, or 0 without it: for the tiers of `singleFlight`. */
int64_t entity_size(struct entity *entity);

#endif
