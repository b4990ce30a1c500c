/* propose.h -- a caretaker's bundle: pushed, decided, durable, and only then gone on with.
 *
 * Caretakers that work step by step hand their bundles to a function of this shape, so that the
 * simulator, which has one thread, can turn the wheels itself instead of waiting. */
#ifndef TALLY_COMMIT_PROPOSE_H
#define TALLY_COMMIT_PROPOSE_H

#include <pthread.h>

#include "base/clock.h"
#include "commit/queue.h"
#include "rules/rulebook.h"
#include "core/mark.h"
#include "store/store.h"

/* Returns the bundle's error, ERR_OK if it was decided; each op of a bundle that is not atomic has
 * its own. The bundle's `done` and `owner` are taken. */
typedef enum err propose_fn(void *context, struct bundle *bundle);

/* What the work on rule counters beside the commits stands on. */
struct caretaker {
    struct store *store;
    struct rulebook *rulebook;
    const struct clock *clock;
    pthread_mutex_t *enacting; /* held while rules or generations change */
    uint32_t batch_ops;        /* one commit's */
    size_t batch_weight;
    propose_fn *propose;
    void *context; /* what `propose` is given */
};

/* Waits, on the calling thread; `context` is the queue. */
enum err propose_and_wait(void *context, struct bundle *bundle);

/* Proposes the ops as one change, of which all takes effect or nothing. It is urgent, or, where
 * `turns` has a text, takes turns with the tenants under that name, which begins with a space as no
 * tenant's does. More ops than a batch takes go alone, or they would wait for ever. Errors are the
 * bundle's, as with `propose`. */
MUST_USE enum err propose_all(const struct caretaker *with, struct op *ops, uint32_t count,
                              struct bytes turns);

/* An op that puts an object, or removes it (value of size 0), made in `arena`. The second form is
 * refused with ERR_CONFLICT unless the object still is `expected`. */
struct op propose_object(struct arena *arena, const struct hash_secret *secret, struct bytes key,
                         struct bytes value);
struct op propose_object_if(struct arena *arena, const struct hash_secret *secret, struct bytes key,
                            struct bytes expected, struct bytes value);

/* An op that takes one step of reconciling an entity; the change stays the caller's. */
struct op propose_mark(struct bytes tenant, struct mark_change *change);

/* An op that removes one dimension set of a rule counter; its key (core/name.h) is copied. */
struct op propose_delete(struct arena *arena, const struct hash_secret *secret, struct bytes key);

#endif
