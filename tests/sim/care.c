/* care.c -- rebuilds, retention and the removal of counters, as batches show them.
 *
 * What these propose is the implementation's own affair; what must be true of it is here:
 *
 * (1) A generation is given out once, and is one more than the last.
 * (2) A rebuild takes every retained event that concerns its counter, once, in order of arrival,
 *     and becomes the counter's generation only when there is none left.
 * (3) It loses nothing: of what the counter was made of, all is retained, or it was told to go on.
 * (4) Nothing is removed but what nobody reads.
 * (5) Events are let go of only after their time. */
#include "sim.h"

#include <stdlib.h>

#include "core/name.h"
#include "core/object.h"
#include "core/project.h"
#include "jobs/job.h"

struct care {
    struct sim *sim;
    struct model *model;
    const struct apply *apply;
    const struct errand *errand; /* NULL: of those who tend */
};

static bool is_cause(const struct apply *apply, const struct op *op)
{
    for (uint32_t i = 0; i < apply->writes.count; i++)
        if (apply->writes.causes[i] == op) return true;
    return false;
}

static bool find_counter(struct bytes name, unsigned *counter_out)
{
    for (unsigned i = 0; i < RULESET_COUNTERS; i++) {
        *counter_out = i;
        if (bytes_equal(name, bytes_str(ruleset_counter_name(i)))) return true;
    }
    return false;
}

/* ---- events counted again ---- */

static const struct model_past *past_of(const struct care *care, const struct op *op)
{
    for (const struct model_past *past = care->model->events; past; past = past->before)
        if (past->sequence == op->event->first_sequence && !past->duplicate) return past;
    sim_fail(care->sim, "a rebuild counts an event that never was");
}

static void check_rules(const struct care *care, const struct model_rebuild *rebuild)
{
    if (rebuild->ruleset != care->sim->rules_next)
        sim_fail(care->sim, "a rebuild by rules %d goes on by rules %d", rebuild->ruleset,
                 care->sim->rules_next);
}

/* Everything after `after` and before `before` may be left out. */
static void check_left_out(const struct care *care, unsigned counter, uint64_t after,
                           uint64_t before)
{
    const struct ruleset *rules = reload_rules(care->sim, care->sim->rules_next);
    for (const struct model_past *past = care->model->events; past; past = past->before) {
        if (past->duplicate || past->sequence <= after || past->sequence >= before) continue;
        if (past->arrived_ms < care->model->retained_ms || past->sequence <= care->model->gone)
            continue;
        if (!model_touches(&rules->counters[counter], &past->event)) continue;
        sim_fail(care->sim, "a rebuild of %s leaves out sequence %llu",
                 ruleset_counter_name(counter), (unsigned long long)past->sequence);
    }
}

static enum err follow_replay(struct care *care, const struct op *op)
{
    const struct projection *projection = op->event->projection;
    const struct model_past *past = past_of(care, op);
    struct model_rebuild *rebuild =
        model_rebuild_of(care->model, projection->changes[0].generation);
    if (!rebuild) sim_fail(care->sim, "an event is counted into a generation nobody makes");
    if (past->sequence <= rebuild->position)
        sim_fail(care->sim, "a rebuild counts sequence %llu after %llu",
                 (unsigned long long)past->sequence, (unsigned long long)rebuild->position);
    check_rules(care, rebuild);
    check_left_out(care, rebuild->counter, rebuild->position, past->sequence);
    rebuild->position = past->sequence;
    return model_replay(care->model, &care->sim->plan.limits, care->apply->moment.now_ms, rebuild,
                        past);
}

/* ---- jobs ---- */

static void follow_begin(struct care *care, struct model_rebuild *rebuild,
                         const struct job_record *job)
{
    struct model *model = care->model;
    if (job->rebuild.generation != ++model->generation)
        sim_fail(care->sim, "a rebuild makes generation %u, expected %u", job->rebuild.generation,
                 model->generation);
    if ((int64_t)job->rebuild.since > model->retained_ms && care->sim->clocks.back_ms == 0)
        sim_fail(care->sim, "a rebuild begins at %lld, history at %lld",
                 (long long)job->rebuild.since, (long long)model->retained_ms);
    *rebuild = (struct model_rebuild){.counter = rebuild->counter,
                                      .force = rebuild->force,
                                      .progress = MODEL_RUNNING,
                                      .generation = job->rebuild.generation,
                                      .ruleset = care->sim->rules_next,
                                      .since_ms = (int64_t)job->rebuild.since,
                                      .first_ms = INT64_MAX};
}

