/* rebuild.c -- `tally rebuild`: recounts a counter from the retained events, and waits for it. */
#include "cli/arguments.h"
#include "cli/client.h"

static const char help[] =
    "usage: tally rebuild COUNTER [--force] [--no-wait] [--json]\n"
    "\n"
    "Recounts a counter kept by rules, for all tenants, from the retained events into new cells\n"
    "beside the old ones, then swaps in one step. Needs a token with scope admin. Waits until it\n"
    "is done and shows how far it is; stopping this command does not stop the rebuild.\n"
    "\n"
    "  --force              also if history is incomplete: what is no longer retained is forgotten\n"
    "  --no-wait            print the job's id and do not wait\n" CLIENT_HELP;

struct rebuild_flags {
    struct client_flags client;
    const char *counter;
    bool force;
    bool no_wait;
};

static int rebuild(struct client *client, const struct rebuild_flags *flags)
{
    client_path(client, "api", "admin", "counters", flags->counter, "rebuild");
    struct bytes body = flags->force ? BYTES("{\"force\":true}") : BYTES("{}");
    int code = client_send(client, "POST", body);
    if (code) return code;
    if (!flags->no_wait) code = client_wait_job(client, client_text(client, "job"));
    if (code) return code;
    if (client->flags->json) return client_print(client);
    if (flags->no_wait)
        printf("job %s\n", client_text(client, "job"));
    else
        printf("rebuilt %s from %s events\n", flags->counter, client_text(client, "events"));
    return EXIT_GOOD;
}

int cli_rebuild(int argc, char **argv)
{
    struct rebuild_flags flags = {0};
    struct client client;
    client_flags_init(&flags.client);
    const struct cli_option options[] = {
        CLIENT_OPTIONS(&flags.client),
        {"--force", NULL, &flags.force},
        {"--no-wait", NULL, &flags.no_wait},
    };
    struct cli_arguments arguments = {.command = "rebuild",
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options),
                                      .positional = &flags.counter,
                                      .positional_max = 1};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (arguments.help) {
        fputs(help, stdout);
        return EXIT_GOOD;
    }
    code = argument_name("rebuild", flags.counter);
    if (code) return code;
    code = client_open(&client, "rebuild", &flags.client);
    if (!code) code = rebuild(&client, &flags);
    client_close(&client);
    return code;
}
