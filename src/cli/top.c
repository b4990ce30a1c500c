/* top.c -- `tally top`: what a server is doing, on one page. */
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "cli/busiest.h"
#include "cli/figures.h"
#include "cli/progress.h"
#include "cli/screen.h"

#define PAGE_SIZE_MAX (64u << 10)
#define ONCE_ROWS 24u
#define CALL_MS 3000

static const char help[] =
    "usage: tally top [--interval DURATION] [--once] [--json]\n"
    "\n"
    "Shows a server at work: rates, queue, commit latency, and the tenant's busiest counters, new\n"
    "every second. q quits. Needs no colours; without a terminal, or with --once, it prints one\n"
    "page and ends. Without a token it shows only what /metrics says.\n"
    "\n"
    "  --interval DURATION  how often to look (100ms to 1m, default 1s)\n"
    "  --once               look twice, print one page, end\n" CLIENT_HELP;

struct top_flags {
    struct client_flags client;
    const char *interval;
    bool once;
};

struct top_view {
    struct client client;
    struct figures now;
    struct figures before;
    struct busiest *busiest;
    unsigned looks; /* at /metrics that succeeded one after the other */
    bool watching;  /* the tenant's counters can be read */
    char problem[TALLY_SENTENCE_SIZE + 32];
};

/* -- Looking ----------------------------------------------------------------------------------- */

static double now_s(void)
{
    return (double)clock_mono_ns(&clock_system) / 1e9;
}

static void look(struct top_view *top)
{
    struct client *client = &top->client;
    client_path(client, "metrics");
    struct figures fresh = {.at_s = now_s()};
    bool good = client_try(client, &(struct tally_request){0}) == TALLY_OK;
    if (good) good = figures_read(&fresh, bytes_of(client->reply.body, client->reply.body_size));
    /* a key was pressed; the next look is soon */
    if (!good && strcmp(client->error.code, "stopped") == 0) return;
    if (!good) {
        snprintf(top->problem, sizeof top->problem, "%s",
                 client->reply.status == 200 ? "This is not tally's /metrics."
                                             : client->error.sentence);
        top->looks = 0;
        return;
    }
    top->problem[0] = '\0';
    top->before = top->now;
    top->now = fresh;
    top->looks++;
    if (!client->flags->token || !client->tenant[0]) return;
    bool read = busiest_read(top->busiest, client);
    if (!read && strcmp(client->error.code, "stopped") == 0) return;
    top->watching = read;
    if (!read) snprintf(top->problem, sizeof top->problem, "counters: %s", client->error.sentence);
}

/* -- The page ---------------------------------------------------------------------------------- */

struct rates {
    double changes, events, requests, duplicates, rejected, replayed, queue_full, constraint,
        unauthorized;
    double commit_p50_s, commit_p99_s, batch_mean;
};

static struct rates rates_of(const struct top_view *top)
{
    const struct figures *now = &top->now, *before = &top->before;
    double seconds = top->looks > 1 ? now->at_s - before->at_s : 0;
    double batches = now->batch.total - before->batch.total;
    double ops = now->batch.sum - before->batch.sum;
    return (struct rates){
        .changes = figures_rate(now->changes, before->changes, seconds),
        .events = figures_rate(now->events, before->events, seconds),
        .requests = figures_rate(now->requests, before->requests, seconds),
        .duplicates = figures_rate(now->duplicates, before->duplicates, seconds),
        .rejected = figures_rate(now->rejected, before->rejected, seconds),
        .replayed = figures_rate(now->replayed, before->replayed, seconds),
        .queue_full = figures_rate(now->refused_queue, before->refused_queue, seconds),
        .constraint = figures_rate(now->refused_constraint, before->refused_constraint, seconds),
        .unauthorized = figures_rate(now->unauthorized, before->unauthorized, seconds),
        .commit_p50_s = figures_quantile(&now->commit_s, &before->commit_s, 0.5),
        .commit_p99_s = figures_quantile(&now->commit_s, &before->commit_s, 0.99),
        .batch_mean = batches > 0 ? ops / batches : 0,
    };
}

static void add_count(struct buf *page, double value, const char *after)
{
    char text[PROGRESS_COUNT_SIZE];
    buf_addf(page, "%12s%s", progress_count(value > 0 ? (uint64_t)(value + 0.5) : 0, text), after);
}

