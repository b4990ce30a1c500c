/* tables.c -- what a schema is made of, and what turns one of an earlier version into it.
 *
 * In the texts {S} is the schema's name, quoted, and {L} the number of a lane. What stands between
 * {BY} and {YB} is left out on Citus, whose shards take the place of partitions.
 *
 * (1) `schema_tables` and `schema_lane` are the schema of this version, as a new database gets it.
 * (2) Whatever changes there changes in the newest of `schema_upgrades` too, until a version has
 *     been released; then it stays as it is, and the next one begins. The upgrade's own test
 *     (tests/e2e/postgres-schema.test.mjs) compares a schema that was upgraded with a new one.
 * (3) An upgrade runs alone, in one transaction that also sets the new version: nobody else reads
 *     or writes the tables meanwhile. Columns that it adds are the last ones of their table, so no
 *     statement may go by their order.
 *
 * Tables that are large are divided by lane; events are divided by time of arrival. */
#include "store/postgres/schema.h"

/* -- What a new schema and an upgraded one say alike ------------------------------------------- */

/* Row security lets an index be used by plain columns only, so people who ask by a counter's name
 * need it as one. It is made of the key (core/name.h) with what cannot fail, whatever its bytes. */
#define SERIES_NAME                                                   \
    "name text COLLATE \"C\" GENERATED ALWAYS AS (split_part(encode(" \
    "substring(key FROM octet_length(tenant_id) + 3 FOR 256), 'escape'), '\\000', 1)) STORED"

/* Whether it is the set without dimensions of a rule counter: its key ends with "{}". */
#define SERIES_WHOLE                    \
    "whole boolean GENERATED ALWAYS AS" \
    " (substring(key FROM octet_length(key) - 1) = '\\x7b7d') STORED"

#define SERIES_NAMES "CREATE INDEX series_name ON {S}.series (tenant_id, name, whole);"

/* The tenant in a key (core/object.h); null: it is of no tenant's. */
#define OBJECTS_TENANT                                                                    \
    "tenant_id text COLLATE \"C\" GENERATED ALWAYS AS (CASE substring(key, 1, 1)"         \
    " WHEN '\\x73' THEN split_part(encode(substring(key, 2, 256), 'escape'), '\\000', 1)" \
    " WHEN '\\x75' THEN encode(substring(key, 2), 'escape')"                              \
    " WHEN '\\x6e' THEN encode(substring(key, 2), 'escape')"                              \
    " WHEN '\\x71' THEN split_part(encode(substring(key, 2, 512), 'escape'), '\\000', 2)" \
    " END) STORED"

/* Usage rows and marks, which have views. */
#define OBJECTS_OF                                           \
    "CREATE INDEX objects_tenant ON {S}.objects (tenant_id)" \
    " WHERE substring(key, 1, 1) IN ('\\x71', '\\x75');"

/* What the views have to know of the definitions in `objects`. */
#define DEFINITIONS                                                                      \
    "CREATE TABLE {S}.definitions (lane int NOT NULL, name text COLLATE \"C\" NOT NULL," \
    " generation bigint NOT NULL, duration int NOT NULL, usage boolean NOT NULL,"        \
    " limit_value bigint, PRIMARY KEY (lane, name));"

/* The lane stands in them so that no plan takes the primary key, which begins with it: a tenant's
 * few events among a lane's many would be filtered out of all of them. */
#define HISTORY_INDEXES                                                          \
    "CREATE INDEX history_tenant ON {S}.history (tenant_id, lane, sequence);"    \
    "CREATE INDEX history_duplicates ON {S}.history (tenant_id, lane, sequence)" \
    " WHERE duplicate;"

/* What stretches of a series add up to (sums.h). */
#define SUMS                                                                                   \
    "CREATE TABLE {S}.sums (series bigint NOT NULL, node bigint NOT NULL, lane int NOT NULL,"  \
    " tenant_id text COLLATE \"C\" NOT NULL, added numeric NOT NULL, subbed numeric NOT NULL," \
    " PRIMARY KEY (series, node, lane));"

/* Nodes that serve it, and when each was last seen. */
#define NODES                                                             \
    "CREATE TABLE {S}.nodes (id uuid PRIMARY KEY, address text NOT NULL," \
    " seen_at timestamptz NOT NULL) WITH (fillfactor = 50);"

/* -- This version ------------------------------------------------------------------------------ */

