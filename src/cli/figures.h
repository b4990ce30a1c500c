/* figures.h -- two looks at /metrics, and what happened between them. */
#ifndef TALLY_CLI_FIGURES_H
#define TALLY_CLI_FIGURES_H

#include "base/bytes.h"

#define FIGURES_BUCKETS_MAX 64

/* A histogram's cumulative counts; `above` are the upper ends. */
struct figures_histogram {
    unsigned count;
    double above[FIGURES_BUCKETS_MAX];
    double counts[FIGURES_BUCKETS_MAX];
    double sum;
    double total;
};

/* One look. Names are those of metrics.def without "tally_" and "_total". */
struct figures {
    double at_s; /* monotonic */
    double changes, events, duplicates, rejected, refused_queue, refused_constraint, unauthorized,
        replayed;
    double requests, connections;
    double queue, lag_s;
    struct figures_histogram commit_s;
    struct figures_histogram batch;
    double journal_bytes, ids, memory_bytes, disk_free_bytes, uptime_s, storage_errors;
};

/* Reads the Prometheus text of /metrics. False: it is none. */
bool figures_read(struct figures *figures, struct bytes text);

/* Growth per second; 0 if the server was started anew in between. */
double figures_rate(double now, double before, double seconds);

/* The value below which `share` of what came between two looks lies; below 0: nothing came. */
double figures_quantile(const struct figures_histogram *now, const struct figures_histogram *before,
                        double share);

#endif
