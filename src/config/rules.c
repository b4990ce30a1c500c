/* rules.c -- counters, statuses and event types out of YAML nodes.
 *
 * A counter's keys are first sorted into a table and then read in an order of our own, `mode`
 * before what depends on it, so that the order in the file means nothing. Parts of a counter that
 * are wrong do not stop the others from being looked at: a file's mistakes are listed together. */
#include "config/rules.h"

#include <stdio.h>

#include "core/name.h"
#include "core/zones.h"

#define SECOND_MS INT64_C(1000)
#define NAME_RULE "1 to 255 of A-Z a-z 0-9 _ . ~ -"
#define COUNTER_RULE "1 to 255 of A-Z a-z 0-9 _ . ~ - :"

enum counter_field {
    NAME,
    MODE,
    DIMENSIONS,
    ROLLUPS,
    FLOOR_AT_ZERO,
    RULES,
    IDEMPOTENCY,
    TRANSITION,
    GROUP,
    LIMIT,
    WINDOW, /* from here on: only for one mode or the other */
    TRAILING,
    GRANULARITIES,
    KEEP,
    FIELD_COUNT
};

static const char *const field_names[] = {
    "counterName", "mode",  "dimensions", "rollups", "floorAtZero", "rules",         "idempotency",
    "transition",  "group", "limit",      "window",  "trailing",    "granularities", "keep",
};
_Static_assert(ARRAY_COUNT(field_names) == FIELD_COUNT, "a name for each field");

/* One counter under way. */
struct making_counter {
    const struct walk *walk;
    struct rules *rules;
    struct definition *definition;
    struct walk_field fields[FIELD_COUNT];
};

static const yaml_node_t *given(const struct making_counter *making, enum counter_field field)
{
    return making->fields[field].value;
}

/* Allocates one more than asked for, so that a list is never NULL. */
static void *allocate(const struct making_counter *making, size_t count, size_t size)
{
    return arena_zalloc(&making->rules->arena, (count + 1) * size);
}

/* Keeps the end of a path that is too long, for it tells more than the beginning. */
static void set_where(struct making_counter *making)
{
    char where[WALK_WHERE_SIZE];
    walk_place(making->walk, &given(making, NAME)->start_mark, where);
    size_t size = strlen(where), room = sizeof making->definition->where - 1;
    snprintf(making->definition->where, room + 1, "%s", where + (size > room ? size - room : 0));
}

static void read_name(struct making_counter *making, const yaml_node_t *entry)
{
    const struct walk *walk = making->walk;
    const yaml_node_t *node = given(making, NAME);
    if (!node) {
        walk_error(walk, entry, "a counter needs a counterName");
        return;
    }
    struct bytes name = walk_is_scalar(node) ? walk_scalar(node) : BYTES_NONE;
    if (!counter_name_valid(name)) {
        walk_error(walk, node, "counterName must be " COUNTER_RULE ", not \"%.*s\"",
                   WALK_SHOWN(name));
        return;
    }
    for (unsigned i = 0; i < making->rules->definitions_count; i++) {
        const struct definition *other = &making->rules->definitions[i];
        if (!bytes_equal(name, other->name)) continue;
        walk_error(walk, node, "counter %.*s is defined twice; the first is at %s",
                   WALK_SHOWN(name), other->where);
        break;
    }
    making->definition->name = arena_copy(&making->rules->arena, name);
    set_where(making);
}

static void read_mode(struct making_counter *making)
{
    const yaml_node_t *node = given(making, MODE);
    if (!node) return; /* the default: persistent */
    struct bytes text = walk_is_scalar(node) ? walk_scalar(node) : BYTES_NONE;
    for (unsigned i = 0; i < ARRAY_COUNT(counter_mode_names); i++) {
        if (!bytes_equal(text, bytes_str(counter_mode_names[i]))) continue;
        making->definition->mode = (enum counter_mode)i;
        return;
    }
    walk_error(making->walk, node, "mode must be persistent, windowed or series, not \"%.*s\"",
               WALK_SHOWN(text));
    /* Which keys belong to which mode cannot be said then. */
    for (enum counter_field field = WINDOW; field < FIELD_COUNT; field++)
        making->fields[field] = (struct walk_field){0};
}

