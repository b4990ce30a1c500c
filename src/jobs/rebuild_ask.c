/* rebuild_ask.c -- what operators ask for, in one lane: a rebuild, how far it is, and that a
 * counter be forgotten. */
#include "core/name.h"
#include "core/object.h"
#include "jobs/rebuild_internal.h"
#include "jobs/job.h"

#define JOBS_KEPT 100u /* jobs that are over and can still be asked for */

/* Copies one object into `arena`; size 0 if there is none. */
enum err rebuild_read(struct rebuilder *rebuilder, struct arena *arena, struct bytes key,
                      struct bytes *value_out)
{
    struct store *store = rebuilder->config.store;
    struct buf value;
    buf_init(&value, SIZE_MAX / 2);
    enum err e = view_object(&store->view, key, &value);
    *value_out = e == ERR_OK ? arena_copy(arena, buf_bytes(&value)) : BYTES_NONE;
    buf_release(&value);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

struct op rebuild_count_on(struct rebuilder *rebuilder, struct arena *arena, struct bytes name,
                           uint64_t last)
{
    return propose_object_if(
        arena, &rebuilder->config.store->secret, object_key(arena, OBJECT_META, name),
        last ? object_number(arena, last) : BYTES_NONE, object_number(arena, last + 1));
}

/* True also for a series with granularity 0, which is a total of all time as much as a persistent
 * counter is. */
static bool keeps_totals(const struct definition *definition)
{
    if (definition->mode == MODE_PERSISTENT) return true;
    for (unsigned i = 0; i < definition->granularities_count; i++)
        if (definition->granularities[i] == 0) return true;
    return false;
}

/* An older counter had counted what retention let go of. It is asked again as long as the job
 * lasts, for retention goes on meanwhile. */
enum err rebuild_check_history(struct rebuilder *rebuilder, const struct definition *definition)
{
    uint64_t retained_ms;
    if (!keeps_totals(definition)) return ERR_OK;
    if (definition->adjusted) return ERR_HISTORY;
    enum err e = store_number(rebuilder->config.store, META_RETAINED, &retained_ms);
    if (e != ERR_OK) return e;
    return retained_ms > definition->since ? ERR_HISTORY : ERR_OK;
}

struct same_job {
    const struct rebuild_wish *wish;
    struct arena *arena;
    struct bytes value; /* size 0: there is none */
};

static bool find_same(void *context, struct bytes key, struct bytes value)
{
    struct same_job *same = context;
    struct job_record job;
    if (!job_met(key, value, &job) || job.kind != JOB_REBUILD || job.state != JOB_WAITING)
        return true;
    if (!bytes_equal(job.name, same->wish->counter) || job.rebuild.force != same->wish->force ||
        !bytes_equal(job.rebuild.from, same->wish->from))
        return true;
    same->value = arena_copy(same->arena, value);
    return false;
}

/* A rebuild that has not begun yet will do for an operator who asks for the same now. */
enum err rebuilder_find(struct rebuilder *rebuilder, struct arena *arena,
                        const struct rebuild_wish *wish, struct job_record *job_out)
{
    struct store *store = rebuilder->config.store;
    struct same_job same = {.wish = wish, .arena = arena};
    enum err e = view_objects(&store->view, object_key(arena, OBJECT_JOB, BYTES_NONE), BYTES_NONE,
                              find_same, &same);
    *job_out = (struct job_record){0};
    return e == ERR_OK && same.value.size ? job_decode(same.value, job_out) : e;
}

/* A job so old that it is not asked for any more is removed when a new one comes. */
static struct op forget_op(struct rebuilder *rebuilder, struct arena *arena, uint64_t id)
{
    struct bytes key = job_key(arena, id > JOBS_KEPT ? id - JOBS_KEPT : 0);
    struct bytes value;
    struct job_record job;
    enum err e = rebuild_read(rebuilder, arena, key, &value);
    bool over = e == ERR_OK && value.size > 0 && job_met(key, value, &job) &&
                job.kind == JOB_REBUILD && job_is_over(&job);
    return propose_object_if(arena, &rebuilder->config.store->secret, key, value,
                             over ? BYTES_NONE : value);
}

enum err rebuilder_number(struct rebuilder *rebuilder, struct arena *arena, struct job_record *job)
{
    const struct caretaker *config = &rebuilder->config;
    uint64_t last;
    enum err e = store_number(config->store, META_JOBS, &last);
    if (e != ERR_OK) return e;
    job->id = last + 1;
    struct op ops[] = {
        rebuild_count_on(rebuilder, arena, META_JOBS, last),
        propose_object(arena, &config->store->secret, job_key(arena, job->id),
                       job_encode(arena, job)),
        forget_op(rebuilder, arena, job->id),
    };
    return propose_all(&rebuilder->config, ops, 3, BYTES_NONE);
}

enum err rebuilder_join(struct rebuilder *rebuilder, struct arena *arena,
                        const struct job_record *job)
{
    const struct hash_secret *secret = &rebuilder->config.store->secret;
    struct op ops[] = {
        propose_object_if(arena, secret, job_key(arena, job->id), BYTES_NONE,
                          job_encode(arena, job)),
        forget_op(rebuilder, arena, job->id),
    };
    enum err e = propose_all(&rebuilder->config, ops, 2, BYTES_NONE);
    return e == ERR_CONFLICT ? ERR_OK : e; /* it has its part already */
}

enum err rebuilder_check(struct rebuilder *rebuilder, struct arena *arena,
                         const struct rebuild_wish *wish, struct reason *why)
{
    struct rules *rules = rulebook_hold(rebuilder->config.rulebook);
    const struct definition *definition = rules_find(rules, wish->counter);
    enum err e = definition && !definition->frozen ? ERR_OK : ERR_NOT_FOUND;
    if (e == ERR_OK && wish->from.size)
        e = rebuild_check_base(rebuilder, arena, wish->from, wish->force, why);
    else if (e == ERR_OK && !wish->force)
        e = rebuild_check_history(rebuilder, definition);
    rules_release(rules);
    return e;
}

enum err rebuilder_read_job(struct rebuilder *rebuilder, struct arena *arena, uint64_t id,
                            struct job_record *job_out)
{
    struct bytes value;
    enum err e = rebuild_read(rebuilder, arena, job_key(arena, id), &value);
    if (e == ERR_OK && value.size == 0) e = ERR_NOT_FOUND;
    return e == ERR_OK ? job_decode(value, job_out) : e;
}

/* -- Forgetting -------------------------------------------------------------------------------- */

static enum err forget_locked(struct rebuilder *rebuilder, struct arena *arena,
                              const struct definition *definition, struct rules *rules)
{
    const struct caretaker *config = &rebuilder->config;
    const struct hash_secret *secret = &config->store->secret;
    struct op ops[] = {
        propose_object_if(arena, secret, object_key(arena, OBJECT_DEFINITION, definition->name),
                          definition_bytes(arena, definition), BYTES_NONE),
        propose_object(arena, secret,
                       object_garbage_key(arena, definition->name, definition->generation),
                       object_number(arena, (uint64_t)clock_now_ms(config->clock))),
    };
    struct rules *without = rules_without(rules, definition->name);
    struct bundle bundle = {.ops = ops,
                            .count = 2,
                            .urgency = URGENCY_URGENT,
                            .atomic = true,
                            .whole = true,
                            .weighty = true,
                            .rules = without};
    enum err e = config->propose(config->context, &bundle);
    rules_release(without);
    return e;
}

enum err rebuilder_forget(struct rebuilder *rebuilder, struct bytes counter)
{
    struct arena arena;
    arena_init(&arena, 4096);
    pthread_mutex_lock(rebuilder->config.enacting);
    struct rules *rules = rulebook_hold(rebuilder->config.rulebook);
    const struct definition *definition = rules_find(rules, counter);
    enum err e = !definition          ? ERR_NOT_FOUND
                 : definition->frozen ? forget_locked(rebuilder, &arena, definition, rules)
                                      : ERR_MANAGED;
    rules_release(rules);
    pthread_mutex_unlock(rebuilder->config.enacting);
    arena_release(&arena);
    return e;
}
