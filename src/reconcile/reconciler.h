/* reconciler.h -- keeps reconciled counters right: looks for marked entities, and counts them anew
 * at the pace the config allows.
 *
 *     scanner thread:   reconciler_run     every scanEvery: choose (scan.h), take up (flights.h)
 *     worker threads:   reconciler_work    one entity after the other (pass.h)
 *     readers of HTTP:  ask.h
 *
 * The rules in force say what there is to reconcile; a reload changes it from the next scan on. A
 * scan of an entry goes through all lanes, and what the entry allows (scanLimit, the pace, one
 * tenant after the other) holds over all of them; each pass works in its tenant's lane. Nothing
 * here changes state: passes are proposed and the commit thread decides. */
#ifndef TALLY_RECONCILE_RECONCILER_H
#define TALLY_RECONCILE_RECONCILER_H

#include "commit/lanes.h"
#include "reconcile/entity.h"

struct reconciler;

struct reconciler_config {
    const struct lanes *lanes; /* each one's rulebook, clock and caretaker */
    truth_open_fn *open;
    void *open_context;
};

struct reconciler *reconciler_new(const struct reconciler_config *config);
void reconciler_free(struct reconciler *reconciler); /* its threads have ended */

/* For threads of their own, until reconciler_stop. They start only once the rules are in force:
 * rows of entries that are not in the rules are forgotten. */
void reconciler_run(struct reconciler *reconciler);
void reconciler_work(struct reconciler *reconciler);
void reconciler_stop(struct reconciler *reconciler);

/* For a driver with one thread: makes all scans that are due, then passes one by one; false: there
 * is none to make. */
void reconciler_scan(struct reconciler *reconciler);
bool reconciler_pass(struct reconciler *reconciler);

/* How long the oldest mark has waited and how many there are, as of the last scans. */
void reconciler_gauges(struct reconciler *reconciler);

#endif