static bool same_keys(const struct dimension_set *a, const struct dimension_set *b)
{
    if (a->count != b->count) return false;
    for (unsigned i = 0; i < a->count; i++)
        if (!bytes_equal(a->sources[i].name, b->sources[i].name)) return false;
    return true;
}

static void add_rollup(struct making_counter *making, const yaml_node_t *node)
{
    struct definition *definition = making->definition;
    struct dimension_set set;
    if (!config_read_dimensions(making->walk, node, "a rollup", &set)) return;
    for (unsigned i = 0; i < definition->sets_count; i++) {
        if (!same_keys(&set, &definition->sets[i])) continue;
        walk_error(making->walk, node, "a rollup has the same keys as %s",
                   i == 0 ? "dimensions" : "another");
        return;
    }
    definition->sets[definition->sets_count++] = set;
}

static void read_sets(struct making_counter *making)
{
    struct definition *definition = making->definition;
    const yaml_node_t *dimensions = given(making, DIMENSIONS), *rollups = given(making, ROLLUPS);
    definition->sets = allocate(making, RULES_SETS_MAX, sizeof *definition->sets);
    definition->sets_count = 1;
    if (dimensions &&
        !config_read_dimensions(making->walk, dimensions, "dimensions", &definition->sets[0]))
        return;
    if (!rollups) return;
    unsigned count;
    const yaml_node_item_t *items =
        walk_list(making->walk, rollups, "rollups", RULES_SETS_MAX - 1, &count);
    for (unsigned i = 0; i < count; i++)
        add_rollup(making, walk_node(making->walk, items[i]));
}

static void read_rules(struct making_counter *making, const yaml_node_t *entry)
{
    struct definition *definition = making->definition;
    const yaml_node_t *node = given(making, RULES);
    unsigned count;
    if (!node) {
        walk_error(making->walk, entry, "a counter needs rules");
        return;
    }
    const yaml_node_item_t *items = walk_list(making->walk, node, "rules", RULES_RULES_MAX, &count);
    if (!items) return;
    definition->rules = allocate(making, count, sizeof *definition->rules);
    for (unsigned i = 0; i < count && !config_errors_full(making->walk->load); i++)
        config_read_rule(making->walk, walk_node(making->walk, items[i]),
                         &definition->rules[definition->rules_count++]);
}

/* Every event has an id that counts once; anything less is not on offer (S1-42). */
static void read_idempotency(const struct making_counter *making)
{
    static const char *const names[] = {"requireEventId", "scope"};
    const struct walk *walk = making->walk;
    struct walk_field fields[ARRAY_COUNT(names)];
    bool required = true;
    if (!given(making, IDEMPOTENCY)) return;
    walk_fields(walk, given(making, IDEMPOTENCY), "idempotency", names, ARRAY_COUNT(names), fields);
    if (fields[0].value) walk_bool(walk, fields[0].value, "requireEventId", &required);
    if (!required)
        walk_error(walk, fields[0].value,
                   "requireEventId must be true: without an id nothing counts exactly once");
    const yaml_node_t *scope = fields[1].value;
    if (!scope) return;
    struct bytes text = walk_is_scalar(scope) ? walk_scalar(scope) : BYTES_NONE;
    if (!bytes_equal(text, BYTES("globalEventId")))
        walk_error(walk, scope, "scope must be globalEventId, not \"%.*s\"", WALK_SHOWN(text));
}

