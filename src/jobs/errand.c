/* errand.c -- the thread that runs errands. */
#include "jobs/errand.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/log.h"
#include "core/object.h"
#include "jobs/errand_internal.h"

#define RETRY_MS 500 /* a store in trouble is asked again after this */

/* One errand under way. */
struct work {
    struct errands *errands;
    struct arena arena;
    struct job_record job;
    struct bytes stored; /* its bytes, as expected in the store */
    struct reason why;
};

struct errands *errands_new(const struct errand_config *config)
{
    struct errands *errands = must_calloc(1, sizeof *errands);
    errands->config = *config;
    must(tree_path(errands->backups, config->ops_dir, "backups") == ERR_OK);
    must(tree_path(errands->exports, config->ops_dir, "exports") == ERR_OK);
    pthread_mutex_init(&errands->lock, NULL);
    pthread_cond_init(&errands->changed, NULL);
    errands->asked = true; /* something may be left from before */
    backup_tidy(errands->backups);
    backup_tidy(errands->exports);
    return errands;
}

void errands_free(struct errands *errands)
{
    pthread_cond_destroy(&errands->changed);
    pthread_mutex_destroy(&errands->lock);
    free(errands);
}

static bool is_stopped(struct errands *errands)
{
    pthread_mutex_lock(&errands->lock);
    bool stopped = errands->stopped;
    pthread_mutex_unlock(&errands->lock);
    return stopped;
}

/* -- Moving an errand on ----------------------------------------------------------------------- */

static enum err move(struct work *work)
{
    const struct caretaker *config = &work->errands->config.with;
    struct arena *arena = &work->arena;
    struct bytes next = job_encode(arena, &work->job);
    struct op op = propose_object_if(arena, &config->store->secret, job_key(arena, work->job.id),
                                     work->stored, next);
    struct bundle bundle = {
        .ops = &op, .count = 1, .urgency = URGENCY_URGENT, .atomic = true, .whole = true};
    enum err e = config->propose(config->context, &bundle);
    if (e == ERR_OK) work->stored = next;
    return e;
}

static enum err end(struct work *work, enum err e)
{
    work->job.state = e == ERR_OK ? JOB_DONE : JOB_FAILED;
    work->job.ended_ms = clock_now_ms(work->errands->config.with.clock);
    if (e != ERR_OK && !reason_given(&work->why)) reason_say(&work->why, "%s", err_sentence(e));
    work->job.why = bytes_str(work->why.text);
    if (e != ERR_OK)
        log_line(LOG_ERROR, "an errand failed", LOG_KV("name", work->job.name),
                 LOG_KV("why", work->job.why));
    return move(work);
}

/* -- The thread -------------------------------------------------------------------------------- */

static enum err run_kind(struct work *work)
{
    switch (work->job.kind) {
    case JOB_BACKUP:
        return errand_backup(work->errands, &work->job, &work->why);
    case JOB_EXPORT:
        return errand_export(work->errands, &work->job, &work->why);
    case JOB_IMPORT:
        return errand_import(work->errands, &work->job, &work->why);
    case JOB_REBUILD:
    case JOB_KINDS:
        break;
    }
    unreachable_state(work->job.kind);
}

static void set_running(struct errands *errands, uint64_t id)
{
    atomic_store(&errands->effort.done, 0);
    atomic_store(&errands->effort.total, 0);
    pthread_mutex_lock(&errands->lock);
    errands->running = id;
    pthread_mutex_unlock(&errands->lock);
}

static enum err run(struct work *work)
{
    enum err e = tree_make(work->errands->config.ops_dir);
    if (e != ERR_OK)
        reason_say(&work->why, "%s cannot be made: %s", work->errands->config.ops_dir,
                   strerror(errno));
    if (e == ERR_OK) e = run_kind(work);
    return e;
}

/* False: the store is in trouble; what it did is seen when it is looked for again. */
static bool run_stored(struct errands *errands, struct bytes stored)
{
    struct work work = {.errands = errands, .stored = stored};
    enum err decoded = job_decode(stored, &work.job);
    must(decoded == ERR_OK); /* find_unfinished has seen it */
    arena_init(&work.arena, 4096);
    reason_clear(&work.why);
    set_running(errands, work.job.id);
    enum err e = ERR_OK;
    if (work.job.state == JOB_WAITING) {
        work.job.state = JOB_RUNNING;
        e = move(&work);
    }
    if (e == ERR_OK) {
        e = run(&work);
        /* ERR_BUSY: told to stop, or the store is in trouble; it is taken up again. */
        e = e == ERR_BUSY || (e != ERR_OK && is_stopped(errands)) ? ERR_BUSY : end(&work, e);
    }
    set_running(errands, 0);
    arena_release(&work.arena);
    return e == ERR_OK;
}

struct unfinished {
    struct arena *arena;
    struct bytes value;
};

static bool find_unfinished(void *context, struct bytes key, struct bytes value)
{
    struct unfinished *unfinished = context;
    struct job_record job;
    if (!job_met(key, value, &job) || job.kind == JOB_REBUILD || job_is_over(&job)) return true;
    unfinished->value = arena_copy(unfinished->arena, value);
    return false;
}

/* Runs one errand. False: there is none; `*failed_out` if it has to be tried again later. */
static bool step(struct errands *errands, bool *failed_out)
{
    struct store *store = errands->config.with.store;
    struct arena arena;
    arena_init(&arena, 4096);
    struct unfinished unfinished = {.arena = &arena};
    enum err e = view_objects(&store->view, object_key(&arena, OBJECT_JOB, BYTES_NONE), BYTES_NONE,
                              find_unfinished, &unfinished);
    bool some = e == ERR_OK && unfinished.value.size > 0;
    *failed_out = e != ERR_OK || (some && !run_stored(errands, unfinished.value));
    arena_release(&arena);
    return some;
}

/* True: told to stop. */
static bool pause_work(struct errands *errands, bool failed)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += RETRY_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&errands->lock);
    while (!errands->asked && !errands->stopped && !failed)
        pthread_cond_wait(&errands->changed, &errands->lock);
    if (failed && !errands->stopped)
        pthread_cond_clockwait(&errands->changed, &errands->lock, CLOCK_MONOTONIC, &until);
    errands->asked = false;
    bool stopped = errands->stopped;
    pthread_mutex_unlock(&errands->lock);
    return stopped;
}

void errands_run(struct errands *errands)
{
    bool failed = false;
    while (!pause_work(errands, failed)) {
        while (step(errands, &failed) && !failed && !is_stopped(errands))
            ;
    }
}

void errands_stop(struct errands *errands)
{
    atomic_store(&errands->effort.stop, true);
    pthread_mutex_lock(&errands->lock);
    errands->stopped = true;
    pthread_cond_signal(&errands->changed);
    pthread_mutex_unlock(&errands->lock);
}
