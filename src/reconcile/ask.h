/* ask.h -- what people ask of the reconciler: a pass of one entity now, which entities are wrong,
 * and the state of an entry. For threads that may wait; they ask the source of the truth
 * themselves.
 *
 * ERR_NOT_FOUND: there is no such entry, or not for this tenant. ERR_SOURCE_DOWN,
 * ERR_SOURCE_ANSWER, ERR_HISTORY: it could not be counted, and the log says why. ERR_BUSY: the
 * entity is being counted, or the server is about to stop. */
#ifndef TALLY_RECONCILE_ASK_H
#define TALLY_RECONCILE_ASK_H

#include "reconcile/reconciler.h"

/* Runs a pass: {"entity":{..},"before":{..},"after":{..},"diff":{..},"cleared":true} */
MUST_USE enum err reconcile_now(struct reconciler *reconciler, struct bytes name,
                                struct bytes tenant, struct bytes entity_json,
                                struct buf *json_out);

/* Lists entities that are wrong, as {"entity":{..},"stored":{..},"actual":{..},"drift":{..}} with
 * commas between. It counts `limit` entities at most, and for no more than some seconds. `after` is
 * where the last page ended; `after_out` is left empty on the last one. An entity for which the
 * source gives no count must not hide the others: those are in `uncounted_out`, as {..} with commas
 * between. */
MUST_USE enum err reconcile_drift(struct reconciler *reconciler, struct bytes name,
                                  struct bytes tenant, struct bytes after, int64_t limit,
                                  struct buf *json_out, struct buf *uncounted_out,
                                  struct buf *after_out);

/* Writes {"name":..,"pending":..,"oldestMarkAt":..,"source":"ok","retryInSeconds":0} */
MUST_USE enum err reconcile_status(struct reconciler *reconciler, struct bytes name,
                                   struct bytes tenant, struct buf *json_out);

#endif
