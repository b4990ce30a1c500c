/* figures.c -- reads the few figures of /metrics that `tally top` shows. */
#include "cli/figures.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define FIGURE_AS(how, name, labels, member)                              \
    {                                                                     \
        how, BYTES(name), BYTES(labels), offsetof(struct figures, member) \
    }
#define FIGURE(name, labels, member) FIGURE_AS(ADDED, name, labels, member)

/* How the series of several lanes come together. */
enum joined { ADDED, HIGHEST, LOWEST };

/* A figure that is listed with labels counts only with them. */
static const struct {
    enum joined how;
    struct bytes name;
    struct bytes labels; /* a part of them; "": any */
    size_t member;
} table[] = {
    FIGURE("counter_update_success_total", "", changes),
    FIGURE("tally_events_total", "result=\"applied\"", events),
    FIGURE("duplicate_event_dropped_total", "", duplicates),
    FIGURE("tally_events_total", "result=\"rejected\"", rejected),
    FIGURE("tally_queue_refused_total", "", refused_queue),
    FIGURE("tally_constraint_refused_total", "", refused_constraint),
    FIGURE("tally_auth_refused_total", "", unauthorized),
    FIGURE("tally_keys_replayed_total", "", replayed),
    FIGURE("tally_http_requests_total", "", requests),
    FIGURE("tally_connections", "", connections),
    FIGURE("tally_queue_depth", "", queue),
    FIGURE_AS(HIGHEST, "projection_lag_seconds", "", lag_s),
    FIGURE("tally_journal_bytes", "", journal_bytes),
    FIGURE("tally_registry_ids", "", ids),
    FIGURE("process_resident_memory_bytes", "", memory_bytes),
    FIGURE_AS(LOWEST, "tally_disk_free_bytes", "", disk_free_bytes),
    FIGURE("tally_uptime_seconds", "", uptime_s),
    FIGURE("tally_storage_errors_total", "", storage_errors),
};

static bool contains(struct bytes text, struct bytes part)
{
    return part.size == 0 || memmem(text.data, text.size, part.data, part.size);
}

static double number_of(struct bytes text)
{
    char digits[64];
    snprintf(digits, sizeof digits, "%.*s", (int)text.size, text.data);
    return strtod(digits, NULL);
}

/* The number in le="0.00016" of the labels. */
static double upper_end(struct bytes labels)
{
    static const struct bytes le = BYTES("le=\"");
    const char *at = memmem(labels.data, labels.size, le.data, le.size);
    if (!at) return 0;
    size_t left = (size_t)(labels.data + labels.size - at) - le.size;
    return number_of(bytes_of(at + le.size, left));
}

/* Lanes have the same buckets, one after the other. */
static void take_bucket(struct figures_histogram *histogram, double above, double count)
{
    unsigned i = 0;
    while (i < histogram->count && histogram->above[i] != above)
        i++;
    if (i == FIGURES_BUCKETS_MAX) return;
    if (i == histogram->count) histogram->counts[histogram->count++] = 0;
    histogram->above[i] = above;
    histogram->counts[i] += count;
}

static void take_histogram(struct figures_histogram *histogram, struct bytes suffix,
                           struct bytes labels, double value)
{
    if (bytes_equal(suffix, BYTES("_sum"))) histogram->sum += value;
    if (bytes_equal(suffix, BYTES("_count"))) histogram->total += value;
    if (bytes_equal(suffix, BYTES("_bucket"))) take_bucket(histogram, upper_end(labels), value);
}

static void join(double *figure, enum joined how, bool first, double value)
{
    if (first || (how == HIGHEST && value > *figure) || (how == LOWEST && value < *figure))
        *figure = value;
    else if (how == ADDED)
        *figure += value;
}

/* `seen` has a bit for each row of the table that came already. */
static void take(struct figures *figures, uint64_t *seen, struct bytes name, struct bytes labels,
                 double value)
{
    _Static_assert(ARRAY_COUNT(table) <= 64, "a bit each");
    static const struct bytes commit = BYTES("tally_commit_seconds"),
                              batch = BYTES("tally_batch_size");
    if (bytes_starts(name, commit))
        take_histogram(&figures->commit_s,
                       bytes_of(name.data + commit.size, name.size - commit.size), labels, value);
    if (bytes_starts(name, batch))
        take_histogram(&figures->batch, bytes_of(name.data + batch.size, name.size - batch.size),
                       labels, value);
    for (unsigned i = 0; i < ARRAY_COUNT(table); i++) {
        if (!bytes_equal(name, table[i].name) || !contains(labels, table[i].labels)) continue;
        double *figure = (double *)(void *)((char *)figures + table[i].member);
        join(figure, table[i].how, !(*seen >> i & 1), value);
        *seen |= UINT64_C(1) << i;
    }
}

bool figures_read(struct figures *figures, struct bytes text)
{
    double at_s = figures->at_s;
    bool any = false;
    uint64_t seen = 0;
    *figures = (struct figures){.at_s = at_s};
    while (text.size) {
        struct bytes line = bytes_split(&text, '\n');
        if (line.size == 0 || line.data[0] == '#') continue;
        const char *space = memrchr(line.data, ' ', line.size);
        if (!space) return false;
        struct bytes labels = bytes_of(line.data, (size_t)(space - line.data));
        struct bytes value = bytes_of(space + 1, line.size - labels.size - 1);
        struct bytes name = bytes_split(&labels, '{');
        take(figures, &seen, name, labels.data ? labels : BYTES(""), number_of(value));
        any = true;
    }
    return any;
}

double figures_rate(double now, double before, double seconds)
{
    return now >= before && seconds > 0 ? (now - before) / seconds : 0;
}

double figures_quantile(const struct figures_histogram *now, const struct figures_histogram *before,
                        double share)
{
    bool same = now->count == before->count && now->total >= before->total;
    double total = now->total - (same ? before->total : 0);
    if (total <= 0) return -1;
    for (unsigned i = 0; i < now->count; i++)
        if (now->counts[i] - (same ? before->counts[i] : 0) >= share * total) return now->above[i];
    return now->count ? now->above[now->count - 1] : -1;
}
