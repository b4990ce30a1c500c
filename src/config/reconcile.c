/* reconcile.c -- `reconcile:` out of YAML nodes.
 *
 * Entries are read where they stand and linked with the counters they name once the whole file has
 * been read, because `reconcile:` may come before `counters:`. Connection strings are secrets: no
 * message repeats one. */
#include "config/reconcile.h"

#include <stdio.h>

#include "config/dsn.h"
#include "core/name.h"
#include "core/reconcile.h"

#define SECOND INT64_C(1000)
#define DAY_MS (86400 * SECOND)
#define SCAN_LIMIT_MAX 10000

enum entry_field {
    NAME,
    TENANTS,
    ENTITY,
    SOURCE,
    COUNTERS,
    SCAN_EVERY,
    SCAN_LIMIT,
    MIN_INTERVAL,
    SINGLE_FLIGHT,
    SIZE_BY,
    DRIFT_ALERT,
    STATEMENT_TIMEOUT,
    FIELD_COUNT
};

static const char *const field_names[] = {
    "name",      "tenants",     "entity",       "source", "counters",   "scanEvery",
    "scanLimit", "minInterval", "singleFlight", "sizeBy", "driftAlert", "statementTimeout"};
_Static_assert(ARRAY_COUNT(field_names) == FIELD_COUNT, "a name for each field");

/* One entry under way. */
struct making_entry {
    const struct walk *walk;
    struct arena *arena;
    struct reconcile *reconcile;
    struct walk_field fields[FIELD_COUNT];
};

static const yaml_node_t *given(const struct making_entry *making, enum entry_field field)
{
    return making->fields[field].value;
}

/* Allocates one more than asked for, so that a list is never NULL. */
static void *allocate(const struct making_entry *making, size_t count, size_t size)
{
    return arena_zalloc(making->arena, (count + 1) * size);
}

/* Keeps the end of a path that is too long, for it tells more than the beginning. */
static void keep_where(const struct making_entry *making, const yaml_node_t *node, char *where,
                       size_t room)
{
    char whole[WALK_WHERE_SIZE];
    walk_place(making->walk, &node->start_mark, whole);
    size_t size = strlen(whole);
    snprintf(where, room, "%s", whole + (size >= room ? size - room + 1 : 0));
}

/* -- Whose, and what for ----------------------------------------------------------------------- */

static bool read_valid_name(const struct making_entry *making, const yaml_node_t *node,
                            const char *what, struct bytes *name_out)
{
    struct bytes name = walk_is_scalar(node) ? walk_scalar(node) : BYTES_NONE;
    if (!name_valid(name)) {
        walk_error(making->walk, node, "%s must be 1 to 255 of A-Z a-z 0-9 _ . ~ -, not \"%.*s\"",
                   what, WALK_SHOWN(name));
        return false;
    }
    *name_out = arena_copy(making->arena, name);
    return true;
}

static void read_name(struct making_entry *making)
{
    const yaml_node_t *node = given(making, NAME);
    const struct rules *rules = making->walk->load->config->rules;
    struct bytes name;
    if (!read_valid_name(making, node, "reconcile: a name", &name)) return;
    const struct reconcile *other = reconcile_find(rules, name);
    if (other)
        walk_error(making->walk, node, "reconcile: %.*s is defined twice; the first is at %s",
                   WALK_SHOWN(name), other->where);
    making->reconcile->name = name;
    keep_where(making, node, making->reconcile->where, sizeof making->reconcile->where);
}

static void read_tenants(struct making_entry *making)
{
    const yaml_node_t *node = given(making, TENANTS);
    struct reconcile *reconcile = making->reconcile;
    unsigned count;
    reconcile->all_tenants = walk_is_scalar(node) && bytes_equal(walk_scalar(node), BYTES("all"));
    if (reconcile->all_tenants) return;
    if (node->type != YAML_SEQUENCE_NODE) {
        walk_error(making->walk, node, "tenants must be a list of tenant ids, or all");
        return;
    }
    const yaml_node_item_t *items =
        walk_list(making->walk, node, "tenants", RECONCILE_TENANTS_MAX, &count);
    if (!items) return;
    if (count == 0) walk_error(making->walk, node, "tenants must hold at least one tenant id");
    reconcile->tenants = allocate(making, count, sizeof *reconcile->tenants);
    for (unsigned i = 0; i < count; i++) {
        const yaml_node_t *item = walk_node(making->walk, items[i]);
        struct bytes tenant;
        if (!read_valid_name(making, item, "tenants: a tenant id", &tenant)) return;
        if (reconcile_has_tenant(reconcile, tenant))
            walk_error(making->walk, item, "tenants: %.*s is listed twice", WALK_SHOWN(tenant));
        reconcile->tenants[reconcile->tenants_count++] = tenant;
    }
}

