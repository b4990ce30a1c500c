/* rules.c -- lookups in a compiled set of rules, and what the store keeps of a definition.
 *
 * Both lookups are open-addressing tables at most half full, built once by rules_seal. All that is
 * known about a type of event stands in one slot: an event costs one probe. */
#include "core/rules.h"

#include <stdlib.h>

#include "base/hash.h"
#include "core/name.h"
#include "core/reconcile.h"

#define RULES_CHUNK_SIZE (8u << 10)
#define TABLE_SLOTS_MIN 8u

const char *const counter_mode_names[] = {
    [MODE_PERSISTENT] = "persistent", [MODE_WINDOWED] = "windowed", [MODE_SERIES] = "series"};

struct name_slot {
    uint64_t hash;
    const struct definition *definition; /* NULL: empty */
};

struct type_slot {
    uint64_t hash;
    struct bytes type; /* data NULL: empty */
    struct bytes status;
    struct trigger *triggers;
    unsigned triggers_count;
    bool listed; /* in events.types */
};

struct rules *rules_new(void)
{
    struct rules *rules = must_calloc(1, sizeof *rules);
    arena_init(&rules->arena, RULES_CHUNK_SIZE);
    atomic_init(&rules->references, 1);
    rules->enacted_ms = TIME_NONE;
    return rules;
}

struct rules *rules_hold(struct rules *rules)
{
    unsigned before = atomic_fetch_add_explicit(&rules->references, 1, memory_order_relaxed);
    must(before > 0);
    return rules;
}

static void wipe_secrets(struct rules *rules)
{
    for (unsigned i = 0; i < rules->reconciles_count; i++) {
        struct bytes dsn = rules->reconciles[i].dsn;
        if (dsn.size) explicit_bzero((char *)dsn.data, dsn.size);
    }
}

void rules_release(struct rules *rules)
{
    if (!rules) return;
    unsigned before = atomic_fetch_sub_explicit(&rules->references, 1, memory_order_acq_rel);
    must(before > 0);
    if (before > 1) return;
    if (!rules->parent) wipe_secrets(rules);
    rules_release(rules->parent);
    arena_release(&rules->arena);
    free(rules);
}

static int source_order(const void *a, const void *b)
{
    const struct source *left = a;
    const struct source *right = b;
    return bytes_compare(left->name, right->name);
}

static int granularity_order(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a;
    int32_t right = *(const int32_t *)b;
    return (left > right) - (left < right);
}

void sources_sort(struct source *sources, unsigned count)
{
    if (count > 1) qsort(sources, count, sizeof *sources, source_order);
}

static void definition_sort(struct definition *definition)
{
    for (unsigned i = 0; i < definition->sets_count; i++)
        sources_sort(definition->sets[i].sources, definition->sets[i].count);
    sources_sort(definition->entity, definition->entity_count);
    if (definition->granularities_count > 1)
        qsort(definition->granularities, definition->granularities_count,
              sizeof *definition->granularities, granularity_order);
}

static uint32_t table_mask(size_t count)
{
    uint32_t slots = TABLE_SLOTS_MIN;
    while (slots < 2 * count)
        slots *= 2;
    return slots - 1;
}

/* The slot of this name, or the empty one where it belongs. */
static struct name_slot *name_slot(const struct rules *rules, uint64_t hash, struct bytes name)
{
    for (uint64_t at = hash;; at++) {
        struct name_slot *slot = &rules->names[at & rules->names_mask];
        if (!slot->definition) return slot;
        if (slot->hash == hash && bytes_equal(slot->definition->name, name)) return slot;
    }
}

static struct type_slot *type_slot(const struct rules *rules, uint64_t hash, struct bytes type)
{
    for (uint64_t at = hash;; at++) {
        struct type_slot *slot = &rules->triggers[at & rules->triggers_mask];
        if (!slot->type.data) return slot;
        if (slot->hash == hash && bytes_equal(slot->type, type)) return slot;
    }
}

static struct type_slot *type_slot_make(struct rules *rules, struct bytes type)
{
    must(type.data != NULL);
    uint64_t hash = hash_checksum(type);
    struct type_slot *slot = type_slot(rules, hash, type);
    slot->hash = hash;
    slot->type = type;
    return slot;
}

/* Where two definitions have one name the first stands: a frozen one never hides one in force. */
static void names_build(struct rules *rules)
{
    rules->names_mask = table_mask(rules->definitions_count);
    rules->names = arena_zalloc(&rules->arena, (rules->names_mask + 1) * sizeof *rules->names);
    for (unsigned i = 0; i < rules->definitions_count; i++) {
        const struct definition *definition = &rules->definitions[i];
        uint64_t hash = hash_checksum(definition->name);
        struct name_slot *slot = name_slot(rules, hash, definition->name);
        if (!slot->definition) *slot = (struct name_slot){hash, definition};
    }
}

typedef void trigger_fn(struct rules *rules, struct trigger trigger);

static void triggers_each(struct rules *rules, trigger_fn *visit)
{
    for (unsigned i = 0; i < rules->definitions_count; i++) {
        const struct definition *definition = &rules->definitions[i];
        for (unsigned j = 0; !definition->frozen && j < definition->rules_count; j++)
            visit(rules, (struct trigger){definition, &definition->rules[j]});
    }
}

static void trigger_count(struct rules *rules, struct trigger trigger)
{
    type_slot_make(rules, trigger.rule->on)->triggers_count++;
}

static void trigger_add(struct rules *rules, struct trigger trigger)
{
    struct type_slot *slot = type_slot_make(rules, trigger.rule->on);
    slot->triggers[slot->triggers_count++] = trigger;
}

