/* schema.c -- looks whether a schema can be used, makes it where there is none, and reads what is
 * fixed since it was made. */
#include "store/postgres/schema.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/codec.h"
#include "base/quantity.h"
#include "store/postgres/internal.h"
#include "store/postgres/make.h"

#define ASK_MS 15000
#define SERVER_LEAST 150000

/* -- Looking whether it can be used ------------------------------------------------------------ */

static enum err say_link(const struct link *link, const char *doing, struct reason *why_out)
{
    const char *state = link_state(link);
    return reason_err(why_out, ERR_STORAGE, "%s: %s%s%s%s", doing, link_why(link),
                      state[0] ? " (SQLSTATE " : "", state, state[0] ? ")" : "");
}

static enum err check_settings(const struct database *database, const PGresult *result,
                               struct reason *why_out)
{
    const char *encoding = PQgetvalue(result, 0, 0);
    const char *fsync = PQgetvalue(result, 0, 1);
    const char *commit = PQgetvalue(result, 0, 2);
    int64_t version = 0;
    bool lax = strcmp(fsync, "off") == 0 || strcmp(commit, "off") == 0;
    if (strcmp(encoding, "UTF8") != 0)
        return reason_err(why_out, ERR_INVALID,
                          "the database's encoding is %s; tally needs UTF8 "
                          "(CREATE DATABASE .. ENCODING 'UTF8' TEMPLATE template0).",
                          encoding);
    if (strcmp(PQgetvalue(result, 0, 3), "t") == 0)
        return reason_err(why_out, ERR_INVALID,
                          "the server is a standby and takes no writes; name the primary.");
    if (!quantity_digits(bytes_str(PQgetvalue(result, 0, 4)), &version) || version < SERVER_LEAST)
        return reason_err(why_out, ERR_INVALID, "the server is PostgreSQL %s; tally needs 15.",
                          PQgetvalue(result, 0, 5));
    if (strcmp(PQgetvalue(result, 0, 9), "on") == 0)
        return reason_err(why_out, ERR_INVALID,
                          "the server takes no writes of this role: default_transaction_read_only "
                          "is on.");
    if (lax && !database->config.unsafe)
        return reason_err(why_out, ERR_INVALID,
                          "the server has fsync = %s and synchronous_commit = %s, with which what "
                          "was acknowledged can be lost; put both on, or say that you know it with "
                          "store.postgres.unsafe: true.",
                          fsync, commit);
    return ERR_OK;
}

/* Row security keeps every row from whoever it is not made for, tally's own role included. */
static enum err check_role(const PGresult *result, struct reason *why_out)
{
    const char *role = PQgetvalue(result, 0, 7);
    if (strcmp(PQgetvalue(result, 0, 8), "t") == 0) return ERR_OK;
    return reason_err(why_out, ERR_INVALID,
                      "the role %s does not have BYPASSRLS, so row security would hide every "
                      "tenant's rows from tally: ALTER ROLE %s BYPASSRLS.",
                      role, role);
}

static enum err check_server(struct database *database, struct link *link, struct reason *why_out)
{
    int64_t asked_ms = clock_boot_ms(database->config.clock), now_ms;
    PGresult *result =
        link_ask(link,
                 "SELECT current_setting('server_encoding'), current_setting('fsync'),"
                 " current_setting('synchronous_commit'), pg_is_in_recovery(),"
                 " current_setting('server_version_num'), current_setting('server_version'),"
                 " (extract(epoch FROM clock_timestamp()) * 1000)::bigint, current_user,"
                 " (SELECT rolsuper OR rolbypassrls FROM pg_catalog.pg_roles"
                 " WHERE rolname = current_user), current_setting('transaction_read_only')",
                 0, NULL, ASK_MS);
    if (!result) return say_link(link, "cannot ask the database for its settings", why_out);
    enum err e = check_settings(database, result, why_out);
    if (e == ERR_OK) e = check_role(result, why_out);
    if (e == ERR_OK && quantity_digits(bytes_str(PQgetvalue(result, 0, 6)), &now_ms))
        database_clock_heard(database, now_ms, asked_ms);
    PQclear(result);
    return e;
}

static enum err schema_exists(const struct database *database, struct link *link, bool *exists_out,
                              struct reason *why_out)
{
    char table[128];
    snprintf(table, sizeof table, "%s.meta", database->sql.schema);
    const char *const values[] = {table};
    PGresult *result = link_ask(link, "SELECT to_regclass($1)", 1, values, ASK_MS);
    if (!result) return say_link(link, "cannot look for the schema", why_out);
    *exists_out = !PQgetisnull(result, 0, 0);
    PQclear(result);
    return ERR_OK;
}

