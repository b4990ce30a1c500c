/* port.c -- `tally export` and `tally import`: asks a running server and waits for it; and,
 * offline, an empty data directory or schema that can take an export's ids. */
#include <unistd.h>

#include "cli/client.h"
#include "jobs/prepare.h"
#include "base/tree.h"
#include "serve/daemon.h"

static const char help_export[] =
    "usage: tally export [NAME] [--ids] [--events] [--no-wait] [--json]\n"
    "       tally export --list [--json]\n"
    "       tally export --remove NAME [--json]\n"
    "\n"
    "Writes everything a running server holds into its ops.dir, as lines of JSON, each lane as of\n"
    "one moment: cells, definitions, statuses, entity states and the text of the rules. A NAME that\n"
    "ends in .gz or .zst is packed; without NAME it is named after the time. Needs a token with the\n"
    "scope admin.\n"
    "\n"
    "  --ids                event ids and idempotency keys too; the file is then a secret\n"
    "  --events             the retained events and dropped duplicates too\n"
    "  --list               the exports there are\n"
    "  --remove NAME        remove one\n"
    "  --no-wait            print the job and do not wait for it\n" CLIENT_HELP;

static const char help_import[] =
    "usage: tally import NAME [--no-wait] [--json]\n"
    "       tally import NAME --prepare [DIR] [--config FILE] [--set key=value]...\n"
    "\n"
    "Takes an export in ops.dir into a running server. Every cell becomes what the export says,\n"
    "whatever it was, so importing twice is importing once; a damaged file changes nothing. Rule\n"
    "counters that the server has no rules for can be read and do not change. Needs a token with\n"
    "the scope admin.\n"
    "\n"
    "Ids are fingerprints made with a key that each store makes for itself, and events keep the\n"
    "numbers that they were given. For an export with ids or events, start the new server on a\n"
    "directory made with --prepare: it has the export's key, its own numbers begin above the\n"
    "export's, and it has as many lanes as store.lanes says, however many the export is of. With\n"
    "store.kind postgres it makes the schema store.postgres.schema like that, and takes no DIR.\n"
    "\n"
    "  --prepare [DIR]      make an empty data directory, offline, or an empty schema\n"
    "  --config FILE        with --prepare: the server's config, which says where ops.dir is\n"
    "  --set key=value      with --prepare: any setting; may be repeated\n"
    "  --no-wait            print the job and do not wait for it\n" CLIENT_HELP;

struct port_flags {
    struct client_flags client;
    const char *name;
    const char *remove;
    const char *prepare;
    bool prepares; /* without a directory */
    bool ids;
    bool events;
    bool list;
    bool no_wait;
};

static int list(struct client *client)
{
    static const struct bytes names[] = {BYTES("name"), BYTES("madeAt"), BYTES("bytes")};
    client_path(client, "api", "admin", "exports");
    client_query(client, "limit", "10000"); /* more than there will ever be */
    int code = client_send(client, "GET", BYTES_NONE);
    if (code || client->flags->json) return code ? code : client_print(client);
    struct json_value all = client_field(client, "exports");
    struct json_iter each;
    printf("%-32s %-24s %14s\n", "NAME", "MADE", "BYTES");
    for (json_each(&all, &each); json_next(&each);) {
        struct json_value values[ARRAY_COUNT(names)];
        json_pick(&each.value, names, ARRAY_COUNT(names), values);
        client_column(&values[0], -32, " ");
        client_column(&values[1], -24, " ");
        client_column(&values[2], 14, "\n");
    }
    return EXIT_GOOD;
}

static int start(struct client *client, const struct port_flags *flags, const char *what)
{
    struct buf body;
    buf_init(&body, 4096);
    buf_add_char(&body, '{');
    if (flags->name) {
        buf_add(&body, BYTES("\"name\":"));
        buf_add_json(&body, bytes_str(flags->name));
    }
    if (flags->ids) buf_addf(&body, "%s\"ids\":true", flags->name ? "," : "");
    if (flags->events) buf_addf(&body, "%s\"events\":true", flags->name || flags->ids ? "," : "");
    buf_add_char(&body, '}');
    client_path(client, "api", "admin", what);
    int code = client_send(client, "POST", buf_bytes(&body));
    buf_release(&body);
    return code;
}

