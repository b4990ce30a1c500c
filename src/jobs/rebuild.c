/* rebuild.c -- the steps of a rebuild in one lane. Each step reads the job from the store first, so
 * an unknown outcome (ERR_STORAGE) needs no care: the job says how far it got. A step holds off
 * changes of rules: they come between two steps, and the next one notices. */
#include "jobs/rebuild.h"

#include <stdlib.h>

#include "base/crash.h"
#include "base/log.h"
#include "base/table.h"
#include "commit/pace.h"
#include "core/name.h"
#include "core/object.h"
#include "core/project.h"
#include "jobs/rebuild_internal.h"
#include "jobs/job.h"

#define STEP_CHUNK (256u << 10)
#ifdef TALLY_SMALL_WORLD
#define LOOK_BYTES 2000u /* history looked through for one chunk */
#else
#define LOOK_BYTES (8u << 20)
#endif
#define OBJECTS_PER_CHUNK 1u /* the job's own position */

/* One step under way. */
struct step {
    struct rebuilder *rebuilder;
    struct arena arena;
    struct job_record job;
    struct bytes stored; /* the job's bytes, as expected in the store */
    struct rules *rules; /* held */
    const struct definition *definition;
    uint64_t rules_digest;
    uint64_t retained_ms;

    /* The chunk. */
    struct op *ops;
    uint32_t count;
    uint32_t count_max;
    size_t look_bytes; /* history looked through for it */
    size_t weight;
    uint64_t last;    /* the last sequence looked at */
    uint64_t durable; /* the last there was then */
    uint64_t events;
    bool full;
    struct json_parser *parser;
    struct reason why; /* it cannot go on; empty: the error says it all */
    enum err err;
};

void rebuilder_init(struct rebuilder *rebuilder, const struct lanes *lanes, unsigned lane,
                    const char *exports)
{
    *rebuilder = (struct rebuilder){.config = lanes->items[lane].caretaker,
                                    .lane = lane,
                                    .lanes = lanes->count,
                                    .exports = exports};
    rebuilder->parser = json_parser_new(EVENT_SIZE_MAX);
    rebuilder->commit_parser = json_parser_new(EVENT_SIZE_MAX);
}

void rebuilder_release(struct rebuilder *rebuilder)
{
    rebuild_base_close(rebuilder);
    json_parser_free(rebuilder->parser);
    json_parser_free(rebuilder->commit_parser);
}

/* -- Moving a job on --------------------------------------------------------------------------- */

static struct op job_op(struct step *step, const struct job_record *next)
{
    struct arena *arena = &step->arena;
    return propose_object_if(arena, &step->rebuilder->config.store->secret,
                             job_key(arena, step->job.id), step->stored, job_encode(arena, next));
}

static struct op garbage_op(struct step *step, uint32_t generation)
{
    return propose_object(
        &step->arena, &step->rebuilder->config.store->secret,
        object_garbage_key(&step->arena, step->job.name, generation),
        object_number(&step->arena, (uint64_t)clock_now_ms(step->rebuilder->config.clock)));
}

static enum err propose_ops(struct step *step, struct op *ops, uint32_t count)
{
    return propose_all(&step->rebuilder->config, ops, count, BYTES_NONE);
}

static enum err fail_job(struct step *step, const char *why)
{
    struct job_record next = step->job;
    struct op ops[2];
    uint32_t count = 1;
    next.state = JOB_FAILED;
    next.ended_ms = clock_now_ms(step->rebuilder->config.clock);
    next.why = bytes_str(why);
    ops[0] = job_op(step, &next);
    if (step->job.rebuild.generation) ops[count++] = garbage_op(step, step->job.rebuild.generation);
    log_line(LOG_ERROR, "a rebuild failed", LOG_KV("why", why));
    return propose_ops(step, ops, count);
}

/* Takes a fresh generation and counts from the beginning; what an earlier try had made is
 * garbage. */
