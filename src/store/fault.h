/* fault.h -- a store that fails when told to, around any other store.
 *
 * Example:
 *
 *     static struct store *fail_third_read(struct store *inner)
 *     {
 *         struct store *store = fault_new(inner, NULL, NULL);
 *         fault_fail(store, FAULT_LOAD | FAULT_GET, 3); // the third of these from now on, once
 *         return store;
 *     }
 *
 * A call that is made to fail answers ERR_STORAGE and is not made. A sync has to fail underneath,
 * because only there is it known what became of the bytes: see fault_break_fn. Everything else is
 * passed on, so the wrapped store keeps the laws of store.h as well as the inner one does. */
#ifndef TALLY_STORE_FAULT_H
#define TALLY_STORE_FAULT_H

#include "store/store.h"

enum fault_call {
    FAULT_LOAD = 1,
    FAULT_GET = 2,
    FAULT_RANGE = 4,
    FAULT_LIST = 8,
    FAULT_DUE = 16,
    FAULT_SYNC = 32, /* counted only if a batch was submitted since the last one */
    FAULT_BEGIN = 64,
    FAULT_OBJECT = 128,
    FAULT_EVENTS = 256,
    FAULT_READS = FAULT_GET | FAULT_RANGE | FAULT_LIST | FAULT_DUE | FAULT_OBJECT | FAULT_EVENTS,
    FAULT_ALL = 511,
};

/* Makes the sync that follows fail underneath, once: memory_break_sync for a memory store, the disk
 * below for an embedded one. */
typedef void fault_break_fn(void *context, struct store *inner);

/* Takes `inner` over: from now on only the wrapper is used, and closing it closes both. `inner` has
 * had no turn yet. Without `break_sync`, FAULT_SYNC must not be asked for. */
struct store *fault_new(struct store *inner, fault_break_fn *break_sync, void *context);

/* Makes the nth call (1: the next) of the given kinds fail, instead of what was asked before. */
void fault_fail(struct store *store, unsigned calls, uint64_t nth);

/* Nothing fails any more. True: what was asked had not happened yet. */
bool fault_heal(struct store *store);

#endif
