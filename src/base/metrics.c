/* metrics.c -- sharded counters and histograms, summed at each scrape.
 *
 * Each thread is given one of a few shards on its first call, so that busy threads do not pass one
 * cache line around. More threads than shards share them, which is why adding is still atomic. */
#include "base/metrics.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

#define SHARD_COUNT 16
#define BUCKET_COUNT 24 /* finite ones; bucket k holds values up to unit * 2^k */

enum metric_kind {
    KIND_COUNTER,
    KIND_TOTAL,
    KIND_GAUGE,
    KIND_HIGHEST,
    KIND_LOWEST,
    KIND_SECONDS,
    KIND_SIZES,
};

struct metric_fact {
    enum metric_kind kind;
    const char *name;
    const char *labels;
    const char *help;
};

static const struct metric_fact facts[METRIC_COUNT] = {
#define METRIC(id, kind, name, labels, help) [METRIC_##id] = {KIND_##kind, name, labels, help},
#include "base/metrics.def"
#undef METRIC
};

/* What a histogram's unit is worth, and how many sum ticks make one of its values: sums are kept
 * as integers, because adding to an atomic double is a loop. */
static const struct scale {
    double unit;
    double ticks;
} scale_seconds = {1e-5, 1e9}, scale_sizes = {1, 1};

struct metric_histogram {
    _Atomic uint64_t buckets[BUCKET_COUNT + 1]; /* the last one is +Inf */
    _Atomic uint64_t sum;
};

/* The statuses tally sends; the last slot is for any other. */
static const int statuses[] = {200, 202, 204, 304, 400, 401, 403, 404, 405,
                               408, 409, 413, 421, 422, 429, 431, 500, 503};
#define STATUS_COUNT (ARRAY_COUNT(statuses) + 1)

struct route_figures {
    struct metric_histogram seconds;
    _Atomic uint64_t statuses[STATUS_COUNT];
};

struct shard {
    _Alignas(64) _Atomic uint64_t counters[METRIC_COUNT];
    struct route_figures *routes;
    _Atomic uint64_t commands[METRICS_COMMANDS_MAX];
};

/* What a lane has of the figures with that label. It has no shards, for one thread at a time adds
 * to a lane's histograms, once a batch. */
struct lane_gauges {
    _Atomic uint64_t values[METRIC_COUNT]; /* doubles, by their bits */
};
struct lane_histograms {
    struct metric_histogram of[METRIC_COUNT];
};

static struct shard shards[SHARD_COUNT];
static _Atomic uint64_t gauges[METRIC_COUNT]; /* doubles, by their bits */
static struct lane_gauges one_lane_gauges;
static struct lane_histograms one_lane_histograms;
static struct lane_gauges *lane_gauges = &one_lane_gauges;             /* one for each lane */
static struct lane_histograms *lane_histograms = &one_lane_histograms; /* and each shown one */
static unsigned lanes_count = 1;
static const char *const *route_names;
static _Atomic unsigned routes_count;
static const char *const *command_names;
static _Atomic unsigned commands_count;
static int64_t started_ns;

__attribute__((constructor)) static void metrics_start(void)
{
    started_ns = clock_mono_ns(&clock_system);
}

static struct shard *shard_mine(void)
{
    static _Atomic unsigned joined;
    static _Thread_local struct shard *mine;
    if (!mine) mine = &shards[atomic_fetch_add(&joined, 1) % SHARD_COUNT];
    return mine;
}

static void bump(_Atomic uint64_t *counter, uint64_t amount)
{
    atomic_fetch_add_explicit(counter, amount, memory_order_relaxed);
}

