/* tend.c -- the loop around the caretakers.
 *
 * What they let go of cannot be had back, so they go by what of the time is sure (base/moment.h).
 */
#include "tend/tend.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "tend/expire.h"
#include "tend/retain.h"

#define ROUND_MS 20 /* between two rounds while nothing presses */
#define RETAIN_MS_MIN 200
#define RETAIN_MS_MAX (600 * 1000)

struct tend {
    struct tend_config config;
    struct sweep *sweep;
    struct retain *retain;
    int64_t retain_at_ns;
    int64_t sweep_at_ns;
    struct timekeeper_note note;
    atomic_bool noting; /* the note is under way */
    pthread_mutex_t lock;
    pthread_cond_t stopping;
    bool stopped;
};

struct tend *tend_new(const struct tend_config *config)
{
    struct tend *tend = must_calloc(1, sizeof *tend);
    tend->config = *config;
    tend->sweep = sweep_new(config);
    tend->retain = retain_new(config);
    tend->sweep_at_ns = clock_mono_ns(config->clock) + config->sweep_ms * 1000000;
    pthread_mutex_init(&tend->lock, NULL);
    pthread_cond_init(&tend->stopping, NULL);
    return tend;
}

void tend_free(struct tend *tend)
{
    must(!tend->noting);
    sweep_free(tend->sweep);
    retain_free(tend->retain);
    pthread_cond_destroy(&tend->stopping);
    pthread_mutex_destroy(&tend->lock);
    free(tend);
}

static void note_done(struct job *job)
{
    struct tend *tend = job->owner;
    timekeeper_noted(&tend->note);
    tend->noting = false;
}

/* Asking for the time also is what makes somebody look at the clocks while nothing else happens. */
static void watch_clock(struct tend *tend)
{
    struct timekeeper *keeper = tend->config.keeper;
    if (!keeper) return;
    clock_moment(tend->config.clock);
    if (tend->noting || !timekeeper_wants_note(keeper)) return;
    timekeeper_note(keeper, &tend->note, false);
    tend->note.job.done = note_done;
    tend->note.job.owner = tend;
    tend->noting = true;
    if (queue_push(tend->config.queue, &tend->note.job) == ERR_OK) return;
    timekeeper_noted(&tend->note);
    tend->noting = false;
}

static void sweep_if_due(struct tend *tend)
{
    int64_t now_ns = clock_mono_ns(tend->config.clock);
    if (now_ns < tend->sweep_at_ns) return;
    const struct moment moment = clock_moment(tend->config.clock);
    bool more = sweep_step(tend->sweep, moment_sure(&moment));
    if (!more) tend->sweep_at_ns = now_ns + tend->config.sweep_ms * 1000000;
}

/* Often enough that an event is gone soon after its time, and never more than a few times an hour
 * for one that is kept for years. */
static int64_t retain_pause_ms(const struct tend *tend)
{
    int64_t pause = tend->config.retention_ms / 8;
    return pause < RETAIN_MS_MIN ? RETAIN_MS_MIN : pause > RETAIN_MS_MAX ? RETAIN_MS_MAX : pause;
}

static void retain_if_due(struct tend *tend)
{
    int64_t now_ns = clock_mono_ns(tend->config.clock);
    if (now_ns < tend->retain_at_ns) return;
    const struct moment moment = clock_moment(tend->config.clock);
    retain_step(tend->retain, moment_ago(&moment, tend->config.retention_ms));
    tend->retain_at_ns = now_ns + retain_pause_ms(tend) * 1000000;
}

static bool round_once(struct tend *tend)
{
    watch_clock(tend);
    sweep_if_due(tend);
    retain_if_due(tend);
    return store_tend(tend->config.store);
}

void tend_round(struct tend *tend)
{
    round_once(tend);
}

/* True: told to stop. */
static bool pause_round(struct tend *tend, bool pressing)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (pressing ? 1 : ROUND_MS) * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&tend->lock);
    if (!tend->stopped)
        pthread_cond_clockwait(&tend->stopping, &tend->lock, CLOCK_MONOTONIC, &until);
    bool stopped = tend->stopped;
    pthread_mutex_unlock(&tend->lock);
    return stopped;
}

void tend_run(struct tend *tend)
{
    while (!pause_round(tend, round_once(tend)))
        ;
    while (sweep_busy(tend->sweep) || retain_busy(tend->retain) || tend->noting)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void tend_stop(struct tend *tend)
{
    pthread_mutex_lock(&tend->lock);
    tend->stopped = true;
    pthread_mutex_unlock(&tend->lock);
    pthread_cond_signal(&tend->stopping);
}
