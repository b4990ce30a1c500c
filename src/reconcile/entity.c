/* entity.c -- the steps of counting one entity anew. */
#include "reconcile/entity.h"

#include "core/event.h"
#include "core/name.h"
#include "core/object.h"

#define ENTITY_CHUNK 4096
#define SETTLE_TRIES 3

/* -- What it is about -------------------------------------------------------------------------- */

/* The values of the entity's keys, in the order of the query's parameters. */
static bool read_values(struct entity *entity, struct json_parser *parser)
{
    const struct reconcile *reconcile = entity->reconcile;
    struct bytes json = entity->query.entity_json;
    char *text = arena_zalloc(&entity->arena, json.size + JSON_PADDING);
    struct json_value root, found[RULES_DIMENSIONS_MAX];
    struct bytes *values = arena_zalloc(&entity->arena, sizeof *values * RULES_DIMENSIONS_MAX);
    memcpy(text, json.data, json.size);
    if (!json_parse(parser, bytes_of(text, json.size), &root) || root.type != JSON_OBJECT)
        return false;
    json_pick(&root, reconcile->parameters, reconcile->entity.count, found);
    for (unsigned i = 0; i < reconcile->entity.count; i++) {
        if (found[i].type != JSON_STRING) return false;
        values[i] = arena_copy(&entity->arena, found[i].string);
    }
    entity->query.values = values;
    return true;
}

/* Names the cells as the rules in force do. */
static bool name_counters(struct entity *entity)
{
    const struct reconcile *reconcile = entity->reconcile;
    struct mark_change *change = &entity->change;
    change->adjustments =
        arena_zalloc(&entity->arena, reconcile->counters_count * sizeof *change->adjustments);
    for (unsigned i = 0; i < reconcile->counters_count; i++) {
        struct adjustment *adjustment = &change->adjustments[change->adjustments_count++];
        const struct definition *definition =
            rules_find(entity->rules, reconcile->counters[i].name);
        if (!definition || definition->frozen) return false;
        adjustment->counter = definition->name;
        adjustment->key = rule_key(&entity->arena, entity->query.tenant, definition->name,
                                   definition->generation, entity->query.entity_json);
        adjustment->print = fingerprint_of(&entity->with->store->secret, adjustment->key);
    }
    return true;
}

bool entity_init(struct entity *entity, const struct caretaker *with, struct rules *rules,
                 const struct reconcile *reconcile, struct bytes tenant, struct bytes entity_json,
                 struct json_parser *parser)
{
    *entity = (struct entity){.with = with, .rules = rules, .reconcile = reconcile};
    arena_init(&entity->arena, ENTITY_CHUNK);
    entity->query = (struct truth_query){.rules = rules,
                                         .reconcile = reconcile,
                                         .tenant = arena_copy(&entity->arena, tenant),
                                         .entity_json = arena_copy(&entity->arena, entity_json)};
    entity->change.digest = reconcile_digest(reconcile);
    entity->change.recounted = reconcile->truth == TRUTH_EVENTS;
    entity->change.place = mark_place_of(&entity->arena, &with->store->secret, reconcile->name,
                                         entity->query.tenant, entity->query.entity_json);
    /* A row from before a reload may have all of these keys and others: then it is of another
     * cell. */
    return mark_is_entity(entity_json, reconcile) && read_values(entity, parser) &&
           name_counters(entity);
}

void entity_release(struct entity *entity)
{
    rules_release(entity->rules);
    arena_release(&entity->arena);
}

/* -- As it stands ------------------------------------------------------------------------------ */

struct beginning {
    struct entity *entity;
    struct buf row;
    enum err err;
};

