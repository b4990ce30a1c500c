/* database.c -- the store in PostgreSQL, as the config has it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json_write.h"
#include "base/log.h"
#include "core/timefmt.h"
#include "jobs/prepare.h"
#include "serve/server.h"

static struct postgres_config postgres_of_config(const struct config *config, unsigned place)
{
    const struct config_databases *standbys = &config->store_postgres_read_dsn;
    return (struct postgres_config){
        .dsn = config->store_postgres_dsn.items[place],
        .read_dsn = standbys->count ? standbys->items[place] : NULL,
        .databases = config->store_postgres_dsn.count,
        .place = place,
        .schema = config->store_postgres_schema,
        .lanes = (unsigned)config->store_lanes,
        .connections = (unsigned)config->store_postgres_connections,
        .read_connections = (unsigned)config->store_postgres_read_connections,
        .pooled = config->store_postgres_pooler != CONFIG_POOLER_NONE,
        .deals_out = config->store_postgres_pooler == CONFIG_POOLER_TRANSACTION,
        .unsafe = config->store_postgres_unsafe,
        .ids_shared = config->events_id_scope == CONFIG_IDS_INSTALLATION,
        .cache_bytes = (size_t)config->store_cache_bytes,
        .key_keep_ms = config->idempotency_keep,
        .clock = &clock_system,
    };
}

/* This machine, the data directory, where it listens: no two that run at a time have all three. */
static void name_node(const struct config *config, char name_out[SERVER_NODE_SIZE])
{
    char host[256] = "", data[PATH_MAX];
    (void)!gethostname(host, sizeof host - 1);
    if (!realpath(config->data, data)) snprintf(data, sizeof data, "%s", config->data);
    snprintf(name_out, SERVER_NODE_SIZE, "%s %s %s", host, data, config->listen);
}

static struct postgres_config *postgres_of_all(const struct config *config)
{
    unsigned count = config->store_postgres_dsn.count;
    struct postgres_config *all = must_calloc(count, sizeof *all);
    for (unsigned i = 0; i < count; i++)
        all[i] = postgres_of_config(config, i);
    return all;
}

struct database *server_database(const struct server *server, unsigned lane)
{
    return server->databases[lane % server->databases_count];
}

enum err server_open_databases(struct server *server, struct reason *why_out)
{
    unsigned count = server->config->store_postgres_dsn.count;
    struct postgres_config *all = postgres_of_all(server->config);
    name_node(server->config, server->node);
    for (unsigned i = 0; i < count; i++)
        all[i].node = server->node;
    if (server->config->ignored[0])
        log_line(LOG_WARN, "these settings have no meaning for a store in PostgreSQL",
                 LOG_KV("ignored", server->config->ignored));
    if (all->unsafe) log_line(LOG_WARN, "store.postgres.unsafe: what is acknowledged may be lost");
    server->databases = must_calloc(count, sizeof(struct database *));
    enum err e = postgres_open_all(server->databases, all, count, why_out);
    if (e == ERR_OK) server->databases_count = count;
    free(all);
    return e;
}

void server_close_databases(struct server *server)
{
    for (unsigned i = 0; i < server->databases_count; i++)
        postgres_close(server->databases[i]);
    free(server->databases);
}

static enum err prepare(const struct config *config, const char *dir, const char *name,
                        struct reason *why)
{
    struct postgres_config *all = postgres_of_all(config);
    struct port_record header;
    struct arena arena;
    arena_init(&arena, 4096);
    enum err e = port_header(dir, name, &arena, &header, why);
    if (e == ERR_OK) e = import_prepare_check(&header, name, all->lanes, why);
    if (e == ERR_OK) {
        const struct postgres_beginning beginning = {.secret = header.ids ? &header.secret : NULL,
                                                     .last = port_highest(&header)};
        for (unsigned i = 0; i < all->databases; i++)
            all[i].ids_shared = header.ids_shared;
        e = postgres_prepare(all, all->databases, &beginning, why);
    }
    arena_release(&arena);
    free(all);
    return e;
}

