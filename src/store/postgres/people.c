/* people.c -- what people see with SQL: views, and who sees which rows of them.
 *
 * The texts may be run again on a schema that has all of it. {S} is the schema's name, quoted.
 *
 * (1) A row is seen by its own tenant: the views go by the rights and the row security of whoever
 *     asks (security_invoker), and show nothing to conditions that come from outside before that is
 *     decided (security_barrier).
 * (2) A view never fails for what a row holds. Names, keys and texts are bytes, and text and jsonb
 *     do not take all bytes that JSON allows; so each is looked at before it is turned into
 *     either, and nothing is left to an error that would end the query for all other rows.
 * (3) Functions have bodies that are parsed where they are made, so no search_path of a caller
 *     changes what they mean, and none looks at a table. */
#include "store/postgres/schema.h"

/* What UTF-8 is (RFC 3629), in a text that has a character of LATIN1 for each byte. */
#define UTF_8                                                                        \
    "'^([\\x01-\\x7f]|[\\xc2-\\xdf][\\x80-\\xbf]|\\xe0[\\xa0-\\xbf][\\x80-\\xbf]'"   \
    " || '|[\\xe1-\\xec\\xee\\xef][\\x80-\\xbf]{2}|\\xed[\\x80-\\x9f][\\x80-\\xbf]'" \
    " || '|\\xf0[\\x90-\\xbf][\\x80-\\xbf]{2}|[\\xf1-\\xf3][\\x80-\\xbf]{3}'"        \
    " || '|\\xf4[\\x80-\\x8f][\\x80-\\xbf]{2})*$'"

/* Bytes as text where they are text in UTF-8 without a NUL; otherwise with \ooo for what is not. */
#define READABLE                                                               \
    "CREATE OR REPLACE FUNCTION {S}.readable(bytes bytea) RETURNS text"        \
    " LANGUAGE sql STABLE PARALLEL SAFE RETURN CASE"                           \
    " WHEN position('\\x00'::bytea IN bytes) > 0 THEN encode(bytes, 'escape')" \
    " WHEN octet_length(convert_from(bytes, 'LATIN1')) = octet_length(bytes)"  \
    " THEN convert_from(bytes, 'LATIN1')"                                      \
    " WHEN convert_from(bytes, 'LATIN1') COLLATE \"C\" ~ (" UTF_8 ")"          \
    " THEN convert_from(bytes, 'UTF8') ELSE encode(bytes, 'escape') END;"

/* A string of canonical JSON (core/event.h), without \u0000, which jsonb does not take. */
#define STRING "\"([^\"\\\\\\x01-\\x1f]|\\\\[\"\\\\]|\\\\u00(0[1-9a-f]|1[0-9a-f]))*\""

/* Canonical JSON of dimensions; null if jsonb does not take it. */
#define DIMENSIONS                                                                          \
    "CREATE OR REPLACE FUNCTION {S}.dimensions_of(bytes bytea) RETURNS jsonb"               \
    " LANGUAGE sql STABLE PARALLEL SAFE RETURN CASE WHEN {S}.readable(bytes) COLLATE \"C\"" \
    " ~ '^\\{(" STRING ":" STRING "(," STRING ":" STRING ")*)?\\}$'"                        \
    " THEN {S}.readable(bytes)::jsonb END;"

/* Milliseconds since 1970 as a time; null if it is one that has no name (core/timefmt.h). */
#define MOMENT                                                             \
    "CREATE OR REPLACE FUNCTION {S}.moment(ms bigint) RETURNS timestamptz" \
    " LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN CASE"                    \
    " WHEN ms BETWEEN -62135596800000 AND 253402300799999"                 \
    " THEN to_timestamp(ms / 1000.0::float8) END;"

/* Eight bytes from `at` on, little-endian; null if there are not as many. */
#define NUMBER                                                                             \
    "CREATE OR REPLACE FUNCTION {S}.number_at(bytes bytea, at int) RETURNS bigint"         \
    " LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN CASE"                                    \
    " WHEN at >= 0 AND octet_length(bytes) >= at + 8 THEN get_byte(bytes, at)::bigint"     \
    " | (get_byte(bytes, at + 1)::bigint << 8) | (get_byte(bytes, at + 2)::bigint << 16)"  \
    " | (get_byte(bytes, at + 3)::bigint << 24) | (get_byte(bytes, at + 4)::bigint << 32)" \
    " | (get_byte(bytes, at + 5)::bigint << 40) | (get_byte(bytes, at + 6)::bigint << 48)" \
    " | (get_byte(bytes, at + 7)::bigint << 56) END;"

#define VIEW(name)                     \
    "CREATE OR REPLACE VIEW {S}." name \
    " WITH (security_invoker = true, security_barrier = true) AS "

/* Where a series' key has what follows the tenant, in bytes counted from 1: the kind, and in a rule
 * counter's key its generation and its dimensions (core/name.h). */
