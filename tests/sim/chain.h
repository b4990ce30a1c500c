/* chain.h -- what may be true: the model as readers see it, and after it one model for each batch
 * whose fate is not known yet, in the order the batches were submitted.
 *
 * `shown` is what was reported durable. `pending` is under way: the next decision builds on its
 * last one. `ghosts` were reported failed (503) by a store that could not yet void them: they must
 * not be seen again, unless a crash comes before the journal could be restarted. A crash leaves
 * `shown` and a prefix of what follows it, nothing else. */
#ifndef TALLY_TESTS_SIM_CHAIN_H
#define TALLY_TESTS_SIM_CHAIN_H

#include "model.h"

#define CHAIN_MAX 16

struct chain {
    struct model shown;
    struct model *pending[CHAIN_MAX];
    unsigned pending_count;
    struct model *ghosts[CHAIN_MAX];
    unsigned ghosts_count;
};

void chain_init(struct chain *chain);
void chain_release(struct chain *chain);
void chain_copy(struct chain *to, const struct chain *from);

/* What the next batch is decided on. */
const struct model *chain_head(const struct chain *chain);
/* A copy of the head at the end of `pending`, to be decided on in place. */
struct model *chain_push(struct chain *chain);

void chain_show_first(struct chain *chain); /* the oldest pending batch is durable */
void chain_show_all(struct chain *chain);
void chain_drop_pending(struct chain *chain);  /* none of it happened */
void chain_doubt_pending(struct chain *chain); /* it becomes ghosts */
void chain_lay_ghosts(struct chain *chain);    /* they are void for good */

/* After a crash: takes the batches up to `sequence` for true, forgets the others. False: no batch
 * ended there. */
bool chain_settle(struct chain *chain, uint64_t sequence);

#endif
