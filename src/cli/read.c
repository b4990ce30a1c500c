/* read.c -- `tally get`, `sum` and `series`: one read of one counter. */
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/absent.h"
#include "cli/arguments.h"
#include "cli/client.h"

#define DIM_HELP "  --dim KEY=VALUE      a dimension, for counters kept by rules; may be repeated\n"
#define RANGE_HELP                                                     \
    "  --start-time TIME    the beginning (default -24h: a day ago)\n" \
    "  --end-time TIME      the end, whose bucket belongs to it (default now)\n"

static const char help_get[] =
    "usage: tally get NAME [--duration D] [--timestamp TIME] [--dim KEY=VALUE]... [--json]\n"
    "\n"
    "Prints what a counter holds. One that has never been counted in is an error, not zero.\n"
    "\n" GRANULARITY_HELP
    "  --timestamp TIME     which bucket (default now); -1h is an hour ago\n" DIM_HELP CLIENT_HELP;

static const char help_sum[] =
    "usage: tally sum NAME [--duration D] [--start-time TIME] [--end-time TIME]\n"
    "                 [--dim KEY=VALUE]... [--json]\n"
    "\n"
    "Prints the sum of all buckets from one time to another, both ends included.\n"
    "\n" GRANULARITY_HELP RANGE_HELP DIM_HELP CLIENT_HELP;

static const char help_series[] =
    "usage: tally series NAME [--duration D] [--start-time TIME] [--end-time TIME] [--fill]\n"
    "                    [--limit N] [--dim KEY=VALUE]... [--json]\n"
    "\n"
    "Prints the buckets from one time to another, one a line.\n"
    "\n" GRANULARITY_HELP RANGE_HELP
    "  --fill               buckets without a count too, as zeros\n"
    "  --limit N            refuse to print more than that many (default 10000)\n" DIM_HELP
        CLIENT_HELP;

enum read_command { READ_GET, READ_SUM, READ_SERIES };

static const struct read_words {
    const char *command;
    const char *help;
    const char *call;
} words[] = {
    [READ_GET] = {"get", help_get, "get"},
    [READ_SUM] = {"sum", help_sum, "sumRange"},
    [READ_SERIES] = {"series", help_series, "series"},
};

struct read_flags {
    struct client_flags client;
    struct cli_list dims;
    const char *name;
    struct granularity_flags granularity;
    const char *timestamp;
    const char *start_time;
    const char *end_time;
    const char *limit;
    bool fill;
};

/* -- Asking ------------------------------------------------------------------------------------ */

static int add_time(struct client *client, const char *option, const char *parameter,
                    const char *text)
{
    char time[ARGUMENT_TIME_SIZE];
    int code = argument_time(client->command, option, text, time);
    if (!code) client_query(client, parameter, time);
    return code;
}

static int add_dimensions(struct client *client, const struct cli_list *dims)
{
    for (unsigned i = 0; i < dims->count; i++) {
        struct bytes key, value;
        char name[300];
        int code = argument_pair(client->command, "--dim", dims->items[i], &key, &value);
        if (code) return code;
        snprintf(name, sizeof name, "dim.%.*s", (int)key.size, key.data);
        client_query(client, name, value.data);
    }
    return EXIT_GOOD;
}

static int add_range(struct client *client, const struct read_flags *flags)
{
    int code = add_time(client, "--start-time", "startTime", flags->start_time);
    if (!code) code = add_time(client, "--end-time", "endTime", flags->end_time);
    client_query(client, "fill", flags->fill ? "zero" : NULL);
    client_query(client, "limit", flags->limit);
    return code;
}

static int begin_path(struct client *client, const char *call, const struct read_flags *flags)
{
    int32_t granularity;
    char digits[24];
    int code = argument_granularity(client->command, &flags->granularity, &granularity);
    if (code) return code;
    snprintf(digits, sizeof digits, "%d", (int)granularity);
    client_path(client, "api", "counters", client->tenant, flags->name, call);
    client_query(client, "durationSeconds", granularity < 0 ? NULL : digits);
    client_query(client, "bucket", flags->granularity.bucket);
    client_query(client, "zone", flags->granularity.zone);
    return add_dimensions(client, &flags->dims);
}

static int ask(struct client *client, enum read_command kind, const struct read_flags *flags)
{
    int code = begin_path(client, words[kind].call, flags);
    if (!code && kind == READ_GET)
        code = add_time(client, "--timestamp", "timestamp", flags->timestamp);
    else if (!code)
        code = add_range(client, flags);
    if (code) return code;
    code = client_send(client, "GET", BYTES_NONE);
    if (code) absent_hint(client);
    return code;
}

/* -- Showing ----------------------------------------------------------------------------------- */

struct bucket {
    struct bytes start, net, added, subbed;
};

static void read_bucket(const struct json_value *object, struct bucket *bucket_out)
{
    static const struct bytes names[] = {BYTES("timeStart"), BYTES("net"), BYTES("added"),
                                         BYTES("subbed")};
    struct json_value values[ARRAY_COUNT(names)];
    struct bytes *out[] = {&bucket_out->start, &bucket_out->net, &bucket_out->added,
                           &bucket_out->subbed};
    json_pick(object, names, ARRAY_COUNT(names), values);
    for (unsigned i = 0; i < ARRAY_COUNT(names); i++)
        *out[i] = values[i].type == JSON_STRING ? values[i].string : BYTES("?");
}

