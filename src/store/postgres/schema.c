/* schema.c -- the tables: made, looked at, brought up to date.
 *
 * Tables that are large are divided by lane; events are divided by time of arrival. */
#include <openssl/rand.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/codec.h"
#include "base/quantity.h"
#include "store/postgres/internal.h"

#define ASK_MS 15000
#define MAKE_MS 120000
#define SERVER_LEAST 150000
#define TEXT_SIZE_MAX (4u << 20) /* some hundred bytes for each of 1024 lanes */

/* -- Making it --------------------------------------------------------------------------------- */

static const char tables[] =
    "CREATE SCHEMA IF NOT EXISTS {S};"
    "CREATE TABLE {S}.meta (key text PRIMARY KEY, value bytea NOT NULL);"
    /* A row is what a commit locks, and is hardly ever changed: a version chain would grow. */
    "CREATE TABLE {S}.lanes (lane int PRIMARY KEY);"
    /* A process that leads a lane's caretaking, until when. */
    "CREATE TABLE {S}.leases (lane int PRIMARY KEY, holder uuid NOT NULL,"
    " until timestamptz NOT NULL) WITH (fillfactor = 50);"
    "CREATE TABLE {S}.commits (lane int NOT NULL, sequence bigint NOT NULL, at bigint NOT NULL,"
    " next_series bigint NOT NULL, rules bigint NOT NULL, stamp uuid NOT NULL,"
    " PRIMARY KEY (lane, sequence));"
    "CREATE TABLE {S}.tenants (tenant_id text COLLATE \"C\" NOT NULL, lane int NOT NULL,"
    " cells bigint NOT NULL, PRIMARY KEY (tenant_id, lane)) WITH (fillfactor = 75);"
    "CREATE TABLE {S}.series (series bigint NOT NULL, cells bigint NOT NULL, print uuid NOT NULL,"
    " lane int NOT NULL, duration int NOT NULL, tenant_id text COLLATE \"C\" NOT NULL,"
    " key bytea NOT NULL, PRIMARY KEY (series, lane)) WITH (fillfactor = 75);"
    "CREATE UNIQUE INDEX series_print ON {S}.series (print, duration, lane);"
    "CREATE INDEX series_key ON {S}.series (substring(key, 1, 512), lane);"
    "CREATE TABLE {S}.cells (series bigint NOT NULL, bucket bigint NOT NULL,"
    " added bigint NOT NULL, subbed bigint NOT NULL, updated bigint NOT NULL, expires bigint,"
    " start bigint, lane int NOT NULL, due int, PRIMARY KEY (series, bucket, lane))"
    " PARTITION BY LIST (lane);"
    "CREATE INDEX cells_due ON {S}.cells (due, lane) WHERE due IS NOT NULL;"
    "CREATE TABLE {S}.registry (print uuid NOT NULL, sequence bigint NOT NULL,"
    " first_seen bigint NOT NULL, digest bigint NOT NULL, lane int NOT NULL,"
    " event boolean NOT NULL, tenant_id text COLLATE \"C\", outcome bytea,"
    " PRIMARY KEY (print, lane)) PARTITION BY LIST (lane);"
    "CREATE INDEX registry_keys ON {S}.registry (first_seen, lane) WHERE NOT event;"
    "CREATE TABLE {S}.objects (print uuid NOT NULL, lane int NOT NULL, key bytea NOT NULL,"
    " value bytea NOT NULL, PRIMARY KEY (print, lane)) WITH (fillfactor = 75);"
    "CREATE INDEX objects_key ON {S}.objects (substring(key, 1, 512), lane);"
    "CREATE TABLE {S}.history (sequence bigint NOT NULL, arrived bigint NOT NULL,"
    " occurred bigint NOT NULL, first_sequence bigint NOT NULL, first_seen bigint NOT NULL,"
    " origin bigint NOT NULL,"
    " lane int NOT NULL, duplicate boolean NOT NULL, tenant_id text COLLATE \"C\" NOT NULL,"
    " id bytea NOT NULL, type bytea NOT NULL, dimensions bytea NOT NULL, payload bytea NOT NULL,"
    " PRIMARY KEY (lane, sequence, arrived)) PARTITION BY RANGE (arrived);"
    "CREATE INDEX history_tenant ON {S}.history (tenant_id, sequence);"
    "CREATE TABLE {S}.graves (series bigint NOT NULL, lane int NOT NULL,"
    " PRIMARY KEY (series, lane));";

