/* followers.c -- `tally followers`: what a server is in its group, and who follows it. */
#include <inttypes.h>

#include "cli/client.h"

static const char help[] =
    "usage: tally followers [--json]\n"
    "\n"
    "Says whether the server is a primary or a follower. A primary's followers stand below it, a\n"
    "line each: how many changes each has not, and how long it has not asked. A follower says whom\n"
    "it follows and how old what it shows may be. Needs a token with the scope admin.\n"
    "\n" CLIENT_HELP;

static void print_follower(const struct json_value *follower)
{
    enum { NAME, SEQUENCE, BEHIND, SILENT, COLUMNS };
    static const struct bytes names[COLUMNS] = {[NAME] = BYTES("name"),
                                                [SEQUENCE] = BYTES("sequence"),
                                                [BEHIND] = BYTES("behind"),
                                                [SILENT] = BYTES("silentMs")};
    struct json_value values[COLUMNS];
    json_pick(follower, names, COLUMNS, values);
    client_column(&values[NAME], -32, " ");
    client_column(&values[SEQUENCE], 14, " ");
    client_column(&values[BEHIND], 14, " ");
    printf("%10" PRId64 "\n", values[SILENT].integer);
}

static void print_followers(const struct client *client)
{
    struct json_value all = client_field(client, "followers");
    struct json_iter each;
    printf("%-32s %14s %14s %10s\n", "FOLLOWER", "SEQUENCE", "BEHIND", "SILENT MS");
    for (json_each(&all, &each); json_next(&each);)
        print_follower(&each.value);
}

static void print_following(const struct json_value *following)
{
    enum { PRIMARY, CONNECTED, COPYING, LAG, FIELDS };
    static const struct bytes names[FIELDS] = {[PRIMARY] = BYTES("primary"),
                                               [CONNECTED] = BYTES("connected"),
                                               [COPYING] = BYTES("copying"),
                                               [LAG] = BYTES("lagMs")};
    struct json_value values[FIELDS];
    json_pick(following, names, FIELDS, values);
    printf("follows %.*s%s%s, %" PRId64 " ms behind\n", (int)values[PRIMARY].string.size,
           values[PRIMARY].string.data, values[CONNECTED].boolean ? "" : ", WITHOUT AN ANSWER",
           values[COPYING].boolean ? ", copying it anew" : "", values[LAG].integer);
}

static int show(struct client *client)
{
    client_path(client, "api", "admin", "followers");
    int code = client_send(client, "GET", BYTES_NONE);
    if (code || client->flags->json) return code ? code : client_print(client);
    struct json_value following = client_field(client, "following");
    printf("%s, at %s\n", client_text(client, "role"), client_text(client, "sequence"));
    if (following.type == JSON_OBJECT)
        print_following(&following);
    else
        print_followers(client);
    return EXIT_GOOD;
}

int cli_followers(int argc, char **argv)
{
    struct client_flags flags;
    struct client client;
    client_flags_init(&flags);
    const struct cli_option options[] = {CLIENT_OPTIONS(&flags)};
    struct cli_arguments arguments = {
        .command = "followers", .options = options, .options_count = ARRAY_COUNT(options)};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (arguments.help) {
        fputs(help, stdout);
        return EXIT_GOOD;
    }
    code = client_open(&client, "followers", &flags);
    if (!code) code = show(&client);
    client_close(&client);
    return code;
}