const char schema_tables[] =
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
    " key bytea NOT NULL, " SERIES_NAME ", " SERIES_WHOLE ", until bigint,"
    " PRIMARY KEY (series, lane)) WITH (fillfactor = 75);"
    "CREATE UNIQUE INDEX series_print ON {S}.series (print, duration, lane);"
    "CREATE INDEX series_key ON {S}.series (substring(key, 1, 512), lane);" SERIES_NAMES
    "CREATE TABLE {S}.cells (series bigint NOT NULL, bucket bigint NOT NULL,"
    " added bigint NOT NULL, subbed bigint NOT NULL, updated bigint NOT NULL, expires bigint,"
    " start bigint, lane int NOT NULL, due int, tenant_id text COLLATE \"C\" NOT NULL,"
    " exact boolean NOT NULL DEFAULT false,"
    " PRIMARY KEY (series, bucket, lane)){BY} PARTITION BY LIST (lane){YB};"
    "CREATE INDEX cells_due ON {S}.cells (due, lane) WHERE due IS NOT NULL;"
    "CREATE TABLE {S}.registry (print uuid NOT NULL, sequence bigint NOT NULL,"
    " first_seen bigint NOT NULL, digest bigint NOT NULL, lane int NOT NULL,"
    " event boolean NOT NULL, tenant_id text COLLATE \"C\", outcome bytea,"
    " PRIMARY KEY (print, lane)){BY} PARTITION BY LIST (lane){YB};"
    "CREATE INDEX registry_keys ON {S}.registry (first_seen, lane) WHERE NOT event;"
    "CREATE TABLE {S}.objects (print uuid NOT NULL, lane int NOT NULL, key bytea NOT NULL,"
    " value bytea NOT NULL, " OBJECTS_TENANT ", PRIMARY KEY (print, lane))"
    " WITH (fillfactor = 75);"
    "CREATE INDEX objects_key ON {S}.objects (substring(key, 1, 512), lane);" OBJECTS_OF DEFINITIONS
    "CREATE TABLE {S}.history (sequence bigint NOT NULL, arrived bigint NOT NULL,"
    " occurred bigint NOT NULL, first_sequence bigint NOT NULL, first_seen bigint NOT NULL,"
    " origin bigint NOT NULL,"
    " lane int NOT NULL, duplicate boolean NOT NULL, tenant_id text COLLATE \"C\" NOT NULL,"
    " id bytea NOT NULL, type bytea NOT NULL, dimensions bytea NOT NULL, payload bytea NOT NULL,"
    " PRIMARY KEY (lane, sequence, arrived)){BY} PARTITION BY RANGE (arrived){YB};" HISTORY_INDEXES
    "CREATE TABLE {S}.graves (series bigint NOT NULL, lane int NOT NULL,"
    " PRIMARY KEY (series, lane));" SUMS NODES;

/* A lane has its row, its partitions, and a commit that nothing came before. */
const char schema_lane[] =
    "{BY}CREATE TABLE {S}.cells_{L} PARTITION OF {S}.cells FOR VALUES IN ({L})"
    " WITH (fillfactor = 75);"
    "CREATE TABLE {S}.registry_{L} PARTITION OF {S}.registry FOR VALUES IN ({L});{YB}"
    "INSERT INTO {S}.lanes VALUES ({L});"
    "INSERT INTO {S}.leases VALUES ({L}, gen_random_uuid(), '-infinity');"
    "INSERT INTO {S}.commits VALUES ({L}, 0, (-9223372036854775808)::bigint, 1,"
    " 0, gen_random_uuid());";

/* Shards are the partitions then: a lane's rows of all tables lie together on one worker. */
const char schema_citus[] =
    "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_extension WHERE extname = 'citus') THEN"
    " RAISE 'the database has no extension citus (CREATE EXTENSION citus makes it)'; END IF; END $$;"
    "SELECT create_reference_table('{S}.meta'), create_reference_table('{S}.nodes');"
    "SELECT create_distributed_table('{S}.lanes', 'lane', colocate_with => 'none');"
    "SELECT create_distributed_table(('{S}.' || t)::regclass, 'lane', colocate_with => '{S}.lanes')"
    " FROM unnest(ARRAY['leases', 'commits', 'tenants', 'series', 'cells', 'registry', 'objects',"
    " 'definitions', 'history', 'graves', 'sums']) AS t;";

/* -- Earlier ones ------------------------------------------------------------------------------ */