static void follow_position(struct care *care, struct model_rebuild *rebuild,
                            const struct job_record *job)
{
    if (job->position < rebuild->position) sim_fail(care->sim, "a rebuild goes back");
    check_rules(care, rebuild);
    check_left_out(care, rebuild->counter, rebuild->position, job->position + 1);
    rebuild->position = job->position;
}

/* Of a counter whose value is a total, and which was not told to go on whatever is lost. Since when
 * it counts was written in the time of then: after a setting back events are counted that are
 * earlier. */
static void check_loss(const struct care *care, const struct model_rebuild *rebuild)
{
    const struct model *model = care->model;
    const struct model_counter *counter = &model->counters[rebuild->counter];
    const struct ruleset *rules = reload_rules(care->sim, care->sim->rules_next);
    enum err e = model_may_rebuild(model, rules, rebuild->counter, rebuild->force);
    if (e != ERR_OK) sim_fail(care->sim, "a rebuild is done that was to fail: %s", err_code(e));
    bool total = model_keeps_totals(&rules->counters[rebuild->counter]);
    if (total && care->sim->clocks.back_ms == 0 && !rebuild->force &&
        model->retained_ms > counter->first_ms)
        sim_fail(care->sim, "a rebuild of %s loses what it counted since %lld, retained since %lld",
                 ruleset_counter_name(rebuild->counter), (long long)counter->first_ms,
                 (long long)model->retained_ms);
}

static void follow_done(struct care *care, struct model_rebuild *rebuild,
                        const struct job_record *job)
{
    struct model_counter *counter = &care->model->counters[rebuild->counter];
    follow_position(care, rebuild, job);
    check_left_out(care, rebuild->counter, rebuild->position, UINT64_MAX);
    check_loss(care, rebuild);
    rebuild->progress = MODEL_DONE;
    counter->generation = rebuild->generation;
    counter->since_ms = rebuild->since_ms;
    counter->first_ms = rebuild->first_ms;
    counter->adjusted = false;
    care->sim->rebuilt++;
}

static bool says(const struct job_record *job, enum err e)
{
    return bytes_equal(job->why, bytes_str(err_sentence(e)));
}

static void follow_failed(struct care *care, struct model_rebuild *rebuild,
                          const struct job_record *job)
{
    struct sim *sim = care->sim;
    const struct ruleset *rules = reload_rules(sim, sim->rules_next);
    enum err e = model_may_rebuild(care->model, rules, rebuild->counter, rebuild->force);
    bool gone = bytes_equal(job->why, BYTES("the counter is no longer kept by rules"));
    bool right = gone                     ? e == ERR_NOT_FOUND
                 : says(job, ERR_HISTORY) ? e == ERR_HISTORY
                                          : sim->refused != ERR_OK && says(job, sim->refused);
    if (!right)
        sim_fail(sim, "a rebuild of %s failed: %.*s", ruleset_counter_name(rebuild->counter),
                 (int)job->why.size, job->why.data);
    rebuild->progress = MODEL_FAILED;
}

static void follow_new(struct care *care, const struct job_record *job)
{
    struct model *model = care->model;
    struct model_rebuild *rebuild = &model->rebuilds[model->rebuilds_count++];
    if (job->id != model->rebuilds_count || job->state != JOB_WAITING || job->rebuild.generation)
        sim_fail(care->sim, "a new rebuild has id %llu, expected %u", (unsigned long long)job->id,
                 model->rebuilds_count);
    *rebuild = (struct model_rebuild){.force = job->rebuild.force};
    if (!find_counter(job->name, &rebuild->counter))
        sim_fail(care->sim, "a rebuild of a counter that never was");
}

