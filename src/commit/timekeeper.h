/* timekeeper.h -- a lane's batch time: the clocks, the line of time made of them, its record.
 *
 *     timekeeper_new(...)         once the store is open: time goes on where its last batch was
 *     timekeeper_clock(keeper)    what commits, reads and caretakers take their time from
 *     timekeeper_note(...)        a bundle that records what the next life must know, or sets back
 *
 * Every question for the time also looks at the clocks, so all threads see one time that never runs
 * back but in a bundle that sets it back. The rules are core/timeline.h's. What they need beyond
 * the time of the last batch is the object META_CLOCK: how much of the time is not sure, since
 * when, and by how much time was set back. Any thread may call, unless said otherwise. */
#ifndef TALLY_COMMIT_TIMEKEEPER_H
#define TALLY_COMMIT_TIMEKEEPER_H

#include "base/clock.h"
#include "commit/propose.h"
#include "core/object.h"
#include "core/timeline.h"
#include "store/store.h"

struct timekeeper;

/* ERR_STORAGE, ERR_CORRUPT: the record cannot be read. */
MUST_USE enum err timekeeper_new(struct timekeeper **keeper_out, const struct clock *clock,
                                 const struct timeline_settings *settings, struct store *store);
void timekeeper_free(struct timekeeper *keeper);

/* Its wall and monotonic clocks are those of `clock`; `moment` is batch time. */
const struct clock *timekeeper_clock(struct timekeeper *keeper);

/* From now on time is another process's, a primary's: its moment, and what has passed since by the
 * clock that never steps. There is nothing to record then. It may only go back where that one's
 * did. */
void timekeeper_follow(struct timekeeper *keeper, const struct moment *moment);

struct timekeeper_state {
    struct moment moment;
    int64_t wall_ms;
    bool suspect;
    bool settling;
    bool synchronised; /* the kernel vouches for the wall clock */
};
void timekeeper_state(struct timekeeper *keeper, struct timekeeper_state *state_out);

/* Believes the wall clock, because an operator says that it is right. */
void timekeeper_accept(struct timekeeper *keeper);

/* A bundle for the queue, and what it works on. It stays where it is until it is answered. */
struct timekeeper_note {
    struct timekeeper *keeper;
    struct arena arena;
    struct bundle bundle;
    struct op ops[2];
    bool operator_says; /* to set time back */
    bool back;          /* it is set back */
    bool applied;       /* the line of time is as `record` says */
    struct clock_record record;
};

/* Whether there is something to record, or to set back. */
bool timekeeper_wants_note(struct timekeeper *keeper);

/* Makes the bundle; `operator_says`: it sets time back to what the wall clock says. Its owner calls
 * timekeeper_noted once it is answered, on any thread, before the memory is let go. False: another
 * one is on its way, and this one would be of what that one may change. */
MUST_USE bool timekeeper_note(struct timekeeper *keeper, struct timekeeper_note *note,
                              bool operator_says);
void timekeeper_noted(struct timekeeper_note *note);

/* Makes the bundle, after another one was answered, pushes it and waits for its answer, if
 * `operator_says` or if there is something to record. */
MUST_USE enum err timekeeper_note_now(struct timekeeper *keeper, struct queue *queue,
                                      bool operator_says);

#endif
