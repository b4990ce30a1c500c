/* lanes_open.c -- opens the store and makes its lanes. */
#include "serve/server.h"

#include <stdio.h>
#include <stdlib.h>

#include "commit/pace.h"
#include "base/metrics.h"
#include "store/embedded/replicate.h"
#include "store/memory.h"

#define CACHE_LEAST (1u << 20) /* one lane's */
#define CHECKPOINT_LEAST (64u << 10)
#define ARCHIVE_MS_MIN 500
#define ARCHIVE_MS_MAX (24 * 3600 * 1000)

/* Events are moved out of the journal early enough for retention to let go of them in time. */
static int64_t archive_age(int64_t retention_ms)
{
    int64_t age = retention_ms / 8;
    return age < ARCHIVE_MS_MIN ? ARCHIVE_MS_MIN : age > ARCHIVE_MS_MAX ? ARCHIVE_MS_MAX : age;
}

/* The lane's share of what bounds the process. */
static uint64_t share(const struct config *config, int64_t bytes, uint64_t least)
{
    uint64_t each = (uint64_t)bytes / (uint64_t)config->store_lanes;
    return each > least ? each : least;
}

static struct embedded_config embedded_of_config(const struct config *config)
{
    return (struct embedded_config){
        .dir = config->data,
        .clock = &clock_system,
        .cache_bytes = (size_t)share(config, config->store_cache_bytes, CACHE_LEAST),
        .segment_bytes = (uint64_t)config->journal_segment_bytes,
        .keep_bytes = share(config, config->journal_keep_bytes, 0),
        .keep_ms = config->journal_keep,
        .spare_segments = (unsigned)config->journal_spare_segments,
        .checkpoint_ms = config->checkpoint_every,
        .checkpoint_bytes = share(config, config->checkpoint_journal_bytes, CHECKPOINT_LEAST),
        .ids_shared = config->events_id_scope == CONFIG_IDS_INSTALLATION,
        .archive_ms = archive_age(config->events_retention),
        .key_keep_ms = config->idempotency_keep,
        .lanes = (unsigned)config->store_lanes,
    };
}

static enum err take_dir(struct server *server, struct reason *why_out)
{
    const struct config *config = server->config;
    const struct identity_wish wish = {.lanes = (unsigned)config->store_lanes,
                                       .ids_shared =
                                           config->events_id_scope == CONFIG_IDS_INSTALLATION};
    server->embedded = embedded_of_config(config);
    return lanes_dir_open(&server->dirs, config->data, &wish, why_out);
}

/* The sentence also says which lane cannot be opened: not every reason has a path in it. */
static enum err open_embedded(struct server *server, unsigned index, struct store **store_out,
                              struct reason *why_out)
{
    struct embedded_config lane = server->embedded;
    struct reason why;
    lane.dir = lanes_dir_lane(&server->dirs, index);
    lane.lane = index;
    lane.installation = server->dirs.identity.installation;
    enum err e = embedded_open(store_out, &lane, &why);
    if (e == ERR_OK && server->member.follows) embedded_set_following(*store_out);
    if (e != ERR_OK && lane.lanes > 1)
        reason_say(why_out, "lane %u: %s", index, why.text);
    else if (e != ERR_OK)
        *why_out = why;
    return e;
}

/* All lanes make fingerprints with one secret: they are one installation. */
static enum err open_memory(struct server *server, unsigned index, struct store **store_out)
{
    enum err e = memory_open(store_out);
    if (e == ERR_OK && index > 0) (*store_out)->secret = server->lanes.items[0].store->secret;
    return e;
}

static enum err open_store(struct server *server, unsigned index, struct store **store_out,
                           struct reason *why_out)
{
    switch (server->config->store_kind) {
    case CONFIG_STORE_MEMORY:
        return open_memory(server, index, store_out);
    case CONFIG_STORE_POSTGRES:
        return postgres_lane(server_database(server, index), index, store_out, why_out);
    case CONFIG_STORE_EMBEDDED:
        return open_embedded(server, index, store_out, why_out);
    case CONFIG_STORE_COUNT:
        break;
    }
    unreachable_state(server->config->store_kind);
}