int daemon_prepare(const struct config *config, const char *name)
{
    char dir[TREE_PATH_MAX];
    struct reason why;
    enum err e = tree_path(dir, config->ops_dir, "exports");
    if (e != ERR_OK)
        reason_say(&why, "the path of ops.dir is too long");
    else
        e = prepare(config, dir, name, &why);
    if (e == ERR_OK)
        printf("the schema %s is empty and can take %s; serve it with store.lanes %lld\n",
               config->store_postgres_schema, name, (long long)config->store_lanes);
    else
        fprintf(stderr, "tally import: %s\n", why.text);
    return e == ERR_OK ? 0 : 1;
}

/* -- Nodes ------------------------------------------------------------------------------------- */

struct seen_node {
    struct postgres_node node;
    struct seen_node *next;
};

struct seeing {
    struct arena *arena;
    struct seen_node *first;
    struct seen_node **end;
};

/* The same node is in every database, and leads lanes in each. */
static void see_node(void *context, const struct postgres_node *node)
{
    struct seeing *seeing = context;
    struct seen_node *seen = seeing->first;
    while (seen && !bytes_equal(seen->node.id, node->id))
        seen = seen->next;
    if (!seen) {
        seen = arena_zalloc(seeing->arena, sizeof *seen);
        seen->node = *node;
        seen->node.id = arena_copy(seeing->arena, node->id);
        seen->node.address = arena_copy(seeing->arena, node->address);
        *seeing->end = seen;
        seeing->end = &seen->next;
        return;
    }
    unsigned had = seen->node.lanes_count;
    unsigned *lanes = arena_alloc(seeing->arena, (had + node->lanes_count + 1) * sizeof *lanes);
    for (unsigned i = 0; i < had + node->lanes_count; i++)
        lanes[i] = i < had ? seen->node.lanes[i] : node->lanes[i - had];
    if (node->seen_ms > seen->node.seen_ms) seen->node.seen_ms = node->seen_ms;
    seen->node.lanes = lanes;
    seen->node.lanes_count = had + node->lanes_count;
}

static void add_node(const struct postgres_node *node, struct buf *json)
{
    json_open(json, JSON_ITEM, '{');
    json_add_text(json, JSON_KEY("id"), node->id);
    json_add_text(json, JSON_KEY("address"), node->address);
    json_key(json, JSON_KEY("seenAt"));
    time_format_json(json, node->seen_ms);
    json_add_bool(json, JSON_KEY("self"), node->self);
    json_open(json, JSON_KEY("lanes"), '[');
    for (unsigned i = 0; i < node->lanes_count; i++)
        json_add_number(json, JSON_ITEM, node->lanes[i]);
    json_close(json, ']');
    json_close(json, '}');
}

/* A database that is away says nothing, and the others do. */
enum err server_nodes(void *context, struct arena *arena, struct buf *json_out)
{
    struct server *server = context;
    struct seeing seeing = {.arena = arena};
    unsigned heard = 0;
    enum err e = ERR_STORAGE;
    seeing.end = &seeing.first;
    for (unsigned i = 0; i < server->databases_count; i++) {
        enum err own = postgres_nodes(server->lanes.items[i].store, arena, see_node, &seeing);
        heard += own == ERR_OK;
        if (own != ERR_OK) e = own;
    }
    for (const struct seen_node *seen = seeing.first; seen; seen = seen->next)
        add_node(&seen->node, json_out);
    return heard > 0 ? ERR_OK : e;
}

enum err daemon_verify(const struct config *config, postgres_finding_fn *say, void *context,
                       struct reason *why_out)
{
    bool damaged = false;
    for (unsigned i = 0; i < config->store_postgres_dsn.count; i++) {
        const struct postgres_config postgres = postgres_of_config(config, i);
        enum err e = postgres_verify(&postgres, say, context, why_out);
        if (e != ERR_OK && e != ERR_CORRUPT) return e;
        damaged |= e == ERR_CORRUPT;
    }
    return damaged ? ERR_CORRUPT : ERR_OK;
}

int daemon_migrate(const struct config *config, bool citus)
{
    struct postgres_config *all = postgres_of_all(config);
    struct reason said;
    for (unsigned i = 0; i < config->store_postgres_dsn.count; i++)
        all[i].citus = citus;
    enum err e = postgres_migrate(all, config->store_postgres_dsn.count, &said);
    free(all);
    fprintf(e == ERR_OK ? stdout : stderr, "%s%s\n", e == ERR_OK ? "" : "tally: ", said.text);
    return e == ERR_OK ? 0 : 1;
}