static void add_script(struct buf *script, const char *text, const char *schema)
{
    char *made = sql_in_schema(text, schema);
    buf_add(script, bytes_str(made));
    free(made);
}

static void add_hex(struct buf *script, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    buf_add(script, BYTES("'\\x"));
    for (size_t i = 0; i < size; i++)
        buf_addf(script, "%02x", at[i]);
    buf_add(script, BYTES("'::bytea"));
}

static void add_meta(struct buf *script, const char *schema, const char *key, const void *bytes,
                     size_t size)
{
    buf_addf(script, "INSERT INTO %s.meta VALUES ('%s', ", schema, key);
    add_hex(script, bytes, size);
    buf_add(script, BYTES(");"));
}

static void add_meta_number(struct buf *script, const char *schema, const char *key, uint64_t value)
{
    char bytes[sizeof value];
    put_ordered_u64(bytes, value);
    add_meta(script, schema, key, bytes, sizeof bytes);
}

/* A lane has its row, its partitions, and a commit that nothing came before. */
static void add_lane(struct buf *script, const char *schema, unsigned lane)
{
    buf_addf(script,
             "CREATE TABLE %1$s.cells_%2$u PARTITION OF %1$s.cells FOR VALUES IN (%2$u)"
             " WITH (fillfactor = 75);"
             "CREATE TABLE %1$s.registry_%2$u PARTITION OF %1$s.registry FOR VALUES IN (%2$u);"
             "INSERT INTO %1$s.lanes VALUES (%2$u);"
             "INSERT INTO %1$s.leases VALUES (%2$u, gen_random_uuid(), '-infinity');"
             "INSERT INTO %1$s.commits VALUES (%2$u, 0, (-9223372036854775808)::bigint, 1,"
             " 0, gen_random_uuid());",
             schema, lane);
}

static enum err make_schema(struct database *database, struct link *link)
{
    const char *schema = database->sql.schema;
    struct hash_secret secret;
    uint64_t installation;
    struct buf script;
    must(RAND_bytes(secret.bytes, sizeof secret.bytes) == 1);
    must(RAND_bytes((unsigned char *)&installation, sizeof installation) == 1);
    buf_init(&script, TEXT_SIZE_MAX);
    buf_addf(&script, "SELECT pg_advisory_xact_lock(hashtextextended('tally %s', 0));",
             database->config.schema);
    add_script(&script, tables, schema);
    for (unsigned i = 0; i < database->config.lanes; i++)
        add_lane(&script, schema, i);
    add_meta_number(&script, schema, "schema", SCHEMA_VERSION);
    add_meta_number(&script, schema, "lanes", database->config.lanes);
    add_meta_number(&script, schema, "ids_shared", database->config.ids_shared);
    add_meta_number(&script, schema, "installation", installation | 1);
    add_meta(&script, schema, "secret", secret.bytes, sizeof secret.bytes);
    buf_add_char(&script, '\0');
    must(!script.failed);
    enum err e = link_script(link, script.data, MAKE_MS);
    buf_release(&script);
    return e;
}

/* -- Looking whether it can be used ------------------------------------------------------------ */

static enum err say_link(const struct link *link, const char *doing, struct reason *why_out)
{
    return reason_err(why_out, ERR_STORAGE, "%s: %s%s%s", doing, link_why(link),
                      link_state(link)[0] ? " (SQLSTATE " : "",
                      link_state(link)[0] ? link_state(link) : "");
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
    if (lax && !database->config.unsafe)
        return reason_err(why_out, ERR_INVALID,
                          "the server has fsync = %s and synchronous_commit = %s, with which what "
                          "was acknowledged can be lost; put both on, or say that you know it with "
                          "store.postgres.unsafe: true.",
                          fsync, commit);
    return ERR_OK;
}

