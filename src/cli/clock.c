/* clock.c -- `tally clock`: what time a server goes by, and the operator's word about its clock. */
#include <stdio.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/client.h"

static const char help[] =
    "usage: tally clock [status|accept|reset] [--json]\n"
    "\n"
    "A server does not believe a wall clock that steps: its own time goes on without it, and\n"
    "nothing that cannot be undone happens early. Needs a token with scope admin.\n"
    "\n"
    "  status   both times, and whether the wall clock is believed\n"
    "  accept   it is right: time goes on from what it says, or stands still until it says so\n"
    "  reset    the same, and time that went ahead by mistake is set back, as nothing else does\n"
    "\n" CLIENT_HELP;

static bool is_said(struct client *client, const char *name)
{
    struct json_value value = client_field(client, name);
    return value.type == JSON_BOOL && value.boolean;
}

static void print_state(struct client *client)
{
    const char *belief = is_said(client, "suspect")    ? "suspect: it stepped and is not believed"
                         : is_said(client, "settling") ? "believed, and not yet settled"
                                                       : "believed";
    printf("time        %s\n", client_text(client, "time"));
    printf("wall clock  %s\n", client_text(client, "wall"));
    printf("            %s\n", belief);
    printf("            the kernel %s it synchronised\n",
           is_said(client, "synchronised") ? "calls" : "does not call");
}

static int run(struct client *client, const char *action)
{
    int code;
    client_path(client, "api", "admin", "clock");
    if (strcmp(action, "status") == 0)
        code = client_send(client, "GET", BYTES_NONE);
    else if (strcmp(action, "accept") == 0)
        code = client_send(client, "POST", BYTES("{\"action\":\"accept\"}"));
    else
        code = client_send(client, "POST", BYTES("{\"action\":\"reset\"}"));
    if (code) return code;
    if (client->flags->json) return client_print(client);
    print_state(client);
    return EXIT_GOOD;
}

static bool is_action(const char *action)
{
    return strcmp(action, "status") == 0 || strcmp(action, "accept") == 0 ||
           strcmp(action, "reset") == 0;
}

int cli_clock(int argc, char **argv)
{
    struct client_flags flags;
    struct client client;
    const char *action = NULL;
    client_flags_init(&flags);
    const struct cli_option options[] = {CLIENT_OPTIONS(&flags)};
    struct cli_arguments arguments = {.command = "clock",
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options),
                                      .positional = &action,
                                      .positional_max = 1};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (arguments.help) {
        fputs(help, stdout);
        return EXIT_GOOD;
    }
    if (!action) action = "status";
    if (!is_action(action))
        return cli_usage_error("clock", "\"%s\" is not status, accept or reset", action);
    code = client_open(&client, "clock", &flags);
    if (!code) code = run(&client, action);
    client_close(&client);
    return code;
}
