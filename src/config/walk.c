/* walk.c -- looking at YAML nodes, and saying where they are wrong. */
#include "config/walk.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/duration.h"
#include "base/quantity.h"

void walk_place(const struct walk *walk, const yaml_mark_t *mark, char where_out[WALK_WHERE_SIZE])
{
    if (walk->inlined)
        snprintf(where_out, WALK_WHERE_SIZE, "%s", walk->name);
    else
        snprintf(where_out, WALK_WHERE_SIZE, "%.400s:%zu:%zu", walk->name, mark->line + 1,
                 mark->column + 1);
}

void walk_error(const struct walk *walk, const yaml_node_t *node, const char *format, ...)
{
    char where[WALK_WHERE_SIZE], sentence[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    walk_place(walk, &node->start_mark, where);
    config_error(walk->load, where, "%s", sentence);
}

const yaml_node_t *walk_node(const struct walk *walk, int index)
{
    return yaml_document_get_node(walk->document, index);
}

bool walk_is_scalar(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE;
}

struct bytes walk_scalar(const yaml_node_t *node)
{
    return bytes_of(node->data.scalar.value, node->data.scalar.length);
}

bool walk_is_null(const yaml_node_t *node)
{
    if (!walk_is_scalar(node)) return false;
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
    struct bytes text = walk_scalar(node);
    return text.size == 0 || bytes_equal(text, BYTES("~")) || bytes_equal(text, BYTES("null"));
}

const char *walk_type(const yaml_node_t *node)
{
    switch (node->type) {
    case YAML_SEQUENCE_NODE:
        return "a list";
    case YAML_MAPPING_NODE:
        return "a mapping";
    default:
        return "a single value";
    }
}

bool walk_repeated(const struct walk *walk, const yaml_node_t *map, const yaml_node_pair_t *pair,
                   const char *what)
{
    const yaml_node_t *key = walk_node(walk, pair->key);
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < pair; p++) {
        const yaml_node_t *other = walk_node(walk, p->key);
        if (!walk_is_scalar(other) || !bytes_equal(walk_scalar(key), walk_scalar(other))) continue;
        walk_error(walk, key, "%s is given twice; the first is in line %zu", what,
                   other->start_mark.line + 1);
        return true;
    }
    return false;
}

/* "a counter may hold counterName, mode, ... and limit" */
static void unknown_field(const struct walk *walk, const yaml_node_t *key, const char *what,
                          const char *const *names, unsigned count)
{
    char list[512];
    int size = 0;
    for (unsigned i = 0; i < count; i++)
        size += snprintf(list + size, sizeof list - (size_t)size, "%s%s",
                         i == 0           ? ""
                         : i + 1 == count ? " and "
                                          : ", ",
                         names[i]);
    struct bytes name = walk_scalar(key);
    walk_error(walk, key, "unknown key %.*s: %s may hold %s", WALK_SHOWN(name), what, list);
}

static void sort_field(const struct walk *walk, const yaml_node_t *map,
                       const yaml_node_pair_t *pair, const char *what, const char *const *names,
                       unsigned count, struct walk_field *fields_out)
{
    const yaml_node_t *key = walk_node(walk, pair->key), *value = walk_node(walk, pair->value);
    if (!walk_is_scalar(key)) {
        walk_error(walk, key, "a key of %s must be a single value, not %s", what, walk_type(key));
        return;
    }
    unsigned i = 0;
    while (i < count && !bytes_equal(walk_scalar(key), bytes_str(names[i])))
        i++;
    if (i == count)
        unknown_field(walk, key, what, names, count);
    else if (!walk_repeated(walk, map, pair, names[i]) && !walk_is_null(value))
        fields_out[i] = (struct walk_field){key, value};
}

void walk_fields(const struct walk *walk, const yaml_node_t *node, const char *what,
                 const char *const *names, unsigned count, struct walk_field *fields_out)
{
    memset(fields_out, 0, count * sizeof *fields_out);
    if (node->type != YAML_MAPPING_NODE) {
        walk_error(walk, node, "%s must be a mapping, not %s", what, walk_type(node));
        return;
    }
    const yaml_node_pair_t *end = node->data.mapping.pairs.top;
    for (const yaml_node_pair_t *p = node->data.mapping.pairs.start; p < end; p++)
        if (!config_errors_full(walk->load))
            sort_field(walk, node, p, what, names, count, fields_out);
}

const yaml_node_item_t *walk_list(const struct walk *walk, const yaml_node_t *node,
                                  const char *what, unsigned most, unsigned *count_out)
{
    *count_out = 0;
    if (node->type != YAML_SEQUENCE_NODE) {
        walk_error(walk, node, "%s must be a list, not %s", what, walk_type(node));
        return NULL;
    }
    const yaml_node_item_t *start = node->data.sequence.items.start;
    ptrdiff_t count = node->data.sequence.items.top - start;
    if (count > (ptrdiff_t)most) {
        walk_error(walk, node, "%s may hold at most %u entries", what, most);
        return NULL;
    }
    *count_out = (unsigned)count;
    return start;
}

/* False, with an error added: it is not a single value. */
static bool scalar(const struct walk *walk, const yaml_node_t *node, const char *what,
                   struct bytes *text_out)
{
    if (!walk_is_scalar(node)) {
        walk_error(walk, node, "%s must be a single value, not %s", what, walk_type(node));
        return false;
    }
    *text_out = walk_scalar(node);
    return true;
}

bool walk_text(const struct walk *walk, const yaml_node_t *node, const char *what, unsigned most,
               struct bytes *text_out)
{
    if (!scalar(walk, node, what, text_out)) return false;
    struct bytes text = *text_out;
    bool good = text.size > 0 && text.size <= most && !memchr(text.data, 0, text.size);
    if (good && !walk_is_null(node)) return true;
    walk_error(walk, node, "%s must be a text of 1 to %u bytes without NUL", what, most);
    return false;
}

void walk_bool(const struct walk *walk, const yaml_node_t *node, const char *what, bool *value_out)
{
    struct bytes text;
    if (!scalar(walk, node, what, &text)) return;
    bool yes = bytes_equal(text, BYTES("true"));
    if (yes || bytes_equal(text, BYTES("false")))
        *value_out = yes;
    else
        walk_error(walk, node, "%s must be true or false, not \"%.*s\"", what, WALK_SHOWN(text));
}

void walk_duration(const struct walk *walk, const yaml_node_t *node, const char *what,
                   int64_t least_ms, int64_t most_ms, int64_t *value_out)
{
    struct bytes text;
    int64_t value;
    char least[DURATION_TEXT_SIZE], most[DURATION_TEXT_SIZE];
    if (!scalar(walk, node, what, &text)) return;
    if (!duration_parse(text, &value)) {
        walk_error(walk, node, "%s must be a duration such as 60s, 5m, 1h or 30d, not \"%.*s\"",
                   what, WALK_SHOWN(text));
    } else if (value < least_ms || value > most_ms) {
        duration_format(least_ms, least);
        duration_format(most_ms, most);
        walk_error(walk, node, "%s must be from %s to %s", what, least, most);
    } else {
        *value_out = value;
    }
}

void walk_integer(const struct walk *walk, const yaml_node_t *node, const char *what, int64_t most,
                  int64_t *value_out)
{
    struct bytes text;
    int64_t value;
    if (!scalar(walk, node, what, &text)) return;
    if (quantity_digits(text, &value) && value <= most)
        *value_out = value;
    else
        walk_error(walk, node, "%s must be a whole number from 0 to %" PRId64 ", not \"%.*s\"",
                   what, most, WALK_SHOWN(text));
}
