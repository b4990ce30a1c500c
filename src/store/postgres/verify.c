/* verify.c -- what a schema says twice is compared: `tally verify` on PostgreSQL.
 *
 * Checksums of pages are the database's own. What is left are rows that somebody else wrote or took
 * away, and our own mistakes. All of it is read in one snapshot, so nodes may serve meanwhile. A
 * statement finds what is wrong and says it; it finds nothing where all is well. */
#include "store/postgres/internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/quantity.h"

#define WAIT_MS (24 * 3600 * 1000)
#define SHOWN_MAX 20 /* findings of one kind: more tell nothing new */
#define TEXT(number) TEXT_OF(number)
#define TEXT_OF(number) #number

struct check {
    const char *what;
    const char *good;
    const char *count; /* how many were looked at */
    const char *wrong; /* rows of a lane and a text */
};

static const struct check checks[] = {
    {"cells", "each belongs to a series of its tenant", "SELECT count(*) FROM {S}.cells",
     "SELECT c.lane, format('bucket %s of series %s has no series of its tenant', c.bucket, c.series)"
     " FROM {S}.cells c LEFT JOIN {S}.series s ON s.series = c.series AND s.lane = c.lane"
     " LEFT JOIN {S}.graves g ON g.series = c.series AND g.lane = c.lane"
     " WHERE g.series IS NULL AND s.tenant_id IS DISTINCT FROM c.tenant_id"},
    {"series", "each has as many cells as it says", "SELECT count(*) FROM {S}.series",
     "SELECT s.lane, format('series %s of %s says that it has %s cells, and has %s',"
     " s.series, s.tenant_id, s.cells, coalesce(k.n, 0)) FROM {S}.series s"
     " LEFT JOIN (SELECT series, lane, count(*) AS n FROM {S}.cells GROUP BY series, lane) AS k"
     " ON k.series = s.series AND k.lane = s.lane WHERE s.cells <> coalesce(k.n, 0)"},
    {"tenants", "each has as many cells as its series", "SELECT count(*) FROM {S}.tenants",
     "SELECT coalesce(t.lane, k.lane), format('%s says that it has %s cells, and its series have"
     " %s', coalesce(t.tenant_id, k.tenant_id), coalesce(t.cells, 0), coalesce(k.n, 0))"
     " FROM {S}.tenants t FULL JOIN (SELECT tenant_id, lane, sum(cells) AS n FROM {S}.series"
     " GROUP BY tenant_id, lane) AS k ON k.tenant_id = t.tenant_id AND k.lane = t.lane"
     " WHERE coalesce(t.cells, 0) <> coalesce(k.n, 0)"},
    {"sums", "each is what its cells add up to", "SELECT count(*) FROM {S}.sums",
     "SELECT m.lane, format('the sum %s of series %s is %s - %s, and its cells add up to %s - %s',"
     " m.node, m.series, m.added, m.subbed, k.added, k.subbed) FROM {S}.sums m"
     " LEFT JOIN {S}.series s ON s.series = m.series AND s.lane = m.lane"
     " CROSS JOIN LATERAL (SELECT sum(c.added) AS added, sum(c.subbed) AS subbed FROM {S}.cells c"
     " WHERE c.series = m.series AND c.lane = m.lane"
     " AND c.bucket >= m.node * s.duration::bigint * " TEXT(NODE_BUCKETS) " AND c.bucket < (m.node + 1) * s.duration::bigint * " TEXT(
         NODE_BUCKETS) ") AS k"
                       " WHERE (m.added, m.subbed) IS DISTINCT FROM (k.added, k.subbed)"},
    {"ids", "that of each event is remembered",
     "SELECT count(*) FROM {S}.history WHERE NOT duplicate",
     "SELECT h.lane, format('the id of event %s of %s is not remembered', h.sequence, h.tenant_id)"
     " FROM {S}.history h WHERE NOT h.duplicate AND h.origin = 0 AND NOT EXISTS"
     " (SELECT FROM {S}.registry r WHERE r.event AND r.lane = h.lane AND r.sequence = h.sequence)"},
    {"commits", "nothing is newer than its lane's last one", "SELECT count(*) FROM {S}.lanes",
     "SELECT k.lane, format('%s has sequence %s, and the last commit %s', k.what, k.newest, n.last)"
     " FROM (SELECT lane, 'an event' AS what, max(sequence) AS newest FROM {S}.history GROUP BY lane"
     " UNION ALL SELECT lane, 'an id', max(sequence) FROM {S}.registry GROUP BY lane) AS k"
     " LEFT JOIN (SELECT lane, max(sequence) AS last FROM {S}.commits GROUP BY lane) AS n"
     " ON n.lane = k.lane WHERE k.newest > coalesce(n.last, -1)"},
    {"definitions", "the views have those of the store", "SELECT count(*) FROM {S}.definitions",
     "SELECT lane, format('that of %s is not in both places', name) FROM"
     " ((SELECT lane, name FROM {S}.definitions EXCEPT SELECT lane,"
     " encode(substring(key, 2), 'escape') FROM {S}.objects WHERE substring(key, 1, 1) = '\\x63')"
     " UNION ALL (SELECT lane, encode(substring(key, 2), 'escape') FROM {S}.objects"
     " WHERE substring(key, 1, 1) = '\\x63' EXCEPT SELECT lane, name FROM {S}.definitions)) AS k"},
};