static enum err read_counter(struct view *moment, struct adjustment *adjustment)
{
    const struct cell_ref ref = {adjustment->key, adjustment->print, 0, 0};
    struct cell cell;
    enum err e = view_get(moment, &ref, 0, READ_ALL, &cell);
    adjustment->then = e == ERR_OK ? cell_triple(&cell).net : 0;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* It may be run again from its start. */
static void read_all(void *context, struct view *moment)
{
    struct beginning *beginning = context;
    struct entity *entity = beginning->entity;
    buf_reset(&beginning->row);
    enum err e = view_object(moment, entity->change.place.key, &beginning->row);
    if (e == ERR_NOT_FOUND) e = ERR_OK;
    for (uint32_t i = 0; i < entity->change.adjustments_count && e == ERR_OK; i++)
        e = read_counter(moment, &entity->change.adjustments[i]);
    beginning->err = e;
}

enum err entity_begin(struct entity *entity)
{
    struct store *store = entity->with->store;
    struct beginning beginning = {.entity = entity};
    buf_init(&beginning.row, 4 * MARK_SIZE);
    view_instant(&store->view, read_all, &beginning);
    if (beginning.err == ERR_OK && !mark_decode(buf_bytes(&beginning.row), &entity->mark))
        beginning.err = ERR_CORRUPT;
    entity->change.version = entity->mark.version;
    entity->change.updated_ms = entity->mark.updated_ms;
    buf_release(&beginning.row);
    return beginning.err;
}

/* -- Putting it right -------------------------------------------------------------------------- */

static enum err propose_change(struct entity *entity, enum mark_step step)
{
    const struct caretaker *with = entity->with;
    entity->change.step = step;
    struct op op = propose_mark(entity->query.tenant, &entity->change);
    struct bundle bundle = {.ops = &op,
                            .count = 1,
                            .urgency = URGENCY_URGENT,
                            .whole = true,
                            .weighty = true,
                            .tenant = entity->query.tenant};
    enum err e = with->propose(with->context, &bundle);
    return e == ERR_OK ? op.err : e;
}

/* The counters that are about to be adjusted for the first time, as the rules in force have them: a
 * reload may have frozen one of them since, which is then left as the store has it. */
static unsigned unadjusted(const struct entity *entity, const struct rules *rules,
                           struct bytes *names)
{
    unsigned count = 0;
    for (uint32_t i = 0; i < entity->change.adjustments_count; i++) {
        const struct adjustment *adjustment = &entity->change.adjustments[i];
        const struct definition *definition = rules_find(rules, adjustment->counter);
        if (adjustment->unadjusted && definition && !definition->frozen && !definition->adjusted)
            names[count++] = definition->name;
    }
    return count;
}

/* Makes their definitions say that events alone no longer explain them. No adjustment is let
 * through before that, so no rebuild can undo one unawares (SPEC 7). */
static enum err enact_adjusted(struct entity *entity, struct rules *rules)
{
    const struct caretaker *with = entity->with;
    struct arena *arena = &entity->arena;
    struct bytes names[RECONCILE_COUNTERS_MAX] = {{0}};
    struct op ops[RECONCILE_COUNTERS_MAX];
    unsigned names_count = unadjusted(entity, rules, names);
    struct rules *next = rules_with_adjusted(rules, names, names_count);
    uint32_t count = 0;
    for (unsigned i = 0; i < names_count; i++) {
        const struct definition *before = rules_find(rules, names[i]);
        const struct definition *after = rules_find(next, names[i]);
        ops[count++] = propose_object_if(
            arena, &with->store->secret, object_key(arena, OBJECT_DEFINITION, before->name),
            definition_bytes(arena, before), definition_bytes(arena, after));
    }
    struct bundle bundle = {.ops = ops,
                            .count = count,
                            .urgency = URGENCY_URGENT,
                            .atomic = true,
                            .whole = true,
                            .alone = true,
                            .weighty = true,
                            .rules = next};
    enum err e = count ? with->propose(with->context, &bundle) : ERR_OK;
    rules_release(next);
    return e;
}

static enum err say_adjusted(struct entity *entity)
{
    pthread_mutex_lock(entity->with->enacting);
    struct rules *rules = rulebook_hold(entity->with->rulebook);
    enum err e = enact_adjusted(entity, rules);
    rules_release(rules);
    pthread_mutex_unlock(entity->with->enacting);
    return e;
}

enum err entity_settle(struct entity *entity)
{
    enum err e = ERR_CONFLICT;
    for (unsigned try = 0; try < SETTLE_TRIES; try++) {
        e = propose_change(entity, MARK_PASS);
        if (e != ERR_CONFLICT || !entity->change.unadjusted) return e;
        e = say_adjusted(entity);
        if (e != ERR_OK) return e;
    }
    return ERR_CONFLICT;
}

enum err entity_fail(struct entity *entity, int64_t retry_ms)
{
    uint32_t count = entity->change.adjustments_count;
    entity->change.retry_ms = retry_ms;
    entity->change.adjustments_count = 0;
    enum err e = propose_change(entity, MARK_FAIL);
    entity->change.adjustments_count = count;
    return e;
}

/* -- Showing it -------------------------------------------------------------------------------- */

void entity_show(struct buf *buf, const struct entity *entity)
{
    for (unsigned i = 0; i < entity->reconcile->entity.count; i++) {
        if (i) buf_add_char(buf, '/');
        buf_add(buf, entity->query.values[i]);
    }
}

static __int128 number_of(const struct adjustment *adjustment, enum entity_number which)
{
    switch (which) {
    case ENTITY_BEFORE:
        return adjustment->before;
    case ENTITY_AFTER:
        return adjustment->after;
    case ENTITY_DIFFERENCE:
        return (__int128)adjustment->after - adjustment->before;
    case ENTITY_THEN:
        return adjustment->then;
    case ENTITY_TRUTH:
        return adjustment->truth;
    case ENTITY_DRIFT:
        return (__int128)adjustment->then - adjustment->truth;
    }
    unreachable_state(which);
}

static void write_numbers(struct buf *buf, const struct entity *entity, enum entity_number which,
                          struct bytes quote)
{
    for (uint32_t i = 0; i < entity->change.adjustments_count; i++) {
        const struct adjustment *adjustment = &entity->change.adjustments[i];
        buf_add_char(buf, i ? ',' : '{');
        buf_add_json(buf, adjustment->counter);
        buf_add_char(buf, ':');
        buf_add(buf, quote);
        buf_add_i128(buf, number_of(adjustment, which));
        buf_add(buf, quote);
    }
    buf_add_char(buf, '}');
}

void entity_write(struct buf *buf, const struct entity *entity, enum entity_number which)
{
    write_numbers(buf, entity, which, BYTES(""));
}

void entity_write_text(struct buf *buf, const struct entity *entity, enum entity_number which)
{
    write_numbers(buf, entity, which, BYTES("\""));
}

/* Two 64-bit numbers differ by less than 2^64. */
static uint64_t drift_of(const struct adjustment *adjustment)
{
    __int128 drift = number_of(adjustment, ENTITY_DIFFERENCE);
    return (uint64_t)(drift < 0 ? -drift : drift);
}

uint64_t entity_drift(const struct entity *entity)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < entity->change.adjustments_count; i++) {
        uint64_t drift = drift_of(&entity->change.adjustments[i]);
        if (drift > most) most = drift;
    }
    return most;
}

uint64_t entity_drift_sum(const struct entity *entity)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < entity->change.adjustments_count; i++)
        if (__builtin_add_overflow(sum, drift_of(&entity->change.adjustments[i]), &sum))
            return UINT64_MAX;
    return sum;
}

int64_t entity_size(struct entity *entity)
{
    if (entity->reconcile->size_by < 0) return 0;
    struct adjustment *adjustment = &entity->change.adjustments[entity->reconcile->size_by];
    return read_counter(&entity->with->store->view, adjustment) == ERR_OK ? adjustment->then : 0;
}
