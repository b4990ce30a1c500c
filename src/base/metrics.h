/* metrics.h -- the figures of /metrics.
 *
 * Facts are in base/metrics.def. Adding is one relaxed atomic on a cache line that only a few
 * threads share; summing happens at the scrape. Any thread may call anything. Values start at zero
 * with the process and are not persistent, as Prometheus expects.
 *
 *     metrics_lanes(count);                          once, before the first commit
 *     metrics_routes(names, count);                  once, before the first request
 *     metrics_commands(names, count);                the same
 *     metric_add(METRIC_QUEUE_REFUSED, 1);           hot path
 *     metric_set(METRIC_CONNECTIONS, count);         right before a scrape, or when it changes
 *     metric_set_lane(METRIC_QUEUE_DEPTH, 3, depth); the same of lane 3
 *     metrics_write(&reply.body);                    GET /metrics */
#ifndef TALLY_BASE_METRICS_H
#define TALLY_BASE_METRICS_H

#include "base/bytes.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_ROUTES_MAX 128
#define METRICS_COMMANDS_MAX 96
#define METRICS_LANES_MAX 16 /* more lanes than that are shown as one */

enum metric {
#define METRIC(id, kind, name, labels, help) METRIC_##id,
#include "base/metrics.def"
#undef METRIC
    METRIC_COUNT
};

void metric_add(enum metric metric, uint64_t amount); /* COUNTER */
void metric_set(enum metric metric, double value);    /* every other kind but the histograms */
double metric_value(enum metric metric);              /* a histogram's is its count */

/* Figures with the label "lane"; the others have no lane. All histograms are a lane's. */
void metric_set_lane(enum metric metric, unsigned lane, double value);
void metric_observe_lane(enum metric metric, unsigned lane, double value);

/* How many lanes there are, whose figures begin with nothing; until then there is one. Called
 * before other threads are started. */
void metrics_lanes(unsigned count);

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

/* Names the commands of tally_resp_commands_total, as metrics_routes does; at most
 * METRICS_COMMANDS_MAX. */
void metrics_commands(const char *const *names, unsigned count);

/* So many commands of one kind were read. */
void metrics_command(unsigned command, uint64_t count);

/* Writes everything in Prometheus text format. Routes that were never asked for are left out. */
void metrics_write(struct buf *buf);

#endif