static enum err begin_job(struct step *step)
{
    struct rebuilder *rebuilder = step->rebuilder;
    struct store *store = rebuilder->config.store;
    struct store_stats stats;
    uint64_t last;
    struct op ops[3];
    uint32_t count = 0;
    enum err e = store_number(store, META_GENERATION, &last);
    if (e != ERR_OK) return e;
    store_stats(store, &stats);
    struct job_record next = step->job;
    next.state = JOB_RUNNING;
    next.sequence = stats.durable_sequence;
    next.rebuild.generation = (uint32_t)(last + 1);
    next.rebuild.rules_digest = step->rules_digest;
    next.rebuild.since = step->retained_ms;
    next.position = next.size = next.rebuild.base_lines = 0;
    next.rebuild.based = false;
    ops[count++] = job_op(step, &next);
    ops[count++] = rebuild_count_on(rebuilder, &step->arena, META_GENERATION, last);
    if (step->job.rebuild.generation) ops[count++] = garbage_op(step, step->job.rebuild.generation);
    return propose_ops(step, ops, count);
}

/* -- A chunk ----------------------------------------------------------------------------------- */

/* A chunk has half of what a batch may weigh: its journal block has the job's objects too. An event
 * that weighs more by itself goes as the only one. */
static bool has_room(const struct step *step, size_t weight)
{
    return step->events == 0 || step->weight + weight <= step->rebuilder->config.batch_weight / 2;
}

/* The rules in force may make an event heavier than those it came under did, even heavier than a
 * batch may be: then it cannot be counted again. */
static bool take_event(void *context, const struct stored_event *stored)
{
    struct step *step = context;
    struct event *event = arena_zalloc(&step->arena, sizeof *event);
    struct json_value payload;
    if (!event_of_stored(stored, step->parser, &step->arena, event, &payload)) {
        step->err = ERR_CORRUPT;
        return false;
    }
    struct bytes tenant = arena_copy(&step->arena, stored->tenant);
    event->arrived_ms = stored->arrived_ms;
    event->first_sequence = stored->sequence;
    const struct project_input input = {.rules = step->rules,
                                        .secret = &step->rebuilder->config.store->secret,
                                        .tenant = tenant,
                                        .only = step->definition,
                                        .generation = step->job.rebuild.generation,
                                        .payload = &payload,
                                        .arena = &step->arena};
    event->projection = project(&input, event);
    size_t weight = event->projection->weight;
    if (event->projection->too_large || weight > step->rebuilder->config.batch_weight) {
        step->err = ERR_EVENT_SIZE;
        return false;
    }
    bool counts = event->projection->changes_count > 0;
    step->full = counts && !has_room(step, weight);
    if (step->full) return false;
    step->last = stored->sequence;
    if (!counts) return true;
    step->ops[step->count++] =
        (struct op){.kind = OP_REPLAY, .tenant = tenant, .event = event, .weight = weight};
    step->events++;
    step->weight += weight;
    step->full = step->count == step->count_max;
    return !step->full;
}

/* Fills the chunk with what is retained after the job's position. True in `*caught_up_out` if that
 * is all there is. */
static enum err fill_chunk(struct step *step, bool *caught_up_out)
{
    struct store *store = step->rebuilder->config.store;
    struct store_stats stats;
    uint64_t next;
    store_stats(store, &stats);
    /* Asked after what is durable was: time may have been set back since the step began. */
    enum err e = store_number(store, META_RETAINED, &step->retained_ms);
    if (e != ERR_OK) return e;
    const struct event_query query = {.after = step->job.position,
                                      .upto = stats.durable_sequence,
                                      .arrived_from = (int64_t)step->retained_ms,
                                      .events = true,
                                      .budget = step->look_bytes};
    step->last = step->job.position;
    step->durable = stats.durable_sequence;
    e = view_events(&store->view, &query, take_event, step, &next);
    if (e == ERR_OK) e = step->err;
    *caught_up_out = e == ERR_OK && next == 0 && !step->full;
    if (*caught_up_out)
        step->last = stats.durable_sequence;
    else if (next > step->last && !step->full) /* full: the event it stopped at may not be in it */
        step->last = next;
    return e;
}

/* Makes room for the events of `batches` batches and for the objects, whose places are filled
 * last. */
static void chunk_room(struct step *step, uint32_t objects, uint32_t batches)
{
    uint32_t most = batches * step->rebuilder->config.batch_ops;
    step->look_bytes = (size_t)batches * LOOK_BYTES;
    step->count = objects;
    step->count_max = most > objects ? most : objects + 1;
    step->ops = arena_alloc(&step->arena, step->count_max * sizeof *step->ops);
}

static struct job_record moved_job(const struct step *step)
{
    struct job_record next = step->job;
    next.position = step->last;
    next.size += step->events;
    return next;
}