static enum err check_server(struct database *database, struct link *link, struct reason *why_out)
{
    int64_t asked_ms = clock_boot_ms(database->config.clock), now_ms;
    PGresult *result =
        link_ask(link,
                 "SELECT current_setting('server_encoding'), current_setting('fsync'),"
                 " current_setting('synchronous_commit'), pg_is_in_recovery(),"
                 " current_setting('server_version_num'), current_setting('server_version'),"
                 " (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
                 0, NULL, ASK_MS);
    if (!result) return say_link(link, "cannot ask the database for its settings", why_out);
    enum err e = check_settings(database, result, why_out);
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

struct meta {
    uint64_t schema;
    uint64_t lanes;
    uint64_t ids_shared;
    uint64_t installation;
    struct hash_secret secret;
    bool has_secret;
};

static void read_meta_row(struct meta *meta, const char *key, const char *text)
{
    const struct {
        const char *key;
        uint64_t *number;
    } numbers[] = {{"schema", &meta->schema},
                   {"lanes", &meta->lanes},
                   {"ids_shared", &meta->ids_shared},
                   {"installation", &meta->installation}};
    unsigned char bytes[sizeof(uint64_t)];
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++)
        if (strcmp(key, numbers[i].key) == 0 && read_hex(text, bytes, sizeof bytes))
            *numbers[i].number = get_ordered_u64(bytes);
    if (strcmp(key, "secret") == 0)
        meta->has_secret = read_hex(text, meta->secret.bytes, sizeof meta->secret.bytes);
}

static enum err read_meta(const struct database *database, struct link *link, struct meta *meta_out,
                          struct reason *why_out)
{
    char text[128];
    *meta_out = (struct meta){0};
    snprintf(text, sizeof text, "SELECT key, value FROM %s.meta", database->sql.schema);
    PGresult *result = link_ask(link, text, 0, NULL, ASK_MS);
    if (!result) return say_link(link, "cannot read the schema's own figures", why_out);
    for (int row = 0; row < PQntuples(result); row++)
        read_meta_row(meta_out, PQgetvalue(result, row, 0), PQgetvalue(result, row, 1));
    PQclear(result);
    return ERR_OK;
}

static enum err check_meta(const struct database *database, const struct meta *meta,
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
    if (meta->ids_shared != database->config.ids_shared)
        return reason_err(why_out, ERR_INVALID,
                          "the schema %s was made with events.idScope: %s, which is fixed at the "
                          "first start.",
                          schema, meta->ids_shared ? "installation" : "tenant");
    return ERR_OK;
}

/* Another node may be making it at the same time: the second one finds it made. */
static enum err ensure_schema(struct database *database, struct link *link, struct reason *why_out)
{
    bool exists = false;
    enum err e = schema_exists(database, link, &exists, why_out);
    if (e != ERR_OK || exists) return e;
    if (make_schema(database, link) == ERR_OK) return ERR_OK;
    struct reason why;
    e = say_link(link, "cannot make the schema", &why);
    if (schema_exists(database, link, &exists, why_out) == ERR_OK && exists) return ERR_OK;
    *why_out = why;
    return e;
}

enum err schema_open(struct database *database, struct link *link, bool may_upgrade,
                     struct reason *why_out)
{
    struct meta meta;
    (void)may_upgrade; /* there is but one version yet */
    enum err e = check_server(database, link, why_out);
    if (e == ERR_OK) e = ensure_schema(database, link, why_out);
    if (e == ERR_OK) e = read_meta(database, link, &meta, why_out);
    if (e == ERR_OK) e = check_meta(database, &meta, why_out);
    if (e != ERR_OK) return e;
    database->secret = meta.secret;
    database->installation = meta.installation;
    return ERR_OK;
}
