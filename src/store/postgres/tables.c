/* tables.c -- what a schema is made of, and what turns one of an earlier version into it.
 *
 * In the texts {S} is the schema's name, quoted, and {L} the number of a lane.
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
    " PRIMARY KEY (series, lane));"
    /* Nodes that serve it, and when each was last seen. */
    "CREATE TABLE {S}.nodes (id uuid PRIMARY KEY, address text NOT NULL,"
    " seen_at timestamptz NOT NULL) WITH (fillfactor = 50);";

/* A lane has its row, its partitions, and a commit that nothing came before. */
const char schema_lane[] =
    "CREATE TABLE {S}.cells_{L} PARTITION OF {S}.cells FOR VALUES IN ({L})"
    " WITH (fillfactor = 75);"
    "CREATE TABLE {S}.registry_{L} PARTITION OF {S}.registry FOR VALUES IN ({L});"
    "INSERT INTO {S}.lanes VALUES ({L});"
    "INSERT INTO {S}.leases VALUES ({L}, gen_random_uuid(), '-infinity');"
    "INSERT INTO {S}.commits VALUES ({L}, 0, (-9223372036854775808)::bigint, 1,"
    " 0, gen_random_uuid());";

/* -- Earlier ones ------------------------------------------------------------------------------ */

static const char upgrade_1[] =
    "CREATE TABLE {S}.nodes (id uuid PRIMARY KEY, address text NOT NULL,"
    " seen_at timestamptz NOT NULL) WITH (fillfactor = 50);";

static const char upgrade_1_lane[] = "";

const struct schema_upgrade schema_upgrades[SCHEMA_VERSION - 1] = {{upgrade_1, upgrade_1_lane}};
