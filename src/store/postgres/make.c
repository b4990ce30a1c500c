/* make.c -- makes the tables, and brings those of an earlier version up to date.
 *
 * Either is one transaction, from the texts of tables.c: all of it is done or nothing is. */
#include "store/postgres/make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/codec.h"
#include "store/postgres/internal.h"

#define MAKE_MS 120000
#define TRIES 60u
#define PAUSE_MS 500
#define UPGRADE_MS (24 * 3600 * 1000) /* tables may have to be written anew */
#define TEXT_SIZE_MAX (16u << 20)     /* some thousand bytes for each of 1024 lanes */

/* -- Texts ------------------------------------------------------------------------------------- */

/* Adds a text with the schema's name and the lane's number in it. */
static void add_text(struct buf *script, const char *text, const char *schema, unsigned lane)
{
    while (*text) {
        if (strncmp(text, "{S}", 3) == 0)
            buf_add(script, bytes_str(schema));
        else if (strncmp(text, "{L}", 3) == 0)
            buf_addf(script, "%u", lane);
        else {
            size_t plain = 1 + strcspn(text + 1, "{");
            buf_add(script, bytes_of(text, plain));
            text += plain;
            continue;
        }
        text += 3;
    }
}

static bool stands_at(const struct buf *script, size_t at, const char *mark)
{
    size_t size = strlen(mark);
    return script->size - at >= size && memcmp(script->data + at, mark, size) == 0;
}

/* Takes what is said of partitions out of a script, or only the marks around it. */
static void settle_partitions(struct buf *script, bool partitions)
{
    static const char begin[] = "{BY}", end[] = "{YB}";
    size_t to = 0;
    bool inside = false;
    for (size_t from = 0; from < script->size;) {
        bool begins = !inside && stands_at(script, from, begin);
        bool ends = inside && stands_at(script, from, end);
        inside = begins || (inside && !ends);
        if (begins || ends)
            from += sizeof begin - 1;
        else if (partitions || !inside)
            script->data[to++] = script->data[from++];
        else
            from++;
    }
    script->size = to;
}

