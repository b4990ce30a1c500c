/* tend.c -- the loop around the caretakers. */
#include "tend/tend.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "tend/expire.h"
#include "tend/retain.h"

#define ROUND_MS 20 /* between two rounds while nothing presses */
#define RETAIN_MS_MIN 200
#define RETAIN_MS_MAX (600 * 1000)
#define JUMP_MS (3600 * 1000) /* of the wall clock against the monotonic one */

struct tend {
    struct tend_config config;
    struct sweep *sweep;
    struct retain *retain;
    int64_t retain_at_ns;
    int64_t sweep_at_ns;
    int64_t drift_ms; /* wall minus monotonic, as last believed */
    bool clock_suspect;
    pthread_mutex_t lock;
    pthread_cond_t stopping;
    bool stopped;
};

static int64_t drift_now(const struct tend *tend)
{
    return clock_wall_ms(tend->config.clock) - clock_mono_ns(tend->config.clock) / 1000000;
}

struct tend *tend_new(const struct tend_config *config)
{
    struct tend *tend = must_calloc(1, sizeof *tend);
    tend->config = *config;
    tend->sweep = sweep_new(config);
    tend->retain = retain_new(config);
    tend->drift_ms = drift_now(tend);
    tend->sweep_at_ns = clock_mono_ns(config->clock) + config->sweep_ms * 1000000;
    pthread_mutex_init(&tend->lock, NULL);
    pthread_cond_init(&tend->stopping, NULL);
    return tend;
}

void tend_free(struct tend *tend)
{
    sweep_free(tend->sweep);
    retain_free(tend->retain);
    pthread_cond_destroy(&tend->stopping);
    pthread_mutex_destroy(&tend->lock);
    free(tend);
}

bool tend_clock_suspect(struct tend *tend)
{
    pthread_mutex_lock(&tend->lock);
    bool suspect = tend->clock_suspect;
    pthread_mutex_unlock(&tend->lock);
    return suspect;
}

void tend_confirm_clock(struct tend *tend)
{
    pthread_mutex_lock(&tend->lock);
    tend->clock_suspect = false;
    tend->drift_ms = drift_now(tend);
    pthread_mutex_unlock(&tend->lock);
}

/* A wall clock set far ahead by mistake would expire everything: it is not believed until an
 * operator confirms it. Small steps, as of NTP, are followed. */
static void watch_clock(struct tend *tend)
{
    int64_t drift = drift_now(tend);
    pthread_mutex_lock(&tend->lock);
    int64_t jump = drift - tend->drift_ms;
    bool jumped = !tend->clock_suspect && (jump > JUMP_MS || jump < -JUMP_MS);
    if (jumped)
        tend->clock_suspect = true;
    else if (!tend->clock_suspect)
        tend->drift_ms = drift;
    pthread_mutex_unlock(&tend->lock);
    if (jumped)
        log_line(LOG_WARN, "the wall clock jumped; nothing expires until SIGHUP confirms it",
                 LOG_KV("jumpSeconds", (long long)(jump / 1000)));
}

static void sweep_if_due(struct tend *tend)
{
    int64_t now_ns = clock_mono_ns(tend->config.clock);
    if (now_ns < tend->sweep_at_ns || tend_clock_suspect(tend)) return;
    bool more = sweep_step(tend->sweep, clock_wall_ms(tend->config.clock));
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
    if (now_ns < tend->retain_at_ns || tend_clock_suspect(tend)) return;
    retain_step(tend->retain, clock_wall_ms(tend->config.clock));
    tend->retain_at_ns = now_ns + retain_pause_ms(tend) * 1000000;
}

static bool round_once(struct tend *tend)
{
    watch_clock(tend);
    sweep_if_due(tend);
    retain_if_due(tend);
    return tend->config.store->ops->tend(tend->config.store);
}

void tend_round(struct tend *tend)
{
    round_once(tend);
}

/* True: told to stop. */
static bool pause_round(struct tend *tend, bool pressing)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (pressing ? 1 : ROUND_MS) * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&tend->lock);
    if (!tend->stopped) pthread_cond_timedwait(&tend->stopping, &tend->lock, &until);
    bool stopped = tend->stopped;
    pthread_mutex_unlock(&tend->lock);
    return stopped;
}

void tend_run(struct tend *tend)
{
    while (!pause_round(tend, round_once(tend)))
        ;
    while (sweep_busy(tend->sweep) || retain_busy(tend->retain))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void tend_stop(struct tend *tend)
{
    pthread_mutex_lock(&tend->lock);
    tend->stopped = true;
    pthread_mutex_unlock(&tend->lock);
    pthread_cond_signal(&tend->stopping);
}
