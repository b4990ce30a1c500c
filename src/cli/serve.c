/* serve.c -- `tally serve`: flags and config, then the daemon. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/auth/bearer.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/listen.h"
#include "base/scope.h"
#include "cli/cli.h"
#include "cli/secret.h"
#include "serve/daemon.h"

#define DEV_TENANT "demo"
#define DEV_RESP "127.0.0.1:6780"
#define DEV_TOKEN_MS (30 * 24 * 3600 * INT64_C(1000))

static const char help[] =
    "usage: tally serve [--config FILE] [--data DIR] [--listen ADDR:PORT] [--set key=value]...\n"
    "                   [--follow URL] [--dev]\n"
    "\n"
    "Runs the server until SIGTERM or SIGINT, then finishes what is queued and exits 0. SIGHUP\n"
    "reloads the config's keys and rules. Prints `tally ready on http://ADDR:PORT` once it serves.\n"
    "\n"
    "  --config FILE        settings in YAML; see `tally help settings`\n"
    "  --data DIR           where the counters are kept (default ./data)\n"
    "  --listen ADDR:PORT   where to serve (default 127.0.0.1:8787); port 0 picks a free one\n"
    "  --follow URL         copy the server there and follow it (follow.url; the token it asks for is\n"
    "                       follow.token): a standby that reads, and hands writes on\n"
    "  --set key=value      any setting, such as --set limits.queueOps=1000; may be repeated\n"
    "  --dev                try it: makes up a secret if none is set and keeps it in the data\n"
    "                       directory, serves this machine only, prints a link that signs in as\n"
    "                       tenant demo, a token for the command line and one for operators\n"
    "\n"
    "Each setting can also be given in the environment, such as TALLY_AUTH_JWTSECRET.\n";

/* The path of this program: a reader who has just built it does not have it in PATH. */
static bool find_program(char path_out[PATH_MAX])
{
    ssize_t size = readlink("/proc/self/exe", path_out, PATH_MAX - 1);
    path_out[size > 0 ? size : 0] = '\0';
    return size > 0 && strrchr(path_out, '/');
}

static void print_path(FILE *out)
{
    char program[PATH_MAX];
    if (!find_program(program)) return;
    fprintf(out, " PATH='%.*s':$PATH", (int)(strrchr(program, '/') - program), program);
}

/* Adds a word for a shell, with its path made whole, so that it can be pasted anywhere. */
static void add_path(struct buf *command, const char *path)
{
    char whole[PATH_MAX];
    bool plain = true;
    if (!realpath(path, whole)) snprintf(whole, sizeof whole, "%s", path);
    for (const char *at = whole; *at; at++)
        plain = plain && (isalnum((unsigned char)*at) || strchr("/._-+", *at));
    if (plain) {
        buf_addf(command, "%s", whole);
        return;
    }
    buf_add_char(command, '\'');
    for (const char *at = whole; *at; at++)
        buf_addf(command, *at == '\'' ? "'\\''" : "%c", *at);
    buf_add_char(command, '\'');
}

/* Adds the command with which `tally token` finds the secret that --dev made up. */
static void add_token_command(struct buf *command, const struct config *config,
                              const struct config_source *source)
{
    char program[PATH_MAX];
    add_path(command, find_program(program) ? program : "tally");
    buf_add(command, BYTES(" token --tenant " DEV_TENANT));
    if (source->file) {
        buf_add(command, BYTES(" --config "));
        add_path(command, source->file);
    }
    buf_add(command, BYTES(" --data "));
    add_path(command, config->data);
    buf_add_char(command, '\0');
}

/* True for a secret that was not set and would be gone with the process: it is kept in a file. */
static bool is_made_up(const struct config *config, const struct config_source *source)
{
    return config->store_kind != CONFIG_STORE_MEMORY &&
           strcmp(config->auth_jwt_secret, source->fallback_secret) == 0;
}

struct dev_tokens {
    char *tenant;
    char *admin;
};

/* Two servers on one machine have one port for Redis's protocol between them: what is shown must
 * not lead to the other one. */
static void print_redis_hint(unsigned port)
{
    if (port)
        printf("With redis-cli, after the export above:\n\n"
               "  redis-cli -p %u --no-auth-warning -a $TALLY_TOKEN incr page:home\n\n",
               port);
}