static void follow_job(struct care *care, const struct object_change *change)
{
    struct job_record job;
    struct model *model = care->model;
    if (job_decode(change->value, &job) != ERR_OK) sim_fail(care->sim, "a rebuild cannot be read");
    if (job.id > model->rebuilds_count) {
        follow_new(care, &job);
        return;
    }
    struct model_rebuild *rebuild = &model->rebuilds[job.id - 1];
    if (rebuild->progress >= MODEL_DONE) sim_fail(care->sim, "a rebuild that was over changes");
    if (job.state == JOB_FAILED)
        follow_failed(care, rebuild, &job);
    else if (job.rebuild.generation != rebuild->generation)
        follow_begin(care, rebuild, &job);
    else if (job.state == JOB_DONE)
        follow_done(care, rebuild, &job);
    else
        follow_position(care, rebuild, &job);
}

/* ---- other objects ---- */

static uint64_t number_of(const struct care *care, const struct object_change *change)
{
    uint64_t number;
    if (!object_number_decode(change->value, &number))
        sim_fail(care->sim, "a number cannot be read");
    return number;
}

static void expect_number(const struct care *care, const struct object_change *change,
                          const char *what, uint64_t expected)
{
    uint64_t number = number_of(care, change);
    if (number != expected)
        sim_fail(care->sim, "%s is said to be %llu, expected %llu", what,
                 (unsigned long long)number, (unsigned long long)expected);
}

/* Where time is set back it must not lie ahead of what arrives from then on. */
static void follow_back(struct care *care, int64_t before_ms)
{
    struct model *model = care->model;
    if (before_ms >= model->retained_ms || before_ms != care->apply->moment.now_ms)
        sim_fail(care->sim, "events are said to be retained from %lld at %lld",
                 (long long)before_ms, (long long)care->apply->moment.now_ms);
    for (const struct model_past *past = model->events; past; past = past->before)
        if (past->arrived_ms < model->retained_ms && past->sequence > model->gone)
            model->gone = past->sequence;
    model->retained_ms = before_ms;
}

static void follow_retained(struct care *care, const struct object_change *change)
{
    const struct sim *sim = care->sim;
    int64_t before_ms = (int64_t)number_of(care, change);
    if (care->apply->set_back) {
        follow_back(care, before_ms);
        return;
    }
    if (before_ms <= care->model->retained_ms || before_ms > care->apply->moment.now_ms ||
        before_ms > sim->wall_most_ms - sim->plan.retention_ms)
        sim_fail(care->sim, "events before %lld are let go of at %lld, retention is %lld",
                 (long long)before_ms, (long long)sim->wall_most_ms,
                 (long long)sim->plan.retention_ms);
    care->model->retained_ms = before_ms;
}

static void follow_meta(struct care *care, const struct object_change *change)
{
    struct bytes name = bytes_of(change->key.data + 1, change->key.size - 1);
    if (bytes_equal(name, META_GENERATION))
        expect_number(care, change, "the last generation", care->model->generation);
    else if (bytes_equal(name, META_JOBS))
        expect_number(care, change, "the next rebuild", care->model->rebuilds_count + 1);
    else if (bytes_equal(name, META_RETAINED))
        follow_retained(care, change);
    else if (!bytes_equal(name, META_RULES) && !bytes_equal(name, META_CLOCK))
        sim_fail(care->sim, "an object of an unknown name is put");
}

/* What a rebuild began under a lead says of its history was true then; by the time of after it, it
 * may say that it counts since an earlier time, from which on all is retained. */
static void follow_since(const struct care *care, struct model_counter *counter, int64_t since_ms)
{
    bool done = care->errand && care->errand->kind == ERRAND_STEP;
    if (!done || care->sim->clocks.back_ms == 0 || since_ms > care->model->retained_ms) return;
    if (since_ms < counter->since_ms) counter->since_ms = since_ms;
}

