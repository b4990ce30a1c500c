/* absent.c -- what to say beside a read that found nothing. */
#include "cli/absent.h"

#include <inttypes.h>

#define HINTS_MAX 8u
#define PAGES_MAX 64 /* pages of a listing that are looked through though all are empty */

static void say(const struct client *client, const char *sentence)
{
    struct buf json;
    if (!client->flags->json) {
        fprintf(stderr, "tally %s: %s\n", client->command, sentence);
        return;
    }
    buf_init(&json, 64u << 10);
    buf_add_json(&json, bytes_str(sentence));
    fprintf(stderr, "{\"warning\":%.*s}\n", (int)json.size, json.data);
    buf_release(&json);
}

/* Writes 60 as 1m, as a person would. */
static void add_duration(struct buf *out, int64_t seconds)
{
    static const struct {
        int64_t seconds;
        char unit;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    unsigned i = 0;
    if (seconds == 0) {
        buf_add_char(out, '0');
        return;
    }
    while (seconds % units[i].seconds)
        i++;
    buf_addf(out, "%" PRId64 "%c", seconds / units[i].seconds, units[i].unit);
}

static void add_option(struct buf *out, const struct json_value *granularity)
{
    static const struct bytes names[] = {BYTES("bucket"), BYTES("zone")};
    struct json_value values[ARRAY_COUNT(names)];
    if (granularity->type == JSON_INT) {
        buf_add(out, BYTES("--duration "));
        add_duration(out, granularity->integer);
    } else if (granularity->type == JSON_OBJECT) {
        (void)json_pick(granularity, names, ARRAY_COUNT(names), values);
        buf_add(out, BYTES("--bucket "));
        buf_add(out, values[0].string);
        buf_add(out, BYTES(" --zone "));
        buf_add(out, values[1].string);
    }
}

/* Writes "--duration 1m, --duration 1h". A window, which has no duration, is read
 * without the option. */
static void add_options(struct buf *out, const struct json_value *granularities)
{
    struct json_iter iter;
    unsigned count = 0;
    for (json_each(granularities, &iter); json_next(&iter) && count < HINTS_MAX; count++) {
        if (count) buf_add(out, BYTES(", "));
        add_option(out, &iter.value);
    }
    if (count == 0) buf_add(out, BYTES("no --duration"));
}

static void hint(const struct client *client, const struct json_value *granularities)
{
    struct buf sentence;
    buf_init(&sentence, 4096);
    buf_add(&sentence, BYTES("the counter is there: read it with "));
    add_options(&sentence, granularities);
    buf_add_char(&sentence, '\0');
    must(!sentence.failed);
    say(client, sentence.data);
    buf_release(&sentence);
}

void absent_hint(const struct client *client)
{
    struct json_value granularities = client_field(client, "granularities");
    bool told = granularities.type == JSON_ARRAY;
    if (told && !client->flags->json) hint(client, &granularities);
}

static bool is_named(const struct json_value *counter, struct bytes name)
{
    static const struct bytes key = BYTES("name");
    struct json_value value;
    json_pick(counter, &key, 1, &value);
    return value.type == JSON_STRING && bytes_equal(value.string, name);
}

/* Names are listed in order, so a name that is there comes first of those that begin with it. Where
 * the list cannot be had, the counter is taken to be there. */
static bool is_listed(struct client *client, const char *name)
{
    struct json_iter iter;
    char after[1024] = "";
    for (int page = 0; page < PAGES_MAX; page++) {
        client_path(client, "api", "counters", client->tenant);
        client_query(client, "prefix", name);
        client_query(client, "limit", "1");
        client_query(client, "after", after[0] ? after : NULL);
        if (client_try(client, &(struct tally_request){0})) return true;
        struct json_value counters = client_field(client, "counters");
        json_each(&counters, &iter);
        if (json_next(&iter)) return is_named(&iter.value, bytes_str(name));
        snprintf(after, sizeof after, "%s", client_text(client, "next"));
        if (!after[0]) return false;
    }
    return true;
}

void absent_explain(struct client *client, const char *name)
{
    char sentence[320]; /* a name has 255 characters at most */
    if (client_try(client, &(struct tally_request){0}) == TALLY_OK) return;
    struct json_value granularities = client_field(client, "granularities");
    bool others = granularities.type == JSON_ARRAY;
    if (others) hint(client, &granularities);
    if (others || strcmp(client->error.code, "not_found") != 0 || is_listed(client, name)) return;
    snprintf(sentence, sizeof sentence, "there is no counter %s", name);
    say(client, sentence);
}
