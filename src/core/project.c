/* project.c -- one event against the rules: conditions, amounts, keys.
 *
 * Runs for every event on the threads that read requests, so it allocates from the request's arena
 * only, and writes each set's canonical JSON once. */
#include "core/project.h"

#include "core/name.h"
#include "core/number.h"
#include "core/object.h"

#define ESCAPE_MAX 6    /* bytes that canonical JSON makes of one */
#define SMALL_JSON 1024 /* dimensions up to here are written on the stack first */

/* The most bytes of canonical JSON made from one event: \n in its payload becomes \u000a. */
#define JSON_SIZE_MAX (3 * (size_t)EVENT_SIZE_MAX)

/* Upper bounds of what the journal writes beside keys and texts. */
#define WEIGHT_EVENT 64
#define WEIGHT_OBJECT 64
#define WEIGHT_TARGET 96
#define WEIGHT_CELL 40

struct projecting {
    const struct project_input *input;
    const struct event *event;
    struct projection *projection;
    struct bytes status; /* what the tenant's becomes; size 0: it stays */
};

static const struct dimension *dimension_find(const struct event *event, struct bytes key)
{
    for (uint32_t i = 0; i < event->dimensions_count; i++)
        if (bytes_equal(event->dimensions[i].key, key)) return &event->dimensions[i];
    return NULL;
}

/* Descends objects only; what is not there is JSON_ABSENT. A dimension is a string. */
static struct json_value source_find(const struct projecting *self, const struct source *source)
{
    struct json_value value = {.type = JSON_ABSENT};
    if (!source->payload) {
        const struct dimension *found = dimension_find(self->event, source->name);
        if (found) value = (struct json_value){.type = JSON_STRING, .string = found->value};
        return value;
    }
    if (self->input->payload) value = *self->input->payload;
    for (unsigned i = 0; i < source->parts_count && value.type != JSON_ABSENT; i++) {
        struct json_value object = value;
        json_pick(&object, &source->parts[i], 1, &value);
    }
    return value;
}

/* The string form of a string, an integer or a boolean. False: there is none of these. */
static bool source_text(const struct projecting *self, const struct source *source,
                        struct bytes *text_out)
{
    struct json_value value = source_find(self, source);
    return dimension_text(&value, self->input->arena, text_out);
}

static bool where_holds(const struct projecting *self, const struct rule *rule)
{
    for (unsigned i = 0; i < rule->where_count; i++) {
        struct bytes text;
        if (!source_text(self, &rule->where[i].source, &text)) return false;
        if (!bytes_equal(text, rule->where[i].value)) return false;
    }
    return true;
}

/* A payload's value that is no amount counts as 0 and is noticed. */
static int64_t amount_of(const struct projecting *self, const struct rule *rule)
{
    if (rule->amount) return rule->amount;
    struct json_value value = source_find(self, &rule->amount_from);
    if (value.type == JSON_ABSENT || value.type == JSON_NULL) return 0;

    int64_t amount = -1;
    if (value.type == JSON_INT) amount = value.integer;
    if (value.type == JSON_STRING && !number_parse(value.string, &amount)) amount = -1;
    if (amount >= 0) return amount;
    self->projection->bad_amount++;
    return 0;
}

/* The values of `sources`, which are sorted as canonical JSON wants them. False: one is missing. */
static bool pairs_fill(const struct projecting *self, const struct source *sources, unsigned count,
                       struct dimension *pairs)
{
    must(count <= RULES_DIMENSIONS_MAX);
    for (unsigned i = 0; i < count; i++) {
        pairs[i].key = sources[i].name;
        if (!source_text(self, &sources[i], &pairs[i].value)) return false;
    }
    return true;
}

/* Writes canonical JSON into `small` or, if it could be too long for that, into `arena`, taking no
 * more room there than it needs: an event may go to hundreds of sets. */
static struct bytes pairs_json(const struct dimension *pairs, unsigned count, struct arena *arena,
                               char small[static SMALL_JSON])
{
    size_t room = 2;
    for (unsigned i = 0; i < count; i++)
        room += ESCAPE_MAX * (pairs[i].key.size + pairs[i].value.size + 1);
    if (room > SMALL_JSON) room = dimensions_size(pairs, count);
    struct buf json = {.data = room <= SMALL_JSON ? small : arena_alloc(arena, room),
                       .capacity = room,
                       .max = room};
    dimensions_write(&json, pairs, count);
    must(!json.failed);
    return buf_bytes(&json);
}

