/* migrate.c -- `tally migrate`: the schema of a store in PostgreSQL, made or brought up to date. */
#include <unistd.h>

#include "cli/cli.h"
#include "serve/daemon.h"

static const char help[] =
    "usage: tally migrate [--citus] [--config FILE] [--set key=value]...\n"
    "\n"
    "For store.kind postgres: makes the tables in the schema store.postgres.schema, or brings those\n"
    "of an earlier tally up to date, and says what is there then. It is all done or nothing is. A\n"
    "server makes the tables where there are none, and never changes those that are there.\n"
    "\n"
    "  --citus          tables that are made are dealt out by lane over the workers of a Citus cluster\n"
    "  --config FILE    settings in YAML; see `tally help settings`\n"
    "  --set key=value  any setting, such as --set store.postgres.dsn=env:TALLY_DSN; repeatable\n";

static int migrate(const struct config_source *source, bool citus)
{
    struct config config;
    int code = cli_load_config(source, &config);
    if (!code && config.store_kind != CONFIG_STORE_POSTGRES)
        code = cli_failure("migrate", "store.kind is not postgres: there is no schema to make.");
    else if (!code)
        code = daemon_migrate(&config, citus);
    config_release(&config);
    return code;
}

int cli_migrate(int argc, char **argv)
{
    struct config_source source = {.environment = (const char *const *)environ};
    bool citus = false;
    const struct cli_option options[] = {{"--citus", NULL, &citus}};
    struct cli_arguments arguments = {.command = "migrate",
                                      .source = &source,
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options)};
    int code = cli_parse(&arguments, argc, argv);
    if (!code && arguments.help)
        fputs(help, stdout);
    else if (!code)
        code = migrate(&source, citus);
    cli_source_release(&source);
    return code;
}