/* The entity's keys are read twice: sorted, to be compared with the counters' sets, and as written,
 * for the parameters. */
static void read_entity(struct making_entry *making)
{
    const yaml_node_t *node = given(making, ENTITY);
    struct reconcile *reconcile = making->reconcile;
    if (!config_read_dimensions(making->walk, node, "entity", &reconcile->entity)) return;
    const yaml_node_item_t *items = node->data.sequence.items.start;
    reconcile->parameters = allocate(making, reconcile->entity.count, sizeof(struct bytes));
    for (unsigned i = 0; i < reconcile->entity.count; i++)
        reconcile->parameters[i] =
            arena_copy(making->arena, walk_scalar(walk_node(making->walk, items[i])));
}

/* -- Where the truth is ------------------------------------------------------------------------ */

static void read_postgres(struct making_entry *making, const yaml_node_t *node)
{
    struct reconcile *reconcile = making->reconcile;
    struct bytes text;
    if (!walk_text(making->walk, node, "source.postgres", RECONCILE_DSN_SIZE_MAX, &text)) return;
    struct bytes dsn, name;
    enum dsn_fault fault = config_dsn(making->walk->load, text, &dsn, &name);
    if (name.data) reconcile->dsn_shown = arena_copy(making->arena, text);
    if (fault == DSN_NOT_SET)
        walk_error(making->walk, node, "source.postgres: the environment variable %.*s is not set",
                   WALK_SHOWN(name));
    else if (fault == DSN_MALFORMED)
        walk_error(making->walk, node, "source.postgres " DSN_MALFORMED_TEXT);
    else
        reconcile->dsn = arena_copy(making->arena, dsn);
}

static void read_source(struct making_entry *making)
{
    enum { POSTGRES, EVENTS, COUNT };
    static const char *const names[] = {"postgres", "events"};
    const yaml_node_t *node = given(making, SOURCE);
    struct walk_field fields[COUNT];
    unsigned before = making->walk->load->report->count;
    walk_fields(making->walk, node, "a source", names, COUNT, fields);
    if (making->walk->load->report->count > before) return;
    bool events = false;
    if (fields[EVENTS].value)
        walk_bool(making->walk, fields[EVENTS].value, "source.events", &events);
    if ((fields[POSTGRES].value != NULL) == events) {
        walk_error(making->walk, node, "a source is either { postgres: ... } or { events: true }");
        return;
    }
    making->reconcile->truth = events ? TRUTH_EVENTS : TRUTH_POSTGRES;
    if (!events) read_postgres(making, fields[POSTGRES].value);
}

/* -- The counters and their queries ------------------------------------------------------------ */

/* The highest n of the $n in a query, and in `*last_out` whether $`last` is among them. */
static unsigned query_parameters(struct bytes query, unsigned last, bool *last_out)
{
    unsigned highest = 0;
    *last_out = false;
    for (size_t i = 0; i < query.size; i++) {
        if (query.data[i] != '$') continue;
        unsigned number = 0;
        while (i + 1 < query.size && query.data[i + 1] >= '0' && query.data[i + 1] <= '9' &&
               number < 100000)
            number = number * 10 + (unsigned)(query.data[++i] - '0');
        if (number > highest) highest = number;
        if (number == last) *last_out = true;
    }
    return highest;
}

