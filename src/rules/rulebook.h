/* rulebook.h -- which rules are in force: for events, for readers, for the next batch.
 *
 * There are two places where rules can be: in force for readers (durable), and in force for the
 * next batch, one step ahead while the batch that changes them is being synced. A batch never sees
 * two rule sets. */
#ifndef TALLY_RULES_RULEBOOK_H
#define TALLY_RULES_RULEBOOK_H

#include "core/rules.h"

struct rulebook;

struct rulebook *rulebook_new(void); /* begins with rules that have no counters */
void rulebook_free(struct rulebook *rulebook);

/* The rules in force, held: give them back with rules_release. Any thread. */
struct rules *rulebook_hold(struct rulebook *rulebook);

/* True: the rules in force have no counters, so there is nothing to look up. Costs no lock. */
bool rulebook_is_empty(const struct rulebook *rulebook);

/* For the commit layer. rulebook_next holds the rules that the next batch goes by; rulebook_decided
 * says that a batch that changes them was decided, rulebook_settled that it became durable or
 * failed. */
struct rules *rulebook_next(struct rulebook *rulebook);
void rulebook_decided(struct rulebook *rulebook, struct rules *rules);
void rulebook_settled(struct rulebook *rulebook, bool durable);

/* For a start at which no batch can be written: rules that the store holds already come into force
 * without one. */
void rulebook_adopt(struct rulebook *rulebook, struct rules *rules);

#endif
