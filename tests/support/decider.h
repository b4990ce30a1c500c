/* decider.h -- the decision by hand: a batch is put together, loaded from a memory store, decided
 * and looked at, then kept or given up.
 *
 *     decider_bundle(&decider, (struct bundle){.atomic = true}, ops, 2);
 *     decider_decide(&decider);      decider.apply.writes, decider.bundles[0] ...
 *     decider_keep(&decider); */
#ifndef TALLY_TESTS_SUPPORT_DECIDER_H
#define TALLY_TESTS_SUPPORT_DECIDER_H

#include "core/apply.h"
#include "store/store.h"
#include "support/asks.h"

#define DECIDER_JOBS_MAX 16u

struct decider {
    struct store *store;
    struct asks asks;
    struct arena arena; /* of the batch */
    struct apply_limits limits;
    struct moment moment; /* batch time; a test moves it */
    bool set_back;        /* and says that it goes back */
    struct rules *rules;  /* in force for the next batch; a test sets and keeps them; NULL: none */
    struct json_parser *parser;
    struct apply apply;
    struct bundle bundles[DECIDER_JOBS_MAX];
    struct slice slices[DECIDER_JOBS_MAX];
    uint32_t bundles_count;
    bool decided; /* and neither kept nor given up */
};

void decider_init(struct decider *decider);
void decider_release(struct decider *decider);

/* Adds a bundle to the batch. Returns its copy of the ops, which holds the outcomes until the next
 * batch begins. */
struct op *decider_bundle(struct decider *decider, struct bundle shape, const struct op *ops,
                          uint32_t count);
void decider_decide(struct decider *decider);
void decider_keep(struct decider *decider);
void decider_give_up(struct decider *decider);

/* A batch of one op, decided and kept. */
struct op decider_do(struct decider *decider, struct op op);

#endif
