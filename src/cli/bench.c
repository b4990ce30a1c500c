/* bench.c -- `tally bench`: how fast a running server is, as its clients would see it. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/hash.h"
#include "cli/client.h"
#include "cli/load.h"
#include "core/name.h"

static const char help[] =
    "usage: tally bench [--url URL] [--token TOKEN] [--tenant T] [--work WORK] [--connections 64]\n"
    "                   [--depth 1] [--rate 0] [--seconds 10] [--keys 10000] [--batch 5000]\n"
    "                   [--json]\n"
    "\n"
    "Loads a running server and says how many requests it answered and how long they took. It\n"
    "writes counters named bench-* into the tenant.\n"
    "\n"
    "  --url URL          default $TALLY_URL, or http://127.0.0.1:8787\n"
    "  --token TOKEN      default $TALLY_TOKEN\n"
    "  --tenant T         default: the token's own\n"
    "  --work WORK        increment, get, batch (NDJSON of increments) or events (NDJSON of events\n"
    "                     of type page.viewed with random ids); default increment\n"
    "  --connections N    open at the same time (1 to 10000)\n"
    "  --depth N          requests under way on each (1 to 1024)\n"
    "  --rate R           requests a second in an open loop: they are due at fixed times, and their\n"
    "                     latency counts from then; 0 is a closed loop, as fast as it goes\n"
    "  --seconds S        how long\n"
    "  --keys N           counters, or pages, to choose from\n"
    "  --batch N          operations or events in one request of batch and events\n"
    "  --json             one JSON object instead of text\n";

enum work { WORK_INCREMENT, WORK_GET, WORK_BATCH, WORK_EVENTS, WORKS };
static const char *const work_names[WORKS] = {"increment", "get", "batch", "events"};

struct bench {
    enum work work;
    char host[256];
    char port[8];
    const char *token;
    const char *tenant;
    uint64_t keys;
    uint64_t batch;
    uint64_t random;
    struct buf body;
};

struct bench_flags {
    struct client_flags client;
    const char *work;
    const char *connections;
    const char *depth;
    const char *rate;
    const char *seconds;
    const char *keys;
    const char *batch;
};

static uint64_t draw(struct bench *bench)
{
    bench->random += 0x9e3779b97f4a7c15u;
    return hash_mix(bench->random);
}

/* -- Requests ---------------------------------------------------------------------------------- */

static void add_increments(struct bench *bench)
{
    for (uint64_t i = 0; i < bench->batch; i++)
        buf_addf(&bench->body,
                 "{\"op\":\"increment\",\"name\":\"bench-%" PRIu64
                 "\",\"durationSeconds\":3600,\"timestamp\":1767225600}\n",
                 draw(bench) % bench->keys);
}

static void add_events(struct bench *bench)
{
    for (uint64_t i = 0; i < bench->batch; i++)
        buf_addf(&bench->body,
                 "{\"eventId\":\"%016" PRIx64 "%016" PRIx64
                 "\",\"type\":\"page.viewed\",\"dimensions\":{\"page\":\"p%" PRIu64
                 "\"},\"payload\":{\"ms\":%" PRIu64 "}}\n",
                 draw(bench), draw(bench), draw(bench) % bench->keys, draw(bench) % 10000);
}

static void add_head(const struct bench *bench, struct buf *out, const char *method,
                     const char *path)
{
    buf_addf(out, "%s /api/%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n", method, path,
             bench->host, bench->token);
}

static void add_post(struct bench *bench, struct buf *out, const char *path, const char *type)
{
    add_head(bench, out, "POST", path);
    buf_addf(out, "Content-Type: %s\r\nContent-Length: %zu\r\n\r\n", type, bench->body.size);
    buf_add(out, buf_bytes(&bench->body));
}