/* Gives each slot the room that was counted, to be filled from its start. */
static void triggers_allocate(struct rules *rules)
{
    for (uint32_t i = 0; i <= rules->triggers_mask; i++) {
        struct type_slot *slot = &rules->triggers[i];
        if (!slot->triggers_count) continue;
        slot->triggers = arena_alloc(&rules->arena, slot->triggers_count * sizeof *slot->triggers);
        slot->triggers_count = 0;
    }
}

static void types_build(struct rules *rules)
{
    size_t count = rules->statuses_count + (size_t)rules->types_count;
    for (unsigned i = 0; i < rules->definitions_count; i++)
        count += rules->definitions[i].rules_count;
    rules->triggers_mask = table_mask(count);
    rules->triggers =
        arena_zalloc(&rules->arena, (rules->triggers_mask + 1) * sizeof *rules->triggers);

    triggers_each(rules, trigger_count);
    triggers_allocate(rules);
    triggers_each(rules, trigger_add);
    for (unsigned i = 0; i < rules->statuses_count; i++)
        type_slot_make(rules, rules->statuses[i].on)->status = rules->statuses[i].status;
    for (unsigned i = 0; i < rules->types_count; i++)
        type_slot_make(rules, rules->types[i])->listed = true;
}

static void lookups_build(struct rules *rules)
{
    names_build(rules);
    types_build(rules);
}

void rules_seal(struct rules *rules)
{
    for (unsigned i = 0; i < rules->definitions_count; i++)
        definition_sort(&rules->definitions[i]);
    lookups_build(rules);
}

/* Makes the list of definitions and the lookups new; everything else stays the parent's. */
static struct rules *rules_copy(struct rules *rules)
{
    struct rules *copy = rules_new();
    copy->parent = rules_hold(rules->parent && !rules->for_lane ? rules->parent : rules);
    copy->definitions_count = rules->definitions_count;
    copy->definitions =
        arena_alloc(&copy->arena, rules->definitions_count * sizeof *copy->definitions);
    if (rules->definitions_count)
        memcpy(copy->definitions, rules->definitions,
               rules->definitions_count * sizeof *copy->definitions);
    copy->statuses = rules->statuses;
    copy->statuses_count = rules->statuses_count;
    copy->types = rules->types;
    copy->types_count = rules->types_count;
    copy->types_closed = rules->types_closed;
    copy->reconciles = rules->reconciles;
    copy->reconciles_count = rules->reconciles_count;
    copy->digest = rules->digest;
    copy->enacted_ms = rules->enacted_ms;
    return copy;
}

struct rules *rules_for_lane(struct rules *rules)
{
    struct rules *copy = rules_copy(rules);
    copy->for_lane = true;
    lookups_build(copy);
    return copy;
}

struct rules *rules_with_generation(struct rules *rules, struct bytes name, uint32_t generation,
                                    uint64_t since, bool adjusted)
{
    struct rules *copy = rules_copy(rules);
    for (unsigned i = 0; i < copy->definitions_count; i++) {
        struct definition *definition = &copy->definitions[i];
        if (!bytes_equal(definition->name, name)) continue;
        definition->generation = generation;
        definition->since = since;
        definition->adjusted = adjusted;
    }
    lookups_build(copy); /* what is shared is sorted already */
    return copy;
}

struct rules *rules_with_adjusted(struct rules *rules, const struct bytes *names, unsigned count)
{
    struct rules *copy = rules_copy(rules);
    for (unsigned i = 0; i < copy->definitions_count; i++)
        for (unsigned j = 0; j < count; j++)
            if (bytes_equal(copy->definitions[i].name, names[j]))
                copy->definitions[i].adjusted = true;
    lookups_build(copy);
    return copy;
}

struct rules *rules_without(struct rules *rules, struct bytes name)
{
    struct rules *copy = rules_copy(rules);
    unsigned left = 0;
    for (unsigned i = 0; i < copy->definitions_count; i++)
        if (!bytes_equal(copy->definitions[i].name, name))
            copy->definitions[left++] = copy->definitions[i];
    copy->definitions_count = left;
    lookups_build(copy);
    return copy;
}

const struct definition *rules_find(const struct rules *rules, struct bytes name)
{
    return name_slot(rules, hash_checksum(name), name)->definition;
}

const struct trigger *rules_triggers(const struct rules *rules, struct bytes type,
                                     unsigned *count_out)
{
    const struct type_slot *slot = type_slot(rules, hash_checksum(type), type);
    *count_out = slot->triggers_count;
    return slot->triggers;
}

struct bytes rules_status(const struct rules *rules, struct bytes type)
{
    return type_slot(rules, hash_checksum(type), type)->status;
}

bool rules_type_known(const struct rules *rules, struct bytes type)
{
    return !rules->types_closed || type_slot(rules, hash_checksum(type), type)->listed;
}

static bool set_has_keys(const struct dimension_set *set, const struct bytes *keys, unsigned count)
{
    if (set->count != count) return false;
    for (unsigned i = 0; i < count; i++)
        if (!bytes_equal(set->sources[i].name, keys[i])) return false;
    return true;
}

int definition_set(const struct definition *definition, const struct bytes *keys, unsigned count)
{
    for (unsigned i = 0; i < definition->sets_count; i++)
        if (set_has_keys(&definition->sets[i], keys, count)) return (int)i;
    return -1;
}

unsigned definition_cells(const struct definition *definition)
{
    switch (definition->mode) {
    case MODE_PERSISTENT:
        return 1;
    case MODE_WINDOWED:
        return definition->trailing ? 2 : 1;
    case MODE_SERIES:
        return definition->granularities_count;
    }
    unreachable_state(definition->mode);
}