static void wake_wire(void *context)
{
    struct server *server = context;
    wire_wake(server->wire);
}

static enum err follow_rules(void *context, unsigned lane)
{
    struct server *server = context;
    return adopter_adopt(server->adopter, lane);
}

static struct queue_limits queue_limits(const struct config *config)
{
    return (struct queue_limits){
        .ops_max = (uint32_t)config->limits_queue_ops,
        .tenant_ops_max = (uint32_t)config->limits_tenant_queue_ops,
        .urgent_ops_max = (uint32_t)config->limits_sync_ops,
        .tenant_urgent_ops_max = (uint32_t)(config->limits_sync_ops * 4 / 5),
        .bytes_max = (size_t)config->limits_inflight_bytes,
        .tenant_bytes_max = (size_t)config->limits_inflight_bytes / 5 * 4,
        .batch_weight_max = config_batch_weight(config),
        .enough_ops =
            config->store_kind == CONFIG_STORE_POSTGRES ? PACE_ENOUGH_REMOTE_OPS : PACE_ENOUGH_OPS,
    };
}

static struct apply_limits apply_limits(const struct config *config)
{
    return (struct apply_limits){
        .tenant_cells = config->limits_tenant_cells,
        .tenant_marks = config->limits_tenant_marks,
        .granularities = (uint32_t)config->limits_counter_granularities,
        .key_keep_ms = config->idempotency_keep,
        .id_keep_ms = config->events_registry_ttl,
        .ids_shared = config->events_id_scope == CONFIG_IDS_INSTALLATION,
        .batch_weight = config_batch_weight(config),
    };
}

static const struct clock *clock_of_lane(const struct server *server, unsigned index)
{
    return server->databases ? postgres_clock(server_database(server, index)) : &clock_system;
}

static enum err open_lane(struct server *server, unsigned index, struct reason *why_out)
{
    const struct config *config = server->config;
    struct lane_config lane = {
        .index = index,
        .clock = clock_of_lane(server, index),
        .timeline = {.tolerance_ms = config->clock_tolerance, .settle_ms = config->clock_settle},
        .queue = queue_limits(config),
        .room = &server->room,
        .limits = apply_limits(config),
        .batch_ops_max = (uint32_t)config->limits_batch_ops,
        .answered = wake_wire,
        .follow = config->store_kind == CONFIG_STORE_POSTGRES ? follow_rules : NULL,
        .context = server,
    };
    enum err e = open_store(server, index, &lane.store, why_out);
    if (e != ERR_OK) return e;
    e = lane_open(&server->lanes.items[index], &lane);
    if (e != ERR_OK) reason_say(why_out, "cannot read what was recorded of the clock.");
    return e;
}

enum err server_open_lanes(struct server *server, struct reason *why_out)
{
    enum err e = ERR_OK;
    server->lanes.count = (unsigned)server->config->store_lanes;
    server->room.shared = server->lanes.count > 1;
    metrics_lanes(server->lanes.count);
    server->lanes.items = must_calloc(server->lanes.count, sizeof *server->lanes.items);
    if (server->config->store_kind == CONFIG_STORE_EMBEDDED) e = take_dir(server, why_out);
    if (server->config->store_kind == CONFIG_STORE_POSTGRES)
        e = server_open_databases(server, why_out);
    for (unsigned i = 0; i < server->lanes.count && e == ERR_OK; i++) {
        const struct must_place place = {.state = "open", .lane = i};
        must_at = &place;
        e = open_lane(server, i, why_out);
        must_at = NULL;
    }
    return e;
}

void server_close_lanes(struct server *server)
{
    for (unsigned i = 0; i < server->lanes.count; i++)
        lane_close(&server->lanes.items[i]);
    free(server->lanes.items);
    if (server->config->store_kind == CONFIG_STORE_EMBEDDED) lanes_dir_close(&server->dirs);
    server_close_databases(server);
}
