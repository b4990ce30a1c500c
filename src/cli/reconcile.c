/* reconcile.c -- `tally reconcile`: how reconciling stands, what is wrong, and putting it right. */
#include <stdlib.h>

#include "cli/client.h"

#define WORDS_MAX 18 /* what to do, the entry, and an entity's keys */
#define BODY_MAX (64u << 10)

static const char help[] =
    "usage: tally reconcile status NAME\n"
    "       tally reconcile drift NAME\n"
    "       tally reconcile run NAME KEY=VALUE...\n"
    "       tally reconcile request NAME KEY=VALUE...\n"
    "\n"
    "NAME is an entry of `reconcile:` in the server's config. `status` shows how many entities wait\n"
    "to be counted anew; `drift` counts them all and lists those that differ from the source of the\n"
    "truth, changing nothing; `run` counts one entity now and puts it right; `request` asks for it\n"
    "and does not wait. KEY=VALUE names the entity: conversationId=c1.\n"
    "\n" CLIENT_HELP;

/* -- The entity -------------------------------------------------------------------------------- */

/* Makes {"conversationId":"c1"} of the words that are left. */
static int entity_body(const char *const *words, struct buf *body)
{
    buf_add_char(body, '{');
    for (unsigned i = 0; words[i]; i++) {
        struct bytes value = bytes_str(words[i]);
        struct bytes key = bytes_split(&value, '=');
        if (!value.data || key.size == 0)
            return cli_usage_error("reconcile", "\"%s\" must have the form KEY=VALUE", words[i]);
        if (i) buf_add_char(body, ',');
        buf_add_json(body, key);
        buf_add_char(body, ':');
        buf_add_json(body, value);
    }
    buf_add_char(body, '}');
    if (body->failed) return cli_usage_error("reconcile", "the entity is too long");
    return EXIT_GOOD;
}

static int send_entity(struct client *client, const char *name, const char *action,
                       const char *const *words)
{
    struct buf body;
    buf_init(&body, BODY_MAX);
    int code = entity_body(words, &body);
    client_path(client, "api", "reconcile", client->tenant, name, action);
    if (!code) code = client_send(client, "POST", buf_bytes(&body));
    buf_release(&body);
    return code;
}

/* -- What is printed --------------------------------------------------------------------------- */

static struct json_value pick(const struct json_value *object, struct bytes name)
{
    struct json_value value;
    json_pick(object, &name, 1, &value);
    return value;
}

/* Prints conversationId=c1. */
static void print_entity(const struct json_value *entity)
{
    struct json_iter field;
    const char *gap = "";
    for (json_each(entity, &field); json_next(&field); gap = " ")
        printf("%s%.*s=%.*s", gap, (int)field.key.size, field.key.data,
               (int)field.value.string.size, field.value.string.data);
    putchar('\n');
}

static void print_row(const struct json_value *row)
{
    struct json_value entity = pick(row, BYTES("entity"));
    print_entity(&entity);
}

/* Prints a line for each counter: its name and three numbers under these names. */
static void print_counters(const struct json_value *row, const struct bytes names[3])
{
    struct json_value first = pick(row, names[0]);
    struct json_value second = pick(row, names[1]);
    struct json_value third = pick(row, names[2]);
    struct json_iter field;
    for (json_each(&first, &field); json_next(&field);) {
        struct json_value b = pick(&second, field.key), c = pick(&third, field.key);
        printf("  %-30.*s %.*s %.*s, %.*s %.*s, %.*s %.*s\n", (int)field.key.size, field.key.data,
               (int)names[0].size, names[0].data, (int)field.value.string.size,
               field.value.string.data, (int)names[1].size, names[1].data, (int)b.string.size,
               b.string.data, (int)names[2].size, names[2].data, (int)c.string.size, c.string.data);
    }
}

/* -- What there is to do ----------------------------------------------------------------------- */

static int status(struct client *client, const char *name, const char *const *words)
{
    (void)words;
    client_path(client, "api", "reconcile", client->tenant, name, "status");
    int code = client_send(client, "GET", BYTES_NONE);
    if (code) return code;
    if (client->flags->json) return client_print(client);
    printf("%lld waiting", (long long)client_number(client, "pending"));
    if (client_number(client, "pending") > 0)
        printf(" since %s", client_text(client, "oldestMarkAt"));
    if (client_number(client, "failing") > 0)
        printf(", %lld failing", (long long)client_number(client, "failing"));
    printf("\nsource %s", client_text(client, "source"));
    if (client_number(client, "retryInSeconds") > 0)
        printf(", asked again in %lld s", (long long)client_number(client, "retryInSeconds"));
    putchar('\n');
    return EXIT_GOOD;
}

