/* rebuilds.c -- rebuilds over all lanes: asking, looking, and steps. */
#include "jobs/rebuild.h"

#include <stdlib.h>

#include "core/object.h"
#include "jobs/rebuild_internal.h"

struct rebuilds {
    struct rebuilder *rebuilders; /* one for each lane */
    unsigned count;
    bool joined;           /* the stepping thread's: every lane has its part of every job */
    struct runner *runner; /* is woken when an operator asked; NULL: a driver makes the steps */
};

/* -- Asking ------------------------------------------------------------------------------------ */

/* Gives the job that the first lane has in the end: an older one that waits for the same, or a new
 * one. */
static enum err find_or_number(struct rebuilds *rebuilds, struct arena *arena,
                               const struct rebuild_wish *wish, struct job_record *job)
{
    struct rebuilder *first = rebuilds->rebuilders;
    enum err e = rebuilder_find(first, arena, wish, job);
    if (e != ERR_OK || job->id) return e;
    *job = (struct job_record){.kind = JOB_REBUILD,
                               .name = wish->counter,
                               .asked_ms = clock_now_ms(first->config.clock),
                               .rebuild = {.force = wish->force, .from = wish->from}};
    do
        e = rebuilder_number(first, arena, job);
    while (e == ERR_CONFLICT); /* two asked at once */
    return e;
}

/* A record is put only after every lane has said that it can rebuild. */
static enum err ask(struct rebuilds *rebuilds, struct arena *arena, const struct rebuild_wish *wish,
                    struct job_record *job, struct reason *why)
{
    enum err e = ERR_OK;
    for (unsigned i = 0; i < rebuilds->count && e == ERR_OK; i++)
        e = rebuilder_check(&rebuilds->rebuilders[i], arena, wish, why);
    if (e == ERR_OK) e = find_or_number(rebuilds, arena, wish, job);
    for (unsigned i = 1; i < rebuilds->count && e == ERR_OK; i++)
        e = rebuilder_join(&rebuilds->rebuilders[i], arena, job);
    return e;
}

enum err rebuild_ask(struct rebuilds *rebuilds, const struct rebuild_wish *wish, struct buf *id_out,
                     struct reason *why_out)
{
    struct arena arena;
    struct job_record job;
    arena_init(&arena, 4096);
    reason_clear(why_out);
    enum err e = ask(rebuilds, &arena, wish, &job, why_out);
    if (e == ERR_OK) {
        buf_add_u64(id_out, job.id);
        runner_wake(rebuilds->runner, DESK_COUNTS);
    }
    arena_release(&arena);
    return e;
}

/* -- Looking ----------------------------------------------------------------------------------- */

/* The job runs from when the first lane begins until the last has ended; it failed if any lane
 * failed. */
static enum job_state state_of_both(const struct job_record *a, const struct job_record *b)
{
    if (job_is_over(a) && job_is_over(b))
        return a->state == JOB_FAILED || b->state == JOB_FAILED ? JOB_FAILED : JOB_DONE;
    return a->state == JOB_WAITING && b->state == JOB_WAITING ? JOB_WAITING : JOB_RUNNING;
}

/* What one lane's record adds to those before it. */
static void add_part(struct job_record *job, const struct job_record *part)
{
    enum job_state state = state_of_both(job, part);
    if (job->state != JOB_FAILED) job->why = part->why;
    if (part->ended_ms > job->ended_ms) job->ended_ms = part->ended_ms;
    job->position += part->position;
    job->size += part->size;
    job->sequence += part->sequence;
    job->state = state;
}

/* A lane without a record has not joined yet, or has ended so long ago that the record is gone. */
static enum err read_whole(struct rebuilds *rebuilds, struct arena *arena, uint64_t id,
                           struct job_record *job)
{
    enum err e = rebuilder_read_job(rebuilds->rebuilders, arena, id, job);
    for (unsigned i = 1; i < rebuilds->count && e == ERR_OK && job->kind == JOB_REBUILD; i++) {
        struct job_record part;
        e = rebuilder_read_job(&rebuilds->rebuilders[i], arena, id, &part);
        if (e == ERR_OK) add_part(job, &part);
        if (e == ERR_NOT_FOUND) e = ERR_OK;
    }
    if (e == ERR_OK && !job_is_over(job)) {
        job->ended_ms = 0;
        job->why = BYTES_NONE;
    }
    return e;
}

enum err rebuild_describe(struct rebuilds *rebuilds, struct bytes id, struct buf *json_out)
{
    struct arena arena;
    struct job_record job;
    uint64_t number = 0;
    if (id.size == 0 || id.size > 18) return ERR_NOT_FOUND;
    for (size_t i = 0; i < id.size; i++) {
        if (id.data[i] < '0' || id.data[i] > '9') return ERR_NOT_FOUND;
        number = number * 10 + (uint64_t)(id.data[i] - '0');
    }
    arena_init(&arena, 4096);
    enum err e = read_whole(rebuilds, &arena, number, &job);
    if (e == ERR_OK) job_write(json_out, &job, 0);
    arena_release(&arena);
    return e;
}

