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

static struct postgres_config postgres_of_config(const struct config *config)
{
    return (struct postgres_config){
        .dsn = config->store_postgres_dsn.items[0],
        .read_dsn =
            config->store_postgres_read_dsn.count ? config->store_postgres_read_dsn.items[0] : NULL,
        .schema = config->store_postgres_schema,
        .lanes = (unsigned)config->store_lanes,
        .connections = (unsigned)config->store_postgres_connections,
        .read_connections = (unsigned)config->store_postgres_read_connections,
        .deals_out = config->store_postgres_pooler == CONFIG_POOLER_TRANSACTION,
        .unsafe = config->store_postgres_unsafe,
        .ids_shared = config->events_id_scope == CONFIG_IDS_INSTALLATION,
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

enum err server_open_database(struct server *server, struct reason *why_out)
{
    struct postgres_config postgres = postgres_of_config(server->config);
    name_node(server->config, server->node);
    postgres.node = server->node;
    if (server->config->ignored[0])
        log_line(LOG_WARN, "these settings have no meaning for a store in PostgreSQL",
                 LOG_KV("ignored", server->config->ignored));
    if (postgres.unsafe)
        log_line(LOG_WARN, "store.postgres.unsafe: what is acknowledged may be lost");
    return postgres_open(&server->database, &postgres, why_out);
}

static enum err prepare(const struct config *config, const char *dir, const char *name,
                        struct reason *why)
{
    struct postgres_config postgres = postgres_of_config(config);
    struct port_record header;
    struct arena arena;
    arena_init(&arena, 4096);
    enum err e = port_header(dir, name, &arena, &header, why);
    if (e == ERR_OK) e = import_prepare_check(&header, name, postgres.lanes, why);
    if (e == ERR_OK) {
        const struct postgres_beginning beginning = {.secret = header.ids ? &header.secret : NULL,
                                                     .last = port_highest(&header)};
        postgres.ids_shared = header.ids_shared;
        e = postgres_prepare(&postgres, &beginning, why);
    }
    arena_release(&arena);
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

static void add_node(void *context, const struct postgres_node *node)
{
    struct buf *json = context;
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

enum err server_nodes(void *context, struct arena *arena, struct buf *json_out)
{
    const struct server *server = context;
    return postgres_nodes(server->lanes.items[0].store, arena, add_node, json_out);
}

int daemon_migrate(const struct config *config)
{
    const struct postgres_config postgres = postgres_of_config(config);
    struct reason said;
    enum err e = postgres_migrate(&postgres, &said);
    fprintf(e == ERR_OK ? stdout : stderr, "%s%s\n", e == ERR_OK ? "" : "tally: ", said.text);
    return e == ERR_OK ? 0 : 1;
}