static enum err propose_chunk(struct step *step)
{
    return propose_all(&step->rebuilder->config, step->ops, step->count, BYTES(" rebuild"));
}

static enum err replay_chunk(struct step *step, bool *caught_up_out)
{
    chunk_room(step, OBJECTS_PER_CHUNK, 1);
    enum err e = fill_chunk(step, caught_up_out);
    if (e != ERR_OK) return e;
    struct job_record next = moved_job(step);
    step->ops[0] = job_op(step, &next);
    crash_point("rebuild.before_chunk");
    e = propose_chunk(step);
    crash_point("rebuild.after_chunk");
    return e;
}

/* -- What it begins with ----------------------------------------------------------------------- */

/* The mark goes with each chunk of the export. */
static struct op mark_base(void *context, struct arena *arena, uint64_t lines)
{
    struct step *step = context;
    struct job_record next = step->job;
    next.rebuild.base_lines = lines;
    (void)arena;
    return job_op(step, &next);
}

static enum err base_chunk(struct step *step)
{
    bool more;
    uint64_t sequence;
    reason_clear(&step->why);
    enum err e = rebuild_base_chunk(step->rebuilder, &step->job, step->definition->mode, mark_base,
                                    step, &more, &sequence, &step->why);
    if (e != ERR_OK || more) return e;
    struct job_record next = step->job;
    next.rebuild.based = true;
    next.position = sequence;
    struct op op = job_op(step, &next);
    return propose_ops(step, &op, 1);
}

/* Whether the events that it needs are all there. */
static enum err check_history(struct step *step)
{
    const struct job_rebuild *rebuild = &step->job.rebuild;
    if (rebuild->from.size)
        return rebuild_check_base(step->rebuilder, &step->arena, rebuild->from, rebuild->force,
                                  &step->why);
    if (rebuild->force) return ERR_OK;
    return rebuild_check_history(step->rebuilder, step->definition);
}

/* -- The swap ---------------------------------------------------------------------------------- */

struct swap {
    struct step *step;
    struct bundle bundle;
    struct op placeholder;
    struct rules *rules; /* with the new generation */
    uint64_t since;
    bool swapped; /* it did not only replay another chunk */
};

enum { SWAP_OBJECTS = 3 };

static struct op definition_op(struct step *step, const struct definition *definition)
{
    struct arena *arena = &step->arena;
    return propose_object_if(arena, &step->rebuilder->config.store->secret,
                             object_key(arena, OBJECT_DEFINITION, definition->name),
                             definition_bytes(arena, step->definition),
                             definition_bytes(arena, definition));
}

/* Runs on the commit thread, with everything before it durable: it counts what is left and, if that
 * is all, makes the new generation the counter's. Events go only after a commit has said so: a
 * history that is complete here was complete for every chunk. */
static void swap_prepare(struct bundle *bundle, int64_t time_ms)
{
    struct swap *swap = CONTAINER_OF(bundle, struct swap, bundle);
    struct step *step = swap->step;
    bool caught_up;
    step->parser = step->rebuilder->commit_parser;
    enum err e = fill_chunk(step, &caught_up);
    if (e == ERR_OK) e = check_history(step);
    if (e == ERR_OK && step->retained_ms < swap->since) e = ERR_CONFLICT; /* tried again */
    if (e != ERR_OK) {
        swap->placeholder.err = e;
        return;
    }
    struct job_record next = moved_job(step);
    if (caught_up) {
        next.state = JOB_DONE;
        next.ended_ms = time_ms;
    }
    step->ops[0] = job_op(step, &next);
    uint32_t first = SWAP_OBJECTS - 1; /* without a swap only the job's own object is put */
    if (caught_up) {
        const struct definition *definition = rules_find(swap->rules, step->definition->name);
        step->ops[1] = definition_op(step, definition);
        step->ops[2] = garbage_op(step, step->definition->generation);
        bundle->rules = swap->rules;
        first = 0;
    } else {
        step->ops[first] = step->ops[0];
    }
    swap->swapped = caught_up;
    bundle->ops = step->ops + first;
    bundle->count = step->count - first;
    crash_point("rebuild.swap");
}

