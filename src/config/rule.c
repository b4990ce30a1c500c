/* rule.c -- one rule of a counter, and the sources its values come from. */
#include <stdlib.h>

#include "base/quantity.h"
#include "config/rules.h"

static struct arena *arena_of(const struct walk *walk)
{
    return &walk->load->config->rules->arena;
}

/* Splits a.b.c into its parts. Returns what is wrong, or NULL. */
static const char *split_path(struct arena *arena, struct bytes path, struct source *source_out)
{
    struct bytes *parts = arena_alloc(arena, RULES_PATH_MAX * sizeof *parts);
    unsigned count = 0;
    while (path.data) {
        struct bytes part = bytes_split(&path, '.');
        if (part.size == 0) return "payload.<path> must have a name between its dots";
        if (count == RULES_PATH_MAX) return "payload.<path> may have at most 16 parts";
        parts[count++] = part;
    }
    source_out->payload = true;
    source_out->parts = parts;
    source_out->parts_count = count;
    return NULL;
}
_Static_assert(RULES_PATH_MAX == 16, "as the message says");

static bool read_source(const struct walk *walk, const yaml_node_t *node, const char *what,
                        struct source *source_out)
{
    struct bytes text, prefix = BYTES("payload.");
    *source_out = (struct source){0};
    if (!walk_text(walk, node, what, RULES_KEY_SIZE_MAX, &text)) return false;
    text = arena_copy(arena_of(walk), text);
    source_out->name = text;
    if (!bytes_starts(text, prefix)) return true;
    struct bytes path = bytes_of(text.data + prefix.size, text.size - prefix.size);
    const char *wrong = split_path(arena_of(walk), path, source_out);
    if (wrong) walk_error(walk, node, "%s: %s", what, wrong);
    return !wrong;
}

static bool source_listed(const struct dimension_set *set, struct bytes name)
{
    for (unsigned i = 0; i < set->count; i++)
        if (bytes_equal(set->sources[i].name, name)) return true;
    return false;
}

bool config_read_dimensions(const struct walk *walk, const yaml_node_t *node, const char *what,
                            struct dimension_set *set_out)
{
    unsigned count;
    *set_out = (struct dimension_set){0};
    const yaml_node_item_t *items = walk_list(walk, node, what, RULES_DIMENSIONS_MAX, &count);
    if (!items) return false;
    set_out->sources = arena_alloc(arena_of(walk), (count + 1) * sizeof *set_out->sources);
    for (unsigned i = 0; i < count; i++) {
        const yaml_node_t *item = walk_node(walk, items[i]);
        struct source source;
        if (!read_source(walk, item, what, &source)) return false;
        if (source_listed(set_out, source.name)) {
            walk_error(walk, item, "%s: %.*s is listed twice", what, WALK_SHOWN(source.name));
            return false;
        }
        set_out->sources[set_out->count++] = source;
    }
    sources_sort(set_out->sources, count);
    return true;
}

static void read_op(const struct walk *walk, const yaml_node_t *node, enum op_kind *op_out)
{
    struct bytes text = walk_is_scalar(node) ? walk_scalar(node) : BYTES_NONE;
    if (bytes_equal(text, BYTES("increment")))
        *op_out = OP_INCREMENT;
    else if (bytes_equal(text, BYTES("decrement")))
        *op_out = OP_DECREMENT;
    else
        walk_error(walk, node, "op must be increment or decrement, not \"%.*s\"", WALK_SHOWN(text));
}

/* Text that begins like a number has to be one, so that -1 or 1.5 is no dimension by mistake. */
static void read_amount(const struct walk *walk, const yaml_node_t *node, struct rule *rule)
{
    struct bytes text = walk_is_scalar(node) ? walk_scalar(node) : BYTES_NONE;
    bool number = text.size > 0 && text.data[0] && strchr("0123456789+-.", text.data[0]);
    if (text.size > 0 && !number) {
        bool good = read_source(walk, node, "amount", &rule->amount_from);
        rule->amount = good ? 0 : 1;
    } else if (!quantity_digits(text, &rule->amount) || rule->amount == 0) {
        walk_error(walk, node,
                   "amount must be a whole number from 1, payload.<path> or a dimension");
    }
}

static void read_condition(const struct walk *walk, const yaml_node_t *map,
                           const yaml_node_pair_t *pair, struct condition *condition)
{
    const yaml_node_t *key = walk_node(walk, pair->key), *value = walk_node(walk, pair->value);
    if (!read_source(walk, key, "where", &condition->source)) return;
    if (walk_repeated(walk, map, pair, "where: a key")) return;
    if (!walk_is_scalar(value) || walk_is_null(value))
        walk_error(walk, value, "where: %.*s must be a single value, not %s",
                   WALK_SHOWN(condition->source.name),
                   walk_is_null(value) ? "null" : walk_type(value));
    else if (walk_scalar(value).size > RULES_CONDITION_SIZE_MAX)
        walk_error(walk, value, "where: a value may have at most %d bytes",
                   RULES_CONDITION_SIZE_MAX);
    else
        condition->value = arena_copy(arena_of(walk), walk_scalar(value));
}

static void read_where(const struct walk *walk, const yaml_node_t *node, struct rule *rule)
{
    if (node->type != YAML_MAPPING_NODE) {
        walk_error(walk, node, "where must be a mapping, not %s", walk_type(node));
        return;
    }
    const yaml_node_pair_t *pairs = node->data.mapping.pairs.start;
    ptrdiff_t count = node->data.mapping.pairs.top - pairs;
    if (count > RULES_CONDITIONS_MAX) {
        walk_error(walk, node, "where may hold at most %d conditions", RULES_CONDITIONS_MAX);
        return;
    }
    rule->where = arena_zalloc(arena_of(walk), (size_t)(count + 1) * sizeof *rule->where);
    rule->where_count = (unsigned)count;
    for (ptrdiff_t i = 0; i < count; i++)
        read_condition(walk, node, &pairs[i], &rule->where[i]);
}

void config_read_rule(const struct walk *walk, const yaml_node_t *node, struct rule *rule_out)
{
    enum { ON, OP, AMOUNT, WHERE, COUNT };
    static const char *const names[] = {"on", "op", "amount", "where"};
    _Static_assert(ARRAY_COUNT(names) == COUNT, "a name for each field");
    struct walk_field fields[COUNT];
    *rule_out = (struct rule){.amount = 1};
    unsigned before = walk->load->report->count;
    walk_fields(walk, node, "a rule", names, COUNT, fields);
    if (walk->load->report->count > before) return;
    if (!fields[ON].value || !fields[OP].value) {
        walk_error(walk, node, "a rule needs %s", fields[ON].value ? "op" : "on");
        return;
    }
    if (walk_text(walk, fields[ON].value, "on", EVENT_TYPE_SIZE_MAX, &rule_out->on))
        rule_out->on = arena_copy(arena_of(walk), rule_out->on);
    read_op(walk, fields[OP].value, &rule_out->op);
    if (fields[AMOUNT].value) read_amount(walk, fields[AMOUNT].value, rule_out);
    if (fields[WHERE].value) read_where(walk, fields[WHERE].value, rule_out);
}
