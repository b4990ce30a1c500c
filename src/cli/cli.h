/* cli.h -- the subcommands, one file each, and what they share.
 *
 * A subcommand gets its own name as argv[0] and returns the process's exit code. */
#ifndef TALLY_CLI_CLI_H
#define TALLY_CLI_CLI_H

#include <stdio.h>

#include "base/version.h"
#include "config/config.h"

enum exit_code {
    EXIT_GOOD = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
};

/* A row of the table in main.c. */
struct cli_command {
    const char *name;
    int (*run)(int argc, char **argv); /* NULL: a heading */
    const char *summary;
};

extern const struct cli_command cli_commands[];
extern const unsigned cli_commands_count;

/* `tally help TOPIC` */
struct cli_topic {
    const char *name;
    int (*print)(void);
    const char *summary;
};

extern const struct cli_topic cli_topics[];
extern const unsigned cli_topics_count;

int cli_serve(int argc, char **argv);
int cli_check_config(int argc, char **argv);
int cli_token(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_completion(int argc, char **argv);
int cli_inc(int argc, char **argv);
int cli_dec(int argc, char **argv);
int cli_set(int argc, char **argv);
int cli_get(int argc, char **argv);
int cli_sum(int argc, char **argv);
int cli_series(int argc, char **argv);
int cli_event(int argc, char **argv);
int cli_ingest(int argc, char **argv);
int cli_top(int argc, char **argv);
int cli_clock(int argc, char **argv);
int cli_followers(int argc, char **argv);
int cli_lanes(int argc, char **argv);
int cli_migrate(int argc, char **argv);
int cli_rebuild(int argc, char **argv);
int cli_reconcile(int argc, char **argv);
int cli_backup(int argc, char **argv);
int cli_export(int argc, char **argv);
int cli_import(int argc, char **argv);
int cli_import_redis(int argc, char **argv);
int cli_restore(int argc, char **argv);
int cli_verify(int argc, char **argv);

/* `tally help`: topics "errors", "settings" and "openapi", or a command's name. */
int cli_help_errors(void);
int cli_help_settings(void);
int cli_help_man(void);
int cli_help_openapi(void);

/* Prints "tally COMMAND: sentence" and where to find help on stderr; returns EXIT_USAGE. */
int cli_usage_error(const char *command, const char *format, ...) PRINTF_LIKE(2, 3);

/* Prints "tally COMMAND: sentence" on stderr; returns EXIT_FAILED. */
int cli_failure(const char *command, const char *format, ...) PRINTF_LIKE(2, 3);

/* Moves what must stay secret (--token, --set auth.jwtSecret=) out of the arguments, which every
 * user of the machine can list, and writes stars there. The copies live as long as the process. */
void cli_hide_secrets(int argc, char **argv);

/* One option of a command: "--name value", or "--name" alone when `flag` is given. With both, the
 * value may be left out where the option is the last word or another option follows. */
struct cli_option {
    const char *name; /* with its dashes */
    const char **value;
    bool *flag;
};

/* The values of an option that may be repeated. */
#define CLI_LIST_MAX 64
struct cli_list {
    const char *items[CLI_LIST_MAX];
    unsigned count;
};

/* What parsing found besides options. */
struct cli_arguments {
    const char *command;
    struct config_source *source; /* --config and --set go here; NULL: not taken */
    const struct cli_option *options;
    unsigned options_count;
    const char *repeated; /* an option that may be there many times, such as --dim; NULL: none */
    struct cli_list *repeated_list;
    const char **positional; /* what is not an option */
    unsigned positional_max;
    unsigned positional_count; /* out */
    bool help;                 /* out: --help or -h was there */
};

/* Takes "--name value" and "--name=value" in any order; "--" ends options. EXIT_GOOD, or
 * EXIT_USAGE after saying what is wrong. */
MUST_USE int cli_parse(struct cli_arguments *arguments, int argc, char **argv);

/* The message about a server that has nothing to check tokens against. */
#define CLI_NO_AUTH                                                                       \
    "there is nothing to check tokens against. Set auth.jwtSecret (32 bytes or more, or " \
    "TALLY_AUTH_JWTSECRET), auth.jwtPublicKeyFile or auth.keys"

/* Loads the config and prints what is wrong with it. EXIT_GOOD, EXIT_FAILED, or EXIT_USAGE if only
 * the command line is wrong; release the config and the source's sets either way. */
MUST_USE int cli_load_config(const struct config_source *source, struct config *config_out);
void cli_source_release(struct config_source *source);

#endif
