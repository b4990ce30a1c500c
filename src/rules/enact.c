/* enact.c -- compares the rules with what the store knows and writes down the difference. */
#include "rules/enact.h"

#include "base/table.h"
#include "commit/propose.h"
#include "core/object.h"

#define PLAN_CHUNK (16u << 10)

struct stored_definition {
    struct bytes name; /* the counter's */
    struct bytes value;
    struct definition definition;
    bool kept; /* the new rules have it */
};

struct plan {
    struct enactment *enactment;
    struct buf *why;
    unsigned stored_capacity;
    enum err err;
};

/* -- Reading the store ------------------------------------------------------------------------- */

static void stored_add(struct plan *plan, const struct stored_definition *stored)
{
    struct enactment *enactment = plan->enactment;
    unsigned count = enactment->stored_count;
    if (count == plan->stored_capacity) {
        unsigned capacity = plan->stored_capacity * 2 + 16;
        struct stored_definition *more = arena_alloc(&enactment->arena, capacity * sizeof *more);
        if (count) memcpy(more, enactment->stored, count * sizeof *more);
        enactment->stored = more;
        plan->stored_capacity = capacity;
    }
    enactment->stored[enactment->stored_count++] = *stored;
}

/* Definitions are decoded into the rules' own arena: frozen ones live as long as the rules. */
static bool read_definition(void *context, struct bytes key, struct bytes value)
{
    struct plan *plan = context;
    struct arena *arena = &plan->enactment->rules->arena;
    struct stored_definition stored = {.name =
                                           arena_copy(arena, bytes_of(key.data + 1, key.size - 1)),
                                       .value = arena_copy(arena, value)};
    plan->err = definition_decode(stored.value, arena, &stored.definition);
    if (plan->err == ERR_OK) stored_add(plan, &stored);
    return plan->err == ERR_OK;
}

static enum err read_store(struct plan *plan)
{
    struct enactment *enactment = plan->enactment;
    struct store *store = enactment->store;
    struct bytes prefix = object_key(&enactment->arena, OBJECT_DEFINITION, BYTES_NONE);
    enum err e = store_number(store, META_GENERATION, &enactment->generation_stored);
    enactment->generation = enactment->generation_stored;
    if (e == ERR_OK) e = view_objects(&store->view, prefix, BYTES_NONE, read_definition, plan);
    if (e == ERR_OK) e = plan->err;
    if (e != ERR_OK) buf_addf(plan->why, "the stored counter definitions could not be read");
    return e;
}

/* -- Filling in -------------------------------------------------------------------------------- */

