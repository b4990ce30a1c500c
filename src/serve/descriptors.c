/* descriptors.c -- RLIMIT_NOFILE, divided between connections and files. */
#include "serve/descriptors.h"

#include <sys/resource.h>

#include "base/log.h"
#include "wire/loop.h"

#define KEPT_WANTED 2048 /* the journal and RocksDB want some hundreds, with many files more */
#define KEPT_LEAST 704   /* where there are few: RocksDB's 512, the journal, the archive, loops */
#define KEPT_A_LANE 192 /* each further lane: its journal and archive, and its least of RocksDB's */

/* With fewer than these the store runs out of them under load, however few connections there are
 * (tests/e2e/connections.test.mjs loads it with just so many). */
#define NEEDED_ONE 80
#define NEEDED_A_LANE 40 /* each further lane */

/* Where there are very few descriptors, the store has three of four. Connections over the limit,
 * which are told so before they are closed, take theirs from the rest as well. */
static int64_t connections_for(int64_t descriptors, int64_t lanes)
{
    int64_t most = descriptors / 4 * 3;
    int64_t kept = KEPT_LEAST + (lanes - 1) * KEPT_A_LANE;
    int64_t left = descriptors - (most < kept ? most : kept);
    int64_t fit = left;
    while (fit > 1 && fit + wire_refusals_max((unsigned)fit) > left)
        fit--;
    return fit < 1 ? 1 : fit;
}

void descriptors_fit(struct config *config)
{
    struct rlimit limit;
    int64_t lanes = config->store_lanes;
    rlim_t want = (rlim_t)(config->limits_connections + KEPT_WANTED + (lanes - 1) * KEPT_A_LANE);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= want) return;
    struct rlimit raised = {limit.rlim_max < want ? limit.rlim_max : want, limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
    int64_t needed = NEEDED_ONE + (lanes - 1) * NEEDED_A_LANE;
    if ((int64_t)limit.rlim_cur < needed)
        log_line(LOG_WARN, "too few file descriptors for the store's own files: writes may fail",
                 LOG_KV("descriptors", (unsigned long long)limit.rlim_cur),
                 LOG_KV("needed", (long long)needed), LOG_KV("lanes", (long long)lanes));
    int64_t fit = connections_for((int64_t)limit.rlim_cur, lanes);
    if (fit >= config->limits_connections) return;
    log_line(LOG_WARN, "limits.connections is lowered to what file descriptors there are for",
             LOG_KV("connections", (long long)fit),
             LOG_KV("descriptors", (unsigned long long)limit.rlim_cur));
    int64_t share = fit * 8 / 10 < 1 ? 1 : fit * 8 / 10;
    config->limits_connections = fit;
    if (config->limits_tenant_connections > share) config->limits_tenant_connections = share;
}
