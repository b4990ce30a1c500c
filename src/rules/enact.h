/* enact.h -- bringing rules from the config into force.
 *
 * The store remembers every rule counter's definition, the generation its cells are kept under and
 * since when it counts. Rules from the config know nothing of that: enacting adds it, keeps the
 * counters that the config no longer has as frozen ones, and makes the change one bundle, so that
 * it takes effect between two batches, durably, or not at all. A counter counts since the time of
 * that batch, which is known only then: retention goes by it to say whether history is complete.
 *
 *     enact_plan(&enactment, store, rules, text, &why)
 *     queue_push(queue, &enactment.bundle) ... bundle->done ... the rulebook has them
 *     enact_release(&enactment)
 *
 * Rules of one lane change one at a time: a thread that enacts rules or swaps generations holds the
 * lane's `enacting` lock. A plan that was overtaken all the same, by another node, is refused whole
 * with ERR_CONFLICT. */
#ifndef TALLY_RULES_ENACT_H
#define TALLY_RULES_ENACT_H

#include "rules/rulebook.h"
#include "store/store.h"

struct enactment {
    struct arena arena;
    struct bundle bundle; /* its `done` and `owner` are the caller's to set */

    /* enact.c's own, until the bundle is prepared. */
    struct store *store;
    struct rules *rules;
    struct bytes text;
    struct stored_definition *stored; /* as the store had them */
    unsigned stored_count;
    uint64_t generation; /* the last one given out, with the new ones */
    uint64_t generation_stored;
};

/* Reads the store and fills `rules`, which have no other holder yet, and the bundle. `text` is the
 * rules' text in the config, kept for the record. ERR_INVALID: the store's counters do not allow
 * these rules; ERR_STORAGE or ERR_CORRUPT: the store could not be read. `why_out` has a sentence
 * for each. The enactment is to be released in any case. */
MUST_USE enum err enact_plan(struct enactment *enactment, struct store *store, struct rules *rules,
                             struct bytes text, struct buf *why_out);
/* Whether the store holds these very rules already, so that the bundle would write nothing. */
bool enact_is_stored(const struct enactment *enactment);
void enact_release(struct enactment *enactment);

/* The object that says that rules of this digest were brought into force: kept where nodes share a
 * store. Made in `arena`. */
struct bytes enact_ruled_key(struct arena *arena, uint64_t digest);

#endif