static uint64_t peek(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static bool is_histogram(enum metric metric)
{
    return facts[metric].kind == KIND_SECONDS || facts[metric].kind == KIND_SIZES;
}

static bool is_of_lane(enum metric metric)
{
    return strcmp(facts[metric].labels, "lane") == 0;
}

static unsigned lanes_shown(void)
{
    return lanes_count <= METRICS_LANES_MAX ? lanes_count : 1;
}

static const struct scale *scale_of(enum metric metric)
{
    return facts[metric].kind == KIND_SECONDS ? &scale_seconds : &scale_sizes;
}

static unsigned bucket_of(double value, double unit)
{
    double units = ceil(value / unit);
    if (!(units > 1)) return 0; /* NaN and negative too: a stepped clock must not end the process */
    if (units > (double)(UINT64_C(1) << (BUCKET_COUNT - 1))) return BUCKET_COUNT;
    return 64u - (unsigned)__builtin_clzll((uint64_t)units - 1);
}

static void histogram_add(struct metric_histogram *histogram, const struct scale *scale,
                          double value)
{
    bump(&histogram->buckets[bucket_of(value, scale->unit)], 1);
    if (value > 0 && value < 1e9) bump(&histogram->sum, (uint64_t)(value * scale->ticks));
}

void metric_add(enum metric metric, uint64_t amount)
{
    must(metric < METRIC_COUNT && facts[metric].kind == KIND_COUNTER);
    bump(&shard_mine()->counters[metric], amount);
}

static void gauge_set(_Atomic uint64_t *gauge, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    atomic_store_explicit(gauge, bits, memory_order_relaxed);
}

void metric_set(enum metric metric, double value)
{
    must(metric < METRIC_COUNT && !is_of_lane(metric));
    must(facts[metric].kind != KIND_COUNTER);
    gauge_set(&gauges[metric], value);
}

/* A lane beyond those that there are, in a test that told nobody, counts as the first. */
void metric_set_lane(enum metric metric, unsigned lane, double value)
{
    must(metric < METRIC_COUNT && is_of_lane(metric) && !is_histogram(metric));
    gauge_set(&lane_gauges[lane < lanes_count ? lane : 0].values[metric], value);
}

void metric_observe_lane(enum metric metric, unsigned lane, double value)
{
    must(metric < METRIC_COUNT && is_of_lane(metric) && is_histogram(metric));
    struct lane_histograms *shown = &lane_histograms[lane < lanes_shown() ? lane : 0];
    histogram_add(&shown->of[metric], scale_of(metric), value);
}

void metrics_lanes(unsigned count)
{
    must(count > 0);
    if (lane_gauges != &one_lane_gauges) free(lane_gauges);
    if (lane_histograms != &one_lane_histograms) free(lane_histograms);
    lanes_count = count;
    lane_gauges = must_calloc(count, sizeof *lane_gauges);
    lane_histograms = must_calloc(lanes_shown(), sizeof *lane_histograms);
}

static uint64_t counter_total(enum metric metric)
{
    uint64_t total = 0;
    for (unsigned i = 0; i < SHARD_COUNT; i++)
        total += peek(&shards[i].counters[metric]);
    return total;
}

static double gauge_get(const _Atomic uint64_t *gauge)
{
    uint64_t bits = peek(gauge);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* What stands for all lanes. */
static double gauge_of_lanes(enum metric metric)
{
    double all = gauge_get(&lane_gauges[0].values[metric]);
    for (unsigned lane = 1; lane < lanes_count; lane++) {
        double value = gauge_get(&lane_gauges[lane].values[metric]);
        if (facts[metric].kind == KIND_HIGHEST)
            all = fmax(all, value);
        else if (facts[metric].kind == KIND_LOWEST)
            all = fmin(all, value);
        else
            all += value;
    }
    return all;
}

/* A plain copy of a histogram, perhaps of several added up. `count` comes from the buckets, so that
 * it always equals +Inf, also while others add. */
struct histogram_sum {
    uint64_t buckets[BUCKET_COUNT + 1];
    uint64_t count;
    uint64_t ticks;
};

static void histogram_gather(struct histogram_sum *sum, const struct metric_histogram *histogram)
{
    for (unsigned i = 0; i <= BUCKET_COUNT; i++) {
        uint64_t bucket = peek(&histogram->buckets[i]);
        sum->buckets[i] += bucket;
        sum->count += bucket;
    }
    sum->ticks += peek(&histogram->sum);
}

static struct histogram_sum histogram_of_lanes(enum metric metric)
{
    struct histogram_sum sum = {0};
    for (unsigned lane = 0; lane < lanes_shown(); lane++)
        histogram_gather(&sum, &lane_histograms[lane].of[metric]);
    return sum;
}

double metric_value(enum metric metric)
{
    must(metric < METRIC_COUNT);
    if (is_histogram(metric)) return (double)histogram_of_lanes(metric).count;
    if (facts[metric].kind == KIND_COUNTER) return (double)counter_total(metric);
    return is_of_lane(metric) ? gauge_of_lanes(metric) : gauge_get(&gauges[metric]);
}

void metric_buckets(enum metric metric, uint64_t counts_out[METRIC_BUCKETS])
{
    _Static_assert(METRIC_BUCKETS == BUCKET_COUNT + 1, "the finite ones and +Inf");
    must(metric < METRIC_COUNT && is_histogram(metric));
    struct histogram_sum sum = histogram_of_lanes(metric);
    memcpy(counts_out, sum.buckets, sizeof sum.buckets);
}

unsigned metric_bucket(double seconds)
{
    return bucket_of(seconds, scale_seconds.unit);
}

void metrics_routes(const char *const *names, unsigned count)
{
    must(count > 0 && count <= METRICS_ROUTES_MAX);
    unsigned known = atomic_load(&routes_count);
    must(known == 0 || (known == count && route_names == names));
    if (known) return; /* a server that begins again in the same process counts on */
    for (unsigned i = 0; i < SHARD_COUNT; i++)
        shards[i].routes = must_calloc(count, sizeof(struct route_figures));
    route_names = names;
    atomic_store(&routes_count, count);
}

static unsigned status_slot(int status)
{
    unsigned slot = 0;
    while (slot < ARRAY_COUNT(statuses) && statuses[slot] != status)
        slot++;
    return slot;
}

void metrics_commands(const char *const *names, unsigned count)
{
    must(count <= METRICS_COMMANDS_MAX);
    command_names = names;
    atomic_store_explicit(&commands_count, count, memory_order_release);
}

void metrics_command(unsigned command, uint64_t count)
{
    must(command < METRICS_COMMANDS_MAX);
    bump(&shard_mine()->commands[command], count);
}

void metrics_http(unsigned route, int status, double seconds)
{
    must(route < atomic_load_explicit(&routes_count, memory_order_acquire));
    struct route_figures *mine = &shard_mine()->routes[route];
    bump(&mine->statuses[status_slot(status)], 1);
    histogram_add(&mine->seconds, &scale_seconds, seconds);
}

static void write_head(struct buf *buf, const char *name, const char *type, const char *help)
{
    buf_addf(buf, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Whole numbers in full up to where doubles are exact, others with all their digits. */
static void write_number(struct buf *buf, double value)
{
    if (fabs(value) < 9007199254740992.0 && value == floor(value))
        buf_add_i64(buf, (int64_t)value);
    else if (isfinite(value))
        buf_addf(buf, "%.17g", value);
    else
        buf_add(buf, isnan(value) ? BYTES("NaN") : value > 0 ? BYTES("+Inf") : BYTES("-Inf"));
}

/* `label` is `route="x",` with its comma, or empty. */
static void write_histogram(struct buf *buf, const char *name, const char *label,
                            const struct scale *scale, const struct histogram_sum *sum)
{
    uint64_t below = 0;
    for (unsigned i = 0; i < BUCKET_COUNT; i++) {
        below += sum->buckets[i];
        buf_addf(buf, "%s_bucket{%sle=\"%.9g\"} %lu\n", name, label,
                 scale->unit * (double)(UINT64_C(1) << i), below);
    }
    buf_addf(buf, "%s_bucket{%sle=\"+Inf\"} %lu\n", name, label, sum->count);
    int label_size = (int)strlen(label);
    const char *open = label_size ? "{" : "", *close = label_size ? "}" : "";
    if (label_size) label_size--; /* its comma */
    buf_addf(buf, "%s_sum%s%.*s%s %.9g\n", name, open, label_size, label, close,
             (double)sum->ticks / scale->ticks);
    buf_addf(buf, "%s_count%s%.*s%s %lu\n", name, open, label_size, label, close, sum->count);
}

static const char *type_of(enum metric_kind kind)
{
    switch (kind) {
    case KIND_COUNTER:
    case KIND_TOTAL:
        return "counter";
    case KIND_GAUGE:
    case KIND_HIGHEST:
    case KIND_LOWEST:
        return "gauge";
    case KIND_SECONDS:
    case KIND_SIZES:
        return "histogram";
    }
    unreachable_state(kind);
}

static void write_lane(struct buf *buf, enum metric metric, unsigned lane)
{
    const struct metric_fact *fact = &facts[metric];
    if (is_histogram(metric)) {
        char label[32];
        struct histogram_sum sum = {0};
        snprintf(label, sizeof label, "lane=\"%u\",", lane);
        histogram_gather(&sum, &lane_histograms[lane].of[metric]);
        write_histogram(buf, fact->name, label, scale_of(metric), &sum);
        return;
    }
    buf_addf(buf, "%s{lane=\"%u\"} ", fact->name, lane);
    write_number(buf, gauge_get(&lane_gauges[lane].values[metric]));
    buf_add_char(buf, '\n');
}

static void write_all_lanes(struct buf *buf, enum metric metric)
{
    const struct metric_fact *fact = &facts[metric];
    if (is_histogram(metric)) {
        struct histogram_sum sum = histogram_of_lanes(metric);
        write_histogram(buf, fact->name, "", scale_of(metric), &sum);
        return;
    }
    buf_addf(buf, "%s ", fact->name);
    write_number(buf, gauge_of_lanes(metric));
    buf_add_char(buf, '\n');
}

static void write_of_lanes(struct buf *buf, enum metric metric)
{
    if (lanes_shown() == 1) write_all_lanes(buf, metric);
    for (unsigned lane = 0; lane < lanes_shown() && lanes_shown() > 1; lane++)
        write_lane(buf, metric, lane);
}

static void write_metric(struct buf *buf, enum metric metric)
{
    const struct metric_fact *fact = &facts[metric];
    bool goes_on = metric > 0 && strcmp(facts[metric - 1].name, fact->name) == 0;
    if (!goes_on) write_head(buf, fact->name, type_of(fact->kind), fact->help);
    if (is_of_lane(metric)) {
        write_of_lanes(buf, metric);
        return;
    }
    buf_add(buf, bytes_str(fact->name));
    if (fact->labels[0]) buf_addf(buf, "{%s}", fact->labels);
    buf_add_char(buf, ' ');
    if (fact->kind == KIND_COUNTER)
        buf_add_u64(buf, counter_total(metric));
    else
        write_number(buf, gauge_get(&gauges[metric]));
    buf_add_char(buf, '\n');
}

static void write_route_statuses(struct buf *buf, unsigned route)
{
    for (unsigned slot = 0; slot < STATUS_COUNT; slot++) {
        uint64_t total = 0;
        for (unsigned i = 0; i < SHARD_COUNT; i++)
            total += peek(&shards[i].routes[route].statuses[slot]);
        if (total == 0) continue;
        char status[16] = "other";
        if (slot < ARRAY_COUNT(statuses)) snprintf(status, sizeof status, "%d", statuses[slot]);
        buf_addf(buf, "tally_http_requests_total{route=\"%s\",status=\"%s\"} %lu\n",
                 route_names[route], status, total);
    }
}

static void write_route_seconds(struct buf *buf, unsigned route)
{
    struct histogram_sum sum = {0};
    for (unsigned i = 0; i < SHARD_COUNT; i++)
        histogram_gather(&sum, &shards[i].routes[route].seconds);
    if (sum.count == 0) return;
    char label[128];
    snprintf(label, sizeof label, "route=\"%s\",", route_names[route]);
    write_histogram(buf, "tally_http_seconds", label, &scale_seconds, &sum);
}

static void write_routes(struct buf *buf)
{
    unsigned count = atomic_load_explicit(&routes_count, memory_order_acquire);
    write_head(buf, "tally_http_requests_total", "counter", "Requests answered.");
    for (unsigned route = 0; route < count; route++)
        write_route_statuses(buf, route);
    write_head(buf, "tally_http_seconds", "histogram",
               "From a request's first byte until its reply is ready.");
    for (unsigned route = 0; route < count; route++)
        write_route_seconds(buf, route);
}

static void write_commands(struct buf *buf)
{
    unsigned count = atomic_load_explicit(&commands_count, memory_order_acquire);
    write_head(buf, "tally_resp_commands_total", "counter",
               "Commands of Redis's protocol that were read.");
    for (unsigned command = 0; command < count; command++) {
        uint64_t total = 0;
        for (unsigned i = 0; i < SHARD_COUNT; i++)
            total += peek(&shards[i].commands[command]);
        if (total == 0) continue;
        buf_addf(buf, "tally_resp_commands_total{command=\"%s\"} %lu\n", command_names[command],
                 total);
    }
}

static void sample_memory(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file) return;
    unsigned long pages_virtual, pages_resident;
    if (fscanf(file, "%lu %lu", &pages_virtual, &pages_resident) == 2) {
        double page = (double)sysconf(_SC_PAGESIZE);
        metric_set(METRIC_PROCESS_VIRTUAL, (double)pages_virtual * page);
        metric_set(METRIC_PROCESS_MEMORY, (double)pages_resident * page);
    }
    fclose(file);
}

static double timeval_seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void sample_process(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    metric_set(METRIC_PROCESS_CPU,
               timeval_seconds(usage.ru_utime) + timeval_seconds(usage.ru_stime));
    metric_set(METRIC_UPTIME_SECONDS, (double)(clock_mono_ns(&clock_system) - started_ns) / 1e9);
    sample_memory();
}

void metrics_write(struct buf *buf)
{
    sample_process();
    for (enum metric metric = 0; metric < METRIC_COUNT; metric++)
        write_metric(buf, metric);
    write_routes(buf);
    write_commands(buf);
}