#define KEY_KIND "substring(s.key FROM octet_length(s.tenant_id) + 2 FOR 1)"
#define KEY_GENERATION \
    "substring(s.key FROM octet_length(s.tenant_id) + octet_length(s.name) + 4 FOR 4)"
#define KEY_DIMENSIONS "substring(s.key FROM octet_length(s.tenant_id) + octet_length(s.name) + 8)"
#define IS_GENERATION "substring(int8send(d.generation) FROM 5) = " KEY_GENERATION

/* The series in which windows are kept, and how long one is kept when it is over (core/rules.h). */
#define WINDOW "2147483647"
#define WINDOW_IDLE "604800000"

/* A window that is over is nothing, and so is a cell whose expiry is exact and has come; any other
 * is there until the sweep takes it. */
#define LASTS                                                        \
    "(NOT (c.exact OR s.duration = " WINDOW ") OR c.expires IS NULL" \
    " OR c.expires > extract(epoch FROM now()) * 1000"               \
    " + CASE s.duration WHEN " WINDOW " THEN " WINDOW_IDLE " ELSE 0 END)"

/* A rule counter is counted in one generation. Others are of a rebuild, or about to be removed. */
#define COUNTERS                                                                              \
    VIEW("counters")                                                                          \
    "SELECT s.tenant_id, s.name, {S}.dimensions_of(k.dimensions) AS dimensions,"              \
    " encode(sha256(k.dimensions), 'hex') AS dimension_key,"                                  \
    " CASE WHEN s.duration = " WINDOW " THEN (c.expires - c.start - " WINDOW_IDLE ") / 1000"  \
    " WHEN s.duration >= 0 THEN s.duration END AS duration_seconds,"                          \
    " NULL::text AS bucket, NULL::text AS zone,"                                              \
    " CASE WHEN s.duration = " WINDOW " THEN {S}.moment(c.start)"                             \
    " WHEN s.duration >= 0 AND c.bucket BETWEEN -62135596800 AND 253402300799"                \
    " THEN to_timestamp(c.bucket::float8)"                                                    \
    " END AS time_start, c.added - c.subbed AS net, c.added, c.subbed, NULL::bigint AS held," \
    " {S}.moment(c.expires) AS expires_at, {S}.moment(c.updated) AS updated_at"               \
    " FROM {S}.series s JOIN {S}.cells c ON c.series = s.series AND c.lane = s.lane"          \
    " CROSS JOIN LATERAL (SELECT CASE " KEY_KIND " WHEN '\\x72' THEN " KEY_DIMENSIONS " END"  \
    " AS dimensions) AS k"                                                                    \
    " WHERE (" KEY_KIND " = '\\x64' OR EXISTS (SELECT FROM {S}.definitions d"                 \
    " WHERE d.lane = s.lane AND d.name = s.name AND " IS_GENERATION ")) AND " LASTS ";"

#define EVENTS                                                                                \
    VIEW("events")                                                                            \
    "SELECT h.tenant_id, CASE WHEN h.origin <> 0 THEN h.origin ELSE h.sequence END AS id,"    \
    " h.sequence, {S}.readable(h.id) AS event_id, {S}.readable(h.type) AS event_type,"        \
    " {S}.moment(h.occurred) AS occurred_at, {S}.moment(h.arrived) AS arrived_at,"            \
    " {S}.readable(h.dimensions) AS dimensions_json, {S}.readable(h.payload) AS payload_json" \
    " FROM {S}.history h WHERE NOT h.duplicate;"

#define DUPLICATE_EVENTS                                                                      \
    VIEW("duplicate_events")                                                                  \
    "SELECT h.tenant_id, {S}.readable(h.id) AS event_id,"                                     \
    " {S}.moment(h.first_seen) AS first_seen_at, {S}.moment(h.arrived) AS duplicate_seen_at," \
    " {S}.readable(h.type) AS event_type, {S}.readable(h.dimensions) AS dimensions_json,"     \
    " {S}.readable(h.payload) AS payload_json FROM {S}.history h WHERE h.duplicate;"

#define EVENT_REGISTRY                                                       \
    VIEW("event_registry")                                                   \
    "SELECT r.tenant_id, r.print, {S}.moment(r.first_seen) AS first_seen_at" \
    " FROM {S}.registry r WHERE r.event;"

/* A row for each counter of the group `usage`, of each tenant that has a usage row (SPEC 8). A
 * counter that has counted nothing yet has no cell. */
