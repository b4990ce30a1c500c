/* partitions.c -- the table of events is divided by time of arrival, so that retention drops tables
 * instead of rows.
 *
 * A partition is made apart and then attached, which keeps no reader or writer of events waiting;
 * `CREATE TABLE .. PARTITION OF` would lock all of them out. The first commit that needs it makes
 * it, on a link of its own, because it has to be there whatever becomes of the batch. */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/postgres/internal.h"

#define SPAN_MS (INT64_C(30) * 24 * 3600 * 1000)
#define SCRIPT_SIZE 4096
#define SCRIPT_WAIT_MS 5000

static int64_t span_of(int64_t time_ms)
{
    int64_t span = time_ms / SPAN_MS;
    return time_ms % SPAN_MS < 0 ? span - 1 : span;
}

static bool is_known(const struct database *database, int64_t span)
{
    for (unsigned i = 0; i < database->partitions_count; i++)
        if (database->partitions[i] == span) return true;
    return false;
}

static void remember(struct database *database, int64_t span)
{
    unsigned kept = database->partitions_count;
    if (kept == PARTITIONS_KNOWN) kept--;
    memmove(database->partitions + 1, database->partitions, kept * sizeof *database->partitions);
    database->partitions[0] = span;
    database->partitions_count = kept + 1;
}

/* Two nodes may want the same one: the second waits and finds it. */
static void write_script(const struct database *database, int64_t span, char script[SCRIPT_SIZE])
{
    char table[SCRIPT_SIZE / 8];
    const char *schema = database->sql.schema;
    const long long from_ms = span * SPAN_MS, to_ms = from_ms + SPAN_MS;
    snprintf(table, sizeof table, "%s.\"history_%lld\"", schema, (long long)span);
    int size = snprintf(script, SCRIPT_SIZE,
                        "SET LOCAL lock_timeout = '2s';"
                        "SELECT pg_advisory_xact_lock(hashtextextended('tally partitions %s', 0));"
                        "CREATE TABLE IF NOT EXISTS %s (LIKE %s.history INCLUDING DEFAULTS);"
                        "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_catalog.pg_inherits"
                        " WHERE inhrelid = '%s'::regclass) THEN"
                        " ALTER TABLE %s ENABLE ROW LEVEL SECURITY;"
                        " ALTER TABLE %s FORCE ROW LEVEL SECURITY;"
                        " ALTER TABLE %s.history ATTACH PARTITION %s"
                        " FOR VALUES FROM (%lld) TO (%lld); END IF; END $$",
                        schema, table, schema, table, table, table, schema, table, from_ms, to_ms);
    must(size > 0 && size < SCRIPT_SIZE);
}

static enum err make(struct database *database, int64_t span)
{
    char script[SCRIPT_SIZE];
    struct link *link;
    write_script(database, span, script);
    enum err e = pool_take(database->readers, LINK_WAIT_MS, &link);
    if (e != ERR_OK) return e;
    e = link_script(link, script, SCRIPT_WAIT_MS);
    if (e != ERR_OK)
        log_line(LOG_ERROR, "a partition for events cannot be made", LOG_KV("why", link_why(link)),
                 LOG_KV("sqlstate", link_state(link)));
    pool_give(database->readers, link);
    return e;
}

enum err partition_ensure(struct database *database, int64_t arrived_ms)
{
    int64_t span = span_of(arrived_ms);
    enum err e = ERR_OK;
    if (database->citus) return ERR_OK; /* has shards instead */
    pthread_mutex_lock(&database->partitions_lock);
    if (!is_known(database, span)) e = make(database, span);
    if (e == ERR_OK && !is_known(database, span)) remember(database, span);
    pthread_mutex_unlock(&database->partitions_lock);
    return e;
}