static void read_transition(struct making_counter *making)
{
    static const char *const names[] = {"entity"};
    const yaml_node_t *node = given(making, TRANSITION);
    struct walk_field entity;
    struct dimension_set set;
    if (!node) return;
    unsigned before = making->walk->load->report->count;
    walk_fields(making->walk, node, "transition", names, ARRAY_COUNT(names), &entity);
    if (making->walk->load->report->count > before) return;
    if (!entity.value) {
        walk_error(making->walk, node,
                   "transition needs entity, the keys that say whose state it is");
        return;
    }
    if (!config_read_dimensions(making->walk, entity.value, "entity", &set)) return;
    if (set.count == 0) walk_error(making->walk, entity.value, "entity needs one key at least");
    making->definition->entity = set.sources;
    making->definition->entity_count = set.count;
}

static void read_group(struct making_counter *making)
{
    const yaml_node_t *node = given(making, GROUP);
    if (!node) return;
    struct bytes text = walk_is_scalar(node) ? walk_scalar(node) : BYTES_NONE;
    if (name_valid(text))
        making->definition->group = arena_copy(&making->rules->arena, text);
    else
        walk_error(making->walk, node, "group must be " NAME_RULE);
}

/* Complains about a key that only counters of another mode may have. */
static void refuse(const struct making_counter *making, enum counter_field field, const char *mode)
{
    if (given(making, field))
        walk_error(making->walk, making->fields[field].key, "%s is only for mode %s",
                   field_names[field], mode);
}

/* The buckets are fine enough that the trailing count is exact to a sixtieth of the window, or to a
 * minute. */
static int32_t trailing_seconds(int64_t window_ms)
{
    int64_t seconds = window_ms / (60 * SECOND_MS);
    return seconds >= 60 ? 60 : seconds < 1 ? 1 : (int32_t)seconds;
}

static void read_window(struct making_counter *making, const yaml_node_t *entry)
{
    struct definition *definition = making->definition;
    if (definition->mode != MODE_WINDOWED) {
        refuse(making, WINDOW, "windowed");
        refuse(making, TRAILING, "windowed");
        return;
    }
    const yaml_node_t *window = given(making, WINDOW), *trailing = given(making, TRAILING);
    if (window)
        walk_duration(making->walk, window, "window", SECOND_MS, RULES_WINDOW_MS_MAX,
                      &definition->window_ms);
    else
        walk_error(making->walk, entry, "a windowed counter needs a window, such as 1h");
    if (trailing) walk_bool(making->walk, trailing, "trailing", &definition->trailing);
    if (definition->trailing)
        definition->trailing_seconds = trailing_seconds(definition->window_ms);
}

/* { bucket: month, zone: Europe/Berlin }; without a zone in UTC. */
static bool read_calendar(const struct walk *walk, const yaml_node_t *node,
                          int32_t *granularity_out)
{
    enum { BUCKET, ZONE, CALENDAR_FIELDS };
    static const char *const names[CALENDAR_FIELDS] = {"bucket", "zone"};
    struct walk_field fields[CALENDAR_FIELDS];
    struct bytes kind_name, zone = BYTES("UTC");
    enum calendar_kind kind;
    walk_fields(walk, node, "a calendar's bucket", names, CALENDAR_FIELDS, fields);
    if (!fields[BUCKET].value) {
        walk_error(walk, node,
                   "a granularity is a number of seconds, or has a bucket: day, week, "
                   "month or year");
        return false;
    }
    if (!walk_text(walk, fields[BUCKET].value, "bucket", 16, &kind_name)) return false;
    if (fields[ZONE].value && !walk_text(walk, fields[ZONE].value, "zone", 255, &zone))
        return false;
    if (!calendar_kind_parse(kind_name, &kind)) {
        walk_error(walk, fields[BUCKET].value,
                   "bucket must be day, week, month or year, not \"%.*s\"", WALK_SHOWN(kind_name));
        return false;
    }
    if (zones_granularity(zones_in_force(), kind, zone, granularity_out)) return true;
    walk_error(walk, fields[ZONE].value ? fields[ZONE].value : node,
               "there is no time zone \"%.*s\" (is the package tzdata installed?)",
               WALK_SHOWN(zone));
    return false;
}

