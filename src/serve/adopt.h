/* adopt.h -- rules that another node brought into force, where nodes share a store.
 *
 * A lane's store holds the text of the rules in force and the definitions of their counters. Before
 * a node decides a batch it takes them over if they have changed (commit_config.follow). A text
 * that is the own file's stands for the file's rules, reconciliation and all. Another text is
 * parsed; then events.types stays the file's, and this node reconciles nothing until it has the
 * same file, because sources are known to files alone. */
#ifndef TALLY_SERVE_ADOPT_H
#define TALLY_SERVE_ADOPT_H

#include "commit/lanes.h"
#include "config/config.h"

struct adopter;

/* `config` is the node's own; of its rules a reference is held. */
struct adopter *adopter_new(const struct lanes *lanes, const struct config *config);
void adopter_free(struct adopter *adopter);

/* Any thread. The node's own file has these rules now. */
void adopter_own(struct adopter *adopter, const struct config *config);

/* Within a turn of the lane, or before it has any. Puts the rules that its store holds into its
 * rulebook. ERR_STORAGE, ERR_CORRUPT: they cannot be read, or understood. */
MUST_USE enum err adopter_adopt(struct adopter *adopter, unsigned lane);

/* Whether the node's own rules were in force in this database once and no longer are. */
MUST_USE enum err adopter_is_old(struct adopter *adopter, bool *old_out);

#endif