static void add_size(struct buf *page, double bytes, const char *after)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    unsigned unit = 0;
    for (; bytes >= 1024 && unit + 1 < ARRAY_COUNT(units); unit++)
        bytes /= 1024;
    buf_addf(page, "%8.1f %-3s%s", bytes, units[unit], after);
}

static void add_ms(struct buf *page, const char *name, double seconds)
{
    if (seconds < 0)
        buf_addf(page, "%s      -     ", name);
    else
        buf_addf(page, "%s <%7.2f ms ", name, seconds * 1000);
}

static void add_head(const struct top_view *top, struct buf *page)
{
    char up[PROGRESS_TIME_SIZE];
    buf_addf(page, "tally top  %s", tally_address(top->client.tally));
    if (top->client.tenant[0]) buf_addf(page, "  tenant %s", top->client.tenant);
    if (top->looks) buf_addf(page, "  up %s", progress_time(top->now.uptime_s, up));
    buf_addf(page, "  (q quits)\n%s\n", top->problem);
}

static void add_figures(const struct top_view *top, struct buf *page)
{
    const struct figures *now = &top->now;
    struct rates rates = rates_of(top);
    buf_add(page, BYTES("changes   "));
    add_count(page, rates.changes, "/s   events     ");
    add_count(page, rates.events, "/s   requests ");
    add_count(page, rates.requests, "/s\nduplicates");
    add_count(page, rates.duplicates, "/s   rejected   ");
    add_count(page, rates.rejected, "/s   replayed ");
    add_count(page, rates.replayed, "/s\n429       ");
    add_count(page, rates.queue_full, "/s   409        ");
    add_count(page, rates.constraint, "/s   401      ");
    add_count(page, rates.unauthorized, "/s\nqueue     ");
    add_count(page, now->queue, "     connections");
    add_count(page, now->connections, "     ");
    buf_addf(page, "lag %.3f s\ncommit    ", now->lag_s);
    add_ms(page, "p50", rates.commit_p50_s);
    add_ms(page, " p99", rates.commit_p99_s);
    buf_addf(page, "  operations in one %.1f\njournal   ", rates.batch_mean);
    add_size(page, now->journal_bytes, "     memory ");
    add_size(page, now->memory_bytes, "     disk free ");
    add_size(page, now->disk_free_bytes, "\nids       ");
    add_count(page, now->ids, "     storage errors");
    add_count(page, now->storage_errors, "\n");
}

static void add_duration(struct buf *page, int64_t seconds)
{
    char text[DURATION_TEXT_SIZE] = "ever";
    if (seconds > 0) duration_format(seconds * 1000, text);
    buf_addf(page, "%8s", text);
}

static void add_counters(const struct top_view *top, struct buf *page, unsigned rows,
                         unsigned columns)
{
    unsigned width = columns > 60 ? columns - 48 : 16;
    if (!top->watching) return;
    buf_addf(page, "\n%-*s%8s%18s%16s\n", (int)width, "COUNTER", "BUCKET", "NOW", "CHANGES/S");
    for (unsigned i = 0; i < top->busiest->count && i < rows; i++) {
        const struct busiest_row *row = &top->busiest->rows[i];
        buf_addf(page, "%-*.*s", (int)width, (int)width - 1, row->name);
        add_duration(page, row->duration_s);
        if (row->unreadable)
            buf_addf(page, "%18s%16.1f\n", "by dimensions", row->rate);
        else
            buf_addf(page, "%18.0f%16.1f\n", row->net, row->rate);
    }
    if (top->busiest->count == 0) buf_add(page, BYTES("none yet\n"));
    if (top->busiest->more) buf_add(page, BYTES("(and others, which change less)\n"));
}

static void make_page(const struct top_view *top, struct buf *page, unsigned rows, unsigned columns)
{
    enum { ROWS_ABOVE = 12 };
    buf_reset(page);
    add_head(top, page);
    if (top->looks) add_figures(top, page);
    if (top->looks) add_counters(top, page, rows > ROWS_ABOVE ? rows - ROWS_ABOVE : 0, columns);
}