static void follow_definition(struct care *care, const struct object_change *change)
{
    struct definition said;
    struct arena arena;
    unsigned number;
    if (!find_counter(bytes_of(change->key.data + 1, change->key.size - 1), &number))
        sim_fail(care->sim, "a definition of a counter that never was");
    struct model_counter *counter = &care->model->counters[number];
    if (change->value.size == 0) {
        if (!care->errand || care->errand->kind != ERRAND_FORGET)
            sim_fail(care->sim, "a counter is forgotten that nobody asked for");
        *counter = (struct model_counter){.first_ms = INT64_MAX};
        return;
    }
    arena_init(&arena, 4096);
    enum err e = definition_decode(change->value, &arena, &said);
    if (care->errand && care->errand->kind == ERRAND_MARK) counter->adjusted = true;
    if (e != ERR_OK || said.adjusted != counter->adjusted)
        sim_fail(care->sim, "%s is said to be%s adjusted", ruleset_counter_name(number),
                 said.adjusted ? "" : " not");
    follow_since(care, counter, (int64_t)said.since);
    if (said.generation != counter->generation || (int64_t)said.since != counter->since_ms)
        sim_fail(care->sim, "%s is said to have generation %u since %lld, expected %u since %lld",
                 ruleset_counter_name(number), said.generation, (long long)said.since,
                 counter->generation, (long long)counter->since_ms);
    arena_release(&arena);
}

static bool is_read(struct model *model, uint32_t generation)
{
    for (unsigned i = 0; i < RULESET_COUNTERS; i++)
        if (model->counters[i].known && model->counters[i].generation == generation) return true;
    return model_rebuild_of(model, generation) != NULL;
}

static void follow_garbage(struct care *care, const struct object_change *change)
{
    uint32_t generation = get_ordered_u32(change->key.data + 1);
    if (change->value.size) {
        if (is_read(care->model, generation))
            sim_fail(care->sim, "generation %u is called garbage", generation);
        model_add_garbage(care->model, generation);
    } else {
        if (model_has_generation(care->model, generation))
            sim_fail(care->sim, "generation %u is said to be gone", generation);
        model_end_garbage(care->model, generation);
    }
}

/* ---- removing ---- */

/* Whether the rules go by it: then nobody may remove anything of it. */
static bool is_in_force(const struct care *care, unsigned counter, uint32_t generation)
{
    const struct ruleset *rules = reload_rules(care->sim, care->sim->rules_next);
    return rules && rules->counters[counter].there &&
           care->model->counters[counter].generation == generation;
}

static void check_removal(const struct care *care, const struct op *op, uint32_t generation,
                          enum err expected)
{
    if (op->err != expected)
        sim_fail(care->sim, "a removal from generation %u is answered %s, expected %s", generation,
                 err_code(op->err), err_code(expected));
    bool asked = care->errand && care->errand->kind == ERRAND_DELETE;
    if (expected == ERR_OK && !asked && !model_is_garbage(care->model, generation))
        sim_fail(care->sim, "something of generation %u is removed", generation);
}

static void follow_delete(struct care *care, const struct op *op)
{
    struct model_bundle bundle = {.count = 1, .ops = {{.kind = MODEL_DELETE}}};
    struct model_op *asked = &bundle.ops[0];
    if (!plan_find_rule(care->sim, op->counter, &asked->tenant, &asked->name, &asked->generation))
        sim_fail(care->sim, "a counter is removed that never was");
    unsigned counter = (asked->name - MODEL_RULE) / RULESET_CODES;
    bool there = false;
    for (unsigned i = 0; i < care->model->cells_count; i++) {
        const struct model_cell *cell = &care->model->cells[i];
        there |= cell->tenant == asked->tenant && cell->name == asked->name &&
                 cell->generation == asked->generation;
    }
    enum err expected = !there                                          ? ERR_NOT_FOUND
                        : is_in_force(care, counter, asked->generation) ? ERR_MANAGED
                                                                        : ERR_OK;
    check_removal(care, op, asked->generation, expected);
    if (expected == ERR_OK)
        model_decide(care->model, &care->sim->plan.limits, care->apply->moment.now_ms, &bundle, 0,
                     1);
}

/* Of an entity's state: its key ends with {"e":"n"}. */
static void follow_state(struct care *care, const struct op *op)
{
    struct model *model = care->model;
    struct bytes key = op->object->key, name;
    uint32_t generation;
    unsigned counter;
    if (op->object->value.size || !object_state_split(key, &name, &generation) ||
        !find_counter(name, &counter))
        sim_fail(care->sim, "a state is put that never was");
    check_removal(care, op, generation,
                  is_in_force(care, counter, generation) ? ERR_MANAGED : ERR_OK);
    if (op->err != ERR_OK) return;
    unsigned number = (unsigned)(key.data[key.size - 3] - '0');
    for (unsigned i = 0; i < model->entities_count; i++) {
        struct model_entity *entity = &model->entities[i];
        struct bytes tenant = bytes_str(plan_tenant(care->sim, entity->tenant));
        if (entity->generation != generation || entity->entity != number) continue;
        if (key.size < tenant.size + 2 || key.data[tenant.size + 1] != 0 ||
            memcmp(key.data + 1, tenant.data, tenant.size) != 0)
            continue;
        *entity = model->entities[--model->entities_count];
        return;
    }
}

