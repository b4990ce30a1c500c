/* token.c -- `tally token`: a bearer token signed with the configured secret. */
#include <stdlib.h>
#include <unistd.h>

#include "api/auth/bearer.h"
#include "base/clock.h"
#include "base/duration.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/secret.h"
#include "core/name.h"

#define TTL_MS_MAX (3650 * 24 * 3600 * INT64_C(1000))

static const char help[] =
    "usage: tally token --tenant T [--scope \"read write\"] [--ttl 1h] [--config FILE]\n"
    "                   [--data DIR] [--set key=value]...\n"
    "\n"
    "Prints an HS256 token for the tenant, signed with auth.jwtSecret from the config file, --set\n"
    "or the environment (TALLY_AUTH_JWTSECRET). Where none of them says one, it is looked for: what\n"
    "`serve --dev` keeps in its data directory, then the installed server's, in /etc/tally/tally.yaml\n"
    "or /etc/tally.yaml and the tally.env beside it, which only root may read.\n"
    "\n"
    "  --tenant T       whose token it is\n"
    "  --scope WORDS    of read, write and admin (default \"read write\")\n"
    "  --ttl DURATION   how long it is good, from 1s to 3650d (default 1h)\n"
    "  --config FILE    the server's config, if it has one\n"
    "  --data DIR       the data directory of a `serve --dev` (default ./data)\n"
    "  --set key=value  any setting; may be repeated\n";

struct token_flags {
    const char *tenant;
    const char *scope;
    const char *ttl;
};

/* There is nothing to sign with: says where it was looked for, and what may be done about it. */
static int nothing_found(const struct config_source *source, const struct config *config,
                         const struct secret_place *place)
{
    if (place->denied[0])
        return cli_failure("token", "%s may not be read: try it as root (sudo tally token ..)",
                           place->denied);
    if (source->file)
        return cli_failure("token",
                           "auth.jwtSecret is not set in %s, so there is nothing to sign with",
                           source->file);
    return cli_failure("token",
                       "auth.jwtSecret is not set, so there is nothing to sign with. It was looked "
                       "for in the environment (TALLY_AUTH_JWTSECRET), in %s (serve --dev) and in "
                       "/etc/tally; --config FILE names another config",
                       config->data);
}

static int print_token(const struct config *config, struct bearer_claims *claims)
{
    claims->issuer = config->auth_issuer;
    claims->audience = config->auth_audience;
    char *token = bearer_sign(config->auth_jwt_secret, claims);
    if (!token) return cli_failure("token", "auth.issuer or auth.audience is not valid UTF-8");
    puts(token);
    free(token);
    return EXIT_GOOD;
}

static int sign(const struct config_source *source, struct bearer_claims *claims)
{
    struct config config;
    struct secret_place place;
    int code = secret_load_config(source, secret_installed, &config, &place);
    if (!code && place.found[0])
        fprintf(stderr, "tally token: signed with the secret in %s\n", place.found);
    if (!code)
        code = config.auth_jwt_secret[0] ? print_token(&config, claims)
                                         : nothing_found(source, &config, &place);
    config_release(&config);
    return code;
}

static int make(const struct config_source *source, const struct token_flags *flags)
{
    int64_t ttl_ms;
    struct bytes unknown;
    if (!flags->tenant) return cli_usage_error("token", "--tenant is needed");
    if (!name_valid(bytes_str(flags->tenant)))
        return cli_usage_error("token", "a tenant is 1 to 255 of A-Z a-z 0-9 _ . ~ -");
    scope_parse(bytes_str(flags->scope), &unknown);
    if (unknown.data)
        return cli_usage_error("token", "unknown scope \"%.*s\"; there are read, write and admin",
                               (int)unknown.size, unknown.data);
    if (!duration_parse(bytes_str(flags->ttl), &ttl_ms) || ttl_ms < 1000 || ttl_ms > TTL_MS_MAX)
        return cli_usage_error("token", "--ttl must be a duration from 1s to 3650d");
    int64_t now_ms = clock_wall_ms(&clock_system);
    struct bearer_claims claims = {.tenant = flags->tenant,
                                   .scope = flags->scope,
                                   .issued_ms = now_ms,
                                   .expires_ms = now_ms + ttl_ms};
    return sign(source, &claims);
}

int cli_token(int argc, char **argv)
{
    struct config_source source = {.environment = (const char *const *)environ};
    struct token_flags flags = {.scope = "read write", .ttl = "1h"};
    const struct cli_option options[] = {
        {"--tenant", &flags.tenant, NULL},
        {"--scope", &flags.scope, NULL},
        {"--ttl", &flags.ttl, NULL},
        {"--data", &source.data, NULL},
    };
    struct cli_arguments arguments = {.command = "token",
                                      .source = &source,
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options)};
    int code = cli_parse(&arguments, argc, argv);
    if (!code && arguments.help)
        fputs(help, stdout);
    else if (!code)
        code = make(&source, &flags);
    cli_source_release(&source);
    return code;
}
