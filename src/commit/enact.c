/* enact.c -- compares the rules with what the store knows and writes down the difference. */
#include "commit/enact.h"

#include "commit/propose.h"
#include "core/object.h"

#define PLAN_CHUNK (16u << 10)

struct stored_definition {
    struct bytes name; /* of the counter */
    struct bytes value;
    struct definition definition;
    bool kept; /* the new rules have it */
};

struct plan {
    struct enactment *enactment;
    struct store *store;
    struct rules *rules;
    struct buf *why;
    int64_t now_ms; /* not after the batch that brings them into force */
    struct stored_definition *stored;
    unsigned stored_count;
    unsigned stored_capacity;
    uint64_t generation; /* the last one given out */
    uint64_t generation_stored;
    enum err err;
};

/* -- Reading the store ------------------------------------------------------------------------- */

static void stored_add(struct plan *plan, const struct stored_definition *stored)
{
    if (plan->stored_count == plan->stored_capacity) {
        unsigned capacity = plan->stored_capacity * 2 + 16;
        struct stored_definition *more =
            arena_alloc(&plan->enactment->arena, capacity * sizeof *more);
        if (plan->stored_count) memcpy(more, plan->stored, plan->stored_count * sizeof *more);
        plan->stored = more;
        plan->stored_capacity = capacity;
    }
    plan->stored[plan->stored_count++] = *stored;
}

/* Decoded into the rules' own arena: frozen ones live as long as the rules. */
static bool read_definition(void *context, struct bytes key, struct bytes value)
{
    struct plan *plan = context;
    struct arena *arena = &plan->rules->arena;
    struct stored_definition stored = {.name =
                                           arena_copy(arena, bytes_of(key.data + 1, key.size - 1)),
                                       .value = arena_copy(arena, value)};
    plan->err = definition_decode(stored.value, arena, &stored.definition);
    if (plan->err == ERR_OK) stored_add(plan, &stored);
    return plan->err == ERR_OK;
}

