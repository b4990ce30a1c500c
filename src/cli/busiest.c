/* busiest.c -- lists the counters, reads the newest bucket of each in one call, sorts by change. */
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

static unsigned read_names(struct client *client, struct busiest_row *rows)
{
    static const struct bytes names[] = {BYTES("name"), BYTES("granularities")};
    struct json_value list = client_field(client, "counters"), values[ARRAY_COUNT(names)];
    struct json_iter iter;
    unsigned count = 0;
    for (json_each(&list, &iter); count < BUSIEST_WATCHED && json_next(&iter);) {
        json_pick(&iter.value, names, ARRAY_COUNT(names), values);
        if (values[0].type != JSON_STRING || values[0].string.size > NAME_SIZE_MAX) continue;
        struct busiest_row *row = &rows[count++];
        *row = (struct busiest_row){.duration_s = shortest(&values[1])};
        memcpy(row->name, values[0].string.data, values[0].string.size);
    }
    return count;
}

static bool list_counters(struct client *client, struct busiest *busiest)
{
    char limit[16];
    snprintf(limit, sizeof limit, "%d", BUSIEST_WATCHED);
    client_path(client, "api", "counters", client->tenant);
    client_query(client, "limit", limit);
    if (client_try(client, &(struct tally_request){0})) return false;
    busiest->count = read_names(client, busiest->rows);
    busiest->more = client_text(client, "next")[0] != '\0';
    return true;
}

static double number_of(const struct json_value *value)
{
    return value->type == JSON_STRING ? strtod(value->string.data, NULL) : 0;
}

/* One result for each row; a cell that is not there reads as 0. */
static void read_values(struct client *client, struct busiest *busiest)
{
    static const struct bytes names[] = {BYTES("net"), BYTES("added"), BYTES("subbed"),
                                         BYTES("code")};
    struct json_value results = client_field(client, "results"), values[ARRAY_COUNT(names)];
    struct json_iter iter;
    unsigned i = 0;
    for (json_each(&results, &iter); i < busiest->count && json_next(&iter); i++) {
        json_pick(&iter.value, names, ARRAY_COUNT(names), values);
        busiest->rows[i].net = number_of(&values[0]);
        busiest->rows[i].added = number_of(&values[1]);
        busiest->rows[i].subbed = number_of(&values[2]);
        busiest->rows[i].unreadable = values[3].type == JSON_STRING &&
                                      bytes_equal(values[3].string, BYTES("unknown_dimension_set"));
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

static const struct busiest_row *find(const struct busiest *busiest, const char *name)
{
    for (unsigned i = 0; i < busiest->count; i++)
        if (strcmp(busiest->rows[i].name, name) == 0) return &busiest->rows[i];
    return NULL;
}

/* A bucket that has just begun holds less than the one before: then all of it is new. */
static double growth(double now, double before)
{
    return now >= before ? now - before : now;
}

static int busier_first(const void *a, const void *b)
{
    const struct busiest_row *left = a, *right = b;
    if (left->rate != right->rate) return left->rate < right->rate ? 1 : -1;
    if (left->net != right->net) return left->net < right->net ? 1 : -1;
    return strcmp(left->name, right->name);
}

bool busiest_read(struct busiest *busiest, struct client *client, double now_s)
{
    struct busiest *before = must_alloc(sizeof *before);
    *before = *busiest;
    bool good = list_counters(client, busiest);
    if (good && busiest->count) good = query_values(client, busiest);
    if (!good) *busiest = *before;
    double seconds = now_s - before->at_s;
    for (unsigned i = 0; good && i < busiest->count; i++) {
        struct busiest_row *row = &busiest->rows[i];
        const struct busiest_row *was = find(before, row->name);
        if (!was || seconds <= 0) continue;
        row->rate = (growth(row->added, was->added) + growth(row->subbed, was->subbed)) / seconds;
    }
    if (good) busiest->at_s = now_s;
    if (busiest->count) qsort(busiest->rows, busiest->count, sizeof busiest->rows[0], busier_first);
    free(before);
    return good;
}
