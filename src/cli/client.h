/* client.h -- what the subcommands that talk to a running server share, on top of libtally.
 *
 * Example:
 *
 *     static const char backup_help[] = "usage: tally backup [--name NAME]\n\n" CLIENT_HELP;
 *
 *     static int backup(struct client *client, const char *name)
 *     {
 *         client_path(client, "api", "admin", "backups");
 *         client_query(client, "name", name);
 *         int code = client_send(client, "POST", BYTES("{}"));
 *         if (code) return code; // it has said why
 *         if (client->flags->json) return client_print(client);
 *         printf("job %s\n", client_text(client, "job"));
 *         return EXIT_GOOD;
 *     }
 *
 *     static int backup_command(int argc, char **argv)
 *     {
 *         struct client client;
 *         struct client_flags flags;
 *         const char *name = NULL;
 *         client_flags_init(&flags);
 *         const struct cli_option options[] = {CLIENT_OPTIONS(&flags), {"--name", &name, NULL}};
 *         struct cli_arguments arguments = {
 *             .command = "backup", .options = options, .options_count = ARRAY_COUNT(options)};
 *         int code = cli_parse(&arguments, argc, argv);
 *         if (code || arguments.help) return code ? code : (fputs(backup_help, stdout), EXIT_GOOD);
 *         code = client_open(&client, "backup", &flags);
 *         if (!code) code = backup(&client, name);
 *         client_close(&client);
 *         return code;
 *     }
 *
 * Errors go to stderr as "tally COMMAND: sentence (code)", with --json as the server's own
 * {"error":..,"code":..}; they end in EXIT_FAILED, wrong options in EXIT_USAGE. Reads, and writes
 * that have a key, are sent again by themselves when the server was away or overloaded. No message
 * holds a token, nor a user and password that stood in the URL. */
#ifndef TALLY_CLI_CLIENT_H
#define TALLY_CLI_CLIENT_H

#include <tally.h>

#include "base/json.h"
#include "cli/cli.h"

/* -- Options ----------------------------------------------------------------------------------- */

struct client_flags {
    const char *url;
    const char *token;
    const char *tenant;  /* NULL: the token's */
    const char *timeout; /* a duration */
    bool json;
};

/* Takes the defaults from TALLY_URL and TALLY_TOKEN. */
void client_flags_init(struct client_flags *flags);

#define CLIENT_OPTIONS(flags)                                                         \
    {"--url", &(flags)->url, NULL}, {"--token", &(flags)->token, NULL},               \
        {"--tenant", &(flags)->tenant, NULL}, {"--timeout", &(flags)->timeout, NULL}, \
    {                                                                                 \
        "--json", NULL, &(flags)->json                                                \
    }

/* Stands at the end of a help text; options are aligned to it. */
#define CLIENT_HELP                                                                              \
    "  --url URL            where the server is (default $TALLY_URL or http://127.0.0.1:8787)\n" \
    "  --token TOKEN        default $TALLY_TOKEN, which keeps it out of the list of processes\n" \
    "  --tenant T           default: the token's own\n"                                          \
    "  --timeout DURATION   how long to wait, retries included (default 30s)\n"                  \
    "  --json               print JSON, for programs\n"

/* -- Calls ------------------------------------------------------------------------------------- */

struct client {
    const char *command;
    const struct client_flags *flags;
    struct tally *tally;
    const char *tenant; /* "" if neither option nor token says; see client_tenant */
    struct buf path;    /* the next call's */
    struct json_parser *parser;
    struct buf text;        /* the reply, with room for the parser */
    struct json_value root; /* the reply as JSON; JSON_ABSENT if it is something else */
    struct tally_reply reply;
    struct tally_error error; /* why the last client_try failed */
};

/* Says what is wrong with the options. Call client_close either way. */
MUST_USE int client_open(struct client *client, const char *command,
                         const struct client_flags *flags);

/* The same with the caller's own options for libtally: `timeout_ms`, `attempts` and `stop` of
 * `library` are taken where they are not 0. */
MUST_USE int client_open_with(struct client *client, const char *command,
                              const struct client_flags *flags,
                              const struct tally_options *library);
void client_close(struct client *client);

/* EXIT_USAGE with a message unless there is a tenant; calls below /api/admin need none. */
MUST_USE int client_tenant(const struct client *client);

/* Starts the next call's path with these segments, each percent-encoded:
 * client_path(client, "api", "counters", client->tenant, name, "get"). */
#define client_path(client, ...) client_path_set(client, (const char *[]){__VA_ARGS__, NULL})
void client_path_set(struct client *client, const char *const *segments);

/* Adds name=value to the path, percent-encoded; nothing if `value` is NULL. */
void client_query(struct client *client, const char *name, const char *value);

/* Calls client->path. A body of size 0 is none. After EXIT_GOOD `reply` and `root` are there until
 * the next call; otherwise it has said what went wrong. Writes that are not GET are sent once
 * unless nothing can have happened; client_send_key makes them safe to repeat. */
MUST_USE int client_send(struct client *client, const char *method, struct bytes body);
MUST_USE int client_send_key(struct client *client, const char *method, struct bytes body,
                             const char *key);

/* The same without a word: `client->error` says why, `reply` and `root` hold a refusal too.
 * Anything of the request but its path may be set. */
enum tally_end client_try(struct client *client, const struct tally_request *request);

/* Prints `error` the way client_send does; returns EXIT_FAILED. */
int client_failure(const struct client *client, const struct tally_error *error);

/* Field `name` of the reply's object: its string (or "" if it is none), good until the next call;
 * its integer (0 if it is none). */
const char *client_text(struct client *client, const char *name);
int64_t client_number(const struct client *client, const char *name);
struct json_value client_field(const struct client *client, const char *name);

/* Prints the reply's body as it came, and a line feed. EXIT_GOOD. */
int client_print(const struct client *client);

/* Prints one string of a row, "-" where there is none, `width` wide as printf has it, and `end`. */
void client_column(const struct json_value *value, int width, const char *end);

/* Sends DELETE /api/admin/`what`/`name`, and says so. Returns an exit code. */
int client_remove(struct client *client, const char *what, const char *name);

/* -- Jobs -------------------------------------------------------------------------------------- */

/* Watches /api/admin/jobs/{job} until it is over, with progress on stderr if that is a terminal.
 * The last state is the reply. EXIT_FAILED after saying why if the job failed. */
MUST_USE int client_wait_job(struct client *client, const char *job);

#endif
