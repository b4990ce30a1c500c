/* yaml.c -- the config file, read with libyaml and walked along the table of settings.
 *
 * Every complaint names file, line and column. The walk follows the table, not the document: it
 * descends only where a section of that name exists, so neither depth nor an alias that contains
 * itself can lead it astray. Values keep what is written as it is written; settings.c decides what
 * it means. */
#include <stdio.h>
#include <stdlib.h>

#include "base/scope.h"
#include "config/dsn.h"
#include "config/origins.h"
#include "config/reconcile.h"
#include "core/name.h"

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
        const yaml_node_t *name = walk_node(walk, p->key), *value = walk_node(walk, p->value);
        const char *wrong = "auth.keys: names and values of an entry must be single values";
        if (config_errors_full(walk->load)) return;
        if (name->type == YAML_SCALAR_NODE && walk_repeated(walk, map, p, "auth.keys: a field"))
            continue;
        if (name->type == YAML_SCALAR_NODE && value->type == YAML_SCALAR_NODE)
            wrong = key_field(key, walk_scalar(name), walk_scalar(value));
        if (wrong) walk_error(walk, value, "%s", wrong);
    }
}

static void check_key(const struct walk *walk, const struct config_keys *keys,
                      const struct config_key *key, const yaml_node_t *node)
{
    static const unsigned char none[32];
    if (memcmp(key->sha256, none, 32) == 0 || !key->tenant)
        walk_error(walk, node, "auth.keys: an entry needs sha256 and tenant");
    for (unsigned i = 0; i < keys->count; i++)
        if (memcmp(key->sha256, keys->items[i].sha256, 32) == 0)
            walk_error(walk, node, "auth.keys: this sha256 is listed twice");
}

static void read_key(const struct walk *walk, const yaml_node_t *node, struct config_keys *keys)
{
    if (node->type != YAML_MAPPING_NODE) {
        walk_error(walk, node, "auth.keys: an entry must be a mapping, not %s", walk_type(node));
        return;
    }
    struct config_key key = {.scopes = SCOPE_DEFAULT};
    unsigned before = walk->load->report->count;
    read_key_fields(walk, node, &key);
    if (walk->load->report->count == before) check_key(walk, keys, &key, node);
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
    unsigned count;
    config_keys_release(keys);
    if (walk_is_null(node)) return;
    const yaml_node_item_t *items =
        walk_list(walk, node, setting->path, (unsigned)setting->most, &count);
    if (!items) return;
    keys->items = must_calloc(count, sizeof *keys->items);
    for (unsigned i = 0; i < count && !config_errors_full(walk->load); i++)
        read_key(walk, walk_node(walk, items[i]), keys);
}

static void read_list(const struct walk *walk, const struct setting *setting,
                      const yaml_node_t *node)
{
    if (setting->kind == SETTING_TYPES)
        config_read_types(walk, node);
    else if (setting->kind == SETTING_ORIGINS)
        config_read_origins(walk, setting, node);
    else if (setting->kind == SETTING_DATABASES)
        config_read_databases(walk, setting, node);
    else
        read_keys(walk, setting, node);
}

/* A default that is spelled out counts as not set, so that a copy of etc/tally.yaml with one line
 * changed means the same as that one line. */
static void read_value(const struct walk *walk, const struct setting *setting,
                       const yaml_node_t *node)
{
    char where[WALK_WHERE_SIZE];
    walk_place(walk, &node->start_mark, where);
    if (setting_is_list(setting)) {
        read_list(walk, setting, node);
    } else if (!walk_is_scalar(node)) {
        walk_error(walk, node, "%s must be a single value, not %s", setting->path, walk_type(node));
    } else if (!walk_is_null(node)) {
        struct bytes text = walk_scalar(node);
        walk->load->given[setting - settings] = !bytes_equal(text, bytes_str(setting->standard));
        config_set(walk->load, where, setting, text);
    }
}

static void read_map(const struct walk *walk, const yaml_node_t *map, const char *section);

static void read_section(const struct walk *walk, const yaml_node_t *node, const char *path)
{
    if (node->type == YAML_MAPPING_NODE)
        read_map(walk, node, path);
    else if (!walk_is_null(node))
        walk_error(walk, node, "%s must be a mapping, not %s", path, walk_type(node));
}

/* Reads what is at the top of a file and not a setting: rules, as a whole. */
static bool read_rules(const struct walk *walk, const yaml_node_t *node, const char *path)
{
    if (strcmp(path, "counters") == 0)
        config_read_counters(walk, node);
    else if (strcmp(path, "statuses") == 0)
        config_read_statuses(walk, node);
    else if (strcmp(path, "reconcile") == 0)
        config_read_reconcile(walk, node);
    else
        return false;
    return true;
}

static void read_pair(const struct walk *walk, const yaml_node_t *map, const yaml_node_pair_t *pair,
                      const char *section)
{
    const yaml_node_t *key = walk_node(walk, pair->key), *value = walk_node(walk, pair->value);
    if (!walk_is_scalar(key)) {
        walk_error(walk, key, "a setting's name must be a single value, not %s", walk_type(key));
        return;
    }
    char path[256], where[WALK_WHERE_SIZE];
    struct bytes name = walk_scalar(key);
    snprintf(path, sizeof path, "%s%s%.*s", section, section[0] ? "." : "",
             (int)(name.size < 150 ? name.size : 150), name.data);
    if (walk_repeated(walk, map, pair, path) || read_rules(walk, value, path)) return;
    /* A dot in a name would let `limits.queueOps:` stand for the nested form: one form is enough.
     */
    bool dotted = name.size && memchr(name.data, '.', name.size);
    const struct setting *setting = dotted ? NULL : setting_find(bytes_str(path));
    if (setting)
        read_value(walk, setting, value);
    else if (!dotted && setting_is_section(bytes_str(path)))
        read_section(walk, value, path);
    else if (dotted && setting_find(bytes_str(path)))
        walk_error(walk, key, "write %s as nested keys, not with a dot", path);
    else {
        walk_place(walk, &key->start_mark, where);
        config_unknown(walk->load, where, bytes_str(path));
    }
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
    char where[WALK_WHERE_SIZE];
    walk_place(walk, &mark, where);
    config_error(walk->load, where, "%s%s%s", parser->problem ? parser->problem : "not valid YAML",
                 parser->context ? ", " : "", parser->context ? parser->context : "");
}

static void read_root(const struct walk *walk)
{
    yaml_node_t *root = yaml_document_get_root_node(walk->document);
    if (!root || walk_is_null(root)) return;
    if (root->type == YAML_MAPPING_NODE)
        read_map(walk, root, "");
    else
        walk_error(walk, root, "the file must be a mapping of settings, not %s", walk_type(root));
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
            char where[WALK_WHERE_SIZE];
            walk_place(&walk, &document.start_mark, where);
            config_error(load, where, "a second YAML document; a config is one");
            yaml_document_delete(&document);
        }
    }
    yaml_parser_delete(&parser);
}

void config_read_list(struct config_load *load, const char *where, const struct setting *setting,
                      struct bytes text)
{
    struct walk walk = {.load = load, .name = where, .inlined = true};
    yaml_parser_t parser;
    yaml_document_t document;
    parser_start(&parser, text);
    if (next_document(&walk, &parser, &document)) {
        read_list(&walk, setting, yaml_document_get_root_node(&document));
        yaml_document_delete(&document);
    }
    yaml_parser_delete(&parser);
}
