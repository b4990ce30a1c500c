/* errand.c -- one errand from its record to its end. */
#include "jobs/errand.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/log.h"
#include "core/object.h"
#include "jobs/errand_internal.h"

/* One errand under way. */
struct work {
    struct errands *errands;
    struct arena arena;
    struct job_record job;
    struct bytes stored; /* its bytes, as expected in the store */
    bool begun;          /* nothing of it is this process's from before */
    struct reason why;
};

/* Whether this process does it, or did before it died. */
static bool is_own(const struct work *work)
{
    const char *node = work->errands->config.node;
    return !node || bytes_equal(work->job.node, bytes_str(node));
}

static bool is_stopped(struct errands *errands)
{
    return atomic_load(&errands->effort.stop);
}

/* -- Moving an errand on ----------------------------------------------------------------------- */

static enum err move(struct work *work)
{
    const struct caretaker *config = &work->errands->config.with;
    struct arena *arena = &work->arena;
    struct bytes next = job_encode(arena, &work->job);
    struct op op = propose_object_if(arena, &config->store->secret, job_key(arena, work->job.id),
                                     work->stored, next);
    enum err e = propose_all(config, &op, 1, BYTES_NONE);
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

/* -- Doing it ---------------------------------------------------------------------------------- */

/* Waiting ones, and those of a node that led before. ERR_CONFLICT: another node was faster. */
static enum err begin(struct work *work)
{
    const char *node = work->errands->config.node;
    if (work->job.state == JOB_RUNNING && is_own(work)) return ERR_OK;
    work->job.state = JOB_RUNNING;
    if (node) work->job.node = bytes_str(node);
    work->begun = true;
    return move(work);
}

/* Whoever was asked need not have seen the files of the node that does it. */
static enum err check_name(struct work *work)
{
    const struct job_record *job = &work->job;
    if (!work->begun || job->kind != JOB_EXPORT) return ERR_OK;
    if (!errand_file_exists(work->errands, job->kind, job->name)) return ERR_OK;
    return reason_err(&work->why, ERR_CONFLICT, "there is an export of that name in %s",
                      work->errands->exports);
}

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
    atomic_store(&errands->running, id);
}

static enum err run(struct work *work)
{
    enum err e = tree_make(work->errands->config.ops_dir);
    if (e != ERR_OK)
        reason_say(&work->why, "%s cannot be made: %s", work->errands->config.ops_dir,
                   strerror(errno));
    if (e == ERR_OK) e = check_name(work);
    if (e == ERR_OK) e = run_kind(work);
    return e;
}

/* False: the store is in trouble; what it did is seen when it is looked for again. */
static bool run_stored(struct errands *errands, struct bytes stored)
{
    struct work work = {.errands = errands, .stored = stored};
    enum err decoded = job_decode(stored, &work.job);
    must(decoded == ERR_OK); /* runner_oldest has seen it */
    const struct must_place place = {.state = job_type(work.job.kind)};
    must_at = &place;
    arena_init(&work.arena, 4096);
    reason_clear(&work.why);
    set_running(errands, work.job.id);
    enum err e = begin(&work);
    if (e == ERR_OK) {
        e = run(&work);
        /* ERR_BUSY: told to stop, or the store is in trouble; it is taken up again. */
        e = e == ERR_BUSY || (e != ERR_OK && is_stopped(errands)) ? ERR_BUSY : end(&work, e);
    }
    set_running(errands, 0);
    arena_release(&work.arena);
    must_at = NULL;
    return e == ERR_OK;
}

static enum desk_next errands_step(void *context)
{
    struct errands *errands = context;
    struct store *store = errands->config.with.store;
    struct arena arena;
    struct bytes stored;
    if (!store_leads(store)) return DESK_LATER;
    arena_init(&arena, 4096);
    enum err e = runner_oldest(store, DESK_FILES, &arena, &stored);
    enum desk_next next = DESK_LATER;
    if (e == ERR_OK &&
        stored.size == 0) /* another node may be asked, and this one not hear of it */
        next = store->remote ? DESK_LATER : DESK_RESTS;
    else if (e == ERR_OK && run_stored(errands, stored))
        next = DESK_AGAIN;
    arena_release(&arena);
    return next;
}

static void errands_stop(void *context)
{
    struct errands *errands = context;
    atomic_store(&errands->effort.stop, true);
}

/* -- Beginning and end ------------------------------------------------------------------------- */

struct errands *errands_new(const struct errand_config *config)
{
    struct errands *errands = must_calloc(1, sizeof *errands);
    errands->config = *config;
    must(tree_path(errands->backups, config->ops_dir, "backups") == ERR_OK);
    must(tree_path(errands->exports, config->ops_dir, "exports") == ERR_OK);
    backup_tidy(errands->backups);
    if (!config->node) backup_tidy(errands->exports); /* other nodes may write there */
    const struct desk_work work = {errands_step, errands_stop, errands};
    if (config->runner) runner_set(config->runner, DESK_FILES, &work);
    return errands;
}

void errands_free(struct errands *errands)
{
    free(errands);
}