static bool read_granularity(const struct walk *walk, const yaml_node_t *node,
                             int32_t *granularity_out)
{
    int64_t seconds = -1;
    if (node->type == YAML_MAPPING_NODE) return read_calendar(walk, node, granularity_out);
    walk_integer(walk, node, "a granularity", INT32_MAX, &seconds);
    *granularity_out = (int32_t)seconds;
    return seconds >= 0;
}

static void add_granularity(struct making_counter *making, const yaml_node_t *node)
{
    struct definition *definition = making->definition;
    int32_t granularity;
    if (!read_granularity(making->walk, node, &granularity)) return;
    for (unsigned i = 0; i < definition->granularities_count; i++) {
        if (definition->granularities[i] != granularity) continue;
        if (granularity >= 0)
            walk_error(making->walk, node, "granularity %d is listed twice", (int)granularity);
        else
            walk_error(making->walk, node, "a calendar's bucket is listed twice");
        return;
    }
    definition->granularities[definition->granularities_count++] = granularity;
}

static void read_granularities(struct making_counter *making, const yaml_node_t *entry)
{
    struct definition *definition = making->definition;
    const yaml_node_t *node = given(making, GRANULARITIES);
    unsigned count;
    if (!node) {
        walk_error(making->walk, entry, "a series needs granularities, such as [60, 3600]");
        return;
    }
    const yaml_node_item_t *items =
        walk_list(making->walk, node, "granularities", RULES_GRANULARITIES_MAX, &count);
    if (!items) return;
    if (count == 0) walk_error(making->walk, node, "granularities needs one at least");
    definition->granularities = allocate(making, count, sizeof *definition->granularities);
    for (unsigned i = 0; i < count; i++)
        add_granularity(making, walk_node(making->walk, items[i]));
}

static void read_series(struct making_counter *making, const yaml_node_t *entry)
{
    if (making->definition->mode != MODE_SERIES) {
        refuse(making, GRANULARITIES, "series");
        refuse(making, KEEP, "series");
        return;
    }
    read_granularities(making, entry);
    if (given(making, KEEP))
        walk_duration(making->walk, given(making, KEEP), "keep", SECOND_MS, RULES_KEEP_MS_MAX,
                      &making->definition->keep_ms);
}

static void read_counter(const struct walk *walk, const yaml_node_t *entry)
{
    struct rules *rules = walk->load->config->rules;
    struct making_counter making = {
        .walk = walk, .rules = rules, .definition = &rules->definitions[rules->definitions_count]};
    *making.definition = (struct definition){.limit = LIMIT_NONE};
    unsigned before = walk->load->report->count;
    walk_fields(walk, entry, "a counter", field_names, FIELD_COUNT, making.fields);
    /* Half a counter would be said to lack what was only misspelled. */
    if (walk->load->report->count > before) return;
    read_name(&making, entry);
    read_mode(&making);
    read_sets(&making);
    read_rules(&making, entry);
    read_idempotency(&making);
    read_transition(&making);
    read_group(&making);
    read_window(&making, entry);
    read_series(&making, entry);
    if (given(&making, FLOOR_AT_ZERO))
        walk_bool(walk, given(&making, FLOOR_AT_ZERO), "floorAtZero",
                  &making.definition->floor_at_zero);
    if (given(&making, LIMIT))
        walk_integer(walk, given(&making, LIMIT), "limit", INT64_MAX, &making.definition->limit);
    rules->definitions_count++;
}

