/* lane.c -- see the header. */
#include "commit/lane.h"

#include <sys/prctl.h>
#include <time.h>

#include "base/thread.h"
#include "commit/pace.h"

void lane_check(const struct lane *lane)
{
    const struct caretaker *with = &lane->caretaker;
    must(lane->state != LANE_CLOSED);
    must(lane->store && lane->queue && lane->rulebook && lane->keeper && lane->commit);
    must(lane->clock == timekeeper_clock(lane->keeper));
    must(with->store == lane->store && with->context == lane->queue);
    must(with->rulebook == lane->rulebook && with->clock == lane->clock);
    must(with->enacting == &lane->enacting);
}

static void lane_enter(struct lane *lane, enum lane_state from, enum lane_state state)
{
    must(lane->state == from);
    lane->state = state;
    lane_check(lane);
}

static void make_commit(struct lane *lane, const struct lane_config *config)
{
    const struct commit_config commit = {.lane = lane->index,
                                         .queue = lane->queue,
                                         .store = lane->store,
                                         .rulebook = lane->rulebook,
                                         .clock = lane->clock,
                                         .limits = config->limits,
                                         .batch_ops_max = config->batch_ops_max,
                                         .batches_max = PACE_BATCHES_MAX,
                                         .small_ops = PACE_SMALL_OPS,
                                         .answered = config->answered,
                                         .follow = config->follow,
                                         .context = config->context};
    lane->commit = commit_new(&commit);
}

enum err lane_open(struct lane *lane, const struct lane_config *config)
{
    *lane = (struct lane){.index = config->index, .store = config->store};
    pthread_mutex_init(&lane->enacting, NULL);
    enum err e = timekeeper_new(&lane->keeper, config->clock, &config->timeline, lane->store);
    if (e != ERR_OK) return e;
    lane->clock = timekeeper_clock(lane->keeper);
    lane->queue = queue_new(&config->queue, config->room);
    lane->rulebook = rulebook_new();
    make_commit(lane, config);
    lane->caretaker = (struct caretaker){.store = lane->store,
                                         .rulebook = lane->rulebook,
                                         .clock = lane->clock,
                                         .enacting = &lane->enacting,
                                         .batch_ops = config->batch_ops_max,
                                         .batch_weight = config->limits.batch_weight,
                                         .propose = propose_and_wait,
                                         .context = lane->queue};
    lane_enter(lane, LANE_CLOSED, LANE_OPEN);
    return ERR_OK;
}

void lane_close(struct lane *lane)
{
    if (!lane->store) return;
    must(lane->state != LANE_RUNNING);
    if (lane->state != LANE_CLOSED) lane_check(lane); /* else it did not open */
    if (lane->commit) commit_free(lane->commit);
    if (lane->keeper) timekeeper_free(lane->keeper);
    if (lane->rulebook) rulebook_free(lane->rulebook);
    if (lane->queue) queue_free(lane->queue);
    pthread_mutex_destroy(&lane->enacting);
    store_close(lane->store);
    *lane = (struct lane){0};
}

static void *commit_main(void *context)
{
    struct lane *lane = context;
    prctl(PR_SET_TIMERSLACK, 1); /* it waits for fractions of a sync */
    while (queue_wait(lane->queue)) {
        commit_turn(lane->commit);
        commit_rest(lane->commit);
    }
    commit_close(lane->commit);
    return NULL;
}

static void *sync_main(void *context)
{
    struct lane *lane = context;
    while (commit_sync(lane->commit))
        ;
    return NULL;
}

void lane_start(struct lane *lane)
{
    lane_enter(lane, LANE_OPEN, LANE_RUNNING);
    thread_start(&lane->sync_thread, "sync", sync_main, lane);
    thread_start(&lane->commit_thread, "commit", commit_main, lane);
}

static int64_t cpu_ns(pthread_t thread)
{
    clockid_t clock;
    struct timespec time;
    if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

struct lane_cpu lane_cpu(const struct lane *lane)
{
    must(lane->state == LANE_RUNNING);
    return (struct lane_cpu){.commit_ns = cpu_ns(lane->commit_thread),
                             .sync_ns = cpu_ns(lane->sync_thread)};
}

void lane_stop(struct lane *lane)
{
    lane_check(lane);
    queue_stop(lane->queue);
    pthread_join(lane->commit_thread, NULL);
    pthread_join(lane->sync_thread, NULL);
    lane_enter(lane, LANE_RUNNING, LANE_STOPPED);
}
