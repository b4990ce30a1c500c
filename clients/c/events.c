/* events.c -- one event at a time. */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static json_t *dimensions_json(const struct tally_event *event)
{
    json_t *dimensions = json_object();
    for (size_t i = 0; dimensions && i < event->dimensions_count; i++) {
        const struct tally_dimension *each = &event->dimensions[i];
        if (!json_object_set_new(dimensions, each->key, json_string(each->value))) continue;
        json_decref(dimensions);
        dimensions = NULL;
    }
    return dimensions;
}

json_t *event_json(const struct tally_event *event, struct tally_error *error)
{
    char id[TALLY_KEY_SIZE];
    if (!event->type || !event->type[0]) {
        fail_argument(error, "An event needs a type.");
        return NULL;
    }
    json_t *payload = event->payload ? json_loads(event->payload, JSON_DECODE_ANY, NULL) : NULL;
    if (event->payload && !payload) {
        fail_argument(error, "The event's payload is not JSON.");
        return NULL;
    }
    json_t *dimensions = dimensions_json(event);
    if (!event->event_id) tally_random_key(id);
    /* "o*" takes the references; a failed pack has released them. */
    json_t *json =
        json_pack("{s:s,s:s,s:s*,s:o*,s:o*}", "eventId", event->event_id ? event->event_id : id,
                  "type", event->type, "occurredAt", event->occurred_at, "dimensions", dimensions,
                  "payload", payload);
    if (!json || !dimensions)
        fail_argument(error, "The event's text is not UTF-8, or memory ran out.");
    if (json && !dimensions) json_decref(json);
    return dimensions ? json : NULL;
}

static enum tally_end read_result(json_t *json, struct tally_event_result *result,
                                  struct tally_error *error)
{
    int64_t id = 0;
    const char *said = json_string_value(json_object_get(json, "result"));
    if (!said) return fail_reply(error);
    read_i64(json, "id", &id);
    if (!result) return TALLY_OK;
    *result = (struct tally_event_result){
        .duplicate = strcmp(said, "DROPPED_DUPLICATE") == 0,
        .conflict = json_is_true(json_object_get(json, "conflict")),
        .id = (uint64_t)id,
        .counters = (unsigned)json_integer_value(json_object_get(json, "counters"))};
    return TALLY_OK;
}

enum tally_end tally_send_event(struct tally *tally, const struct tally_event *event,
                                struct tally_event_result *result, struct tally_error *error)
{
    struct tally_reply reply;
    json_t *json = NULL;
    if (result) *result = (struct tally_event_result){0};
    json_t *body = event_json(event, error);
    if (!body) return TALLY_INVALID;
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    enum tally_end end = text ? path_begin(tally, "events", error) : fail_memory(error);
    if (!end)
        end = call_json(
            tally,
            &(struct tally_request){
                .method = "POST", .body = text, .body_size = strlen(text), .repeatable = true},
            &reply, &json, error);
    if (!end) end = read_result(json, result, error);
    json_decref(json);
    free(text);
    return end;
}
