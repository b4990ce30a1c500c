/* flights.h -- which entities are being counted, and which were taken up too lately to be again.
 *
 * They are in memory only, by the monotonic clock: a server that starts anew knows of none in
 * flight, so a pass that died with the old one holds nothing up (S2-32). Not thread-safe: the owner
 * locks. */
#ifndef TALLY_RECONCILE_FLIGHTS_H
#define TALLY_RECONCILE_FLIGHTS_H

#include "base/bytes.h"
#include "base/table.h"

struct flights {
    struct table table;
};

void flights_init(struct flights *flights);
void flights_release(struct flights *flights);

/* Takes `key` up, for `flight_ns` from now and as long as its pass lasts. False: it is in
 * flight. */
MUST_USE bool flights_take(struct flights *flights, struct bytes key, int64_t now_ns,
                           int64_t flight_ns);
/* The same, whenever the key was taken up last. False: its pass is not over. */
MUST_USE bool flights_seize(struct flights *flights, struct bytes key, int64_t now_ns);
/* The pass that began at `began_ns` is over; the key is left alone until `rest_ns` after that. */
void flights_land(struct flights *flights, struct bytes key, int64_t began_ns, int64_t rest_ns);
/* True: its pass is not over. */
bool flights_is_up(const struct flights *flights, struct bytes key);
/* Forgets the keys that nothing holds back any more. */
void flights_trim(struct flights *flights, int64_t now_ns);

#endif