void config_read_counters(const struct walk *walk, const yaml_node_t *node)
{
    struct rules *rules = walk->load->config->rules;
    unsigned count;
    if (walk_is_null(node)) return;
    const yaml_node_item_t *items = walk_list(walk, node, "counters", RULES_COUNTERS_MAX, &count);
    if (!items) return;
    rules->definitions_count = 0;
    rules->definitions = arena_alloc(&rules->arena, (count + 1) * sizeof *rules->definitions);
    for (unsigned i = 0; i < count && !config_errors_full(walk->load); i++) {
        const yaml_node_t *entry = walk_node(walk, items[i]);
        if (rules->arena.total > RULES_BYTES_MAX) {
            walk_error(walk, entry,
                       "the counters up to here take more than %u MiB; use fewer aliases",
                       RULES_BYTES_MAX >> 20);
            return;
        }
        read_counter(walk, entry);
    }
}

static void read_status(const struct walk *walk, const yaml_node_t *map,
                        const yaml_node_pair_t *pair)
{
    const yaml_node_t *key = walk_node(walk, pair->key), *value = walk_node(walk, pair->value);
    struct rules *rules = walk->load->config->rules;
    struct bytes on, status = walk_is_scalar(value) ? walk_scalar(value) : BYTES_NONE;
    if (!walk_text(walk, key, "statuses: an event type", EVENT_TYPE_SIZE_MAX, &on)) return;
    if (walk_repeated(walk, map, pair, "statuses: an event type")) return;
    if (!name_valid(status) || status.size > RULES_STATUS_SIZE_MAX || walk_is_null(value)) {
        walk_error(walk, value, "statuses: a status must be 1 to %d of A-Z a-z 0-9 _ . ~ -",
                   RULES_STATUS_SIZE_MAX);
        return;
    }
    rules->statuses[rules->statuses_count++] =
        (struct status_rule){arena_copy(&rules->arena, on), arena_copy(&rules->arena, status)};
}

void config_read_statuses(const struct walk *walk, const yaml_node_t *node)
{
    struct rules *rules = walk->load->config->rules;
    if (walk_is_null(node)) return;
    if (node->type != YAML_MAPPING_NODE) {
        walk_error(walk, node, "statuses must be a mapping of event types to statuses, not %s",
                   walk_type(node));
        return;
    }
    const yaml_node_pair_t *pairs = node->data.mapping.pairs.start;
    ptrdiff_t count = node->data.mapping.pairs.top - pairs;
    if (count > RULES_TYPES_MAX) {
        walk_error(walk, node, "statuses may hold at most %d event types", RULES_TYPES_MAX);
        return;
    }
    rules->statuses_count = 0;
    rules->statuses = arena_alloc(&rules->arena, ((size_t)count + 1) * sizeof *rules->statuses);
    for (ptrdiff_t i = 0; i < count && !config_errors_full(walk->load); i++)
        read_status(walk, node, &pairs[i]);
}

static void add_type(const struct walk *walk, const yaml_node_t *node)
{
    struct rules *rules = walk->load->config->rules;
    struct bytes type;
    if (!walk_text(walk, node, "events.types: a type", EVENT_TYPE_SIZE_MAX, &type)) return;
    for (unsigned i = 0; i < rules->types_count; i++) {
        if (!bytes_equal(type, rules->types[i])) continue;
        walk_error(walk, node, "events.types: %.*s is listed twice", WALK_SHOWN(type));
        return;
    }
    rules->types[rules->types_count++] = arena_copy(&rules->arena, type);
}

/* The new list replaces an old one whole, as any other value would. */
void config_read_types(const struct walk *walk, const yaml_node_t *node)
{
    struct rules *rules = walk->load->config->rules;
    unsigned count;
    rules->types_count = 0;
    rules->types_closed = walk->load->config->events_types = false;
    if (walk_is_null(node)) return;
    const yaml_node_item_t *items = walk_list(walk, node, "events.types", RULES_TYPES_MAX, &count);
    if (!items) return;
    rules->types_closed = walk->load->config->events_types = true;
    rules->types = arena_alloc(&rules->arena, (count + 1) * sizeof *rules->types);
    for (unsigned i = 0; i < count && !config_errors_full(walk->load); i++)
        add_type(walk, walk_node(walk, items[i]));
}
