/* metrics.h -- the figures of /metrics.
 *
 * Facts are in base/metrics.def. Adding is one relaxed atomic on a cache line that only a few
 * threads share; summing happens at the scrape. Any thread may call anything. Values start at zero
 * with the process and are not persistent, as Prometheus expects.
 *
 *     metrics_routes(names, count);                  once, before the first request
 *     metric_add(METRIC_QUEUE_REFUSED, 1);           hot path
 *     metric_set(METRIC_QUEUE_DEPTH, depth);         right before a scrape, or when it changes
 *     metrics_write(&reply.body);                    GET /metrics */
#ifndef TALLY_BASE_METRICS_H
#define TALLY_BASE_METRICS_H

#include "base/bytes.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_ROUTES_MAX 128

enum metric {
#define METRIC(id, kind, name, labels, help) METRIC_##id,
#include "base/metrics.def"
#undef METRIC
    METRIC_COUNT
};

void metric_add(enum metric metric, uint64_t amount);  /* COUNTER */
void metric_set(enum metric metric, double value);     /* GAUGE or TOTAL */
void metric_observe(enum metric metric, double value); /* SECONDS or SIZES */
double metric_value(enum metric metric);               /* a histogram's is its count */

/* A histogram's counts, bucket by bucket: up to unit * 2^k, the last one beyond. The unit is 10 us
 * of SECONDS and 1 of SIZES. */
#define METRIC_BUCKETS 25
void metric_buckets(enum metric metric, uint64_t counts_out[METRIC_BUCKETS]);
/* Which of these buckets a duration belongs to. */
unsigned metric_bucket(double seconds);

/* Names the routes of tally_http_requests_total and tally_http_seconds: their index is the `route`
 * below. Called once; the names stay the caller's and must live on. At most METRICS_ROUTES_MAX. */
void metrics_routes(const char *const *names, unsigned count);

/* One answered request. Statuses outside the ones tally sends count as "other". */
void metrics_http(unsigned route, int status, double seconds);

/* Writes everything in Prometheus text format. Routes that were never asked for are left out. */
void metrics_write(struct buf *buf);

#endif
