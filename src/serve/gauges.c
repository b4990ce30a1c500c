/* gauges.c -- see the header. */
#include "serve/gauges.h"

#include "base/metrics.h"
#include "commit/lanes.h"
#include "reconcile/reconciler.h"
#include "wire/loop.h"

/* Adds up the stores of all lanes; their disk is one. */
static void add_stats(struct store_stats *sum, const struct store_stats *stats)
{
    sum->storage_errors += stats->storage_errors;
    sum->journal_bytes += stats->journal_bytes;
    sum->journal_segments += stats->journal_segments;
    sum->journal_appended_bytes += stats->journal_appended_bytes;
    sum->syncs += stats->syncs;
    sum->checkpoints += stats->checkpoints;
    sum->applied_sequence += stats->applied_sequence;
    sum->durable_sequence += stats->durable_sequence;
    sum->registry_ids += stats->registry_ids;
    sum->registry_filter_bytes += stats->registry_filter_bytes;
    sum->cache_bytes += stats->cache_bytes;
    sum->cache_cells += stats->cache_cells;
    sum->dirty_cells += stats->dirty_cells;
    sum->disk_free_bytes = stats->disk_free_bytes;
}

static void set_stats(const struct store_stats *stats)
{
    metric_set(METRIC_STORAGE_ERRORS, (double)stats->storage_errors);
    metric_set(METRIC_JOURNAL_BYTES, (double)stats->journal_bytes);
    metric_set(METRIC_JOURNAL_SEGMENTS, (double)stats->journal_segments);
    metric_set(METRIC_JOURNAL_APPENDED, (double)stats->journal_appended_bytes);
    metric_set(METRIC_SYNCS, (double)stats->syncs);
    metric_set(METRIC_CHECKPOINTS, (double)stats->checkpoints);
    metric_set(METRIC_APPLIED_SEQUENCE, (double)stats->applied_sequence);
    metric_set(METRIC_DURABLE_SEQUENCE, (double)stats->durable_sequence);
    metric_set(METRIC_REGISTRY_IDS, (double)stats->registry_ids);
    metric_set(METRIC_REGISTRY_FILTER_BYTES, (double)stats->registry_filter_bytes);
    metric_set(METRIC_CACHE_BYTES, (double)stats->cache_bytes);
    metric_set(METRIC_CACHE_CELLS, (double)stats->cache_cells);
    metric_set(METRIC_DIRTY_CELLS, (double)stats->dirty_cells);
    metric_set(METRIC_DISK_FREE_BYTES, (double)stats->disk_free_bytes);
}

static void update_lanes(const struct lanes *lanes)
{
    struct store_stats sum = {0};
    bool suspect = false;
    uint64_t depth = 0;
    int64_t lag_ns = 0;
    for (unsigned i = 0; i < lanes->count; i++) {
        const struct lane *lane = &lanes->items[i];
        struct store_stats stats;
        struct timekeeper_state state;
        store_stats(lane->store, &stats);
        add_stats(&sum, &stats);
        timekeeper_state(lane->keeper, &state);
        suspect |= state.suspect;
        depth += queue_depth(lane->queue);
        int64_t lane_lag_ns = commit_lag_ns(lane->commit);
        if (lane_lag_ns > lag_ns) lag_ns = lane_lag_ns;
    }
    set_stats(&sum);
    metric_set(METRIC_CLOCK_SUSPECT, suspect);
    metric_set(METRIC_QUEUE_DEPTH, (double)depth);
    metric_set(METRIC_PROJECTION_LAG, (double)lag_ns * 1e-9);
}

void gauges_update(const struct gauges *gauges)
{
    struct wire_stats wire;
    wire_stats(gauges->wire, &wire);
    update_lanes(gauges->lanes);
    reconciler_gauges(gauges->reconciler);
    metric_set(METRIC_CONNECTIONS, (double)wire.connections_open);
    metric_set(METRIC_HELD_BYTES, (double)wire.bytes_held);
    metric_set(METRIC_CONNECTIONS_TOTAL, (double)wire.connections_total);
}
