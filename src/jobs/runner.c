/* runner.c -- see the header. */
#include "jobs/runner.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/thread.h"
#include "core/object.h"

#define LATER_NS INT64_C(200000000)

static const enum desk desk_of[JOB_KINDS] = {
    [JOB_BACKUP] = DESK_FILES,
    [JOB_EXPORT] = DESK_FILES,
    [JOB_IMPORT] = DESK_FILES,
    [JOB_REBUILD] = DESK_COUNTS,
};
static const char *const thread_names[DESKS] = {
    [DESK_FILES] = "errand",
    [DESK_COUNTS] = "rebuild",
};

struct desk_state {
    struct runner *runner;
    struct desk_work work; /* no step: the desk is not used */
    pthread_t thread;
    uint64_t asked; /* how often something was asked for, */
    uint64_t seen;  /* and how often when the last step began */
    bool working;   /* a step is under way */
};

struct runner {
    pthread_mutex_t lock; /* around all of this, once it is started */
    pthread_cond_t changed;
    struct desk_state desks[DESKS];
    bool started;
    bool stopped;
};

/* By the thread that has the lock. */
static void runner_check(const struct runner *runner)
{
    must(runner->started || !runner->stopped);
    for (unsigned i = 0; i < DESKS; i++) {
        const struct desk_state *desk = &runner->desks[i];
        must(desk->runner == runner);
        must(desk->seen <= desk->asked);
        must(!desk->working || (runner->started && desk->work.step));
    }
}

/* -- One desk ---------------------------------------------------------------------------------- */

static struct timespec later(void)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + LATER_NS;
    until.tv_sec += ns / 1000000000;
    until.tv_nsec = ns % 1000000000;
    return until;
}

/* The lock is held: waits as long as the last step wants it. */
static void pause_desk(struct desk_state *desk, enum desk_next next)
{
    struct runner *runner = desk->runner;
    const struct timespec until = later();
    int late = next == DESK_AGAIN;
    while (!runner->stopped && desk->asked == desk->seen && !late)
        late = next == DESK_RESTS ? pthread_cond_wait(&runner->changed, &runner->lock)
                                  : pthread_cond_clockwait(&runner->changed, &runner->lock,
                                                           CLOCK_MONOTONIC, &until);
}

static enum desk_next make_step(struct desk_state *desk)
{
    struct runner *runner = desk->runner;
    runner_check(runner);
    must(!desk->working);
    desk->seen = desk->asked;
    desk->working = true;
    pthread_mutex_unlock(&runner->lock);
    enum desk_next next = desk->work.step(desk->work.context);
    pthread_mutex_lock(&runner->lock);
    desk->working = false;
    runner_check(runner);
    return next;
}

/* The first step looks for what is left from before. */
static void *desk_main(void *context)
{
    struct desk_state *desk = context;
    struct runner *runner = desk->runner;
    pthread_mutex_lock(&runner->lock);
    while (!runner->stopped)
        pause_desk(desk, make_step(desk));
    pthread_mutex_unlock(&runner->lock);
    return NULL;
}

/* -- All of them ------------------------------------------------------------------------------- */

struct runner *runner_new(void)
{
    struct runner *runner = must_calloc(1, sizeof *runner);
    pthread_mutex_init(&runner->lock, NULL);
    pthread_cond_init(&runner->changed, NULL);
    for (unsigned i = 0; i < DESKS; i++)
        runner->desks[i].runner = runner;
    return runner;
}

void runner_free(struct runner *runner)
{
    must(runner->started == runner->stopped);
    pthread_cond_destroy(&runner->changed);
    pthread_mutex_destroy(&runner->lock);
    free(runner);
}

void runner_set(struct runner *runner, enum desk desk, const struct desk_work *work)
{
    must(!runner->started);
    runner->desks[desk].work = *work;
}

void runner_start(struct runner *runner)
{
    must(!runner->started);
    runner->started = true;
    for (unsigned i = 0; i < DESKS; i++) {
        struct desk_state *desk = &runner->desks[i];
        if (desk->work.step) thread_start(&desk->thread, thread_names[i], desk_main, desk);
    }
}

void runner_wake(struct runner *runner, enum desk desk)
{
    if (!runner) return;
    pthread_mutex_lock(&runner->lock);
    runner->desks[desk].asked++;
    runner_check(runner);
    pthread_cond_broadcast(&runner->changed);
    pthread_mutex_unlock(&runner->lock);
}

void runner_stop(struct runner *runner)
{
    pthread_mutex_lock(&runner->lock);
    must(runner->started && !runner->stopped);
    runner->stopped = true;
    pthread_cond_broadcast(&runner->changed);
    pthread_mutex_unlock(&runner->lock);
    for (unsigned i = 0; i < DESKS; i++)
        if (runner->desks[i].work.stop) runner->desks[i].work.stop(runner->desks[i].work.context);
    for (unsigned i = 0; i < DESKS; i++)
        if (runner->desks[i].work.step) pthread_join(runner->desks[i].thread, NULL);
}

/* -- Looking for work -------------------------------------------------------------------------- */

struct oldest {
    enum desk desk;
    struct arena *arena;
    struct bytes stored;
};

static bool find_oldest(void *context, struct bytes key, struct bytes value)
{
    struct oldest *oldest = context;
    struct job_record job;
    if (!job_met(key, value, &job)) return true;
    if (desk_of[job.kind] != oldest->desk || job_is_over(&job)) return true;
    oldest->stored = arena_copy(oldest->arena, value);
    return false;
}

enum err runner_oldest(struct store *store, enum desk desk, struct arena *arena,
                       struct bytes *stored_out)
{
    struct oldest oldest = {.desk = desk, .arena = arena};
    enum err e = view_objects(&store->view, object_key(arena, OBJECT_JOB, BYTES_NONE), BYTES_NONE,
                              find_oldest, &oldest);
    *stored_out = oldest.stored;
    return e;
}
