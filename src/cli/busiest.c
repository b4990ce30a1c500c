/* busiest.c -- asks what changes, fills up from the list, reads the newest bucket of each at once.
 */
#include "cli/busiest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define BODY_SIZE_MAX (256u << 10)

static int64_t shortest(const struct json_value *granularities)
{
    struct json_iter iter;
    int64_t least = -1;
    for (json_each(granularities, &iter); json_next(&iter);)
        if (iter.value.type == JSON_INT && (least < 0 || iter.value.integer < least))
            least = iter.value.integer;
    return least < 0 ? 0 : least;
}

static bool has(const struct busiest *busiest, struct bytes name)
{
    for (unsigned i = 0; i < busiest->count; i++)
        if (bytes_equal(bytes_str(busiest->rows[i].name), name)) return true;
    return false;
}

/* NULL: there is no room, or it is no name. */
static struct busiest_row *add_row(struct busiest *busiest, const struct json_value *name)
{
    if (busiest->count == BUSIEST_SHOWN) return NULL;
    if (name->type != JSON_STRING || name->string.size > NAME_SIZE_MAX) return NULL;
    struct busiest_row *row = &busiest->rows[busiest->count++];
    *row = (struct busiest_row){0};
    memcpy(row->name, name->string.data, name->string.size);
    return row;
}

static void set_limit(struct client *client)
{
    char limit[16];
    snprintf(limit, sizeof limit, "%d", BUSIEST_SHOWN);
    client_query(client, "limit", limit);
}

static double number_of(const struct json_value *value)
{
    return value->type == JSON_STRING ? strtod(value->string.data, NULL) : 0;
}

static bool ask_busiest(struct client *client, struct busiest *busiest)
{
    static const struct bytes names[] = {BYTES("name"), BYTES("durationSeconds"), BYTES("changes")};
    client_path(client, "api", "busiest", client->tenant);
    set_limit(client);
    if (client_try(client, &(struct tally_request){0})) return false;
    struct json_value list = client_field(client, "counters"), values[ARRAY_COUNT(names)];
    struct json_value milliseconds = client_field(client, "milliseconds");
    double seconds = milliseconds.type == JSON_INT ? (double)milliseconds.integer / 1000 : 0;
    struct json_iter iter;
    for (json_each(&list, &iter); json_next(&iter);) {
        json_pick(&iter.value, names, ARRAY_COUNT(names), values);
        struct busiest_row *row = add_row(busiest, &values[0]);
        if (!row) break;
        row->duration_s = values[1].type == JSON_INT ? values[1].integer : 0;
        row->rate = seconds > 0 ? number_of(&values[2]) / seconds : 0;
    }
    return true;
}

static bool list_others(struct client *client, struct busiest *busiest)
{
    static const struct bytes names[] = {BYTES("name"), BYTES("granularities")};
    client_path(client, "api", "counters", client->tenant);
    set_limit(client);
    if (client_try(client, &(struct tally_request){0})) return false;
    struct json_value list = client_field(client, "counters"), values[ARRAY_COUNT(names)];
    struct json_iter iter;
    busiest->more = client_text(client, "next")[0] != '\0';
    for (json_each(&list, &iter); json_next(&iter);) {
        json_pick(&iter.value, names, ARRAY_COUNT(names), values);
        if (values[0].type == JSON_STRING && has(busiest, values[0].string)) continue;
        struct busiest_row *row = add_row(busiest, &values[0]);
        if (!row) busiest->more = true;
        if (row) row->duration_s = shortest(&values[1]);
    }
    return true;
}

/* One result for each row; a cell that is not there reads as 0. */
static void read_values(struct client *client, struct busiest *busiest)
{
    static const struct bytes names[] = {BYTES("net"), BYTES("code")};
    struct json_value results = client_field(client, "results"), values[ARRAY_COUNT(names)];
    struct json_iter iter;
    unsigned i = 0;
    for (json_each(&results, &iter); i < busiest->count && json_next(&iter); i++) {
        json_pick(&iter.value, names, ARRAY_COUNT(names), values);
        busiest->rows[i].net = number_of(&values[0]);
        busiest->rows[i].unreadable = values[1].type == JSON_STRING &&
                                      bytes_equal(values[1].string, BYTES("unknown_dimension_set"));
    }
}

static bool query_values(struct client *client, struct busiest *busiest)
{
    struct buf body;
    char now[TALLY_TIME_SIZE];
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    tally_time((int64_t)time.tv_sec * 1000, now);
    buf_init(&body, BODY_SIZE_MAX);
    buf_add(&body, BYTES("{\"queries\":["));
    for (unsigned i = 0; i < busiest->count; i++)
        buf_addf(&body,
                 "%s{\"get\":{\"name\":\"%s\",\"durationSeconds\":%" PRId64
                 ",\"timestamp\":\"%s\"}}",
                 i ? "," : "", busiest->rows[i].name, busiest->rows[i].duration_s, now);
    buf_add(&body, BYTES("]}"));
    must(!body.failed);
    client_path(client, "api", "counters", client->tenant, "query");
    struct tally_request request = {
        .method = "POST", .body = body.data, .body_size = body.size, .repeatable = true};
    bool good = client_try(client, &request) == TALLY_OK;
    if (good) read_values(client, busiest);
    buf_release(&body);
    return good;
}

static int busier_first(const void *a, const void *b)
{
    const struct busiest_row *left = a, *right = b;
    if (left->rate != right->rate) return left->rate < right->rate ? 1 : -1;
    if (left->net != right->net) return left->net < right->net ? 1 : -1;
    return strcmp(left->name, right->name);
}

bool busiest_read(struct busiest *busiest, struct client *client)
{
    struct busiest *fresh = must_calloc(1, sizeof *fresh);
    bool good = ask_busiest(client, fresh) && list_others(client, fresh);
    if (good && fresh->count) good = query_values(client, fresh);
    if (good && fresh->count) qsort(fresh->rows, fresh->count, sizeof fresh->rows[0], busier_first);
    if (good) *busiest = *fresh;
    free(fresh);
    return good;
}