static void print_json(const struct top_view *top)
{
    struct rates rates = rates_of(top);
    const struct figures *now = &top->now;
    printf(
        "{\"changesPerSecond\":%.1f,\"eventsPerSecond\":%.1f,\"requestsPerSecond\":%.1f,\"duplicatesPerSecond\":%.1f,"
        "\"queueFullPerSecond\":%.1f,\"queue\":%.0f,\"lagSeconds\":%.3f,\"connections\":%.0f,"
        "\"counters\":[",
        rates.changes, rates.events, rates.requests, rates.duplicates, rates.queue_full, now->queue,
        now->lag_s, now->connections);
    for (unsigned i = 0; top->watching && i < top->busiest->count && i < ONCE_ROWS; i++) {
        const struct busiest_row *row = &top->busiest->rows[i]; /* a name needs no escapes */
        printf("%s{\"name\":\"%s\",\"durationSeconds\":%lld,\"net\":", i ? "," : "", row->name,
               (long long)row->duration_s);
        if (row->unreadable)
            printf("null,\"changesPerSecond\":%.1f}", row->rate);
        else
            printf("%.0f,\"changesPerSecond\":%.1f}", row->net, row->rate);
    }
    puts("]}");
}

/* -- The command ------------------------------------------------------------------------------- */

static void watch(struct top_view *top, int interval_ms, struct buf *page)
{
    double due_s = 0;
    for (;;) {
        unsigned columns, rows;
        if (now_s() >= due_s) {
            look(top);
            due_s = now_s() + interval_ms / 1000.0;
        }
        screen_size(&columns, &rows);
        make_page(top, page, rows, columns);
        screen_draw(buf_bytes(page));
        double left_s = due_s - now_s();
        if (screen_key(left_s > 0 ? (int)(left_s * 1000) + 1 : 0) == SCREEN_QUIT) return;
    }
}

static int print_once(struct top_view *top, int interval_ms, struct buf *page)
{
    for (int i = 0; i < 2; i++) {
        if (i) usleep((useconds_t)interval_ms * 1000);
        look(top);
        if (!top->looks) return cli_failure("top", "%s", top->problem);
    }
    if (top->client.flags->json) {
        print_json(top);
        return EXIT_GOOD;
    }
    make_page(top, page, ONCE_ROWS, 80);
    fwrite(page->data, 1, page->size, stdout);
    return EXIT_GOOD;
}

static bool key_waits(void *context)
{
    (void)context;
    return screen_wants_attention();
}

static int run(const struct top_flags *flags)
{
    int64_t interval_ms;
    struct buf page;
    if (!duration_parse(bytes_str(flags->interval), &interval_ms) || interval_ms < 100 ||
        interval_ms > 60000)
        return cli_usage_error("top", "--interval must be a duration from 100ms to 1m");
    bool once = flags->once || flags->client.json || !isatty(STDOUT_FILENO);
    struct top_view *top = must_calloc(1, sizeof *top);
    struct tally_options options = {.attempts = 1, .timeout_ms = CALL_MS};
    if (!once) options.stop = key_waits;
    top->busiest = must_calloc(1, sizeof *top->busiest);
    buf_init(&page, PAGE_SIZE_MAX);
    int code = client_open_with(&top->client, "top", &flags->client, &options);
    if (!code && once) {
        code = print_once(top, (int)interval_ms, &page);
    } else if (!code && !screen_enter()) {
        code = cli_failure("top", "standard input is no terminal; see --once");
    } else if (!code) {
        watch(top, (int)interval_ms, &page);
        screen_leave();
    }
    client_close(&top->client);
    buf_release(&page);
    free(top->busiest);
    free(top);
    return code;
}

int cli_top(int argc, char **argv)
{
    struct top_flags flags = {.interval = "1s"};
    client_flags_init(&flags.client);
    const struct cli_option options[] = {
        CLIENT_OPTIONS(&flags.client),
        {"--interval", &flags.interval, NULL},
        {"--once", NULL, &flags.once},
    };
    struct cli_arguments arguments = {
        .command = "top", .options = options, .options_count = ARRAY_COUNT(options)};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (!arguments.help) return run(&flags);
    fputs(help, stdout);
    return EXIT_GOOD;
}