static void add_request(void *context, struct buf *out)
{
    struct bench *bench = context;
    char path[NAME_SIZE_MAX + 128];
    buf_reset(&bench->body);
    switch (bench->work) {
    case WORK_INCREMENT:
        buf_add(&bench->body, BYTES("{\"durationSeconds\":3600,\"timestamp\":1767225600}"));
        snprintf(path, sizeof path, "counters/%s/bench-%" PRIu64 "/increment", bench->tenant,
                 draw(bench) % bench->keys);
        add_post(bench, out, path, "application/json");
        break;
    case WORK_GET:
        snprintf(path, sizeof path,
                 "counters/%s/bench-%" PRIu64 "/get?durationSeconds=3600&timestamp=1767225600",
                 bench->tenant, draw(bench) % bench->keys);
        add_head(bench, out, "GET", path);
        buf_add(out, BYTES("\r\n"));
        break;
    case WORK_BATCH:
        add_increments(bench);
        snprintf(path, sizeof path, "counters/%s/batch?results=errors", bench->tenant);
        add_post(bench, out, path, "application/x-ndjson");
        break;
    case WORK_EVENTS:
        add_events(bench);
        snprintf(path, sizeof path, "events/%s?results=errors", bench->tenant);
        add_post(bench, out, path, "application/x-ndjson");
        break;
    default:
        unreachable_state(bench->work);
    }
}

/* With ?results=errors each result that is listed went wrong. */
static bool check_body(void *context, struct bytes body)
{
    const struct bench *bench = context;
    if (bench->work != WORK_BATCH && bench->work != WORK_EVENTS) return true;
    return memmem(body.data, body.size, "\"results\":[]", 12) != NULL;
}

/* -- Options ----------------------------------------------------------------------------------- */

static bool read_number(const char *text, double least, double most, double *number_out)
{
    char *end;
    *number_out = strtod(text, &end);
    return end != text && *end == '\0' && *number_out >= least && *number_out <= most;
}

/* Takes http://HOST[:PORT] with nothing after it. */
static bool read_url(struct bench *bench, const char *url)
{
    struct bytes rest = bytes_str(url);
    if (!bytes_starts(rest, BYTES("http://"))) return false;
    rest = bytes_of(rest.data + 7, rest.size - 7);
    if (rest.size && rest.data[rest.size - 1] == '/') rest.size--;
    struct bytes host = bytes_split(&rest, ':');
    if (host.size == 0 || host.size >= sizeof bench->host) return false;
    struct bytes port = rest.data ? rest : BYTES("80");
    if (port.size == 0 || port.size >= sizeof bench->port) return false;
    snprintf(bench->host, sizeof bench->host, "%.*s", (int)host.size, host.data);
    snprintf(bench->port, sizeof bench->port, "%.*s", (int)port.size, port.data);
    return true;
}

static int read_counts(const struct bench_flags *flags, struct bench *bench,
                       struct load_config *load)
{
    double connections, depth, keys, batch;
    if (!read_number(flags->connections, 1, 10000, &connections))
        return cli_usage_error("bench", "--connections must be from 1 to 10000");
    if (!read_number(flags->depth, 1, 1024, &depth))
        return cli_usage_error("bench", "--depth must be from 1 to 1024");
    if (!read_number(flags->rate, 0, 1e9, &load->rate))
        return cli_usage_error("bench", "--rate must be a number of requests a second, or 0");
    if (!read_number(flags->seconds, 0.1, 86400, &load->seconds))
        return cli_usage_error("bench", "--seconds must be from 0.1 to 86400");
    if (!read_number(flags->keys, 1, 1e9, &keys))
        return cli_usage_error("bench", "--keys must be from 1 to 1000000000");
    if (!read_number(flags->batch, 1, 100000, &batch))
        return cli_usage_error("bench", "--batch must be from 1 to 100000");
    load->connections = (unsigned)connections;
    load->depth = (unsigned)depth;
    bench->keys = (uint64_t)keys;
    bench->batch = (uint64_t)batch;
    bool many = bench->work == WORK_BATCH || bench->work == WORK_EVENTS;
    load->each = many ? (unsigned)batch : 1;
    return EXIT_GOOD;
}

static int read_flags(const struct bench_flags *flags, struct bench *bench,
                      struct load_config *load)
{
    if (!read_url(bench, flags->client.url))
        return cli_usage_error("bench", "--url must look like http://127.0.0.1:8787");
    for (bench->work = 0; bench->work < WORKS; bench->work++)
        if (strcmp(work_names[bench->work], flags->work) == 0) break;
    if (bench->work == WORKS)
        return cli_usage_error("bench", "--work must be increment, get, batch or events");
    return read_counts(flags, bench, load);
}

/* -- The report -------------------------------------------------------------------------------- */

static double ms_at(const struct load_report *report, double share)
{
    return (double)histogram_at(&report->latency_ns, share) / 1e6;
}

