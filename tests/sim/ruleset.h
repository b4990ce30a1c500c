/* ruleset.h -- what a seed's rules say, as plain numbers: the simulator's own reading of SPEC 7,
 * from which both the config's text and the model's decisions are made.
 *
 * An event has a type and up to four values: dimensions a, b and e (the entity), payload.p, and an
 * amount payload.n. Values are numbers from 1 on; 0 is one that is not there. */
#ifndef TALLY_TESTS_SIM_RULESET_H
#define TALLY_TESTS_SIM_RULESET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "dice.h"

#define RULESET_COUNTERS 5
#define RULESET_SETS 3
#define RULESET_RULES 3
#define RULESET_TYPES 4
#define RULESET_VALUES 2   /* of a, b and p */
#define RULESET_ENTITIES 3 /* of e */
#define RULESET_STATUSES 3 /* the first is "active" */

/* Which values a cell is kept for: a + 3 b + 9 p, 0 where the set does not have it. */
#define RULESET_CODES 27

enum ruleset_mode { RULESET_PERSISTENT, RULESET_WINDOWED, RULESET_SERIES };
enum ruleset_part { RULESET_A = 1, RULESET_B = 2, RULESET_P = 4 };

struct ruleset_rule {
    unsigned type;
    bool down;
    int64_t amount; /* 0: payload.n */
    unsigned where; /* enum ruleset_part of which the value is to be 1; 0: any event */
};

struct ruleset_counter {
    bool there;
    enum ruleset_mode mode;      /* the same in every set of the seed */
    unsigned sets[RULESET_SETS]; /* parts of each; no two the same */
    unsigned sets_count;
    struct ruleset_rule rules[RULESET_RULES];
    unsigned rules_count;
    bool floor_at_zero;
    bool safe; /* transition-safe, by e */
    bool usage;
    int64_t window_ms;
    bool trailing;
    int32_t trailing_seconds;
    int32_t granularities[3]; /* in order */
    unsigned granularities_count;
    int64_t keep_ms; /* 0: for ever */
};

struct ruleset {
    struct ruleset_counter counters[RULESET_COUNTERS];
    unsigned statuses[RULESET_TYPES]; /* 1 to RULESET_STATUSES; 0: none */
    unsigned entity;                  /* parts of what is reconciled; 0: nothing is */
};

#define RULESET_RECONCILE "truth" /* the name of the one entry */

const char *ruleset_counter_name(unsigned counter);
const char *ruleset_status(unsigned status);
const char *ruleset_type(unsigned type);
/* Whether a cell of this code is kept for exactly these parts. */
bool ruleset_code_is(unsigned code, unsigned parts);
/* Whether the counter is listed in the entry. */
bool ruleset_reconciles(const struct ruleset *rules, unsigned counter);
/* The canonical JSON of what a cell is kept for. */
const char *ruleset_json(unsigned code);
/* The other way round; false: no cell is kept for that. */
bool ruleset_code(struct bytes json, unsigned *code_out);

void ruleset_make(struct ruleset *rules, struct dice *dice);
/* As a config file has it. */
void ruleset_write(const struct ruleset *rules, struct buf *buf);

#endif
