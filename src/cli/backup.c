/* backup.c -- `tally backup`: asks a running server for a backup and waits for it; lists them;
 * removes one. */
#include "cli/client.h"

static const char help[] =
    "usage: tally backup [NAME] [--no-wait] [--json]\n"
    "       tally backup --list [--json]\n"
    "       tally backup --remove NAME [--json]\n"
    "\n"
    "Backs the whole store of a running server up into its ops.dir, online: it equals the state at\n"
    "one moment between start and end, and what an earlier backup has is shared with it. Without\n"
    "NAME it is named after the time. Needs a token with the scope admin. `tally restore` makes a\n"
    "data directory of a backup, `tally verify NAME` reads one again.\n"
    "\n"
    "  --list               the backups there are\n"
    "  --remove NAME        remove one; others stay whole\n"
    "  --no-wait            print the job and do not wait for it\n" CLIENT_HELP;

struct backup_flags {
    struct client_flags client;
    const char *name;
    const char *remove;
    bool list;
    bool no_wait;
};

static int list(struct client *client)
{
    static const struct bytes names[] = {BYTES("name"), BYTES("moment"), BYTES("bytes"),
                                         BYTES("newBytes")};
    client_path(client, "api", "admin", "backups");
    client_query(client, "limit", "10000"); /* more than there will ever be */
    int code = client_send(client, "GET", BYTES_NONE);
    if (code || client->flags->json) return code ? code : client_print(client);
    struct json_value all = client_field(client, "backups");
    struct json_iter each;
    printf("%-32s %-24s %14s %14s\n", "NAME", "MOMENT", "BYTES", "NEW BYTES");
    for (json_each(&all, &each); json_next(&each);) {
        struct json_value values[ARRAY_COUNT(names)];
        json_pick(&each.value, names, ARRAY_COUNT(names), values);
        client_column(&values[0], -32, " ");
        client_column(&values[1], -24, " ");
        client_column(&values[2], 14, " ");
        client_column(&values[3], 14, "\n");
    }
    return EXIT_GOOD;
}

static int make(struct client *client, const struct backup_flags *flags)
{
    struct buf body;
    buf_init(&body, 4096);
    buf_add(&body, BYTES("{"));
    if (flags->name) {
        buf_add(&body, BYTES("\"name\":"));
        buf_add_json(&body, bytes_str(flags->name));
    }
    buf_add_char(&body, '}');
    client_path(client, "api", "admin", "backups");
    int code = client_send(client, "POST", buf_bytes(&body));
    buf_release(&body);
    if (code) return code;
    if (flags->no_wait) {
        if (client->flags->json) return client_print(client);
        printf("job %s, backup %s\n", client_text(client, "job"), client_text(client, "name"));
        return EXIT_GOOD;
    }
    code = client_wait_job(client, client_text(client, "job"));
    if (code || client->flags->json) return code ? code : client_print(client);
    printf("backed up as %s", client_text(client, "name"));
    printf(": %s bytes", client_text(client, "bytes"));
    printf(", up to sequence %s\n", client_text(client, "sequence"));
    const char *warning = client_text(client, "warning");
    if (*warning) fprintf(stderr, "tally backup: warning: %s\n", warning);
    return EXIT_GOOD;
}

static int run(struct client *client, const struct backup_flags *flags)
{
    if (flags->list) return list(client);
    return flags->remove ? client_remove(client, "backups", flags->remove) : make(client, flags);
}

int cli_backup(int argc, char **argv)
{
    struct backup_flags flags = {0};
    client_flags_init(&flags.client);
    const struct cli_option options[] = {CLIENT_OPTIONS(&flags.client),
                                         {"--list", NULL, &flags.list},
                                         {"--remove", &flags.remove, NULL},
                                         {"--no-wait", NULL, &flags.no_wait}};
    struct cli_arguments arguments = {.command = "backup",
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options),
                                      .positional = &flags.name,
                                      .positional_max = 1};
    struct client client;
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (arguments.help) {
        fputs(help, stdout);
        return EXIT_GOOD;
    }
    if ((flags.list || flags.remove) && (flags.name || (flags.list && flags.remove)))
        return cli_usage_error("backup", "--list, --remove NAME and NAME exclude each other");
    code = client_open(&client, "backup", &flags.client);
    if (!code) code = run(&client, &flags);
    client_close(&client);
    return code;
}
