/* care.h -- one caretaker of one lane: a row of the table in tend.c, made once for each lane.
 *
 * A caretaker changes nothing itself. Its step looks at what is there and proposes at most one
 * bundle; until that is answered it is not stepped again. A step never waits for a commit, so a
 * lane that cannot write holds up nobody else's. */
#ifndef TALLY_TEND_CARE_H
#define TALLY_TEND_CARE_H

#include <stdatomic.h>

#include "tend/tend.h"

/* When a step wants to run again. */
enum care_next {
    CARE_RESTS,   /* after its period */
    CARE_AGAIN,   /* with the next round: there is more to do, or it could not be done */
    CARE_PRESSES, /* likewise, and the next round is to be soon */
};

struct care {
    const struct care_kind *kind;
    const struct tend_config *config;
    const struct lane *lane; /* tests have some without a queue or a keeper */
    uint32_t budget;         /* ops that one step proposes at most */
    int64_t due_ns;          /* by the lane's clock */
    atomic_bool proposing;   /* a bundle of it is in the queue or being decided */
    struct must_place place;
};

struct care_kind {
    const char *name;
    int64_t (*period_ms)(const struct tend_config *config); /* NULL: it is due in every round */
    bool rests_first; /* one period passes before the first step */
    bool everywhere;  /* also where another process leads (store_leads) */
    uint32_t budget;  /* the config may lower it */
    struct care *(*make)(uint32_t budget);
    void (*end)(struct care *care); /* frees it; its last bundle was answered */
    enum care_next (*step)(struct care *care);
};

/* Queues the step's bundle, which stays where it is until it is answered; its `done` ends with
 * care_answered. ERR_BUSY, ERR_QUEUE_FULL: there was no room, and `done` is not called. */
MUST_USE enum err care_propose(struct care *care, struct bundle *bundle);
void care_answered(struct care *care);

#endif
