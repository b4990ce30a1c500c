/* load.h -- a load generator: many connections, one thread, honest latencies.
 *
 * Closed loop: each connection has `depth` requests under way and sends the next when one is
 * answered. Open loop (`rate`): requests are due at fixed times whether or not earlier ones were
 * answered, and their latency counts from when they were due, so a server that stalls is charged
 * for every request that would have come meanwhile (no coordinated omission). */
#ifndef TALLY_CLI_LOAD_H
#define TALLY_CLI_LOAD_H

#include "base/bytes.h"
#include "cli/histogram.h"

struct load_config {
    const char *host; /* numeric, or a name that resolves */
    const char *port;
    unsigned connections;
    unsigned depth; /* requests under way on one connection, at most */
    double rate;    /* requests a second, all together; 0: closed loop */
    double seconds;
    unsigned each; /* operations in one request, for the report */
    /* Adds one whole HTTP request. */
    void (*request)(void *context, struct buf *out);
    /* Looks at a reply's body; false: the request failed. NULL: any 200 will do. */
    bool (*check)(void *context, struct bytes body);
    void *context;
};

struct load_report {
    double seconds;
    uint64_t requests; /* answered */
    uint64_t failed;   /* those that were not 200, or not what was asked for */
    uint64_t late;     /* open loop: due, and not even sent when the time was over */
    struct histogram latency_ns;
    char first_failure[256]; /* the beginning of the first reply that failed */
};

/* False: a connection could not be made or broke; `error_out` says why. */
bool load_run(const struct load_config *config, struct load_report *report_out, char *error_out,
              size_t error_size);

#endif