static enum err read_generation(struct plan *plan)
{
    struct buf value;
    struct bytes key = object_key(&plan->enactment->arena, OBJECT_META, META_GENERATION);
    buf_init(&value, 64);
    enum err e = plan->store->ops->object(plan->store, key, &value);
    if (e == ERR_OK && !object_number_decode(buf_bytes(&value), &plan->generation_stored))
        e = ERR_CORRUPT;
    buf_release(&value);
    plan->generation = plan->generation_stored;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err read_store(struct plan *plan)
{
    struct bytes prefix = object_key(&plan->enactment->arena, OBJECT_DEFINITION, BYTES_NONE);
    enum err e = read_generation(plan);
    if (e == ERR_OK)
        e = plan->store->ops->objects(plan->store, prefix, BYTES_NONE, read_definition, plan);
    if (e == ERR_OK) e = plan->err;
    if (e != ERR_OK) buf_addf(plan->why, "the stored counter definitions could not be read");
    return e;
}

/* -- Filling in -------------------------------------------------------------------------------- */

static struct stored_definition *stored_find(struct plan *plan, struct bytes name)
{
    for (unsigned i = 0; i < plan->stored_count; i++)
        if (bytes_equal(plan->stored[i].name, name)) return &plan->stored[i];
    return NULL;
}

/* Cells of one mode mean nothing in another. */
static enum err refuse_mode(struct plan *plan, const struct definition *definition,
                            enum counter_mode stored)
{
    buf_addf(plan->why,
             "%s%scounter %.*s is %s, but its stored cells are %s; give it "
             "another name, or take it out and DELETE /api/admin/counters/%.*s first",
             definition->where, definition->where[0] ? ": " : "", (int)definition->name.size,
             definition->name.data, counter_mode_names[definition->mode],
             counter_mode_names[stored], (int)definition->name.size, definition->name.data);
    return ERR_INVALID;
}

static enum err fill_definition(struct plan *plan, struct definition *definition)
{
    struct stored_definition *stored = stored_find(plan, definition->name);
    if (!stored) {
        definition->generation = (uint32_t)++plan->generation;
        definition->since = plan->now_ms > 0 ? (uint64_t)plan->now_ms : 0;
        return ERR_OK;
    }
    if (stored->definition.mode != definition->mode)
        return refuse_mode(plan, definition, stored->definition.mode);
    definition->generation = stored->definition.generation;
    definition->since = stored->definition.since;
    definition->adjusted = stored->definition.adjusted;
    stored->kept = true;
    return ERR_OK;
}

static unsigned count_frozen(const struct plan *plan)
{
    unsigned count = 0;
    for (unsigned i = 0; i < plan->stored_count; i++)
        count += !plan->stored[i].kept;
    return count;
}

static void add_frozen(struct plan *plan)
{
    struct rules *rules = plan->rules;
    unsigned frozen = count_frozen(plan);
    if (frozen == 0) return;
    struct definition *all = arena_alloc(&rules->arena, (rules->definitions_count + frozen) *
                                                            sizeof *rules->definitions);
    if (rules->definitions_count)
        memcpy(all, rules->definitions, rules->definitions_count * sizeof *all);
    for (unsigned i = 0; i < plan->stored_count; i++) {
        if (plan->stored[i].kept) continue;
        struct definition *definition = &all[rules->definitions_count++];
        *definition = plan->stored[i].definition;
        definition->frozen = true;
    }
    rules->definitions = all;
}

static enum err fill_rules(struct plan *plan)
{
    for (unsigned i = 0; i < plan->rules->definitions_count; i++) {
        enum err e = fill_definition(plan, &plan->rules->definitions[i]);
        if (e != ERR_OK) return e;
    }
    add_frozen(plan);
    rules_seal(plan->rules);
    return ERR_OK;
}

/* -- The job ----------------------------------------------------------------------------------- */

static void plan_op(struct plan *plan, struct op op)
{
    struct job *job = &plan->enactment->job;
    job->ops[job->count++] = op;
}

static void plan_definition(struct plan *plan, const struct definition *definition)
{
    struct arena *arena = &plan->enactment->arena;
    const struct stored_definition *stored = stored_find(plan, definition->name);
    struct bytes value = definition_bytes(arena, definition);
    if (stored && bytes_equal(stored->value, value)) return;
    plan_op(plan, propose_object_if(arena, &plan->store->secret,
                                    object_key(arena, OBJECT_DEFINITION, definition->name),
                                    stored ? stored->value : BYTES_NONE, value));
    plan->enactment->same = false;
}

static void plan_job(struct plan *plan, struct bytes text)
{
    struct arena *arena = &plan->enactment->arena;
    struct job *job = &plan->enactment->job;
    unsigned most = plan->rules->definitions_count + 2;
    *job = (struct job){.ops = arena_alloc(arena, most * sizeof *job->ops),
                        .lane = LANE_SYNC,
                        .atomic = true,
                        .whole = true,
                        .weighty = true,
                        .rules = plan->rules};
    plan->enactment->same = true;
    for (unsigned i = 0; i < plan->rules->definitions_count; i++)
        plan_definition(plan, &plan->rules->definitions[i]);
    if (plan->generation != plan->generation_stored)
        plan_op(plan, propose_object(arena, &plan->store->secret,
                                     object_key(arena, OBJECT_META, META_GENERATION),
                                     object_number(arena, plan->generation)));
    /* Last: a job has at least one op. It changes nothing if the text is as it was. */
    plan_op(plan,
            propose_object(arena, &plan->store->secret, object_key(arena, OBJECT_META, META_RULES),
                           arena_copy(arena, text)));
}

enum err enact_plan(struct enactment *enactment, struct store *store, int64_t now_ms,
                    struct rules *rules, struct bytes text, struct buf *why_out)
{
    struct plan plan = {
        .enactment = enactment, .store = store, .now_ms = now_ms, .rules = rules, .why = why_out};
    arena_init(&enactment->arena, PLAN_CHUNK);
    enum err e = read_store(&plan);
    if (e == ERR_OK) e = fill_rules(&plan);
    if (e == ERR_OK) plan_job(&plan, text);
    return e;
}

void enact_release(struct enactment *enactment)
{
    arena_release(&enactment->arena);
}
