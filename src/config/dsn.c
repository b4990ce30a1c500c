/* dsn.c -- see the header. */
#include "config/dsn.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#define ENV_PREFIX BYTES("env:")
#define SCHEMA_CHARACTERS "abcdefghijklmnopqrstuvwxyz0123456789_"

static struct bytes environment_find(const struct config_load *load, struct bytes name)
{
    for (const char *const *at = load->environment; at && *at; at++) {
        struct bytes value = bytes_str(*at);
        if (bytes_equal(bytes_split(&value, '='), name) && value.data) return value;
    }
    return BYTES_NONE;
}

/* libpq's own message would repeat part of the string. */
static bool is_good(struct bytes dsn)
{
    char *text = strndup(dsn.data, dsn.size);
    must(text != NULL);
    PQconninfoOption *options = PQconninfoParse(text, NULL);
    bool good = options != NULL;
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

void config_check_postgres(struct config_load *load)
{
    char **field = &load->config->store_postgres_dsn;
    const char *where = load->where[SETTING_ID_store_postgres_dsn];
    struct bytes dsn = BYTES_NONE, name;
    check_schema(load);
    if (!**field) {
        config_error(load, load->where[SETTING_ID_store_kind],
                     "store.kind postgres needs store.postgres.dsn, such as env:TALLY_DSN");
        return;
    }
    switch (config_dsn(load, bytes_str(*field), &dsn, &name)) {
    case DSN_NOT_SET:
        config_error(load, where, "store.postgres.dsn: the environment variable %.*s is not set",
                     (int)name.size, name.data);
        return;
    case DSN_MALFORMED:
        config_error(load, where, "store.postgres.dsn " DSN_MALFORMED_TEXT);
        return;
    case DSN_GOOD:
        break;
    }
    char *text = strndup(dsn.data, dsn.size);
    must(text != NULL);
    explicit_bzero(*field, strlen(*field));
    free(*field);
    *field = text;
}
