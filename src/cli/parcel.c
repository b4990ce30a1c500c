/* parcel.c -- lines become a request; its reply becomes what happened to each line. */
#include "cli/parcel.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"

#define BODY_SIZE_MAX (PARCEL_BYTES_FULL + (2u << 20)) /* a full parcel and the longest line */

void parcel_init(struct parcel *parcel, unsigned lines_max)
{
    *parcel = (struct parcel){.count_max = lines_max};
    buf_init(&parcel->body, BODY_SIZE_MAX);
    parcel->begins = must_calloc(lines_max + 1, sizeof *parcel->begins);
    parcel->numbers = must_calloc(lines_max, sizeof *parcel->numbers);
}

void parcel_release(struct parcel *parcel)
{
    buf_release(&parcel->body);
    free(parcel->begins);
    free(parcel->numbers);
    free(parcel->rejections);
}

void parcel_reset(struct parcel *parcel)
{
    buf_reset(&parcel->body);
    parcel->count = parcel->sent = parcel->rejections_count = 0;
    parcel->applied = parcel->duplicates = 0;
}

bool parcel_is_full(const struct parcel *parcel)
{
    return parcel->count == parcel->count_max || parcel->rejections_count >= parcel->count_max ||
           parcel->body.size >= PARCEL_BYTES_FULL;
}

static struct rejection *add_rejection(struct parcel *parcel, uint64_t number)
{
    if (parcel->rejections_count == parcel->rejections_room) {
        parcel->rejections_room = parcel->rejections_room ? parcel->rejections_room * 2 : 16;
        parcel->rejections =
            must_realloc(parcel->rejections, parcel->rejections_room * sizeof *parcel->rejections);
    }
    struct rejection *rejection = &parcel->rejections[parcel->rejections_count++];
    *rejection = (struct rejection){.line = number};
    return rejection;
}

void parcel_reject(struct parcel *parcel, uint64_t number, const char *code, const char *sentence)
{
    struct tally_error *why = &add_rejection(parcel, number)->why;
    snprintf(why->code, sizeof why->code, "%s", code);
    snprintf(why->sentence, sizeof why->sentence, "%s", sentence);
}

/* -- Filling ----------------------------------------------------------------------------------- */

static struct bytes without_space(struct bytes line)
{
    static const char space[] = " \t\r";
    while (line.size && strchr(space, line.data[line.size - 1]))
        line.size--;
    while (line.size && strchr(space, line.data[0]))
        line = bytes_of(line.data + 1, line.size - 1);
    return line;
}

static bool is_given(const struct json_value *value)
{
    return value->type != JSON_ABSENT && value->type != JSON_NULL;
}

static bool has_fields(const struct json_value *object)
{
    struct json_iter iter;
    json_each(object, &iter);
    return json_next(&iter);
}

/* The key goes before the last brace. Of repeated fields the last one counts, so a null
 * there stays harmless. */
static void add_with_key(struct parcel *parcel, const struct parcel_rules *rules, uint64_t number,
                         struct bytes line, const struct json_value *object, const char *field)
{
    struct buf *body = &parcel->body;
    buf_add(body, bytes_of(line.data, line.size - 1));
    if (has_fields(object)) buf_add_char(body, ',');
    buf_addf(body, "\"%s\":\"%s-%" PRIu64 "-%016" PRIx64 "\"}", field, rules->name, number,
             hash_checksum(line));
}

void parcel_add(struct parcel *parcel, struct parcel_rules *rules, uint64_t number,
                struct bytes line)
{
    enum { OP, KEY, ID, FIELDS };
    static const struct bytes names[FIELDS] = {BYTES("op"), BYTES("idempotencyKey"),
                                               BYTES("eventId")};
    struct json_value object, values[FIELDS];
    line = without_space(line);
    if (line.size == 0) return;
    bool good = json_parse(rules->parser, line, &object);
    if (!good || object.type != JSON_OBJECT) {
        parcel_reject(parcel, number, "invalid_request",
                      good ? "The line must be one JSON object." : "The line is not JSON.");
        return;
    }
    json_pick(&object, names, FIELDS, values);
    if (rules->kind == PARCEL_UNDECIDED)
        rules->kind = values[OP].type != JSON_ABSENT ? PARCEL_OPERATIONS : PARCEL_EVENTS;
    bool operation = rules->kind == PARCEL_OPERATIONS;
    bool named = is_given(&values[operation ? KEY : ID]);
    if (!named && !operation && !rules->make_ids) {
        parcel_reject(parcel, number, "event_id_required",
                      "The event has no eventId; --make-ids gives it one.");
        return;
    }
    parcel->begins[parcel->count] = parcel->body.size;
    parcel->numbers[parcel->count++] = number;
    if (named)
        buf_add(&parcel->body, line);
    else
        add_with_key(parcel, rules, number, line, &object,
                     operation ? "idempotencyKey" : "eventId");
    buf_add_char(&parcel->body, '\n');
    parcel->begins[parcel->count] = parcel->body.size;
    must(!parcel->body.failed);
}

