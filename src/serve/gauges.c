/* gauges.c -- see the header. */
#include "serve/gauges.h"

#include "base/metrics.h"
#include "commit/lanes.h"
#include "reconcile/reconciler.h"
#include "replica/follow.h"
#include "replica/ship.h"
#include "wire/loop.h"

static void set_stats(unsigned lane, const struct store_stats *stats)
{
    metric_set_lane(METRIC_STORAGE_ERRORS, lane, (double)stats->storage_errors);
    metric_set_lane(METRIC_JOURNAL_BYTES, lane, (double)stats->journal_bytes);
    metric_set_lane(METRIC_JOURNAL_SEGMENTS, lane, (double)stats->journal_segments);
    metric_set_lane(METRIC_JOURNAL_APPENDED, lane, (double)stats->journal_appended_bytes);
    metric_set_lane(METRIC_SYNCS, lane, (double)stats->syncs);
    metric_set_lane(METRIC_CHECKPOINTS, lane, (double)stats->checkpoints);
    metric_set_lane(METRIC_APPLIED_SEQUENCE, lane, (double)stats->applied_sequence);
    metric_set_lane(METRIC_DURABLE_SEQUENCE, lane, (double)stats->durable_sequence);
    metric_set_lane(METRIC_REGISTRY_IDS, lane, (double)stats->registry_ids);
    metric_set_lane(METRIC_REGISTRY_FILTER_BYTES, lane, (double)stats->registry_filter_bytes);
    metric_set_lane(METRIC_CACHE_BYTES, lane, (double)stats->cache_bytes);
    metric_set_lane(METRIC_CACHE_CELLS, lane, (double)stats->cache_cells);
    metric_set_lane(METRIC_DIRTY_CELLS, lane, (double)stats->dirty_cells);
    metric_set_lane(METRIC_DISK_FREE_BYTES, lane, (double)stats->disk_free_bytes);
    if (!stats->copied) return;
    uint64_t newest = stats->durable_sequence, copied = stats->copy_sequence;
    metric_set_lane(METRIC_STANDBY_LAG, lane, (double)stats->copy_lag_ms * 1e-3);
    metric_set_lane(METRIC_STANDBY_LAG_SEQUENCES, lane,
                    copied < newest ? (double)(newest - copied) : 0);
}

static void update_lane(const struct lane *lane)
{
    struct store_stats stats;
    struct timekeeper_state state;
    store_stats(lane->store, &stats);
    set_stats(lane->index, &stats);
    timekeeper_state(lane->keeper, &state);
    metric_set_lane(METRIC_CLOCK_SUSPECT, lane->index, state.suspect);
    metric_set_lane(METRIC_QUEUE_DEPTH, lane->index, queue_depth(lane->queue));
    metric_set_lane(METRIC_PROJECTION_LAG, lane->index, (double)commit_lag_ns(lane->commit) * 1e-9);
}

static unsigned count_present(struct ship *ship)
{
    struct ship_follower followers[SHIP_FOLLOWERS_MAX];
    unsigned present = 0;
    unsigned count = ship ? ship_followers(ship, followers) : 0;
    for (unsigned i = 0; i < count; i++)
        present += followers[i].silent_ms < SHIP_SILENT_NS / 1000000;
    return present;
}

static void update_group(const struct gauges *gauges)
{
    struct follow_state state = {0};
    if (gauges->follow) follow_state(gauges->follow, &state);
    metric_set(METRIC_ROLE_PRIMARY, gauges->follow == NULL);
    metric_set(METRIC_ROLE_FOLLOWER, gauges->follow != NULL);
    metric_set(METRIC_FOLLOWER_LAG, (double)state.lag_ms * 1e-3);
    metric_set(METRIC_FOLLOWER_BEHIND,
               state.last > state.sequence ? (double)(state.last - state.sequence) : 0);
    metric_set(METRIC_REPLICATION_FOLLOWERS, count_present(gauges->ship));
}

void gauges_update(const struct gauges *gauges)
{
    struct wire_stats wire;
    wire_stats(gauges->wire, &wire);
    for (unsigned i = 0; i < gauges->lanes->count; i++)
        update_lane(&gauges->lanes->items[i]);
    reconciler_gauges(gauges->reconciler);
    update_group(gauges);
    metric_set(METRIC_CONNECTIONS, (double)wire.connections_open);
    metric_set(METRIC_HELD_BYTES, (double)wire.bytes_held);
    metric_set(METRIC_CONNECTIONS_TOTAL, (double)wire.connections_total);
}
