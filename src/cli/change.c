/* change.c -- `tally inc`, `dec` and `set`: one change of one counter. */
#include <inttypes.h>

#include "cli/arguments.h"
#include "cli/client.h"
#include "core/zones.h"

#define OPTIONS_HELP                                                                   \
    GRANULARITY_HELP                                                                   \
    "  --timestamp TIME     which bucket (default now); -1h is an hour ago\n"          \
    "  --expires-at TIME    when the bucket may be removed\n"                          \
    "  --key KEY            idempotency key; a repeat with the same one counts once\n" \
    "                       (default: random, so that automatic retries are safe)\n"

static const char help_inc[] =
    "usage: tally inc NAME [AMOUNT] [--duration D | --bucket KIND --zone ZONE]\n"
    "                 [--timestamp TIME] [--max N] [--expires-at TIME] [--key KEY] [--sync] [--json]\n"
    "\n"
    "Adds AMOUNT (1) to a counter and prints what it holds then.\n"
    "\n" OPTIONS_HELP "  --max N              refuse, and exit 1, if the counter would pass N\n"
    "  --sync               ahead of work that is queued\n" CLIENT_HELP;

static const char help_dec[] =
    "usage: tally dec NAME [AMOUNT] [--duration D] [--timestamp TIME] [--key KEY] [--sync] [--json]\n"
    "\n"
    "Takes AMOUNT (1) from a counter and prints what it holds then. A counter never falls below\n"
    "zero: it refuses instead, and the exit code is 1.\n"
    "\n" OPTIONS_HELP "  --sync               ahead of work that is queued\n" CLIENT_HELP;

static const char help_set[] =
    "usage: tally set NAME VALUE [--duration D] [--timestamp TIME] [--expires-at TIME]\n"
    "                 [--key KEY] [--json]\n"
    "\n"
    "Makes a counter hold VALUE: the difference is added or taken away.\n"
    "\n" OPTIONS_HELP CLIENT_HELP;

enum change_kind { CHANGE_INC, CHANGE_DEC, CHANGE_SET };

static const struct change_words {
    const char *command;
    const char *help;
    const char *call;
    const char *call_sync;
    const char *field;
} words[] = {
    [CHANGE_INC] = {"inc", help_inc, "increment", "incrementSync", "amount"},
    [CHANGE_DEC] = {"dec", help_dec, "decrement", "decrementSync", "amount"},
    [CHANGE_SET] = {"set", help_set, "set", "set", "targetValue"},
};

struct change_flags {
    struct client_flags client;
    const char *arguments[2]; /* name, amount */
    struct granularity_flags granularity;
    const char *timestamp;
    const char *expires_at;
    const char *max;
    const char *key;
    bool sync;
};

static void write_granularity(struct buf *body, int32_t granularity)
{
    struct calendar calendar;
    if (zones_calendar(zones_in_force(), granularity, &calendar))
        buf_addf(body, ",\"bucket\":\"%s\",\"zone\":\"%s\"", calendar_kind_name(calendar.kind),
                 calendar.name);
    else
        buf_addf(body, ",\"durationSeconds\":%d", granularity);
}

static int write_body(enum change_kind kind, const struct change_flags *flags, struct buf *body)
{
    const char *command = words[kind].command;
    char time[ARGUMENT_TIME_SIZE];
    int64_t amount = 1;
    int32_t granularity;
    int code = argument_granularity(command, &flags->granularity, &granularity);
    if (!code) code = argument_bucket(command, "--timestamp", flags->timestamp, granularity, time);
    if (!code && flags->arguments[1])
        code = argument_integer(command, kind == CHANGE_SET ? "VALUE" : "AMOUNT",
                                flags->arguments[1], kind == CHANGE_SET ? 0 : 1, &amount);
    if (code) return code;
    buf_addf(body, "{\"timestamp\":\"%s\",\"%s\":%" PRId64, time, words[kind].field, amount);
    write_granularity(body, granularity);
    if (flags->expires_at) code = argument_time(command, "--expires-at", flags->expires_at, time);
    if (!code && flags->expires_at) buf_addf(body, ",\"expiresAt\":\"%s\"", time);
    if (!code && flags->max) code = argument_integer(command, "--max", flags->max, 0, &amount);
    if (!code && flags->max) buf_addf(body, ",\"max\":%" PRId64, amount);
    buf_add_char(body, '}');
    return code;
}

static void print_value(struct client *client)
{
    printf("%s  (added %s, ", client_text(client, "net"), client_text(client, "added"));
    printf("subbed %s)%s\n", client_text(client, "subbed"),
           client->reply.replayed ? "  counted before: this key has been used" : "");
}

static int change(struct client *client, enum change_kind kind, const struct change_flags *flags)
{
    char random[TALLY_KEY_SIZE];
    struct buf body;
    int code = client_tenant(client);
    if (code) return code;
    buf_init(&body, 1024);
    tally_random_key(random);
    client_path(client, "api", "counters", client->tenant, flags->arguments[0],
                flags->sync ? words[kind].call_sync : words[kind].call);
    code = write_body(kind, flags, &body);
    if (!code)
        code = client_send_key(client, kind == CHANGE_SET ? "PUT" : "POST", buf_bytes(&body),
                               flags->key ? flags->key : random);
    if (!code && client->flags->json)
        code = client_print(client);
    else if (!code)
        print_value(client);
    buf_release(&body);
    return code;
}

static int run(enum change_kind kind, const struct change_flags *flags)
{
    const char *command = words[kind].command;
    struct client client;
    int code = argument_name(command, flags->arguments[0]);
    if (code) return code;
    if (kind == CHANGE_SET && !flags->arguments[1])
        return cli_usage_error(command, "to which value?");
    code = client_open(&client, command, &flags->client);
    if (!code) code = change(&client, kind, flags);
    client_close(&client);
    return code;
}

static int parse_and_run(enum change_kind kind, int argc, char **argv)
{
    struct change_flags flags = {.timestamp = "now"};
    client_flags_init(&flags.client);
    const struct cli_option options[] = {
        CLIENT_OPTIONS(&flags.client),
        GRANULARITY_OPTIONS(&flags.granularity),
        {"--timestamp", &flags.timestamp, NULL},
        {"--at", &flags.timestamp, NULL},
        {"--key", &flags.key, NULL},
        {"--expires-at", &flags.expires_at, NULL},
        {"--expires", &flags.expires_at, NULL},
        {"--sync", NULL, &flags.sync},
        {"--max", &flags.max, NULL},
    };
    static const unsigned not_taken[] = {[CHANGE_INC] = 0, [CHANGE_DEC] = 1, [CHANGE_SET] = 2};
    struct cli_arguments arguments = {.command = words[kind].command,
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options) - not_taken[kind],
                                      .positional = flags.arguments,
                                      .positional_max = 2};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (!arguments.help) return run(kind, &flags);
    fputs(words[kind].help, stdout);
    return EXIT_GOOD;
}

int cli_inc(int argc, char **argv)
{
    return parse_and_run(CHANGE_INC, argc, argv);
}

int cli_dec(int argc, char **argv)
{
    return parse_and_run(CHANGE_DEC, argc, argv);
}

int cli_set(int argc, char **argv)
{
    return parse_and_run(CHANGE_SET, argc, argv);
}
