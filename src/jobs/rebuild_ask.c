/* rebuild_ask.c -- what operators ask for: a rebuild, how far it is, and that a counter be
 * forgotten. */
#include "core/name.h"
#include "core/object.h"
#include "tend/garbage.h"
#include "jobs/rebuild_internal.h"
#include "jobs/job.h"

#define JOBS_KEPT 100u /* that are over, to be asked for */

/* A copy in `arena`; size 0 if there is none. */
enum err rebuild_read(struct rebuilds *rebuilds, struct arena *arena, struct bytes key,
                      struct bytes *value_out)
{
    struct store *store = rebuilds->config.store;
    struct buf value;
    buf_init(&value, SIZE_MAX / 2);
    enum err e = view_object(&store->view, key, &value);
    *value_out = e == ERR_OK ? arena_copy(arena, buf_bytes(&value)) : BYTES_NONE;
    buf_release(&value);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

struct op rebuild_count_on(struct rebuilds *rebuilds, struct arena *arena, struct bytes name,
                           uint64_t last)
{
    return propose_object_if(
        arena, &rebuilds->config.store->secret, object_key(arena, OBJECT_META, name),
        last ? object_number(arena, last) : BYTES_NONE, object_number(arena, last + 1));
}

/* A series' granularity 0 is a total of all time as much as a persistent counter is. */
static bool keeps_totals(const struct definition *definition)
{
    if (definition->mode == MODE_PERSISTENT) return true;
    return definition->granularities_count > 0 && definition->granularities[0] == 0;
}

/* What retention let go of, an older counter had counted. Asked again as long as the job lasts, for
 * retention goes on meanwhile. */
enum err rebuild_check_history(struct rebuilds *rebuilds, const struct definition *definition)
{
    uint64_t retained_ms;
    if (!keeps_totals(definition)) return ERR_OK;
    if (definition->adjusted) return ERR_HISTORY;
    enum err e = store_number(rebuilds->config.store, META_RETAINED, &retained_ms);
    if (e != ERR_OK) return e;
    return retained_ms > definition->since ? ERR_HISTORY : ERR_OK;
}

struct same_job {
    const struct rebuild_wish *wish;
    uint64_t id; /* 0: none */
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
    same->id = job.id;
    return false;
}

/* A rebuild that has not begun yet will do for whoever asks for the same now. */
static enum err find_waiting(struct rebuilds *rebuilds, struct arena *arena,
                             const struct rebuild_wish *wish, uint64_t *id_out)
{
    struct store *store = rebuilds->config.store;
    struct same_job same = {.wish = wish};
    enum err e = view_objects(&store->view, object_key(arena, OBJECT_JOB, BYTES_NONE), BYTES_NONE,
                              find_same, &same);
    *id_out = same.id;
    return e;
}

/* Of a job so old that nobody asks for it any more: removed when a new one comes. */
static struct op forget_op(struct rebuilds *rebuilds, struct arena *arena, uint64_t id)
{
    struct bytes key = job_key(arena, id > JOBS_KEPT ? id - JOBS_KEPT : 0);
    struct bytes value;
    struct job_record job;
    enum err e = rebuild_read(rebuilds, arena, key, &value);
    bool over = e == ERR_OK && value.size > 0 && job_met(key, value, &job) &&
                job.kind == JOB_REBUILD && job_is_over(&job);
    return propose_object_if(arena, &rebuilds->config.store->secret, key, value,
                             over ? BYTES_NONE : value);
}

static enum err put_new_job(struct rebuilds *rebuilds, struct arena *arena,
                            const struct rebuild_wish *wish, uint64_t *id_out)
{
    const struct caretaker *config = &rebuilds->config;
    uint64_t last;
    enum err e = store_number(config->store, META_JOBS, &last);
    if (e != ERR_OK) return e;
    *id_out = last + 1;
    const struct job_record job = {.id = *id_out,
                                   .kind = JOB_REBUILD,
                                   .name = wish->counter,
                                   .asked_ms = clock_now_ms(config->clock),
                                   .rebuild = {.force = wish->force, .from = wish->from}};
    struct op ops[] = {
        rebuild_count_on(rebuilds, arena, META_JOBS, last),
        propose_object(arena, &config->store->secret, job_key(arena, *id_out),
                       job_encode(arena, &job)),
        forget_op(rebuilds, arena, *id_out),
    };
    struct bundle put = {.ops = ops,
                         .count = 3,
                         .urgency = URGENCY_SYNC,
                         .atomic = true,
                         .whole = true,
                         .weighty = true};
    propose_fit(&put, config->batch_ops);
    return config->propose(config->context, &put);
}

static enum err check_wish(struct rebuilds *rebuilds, struct arena *arena,
                           const struct rebuild_wish *wish, struct buf *why)
{
    struct rules *rules = rulebook_hold(rebuilds->config.rulebook);
    const struct definition *definition = rules_find(rules, wish->counter);
    enum err e = definition && !definition->frozen ? ERR_OK : ERR_NOT_FOUND;
    if (e == ERR_OK && wish->from.size)
        e = rebuild_check_base(rebuilds, arena, wish->from, wish->force, why);
    else if (e == ERR_OK && !wish->force)
        e = rebuild_check_history(rebuilds, definition);
    rules_release(rules);
    return e;
}

static enum err ask(struct rebuilds *rebuilds, struct arena *arena, const struct rebuild_wish *wish,
                    uint64_t *id_out, struct buf *why)
{
    enum err e = check_wish(rebuilds, arena, wish, why);
    if (e == ERR_OK) e = find_waiting(rebuilds, arena, wish, id_out);
    if (e == ERR_OK && *id_out == 0) e = put_new_job(rebuilds, arena, wish, id_out);
    while (e == ERR_CONFLICT) /* two asked at once */
        e = put_new_job(rebuilds, arena, wish, id_out);
    return e;
}

enum err rebuild_ask(struct rebuilds *rebuilds, const struct rebuild_wish *wish, struct buf *id_out,
                     struct buf *why_out)
{
    struct arena arena;
    uint64_t id;
    arena_init(&arena, 4096);
    enum err e = ask(rebuilds, &arena, wish, &id, why_out);
    arena_release(&arena);
    if (e != ERR_OK) return e;
    buf_add_u64(id_out, id);
    rebuild_wake(rebuilds);
    return ERR_OK;
}

enum err rebuild_describe(struct rebuilds *rebuilds, struct bytes id, struct buf *json_out)
{
    struct arena arena;
    struct bytes value;
    struct job_record job;
    uint64_t number = 0;
    if (id.size == 0 || id.size > 18) return ERR_NOT_FOUND;
    for (size_t i = 0; i < id.size; i++) {
        if (id.data[i] < '0' || id.data[i] > '9') return ERR_NOT_FOUND;
        number = number * 10 + (uint64_t)(id.data[i] - '0');
    }
    arena_init(&arena, 4096);
    enum err e = rebuild_read(rebuilds, &arena, job_key(&arena, number), &value);
    if (e == ERR_OK && value.size == 0) e = ERR_NOT_FOUND;
    if (e == ERR_OK) e = job_decode(value, &job);
    if (e == ERR_OK) job_write(json_out, &job, 0);
    arena_release(&arena);
    return e;
}

/* -- Forgetting -------------------------------------------------------------------------------- */

static enum err forget_locked(struct rebuilds *rebuilds, struct arena *arena,
                              const struct definition *definition, struct rules *rules)
{
    const struct caretaker *config = &rebuilds->config;
    const struct hash_secret *secret = &config->store->secret;
    struct op ops[] = {
        propose_object_if(arena, secret, object_key(arena, OBJECT_DEFINITION, definition->name),
                          definition_bytes(arena, definition), BYTES_NONE),
        propose_object(arena, secret, garbage_key(arena, definition->name, definition->generation),
                       object_number(arena, (uint64_t)clock_now_ms(config->clock))),
    };
    struct rules *without = rules_without(rules, definition->name);
    struct bundle bundle = {.ops = ops,
                            .count = 2,
                            .urgency = URGENCY_SYNC,
                            .atomic = true,
                            .whole = true,
                            .weighty = true,
                            .rules = without};
    enum err e = config->propose(config->context, &bundle);
    rules_release(without);
    return e;
}

enum err rebuild_forget(struct rebuilds *rebuilds, struct bytes counter)
{
    struct arena arena;
    arena_init(&arena, 4096);
    pthread_mutex_lock(rebuilds->config.enacting);
    struct rules *rules = rulebook_hold(rebuilds->config.rulebook);
    const struct definition *definition = rules_find(rules, counter);
    enum err e = !definition          ? ERR_NOT_FOUND
                 : definition->frozen ? forget_locked(rebuilds, &arena, definition, rules)
                                      : ERR_MANAGED;
    rules_release(rules);
    pthread_mutex_unlock(rebuilds->config.enacting);
    arena_release(&arena);
    if (e == ERR_OK) rebuild_wake(rebuilds);
    return e;
}