static int run(struct client *client, const struct port_flags *flags, bool export)
{
    if (flags->list) return list(client);
    if (flags->remove) return client_remove(client, "exports", flags->remove);
    int code = start(client, flags, export ? "exports" : "imports");
    if (code) return code;
    if (flags->no_wait) {
        if (client->flags->json) return client_print(client);
        printf("job %s", client_text(client, "job"));
        printf(", %s\n", client_text(client, "name"));
        return EXIT_GOOD;
    }
    code = client_wait_job(client, client_text(client, "job"));
    if (code || client->flags->json) return code ? code : client_print(client);
    printf("%s %s", export ? "exported" : "imported", client_text(client, "name"));
    printf(": %s lines", client_text(client, "lines"));
    printf(", up to sequence %s\n", client_text(client, "sequence"));
    return EXIT_GOOD;
}

static int run_online(const struct port_flags *flags, const char *command, bool export)
{
    struct client client;
    int code = client_open(&client, command, &flags->client);
    if (!code) code = run(&client, flags, export);
    client_close(&client);
    return code;
}

int cli_export(int argc, char **argv)
{
    struct port_flags flags = {0};
    client_flags_init(&flags.client);
    const struct cli_option options[] = {
        CLIENT_OPTIONS(&flags.client),     {"--ids", NULL, &flags.ids},
        {"--events", NULL, &flags.events}, {"--list", NULL, &flags.list},
        {"--remove", &flags.remove, NULL}, {"--no-wait", NULL, &flags.no_wait}};
    struct cli_arguments arguments = {.command = "export",
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options),
                                      .positional = &flags.name,
                                      .positional_max = 1};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (arguments.help) {
        fputs(help_export, stdout);
        return EXIT_GOOD;
    }
    if ((flags.list || flags.remove) && (flags.name || (flags.list && flags.remove)))
        return cli_usage_error("export", "--list, --remove NAME and NAME exclude each other");
    return run_online(&flags, "export", true);
}

static int prepare_directory(const struct config *config, const struct port_flags *flags)
{
    char dir[TREE_PATH_MAX];
    struct reason why;
    if (!flags->prepare) return cli_usage_error("import", "--prepare needs a value");
    if (tree_path(dir, config->ops_dir, "exports") != ERR_OK)
        return cli_failure("import", "the path of ops.dir is too long");
    if (import_prepare(dir, flags->name, flags->prepare, (unsigned)config->store_lanes, &why) !=
        ERR_OK)
        return cli_failure("import", "%s", why.text);
    printf("%s is empty and can take %s", flags->prepare, flags->name);
    if (config->store_lanes > 1)
        printf("; serve it with store.lanes %lld", (long long)config->store_lanes);
    putchar('\n');
    return EXIT_GOOD;
}

static int prepare(const struct config_source *source, const struct port_flags *flags)
{
    struct config config;
    int code = cli_load_config(source, &config);
    if (!code && config.store_kind != CONFIG_STORE_POSTGRES)
        code = prepare_directory(&config, flags);
    else if (!code && flags->prepare)
        code = cli_usage_error("import", "a store in PostgreSQL has no directory: it is "
                                         "--prepare alone, and store.postgres.schema is made");
    else if (!code)
        code = daemon_prepare(&config, flags->name);
    config_release(&config);
    return code;
}

int cli_import(int argc, char **argv)
{
    struct config_source source = {.environment = (const char *const *)environ};
    struct port_flags flags = {0};
    client_flags_init(&flags.client);
    const struct cli_option options[] = {CLIENT_OPTIONS(&flags.client),
                                         {"--prepare", &flags.prepare, &flags.prepares},
                                         {"--no-wait", NULL, &flags.no_wait}};
    struct cli_arguments arguments = {.command = "import",
                                      .source = &source,
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options),
                                      .positional = &flags.name,
                                      .positional_max = 1};
    int code = cli_parse(&arguments, argc, argv);
    if (!code && arguments.help)
        fputs(help_import, stdout);
    else if (!code && !flags.name)
        code = cli_usage_error("import", "the name of an export is needed");
    else if (!code)
        code = flags.prepare || flags.prepares ? prepare(&source, &flags)
                                               : run_online(&flags, "import", false);
    cli_source_release(&source);
    return code;
}
