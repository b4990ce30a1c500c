/* main.c -- the subcommand table and the loop over it. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} commands[] = {
    {"serve", cli_serve, "run the server"},
    {"check-config", cli_check_config, "say what is wrong with a config, or what it means"},
    {"token", cli_token, "print a bearer token"},
    {"inc", cli_inc, "add to a counter"},
    {"dec", cli_dec, "take from a counter"},
    {"set", cli_set, "make a counter hold a value"},
    {"bench", cli_bench, "load a running server and say how fast it is"},
};

static void print_usage(FILE *out)
{
    fputs("tally counts things exactly once and never loses a count.\n\n"
          "usage: tally COMMAND [options]\n\n",
          out);
    for (unsigned i = 0; i < ARRAY_COUNT(commands); i++)
        fprintf(out, "  %-14s %s\n", commands[i].name, commands[i].summary);
    fputs("\n  help COMMAND   the same as COMMAND --help\n"
          "  help settings  every setting, as a config file\n"
          "  help errors    every error a reply can carry\n"
          "  help openapi   the HTTP API as an OpenAPI 3.1 document\n"
          "  --version      which version this is\n\n"
          "Try it: tally serve --dev\n",
          out);
}

static const struct command *find(const char *name)
{
    for (unsigned i = 0; i < ARRAY_COUNT(commands); i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
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
    if (strcmp(argv[1], "errors") == 0) return cli_help_errors();
    if (strcmp(argv[1], "openapi") == 0) return cli_help_openapi();
    if (strcmp(argv[1], "settings") == 0) return cli_help_settings();
    const struct command *command = find(argv[1]);
    char flag[] = "--help";
    char *arguments[] = {argv[1], flag, NULL};
    return command ? command->run(2, arguments) : unknown("help on", argv[1]);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "version") == 0) {
        puts("tally " TALLY_VERSION);
        return EXIT_GOOD;
    }
    if (strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help(argc - 1, argv + 1);
    const struct command *command = find(name);
    return command ? command->run(argc - 1, argv + 1) : unknown("command", name);
}
