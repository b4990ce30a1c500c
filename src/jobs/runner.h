/* runner.h -- the threads that do jobs (job.h), and which of them does which kind.
 *
 * A job waits in the store until its desk comes to it. A desk has a thread: jobs of one desk are
 * done one after the other, in the order in which they were asked for, and those of different desks
 * at the same time. So a backup that takes hours holds up no rebuild.
 *
 *     files     backup, export, import     a job in one step, which can be told to come back
 *     counts    rebuild                    a chunk of each lane's oldest job in a step
 *
 *     runner_set(runner, DESK_FILES, &work)    before runner_start: who takes the desk's steps
 *     runner_wake(runner, DESK_FILES)          an operator asked for something
 *     runner_stop(runner)                      before runner_free: steps under way come back first
 *
 * (1) The steps of a desk are made by its thread alone, one at a time.
 * (2) A desk rests only if nothing was asked for since its last step began: a job that was put
 *     while the step looked is not left lying.
 * (3) What could not be done is tried again after a while. What was under way when the server stops
 *     or dies is taken up again by the next start, for its record says how far it is.
 *
 * runner_check asserts (1) and what a desk's state allows, before and after each step. */
#ifndef TALLY_JOBS_RUNNER_H
#define TALLY_JOBS_RUNNER_H

#include "jobs/job.h"
#include "store/store.h"

enum desk { DESK_FILES, DESK_COUNTS, DESKS };

/* What a step says of the next one. */
enum desk_next {
    DESK_AGAIN, /* there is more to do now */
    DESK_LATER, /* it could not be done, or this process may not hear when it can */
    DESK_RESTS, /* not before something is asked for */
};

struct desk_work {
    enum desk_next (*step)(void *context);
    void (*stop)(void *context); /* tells a step under way to come back soon; NULL: none is long */
    void *context;
};

struct runner;

struct runner *runner_new(void);
void runner_free(struct runner *runner); /* it was stopped, or never started */

/* Before runner_start. A desk without work has no thread. */
void runner_set(struct runner *runner, enum desk desk, const struct desk_work *work);
void runner_start(struct runner *runner);
/* Any thread. `runner` may be NULL, for a driver that makes the steps itself. */
void runner_wake(struct runner *runner, enum desk desk);
/* Ends the threads once their steps have come back. */
void runner_stop(struct runner *runner);

/* Copies the bytes of the desk's oldest job in `store` that is not over into `arena`; size 0: there
 * is none. They decode. ERR_STORAGE. */
MUST_USE enum err runner_oldest(struct store *store, enum desk desk, struct arena *arena,
                                struct bytes *stored_out);

#endif
