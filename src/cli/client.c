/* client.c -- options, calls and messages of the subcommands that talk to a server. */
#include "cli/client.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/duration.h"
#include "cli/progress.h"

#define PATH_SIZE_MAX (64u << 10)
#define REPLY_SIZE_MAX (256u << 20)
#define TIMEOUT_MS_MAX (24 * 3600 * 1000)
#define JOB_LOOK_MS_FIRST 20
#define JOB_LOOK_MS_MAX 500
#define JOB_AWAY_NS INT64_C(60000000000)

/* -- Options ----------------------------------------------------------------------------------- */

static const char *from_environment(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && value[0] ? value : otherwise;
}

void client_flags_init(struct client_flags *flags)
{
    *flags = (struct client_flags){.url = from_environment("TALLY_URL", "http://127.0.0.1:8787"),
                                   .token = from_environment("TALLY_TOKEN", NULL)};
}

static int read_timeout(const struct client *client, unsigned *ms_out)
{
    int64_t ms;
    const char *text = client->flags->timeout;
    if (!text) return EXIT_GOOD;
    if (!duration_parse(bytes_str(text), &ms) || ms < 1 || ms > TIMEOUT_MS_MAX)
        return cli_usage_error(client->command, "--timeout must be a duration from 1ms to 24h");
    *ms_out = (unsigned)ms;
    return EXIT_GOOD;
}

int client_open_with(struct client *client, const char *command, const struct client_flags *flags,
                     const struct tally_options *library)
{
    struct tally_options options = *library;
    *client = (struct client){.command = command, .flags = flags, .tenant = ""};
    buf_init(&client->path, PATH_SIZE_MAX);
    buf_init(&client->text, REPLY_SIZE_MAX + JSON_PADDING);
    client->parser = json_parser_new(REPLY_SIZE_MAX);
    options.url = flags->url;
    options.token = flags->token;
    options.tenant = flags->tenant;
    int code = read_timeout(client, &options.timeout_ms);
    if (code) return code;
    client->tally = tally_new(&options, &client->error);
    if (!client->tally) return cli_usage_error(command, "%s", client->error.sentence);
    client->tenant = tally_tenant(client->tally);
    return EXIT_GOOD;
}

int client_open(struct client *client, const char *command, const struct client_flags *flags)
{
    return client_open_with(client, command, flags, &(struct tally_options){0});
}

void client_close(struct client *client)
{
    tally_free(client->tally);
    json_parser_free(client->parser);
    buf_release(&client->path);
    buf_release(&client->text);
    *client = (struct client){0};
}

int client_tenant(const struct client *client)
{
    if (client->tenant[0]) return EXIT_GOOD;
    if (!client->flags->token)
        return cli_usage_error(client->command, "a token is needed: TALLY_TOKEN or --token");
    return cli_usage_error(client->command,
                           "whose counters? The token does not say, so --tenant must");
}

/* -- Calls ------------------------------------------------------------------------------------- */

static void add_escaped(struct buf *out, const char *text)
{
    size_t size = 3 * strlen(text) + 1;
    char *room = buf_reserve(out, size);
    if (!room) return;
    must(tally_escape(text, room, size));
    out->size += strlen(room);
}

void client_path_set(struct client *client, const char *const *segments)
{
    buf_reset(&client->path);
    for (; *segments; segments++) {
        buf_add_char(&client->path, '/');
        add_escaped(&client->path, *segments);
    }
}

void client_query(struct client *client, const char *name, const char *value)
{
    if (!value) return;
    bool first = !client->path.size || !memchr(client->path.data, '?', client->path.size);
    buf_add_char(&client->path, first ? '?' : '&');
    add_escaped(&client->path, name);
    buf_add_char(&client->path, '=');
    add_escaped(&client->path, value);
}

static void read_reply(struct client *client)
{
    struct bytes body = bytes_of(client->reply.body, client->reply.body_size);
    client->root = (struct json_value){.type = JSON_ABSENT};
    buf_reset(&client->text);
    char *room = buf_reserve(&client->text, body.size + JSON_PADDING);
    if (!room || body.size == 0) return;
    memcpy(room, body.data, body.size);
    memset(room + body.size, 0, JSON_PADDING);
    client->text.size = body.size;
    if (!json_parse(client->parser, buf_bytes(&client->text), &client->root))
        client->root = (struct json_value){.type = JSON_ABSENT};
}

enum tally_end client_try(struct client *client, const struct tally_request *request)
{
    struct tally_request sent = *request;
    buf_add_char(&client->path, '\0');
    client->root = (struct json_value){.type = JSON_ABSENT};
    client->reply = (struct tally_reply){.body = ""};
    if (client->path.failed) {
        client->error = (struct tally_error){.code = "invalid_argument",
                                             .sentence = "The arguments are too long."};
        return TALLY_INVALID;
    }
    sent.path = client->path.data;
    enum tally_end end = tally_call(client->tally, &sent, &client->reply, &client->error);
    read_reply(client);
    return end;
}

