/* lanes.c -- `tally lanes`: the lanes of a running server, a line each. */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/client.h"

static const char help[] =
    "usage: tally lanes [--json]\n"
    "\n"
    "A lane is one journal with one writer, and each tenant belongs to one of them (store.lanes).\n"
    "Shows how far each one is, what waits in it and what it takes. Lanes that have the same rules\n"
    "show the same letters under RULES. Needs a token with the scope admin.\n"
    "\n" CLIENT_HELP;

enum {
    LANE,
    WRITABLE,
    SUSPECT,
    SETTLING,
    SEQUENCE,
    APPLIED,
    QUEUE,
    WAITING,
    IDS,
    RULES,
    JOURNAL,
    STATE,
    ARCHIVE,
    DIRECTORY,
    DATABASE,
    STANDBY_SEQUENCE,
    STANDBY_LAG,
    COLUMNS
};
static const struct bytes names[COLUMNS] = {
    [LANE] = BYTES("lane"),
    [WRITABLE] = BYTES("writable"),
    [SUSPECT] = BYTES("clockSuspect"),
    [SETTLING] = BYTES("clockSettling"),
    [SEQUENCE] = BYTES("sequence"),
    [APPLIED] = BYTES("appliedSequence"),
    [QUEUE] = BYTES("queueOps"),
    [WAITING] = BYTES("waitingMs"),
    [IDS] = BYTES("ids"),
    [RULES] = BYTES("rules"),
    [JOURNAL] = BYTES("journalBytes"),
    [STATE] = BYTES("stateBytes"),
    [ARCHIVE] = BYTES("archiveBytes"),
    [DIRECTORY] = BYTES("directory"),
    [DATABASE] = BYTES("database"),
    [STANDBY_SEQUENCE] = BYTES("standbySequence"),
    [STANDBY_LAG] = BYTES("standbyLagMs"),
};

static bool is_true(const struct json_value *value)
{
    return value->type == JSON_BOOL && value->boolean;
}

/* The state is what an operator looks for first. */
static const char *state_of(const struct json_value *values)
{
    if (!is_true(&values[WRITABLE])) return "CANNOT WRITE";
    if (is_true(&values[SUSPECT])) return "clock suspect";
    return is_true(&values[SETTLING]) ? "ok, settling" : "ok";
}

static double number_of(const struct json_value *value)
{
    return value->type == JSON_STRING ? strtod(value->string.data, NULL) : 0;
}

/* Shows enough of it to tell two apart. */
static void print_rules(const struct json_value *rules)
{
    struct bytes name = BYTES("digest");
    struct json_value digest;
    json_pick(rules, &name, 1, &digest);
    if (digest.type == JSON_STRING && digest.string.size > 8) digest.string.size = 8;
    client_column(&digest, -9, " ");
}

/* A directory, or a database and how far its standby is behind. */
static void print_place(const struct json_value *values)
{
    bool remote = values[DATABASE].type == JSON_STRING;
    client_column(&values[remote ? DATABASE : DIRECTORY], 0, "");
    if (values[STANDBY_LAG].type == JSON_INT)
        printf(", standby %.1f s behind, at %.*s", (double)values[STANDBY_LAG].integer / 1e3,
               (int)values[STANDBY_SEQUENCE].string.size, values[STANDBY_SEQUENCE].string.data);
    printf("\n");
}

static void print_lane(const struct json_value *lane)
{
    struct json_value values[COLUMNS];
    json_pick(lane, names, COLUMNS, values);
    double bytes =
        number_of(&values[JOURNAL]) + number_of(&values[STATE]) + number_of(&values[ARCHIVE]);
    printf("%4" PRId64 "  %-13s ", values[LANE].integer, state_of(values));
    client_column(&values[SEQUENCE], 14, " ");
    client_column(&values[APPLIED], 14, " ");
    printf("%8" PRId64 " %8" PRId64 " ", values[QUEUE].integer, values[WAITING].integer);
    client_column(&values[IDS], 14, "  ");
    print_rules(&values[RULES]);
    printf("%9.1f  ", bytes / (1 << 20));
    print_place(values);
}

static int show(struct client *client)
{
    client_path(client, "api", "admin", "lanes");
    client_query(client, "limit", "10000"); /* more than there can be */
    int code = client_send(client, "GET", BYTES_NONE);
    if (code || client->flags->json) return code ? code : client_print(client);
    struct json_value all = client_field(client, "lanes");
    struct json_iter each;
    printf("%4s  %-13s %14s %14s %8s %8s %14s  %-9s %9s  %s\n", "LANE", "STATE", "SEQUENCE",
           "APPLIED", "QUEUED", "WAIT MS", "IDS", "RULES", "DISK MIB", "WHERE");
    for (json_each(&all, &each); json_next(&each);)
        print_lane(&each.value);
    return EXIT_GOOD;
}

int cli_lanes(int argc, char **argv)
{
    struct client_flags flags;
    struct client client;
    client_flags_init(&flags);
    const struct cli_option options[] = {CLIENT_OPTIONS(&flags)};
    struct cli_arguments arguments = {
        .command = "lanes", .options = options, .options_count = ARRAY_COUNT(options)};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (arguments.help) {
        fputs(help, stdout);
        return EXIT_GOOD;
    }
    code = client_open(&client, "lanes", &flags);
    if (!code) code = show(&client);
    client_close(&client);
    return code;
}