static void print_hints(void *context, const char *url, unsigned resp_port)
{
    const struct dev_tokens *tokens = context;
    printf("\nDashboard, signed in as the tenant " DEV_TENANT ":\n\n"
           "  %s/#token=%s\n\n"
           "Command line, in another terminal; watch the dashboard meanwhile:\n\n"
           "  export TALLY_URL=%s TALLY_TOKEN=%s",
           url, tokens->tenant, url, tokens->tenant);
    print_path(stdout);
    printf("\n  tally inc hello --duration 1m\n\n"
           "With curl, after the export above:\n\n"
           "  curl $TALLY_URL/api/counters/" DEV_TENANT "/hello/increment \\\n"
           "    -H \"Authorization: Bearer $TALLY_TOKEN\" \\\n"
           "    -d '{\"durationSeconds\":60,\"timestamp\":'$(date +%%s)'}'\n\n");
    print_redis_hint(resp_port);
    printf(
        "What operators do, such as `tally backup`, wants a token of scope admin:\n\n"
        "  export TALLY_TOKEN=%s\n\n"
        "Both are good for 30 days, over restarts too. Ctrl-C stops the server. What was counted "
        "stays.\n",
        tokens->admin);
    fflush(stdout);
}

static char *dev_token(const struct config *config, const char *scope)
{
    int64_t now_ms = clock_wall_ms(&clock_system);
    struct bearer_claims claims = {
        .tenant = DEV_TENANT,
        .scope = scope,
        .issued_ms = now_ms,
        .expires_ms = now_ms + DEV_TOKEN_MS,
        .issuer = config->auth_issuer,
        .audience = config->auth_audience,
    };
    return bearer_sign(config->auth_jwt_secret, &claims);
}

/* What of `listen` and `resp.listen` other machines can reach, or NULL. */
static const char *reachable_by_others(const struct config *config)
{
    const char *const addresses[] = {config->listen, config->resp_listen};
    for (size_t i = 0; i < ARRAY_COUNT(addresses); i++) {
        struct listen listen;
        if (!addresses[i][0]) continue;
        must(listen_parse(bytes_str(addresses[i]), &listen));
        if (!listen.loopback) return addresses[i];
    }
    return NULL;
}

static int serve_dev(const struct config *config, const struct config_source *source)
{
    const char *others = reachable_by_others(config);
    if (others)
        return cli_failure(
            "serve", "--dev serves this machine only, and %s is not a loopback address", others);
    struct dev_tokens tokens = {.tenant = dev_token(config, scope_text(SCOPE_DEFAULT)),
                                .admin = dev_token(config, scope_text(SCOPE_ADMIN))};
    struct buf command;
    buf_init(&command, 16 * PATH_MAX);
    add_token_command(&command, config, source);
    const struct daemon_options options = {
        .source = source,
        .ready = print_hints,
        .resp_if_free = strcmp(config->resp_listen, DEV_RESP) == 0,
        .context = &tokens,
        .token_command = is_made_up(config, source) && !command.failed ? command.data : NULL,
    };
    int code = tokens.tenant && tokens.admin
                   ? daemon_run(config, &options)
                   : cli_failure("serve", "auth.issuer or auth.audience is not valid UTF-8");
    buf_release(&command);
    free(tokens.tenant);
    free(tokens.admin);
    return code;
}

static int serve(const struct config *config, const struct config_source *source, bool dev)
{
    const struct daemon_options options = {.source = source};
    heap_keep();
    if (dev) return serve_dev(config, source);
    if (!config_has_auth(config))
        return cli_failure("serve", CLI_NO_AUTH "; or try it with --dev.");
    return daemon_run(config, &options);
}

/* Keeps the secret that was made up, so that tokens are still good after a restart. */
static int keep_secret(const struct config *config, const struct config_source *source,
                       char secret[SECRET_SIZE])
{
    if (!is_made_up(config, source)) return EXIT_GOOD;
    if (secret_keep(config->data, secret) != ERR_OK)
        return cli_failure("serve", "cannot keep the secret of --dev in %s: %s", config->data,
                           strerror(errno));
    must(strlen(config->auth_jwt_secret) == strlen(secret));
    memcpy(config->auth_jwt_secret, secret, SECRET_SIZE);
    return EXIT_GOOD;
}

int cli_serve(int argc, char **argv)
{
    struct config_source source = {.environment = (const char *const *)environ};
    bool dev = false;
    const struct cli_option options[] = {
        {"--data", &source.data, NULL},
        {"--listen", &source.listen, NULL},
        {"--follow", &source.follow, NULL},
        {"--dev", NULL, &dev},
    };
    struct cli_arguments arguments = {.command = "serve",
                                      .source = &source,
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options)};
    struct config config = {0};
    char secret[SECRET_SIZE]; /* the source's, also at a reload */
    int code = cli_parse(&arguments, argc, argv);
    if (code) goto out;
    if (arguments.help) {
        fputs(help, stdout);
        goto out;
    }
    if (dev) {
        secret_random(secret);
        source.fallback_secret = secret;
        source.fallback_resp = DEV_RESP;
    }
    code = cli_load_config(&source, &config);
    if (!code && dev) code = keep_secret(&config, &source, secret);
    if (!code) code = serve(&config, &source, dev);
out:
    config_release(&config);
    cli_source_release(&source);
    return code;
}