static enum err swap_generations(struct step *step)
{
    struct rebuilder *rebuilder = step->rebuilder;
    const struct caretaker *config = &rebuilder->config;
    const struct job_rebuild *job = &step->job.rebuild;
    /* What is retained began later when the job did, if time was set back meanwhile. */
    struct swap swap = {.step = step,
                        .since = job->since < step->retained_ms ? job->since : step->retained_ms};
    swap.rules = rules_with_generation(step->rules, step->definition->name, job->generation,
                                       swap.since, job->from.size > 0);
    swap.bundle = (struct bundle){.ops = &swap.placeholder,
                                  .count = 1,
                                  .urgency = URGENCY_URGENT,
                                  .atomic = true,
                                  .whole = true,
                                  .prepare = swap_prepare};
    step->events = step->weight = 0;
    step->full = false;
    chunk_room(step, SWAP_OBJECTS, PACE_SWAP_BATCHES);
    enum err e = config->propose(config->context, &swap.bundle);
    if (e == ERR_OK && swap.swapped) crash_point("rebuild.after_swap");
    rules_release(swap.rules);
    return e;
}

/* Traffic that fills every batch keeps a rebuild, which takes turns with it, a few batches behind
 * for ever. So the last chunk, during which all others wait, may be larger than others. */
static bool is_near(const struct step *step)
{
    uint64_t left = step->durable - step->last;
    return left <= (uint64_t)PACE_SWAP_BATCHES * step->rebuilder->config.batch_ops;
}

/* -- Steps ------------------------------------------------------------------------------------- */

static enum err run_job(struct step *step)
{
    if (!step->definition || step->definition->frozen)
        return fail_job(step, "the counter is no longer kept by rules");
    enum err e = check_history(step);
    if (e != ERR_OK) return e;
    const struct job_rebuild *rebuild = &step->job.rebuild;
    if (rebuild->generation == 0 || rebuild->rules_digest != step->rules_digest)
        return begin_job(step);
    if (rebuild->from.size && !rebuild->based) return base_chunk(step);
    bool caught_up;
    e = replay_chunk(step, &caught_up);
    if (e != ERR_OK || (!caught_up && !is_near(step))) return e;
    step->job = moved_job(step);
    step->stored = job_encode(&step->arena, &step->job);
    return swap_generations(step);
}

/* Rules must not change between reading them and the commit that goes by them. */
static enum err run_locked(struct step *step)
{
    struct rebuilder *rebuilder = step->rebuilder;
    struct bytes text;
    enum err e = rebuild_read(rebuilder, &step->arena,
                              object_key(&step->arena, OBJECT_META, META_RULES), &text);
    if (e == ERR_OK) e = store_number(rebuilder->config.store, META_RETAINED, &step->retained_ms);
    if (e != ERR_OK) return e;
    step->rules = rulebook_hold(rebuilder->config.rulebook);
    step->definition = rules_find(step->rules, step->job.name);
    step->rules_digest = hash_checksum(text);
    e = run_job(step);
    rules_release(step->rules);
    return e;
}

/* True for what trying again cannot put right: it ends the job. A store that is down does not. */
static bool is_final(enum err e)
{
    return e != ERR_OK && e != ERR_STORAGE && e != ERR_BUSY && e != ERR_CONFLICT;
}

static bool step_job(struct rebuilder *rebuilder, struct bytes value)
{
    struct step step = {.rebuilder = rebuilder, .stored = value, .parser = rebuilder->parser};
    enum err decoded = job_decode(value, &step.job);
    must(decoded == ERR_OK); /* runner_oldest has seen it */
    arena_init(&step.arena, STEP_CHUNK);
    reason_clear(&step.why);
    pthread_mutex_lock(rebuilder->config.enacting);
    enum err e = run_locked(&step);
    pthread_mutex_unlock(rebuilder->config.enacting);
    if (is_final(e)) e = fail_job(&step, reason_given(&step.why) ? step.why.text : err_sentence(e));
    arena_release(&step.arena);
    return e == ERR_OK || e == ERR_CONFLICT;
}

bool rebuilder_step(struct rebuilder *rebuilder, bool *idle_out)
{
    struct arena arena;
    struct bytes value;
    arena_init(&arena, 4096);
    enum err e = runner_oldest(rebuilder->config.store, DESK_COUNTS, &arena, &value);
    bool more = e == ERR_OK && value.size > 0 && step_job(rebuilder, value);
    *idle_out = e == ERR_OK && value.size == 0;
    arena_release(&arena);
    return more;
}