/* ---- a bundle ---- */

static void follow_object(struct care *care, const struct op *op)
{
    const struct object_change *change = op->object;
    switch (change->key.data[0]) {
    case OBJECT_JOB:
        if (is_cause(care->apply, op)) follow_job(care, change);
        break;
    case OBJECT_META:
        if (is_cause(care->apply, op)) follow_meta(care, change);
        break;
    case OBJECT_DEFINITION:
        follow_definition(care, change);
        break;
    case OBJECT_GARBAGE:
        follow_garbage(care, change);
        break;
    case OBJECT_STATE:
        follow_state(care, op);
        break;
    default:
        sim_fail(care->sim, "an object of an unknown kind is put");
    }
}

static enum err follow_replays(struct care *care, const struct slice *slice)
{
    enum err e = ERR_OK;
    for (uint32_t i = 0; i < slice->count && e == ERR_OK; i++) {
        const struct op *op = &slice->bundle->ops[slice->first + i];
        if (op->kind == OP_REPLAY) e = follow_replay(care, op);
    }
    return e;
}

static void follow_ops(struct care *care, const struct slice *slice)
{
    uint32_t causes = 0;
    uint64_t before = care->model->sequence;
    for (uint32_t i = 0; i < slice->count; i++) {
        const struct op *op = &slice->bundle->ops[slice->first + i];
        if (op->kind == OP_OBJECT)
            follow_object(care, op);
        else if (op->kind == OP_DELETE)
            follow_delete(care, op);
        else if (op->kind == OP_MARK)
            reconcile_decided(care->sim, care->model, care->apply, op);
        else if (op->kind != OP_REPLAY)
            sim_fail(care->sim, "an errand has an operation of kind %d", op->kind);
        causes += is_cause(care->apply, op);
    }
    care->model->sequence = before + causes;
    if (causes) care->model->time_ms = care->apply->moment.now_ms;
}

/* Nothing of it happens, and there must be a reason. */
static void follow_refusal(struct care *care, const struct slice *slice)
{
    struct sim *sim = care->sim;
    enum err e = slice->bundle->err;
    enum errand_kind kind = care->errand->kind;
    struct model *copy = must_alloc(sizeof *copy);
    model_copy(copy, care->model);
    struct care trial = {sim, copy, care->apply, care->errand};
    bool faulty = sim->journal_faulty || sim->state_faulty;
    bool right = false;
    if (e == ERR_CONFLICT) right = kind == ERRAND_ASK && copy->rebuilds_count > care->errand->seen;
    if (e == ERR_CONFLICT && kind == ERRAND_STEP) right = sim->clocks.back_ms > 0;
    if (e == ERR_STORAGE) right = faulty;
    if (kind == ERRAND_STEP && e != ERR_CONFLICT && e != ERR_STORAGE)
        right = slice->count == 1 || follow_replays(&trial, slice) == e;
    if (!right) sim_fail(sim, "errand %d was refused: %s", kind, err_code(e));
    if (kind == ERRAND_STEP) sim->refused = e;
    free(copy);
}

void care_decided(struct sim *sim, struct model *model, const struct apply *apply,
                  const struct slice *slice)
{
    struct care care = {sim, model, apply, errand_of(slice->bundle)};
    if (slice->bundle->atomic && slice->bundle->err != ERR_OK) {
        follow_refusal(&care, slice);
        return;
    }
    if (care.errand && care.errand->kind == ERRAND_RELOAD)
        reload_decided(sim, model, apply->moment.now_ms);
    enum err e = follow_replays(&care, slice);
    if (e != ERR_OK) sim_fail(sim, "a rebuild goes on in spite of %s", err_code(e));
    follow_ops(&care, slice);
}