/* Where rows of a tenant are. An imported id may be nobody's, and is then in every lane. */
static const char tenants_lanes[] =
    "SELECT DISTINCT lane, tenant_id FROM (SELECT lane, tenant_id FROM {S}.tenants"
    " UNION ALL SELECT lane, tenant_id FROM {S}.series"
    " UNION ALL SELECT lane, tenant_id FROM {S}.history"
    " UNION ALL SELECT lane, tenant_id FROM {S}.registry"
    " UNION ALL SELECT lane, tenant_id FROM {S}.objects) AS k WHERE tenant_id <> ''";

struct comparing {
    const struct database *database;
    struct link *link;
    postgres_finding_fn *say;
    void *context;
    bool damaged;
};

static void find(struct comparing *comparing, bool damaged, int lane, const char *what,
                 const char *text)
{
    const struct postgres_finding finding = {damaged, lane, what, text};
    comparing->damaged |= damaged;
    comparing->say(comparing->context, &finding);
}

static enum err ask(const struct comparing *comparing, const char *text, PGresult **result_out)
{
    char *made = sql_in_schema(text, comparing->database->sql.schema);
    *result_out = link_ask(comparing->link, made, 0, NULL, WAIT_MS);
    free(made);
    return *result_out ? ERR_OK : ERR_STORAGE;
}

static void good(struct comparing *comparing, const char *what, const char *count, const char *text)
{
    char line[128];
    snprintf(line, sizeof line, "%s: %s", count, text);
    find(comparing, false, -1, what, line);
}

static void more(struct comparing *comparing, const char *what, int count)
{
    char line[64];
    if (count <= SHOWN_MAX) return;
    snprintf(line, sizeof line, "and %d more", count - SHOWN_MAX);
    find(comparing, true, -1, what, line);
}

static enum err run_check(struct comparing *comparing, const struct check *check)
{
    PGresult *count = NULL, *wrong = NULL;
    int64_t lane;
    enum err e = ask(comparing, check->count, &count);
    if (e == ERR_OK) e = ask(comparing, check->wrong, &wrong);
    for (int row = 0; row < PQntuples(wrong) && row < SHOWN_MAX; row++)
        if (quantity_digits(bytes_str(PQgetvalue(wrong, row, 0)), &lane))
            find(comparing, true, (int)lane, check->what, PQgetvalue(wrong, row, 1));
    more(comparing, check->what, PQntuples(wrong));
    if (e == ERR_OK && PQntuples(wrong) == 0)
        good(comparing, check->what, PQgetvalue(count, 0, 0), check->good);
    PQclear(count);
    PQclear(wrong);
    return e;
}

/* A tenant's lane is a hash of it (SPEC 11), which PostgreSQL does not know. */
static enum err run_lanes(struct comparing *comparing)
{
    const unsigned lanes = comparing->database->config.lanes;
    char text[512], count[24];
    int64_t found;
    int misplaced = 0;
    PGresult *rows;
    enum err e = ask(comparing, tenants_lanes, &rows);
    for (int row = 0; row < PQntuples(rows); row++) {
        const char *tenant = PQgetvalue(rows, row, 1);
        unsigned lane = (unsigned)(hash_checksum(bytes_str(tenant)) % lanes);
        if (!quantity_digits(bytes_str(PQgetvalue(rows, row, 0)), &found)) continue;
        if (lane == found || ++misplaced > SHOWN_MAX) continue;
        snprintf(text, sizeof text, "rows of %s are here, which belongs to lane %u", tenant, lane);
        find(comparing, true, (int)found, "lanes", text);
    }
    more(comparing, "lanes", misplaced);
    snprintf(count, sizeof count, "%d", PQntuples(rows));
    if (e == ERR_OK && misplaced == 0)
        good(comparing, "lanes", count, "each tenant's rows are in its own");
    PQclear(rows);
    return e;
}

static enum err compare(struct comparing *comparing)
{
    enum err e = link_script(comparing->link,
                             "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
                             "SET LOCAL statement_timeout = 0; SET LOCAL row_security = off",
                             READ_WAIT_MS);
    for (size_t i = 0; i < ARRAY_COUNT(checks) && e == ERR_OK; i++)
        e = run_check(comparing, &checks[i]);
    if (e == ERR_OK) e = run_lanes(comparing);
    if (e != ERR_OK) return e;
    return comparing->damaged ? ERR_CORRUPT : ERR_OK;
}

/* No schema is made, or upgraded. */
static enum err look(struct database *database, struct link *link, struct reason *why_out)
{
    struct schema_meta meta;
    enum err e = schema_look(database, link, &meta, why_out);
    if (e == ERR_OK && !meta.exists)
        return reason_err(why_out, ERR_NOT_FOUND, "there is no schema %s of tally's.",
                          database->config.schema);
    return e == ERR_OK ? schema_take(database, link, &meta, NULL, why_out) : e;
}

static enum err verify(struct database *database, postgres_finding_fn *say, void *context,
                       struct reason *why_out)
{
    const struct link_config config = {.dsn = database->dsn, .sql = &database->sql};
    struct comparing comparing = {.database = database, .say = say, .context = context};
    struct reason why;
    enum err e = link_open(&comparing.link, &config, &why);
    if (e != ERR_OK) return reason_err(why_out, e, "cannot reach the database: %s", why.text);
    e = look(database, comparing.link, why_out);
    if (e == ERR_OK) {
        e = compare(&comparing);
        if (e == ERR_STORAGE)
            reason_say(why_out, "cannot read the tables: %s", link_why(comparing.link));
    }
    link_close(comparing.link);
    return e;
}

enum err postgres_verify(const struct postgres_config *config, postgres_finding_fn *say,
                         void *context, struct reason *why_out)
{
    struct database *database = database_new(config);
    enum err e = verify(database, say, context, why_out);
    postgres_close(database);
    return e;
}