/* -- What it says of itself -------------------------------------------------------------------- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Bytes in hex, as text has them: "\x0123". False: other bytes, or another number of them. */
static bool read_hex(const char *text, unsigned char *bytes_out, size_t size)
{
    if (strlen(text) != 2 + 2 * size || text[0] != '\\' || text[1] != 'x') return false;
    for (size_t i = 0; i < size; i++) {
        int high = hex_digit(text[2 + 2 * i]), low = hex_digit(text[3 + 2 * i]);
        if (high < 0 || low < 0) return false;
        bytes_out[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

static void read_meta_row(struct schema_meta *meta, const char *key, const char *text)
{
    const struct {
        const char *key;
        uint64_t *number;
    } numbers[] = {{"schema", &meta->schema},
                   {"lanes", &meta->lanes},
                   {"ids_shared", &meta->ids_shared},
                   {"databases", &meta->databases},
                   {"place", &meta->place},
                   {"pending", &meta->pending},
                   {"installation", &meta->installation},
                   {"citus", &meta->citus}};
    unsigned char bytes[sizeof(uint64_t)];
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++)
        if (strcmp(key, numbers[i].key) == 0 && read_hex(text, bytes, sizeof bytes))
            *numbers[i].number = get_ordered_u64(bytes);
    if (strcmp(key, "secret") == 0)
        meta->has_secret = read_hex(text, meta->secret.bytes, sizeof meta->secret.bytes);
}

static enum err read_meta(const struct database *database, struct link *link,
                          struct schema_meta *meta_out, struct reason *why_out)
{
    char text[128];
    *meta_out = (struct schema_meta){.exists = true, .databases = 1};
    snprintf(text, sizeof text, "SELECT key, value FROM %s.meta", database->sql.schema);
    PGresult *result = link_ask(link, text, 0, NULL, ASK_MS);
    if (!result) return say_link(link, "cannot read the schema's own figures", why_out);
    for (int row = 0; row < PQntuples(result); row++)
        read_meta_row(meta_out, PQgetvalue(result, row, 0), PQgetvalue(result, row, 1));
    PQclear(result);
    return ERR_OK;
}

static enum err check_meta(const struct database *database, const struct schema_meta *meta,
                           struct reason *why_out)
{
    const char *schema = database->config.schema;
    if (meta->schema > SCHEMA_VERSION)
        return reason_err(why_out, ERR_INVALID,
                          "the schema %s is of version %llu, made by a newer tally; this one knows "
                          "%u.",
                          schema, (unsigned long long)meta->schema, SCHEMA_VERSION);
    if (meta->schema == 0 || meta->installation == 0 || !meta->has_secret)
        return reason_err(why_out, ERR_INVALID, "the schema %s is not one that tally made.",
                          schema);
    if (meta->lanes != database->config.lanes)
        return reason_err(why_out, ERR_INVALID,
                          "the schema %s has %llu lanes and store.lanes is %u. The number is fixed "
                          "at the first start; to move, use `tally export --ids --events` and "
                          "`tally import`.",
                          schema, (unsigned long long)meta->lanes, database->config.lanes);
    if (database->config.citus && !meta->citus)
        return reason_err(why_out, ERR_INVALID,
                          "the schema %s is there and not laid out for Citus; make another one "
                          "(store.postgres.schema) and move with `tally export --ids --events` and "
                          "`tally import`.",
                          schema);
    if (meta->ids_shared != database->config.ids_shared)
        return reason_err(why_out, ERR_INVALID,
                          "the schema %s was made with events.idScope: %s, which is fixed at the "
                          "first start.",
                          schema, meta->ids_shared ? "installation" : "tenant");
    return ERR_OK;
}

/* -- Having it there --------------------------------------------------------------------------- */

/* Another node may be making it at the same time: the second one finds it made. */
static enum err ensure_schema(struct database *database, struct link *link,
                              const struct schema_founding *founding, struct reason *why_out)
{
    bool exists = false;
    enum err e = schema_exists(database, link, &exists, why_out);
    if (e == ERR_OK && exists && database->beginning)
        return reason_err(why_out, ERR_CONFLICT,
                          "the schema %s is there already; name another one with "
                          "store.postgres.schema",
                          database->config.schema);
    if (e != ERR_OK || exists) return e;
    if (schema_make(database, link, founding) == ERR_OK) return ERR_OK;
    struct reason why;
    e = say_link(link, "cannot make the schema", &why);
    if (!database->beginning && schema_exists(database, link, &exists, why_out) == ERR_OK && exists)
        return ERR_OK;
    *why_out = why;
    return e;
}

/* Another program may upgrade it at the same time. */
static enum err upgrade(const struct database *database, struct link *link,
                        const struct schema_meta *meta, struct reason *why_out)
{
    struct schema_meta now;
    struct reason why;
    enum err e = schema_upgrade(database, link, (unsigned)meta->schema, (unsigned)meta->lanes);
    if (e == ERR_OK) return e;
    e = say_link(link, "cannot upgrade the schema", why_out);
    if (read_meta(database, link, &now, &why) == ERR_OK && now.schema == SCHEMA_VERSION)
        return ERR_OK;
    return e;
}

static enum err too_old(const struct database *database, const struct schema_meta *meta,
                        struct reason *why_out)
{
    return reason_err(why_out, ERR_INVALID,
                      "the schema %s is of version %llu and this tally needs %u: run `tally "
                      "migrate`, which nodes of the earlier version meet with 503 schema_newer.",
                      database->config.schema, (unsigned long long)meta->schema, SCHEMA_VERSION);
}

/* -- People who read it ------------------------------------------------------------------------ */

/* Whether the role of those who read with SQL is there and sees what is theirs. */
static enum err readers_let_in(const struct database *database, struct link *link, bool *let_in_out,
                               struct reason *why_out)
{
    char table[128];
    snprintf(table, sizeof table, "%s.cells", database->sql.schema);
    const char *const values[] = {table};
    PGresult *result = link_ask(
        link, "SELECT EXISTS (SELECT FROM pg_catalog.pg_policy WHERE polrelid = $1::regclass)", 1,
        values, ASK_MS);
    if (!result) return say_link(link, "cannot look for the policies", why_out);
    *let_in_out = strcmp(PQgetvalue(result, 0, 0), "t") == 0;
    PQclear(result);
    return ERR_OK;
}

/* The role may have been made since the schema was. */
static enum err let_readers_in(const struct database *database, struct link *link, bool *let_in_out,
                               struct reason *why_out)
{
    enum err e = readers_let_in(database, link, let_in_out, why_out);
    if (e != ERR_OK || *let_in_out) return e;
    if (schema_let_in(database, link) != ERR_OK)
        return say_link(link, "cannot let the role tally_reader in", why_out);
    return readers_let_in(database, link, let_in_out, why_out);
}

static enum err migrate(const struct database *database, struct link *link,
                        const struct schema_meta *meta, struct schema_migrated *migrated_out,
                        struct reason *why_out)
{
    enum err e = ERR_OK;
    migrated_out->from = (unsigned)meta->schema;
    if (meta->schema < SCHEMA_VERSION) e = upgrade(database, link, meta, why_out);
    if (e == ERR_OK) e = let_readers_in(database, link, &migrated_out->readers, why_out);
    return e;
}

/* -- In order ---------------------------------------------------------------------------------- */

/* When the server was started is known to the microsecond. */
static enum err identify(struct link *link, struct schema_meta *meta, struct reason *why_out)
{
    PGresult *result = link_ask(link,
                                "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1e6)"
                                "::bigint || '/' || oid FROM pg_catalog.pg_database"
                                " WHERE datname = current_database()",
                                0, NULL, ASK_MS);
    if (!result) return say_link(link, "cannot tell which database it is", why_out);
    snprintf(meta->server, sizeof meta->server, "%s", PQgetvalue(result, 0, 0));
    PQclear(result);
    return ERR_OK;
}

enum err schema_look(struct database *database, struct link *link, struct schema_meta *meta_out,
                     struct reason *why_out)
{
    bool exists = false;
    *meta_out = (struct schema_meta){0};
    enum err e = check_server(database, link, why_out);
    if (e == ERR_OK) e = schema_exists(database, link, &exists, why_out);
    if (e == ERR_OK && exists) e = read_meta(database, link, meta_out, why_out);
    if (e == ERR_OK && exists && !database->beginning) e = check_meta(database, meta_out, why_out);
    if (e == ERR_OK) e = identify(link, meta_out, why_out);
    return e;
}

enum err schema_ensure(struct database *database, struct link *link,
                       const struct schema_founding *founding, struct schema_meta *meta_out,
                       struct reason *why_out)
{
    enum err e = ensure_schema(database, link, founding, why_out);
    if (e == ERR_OK) e = read_meta(database, link, meta_out, why_out);
    if (e == ERR_OK) e = check_meta(database, meta_out, why_out);
    return e;
}

enum err schema_settle(struct database *database, struct link *link, struct reason *why_out)
{
    char text[128];
    snprintf(text, sizeof text, "DELETE FROM %s.meta WHERE key = 'pending'", database->sql.schema);
    if (link_script(link, text, ASK_MS) == ERR_OK) return ERR_OK;
    return say_link(link, "cannot note that all databases are made", why_out);
}

enum err schema_take(struct database *database, struct link *link, const struct schema_meta *meta,
                     struct schema_migrated *migrated_out, struct reason *why_out)
{
    enum err e = ERR_OK;
    database->citus = meta->citus != 0;
    if (migrated_out)
        e = migrate(database, link, meta, migrated_out, why_out);
    else if (meta->schema < SCHEMA_VERSION)
        e = too_old(database, meta, why_out);
    database->secret = meta->secret;
    database->installation = meta->installation;
    return e;
}