/* A counter that an earlier try forgot in some lanes only is forgotten in the others now. */
enum err rebuild_forget(struct rebuilds *rebuilds, struct bytes counter)
{
    bool any = false;
    enum err e = ERR_OK;
    for (unsigned i = 0; i < rebuilds->count && e == ERR_OK; i++) {
        e = rebuilder_forget(&rebuilds->rebuilders[i], counter);
        any |= e == ERR_OK;
        if (e == ERR_NOT_FOUND) e = ERR_OK;
    }
    if (any) runner_wake(rebuilds->runner, DESK_COUNTS);
    return e == ERR_OK && !any ? ERR_NOT_FOUND : e;
}

/* -- Steps ------------------------------------------------------------------------------------- */

struct unfinished_jobs {
    struct arena *arena;
    struct job_record *jobs;
    unsigned count;
    unsigned capacity;
};

static void note_unfinished(struct unfinished_jobs *unfinished, const struct job_record *job)
{
    if (unfinished->count == unfinished->capacity) {
        unsigned capacity = unfinished->capacity * 2 + 8;
        struct job_record *more = arena_alloc(unfinished->arena, capacity * sizeof *more);
        if (unfinished->count) memcpy(more, unfinished->jobs, unfinished->count * sizeof *more);
        unfinished->jobs = more;
        unfinished->capacity = capacity;
    }
    unfinished->jobs[unfinished->count++] =
        (struct job_record){.id = job->id,
                            .kind = JOB_REBUILD,
                            .name = arena_copy(unfinished->arena, job->name),
                            .asked_ms = job->asked_ms,
                            .rebuild = {.force = job->rebuild.force,
                                        .from = arena_copy(unfinished->arena, job->rebuild.from)}};
}

static bool find_unfinished(void *context, struct bytes key, struct bytes value)
{
    struct job_record job;
    if (job_met(key, value, &job) && job.kind == JOB_REBUILD && !job_is_over(&job))
        note_unfinished(context, &job);
    return true;
}

/* Puts the records that a crash left missing: it may have come between those of two lanes. */
static enum err join_lanes(struct rebuilds *rebuilds, struct arena *arena)
{
    struct unfinished_jobs unfinished = {.arena = arena};
    struct store *first = rebuilds->rebuilders[0].config.store;
    enum err e = view_objects(&first->view, object_key(arena, OBJECT_JOB, BYTES_NONE), BYTES_NONE,
                              find_unfinished, &unfinished);
    for (unsigned j = 0; j < unfinished.count && e == ERR_OK; j++)
        for (unsigned i = 1; i < rebuilds->count && e == ERR_OK; i++)
            e = rebuilder_join(&rebuilds->rebuilders[i], arena, &unfinished.jobs[j]);
    return e;
}

/* Runs once in a life, before the first step. False: a lane could not be written; it is tried
 * again. */
static bool all_joined(struct rebuilds *rebuilds)
{
    if (rebuilds->joined) return true;
    struct arena arena;
    arena_init(&arena, 4096);
    rebuilds->joined = rebuilds->count == 1 || join_lanes(rebuilds, &arena) == ERR_OK;
    arena_release(&arena);
    return rebuilds->joined;
}

/* Another process may be asked, and this one not hear of it. */
static bool is_shared(const struct rebuilds *rebuilds)
{
    return rebuilds->rebuilders[0].config.store->remote;
}

enum desk_next rebuild_step(struct rebuilds *rebuilds)
{
    bool more = false;
    bool idle = all_joined(rebuilds);
    for (unsigned i = 0; i < rebuilds->count; i++) {
        bool lane_idle;
        if (!store_leads(rebuilds->rebuilders[i].config.store)) {
            idle = false; /* until this process leads: nobody will say when that is */
            continue;
        }
        const struct must_place place = {.state = "rebuild", .lane = i};
        must_at = &place;
        more |= rebuilder_step(&rebuilds->rebuilders[i], &lane_idle);
        must_at = NULL;
        idle &= lane_idle;
    }
    if (more) return DESK_AGAIN;
    return idle && !is_shared(rebuilds) ? DESK_RESTS : DESK_LATER;
}

static enum desk_next step_all(void *context)
{
    return rebuild_step(context);
}

/* -- Beginning and end ------------------------------------------------------------------------- */

struct rebuilds *rebuilds_new(const struct lanes *lanes, const char *exports, struct runner *runner)
{
    struct rebuilds *rebuilds = must_calloc(1, sizeof *rebuilds);
    rebuilds->count = lanes->count;
    rebuilds->rebuilders = must_calloc(lanes->count, sizeof *rebuilds->rebuilders);
    for (unsigned i = 0; i < lanes->count; i++)
        rebuilder_init(&rebuilds->rebuilders[i], lanes, i, exports);
    rebuilds->runner = runner;
    const struct desk_work work = {.step = step_all, .context = rebuilds};
    if (runner) runner_set(runner, DESK_COUNTS, &work);
    return rebuilds;
}

void rebuilds_free(struct rebuilds *rebuilds)
{
    for (unsigned i = 0; i < rebuilds->count; i++)
        rebuilder_release(&rebuilds->rebuilders[i]);
    free(rebuilds->rebuilders);
    free(rebuilds);
}