static void check_query(const struct making_entry *making, const yaml_node_t *node,
                        struct bytes query)
{
    const struct reconcile *reconcile = making->reconcile;
    unsigned most = reconcile->entity.count + reconcile->all_tenants;
    bool has_last;
    unsigned highest = query_parameters(query, most, &has_last);
    if (highest > most)
        walk_error(making->walk, node, "the query uses $%u, but there are only %u parameters",
                   highest, most);
    else if (reconcile->all_tenants && !has_last)
        walk_error(making->walk, node,
                   "with tenants: all the query must use $%u, the tenant's id, or tenants would be "
                   "counted together",
                   most);
}

static void add_counter(struct making_entry *making, const yaml_node_t *key,
                        const yaml_node_t *value)
{
    struct reconcile *reconcile = making->reconcile;
    struct reconcile_counter *counter = &reconcile->counters[reconcile->counters_count];
    struct bytes query;
    if (!read_valid_name(making, key, "counters: a name", &counter->name)) return;
    keep_where(making, key, counter->where, sizeof counter->where);
    reconcile->counters_count++;
    if (!value || reconcile->truth == TRUTH_EVENTS) return;
    if (!walk_text(making->walk, value, "counters: a query", RECONCILE_QUERY_SIZE_MAX, &query))
        return;
    check_query(making, value, query);
    counter->query = arena_copy(making->arena, query);
}

/* Truth from events needs no query for a counter: a list of names will do. */
static void read_counter_names(struct making_entry *making, const yaml_node_t *node)
{
    unsigned count;
    const yaml_node_item_t *items =
        walk_list(making->walk, node, "counters", RECONCILE_COUNTERS_MAX, &count);
    for (unsigned i = 0; items && i < count; i++)
        add_counter(making, walk_node(making->walk, items[i]), NULL);
}

static void read_queries(struct making_entry *making, const yaml_node_t *node)
{
    const yaml_node_pair_t *pairs = node->data.mapping.pairs.start;
    ptrdiff_t count = node->data.mapping.pairs.top - pairs;
    if (count > RECONCILE_COUNTERS_MAX) {
        walk_error(making->walk, node, "counters may hold at most %d", RECONCILE_COUNTERS_MAX);
        return;
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        const yaml_node_t *key = walk_node(making->walk, pairs[i].key);
        if (walk_is_scalar(key) && walk_repeated(making->walk, node, &pairs[i], "counters: a name"))
            return;
        add_counter(making, key, walk_node(making->walk, pairs[i].value));
    }
}

static void read_counters(struct making_entry *making)
{
    const yaml_node_t *node = given(making, COUNTERS);
    struct reconcile *reconcile = making->reconcile;
    bool events = reconcile->truth == TRUTH_EVENTS;
    reconcile->counters = allocate(making, RECONCILE_COUNTERS_MAX, sizeof *reconcile->counters);
    if (events && node->type == YAML_SEQUENCE_NODE)
        read_counter_names(making, node);
    else if (!events && node->type == YAML_MAPPING_NODE)
        read_queries(making, node);
    else
        walk_error(making->walk, node, "counters must be %s, not %s",
                   events ? "a list of counter names" : "a mapping of counter names to queries",
                   walk_type(node));
    if (reconcile->counters_count == 0 && !config_errors_full(making->walk->load))
        walk_error(making->walk, node, "counters must name at least one counter");
}

/* -- How often --------------------------------------------------------------------------------- */

static void read_tier(struct making_entry *making, const yaml_node_t *node, bool last)
{
    enum { BELOW, EVERY, COUNT };
    static const char *const names[] = {"below", "every"};
    struct reconcile *reconcile = making->reconcile;
    struct reconcile_tier *tier = &reconcile->tiers[reconcile->tiers_count];
    struct walk_field fields[COUNT];
    *tier = (struct reconcile_tier){.below = INT64_MAX};
    walk_fields(making->walk, node, "a tier of singleFlight", names, COUNT, fields);
    if (!fields[EVERY].value || (fields[BELOW].value == NULL) != last) {
        walk_error(making->walk, node,
                   "singleFlight is a list of { below: size, every: duration }, the last one only "
                   "{ every: duration }");
        return;
    }
    walk_duration(making->walk, fields[EVERY].value, "every", 0, DAY_MS, &tier->every_ms);
    if (fields[BELOW].value)
        walk_integer(making->walk, fields[BELOW].value, "below", INT64_MAX - 1, &tier->below);
    unsigned before = reconcile->tiers_count++;
    if (before > 0 && reconcile->tiers[before - 1].below >= tier->below)
        walk_error(making->walk, node, "singleFlight: each below must be more than the one before");
}