#define USAGE                                                                              \
    VIEW("tenant_usage_metrics")                                                           \
    "SELECT o.tenant_id, d.name AS metric, coalesce(v.net, 0) AS value, d.limit_value,"    \
    " {S}.readable(substring(o.value FROM 9)) AS status,"                                  \
    " {S}.moment(greatest({S}.number_at(o.value, 0), v.updated)) AS last_updated_at"       \
    " FROM {S}.objects o JOIN {S}.definitions d ON d.lane = o.lane AND d.usage"            \
    " LEFT JOIN LATERAL (SELECT c.added - c.subbed AS net, c.updated"                      \
    " FROM {S}.series s JOIN {S}.cells c ON c.series = s.series AND c.lane = s.lane"       \
    " WHERE s.tenant_id = o.tenant_id AND s.name = d.name AND s.whole AND s.lane = o.lane" \
    " AND s.duration = d.duration AND " IS_GENERATION " AND " LASTS ") AS v ON true"       \
    " WHERE substring(o.key, 1, 1) = '\\x75';"

#define RECONCILE_QUEUE                                                                      \
    VIEW("reconcile_queue")                                                                  \
    "SELECT o.tenant_id, {S}.readable(substring(o.key FROM 2 FOR k.name_size)) AS name,"     \
    " {S}.dimensions_of(substring(o.key FROM k.name_size + octet_length(o.tenant_id) + 4))"  \
    " AS entity, get_byte(o.value, 1) = 1 AS pending, {S}.number_at(o.value, 2) AS version," \
    " {S}.moment({S}.number_at(o.value, 10)) AS marked_at,"                                  \
    " {S}.moment({S}.number_at(o.value, 18)) AS cause_at,"                                   \
    " {S}.moment({S}.number_at(o.value, 26)) AS updated_at,"                                 \
    " {S}.moment({S}.number_at(o.value, 34)) AS retry_at"                                    \
    " FROM {S}.objects o CROSS JOIN LATERAL"                                                 \
    " (SELECT greatest(position('\\x00'::bytea IN o.key) - 2, 0) AS name_size) AS k"         \
    " WHERE substring(o.key, 1, 1) = '\\x71' AND octet_length(o.value) = 46;"

const char schema_people[] = READABLE DIMENSIONS MOMENT NUMBER COUNTERS EVENTS DUPLICATE_EVENTS
    EVENT_REGISTRY USAGE RECONCILE_QUEUE;

/* -- Who sees what ----------------------------------------------------------------------------- */

/* Each table is for those alone who are let in: tally's own role has BYPASSRLS. */
const char schema_secure[] =
    "DO $$ DECLARE found record; BEGIN"
    " FOR found IN SELECT c.oid::regclass AS name FROM pg_catalog.pg_class c"
    " WHERE c.relnamespace = '{S}'::regnamespace AND c.relkind IN ('r', 'p')"
    " AND NOT (c.relrowsecurity AND c.relforcerowsecurity) LOOP"
    " EXECUTE format('ALTER TABLE %s ENABLE ROW LEVEL SECURITY', found.name);"
    " EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', found.name);"
    " END LOOP; END $$;";

/* A role that may not make another one leaves that to somebody who may, and makes the policies when
 * it finds it made. Several schemas, and several databases of a server, share the role. */
const char schema_readers[] =
    "DO $$ DECLARE found record; BEGIN"
    " IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'tally_reader') THEN"
    " BEGIN CREATE ROLE tally_reader NOLOGIN;"
    " EXCEPTION WHEN insufficient_privilege OR duplicate_object OR unique_violation THEN NULL; END;"
    " END IF;"
    " IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'tally_reader') THEN RETURN;"
    " END IF;"
    " FOR found IN SELECT c.oid, c.oid::regclass AS name FROM pg_catalog.pg_class c"
    " JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id'"
    " WHERE c.relnamespace = '{S}'::regnamespace AND c.relkind IN ('r', 'p')"
    " AND NOT c.relispartition AND NOT EXISTS (SELECT FROM pg_catalog.pg_policy p"
    " WHERE p.polrelid = c.oid AND p.polname = 'tenant_isolation_policy') LOOP"
    " EXECUTE format('CREATE POLICY tenant_isolation_policy ON %s TO tally_reader"
    " USING (tenant_id = current_setting(''app.current_tenant'', true))', found.name);"
    " END LOOP;"
    " IF NOT EXISTS (SELECT FROM pg_catalog.pg_policy WHERE polrelid = '{S}.definitions'::regclass)"
    " THEN CREATE POLICY everybody_policy ON {S}.definitions TO tally_reader USING (true); END IF;"
    " GRANT USAGE ON SCHEMA {S} TO tally_reader;"
    " GRANT SELECT ON {S}.counters, {S}.events, {S}.duplicate_events, {S}.event_registry,"
    " {S}.tenant_usage_metrics, {S}.reconcile_queue, {S}.series, {S}.cells, {S}.definitions,"
    " {S}.history, {S}.objects TO tally_reader;"
    /* Citus has no rights on columns: the digest and what a key led to are then seen, too. */
    " GRANT SELECT{BY} (tenant_id, print, first_seen, event){YB} ON {S}.registry TO tally_reader;"
    " END $$;";
