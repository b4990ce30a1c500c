/* gauges.c -- see the header. */
#include "serve/gauges.h"

#include "base/metrics.h"
#include "commit/commit.h"
#include "commit/timekeeper.h"
#include "reconcile/reconciler.h"
#include "wire/loop.h"

static void update_store(struct store *store)
{
    struct store_stats stats;
    store_stats(store, &stats);
    metric_set(METRIC_STORAGE_ERRORS, (double)stats.storage_errors);
    metric_set(METRIC_JOURNAL_BYTES, (double)stats.journal_bytes);
    metric_set(METRIC_JOURNAL_SEGMENTS, (double)stats.journal_segments);
    metric_set(METRIC_JOURNAL_APPENDED, (double)stats.journal_appended_bytes);
    metric_set(METRIC_SYNCS, (double)stats.syncs);
    metric_set(METRIC_CHECKPOINTS, (double)stats.checkpoints);
    metric_set(METRIC_APPLIED_SEQUENCE, (double)stats.applied_sequence);
    metric_set(METRIC_DURABLE_SEQUENCE, (double)stats.durable_sequence);
    metric_set(METRIC_REGISTRY_IDS, (double)stats.registry_ids);
    metric_set(METRIC_REGISTRY_FILTER_BYTES, (double)stats.registry_filter_bytes);
    metric_set(METRIC_CACHE_BYTES, (double)stats.cache_bytes);
    metric_set(METRIC_CACHE_CELLS, (double)stats.cache_cells);
    metric_set(METRIC_DIRTY_CELLS, (double)stats.dirty_cells);
    metric_set(METRIC_DISK_FREE_BYTES, (double)stats.disk_free_bytes);
}

static void update_clock(struct timekeeper *keeper)
{
    struct timekeeper_state state;
    timekeeper_state(keeper, &state);
    metric_set(METRIC_CLOCK_SUSPECT, state.suspect);
}

void gauges_update(const struct gauges *gauges)
{
    struct wire_stats wire;
    wire_stats(gauges->wire, &wire);
    update_store(gauges->store);
    update_clock(gauges->keeper);
    metric_set(METRIC_QUEUE_DEPTH, (double)queue_depth(gauges->queue));
    metric_set(METRIC_PROJECTION_LAG, (double)commit_lag_ns(gauges->commit) * 1e-9);
    reconciler_gauges(gauges->reconciler);
    metric_set(METRIC_CONNECTIONS, (double)wire.connections_open);
    metric_set(METRIC_HELD_BYTES, (double)wire.bytes_held);
    metric_set(METRIC_CONNECTIONS_TOTAL, (double)wire.connections_total);
}