static void print_json(const struct load_config *load, const struct load_report *report)
{
    printf("{\"ops\":%" PRIu64 ",\"requests\":%" PRIu64 ",\"failed\":%" PRIu64 ",\"late\":%" PRIu64
           ",\"seconds\":%.3f,\"rate\":%.1f,\"p50Ms\":%.3f,\"p99Ms\":%.3f,\"p999Ms\":%.3f,"
           "\"maxMs\":%.3f}\n",
           report->requests * load->each, report->requests, report->failed, report->late,
           report->seconds, (double)report->requests * load->each / report->seconds,
           ms_at(report, 0.5), ms_at(report, 0.99), ms_at(report, 0.999),
           (double)report->latency_ns.max / 1e6);
}

static void print_text(const struct bench *bench, const struct load_config *load,
                       const struct load_report *report)
{
    printf("%s, %u connections, %u deep, ", work_names[bench->work], load->connections,
           load->depth);
    if (load->rate > 0)
        printf("%.0f requests a second asked for, %.1f s\n", load->rate, report->seconds);
    else
        printf("as fast as it goes, %.1f s\n", report->seconds);
    printf("  %.0f operations a second, %" PRIu64 " requests, %" PRIu64 " failed",
           (double)report->requests * load->each / report->seconds, report->requests,
           report->failed);
    if (load->rate > 0) printf(", %" PRIu64 " never sent", report->late);
    printf("\n  latency  p50 %.2f ms  p99 %.2f ms  p99.9 %.2f ms  worst %.2f ms\n",
           ms_at(report, 0.5), ms_at(report, 0.99), ms_at(report, 0.999),
           (double)report->latency_ns.max / 1e6);
}

/* Finds the tenant whose counters are used, as every other command does. */
static int read_client(struct client *client, const struct bench_flags *flags, struct bench *bench)
{
    int code = client_open(client, "bench", &flags->client);
    if (!code) code = client_tenant(client);
    bench->tenant = client->tenant;
    bench->token = flags->client.token;
    if (!code && !name_valid(bytes_str(bench->tenant)))
        code = cli_usage_error("bench", "a tenant is 1 to 255 of A-Z a-z 0-9 _ . ~ -");
    if (!code && !bench->token)
        code = cli_usage_error("bench", "a token is needed: TALLY_TOKEN or --token");
    return code;
}

static int run(const struct bench_flags *flags)
{
    struct client client;
    struct load_report *report = must_calloc(1, sizeof *report);
    struct bench bench = {0};
    struct load_config load = {.request = add_request, .check = check_body, .context = &bench};
    char error[512];
    int code = read_client(&client, flags, &bench);
    if (!code) code = read_flags(flags, &bench, &load);
    load.host = bench.host;
    load.port = bench.port;
    buf_init(&bench.body, SIZE_MAX / 2);
    if (!code && getrandom(&bench.random, sizeof bench.random, 0) < 0)
        code = cli_failure("bench", "no random numbers");
    if (!code && !load_run(&load, report, error, sizeof error))
        code = cli_failure("bench", "%s", error);
    if (!code && flags->client.json) print_json(&load, report);
    if (!code && !flags->client.json) print_text(&bench, &load, report);
    if (!code && report->failed) code = cli_failure("bench", "a reply: %s", report->first_failure);
    buf_release(&bench.body);
    client_close(&client);
    free(report);
    return code;
}

int cli_bench(int argc, char **argv)
{
    struct bench_flags flags = {.work = "increment",
                                .connections = "64",
                                .depth = "1",
                                .rate = "0",
                                .seconds = "10",
                                .keys = "10000",
                                .batch = "5000"};
    client_flags_init(&flags.client);
    const struct cli_option options[] = {
        {"--url", &flags.client.url, NULL},
        {"--token", &flags.client.token, NULL},
        {"--tenant", &flags.client.tenant, NULL},
        {"--work", &flags.work, NULL},
        {"--connections", &flags.connections, NULL},
        {"--depth", &flags.depth, NULL},
        {"--rate", &flags.rate, NULL},
        {"--seconds", &flags.seconds, NULL},
        {"--keys", &flags.keys, NULL},
        {"--batch", &flags.batch, NULL},
        {"--json", NULL, &flags.client.json},
    };
    struct cli_arguments arguments = {
        .command = "bench", .options = options, .options_count = ARRAY_COUNT(options)};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (!arguments.help) return run(&flags);
    fputs(help, stdout);
    return EXIT_GOOD;
}
