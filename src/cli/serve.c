/* serve.c -- `tally serve`: flags and config, then the daemon. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/bearer.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/listen.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "daemon.h"

#define DEV_TENANT "demo"
#define DEV_TOKEN_MS (30 * 24 * 3600 * INT64_C(1000))

static const char help[] =
    "usage: tally serve [--config FILE] [--data DIR] [--listen ADDR:PORT] [--set key=value]...\n"
    "                   [--dev]\n"
    "\n"
    "Runs the server until SIGTERM or SIGINT, then finishes what is queued and exits 0. SIGHUP\n"
    "reloads the config's keys and rules. Prints `tally ready on http://ADDR:PORT` once it serves.\n"
    "\n"
    "  --config FILE        settings in YAML; see `tally help settings`\n"
    "  --data DIR           where the counters are kept (default ./data)\n"
    "  --listen ADDR:PORT   where to serve (default 127.0.0.1:8787); port 0 picks a free one\n"
    "  --set key=value      any setting, such as --set limits.queueOps=1000; may be repeated\n"
    "  --dev                try it: makes up a secret if none is set, serves this machine only\n"
    "                       and prints a token for tenant demo\n"
    "\n"
    "Each setting can also be given in the environment, such as TALLY_AUTH_JWTSECRET.\n";

/* The folder of this very program: a reader who has just built it has it nowhere in PATH. */
static void print_path(FILE *out)
{
    char program[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", program, sizeof program - 1);
    if (size <= 0) return;
    program[size] = '\0';
    char *end = strrchr(program, '/');
    if (end) fprintf(out, " PATH='%.*s':$PATH", (int)(end - program), program);
}

void cli_print_dev_hints(FILE *out, const char *url, const char *token)
{
    fprintf(out,
            "\nDashboard: open %s/ and paste this token of the tenant " DEV_TENANT ":\n\n  %s\n\n"
            "Command line, in another terminal; watch the dashboard meanwhile:\n\n"
            "  export TALLY_URL=%s TALLY_TOKEN=%s",
            url, token, url, token);
    print_path(out);
    fprintf(out, "\n  tally inc hello --duration 1m\n\n"
                 "With curl, after the export above:\n\n"
                 "  curl $TALLY_URL/api/counters/" DEV_TENANT "/hello/increment \\\n"
                 "    -H \"Authorization: Bearer $TALLY_TOKEN\" \\\n"
                 "    -d '{\"durationSeconds\":60,\"timestamp\":'$(date +%%s)'}'\n\n"
                 "Ctrl-C stops the server. What was counted stays.\n");
    fflush(out);
}

static void print_hints(void *context, const char *url)
{
    cli_print_dev_hints(stdout, url, context);
}

static char *dev_token(const struct config *config)
{
    int64_t now_ms = clock_wall_ms(&clock_system);
    struct bearer_claims claims = {
        .tenant = DEV_TENANT,
        .scope = scope_text(SCOPE_DEFAULT),
        .issued_ms = now_ms,
        .expires_ms = now_ms + DEV_TOKEN_MS,
        .issuer = config->auth_issuer,
        .audience = config->auth_audience,
    };
    return bearer_sign(config->auth_jwt_secret, &claims);
}

static int serve_dev(const struct config *config, struct daemon_options *options)
{
    struct listen listen;
    must(listen_parse(bytes_str(config->listen), &listen));
    if (!listen.loopback)
        return cli_failure("serve",
                           "--dev serves this machine only, and %s is not a loopback address",
                           config->listen);
    char *token = dev_token(config);
    if (!token) return cli_failure("serve", "auth.issuer or auth.audience is not valid UTF-8");
    options->ready = print_hints;
    options->context = token;
    int code = daemon_run(config, options);
    free(token);
    return code;
}

static int serve(const struct config *config, const struct config_source *source, bool dev)
{
    struct daemon_options options = {.source = source};
    heap_keep();
    if (dev) return serve_dev(config, &options);
    if (!config_has_auth(config))
        return cli_failure("serve", CLI_NO_AUTH "; or try it with --dev.");
    return daemon_run(config, &options);
}

int cli_serve(int argc, char **argv)
{
    struct config_source source = {.environment = (const char *const *)environ};
    bool dev = false;
    const struct cli_option options[] = {
        {"--data", &source.data, NULL},
        {"--listen", &source.listen, NULL},
        {"--dev", NULL, &dev},
    };
    struct cli_arguments arguments = {.command = "serve",
                                      .source = &source,
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options)};
    struct config config = {0};
    char secret[CLI_SECRET_SIZE];
    int code = cli_parse(&arguments, argc, argv);
    if (code) goto out;
    if (arguments.help) {
        fputs(help, stdout);
        goto out;
    }
    if (dev) {
        cli_random_secret(secret);
        source.fallback_secret = secret;
    }
    code = cli_load_config(&source, &config);
    if (!code) code = serve(&config, &source, dev);
out:
    config_release(&config);
    cli_source_release(&source);
    return code;
}