static void target_name(const struct projecting *self, const struct change *change,
                        struct bytes json, struct target *target)
{
    const struct project_input *input = self->input;
    target->key =
        rule_key(input->arena, input->tenant, change->definition->name, change->generation, json);
    target->print = fingerprint_of(input->secret, target->key);
}

/* Looks for the key of a set without dimensions in the memo, and makes it if it is not there. */
static void target_recall(const struct projecting *self, const struct change *change,
                          const struct dimension_set *set, struct bytes json, struct target *target)
{
    unsigned place = (unsigned)((uintptr_t)set / sizeof *set) % PROJECT_MEMO_SLOTS;
    struct project_memo *memo = self->input->memo;
    if (memo->slots[place].set != set) {
        target_name(self, change, json, target);
        memo->slots[place].set = set;
        memo->slots[place].key = target->key;
        memo->slots[place].print = target->print;
    }
    target->key = memo->slots[place].key;
    target->print = memo->slots[place].print;
}

/* Whether a set is all that the event says of itself, as it often is: then its JSON is there. */
static bool pairs_are_event(const struct dimension *pairs, unsigned count,
                            const struct event *event)
{
    if (count == 0 || count != event->dimensions_count || !event->dimensions_json.size)
        return false;
    for (unsigned i = 0; i < count; i++) {
        const struct dimension *dimension = &event->dimensions[i];
        if (pairs[i].value.data != dimension->value.data) return false;
        if (!bytes_equal(pairs[i].key, dimension->key)) return false;
    }
    return true;
}

/* False: the event lacks one of the set's dimensions. */
static bool target_fill(const struct projecting *self, const struct change *change,
                        const struct dimension_set *set, struct target *target)
{
    struct dimension pairs[RULES_DIMENSIONS_MAX];
    char small[SMALL_JSON];
    const struct project_input *input = self->input;
    if (!pairs_fill(self, set->sources, set->count, pairs)) return false;
    struct bytes json = pairs_are_event(pairs, set->count, self->event)
                            ? self->event->dimensions_json
                            : pairs_json(pairs, set->count, input->arena, small);
    if (set->count == 0 && input->memo)
        target_recall(self, change, set, json, target);
    else
        target_name(self, change, json, target);
    target->counter_index = 0;
    /* A rebuild counts beside what is there: no reader's value changes, so nothing is marked. */
    target->mark = change->marks ? mark_of_set(input->arena, input->secret, change->definition,
                                               input->tenant, json)
                                 : NULL;
    return true;
}

static void targets_fill(const struct projecting *self, struct change *change)
{
    const struct definition *definition = change->definition;
    struct arena *arena = self->input->arena;
    unsigned cells = definition_cells(definition);
    change->targets = arena_alloc(arena, definition->sets_count * sizeof *change->targets);
    for (unsigned i = 0; i < definition->sets_count; i++) {
        struct target *target = &change->targets[change->targets_count];
        if (target_fill(self, change, &definition->sets[i], target)) {
            target->cells = arena_zalloc(arena, cells * sizeof *target->cells);
            change->targets_count++;
        } else {
            self->projection->missing_dimension++; /* this set only */
        }
    }
}

/* Has room for as many sets, and as long ones, as an entity's state may remember. */
static struct buf *told_new(struct arena *arena)
{
    const size_t size = ENTITY_KEYS_MAX + RULES_SETS_MAX * VARINT_SIZE_MAX;
    struct buf *told = arena_alloc(arena, sizeof *told);
    *told = (struct buf){.data = arena_alloc(arena, size), .capacity = size, .max = size};
    return told;
}

/* False: the event does not say which entity it is about. */
static bool entity_fill(const struct projecting *self, struct change *change)
{
    struct dimension pairs[RULES_DIMENSIONS_MAX];
    char small[SMALL_JSON];
    const struct project_input *input = self->input;
    const struct definition *definition = change->definition;
    if (definition->entity_count == 0) return true;
    if (!pairs_fill(self, definition->entity, definition->entity_count, pairs)) return false;
    struct bytes json = pairs_json(pairs, definition->entity_count, input->arena, small);
    struct entity_state *entity = arena_zalloc(input->arena, sizeof *entity);
    entity->key =
        object_state_key(input->arena, input->tenant, definition->name, change->generation, json);
    entity->print = fingerprint_of(input->secret, entity->key);
    if (input->tell && change->op == OP_DECREMENT) entity->told = told_new(input->arena);
    change->entity = entity;
    return true;
}

static size_t targets_weight(const struct definition *definition, size_t count)
{
    return count * (WEIGHT_TARGET + (size_t)WEIGHT_CELL * definition_cells(definition));
}