static void print_value(const struct client *client)
{
    struct bucket value;
    read_bucket(&client->root, &value);
    printf("%.*s  (added %.*s, subbed %.*s)\n", (int)value.net.size, value.net.data,
           (int)value.added.size, value.added.data, (int)value.subbed.size, value.subbed.data);
}

static int wider(int width, struct bytes text)
{
    return (int)text.size > width ? (int)text.size : width;
}

/* Columns are as wide as their widest value; the first line names them. */
static void print_series(const struct client *client)
{
    struct json_value buckets = client_field(client, "buckets");
    struct json_iter iter;
    struct bucket bucket;
    int net = 3, added = 5, subbed = 6;
    for (json_each(&buckets, &iter); json_next(&iter);) {
        read_bucket(&iter.value, &bucket);
        net = wider(net, bucket.net);
        added = wider(added, bucket.added);
        subbed = wider(subbed, bucket.subbed);
    }
    printf("%-24s  %*s  %*s  %*s\n", "start", net, "net", added, "added", subbed, "subbed");
    for (json_each(&buckets, &iter); json_next(&iter);) {
        read_bucket(&iter.value, &bucket);
        printf("%.*s  %*.*s  %*.*s  %*.*s\n", (int)bucket.start.size, bucket.start.data, net,
               (int)bucket.net.size, bucket.net.data, added, (int)bucket.added.size,
               bucket.added.data, subbed, (int)bucket.subbed.size, bucket.subbed.data);
    }
}

/* Whether a sum or a series has anything in it. */
static bool is_empty(const struct client *client)
{
    static const struct bytes zero = BYTES("0");
    struct json_value buckets = client_field(client, "buckets");
    struct json_iter iter;
    struct bucket value;
    read_bucket(&client->root, &value);
    if (buckets.type != JSON_ARRAY)
        return bytes_equal(value.added, zero) && bytes_equal(value.subbed, zero);
    for (json_each(&buckets, &iter); json_next(&iter);) {
        read_bucket(&iter.value, &value);
        if (!bytes_equal(value.added, zero) || !bytes_equal(value.subbed, zero)) return false;
    }
    return true;
}

static int explain(struct client *client, const struct read_flags *flags)
{
    int code = begin_path(client, words[READ_GET].call, flags);
    if (!code) code = add_time(client, "--start-time", "timestamp", flags->start_time);
    if (!code) absent_explain(client, flags->name);
    return code;
}

static int show(struct client *client, enum read_command kind)
{
    if (client->flags->json) return client_print(client);
    if (kind == READ_SERIES)
        print_series(client);
    else
        print_value(client);
    return EXIT_GOOD;
}

/* -- The commands ------------------------------------------------------------------------------ */

static int run(enum read_command kind, const struct read_flags *flags)
{
    struct client client;
    int code = argument_name(words[kind].command, flags->name);
    if (code) return code;
    code = client_open(&client, words[kind].command, &flags->client);
    if (!code) code = client_tenant(&client);
    if (!code) code = ask(&client, kind, flags);
    if (!code) code = show(&client, kind);
    if (!code && kind != READ_GET && is_empty(&client)) code = explain(&client, flags);
    client_close(&client);
    return code;
}

static int parse_and_run(enum read_command kind, int argc, char **argv)
{
    struct read_flags flags = {.timestamp = "now", .start_time = "-24h", .end_time = "now"};
    client_flags_init(&flags.client);
    const struct cli_option of_get[] = {
        CLIENT_OPTIONS(&flags.client),
        GRANULARITY_OPTIONS(&flags.granularity),
        {"--timestamp", &flags.timestamp, NULL},
        {"--at", &flags.timestamp, NULL},
    };
    const struct cli_option of_ranges[] = {
        CLIENT_OPTIONS(&flags.client),
        GRANULARITY_OPTIONS(&flags.granularity),
        {"--start-time", &flags.start_time, NULL},
        {"--from", &flags.start_time, NULL},
        {"--end-time", &flags.end_time, NULL},
        {"--to", &flags.end_time, NULL},
        {"--limit", &flags.limit, NULL},
        {"--fill", NULL, &flags.fill},
    };
    unsigned of_sum = ARRAY_COUNT(of_ranges) - 2;
    struct cli_arguments arguments = {.command = words[kind].command,
                                      .options = kind == READ_GET ? of_get : of_ranges,
                                      .options_count = kind == READ_GET   ? ARRAY_COUNT(of_get)
                                                       : kind == READ_SUM ? of_sum
                                                                          : ARRAY_COUNT(of_ranges),
                                      .repeated = "--dim",
                                      .repeated_list = &flags.dims,
                                      .positional = &flags.name,
                                      .positional_max = 1};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (!arguments.help) return run(kind, &flags);
    fputs(words[kind].help, stdout);
    return EXIT_GOOD;
}

int cli_get(int argc, char **argv)
{
    return parse_and_run(READ_GET, argc, argv);
}

int cli_sum(int argc, char **argv)
{
    return parse_and_run(READ_SUM, argc, argv);
}

int cli_series(int argc, char **argv)
{
    return parse_and_run(READ_SERIES, argc, argv);
}
