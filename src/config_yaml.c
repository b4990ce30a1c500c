/* config_yaml.c -- the config file, read with libyaml and walked along the table of settings.
 *
 * Every complaint names file, line and column. The walk follows the table, not the document: it
 * descends only where a section of that name exists, so neither depth nor an alias that contains
 * itself can lead it astray. Values keep what is written as it is written; settings.c decides what
 * it means. */
#include <stdio.h>
#include <stdlib.h>
#include <yaml.h>

#include "base/scope.h"
#include "config_parts.h"
#include "core/name.h"

#define WHERE_SIZE 512

struct walk {
    struct config_load *load;
    const char *name; /* of the file, or of what else holds the value */
    bool inlined;     /* a value from --set or the environment: line and column say nothing */
    yaml_document_t *document;
};

static void place(const struct walk *walk, const yaml_mark_t *mark, char where_out[WHERE_SIZE])
{
    if (walk->inlined)
        snprintf(where_out, WHERE_SIZE, "%s", walk->name);
    else
        snprintf(where_out, WHERE_SIZE, "%.400s:%zu:%zu", walk->name, mark->line + 1,
                 mark->column + 1);
}

static struct bytes scalar_of(const yaml_node_t *node)
{
    return bytes_of(node->data.scalar.value, node->data.scalar.length);
}

/* `key:`, `key: ~` and `key: null` all mean: not given. */
static bool is_null(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE) return false;
    if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) return false;
    struct bytes text = scalar_of(node);
    return text.size == 0 || bytes_equal(text, BYTES("~")) || bytes_equal(text, BYTES("null"));
}

static const char *type_name(const yaml_node_t *node)
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

static yaml_node_t *node_at(const struct walk *walk, int index)
{
    return yaml_document_get_node(walk->document, index);
}