/* Without `singleFlight` the sizes and times of S2-17 hold. */
static void read_tiers(struct making_entry *making)
{
    static const struct reconcile_tier standard[] = {
        {1000, 2 * SECOND}, {1000000, 8 * SECOND}, {INT64_MAX, 28 * SECOND}};
    const yaml_node_t *node = given(making, SINGLE_FLIGHT);
    struct reconcile *reconcile = making->reconcile;
    unsigned count;
    reconcile->tiers = allocate(making, RECONCILE_TIERS_MAX, sizeof *reconcile->tiers);
    if (!node) {
        memcpy(reconcile->tiers, standard, sizeof standard);
        reconcile->tiers_count = ARRAY_COUNT(standard);
        return;
    }
    const yaml_node_item_t *items =
        walk_list(making->walk, node, "singleFlight", RECONCILE_TIERS_MAX, &count);
    if (items && count == 0)
        walk_error(making->walk, node, "singleFlight must hold at least { every: duration }");
    for (unsigned i = 0; items && i < count; i++)
        read_tier(making, walk_node(making->walk, items[i]), i + 1 == count);
}

static void read_size_by(struct making_entry *making)
{
    const yaml_node_t *node = given(making, SIZE_BY);
    struct reconcile *reconcile = making->reconcile;
    reconcile->size_by = -1;
    if (!node) return;
    struct bytes name = walk_is_scalar(node) ? walk_scalar(node) : BYTES_NONE;
    for (unsigned i = 0; i < reconcile->counters_count; i++)
        if (bytes_equal(reconcile->counters[i].name, name)) reconcile->size_by = (int)i;
    if (reconcile->size_by < 0)
        walk_error(making->walk, node, "sizeBy must be one of its counters, not \"%.*s\"",
                   WALK_SHOWN(name));
}

static void read_pace(struct making_entry *making)
{
    const struct walk *walk = making->walk;
    struct reconcile *reconcile = making->reconcile;
    const struct {
        enum entry_field field;
        int64_t least, most;
        int64_t *value;
    } durations[] = {
        {SCAN_EVERY, 10, DAY_MS, &reconcile->scan_every_ms},
        {MIN_INTERVAL, 0, 30 * DAY_MS, &reconcile->min_interval_ms},
        {STATEMENT_TIMEOUT, 10, 3600 * SECOND, &reconcile->statement_timeout_ms},
    };
    for (size_t i = 0; i < ARRAY_COUNT(durations); i++)
        if (given(making, durations[i].field))
            walk_duration(walk, given(making, durations[i].field), field_names[durations[i].field],
                          durations[i].least, durations[i].most, durations[i].value);
    if (given(making, SCAN_LIMIT))
        walk_integer(walk, given(making, SCAN_LIMIT), "scanLimit", SCAN_LIMIT_MAX,
                     &reconcile->scan_limit);
    if (reconcile->scan_limit == 0)
        walk_error(walk, given(making, SCAN_LIMIT), "scanLimit must be at least 1");
    if (given(making, DRIFT_ALERT))
        walk_integer(walk, given(making, DRIFT_ALERT), "driftAlert", INT64_MAX,
                     &reconcile->drift_alert);
}

/* -- An entry ---------------------------------------------------------------------------------- */

static bool has_all(const struct making_entry *making, const yaml_node_t *entry)
{
    for (enum entry_field field = NAME; field <= COUNTERS; field++) {
        if (given(making, field)) continue;
        walk_error(making->walk, entry, "an entry of reconcile needs %s", field_names[field]);
        return false;
    }
    return true;
}