static struct stored_definition *stored_find(const struct enactment *enactment, struct bytes name)
{
    for (unsigned i = 0; i < enactment->stored_count; i++)
        if (bytes_equal(enactment->stored[i].name, name)) return &enactment->stored[i];
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
    struct stored_definition *stored = stored_find(plan->enactment, definition->name);
    if (!stored) {
        definition->generation = (uint32_t)++plan->enactment->generation;
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

static unsigned count_frozen(const struct enactment *enactment)
{
    unsigned count = 0;
    for (unsigned i = 0; i < enactment->stored_count; i++)
        count += !enactment->stored[i].kept;
    return count;
}

static void add_frozen(struct enactment *enactment)
{
    struct rules *rules = enactment->rules;
    unsigned frozen = count_frozen(enactment);
    if (frozen == 0) return;
    struct definition *all = arena_alloc(&rules->arena, (rules->definitions_count + frozen) *
                                                            sizeof *rules->definitions);
    if (rules->definitions_count)
        memcpy(all, rules->definitions, rules->definitions_count * sizeof *all);
    for (unsigned i = 0; i < enactment->stored_count; i++) {
        if (enactment->stored[i].kept) continue;
        struct definition *definition = &all[rules->definitions_count++];
        *definition = enactment->stored[i].definition;
        definition->frozen = true;
    }
    rules->definitions = all;
}

static enum err fill_rules(struct plan *plan)
{
    struct rules *rules = plan->enactment->rules;
    for (unsigned i = 0; i < rules->definitions_count; i++) {
        enum err e = fill_definition(plan, &rules->definitions[i]);
        if (e != ERR_OK) return e;
    }
    add_frozen(plan->enactment);
    rules_seal(rules);
    return ERR_OK;
}

/* -- The bundle -------------------------------------------------------------------------------- */

static void add_op(struct enactment *enactment, struct op op)
{
    struct bundle *bundle = &enactment->bundle;
    bundle->ops[bundle->count++] = op;
}

static void add_definition(struct enactment *enactment, struct definition *definition,
                           int64_t time_ms)
{
    struct arena *arena = &enactment->arena;
    const struct stored_definition *stored = stored_find(enactment, definition->name);
    if (!stored) definition->since = time_ms > 0 ? (uint64_t)time_ms : 0;
    struct bytes value = definition_bytes(arena, definition);
    if (stored && bytes_equal(stored->value, value)) return;
    add_op(enactment, propose_object_if(arena, &enactment->store->secret,
                                        object_key(arena, OBJECT_DEFINITION, definition->name),
                                        stored ? stored->value : BYTES_NONE, value));
}

static struct op text_op(struct enactment *enactment)
{
    struct arena *arena = &enactment->arena;
    return propose_object(arena, &enactment->store->secret,
                          object_key(arena, OBJECT_META, META_RULES), enactment->text);
}

/* The op is refused if another generation was given out since the plan was made: two counters of
 * one generation would each be taken for the other where cells are removed. */
static struct op generation_op(struct enactment *enactment)
{
    struct arena *arena = &enactment->arena;
    uint64_t stored = enactment->generation_stored;
    return propose_object_if(arena, &enactment->store->secret,
                             object_key(arena, OBJECT_META, META_GENERATION),
                             stored ? object_number(arena, stored) : BYTES_NONE,
                             object_number(arena, enactment->generation));
}

struct bytes enact_ruled_key(struct arena *arena, uint64_t digest)
{
    char name[sizeof "ruled:" - 1 + sizeof digest];
    memcpy(name, META_RULED.data, META_RULED.size);
    put_ordered_u64(name + META_RULED.size, digest);
    return object_key(arena, OBJECT_META, bytes_of(name, sizeof name));
}

static struct op ruled_op(struct enactment *enactment, int64_t time_ms)
{
    struct arena *arena = &enactment->arena;
    return propose_object(arena, &enactment->store->secret,
                          enact_ruled_key(arena, enactment->rules->digest),
                          object_number(arena, time_ms > 0 ? (uint64_t)time_ms : 0));
}

/* Called on the commit thread, once the time of the bundle's batch is known. */
static void make_ops(struct bundle *bundle, int64_t time_ms)
{
    struct enactment *enactment = CONTAINER_OF(bundle, struct enactment, bundle);
    struct arena *arena = &enactment->arena;
    struct rules *rules = enactment->rules;
    rules->enacted_ms = time_ms;
    bundle->ops = arena_alloc(arena, (rules->definitions_count + 3) * sizeof *bundle->ops);
    bundle->count = 0;
    for (unsigned i = 0; i < rules->definitions_count; i++)
        add_definition(enactment, &rules->definitions[i], time_ms);
    if (enactment->generation != enactment->generation_stored)
        add_op(enactment, generation_op(enactment));
    if (enactment->store->remote) add_op(enactment, ruled_op(enactment, time_ms));
    /* The text comes last, so that a bundle has at least one op. It changes nothing if it is as it
     * was. */
    add_op(enactment, text_op(enactment));
}

static void plan_bundle(struct enactment *enactment)
{
    struct bundle *bundle = &enactment->bundle;
    *bundle = (struct bundle){.ops = arena_alloc(&enactment->arena, sizeof *bundle->ops),
                              .count = 1,
                              .urgency = URGENCY_URGENT,
                              .atomic = true,
                              .whole = true,
                              .weighty = true,
                              .rules = enactment->rules,
                              .prepare = make_ops};
    bundle->ops[0] = text_op(enactment);
}

enum err enact_plan(struct enactment *enactment, struct store *store, struct rules *rules,
                    struct bytes text, struct buf *why_out)
{
    *enactment = (struct enactment){.store = store, .rules = rules};
    struct plan plan = {.enactment = enactment, .why = why_out};
    arena_init(&enactment->arena, PLAN_CHUNK);
    enactment->text = arena_copy(&enactment->arena, text);
    rules->digest = hash_checksum(text);
    enum err e = read_store(&plan);
    if (e == ERR_OK) e = fill_rules(&plan);
    if (e == ERR_OK) plan_bundle(enactment);
    return e;
}

static bool text_is_stored(const struct enactment *enactment)
{
    struct arena arena;
    struct buf stored;
    struct store *store = enactment->store;
    arena_init(&arena, 4096);
    buf_init(&stored, SIZE_MAX / 2);
    struct bytes key = object_key(&arena, OBJECT_META, META_RULES);
    bool same = view_object(&store->view, key, &stored) == ERR_OK &&
                bytes_equal(buf_bytes(&stored), enactment->text);
    buf_release(&stored);
    arena_release(&arena);
    return same;
}

bool enact_is_stored(const struct enactment *enactment)
{
    const struct rules *rules = enactment->rules;
    struct arena arena;
    bool same = text_is_stored(enactment);
    arena_init(&arena, PLAN_CHUNK);
    for (unsigned i = 0; i < rules->definitions_count && same; i++) {
        const struct definition *definition = &rules->definitions[i];
        const struct stored_definition *stored = stored_find(enactment, definition->name);
        same = stored && bytes_equal(stored->value, definition_bytes(&arena, definition));
    }
    arena_release(&arena);
    return same;
}

void enact_release(struct enactment *enactment)
{
    arena_release(&enactment->arena);
}
