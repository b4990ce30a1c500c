/* dsn.c -- see the header. */
#include "config/dsn.h"

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ENV_PREFIX BYTES("env:")
#define DSN_SIZE_MAX 4000
#define ENTRY_NAME_SIZE 64
#define SCHEMA_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789_"

static struct bytes environment_find(const struct config_load *load, struct bytes name)
{
    for (const char *const *at = load->environment; at && *at; at++) {
        struct bytes value = bytes_str(*at);
        if (bytes_equal(bytes_split(&value, '='), name) && value.data) return value;
    }
    return BYTES_NONE;
}

/* A password with '@' or '/' in it that is not percent-encoded ends up in other parts of a URI,
 * which messages about a host that cannot be reached show. */
static bool holds_password(const PQconninfoOption *option)
{
    if (!option->val) return false;
    if (strcmp(option->keyword, "port") == 0)
        return option->val[strspn(option->val, "0123456789,")] != '\0';
    return strcmp(option->keyword, "host") == 0 && strchr(option->val, '@');
}

/* libpq's own message would repeat part of the string. */
static bool is_good(struct bytes dsn)
{
    char *text = strndup(dsn.data, dsn.size);
    must(text != NULL);
    PQconninfoOption *options = PQconninfoParse(text, NULL);
    bool good = options != NULL;
    for (const PQconninfoOption *option = options; good && option->keyword; option++)
        good = !holds_password(option);
    PQconninfoFree(options);
    explicit_bzero(text, dsn.size);
    free(text);
    return good;
}

enum dsn_fault config_dsn(const struct config_load *load, struct bytes text, struct bytes *dsn_out,
                          struct bytes *name_out)
{
    *name_out = BYTES_NONE;
    if (bytes_starts(text, ENV_PREFIX)) {
        *name_out = bytes_of(text.data + ENV_PREFIX.size, text.size - ENV_PREFIX.size);
        text = environment_find(load, *name_out);
        if (text.size == 0) return DSN_NOT_SET;
    }
    *dsn_out = text;
    return is_good(text) ? DSN_GOOD : DSN_MALFORMED;
}

static void check_schema(struct config_load *load)
{
    const char *schema = load->config->store_postgres_schema;
    bool good =
        schema[0] >= 'a' && schema[0] <= 'z' && strspn(schema, SCHEMA_CHARACTERS) == strlen(schema);
    if (!good)
        config_error(load, load->where[SETTING_ID_store_postgres_schema],
                     "store.postgres.schema must be of a-z, 0-9 and _, and begin with a letter");
}

/* -- Lists ------------------------------------------------------------------------------------- */

static char *copy(struct bytes text)
{
    char *made = strndup(text.size ? text.data : "", text.size);
    must(made != NULL);
    return made;
}

static void wipe(char *text)
{
    explicit_bzero(text, strlen(text));
    free(text);
}

void config_databases_release(struct config_databases *databases)
{
    for (unsigned i = 0; i < databases->count; i++)
        wipe(databases->items[i]);
    free(databases->items);
    *databases = (struct config_databases){0};
}

static struct config_databases *databases_of(struct config *config, const struct setting *setting)
{
    must(setting->kind == SETTING_DATABASES);
    return (void *)((char *)config + setting->offset);
}

static void add_database(struct config_load *load, const char *where, const struct setting *setting,
                         struct bytes text)
{
    struct config_databases *databases = databases_of(load->config, setting);
    if (setting_text_is_plain(text))
        databases->items[databases->count++] = copy(text);
    else
        config_error(load, where, "%s must not contain line breaks or other control characters",
                     setting->path);
}

void config_databases_set(struct config_load *load, const char *where,
                          const struct setting *setting, struct bytes text)
{
    struct config_databases *databases = databases_of(load->config, setting);
    config_databases_release(databases);
    if (text.size == 0) return;
    databases->items = must_calloc(1, sizeof *databases->items);
    add_database(load, where, setting, text);
}

void config_read_databases(const struct walk *walk, const struct setting *setting,
                           const yaml_node_t *node)
{
    struct config_databases *databases = databases_of(walk->load->config, setting);
    char *where = walk->load->where[setting - settings];
    unsigned count;
    walk_place(walk, &node->start_mark, where);
    config_databases_release(databases);
    if (walk_is_null(node)) return;
    if (walk_is_scalar(node)) {
        config_databases_set(walk->load, where, setting, walk_scalar(node));
        return;
    }
    const yaml_node_item_t *items =
        walk_list(walk, node, setting->path, (unsigned)setting->most, &count);
    if (!items || count == 0) return;
    databases->items = must_calloc(count, sizeof *databases->items);
    for (unsigned i = 0; i < count && !config_errors_full(walk->load); i++) {
        struct bytes text;
        if (walk_text(walk, walk_node(walk, items[i]), setting->path, DSN_SIZE_MAX, &text))
            add_database(walk->load, where, setting, text);
    }
}

/* -- Checks ------------------------------------------------------------------------------------ */

/* "store.postgres.dsn", and of several which one. */
static void name_entry(const struct setting *setting, unsigned index, unsigned count,
                       char name_out[ENTRY_NAME_SIZE])
{
    if (count == 1)
        snprintf(name_out, ENTRY_NAME_SIZE, "%s", setting->path);
    else
        snprintf(name_out, ENTRY_NAME_SIZE, "%s, entry %u", setting->path, index + 1);
}

static void check_entry(struct config_load *load, enum setting_id id, unsigned index)
{
    const struct setting *setting = &settings[id];
    struct config_databases *databases = databases_of(load->config, setting);
    char **item = &databases->items[index];
    char entry[ENTRY_NAME_SIZE];
    struct bytes dsn = BYTES_NONE, name;
    name_entry(setting, index, databases->count, entry);
    switch (config_dsn(load, bytes_str(*item), &dsn, &name)) {
    case DSN_NOT_SET:
        config_error(load, load->where[id], "%s: the environment variable %.*s is not set", entry,
                     (int)name.size, name.data);
        return;
    case DSN_MALFORMED:
        config_error(load, load->where[id], "%s " DSN_MALFORMED_TEXT, entry);
        return;
    case DSN_GOOD:
        break;
    }
    char *text = copy(dsn);
    wipe(*item);
    *item = text;
}

void config_check_postgres(struct config_load *load)
{
    const struct config *config = load->config;
    unsigned count = config->store_postgres_dsn.count;
    unsigned standbys = config->store_postgres_read_dsn.count;
    check_schema(load);
    if (count == 0)
        config_error(load, load->where[SETTING_ID_store_kind],
                     "store.kind postgres needs store.postgres.dsn, such as env:TALLY_DSN");
    for (unsigned i = 0; i < count; i++)
        check_entry(load, SETTING_ID_store_postgres_dsn, i);
    for (unsigned i = 0; i < standbys; i++)
        check_entry(load, SETTING_ID_store_postgres_read_dsn, i);
    if (standbys > 0 && standbys != count)
        config_error(load, load->where[SETTING_ID_store_postgres_read_dsn],
                     "store.postgres.readDsn has %u entries and store.postgres.dsn has %u: each "
                     "database has a standby, or none has",
                     standbys, count);
    if (count > config->store_lanes)
        config_error(load, load->where[SETTING_ID_store_postgres_dsn],
                     "store.postgres.dsn names %u databases for %d lanes (store.lanes): each "
                     "needs one at least",
                     count, (int)config->store_lanes);
}