/* -- Sending ----------------------------------------------------------------------------------- */

struct parcel_range {
    unsigned first;
    unsigned count;
};

static struct bytes text_of(const struct json_value *value)
{
    return value->type == JSON_STRING ? value->string : BYTES("?");
}

static void take_rejection(struct parcel *parcel, unsigned index, const struct json_value *result)
{
    static const struct bytes names[] = {BYTES("error"), BYTES("code")};
    struct json_value values[ARRAY_COUNT(names)];
    json_pick(result, names, ARRAY_COUNT(names), values);
    struct bytes sentence = text_of(&values[0]), code = text_of(&values[1]);
    struct tally_error *why = &add_rejection(parcel, parcel->numbers[index])->why;
    snprintf(why->code, sizeof why->code, "%.*s", (int)code.size, code.data);
    snprintf(why->sentence, sizeof why->sentence, "%.*s", (int)sentence.size, sentence.data);
}

/* The reply has one result for each operation, in order. */
static bool take_operations(struct parcel *parcel, struct parcel_range range, struct client *client)
{
    static const struct bytes names[] = {BYTES("status"), BYTES("replayed")};
    struct json_value results = client_field(client, "results"), values[ARRAY_COUNT(names)];
    struct json_iter iter;
    unsigned index = 0;
    for (json_each(&results, &iter); json_next(&iter); index++) {
        if (index == range.count) return false;
        json_pick(&iter.value, names, ARRAY_COUNT(names), values);
        if (values[0].type != JSON_INT || values[0].integer != 200)
            take_rejection(parcel, range.first + index, &iter.value);
        else if (values[1].type == JSON_BOOL && values[1].boolean)
            parcel->duplicates++;
        else
            parcel->applied++;
    }
    return index == range.count;
}

/* The reply has totals, and the rejected events with their index. */
static bool take_events(struct parcel *parcel, struct parcel_range range, struct client *client)
{
    static const struct bytes name = BYTES("index");
    struct json_value results = client_field(client, "results"), index;
    struct json_iter iter;
    if (results.type != JSON_ARRAY) return false;
    parcel->applied += (uint64_t)client_number(client, "applied");
    parcel->duplicates += (uint64_t)client_number(client, "duplicates");
    for (json_each(&results, &iter); json_next(&iter);) {
        json_pick(&iter.value, &name, 1, &index);
        if (index.type != JSON_INT || index.integer < 0 || index.integer >= range.count)
            return false;
        take_rejection(parcel, range.first + (unsigned)index.integer, &iter.value);
    }
    return true;
}

static enum tally_end send_once(struct parcel *parcel, enum parcel_kind kind,
                                struct parcel_range range, struct client *client)
{
    size_t begin = parcel->begins[range.first];
    size_t end = parcel->begins[range.first + range.count];
    bool events = kind == PARCEL_EVENTS;
    if (events) {
        client_path(client, "api", "events", client->tenant);
        client_query(client, "results", "errors");
    } else {
        client_path(client, "api", "counters", client->tenant, "batch");
    }
    struct tally_request request = {.method = "POST",
                                    .body = parcel->body.data + begin,
                                    .body_size = end - begin,
                                    .type = "application/x-ndjson",
                                    .repeatable = true};
    enum tally_end sent = client_try(client, &request);
    if (sent) return sent;
    bool good =
        events ? take_events(parcel, range, client) : take_operations(parcel, range, client);
    if (good) return TALLY_OK;
    client->error = (struct tally_error){.code = "bad_reply",
                                         .sentence = "The reply is not what tally would say."};
    return TALLY_UNKNOWN;
}

static bool was_too_much(const struct tally_error *error)
{
    return error->status == 413 || strcmp(error->code, "too_many_ops") == 0;
}

static int by_line(const void *a, const void *b)
{
    const struct rejection *left = a, *right = b;
    return (left->line > right->line) - (left->line < right->line);
}

enum tally_end parcel_send(struct parcel *parcel, enum parcel_kind kind, struct client *client)
{
    unsigned piece = parcel->count;
    while (parcel->sent < parcel->count) {
        unsigned left = parcel->count - parcel->sent;
        struct parcel_range range = {parcel->sent, piece < left ? piece : left};
        enum tally_end end = send_once(parcel, kind, range, client);
        bool too_much = end != TALLY_OK && was_too_much(&client->error);
        if (end != TALLY_OK && !too_much) return end;
        if (too_much && range.count > 1) {
            piece = range.count / 2;
            continue;
        }
        if (too_much)
            parcel_reject(parcel, parcel->numbers[range.first], client->error.code,
                          client->error.sentence);
        parcel->sent += range.count;
    }
    if (parcel->rejections_count)
        qsort(parcel->rejections, parcel->rejections_count, sizeof *parcel->rejections, by_line);
    return TALLY_OK;
}