/* Adds a text for each lane that lies in this database. */
static void add_lanes(struct buf *script, const char *text, const struct database *database,
                      unsigned lanes)
{
    for (unsigned i = database->config.place; i < lanes; i += database->config.databases)
        add_text(script, text, database->sql.schema, i);
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

/* One at a time makes the schema or changes it. */
static void add_lock(struct buf *script, const struct database *database)
{
    buf_addf(script, "SELECT pg_advisory_xact_lock(hashtextextended('tally %s', 0));",
             database->config.schema);
}

/* Tries again where somebody is in the way. */
static enum err run_script(struct link *link, struct buf *script, int wait_ms)
{
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    enum err e = ERR_STORAGE;
    buf_add_char(script, '\0');
    must(!script->failed);
    for (unsigned tries = 0; tries < TRIES; tries++) {
        e = link_script(link, script->data, wait_ms);
        if (e == ERR_OK || strcmp(link_state(link), "55P03") != 0) break;
        nanosleep(&pause, NULL);
    }
    buf_release(script);
    return e;
}

static void add_people(struct buf *script, const char *schema)
{
    add_text(script, schema_people, schema, 0);
    add_text(script, schema_secure, schema, 0);
    add_text(script, schema_readers, schema, 0);
}

/* -- Making it --------------------------------------------------------------------------------- */

/* CREATE SCHEMA IF NOT EXISTS asks for the right to make one even where it is there. */
static const char make_room[] =
    "DO $$ BEGIN IF pg_catalog.to_regnamespace('{S}') IS NULL THEN CREATE SCHEMA {S}; END IF;"
    " END $$;";

enum err schema_make(const struct database *database, struct link *link,
                     const struct schema_founding *founding)
{
    const char *schema = database->sql.schema;
    const struct postgres_beginning *beginning = database->beginning;
    struct hash_secret secret = founding->secret;
    struct buf script;
    buf_init(&script, TEXT_SIZE_MAX);
    add_lock(&script, database);
    add_text(&script, make_room, schema, 0);
    add_text(&script, schema_tables, schema, 0);
    add_lanes(&script, schema_lane, database, database->config.lanes);
    if (database->config.citus) add_text(&script, schema_citus, schema, 0);
    add_people(&script, schema);
    settle_partitions(&script, !database->config.citus);
    if (beginning)
        buf_addf(&script, "UPDATE %s.commits SET sequence = %llu;", schema,
                 (unsigned long long)beginning->last);
    add_meta_number(&script, schema, "schema", SCHEMA_VERSION);
    add_meta_number(&script, schema, "lanes", database->config.lanes);
    add_meta_number(&script, schema, "ids_shared", database->config.ids_shared);
    add_meta_number(&script, schema, "databases", database->config.databases);
    add_meta_number(&script, schema, "place", database->config.place);
    if (founding->pending) add_meta_number(&script, schema, "pending", 1);
    add_meta_number(&script, schema, "installation", founding->installation);
    if (database->config.citus) add_meta_number(&script, schema, "citus", 1);
    add_meta(&script, schema, "secret", secret.bytes, sizeof secret.bytes);
    return run_script(link, &script, MAKE_MS);
}

/* -- Bringing it up to date -------------------------------------------------------------------- */

/* Another program may have done it since the version was asked for. */
static void add_guard(struct buf *script, const char *schema, unsigned version)
{
    buf_addf(script,
             "DO $$ BEGIN IF (SELECT value FROM %s.meta WHERE key = 'schema') <> '\\x%016x' THEN"
             " RAISE 'another program changed it meanwhile'; END IF; END $$;",
             schema, version);
}

/* Everybody is kept out for as long as it takes. A vacuum gives way to the first lock, which nobody
 * else waits for. The table of lanes is the first of the others: every commit holds it, and none
 * waits for what this transaction holds by then. A reader may hold one table and want another, so
 * the wait for those ends before the database would find a deadlock, and the caller tries again. */
static const char lock_out[] =
    "DO $$ DECLARE found text; BEGIN"
    " FOR found IN SELECT c.oid::regclass FROM pg_catalog.pg_class c"
    " WHERE c.relnamespace = '{S}'::regnamespace AND c.relkind IN ('r', 'p')"
    " AND NOT c.relispartition ORDER BY c.oid LOOP"
    " EXECUTE 'LOCK TABLE ' || found || ' IN SHARE UPDATE EXCLUSIVE MODE'; END LOOP;"
    " SET LOCAL lock_timeout = '500ms';"
    " LOCK TABLE {S}.lanes IN ACCESS EXCLUSIVE MODE;"
    " FOR found IN SELECT c.oid::regclass FROM pg_catalog.pg_class c"
    " WHERE c.relnamespace = '{S}'::regnamespace AND c.relkind IN ('r', 'p')"
    " AND NOT c.relispartition ORDER BY c.oid LOOP"
    " EXECUTE 'LOCK TABLE ' || found || ' IN ACCESS EXCLUSIVE MODE'; END LOOP; END $$;";

/* Begins a script that has the tables to itself. */
static void add_lock_out(struct buf *script, const struct database *database)
{
    const char *schema = database->sql.schema;
    buf_add(script, BYTES("SET LOCAL statement_timeout = 0; SET LOCAL row_security = off;"
                          "SET LOCAL lock_timeout = '10s';"));
    add_lock(script, database);
    buf_addf(script, "SELECT pg_advisory_xact_lock(hashtextextended('tally partitions %s', 0));",
             schema);
    add_text(script, lock_out, schema, 0);
}

enum err schema_upgrade(const struct database *database, struct link *link, unsigned from,
                        unsigned lanes)
{
    const char *schema = database->sql.schema;
    struct buf script;
    must(from > 0);
    must(from < SCHEMA_VERSION);
    buf_init(&script, TEXT_SIZE_MAX);
    add_lock_out(&script, database);
    add_guard(&script, schema, from);
    for (unsigned at = from; at < SCHEMA_VERSION; at++) {
        add_text(&script, schema_upgrades[at - 1].tables, schema, 0);
        add_lanes(&script, schema_upgrades[at - 1].lane, database, lanes);
    }
    add_people(&script, schema);
    settle_partitions(&script, !database->citus);
    buf_addf(&script, "UPDATE %s.meta SET value = '\\x%016x' WHERE key = 'schema';", schema,
             SCHEMA_VERSION);
    return run_script(link, &script, UPGRADE_MS);
}

enum err schema_let_in(const struct database *database, struct link *link)
{
    struct buf script;
    buf_init(&script, TEXT_SIZE_MAX);
    add_lock_out(&script, database);
    add_text(&script, schema_readers, database->sql.schema, 0);
    settle_partitions(&script, !database->citus);
    return run_script(link, &script, MAKE_MS);
}
