/* postgres.c -- opens and closes the store, and its lanes. */
#include "store/postgres/postgres.h"

#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#include "store/postgres/internal.h"

#define STANDBY_OPEN_MS 250            /* a reader waits for it, and has the primary to go to */
#define MEMORY_LEAST ((size_t)1 << 20) /* for one lane */

struct database *database_new(const struct postgres_config *config)
{
    struct database *database = must_calloc(1, sizeof *database);
    must(config->schema[0] && !strpbrk(config->schema, "\"'%"));
    database->config = *config;
    if (database->config.databases == 0) database->config.databases = 1;
    must(database->config.place < database->config.databases);
    database->dsn = strdup(config->dsn);
    must(database->dsn != NULL);
    if (config->read_dsn) database->read_dsn = strdup(config->read_dsn);
    sql_init(&database->sql, config->schema);
    pthread_mutex_init(&database->partitions_lock, NULL);
    database_clock_init(database);
    struct link_config link = {.dsn = database->dsn,
                               .sql = &database->sql,
                               .pooled = config->pooled,
                               .prepares = !config->deals_out};
    if (link.prepares) link.settings = database->sql.texts[SQL_PLANS_KEPT];
    database->readers = pool_new(&link, config->read_connections);
    if (config->read_dsn) {
        const struct link_config standby = {.dsn = database->read_dsn,
                                            .sql = &database->sql,
                                            .pooled = config->pooled,
                                            .prepares = !config->deals_out,
                                            .settings = link.settings,
                                            .open_ms = STANDBY_OPEN_MS};
        database->standbys = pool_new(&standby, config->read_connections);
    }
    if (link.prepares) link.settings = database->sql.texts[SQL_SETTINGS_KEPT];
    database->writers = pool_new(&link, config->connections);
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

/* A process that was killed and started again is to find its leases its own. */
static struct fingerprint node_number(const struct database *database, const char *node)
{
    struct fingerprint number;
    if (node) return fingerprint_of(&database->secret, bytes_str(node));
    must(RAND_bytes((unsigned char *)&number, sizeof number) == 1);
    return number;
}

enum err postgres_open_all(struct database **databases_out, const struct postgres_config *configs,
                           unsigned count, struct reason *why_out)
{
    for (unsigned i = 0; i < count; i++)
        databases_out[i] = database_new(&configs[i]);
    enum err e = group_open(databases_out, count, NULL, why_out);
    for (unsigned i = 0; i < count; i++) {
        struct database *database = databases_out[i];
        database->node = node_number(database, configs[i].node);
        database->config.node = NULL; /* the caller's, and used up */
        if (e == ERR_OK)
            database->warden = warden_new(database);
        else
            postgres_close(database);
    }
    return e;
}

enum err postgres_open(struct database **database_out, const struct postgres_config *config,
                       struct reason *why_out)
{
    return postgres_open_all(database_out, config, 1, why_out);
}

static const char no_readers[] =
    "\nNobody can read it with SQL yet: there is no role tally_reader, and this role may not make "
    "one. Have somebody who may say CREATE ROLE tally_reader NOLOGIN, and run this again.";

static void say_migrated(const struct database *database, const struct schema_migrated *migrated,
                         struct reason *said)
{
    const struct postgres_config *config = &database->config;
    unsigned lanes = (config->lanes - config->place + config->databases - 1) / config->databases;
    if (config->place > 0) reason_add(said, "\n");
    if (config->databases > 1) reason_add(said, "%s: ", database->server);
    reason_add(said, "the schema %s ", config->schema);
    if (migrated->from < SCHEMA_VERSION)
        reason_add(said, "was of version %u and is of version %u now", migrated->from,
                   SCHEMA_VERSION);
    else
        reason_add(said, "is of version %u", SCHEMA_VERSION);
    reason_add(said, ", with %u lanes.%s", lanes, migrated->readers ? "" : no_readers);
}

enum err postgres_migrate(const struct postgres_config *configs, unsigned count,
                          struct reason *why_out)
{
    struct database **databases = must_calloc(count, sizeof(struct database *));
    struct schema_migrated *migrated = must_calloc(count, sizeof *migrated);
    for (unsigned i = 0; i < count; i++)
        databases[i] = database_new(&configs[i]);
    enum err e = group_open(databases, count, migrated, why_out);
    if (e == ERR_OK) reason_clear(why_out);
    for (unsigned i = 0; i < count; i++) {
        if (e == ERR_OK) say_migrated(databases[i], &migrated[i], why_out);
        postgres_close(databases[i]);
    }
    free(migrated);
    free(databases);
    return e;
}

enum err postgres_prepare(const struct postgres_config *configs, unsigned count,
                          const struct postgres_beginning *beginning, struct reason *why_out)
{
    struct database **databases = must_calloc(count, sizeof(struct database *));
    for (unsigned i = 0; i < count; i++) {
        databases[i] = database_new(&configs[i]);
        databases[i]->beginning = beginning;
    }
    enum err e = group_open(databases, count, NULL, why_out);
    for (unsigned i = 0; i < count; i++)
        postgres_close(databases[i]);
    free(databases);
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

static size_t memory_share(const struct postgres_config *config)
{
    size_t each = config->cache_bytes / config->lanes;
    return each > MEMORY_LEAST ? each : MEMORY_LEAST;
}

enum err postgres_lane(struct database *database, unsigned index, struct store **store_out,
                       struct reason *why_out)
{
    struct lane_store *lane = must_calloc(1, sizeof *lane);
    must(index < database->config.lanes);
    must(index % database->config.databases == database->config.place);
    store_init(&lane->store, &postgres_store_ops, &postgres_writer_ops, &postgres_view_ops);
    lane->store.secret = database->secret;
    lane->store.installation = database->installation;
    lane->store.remote = true;
    lane->store.server = database->server;
    lane->store.place = database->config.place;
    lane->database = database;
    lane->lane = index;
    lane->horizon_ms = lane->sure_ms = INT64_MIN;
    lane->care.forgotten_ms = INT64_MIN;
    values_init(&lane->values);
    known_init(&lane->known, memory_share(&database->config));
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