/* True, with an error added, if an earlier key of the mapping is the same. */
static bool key_repeated(const struct walk *walk, const yaml_node_t *map,
                         const yaml_node_pair_t *pair, const char *what)
{
    const yaml_node_t *key = node_at(walk, pair->key);
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < pair; p++) {
        const yaml_node_t *other = node_at(walk, p->key);
        if (other->type != YAML_SCALAR_NODE || !bytes_equal(scalar_of(key), scalar_of(other)))
            continue;
        char where[WHERE_SIZE];
        place(walk, &key->start_mark, where);
        config_error(walk->load, where, "%s is given twice; the first is in line %zu", what,
                     other->start_mark.line + 1);
        return true;
    }
    return false;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool parse_sha256(struct bytes text, unsigned char out[32])
{
    if (text.size != 64) return false;
    for (unsigned i = 0; i < 32; i++) {
        int high = hex_digit(text.data[2 * i]), low = hex_digit(text.data[2 * i + 1]);
        if (high < 0 || low < 0) return false;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

/* One field of one API key. Returns what is wrong, or NULL. */
static const char *key_field(struct config_key *key, struct bytes name, struct bytes value)
{
    static const unsigned char none[32];
    if (bytes_equal(name, BYTES("sha256"))) {
        bool good = parse_sha256(value, key->sha256) && memcmp(key->sha256, none, 32) != 0;
        return good ? NULL : "auth.keys: sha256 must be 64 hex digits, the key's SHA-256";
    }
    if (bytes_equal(name, BYTES("tenant"))) {
        if (!name_valid(value)) return "auth.keys: tenant must be 1 to 255 of A-Z a-z 0-9 _ . ~ -";
        free(key->tenant);
        key->tenant = strndup(value.data, value.size);
        must(key->tenant != NULL);
        return NULL;
    }
    if (bytes_equal(name, BYTES("scope"))) {
        struct bytes unknown;
        key->scopes = scope_parse(value, &unknown);
        return unknown.data ? "auth.keys: scope may hold read, write and admin" : NULL;
    }
    return "auth.keys: an entry may hold sha256, tenant and scope";
}

static void read_key_fields(const struct walk *walk, const yaml_node_t *map, struct config_key *key)
{
    const yaml_node_pair_t *end = map->data.mapping.pairs.top;
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < end; p++) {
        const yaml_node_t *name = node_at(walk, p->key), *value = node_at(walk, p->value);
        const char *wrong = "auth.keys: names and values of an entry must be single values";
        if (config_errors_full(walk->load)) return;
        if (name->type == YAML_SCALAR_NODE && key_repeated(walk, map, p, "auth.keys: a field"))
            continue;
        if (name->type == YAML_SCALAR_NODE && value->type == YAML_SCALAR_NODE)
            wrong = key_field(key, scalar_of(name), scalar_of(value));
        if (!wrong) continue;
        char where[WHERE_SIZE];
        place(walk, &value->start_mark, where);
        config_error(walk->load, where, "%s", wrong);
    }
}

static void check_key(const struct walk *walk, const struct config_keys *keys,
                      const struct config_key *key, const char *where)
{
    static const unsigned char none[32];
    if (memcmp(key->sha256, none, 32) == 0 || !key->tenant)
        config_error(walk->load, where, "auth.keys: an entry needs sha256 and tenant");
    for (unsigned i = 0; i < keys->count; i++)
        if (memcmp(key->sha256, keys->items[i].sha256, 32) == 0)
            config_error(walk->load, where, "auth.keys: this sha256 is listed twice");
}

static void read_key(const struct walk *walk, const yaml_node_t *node, struct config_keys *keys)
{
    char where[WHERE_SIZE];
    place(walk, &node->start_mark, where);
    if (node->type != YAML_MAPPING_NODE) {
        config_error(walk->load, where, "auth.keys: an entry must be a mapping, not %s",
                     type_name(node));
        return;
    }
    struct config_key key = {.scopes = SCOPE_DEFAULT};
    unsigned before = walk->load->report->count;
    read_key_fields(walk, node, &key);
    if (walk->load->report->count == before) check_key(walk, keys, &key, where);
    if (walk->load->report->count == before)
        keys->items[keys->count++] = key;
    else
        free(key.tenant);
}

/* The new list replaces the old one whole, as any other value would. */
static void read_keys(const struct walk *walk, const struct setting *setting,
                      const yaml_node_t *node)
{
    struct config_keys *keys = (void *)((char *)walk->load->config + setting->offset);
    char where[WHERE_SIZE];
    place(walk, &node->start_mark, where);
    config_keys_release(keys);
    if (is_null(node)) return;
    if (node->type != YAML_SEQUENCE_NODE) {
        config_error(walk->load, where, "%s must be a list, not %s", setting->path,
                     type_name(node));
        return;
    }
    const yaml_node_item_t *start = node->data.sequence.items.start;
    const yaml_node_item_t *end = node->data.sequence.items.top;
    if (end - start > setting->most) {
        config_error(walk->load, where, "%s may hold at most %ld entries", setting->path,
                     (long)setting->most);
        return;
    }
    keys->items = must_calloc((size_t)(end - start), sizeof *keys->items);
    for (const yaml_node_item_t *item = start; item < end; item++)
        if (!config_errors_full(walk->load)) read_key(walk, node_at(walk, *item), keys);
}

/* A default spelled out says nothing, so that a copy of etc/tally.yaml with one line changed means
 * the same as that one line. */
static void read_value(const struct walk *walk, const struct setting *setting,
                       const yaml_node_t *node)
{
    char where[WHERE_SIZE];
    place(walk, &node->start_mark, where);
    if (setting->kind == SETTING_KEYS) {
        read_keys(walk, setting, node);
    } else if (node->type != YAML_SCALAR_NODE) {
        config_error(walk->load, where, "%s must be a single value, not %s", setting->path,
                     type_name(node));
    } else if (!is_null(node)) {
        struct bytes text = scalar_of(node);
        walk->load->given[setting - settings] = !bytes_equal(text, bytes_str(setting->standard));
        config_set(walk->load, where, setting, text);
    }
}

static void read_map(const struct walk *walk, const yaml_node_t *map, const char *section);

static void read_section(const struct walk *walk, const yaml_node_t *node, const char *path)
{
    char where[WHERE_SIZE];
    place(walk, &node->start_mark, where);
    if (node->type == YAML_MAPPING_NODE)
        read_map(walk, node, path);
    else if (!is_null(node))
        config_error(walk->load, where, "%s must be a mapping, not %s", path, type_name(node));
}

static void read_pair(const struct walk *walk, const yaml_node_t *map, const yaml_node_pair_t *pair,
                      const char *section)
{
    const yaml_node_t *key = node_at(walk, pair->key), *value = node_at(walk, pair->value);
    char where[WHERE_SIZE];
    place(walk, &key->start_mark, where);
    if (key->type != YAML_SCALAR_NODE) {
        config_error(walk->load, where, "a setting's name must be a single value, not %s",
                     type_name(key));
        return;
    }
    char path[256];
    struct bytes name = scalar_of(key);
    snprintf(path, sizeof path, "%s%s%.*s", section, section[0] ? "." : "",
             (int)(name.size < 150 ? name.size : 150), name.data);
    if (key_repeated(walk, map, pair, path)) return;
    /* A dot in a name would let `limits.queueOps:` stand for the nested form: one form is enough.
     */
    bool dotted = name.size && memchr(name.data, '.', name.size);
    const struct setting *setting = dotted ? NULL : setting_find(bytes_str(path));
    if (setting)
        read_value(walk, setting, value);
    else if (!dotted && !section[0] && setting_is_section(bytes_str(path)))
        read_section(walk, value, path);
    else if (dotted && setting_find(bytes_str(path)))
        config_error(walk->load, where, "write %s as nested keys, not with a dot", path);
    else
        config_unknown(walk->load, where, bytes_str(path));
}

static void read_map(const struct walk *walk, const yaml_node_t *map, const char *section)
{
    const yaml_node_pair_t *end = map->data.mapping.pairs.top;
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < end; p++)
        if (!config_errors_full(walk->load)) read_pair(walk, map, p, section);
}