/* The bytes of a definition are said in core/definition.c. These functions go again. */
#define UPGRADE_VARINT                                                                             \
    "CREATE FUNCTION {S}.varint(v bytea, INOUT at int, OUT n bigint) LANGUAGE plpgsql AS $$"       \
    " DECLARE part int; shift int := 0; BEGIN n := 0; LOOP part := get_byte(v, at); at := at + 1;" \
    " n := n | ((part & 127)::bigint << shift); shift := shift + 7;"                               \
    " EXIT WHEN part < 128; END LOOP; END $$;"

#define UPGRADE_DEFINITION                                                                     \
    "CREATE FUNCTION {S}.definition(v bytea, OUT name text, OUT generation bigint,"            \
    " OUT duration int, OUT usage boolean, OUT limit_value bigint) LANGUAGE plpgsql AS $$"     \
    " DECLARE at int := 2; n bigint; m bigint; mode bigint; grp text; zero boolean; BEGIN"     \
    " SELECT * INTO at, n FROM {S}.varint(v, at);"                                             \
    " name := encode(substring(v FROM at + 1 FOR n::int), 'escape'); at := at + n;"            \
    " SELECT * INTO at, mode FROM {S}.varint(v, at);"                                          \
    " SELECT * INTO at, n FROM {S}.varint(v, at);"                                             \
    " grp := encode(substring(v FROM at + 1 FOR n::int), 'escape'); at := at + n;"             \
    " SELECT * INTO at, n FROM {S}.varint(v, at);"                                             \
    " limit_value := CASE WHEN n & 1 = 0 THEN (n >> 1) & 9223372036854775807 END;"             \
    " FOR i IN 1..3 LOOP SELECT * INTO at, n FROM {S}.varint(v, at); END LOOP;"                \
    " SELECT * INTO at, generation FROM {S}.varint(v, at);"                                    \
    " SELECT * INTO at, n FROM {S}.varint(v, at);"                                             \
    " SELECT * INTO at, n FROM {S}.varint(v, at);"                                             \
    " zero := mode < 2;"                                                                       \
    " FOR i IN 1..n LOOP SELECT * INTO at, m FROM {S}.varint(v, at); zero := zero OR m = 0;"   \
    " END LOOP;"                                                                               \
    " usage := false; SELECT * INTO at, n FROM {S}.varint(v, at);"                             \
    " FOR i IN 1..n LOOP SELECT * INTO at, m FROM {S}.varint(v, at); usage := usage OR m = 0;" \
    " FOR j IN 1..m LOOP SELECT * INTO at, n FROM {S}.varint(v, at); at := at + n; END LOOP;"  \
    " END LOOP;"                                                                               \
    " duration := CASE mode WHEN 1 THEN 2147483647 ELSE 0 END;"                                \
    " usage := usage AND zero AND grp = 'usage' AND get_byte(v, 1) & 8 = 0; END $$;"

/* A cell without a series is on its way out already. */
static const char upgrade_1[] =
    "ALTER TABLE {S}.series ADD COLUMN " SERIES_NAME ", ADD COLUMN " SERIES_WHOLE
    ", ADD COLUMN until bigint;" SERIES_NAMES
    "ALTER TABLE {S}.cells ADD COLUMN tenant_id text COLLATE \"C\","
    " ADD COLUMN exact boolean NOT NULL DEFAULT false;"
    "UPDATE {S}.cells c SET tenant_id = s.tenant_id FROM {S}.series s"
    " WHERE s.series = c.series AND s.lane = c.lane;"
    "DELETE FROM {S}.cells WHERE tenant_id IS NULL;"
    "ALTER TABLE {S}.cells ALTER COLUMN tenant_id SET NOT NULL;"
    "ALTER TABLE {S}.objects ADD COLUMN " OBJECTS_TENANT
    ";" OBJECTS_OF DEFINITIONS UPGRADE_VARINT UPGRADE_DEFINITION
    "INSERT INTO {S}.definitions (lane, name, generation, duration, usage, limit_value)"
    " SELECT o.lane, d.* FROM {S}.objects o CROSS JOIN LATERAL {S}.definition(o.value) d"
    " WHERE substring(o.key, 1, 1) = '\\x63';"
    "DROP FUNCTION {S}.definition(bytea); DROP FUNCTION {S}.varint(bytea, int);"
    "DROP INDEX {S}.history_tenant;" HISTORY_INDEXES SUMS NODES;

static const char upgrade_1_lane[] = "";

const struct schema_upgrade schema_upgrades[SCHEMA_VERSION - 1] = {{upgrade_1, upgrade_1_lane}};
