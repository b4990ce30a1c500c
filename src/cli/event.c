/* event.c -- `tally event`: one event. */
#include <unistd.h>

#include "cli/arguments.h"
#include "cli/client.h"

#define EVENT_SIZE_MAX (1u << 20) /* the server's limit is far below; this is only ours */

static const char help[] =
    "usage: tally event TYPE [--event-id ID] [--occurred-at TIME] [--dim KEY=VALUE]...\n"
    "                   [--payload JSON] [--json]\n"
    "       tally event - [--json]\n"
    "\n"
    "Sends one event and says what became of it. An event takes effect at most once, for ever, by\n"
    "its id: a duplicate changes nothing and is exit 0. With - one whole event is read from\n"
    "standard input, as JSON. For many, see `tally ingest`.\n"
    "\n"
    "  --event-id ID        its id (default: random, which makes automatic retries safe)\n"
    "  --occurred-at TIME   when it happened (default now); -1h is an hour ago\n"
    "  --dim KEY=VALUE      a dimension; may be repeated\n"
    "  --payload JSON       what else there is to say\n" CLIENT_HELP;

struct event_flags {
    struct client_flags client;
    struct cli_list dims;
    const char *type;
    const char *event_id;
    const char *occurred_at;
    const char *payload;
};

/* -- The event as JSON ------------------------------------------------------------------------- */

static int add_dimensions(struct client *client, const struct cli_list *dims, struct buf *body)
{
    buf_add(body, BYTES(",\"dimensions\":{"));
    for (unsigned i = 0; i < dims->count; i++) {
        struct bytes key, value;
        int code = argument_pair(client->command, "--dim", dims->items[i], &key, &value);
        if (code) return code;
        if (i) buf_add_char(body, ',');
        buf_add_json(body, key);
        buf_add_char(body, ':');
        buf_add_json(body, value);
    }
    buf_add_char(body, '}');
    return EXIT_GOOD;
}

/* The payload is checked here, because one that closes a brace too many would be another event. */
static int add_payload(struct client *client, const char *payload, struct buf *body)
{
    struct json_value value;
    struct buf padded;
    if (!payload) return EXIT_GOOD;
    buf_init(&padded, EVENT_SIZE_MAX);
    buf_add(&padded, bytes_str(payload));
    size_t size = padded.size;
    for (unsigned i = 0; i < JSON_PADDING; i++)
        buf_add_char(&padded, '\0');
    int code = EXIT_GOOD;
    if (padded.failed)
        code = cli_usage_error(client->command, "--payload is too long");
    else if (!json_parse(client->parser, bytes_of(padded.data, size), &value))
        code = cli_usage_error(client->command, "--payload is not JSON: %s",
                               json_problem(client->parser));
    buf_add(body, BYTES(",\"payload\":"));
    buf_add(body, bytes_str(payload));
    buf_release(&padded);
    return code;
}

static int write_event(struct client *client, const struct event_flags *flags, struct buf *body)
{
    char random[TALLY_KEY_SIZE], time[ARGUMENT_TIME_SIZE];
    tally_random_key(random);
    int code = argument_time(client->command, "--occurred-at", flags->occurred_at, time);
    if (code) return code;
    buf_add(body, BYTES("{\"eventId\":"));
    buf_add_json(body, bytes_str(flags->event_id ? flags->event_id : random));
    buf_add(body, BYTES(",\"type\":"));
    buf_add_json(body, bytes_str(flags->type));
    buf_addf(body, ",\"occurredAt\":\"%s\"", time);
    code = add_dimensions(client, &flags->dims, body);
    if (!code) code = add_payload(client, flags->payload, body);
    buf_add_char(body, '}');
    if (!code && body->failed) code = cli_usage_error(client->command, "the event is too long");
    return code;
}

static int read_event(struct client *client, struct buf *body)
{
    for (;;) {
        char *room = buf_reserve(body, 64u << 10);
        if (!room) return cli_failure(client->command, "the event is too long");
        ssize_t size = read(STDIN_FILENO, room, 64u << 10);
        if (size < 0) return cli_failure(client->command, "standard input: %m");
        if (size == 0) break;
        body->size += (size_t)size;
    }
    if (body->size == 0) return cli_failure(client->command, "standard input holds no event");
    return EXIT_GOOD;
}

/* -- Sending it -------------------------------------------------------------------------------- */

static void print_one(struct client *client)
{
    bool duplicate = strcmp(client_text(client, "result"), "DROPPED_DUPLICATE") == 0;
    struct json_value conflict = client_field(client, "conflict");
    printf("%s %s", duplicate ? "duplicate" : "applied", client_text(client, "eventId"));
    if (!duplicate) {
        printf(", counters changed: %d\n", (int)client_number(client, "counters"));
        return;
    }
    const char *seen = client_text(client, "firstSeenAt");
    if (seen[0]) printf(", first seen at %s", seen);
    puts(conflict.type == JSON_BOOL && conflict.boolean ? ", and the first one said something else"
                                                        : "");
}

static int send(struct client *client, struct buf *body)
{
    client_path(client, "api", "events", client->tenant);
    struct tally_request request = {
        .method = "POST", .body = body->data, .body_size = body->size, .repeatable = true};
    if (client_try(client, &request)) return client_failure(client, &client->error);
    if (client->flags->json) return client_print(client);
    if (client_text(client, "result")[0])
        print_one(client);
    else
        client_print(client); /* standard input held an array of events */
    return EXIT_GOOD;
}

static int run(const struct event_flags *flags)
{
    struct client client;
    struct buf body;
    if (!flags->type) return cli_usage_error("event", "of which type?");
    bool from_input = strcmp(flags->type, "-") == 0;
    bool described = flags->event_id || flags->payload || flags->dims.count;
    if (from_input && described)
        return cli_usage_error("event", "an event from standard input is whole by itself");
    buf_init(&body, EVENT_SIZE_MAX);
    int code = client_open(&client, "event", &flags->client);
    if (!code) code = client_tenant(&client);
    if (!code) code = from_input ? read_event(&client, &body) : write_event(&client, flags, &body);
    if (!code) code = send(&client, &body);
    client_close(&client);
    buf_release(&body);
    return code;
}

int cli_event(int argc, char **argv)
{
    struct event_flags flags = {.occurred_at = "now"};
    client_flags_init(&flags.client);
    const struct cli_option options[] = {
        CLIENT_OPTIONS(&flags.client),      {"--event-id", &flags.event_id, NULL},
        {"--id", &flags.event_id, NULL},    {"--occurred-at", &flags.occurred_at, NULL},
        {"--at", &flags.occurred_at, NULL}, {"--payload", &flags.payload, NULL},
    };
    struct cli_arguments arguments = {.command = "event",
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options),
                                      .repeated = "--dim",
                                      .repeated_list = &flags.dims,
                                      .positional = &flags.type,
                                      .positional_max = 1};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (!arguments.help) return run(&flags);
    fputs(help, stdout);
    return EXIT_GOOD;
}