static void read_entry(const struct walk *walk, const yaml_node_t *entry)
{
    struct rules *rules = walk->load->config->rules;
    struct making_entry making = {.walk = walk,
                                  .arena = &rules->arena,
                                  .reconcile = &rules->reconciles[rules->reconciles_count]};
    *making.reconcile = (struct reconcile){.scan_every_ms = 2 * SECOND,
                                           .scan_limit = 20,
                                           .min_interval_ms = 20 * SECOND,
                                           .statement_timeout_ms = 10 * SECOND};
    unsigned before = walk->load->report->count;
    walk_fields(walk, entry, "an entry of reconcile", field_names, FIELD_COUNT, making.fields);
    if (walk->load->report->count > before || !has_all(&making, entry)) return;
    read_name(&making);
    read_tenants(&making);
    read_entity(&making);
    read_source(&making);
    if (walk->load->report->count > before) return;
    read_counters(&making);
    read_tiers(&making);
    read_size_by(&making);
    read_pace(&making);
    rules->reconciles_count++;
}

void config_read_reconcile(const struct walk *walk, const yaml_node_t *node)
{
    struct rules *rules = walk->load->config->rules;
    unsigned count;
    if (walk_is_null(node)) return;
    const yaml_node_item_t *items = walk_list(walk, node, "reconcile", RECONCILES_MAX, &count);
    if (!items) return;
    rules->reconciles_count = 0;
    rules->reconciles = arena_zalloc(&rules->arena, (count + 1) * sizeof *rules->reconciles);
    for (unsigned i = 0; i < count && !config_errors_full(walk->load); i++)
        read_entry(walk, walk_node(walk, items[i]));
}

/* -- Linking with the counters ----------------------------------------------------------------- */

static struct definition *definition_named(struct rules *rules, struct bytes name)
{
    for (unsigned i = 0; i < rules->definitions_count; i++)
        if (bytes_equal(rules->definitions[i].name, name)) return &rules->definitions[i];
    return NULL;
}

static bool keeps_entity(const struct definition *definition, const struct reconcile *reconcile)
{
    struct bytes keys[RULES_DIMENSIONS_MAX];
    for (unsigned i = 0; i < reconcile->entity.count; i++)
        keys[i] = reconcile->entity.sources[i].name;
    return definition_set(definition, keys, reconcile->entity.count) >= 0;
}

static bool share_tenants(const struct reconcile *a, const struct reconcile *b)
{
    if (a->all_tenants || b->all_tenants) return true;
    for (unsigned i = 0; i < a->tenants_count; i++)
        if (reconcile_has_tenant(b, a->tenants[i])) return true;
    return false;
}

/* Two sources for one counter would set it to and fro. */
static const struct reconcile *rival(const struct definition *definition,
                                     const struct reconcile *reconcile)
{
    for (unsigned i = 0; i < definition->reconciles_count; i++)
        if (share_tenants(definition->reconciles[i], reconcile)) return definition->reconciles[i];
    return NULL;
}

static void link_counter(struct config_load *load, const struct reconcile *reconcile,
                         const struct reconcile_counter *counter)
{
    struct rules *rules = load->config->rules;
    struct definition *definition = definition_named(rules, counter->name);
    const char *wrong = NULL;
    if (!definition)
        wrong = "is not one of the counters";
    else if (definition->mode != MODE_PERSISTENT)
        wrong = "is not persistent: only a total of all time can be put right";
    else if (!keeps_entity(definition, reconcile))
        wrong = "keeps no set of dimensions equal to entity";
    else if (rival(definition, reconcile))
        wrong = "is reconciled for the same tenant by another entry";
    if (wrong) {
        config_error(load, counter->where, "reconcile: counter %.*s %s", (int)counter->name.size,
                     counter->name.data, wrong);
        return;
    }
    if (definition->reconciles_count == 0)
        definition->reconciles =
            arena_alloc(&rules->arena, RECONCILES_MAX * sizeof *definition->reconciles);
    definition->reconciles[definition->reconciles_count++] = reconcile;
}

void config_link_reconcile(struct config_load *load)
{
    const struct rules *rules = load->config->rules;
    for (unsigned i = 0; i < rules->reconciles_count; i++)
        for (unsigned j = 0; j < rules->reconciles[i].counters_count; j++)
            link_counter(load, &rules->reconciles[i], &rules->reconciles[i].counters[j]);
}