/* A decrement counts under the sets that another event switched its entity on under. It is weighed
 * as if these were as many and as long as they can be, which is why they have a bound. */
static size_t former_weight(const struct definition *definition)
{
    return ENTITY_KEYS_MAX + targets_weight(definition, RULES_SETS_MAX);
}

/* What the rows of the dirty queue weigh, and the number of them. */
static size_t marks_weight(const struct projecting *self, const struct change *change)
{
    size_t each = MARK_SIZE + WEIGHT_OBJECT;
    size_t weight = self->input->tenant.size + sizeof(uint64_t) + WEIGHT_OBJECT;
    if (!change->marks) return 0;
    for (uint32_t i = 0; i < change->targets_count; i++)
        if (change->targets[i].mark) weight += change->targets[i].mark->key.size + each;
    if (change->entity && change->op == OP_DECREMENT)
        weight += ENTITY_KEYS_MAX + RULES_SETS_MAX * each;
    return weight;
}

static size_t change_weight(const struct projecting *self, const struct change *change)
{
    size_t keys = 0;
    for (uint32_t i = 0; i < change->targets_count; i++)
        keys += change->targets[i].key.size;
    size_t weight = keys + targets_weight(change->definition, change->targets_count) +
                    marks_weight(self, change);
    if (!change->entity) return weight;
    weight += change->entity->key.size + keys + WEIGHT_OBJECT;
    if (keys > ENTITY_KEYS_MAX) self->projection->too_large = true;
    if (change->op == OP_DECREMENT) weight += former_weight(change->definition);
    return weight;
}

static void change_add(const struct projecting *self, const struct definition *definition,
                       const struct rule *rule)
{
    if (definition->frozen || !where_holds(self, rule)) return;
    struct projection *projection = self->projection;
    struct change *change = &projection->changes[projection->changes_count];
    *change = (struct change){.definition = definition, .op = rule->op};
    change->generation = self->input->only ? self->input->generation : definition->generation;
    change->amount = amount_of(self, rule);
    change->marks = definition->reconciles_count > 0 && !self->input->only;
    if (!entity_fill(self, change)) {
        projection->missing_entity++;
        return;
    }
    targets_fill(self, change);
    if (change->targets_count == 0 && !change->entity) return;
    projection->changes_count++;
    projection->weight += change_weight(self, change);
    if (bytes_equal(definition->group, USAGE_GROUP)) projection->usage = true;
}

static void changes_alloc(const struct projecting *self, unsigned count)
{
    struct projection *projection = self->projection;
    projection->changes = arena_alloc(self->input->arena, count * sizeof *projection->changes);
}

static void project_all(struct projecting *self)
{
    const struct rules *rules = self->input->rules;
    unsigned count;
    const struct trigger *triggers = rules_triggers(rules, self->event->type, &count);
    changes_alloc(self, count);
    for (unsigned i = 0; i < count; i++)
        change_add(self, triggers[i].definition, triggers[i].rule);
    self->status = rules_status(rules, self->event->type);
}

/* A rebuild counts one counter again. The tenant's row is left alone: the event changed it when it
 * came. */
static void project_only(const struct projecting *self)
{
    const struct definition *only = self->input->only;
    changes_alloc(self, only->rules_count);
    for (unsigned i = 0; i < only->rules_count; i++)
        if (bytes_equal(only->rules[i].on, self->event->type))
            change_add(self, only, &only->rules[i]);
    self->projection->usage = false;
}

/* Whether the row is written is known only when the event is decided, so it is weighed as if it
 * were. */
static void row_fill(const struct projecting *self)
{
    struct projection *projection = self->projection;
    if (self->status.size == 0 && !projection->usage) return;
    struct row_change *row = arena_zalloc(self->input->arena, sizeof *row);
    row->key = object_key(self->input->arena, OBJECT_USAGE, self->input->tenant);
    row->print = fingerprint_of(self->input->secret, row->key);
    row->status = self->status;
    projection->row = row;
    size_t status_size = row->status.size ? row->status.size : NAME_SIZE_MAX;
    projection->weight += row->key.size + status_size + WEIGHT_OBJECT;
}

struct projection *project(const struct project_input *input, const struct event *event)
{
    struct projection *projection = arena_zalloc(input->arena, sizeof *projection);
    struct projecting self = {.input = input, .event = event, .projection = projection};
    projection->rules = input->rules;
    projection->weight = input->tenant.size + event->id.size + event->type.size +
                         event->dimensions_json.size + event->payload.size + WEIGHT_EVENT;
    if (input->only)
        project_only(&self);
    else
        project_all(&self);
    row_fill(&self);
    return projection;
}
