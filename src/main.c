/* main.c -- the subcommand table and the loop over it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* Rows without a function are the headings of `tally help`. Completions and the man page are made
 * from this table and what each command prints for --help; see cli/manual.h. */
const struct cli_command cli_commands[] = {
    {"", NULL, "The server"},
    {"serve", cli_serve, "run the server"},
    {"check-config", cli_check_config, "say what is wrong with a config, or what it means"},
    {"token", cli_token, "print a bearer token"},
    {"", NULL, "Counting"},
    {"inc", cli_inc, "add to a counter"},
    {"dec", cli_dec, "take from a counter"},
    {"set", cli_set, "make a counter hold a value"},
    {"get", cli_get, "what a counter holds"},
    {"sum", cli_sum, "the sum over a range of time"},
    {"series", cli_series, "the buckets of a range of time"},
    {"event", cli_event, "send one event"},
    {"ingest", cli_ingest, "send a file of events or operations"},
    {"", NULL, "Operating"},
    {"top", cli_top, "watch a server at work"},
    {"followers", cli_followers, "what a server is in its group, and who follows it"},
    {"lanes", cli_lanes, "how far each lane of a server is, and what waits in it"},
    {"rebuild", cli_rebuild, "recount a counter from the retained events"},
    {"reconcile", cli_reconcile, "compare counters with the records they count"},
    {"backup", cli_backup, "back a running server up; list and remove backups"},
    {"restore", cli_restore, "make a data directory of a backup"},
    {"export", cli_export, "everything a running server holds, as lines of JSON"},
    {"import", cli_import, "take an export into a running server"},
    {"import-redis", cli_import_redis, "take the counters of a Redis into a running server"},
    {"verify", cli_verify, "read everything again and say whether it is whole"},
    {"migrate", cli_migrate, "make or upgrade the tables of a store in PostgreSQL"},
    {"clock", cli_clock, "what time a server goes by; say that its clock is right"},
    {"bench", cli_bench, "load a running server and say how fast it is"},
    {"completion", cli_completion, "a script that completes commands in your shell"},
};
const unsigned cli_commands_count = ARRAY_COUNT(cli_commands);

const struct cli_topic cli_topics[] = {
    {"settings", cli_help_settings, "every setting, as a config file"},
    {"errors", cli_help_errors, "every error a reply can carry"},
    {"openapi", cli_help_openapi, "the HTTP API as an OpenAPI 3.1 document"},
    {"man", cli_help_man, "the man page, as mdoc"},
};
const unsigned cli_topics_count = ARRAY_COUNT(cli_topics);

static void print_usage(FILE *out)
{
    fputs("tally counts things exactly once and never loses a count.\n\n"
          "usage: tally COMMAND [options]\n",
          out);
    for (unsigned i = 0; i < cli_commands_count; i++) {
        const struct cli_command *command = &cli_commands[i];
        if (command->run)
            fprintf(out, "  %-14s %s\n", command->name, command->summary);
        else
            fprintf(out, "\n%s\n", command->summary);
    }
    fputs("\nHelp\n  help COMMAND   the same as COMMAND --help\n", out);
    for (unsigned i = 0; i < cli_topics_count; i++)
        fprintf(out, "  help %-9s %s\n", cli_topics[i].name, cli_topics[i].summary);
    fputs("  --version      which version this is\n\n"
          "Try it: tally serve --dev\n",
          out);
}

static const struct cli_command *find_command(const char *name)
{
    for (unsigned i = 0; i < cli_commands_count; i++)
        if (cli_commands[i].run && strcmp(cli_commands[i].name, name) == 0) return &cli_commands[i];
    return NULL;
}

static const struct cli_topic *find_topic(const char *name)
{
    for (unsigned i = 0; i < cli_topics_count; i++)
        if (strcmp(cli_topics[i].name, name) == 0) return &cli_topics[i];
    return NULL;
}

static int unknown(const char *what, const char *name)
{
    fprintf(stderr, "tally: there is no %s \"%s\". See `tally help`.\n", what, name);
    return EXIT_USAGE;
}

static int help(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stdout);
        return EXIT_GOOD;
    }
    const struct cli_topic *topic = find_topic(argv[1]);
    if (topic) return topic->print();
    const struct cli_command *command = find_command(argv[1]);
    char flag[] = "--help";
    char *arguments[] = {argv[1], flag, NULL};
    return command ? command->run(2, arguments) : unknown("help on", argv[1]);
}

static int run(int argc, char **argv)
{
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        puts("tally " TALLY_VERSION);
        return EXIT_GOOD;
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help(argc - 1, argv + 1);
    const struct cli_command *command = find_command(name);
    return command ? command->run(argc - 1, argv + 1) : unknown("command", name);
}

/* A shell's `>&-` leaves a descriptor free that the next socket or file would take, and what is
 * printed would go there. */
static bool standard_streams_open(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= 2);
    if (fd < 0) return false;
    close(fd);
    return true;
}

/* What did not reach the reader is not success: a script would go on with half a file. */
static int finish(int code)
{
    bool lost = ferror(stdout) != 0;
    if (fflush(stdout) == 0 && !lost) return code;
    fprintf(stderr, "tally: the output could not be written: %s\n", strerror(errno));
    return code ? code : EXIT_FAILED;
}

int main(int argc, char **argv)
{
    if (!standard_streams_open()) return EXIT_FAILED;
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    cli_hide_secrets(argc, argv);
    return finish(run(argc, argv));
}