static void syntax_error(const struct walk *walk, const yaml_parser_t *parser)
{
    yaml_mark_t mark = parser->problem_mark;
    if (parser->error == YAML_READER_ERROR) mark = parser->mark; /* it sets no problem_mark */
    char where[WHERE_SIZE];
    place(walk, &mark, where);
    config_error(walk->load, where, "%s%s%s", parser->problem ? parser->problem : "not valid YAML",
                 parser->context ? ", " : "", parser->context ? parser->context : "");
}

static void read_root(const struct walk *walk)
{
    yaml_node_t *root = yaml_document_get_root_node(walk->document);
    if (!root || is_null(root)) return;
    char where[WHERE_SIZE];
    place(walk, &root->start_mark, where);
    if (root->type == YAML_MAPPING_NODE)
        read_map(walk, root, "");
    else
        config_error(walk->load, where, "the file must be a mapping of settings, not %s",
                     type_name(root));
}

/* True: `document` is there and the caller deletes it. False at the end of the text, or after a
 * syntax error, which is reported. */
static bool next_document(struct walk *walk, yaml_parser_t *parser, yaml_document_t *document)
{
    walk->document = document;
    if (!yaml_parser_load(parser, document)) {
        syntax_error(walk, parser);
        return false;
    }
    if (yaml_document_get_root_node(document)) return true;
    yaml_document_delete(document);
    return false;
}

static void parser_start(yaml_parser_t *parser, struct bytes text)
{
    must(yaml_parser_initialize(parser) == 1);
    yaml_parser_set_input_string(parser, (const unsigned char *)text.data, text.size);
    yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
}

void config_read_yaml(struct config_load *load, const char *name, struct bytes text)
{
    struct walk walk = {.load = load, .name = name};
    yaml_parser_t parser;
    yaml_document_t document;
    parser_start(&parser, text);
    if (next_document(&walk, &parser, &document)) {
        read_root(&walk);
        yaml_document_delete(&document);
        if (next_document(&walk, &parser, &document)) {
            char where[WHERE_SIZE];
            place(&walk, &document.start_mark, where);
            config_error(load, where, "a second YAML document; a config is one");
            yaml_document_delete(&document);
        }
    }
    yaml_parser_delete(&parser);
}

void config_read_keys(struct config_load *load, const char *where, const struct setting *setting,
                      struct bytes text)
{
    struct walk walk = {.load = load, .name = where, .inlined = true};
    yaml_parser_t parser;
    yaml_document_t document;
    parser_start(&parser, text);
    if (next_document(&walk, &parser, &document)) {
        read_keys(&walk, setting, yaml_document_get_root_node(&document));
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
}