/* Prints them and returns how many there are. */
static unsigned print_uncounted(struct client *client)
{
    struct json_value entities = client_field(client, "uncounted");
    struct json_iter entity;
    unsigned count = 0;
    for (json_each(&entities, &entity); json_next(&entity); count++) {
        if (client->flags->json) continue;
        print_entity(&entity.value);
        puts("  could not be counted; the server's log says why");
    }
    return count;
}

/* Prints one page; `*after` is the next one's, or NULL. */
static int drift_page(struct client *client, const char *name, char **after, unsigned *found)
{
    static const struct bytes names[] = {BYTES("stored"), BYTES("actual"), BYTES("drift")};
    client_path(client, "api", "reconcile", client->tenant, name, "drift");
    client_query(client, "after", *after);
    free(*after);
    *after = NULL;
    int code = client_send(client, "GET", BYTES_NONE);
    if (code) return code;
    if (client->flags->json) client_print(client);
    struct json_value rows = client_field(client, "drift");
    struct json_iter row;
    for (json_each(&rows, &row); json_next(&row); ++*found) {
        if (client->flags->json) continue;
        print_row(&row.value);
        print_counters(&row.value, names);
    }
    *found += print_uncounted(client);
    if (client_field(client, "next").type == JSON_STRING) {
        *after = strdup(client_text(client, "next"));
        must(*after != NULL);
    }
    return EXIT_GOOD;
}

static int drift(struct client *client, const char *name, const char *const *words)
{
    (void)words;
    char *after = NULL;
    unsigned found = 0;
    int code;
    do
        code = drift_page(client, name, &after, &found);
    while (!code && after);
    if (!code && found == 0 && !client->flags->json) puts("nothing is wrong");
    return code;
}

static int run(struct client *client, const char *name, const char *const *words)
{
    static const struct bytes names[] = {BYTES("before"), BYTES("after"), BYTES("diff")};
    int code = send_entity(client, name, "run", words);
    if (code) return code;
    if (client->flags->json) return client_print(client);
    print_row(&client->root);
    print_counters(&client->root, names);
    return EXIT_GOOD;
}

static int request(struct client *client, const char *name, const char *const *words)
{
    int code = send_entity(client, name, "request", words);
    if (code) return code;
    if (client->flags->json) return client_print(client);
    puts("requested");
    return EXIT_GOOD;
}

static const struct action {
    const char *name;
    int (*act)(struct client *client, const char *name, const char *const *words);
    bool entity; /* it takes an entity */
} actions[] = {{"status", status, false},
               {"drift", drift, false},
               {"run", run, true},
               {"request", request, true}};

static const struct action *action_find(const char *name)
{
    for (size_t i = 0; name && i < ARRAY_COUNT(actions); i++)
        if (strcmp(actions[i].name, name) == 0) return &actions[i];
    return NULL;
}

static int act(const struct client_flags *flags, const char *const *words)
{
    const struct action *action = action_find(words[0]);
    if (!action) return cli_usage_error("reconcile", "what? status, drift, run or request");
    if (!words[1]) return cli_usage_error("reconcile", "which entry of the config's reconcile?");
    if (!action->entity && words[2])
        return cli_usage_error("reconcile", "%s takes no entity", action->name);
    struct client client;
    int code = client_open(&client, "reconcile", flags);
    if (!code) code = client_tenant(&client);
    if (!code) code = action->act(&client, words[1], words + 2);
    client_close(&client);
    return code;
}

int cli_reconcile(int argc, char **argv)
{
    struct client_flags flags;
    const char *words[WORDS_MAX + 1] = {NULL};
    client_flags_init(&flags);
    const struct cli_option options[] = {CLIENT_OPTIONS(&flags)};
    struct cli_arguments arguments = {.command = "reconcile",
                                      .options = options,
                                      .options_count = ARRAY_COUNT(options),
                                      .positional = words,
                                      .positional_max = WORDS_MAX};
    int code = cli_parse(&arguments, argc, argv);
    if (code) return code;
    if (arguments.help) {
        fputs(help, stdout);
        return EXIT_GOOD;
    }
    return act(&flags, words);
}
