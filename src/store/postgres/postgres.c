/* postgres.c -- opens and closes the store, and its lanes. */
#include "store/postgres/postgres.h"

#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/internal.h"

#define STANDBY_OPEN_MS 250 /* a reader waits for it, and has the primary to go to */

static struct database *postgres_new(const struct postgres_config *config)
{
    struct database *database = must_calloc(1, sizeof *database);
    must(config->schema[0] && !strpbrk(config->schema, "\"'%"));
    database->config = *config;
    database->dsn = strdup(config->dsn);
    must(database->dsn != NULL);
    if (config->read_dsn) database->read_dsn = strdup(config->read_dsn);
    sql_init(&database->sql, config->schema);
    pthread_mutex_init(&database->partitions_lock, NULL);
    database_clock_init(database);
    const struct link_config link = {
        .dsn = database->dsn, .sql = &database->sql, .prepares = !config->deals_out};
    database->writers = pool_new(&link, config->connections);
    database->readers = pool_new(&link, config->read_connections);
    if (config->read_dsn) {
        const struct link_config standby = {.dsn = database->read_dsn,
                                            .sql = &database->sql,
                                            .prepares = !config->deals_out,
                                            .open_ms = STANDBY_OPEN_MS};
        database->standbys = pool_new(&standby, config->read_connections);
    }
    return database;
}

void postgres_close(struct database *database)
{
    if (database->warden) warden_free(database->warden);
    pool_free(database->writers);
    pool_free(database->readers);
    if (database->standbys) pool_free(database->standbys);
    pthread_mutex_destroy(&database->partitions_lock);
    sql_release(&database->sql);
    free(atomic_load(&database->address));
    free(database->dsn);
    free(database->read_dsn);
    free(database);
}

/* Looks on a link of its own, because a pool that fails to open one says so in the log only. */
static enum err look(struct database *database, struct schema_migrated *migrated_out,
                     struct reason *why_out)
{
    const struct link_config config = {.dsn = database->dsn, .sql = &database->sql};
    struct link *link;
    struct reason why;
    enum err e = link_open(&link, &config, &why);
    if (e != ERR_OK) return reason_err(why_out, e, "cannot reach the database: %s", why.text);
    link_server(link, database->server, sizeof database->server);
    e = schema_open(database, link, migrated_out, why_out);
    link_close(link);
    return e;
}

/* A process that was killed and started again is to find its leases its own. */
static struct fingerprint node_number(const struct database *database, const char *node)
{
    struct fingerprint number;
    if (node) return fingerprint_of(&database->secret, bytes_str(node));
    must(RAND_bytes((unsigned char *)&number, sizeof number) == 1);
    return number;
}

enum err postgres_open(struct database **database_out, const struct postgres_config *config,
                       struct reason *why_out)
{
    struct database *database = postgres_new(config);
    enum err e = look(database, NULL, why_out);
    database->node = node_number(database, config->node);
    database->config.node = NULL; /* the caller's, and used up */
    if (e == ERR_OK) {
        database->warden = warden_new(database);
        *database_out = database;
    } else {
        postgres_close(database);
    }
    return e;
}

static const char no_readers[] =
    "\nNobody can read it with SQL yet: there is no role tally_reader, and this role may not make "
    "one. Have somebody who may say CREATE ROLE tally_reader NOLOGIN, and run this again.";

enum err postgres_migrate(const struct postgres_config *config, struct reason *why_out)
{
    struct database *database = postgres_new(config);
    struct schema_migrated migrated;
    enum err e = look(database, &migrated, why_out);
    if (e == ERR_OK) {
        reason_clear(why_out);
        reason_add(why_out, "the schema %s ", config->schema);
        if (migrated.from < SCHEMA_VERSION)
            reason_add(why_out, "was of version %u and is of version %u now", migrated.from,
                       SCHEMA_VERSION);
        else
            reason_add(why_out, "is of version %u", SCHEMA_VERSION);
        reason_add(why_out, ", with %u lanes.%s", config->lanes,
                   migrated.readers ? "" : no_readers);
    }
    postgres_close(database);
    return e;
}

enum err postgres_prepare(const struct postgres_config *config,
                          const struct postgres_beginning *beginning, struct reason *why_out)
{
    struct database *database = postgres_new(config);
    database->beginning = beginning;
    enum err e = look(database, NULL, why_out);
    postgres_close(database);
    return e;
}

/* The first turn reads where the lane is, and is given up again. */
static enum err read_position(struct lane_store *lane)
{
    struct writer *writer = &lane->store.writer;
    struct read_set none = {0};
    enum err e = writer_begin(writer);
    if (e == ERR_OK) writer_abandon(writer, &none);
    return e;
}

enum err postgres_lane(struct database *database, unsigned index, struct store **store_out,
                       struct reason *why_out)
{
    struct lane_store *lane = must_calloc(1, sizeof *lane);
    must(index < database->config.lanes);
    store_init(&lane->store, &postgres_store_ops, &postgres_writer_ops, &postgres_view_ops);
    lane->store.secret = database->secret;
    lane->store.installation = database->installation;
    lane->store.remote = true;
    lane->store.server = database->server;
    lane->database = database;
    lane->lane = index;
    lane->horizon_ms = lane->sure_ms = INT64_MIN;
    lane->care.forgotten_ms = INT64_MIN;
    values_init(&lane->values);
    pthread_mutex_init(&lane->turn, NULL);
    pthread_mutex_init(&lane->sums.lock, NULL);
    warden_join(database->warden, lane);
    enum err e = read_position(lane);
    if (e == ERR_OK) {
        *store_out = &lane->store;
        return ERR_OK;
    }
    reason_say(why_out, "cannot lock lane %u of the database; the log says why.", index);
    store_close(&lane->store);
    return e;
}
