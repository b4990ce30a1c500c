/* check_config.c -- `tally check-config FILE`: would it start, and with what? */
#include <unistd.h>

#include "api/auth/auth.h"
#include "cli/cli.h"

static const char help[] =
    "usage: tally check-config [--set key=value]... FILE\n"
    "\n"
    "Reads the config as `tally serve --config FILE` would, environment included. If it is good,\n"
    "prints every setting in force and what was understood of the rules, and exits 0; secrets are\n"
    "shown as \"(set)\". Else prints what is wrong, with line and column, and exits 1. A secret\n"
    "may be somewhere else than the config is checked, so that one is missing is only a warning.\n"
    "\n"
    "  --set key=value  any setting, as for `tally serve`; may be repeated\n";

/* Looks at what only shows when tokens are checked: the public key's file. */
static int check_auth(const struct config *config)
{
    char error[512];
    struct auth *auth;
    if (auth_new(&auth, config, error, sizeof error) != ERR_OK)
        return cli_failure("check-config", "%s", error);
    auth_free(auth);
    return EXIT_GOOD;
}

static void print_config(const struct config *config)
{
    struct buf text;
    buf_init(&text, CONFIG_TEXT_SIZE_MAX);
    config_write(config, &text);
    must(!text.failed);
    fwrite(text.data, 1, text.size, stdout);
    buf_release(&text);
}

static int check(const struct config_source *source)
{
    struct config config;
    int code = cli_load_config(source, &config);
    if (!code) code = check_auth(&config);
    if (!code) print_config(&config);
    if (!code && !config_has_auth(&config))
        cli_failure("check-config",
                    "warning: as it is here, `tally serve` would refuse to start: " CLI_NO_AUTH
                    ".");
    config_release(&config);
    return code;
}

int cli_check_config(int argc, char **argv)
{
    struct config_source source = {.environment = (const char *const *)environ};
    struct cli_arguments arguments = {.command = "check-config",
                                      .source = &source,
                                      .positional = &source.file,
                                      .positional_max = 1};
    int code = cli_parse(&arguments, argc, argv);
    if (!code && arguments.help)
        fputs(help, stdout);
    else if (!code && !source.file)
        code = cli_usage_error("check-config", "which file?");
    else if (!code)
        code = check(&source);
    cli_source_release(&source);
    return code;
}