int client_failure(const struct client *client, const struct tally_error *error)
{
    if (!client->flags->json)
        return cli_failure(client->command, "%s (%s)", error->sentence, error->code);
    struct buf line;
    buf_init(&line, 16 * sizeof *error);
    buf_add(&line, BYTES("{\"error\":"));
    buf_add_json(&line, bytes_str(error->sentence));
    buf_add(&line, BYTES(",\"code\":"));
    buf_add_json(&line, bytes_str(error->code));
    buf_add(&line, BYTES("}"));
    fprintf(stderr, "%.*s\n", (int)line.size, line.data);
    buf_release(&line);
    return EXIT_FAILED;
}

int client_send_key(struct client *client, const char *method, struct bytes body, const char *key)
{
    struct tally_request request = {
        .method = method, .body = body.size ? body.data : NULL, .body_size = body.size, .key = key};
    if (client_try(client, &request)) return client_failure(client, &client->error);
    return EXIT_GOOD;
}

int client_send(struct client *client, const char *method, struct bytes body)
{
    return client_send_key(client, method, body, NULL);
}

/* -- The reply --------------------------------------------------------------------------------- */

struct json_value client_field(const struct client *client, const char *name)
{
    struct json_value value;
    struct bytes wanted = bytes_str(name);
    json_pick(&client->root, &wanted, 1, &value);
    return value;
}

/* The parser ends its strings with a NUL. */
const char *client_text(struct client *client, const char *name)
{
    struct json_value value = client_field(client, name);
    return value.type == JSON_STRING ? value.string.data : "";
}

int64_t client_number(const struct client *client, const char *name)
{
    struct json_value value = client_field(client, name);
    return value.type == JSON_INT ? value.integer : 0;
}

int client_print(const struct client *client)
{
    fwrite(client->reply.body, 1, client->reply.body_size, stdout);
    putchar('\n');
    return EXIT_GOOD;
}

void client_column(const struct json_value *value, int width, const char *end)
{
    struct bytes text = value->type == JSON_STRING ? value->string : BYTES("-");
    printf("%*.*s%s", width, (int)text.size, text.data, end);
}

int client_remove(struct client *client, const char *what, const char *name)
{
    client_path(client, "api", "admin", what, name);
    int code = client_send(client, "DELETE", BYTES_NONE);
    if (code || client->flags->json) return code ? code : client_print(client);
    printf("removed %s\n", name);
    return EXIT_GOOD;
}

/* -- Jobs -------------------------------------------------------------------------------------- */

static double read_share(struct client *client)
{
    char digits[32];
    struct json_value value = client_field(client, "progress");
    if (value.type != JSON_INT && value.type != JSON_NUMBER) return -1;
    struct bytes text = json_text(client->parser, &value);
    snprintf(digits, sizeof digits, "%.*s", (int)text.size, text.data);
    return strtod(digits, NULL);
}

static void show_job(struct client *client, struct progress *progress)
{
    char state[32];
    double share = read_share(client);
    snprintf(state, sizeof state, "%s", client_text(client, "state"));
    progress_show(progress, share, "%s", state);
}

static int job_failure(struct client *client)
{
    struct tally_error error = {.code = "job_failed"};
    snprintf(error.sentence, sizeof error.sentence, "%s", client_text(client, "error"));
    return client_failure(client, &error);
}

/* Looks once; the job goes on without this process, so a server that restarts meanwhile
 * is waited for. */
static int look_at_job(struct client *client, const char *id, int64_t *seen_ns)
{
    client_path(client, "api", "admin", "jobs", id);
    enum tally_end end = client_try(client, &(struct tally_request){0});
    int64_t now_ns = clock_mono_ns(&clock_system);
    if (end == TALLY_OK) *seen_ns = now_ns;
    bool patient = end == TALLY_UNKNOWN && now_ns - *seen_ns < JOB_AWAY_NS;
    return end && !patient ? client_failure(client, &client->error) : EXIT_GOOD;
}

int client_wait_job(struct client *client, const char *job)
{
    struct progress progress;
    long pause_ms = JOB_LOOK_MS_FIRST;
    char label[64], id[64];
    int64_t seen_ns = clock_mono_ns(&clock_system);
    snprintf(id, sizeof id, "%s", job); /* `job` may be in the reply that goes away */
    snprintf(label, sizeof label, "tally %s", client->command);
    progress_begin(&progress, label);
    progress.quiet = client->flags->json;
    for (;;) {
        int code = look_at_job(client, id, &seen_ns);
        const char *state = client_text(client, "state");
        bool done = strcmp(state, "done") == 0, failed = strcmp(state, "failed") == 0;
        if (code || done || failed) {
            progress_clear(&progress);
            return code ? code : done ? EXIT_GOOD : job_failure(client);
        }
        show_job(client, &progress);
        nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000}, NULL);
        if (pause_ms < JOB_LOOK_MS_MAX) pause_ms += pause_ms / 2;
    }
}
